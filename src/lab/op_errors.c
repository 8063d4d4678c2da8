/* op_errors: computes how far each number of a traced run may be from the exact result for the true inputs.
 *
 * The same plan is built a second time with the errors of the inputs in place of the inputs, so that both have one
 * layout. Then, node by node, two parts are added up: how far the errors of the inputs can move the result
 * (vkf_ref_propagate_error), and the derived bound of the node itself.
 */
#include <stdio.h>
#include <string.h>

#include "lab/op.h"
#include "ref/ref.h"

/* Sets the inputs of the second plan: int32 inputs as they are, and for a float input NAME the array NAME.error, or
 * zeros. */
static vkf_status take_inputs(vkf_op_build *e, const vkf_op_build *o) {
  vkf_array *inputs = vkf_arena_alloc(&e->arena, o->n_inputs, sizeof *inputs);
  if (!inputs) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < o->n_inputs; i++) {
    const vkf_array *a = &o->inputs[i];
    char name[128];
    inputs[i] = *a;
    if (a->dtype != VKF_F32) continue;
    snprintf(name, sizeof name, "%s.error", a->name);
    const vkf_array *error = vkf_engine_array_find(o->inputs, o->n_inputs, name);
    const size_t n = vkf_engine_array_elements(a);
    if (!error) {
      inputs[i].data = vkf_arena_alloc(&e->arena, n, sizeof(float)); /* zeroed */
      if (!inputs[i].data) return VKF_ERROR_MEMORY;
      continue;
    }
    if (error->dtype != VKF_F32 || error->rank != a->rank || memcmp(error->shape, a->shape, a->rank * sizeof *a->shape))
      return vkf_env_fail(e->env, VKF_ERROR_ARGUMENT, "%s: expected float32 of the shape of %s", name, a->name);
    inputs[i].data = error->data;
    for (size_t k = 0; k < n; k++)
      if (!(((const float *)error->data)[k] >= 0))
        return vkf_env_fail(e->env, VKF_ERROR_ARGUMENT, "%s: expected numbers of at least 0, found %g", name,
                            (double)((const float *)error->data)[k]);
  }
  e->inputs = inputs;
  e->n_inputs = o->n_inputs;
  return VKF_OK;
}

static vkf_status take_slots(vkf_op_errors *e) {
  vkf_op_build *plan = e->plan;
  e->slots = vkf_arena_alloc(&plan->arena, plan->b.plan.n_slots, sizeof *e->slots);
  if (!e->slots) return VKF_ERROR_MEMORY;
  for (uint32_t i = 0; i < plan->b.plan.n_slots; i++) {
    const vkf_slot *s = &plan->b.slots[i];
    if (s->dtype != VKF_F32) continue;
    if (s->kind == VKF_SLOT_CONSTANT) {
      e->slots[i] = (float *)(uintptr_t)s->data; /* only read */
      continue;
    }
    e->slots[i] = vkf_arena_alloc(&plan->arena, vkf_slot_elements(s), sizeof(float));
    if (!e->slots[i]) return VKF_ERROR_MEMORY;
    if (s->kind == VKF_SLOT_WEIGHT) vkf_lab_op_load(plan, s->index, 0, plan->weights[s->index].shape[0], e->slots[i]);
  }
  return VKF_OK;
}

vkf_status vkf_lab_op_errors_init(vkf_op_errors *e, const vkf_op_build *o, const char *op,
                                  void (*build)(vkf_op_build *)) {
  vkf_status st = VKF_OK;
  *e = (vkf_op_errors){.plan = vkf_env_alloc(o->env, 1, sizeof *e->plan)};
  if (!e->plan) return VKF_ERROR_MEMORY;
  *e->plan = (vkf_op_build){.env = o->env, .params = o->params, .trace = o->trace, .errors = true};
  vkf_arena_init(&e->plan->arena, o->env);
  VKF_TRY(take_inputs(e->plan, o));
  VKF_TRY(vkf_lab_op_plan(e->plan, op, build));
  VKF_TRY(take_slots(e));
done:
  if (st) vkf_lab_op_errors_finish(e);
  return st;
}

void vkf_lab_op_errors_finish(vkf_op_errors *e) {
  if (!e->plan) return;
  vkf_env *env = e->plan->env;
  vkf_arena_finish(&e->plan->arena);
  vkf_env_free(env, e->plan);
  *e = (vkf_op_errors){0};
}

vkf_status vkf_lab_op_errors_node(vkf_op_errors *e, uint32_t index, const vkf_dims *dims, void *const *bases,
                                  uint32_t out, const double *bound) {
  const vkf_plan *plan = &e->plan->b.plan;
  const vkf_node *node = &plan->nodes[index];
  vkf_call call, errors;
  float *to[VKF_MAX_OUTPUTS] = {NULL};
  VKF_CALL(vkf_call_from_plan(e->plan->env, plan, index, dims, bases, &call));
  VKF_CALL(vkf_call_from_plan(e->plan->env, plan, index, dims, (void *const *)e->slots, &errors));
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++)
    if (node->out[o] != VKF_NO_SLOT) to[o] = e->slots[node->out[o]];
  if (out == 0) VKF_CALL(vkf_ref_propagate_error(e->plan->env, &call, errors.in, to));
  for (uint64_t i = 0; i < vkf_slot_elements(&plan->slots[node->out[out]]); i++)
    to[out][i] = vkf_ref_up((double)to[out][i] + VKF_MAX(bound[i], 0));
  return VKF_OK;
}
