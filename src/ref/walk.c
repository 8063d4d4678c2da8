#include "ref/walk.h"

#include <math.h>
#include <string.h>

#include "op/shape.h"
#include "ref/ref.h"

static vkf_status copy_slot(vkf_walk *w, uint32_t i) {
  vkf_status st = VKF_OK;
  const vkf_slot *s = &w->plan->slots[i];
  void *dense = NULL;
  if (s->kind == VKF_SLOT_CONSTANT) {
    w->bases[i] = (void *)(uintptr_t)s->data; /* only read */
    goto done;
  }
  w->bases[i] = vkf_env_alloc(w->env, vkf_slot_elements(s), vkf_dtype_bytes(s->dtype));
  w->owned[i] = true;
  if (!w->bases[i]) VKF_TRY(VKF_ERROR_MEMORY);
  if (s->kind == VKF_SLOT_WEIGHT) {
    VKF_TRY(vkf_weight_load(w->env, w->weights, s->index, w->bases[i]));
    goto done;
  }
  dense = vkf_env_alloc(w->env, vkf_slot_elements(s), vkf_dtype_bytes(s->dtype));
  if (!dense) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(w->backend->table->read(w->program, i, w->dims, dense));
  VKF_TRY(vkf_slot_scatter(w->env, s, w->dims, dense, w->bases[i]));
done:
  vkf_env_free(w->env, dense);
  return st;
}

vkf_status vkf_ref_walk_init(vkf_walk *w, vkf_env *env, vkf_backend *backend, const vkf_plan *plan,
                             vkf_program *program, const vkf_dims *dims, const vkf_weight_source *weights) {
  *w = (vkf_walk){.env = env, .backend = backend, .plan = plan, .program = program, .dims = dims, .weights = weights};
  w->bases = vkf_env_alloc(env, plan->n_slots, sizeof *w->bases);
  w->owned = vkf_env_alloc(env, plan->n_slots, sizeof *w->owned);
  if (!w->bases || !w->owned) return VKF_ERROR_MEMORY;
  for (uint32_t i = 0; i < plan->n_slots; i++)
    if (plan->slots[i].kind != VKF_SLOT_WEIGHT) VKF_CALL(copy_slot(w, i));
  return VKF_OK;
}

/* Copies the rows of a constant, which is the plan's, and moves those of other slots to the front. */
static vkf_status keep_rows_of(vkf_walk *w, uint32_t i, uint32_t n) {
  const vkf_slot *s = &w->plan->slots[i];
  const size_t row = vkf_slot_elements(s) / VKF_MAX(s->extent[0].cap, 1u) * vkf_dtype_bytes(s->dtype);
  char *from = w->bases[i], *to = from;
  if (!w->owned[i]) {
    to = vkf_env_alloc(w->env, n, row);
    if (!to) return VKF_ERROR_MEMORY;
    w->bases[i] = to;
    w->owned[i] = true;
  }
  for (uint32_t r = 0; r < n; r++) memmove(to + r * row, from + w->rows[r] * row, row);
  return VKF_OK;
}

vkf_status vkf_ref_walk_keep_rows(vkf_walk *w, vkf_dim dim, const uint32_t *rows, const vkf_dims *few) {
  w->rows = rows;
  w->rows_dim = dim;
  w->run_dims = w->dims;
  w->dims = few;
  for (uint32_t i = 0; i < w->plan->n_slots; i++)
    if (w->bases[i] && w->plan->slots[i].extent[0].dim == dim) VKF_CALL(keep_rows_of(w, i, few->v[dim]));
  return VKF_OK;
}

/* Loads the weights that a node reads, so a comparison of few nodes of a large model loads few of them. */
static vkf_status copy_weights(vkf_walk *w, const vkf_node *node) {
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) {
    const uint32_t slot = node->in[i];
    if (slot != VKF_NO_SLOT && !w->bases[slot]) VKF_CALL(copy_slot(w, slot));
  }
  return VKF_OK;
}

void vkf_ref_walk_finish(vkf_walk *w) {
  if (!w->env) return;
  for (uint32_t i = 0; w->bases && w->owned && i < w->plan->n_slots; i++)
    if (w->owned[i]) vkf_env_free(w->env, w->bases[i]);
  vkf_env_free(w->env, w->bases);
  vkf_env_free(w->env, w->owned);
  w->env = NULL;
}

/* Memory for the reference's own result of one output. */
typedef struct scratch {
  void *value;
  double *exact, *bound;
} scratch;

static vkf_status scratch_init(vkf_env *env, uint64_t n, scratch *s) {
  s->value = vkf_env_alloc(env, n, 4);
  s->exact = vkf_env_alloc(env, n, sizeof *s->exact);
  s->bound = vkf_env_alloc(env, n, sizeof *s->bound);
  if (!s->value || !s->exact || !s->bound) return VKF_ERROR_MEMORY;
  for (uint64_t i = 0; i < n; i++) s->bound[i] = -1;
  return VKF_OK;
}

/* Compares a node. If exact is not NULL, copies out the exact values and bounds of output `kept`, at capacity. */
static vkf_status compare(vkf_walk *w, uint32_t index, vkf_comparison *j, uint32_t kept, double *exact, double *bound) {
  vkf_status st = VKF_OK;
  const vkf_node *node = &w->plan->nodes[index];
  scratch s[VKF_MAX_OUTPUTS] = {{0}};
  vkf_rounding rounding;
  vkf_call call;
  VKF_TRY(copy_weights(w, node));
  VKF_TRY(vkf_call_from_plan(w->env, w->plan, index, w->dims, w->bases, &call));
  w->backend->table->node_variant(w->program, index, &rounding);
  call.rounding = &rounding;
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    if (node->out[o] == VKF_NO_SLOT) continue;
    VKF_TRY(scratch_init(w->env, vkf_slot_elements(&w->plan->slots[node->out[o]]), &s[o]));
    call.out[o].data = s[o].value;
    call.exact[o] = s[o].exact;
    call.bound[o] = s[o].bound;
  }
  VKF_TRY(vkf_ref_run(w->env, &call));
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++)
    if (node->out[o] != VKF_NO_SLOT) vkf_compare(&call, o, w->bases[node->out[o]], s[o].exact, s[o].bound, j);
  if (exact) {
    uint64_t n = vkf_slot_elements(&w->plan->slots[node->out[kept]]);
    memcpy(exact, s[kept].exact, n * sizeof *exact);
    memcpy(bound, s[kept].bound, n * sizeof *bound);
  }
done:
  for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
    vkf_env_free(w->env, s[o].value);
    vkf_env_free(w->env, s[o].exact);
    vkf_env_free(w->env, s[o].bound);
  }
  return st;
}

vkf_status vkf_ref_walk_node(vkf_walk *w, uint32_t index, vkf_comparison *j) {
  return compare(w, index, j, 0, NULL, NULL);
}

void vkf_ref_walk_warn(const vkf_walk *w, uint32_t index, const vkf_comparison *j, const char *where) {
  if (j->ratio <= 1) return;
  vkf_env_log(w->env, VKF_LOG_WARNING, "%s: %s (%s): element %llu of output %u is %.9g, expected %.9g within %.3g",
              where, w->plan->nodes[index].name, w->backend->table->node_variant(w->program, index, NULL),
              (unsigned long long)j->worst, j->worst_out, j->worst_got, j->worst_exact, j->worst_bound);
}

vkf_status vkf_ref_walk_worst(const vkf_walk *w, uint32_t index, const vkf_comparison *j, vkf_bench_element *out) {
  const vkf_node *node = &w->plan->nodes[index];
  const vkf_slot *slot = &w->plan->slots[node->out[j->worst_out]];
  vkf_op_shapes shapes;
  uint64_t at = j->worst;
  VKF_CALL(vkf_op_shapes_of(w->env, w->plan, node, &shapes));
  *out = (vkf_bench_element){.output = shapes.out[j->worst_out].name,
                             .rank = slot->rank,
                             .expected = j->worst_exact,
                             .found = j->worst_got,
                             .bound = j->worst_bound};
  for (uint32_t i = slot->rank; i-- > 0; at /= slot->extent[i].cap) {
    out->shape[i] = vkf_slot_extent(slot, i, w->rows ? w->run_dims : w->dims);
    out->at[i] = (uint32_t)(at % slot->extent[i].cap);
  }
  if (w->rows && slot->extent[0].dim == w->rows_dim) out->at[0] = w->rows[out->at[0]];
  return VKF_OK;
}

vkf_status vkf_ref_walk_values(vkf_walk *w, uint32_t index, uint32_t o, double *exact, double *bound) {
  vkf_comparison j = {0};
  return compare(w, index, &j, o, exact, bound);
}

double vkf_ref_walk_drift(const vkf_walk *w, const vkf_walk *other, uint32_t slot) {
  const vkf_slot *s = &w->plan->slots[slot];
  const float *a = w->bases[slot], *b = other->bases[slot];
  const vkf_view view = vkf_slot_view(s, w->dims, w->bases[slot]);
  uint32_t index[VKF_MAX_SLOT_RANK] = {0};
  double distance = 0, magnitude = 0;
  if (s->dtype != VKF_F32 || !vkf_view_elements(&view)) return -1;
  do {
    size_t at = vkf_view_offset(&view, index);
    double d = fabs((double)a[at] - b[at]);
    if (!(d <= distance)) distance = d; /* NaN stays */
    magnitude = VKF_MAX(magnitude, fabs((double)b[at]));
  } while (vkf_view_next(&view, index));
  return magnitude > 0 ? distance / magnitude : distance;
}
