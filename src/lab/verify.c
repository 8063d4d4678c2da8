/* verify: runs an open model and compares its nodes with their bounds at the sizes of that run.
 *
 * Owns a second set of programs, kept readable; the weights are the model's. All layers of a stack use the same kernels
 * at the same sizes, so only the first one is compared.
 */
#include <math.h>
#include <vkformer/lab.h>

#include "engine/opened.h"
#include "ref/walk.h"
#include "task/generate.h"

enum { MAX_SEEN = 32 };

typedef struct verification {
  const vkf_session *session;
  const vkf_verify_params *params;
  vkf_pass_fn on_pass;
  void *user;
  const vkf_program *seen[MAX_SEEN];
  uint32_t n_seen;
} verification;

static bool is_new(verification *j, const vkf_program *program) {
  for (uint32_t i = 0; i < j->n_seen; i++)
    if (j->seen[i] == program) return false;
  if (j->n_seen == MAX_SEEN) return false;
  j->seen[j->n_seen++] = program;
  return true;
}

static vkf_status verify_node(vkf_walk *walk, const char *block, uint32_t node, double *ratio) {
  vkf_comparison found = {0};
  VKF_CALL(vkf_ref_walk_node(walk, node, &found));
  vkf_ref_walk_warn(walk, node, &found, block);
  *ratio = isnan(found.ratio) ? INFINITY : VKF_MAX(*ratio, found.ratio);
  return VKF_OK;
}

static vkf_status verify_program(verification *j, vkf_program *program, const vkf_plan *plan, const vkf_dims *dims,
                                 double *ratio) {
  vkf_status st = VKF_OK;
  vkf_walk walk = {0};
  vkf_weight_source source;
  vkf_model_net_weights(j->session->model->net, &source);
  VKF_TRY(vkf_ref_walk_init(&walk, j->session->env, j->session->plan_cache.backend, plan, program, dims, &source));
  for (uint32_t b = 0; b < plan->n_blocks; b++) {
    const vkf_block *block = &plan->blocks[b];
    for (uint32_t n = block->first_node; n < block->first_node + block->n_nodes && block->layer == 0; n++)
      VKF_TRY(verify_node(&walk, block->name, n, ratio));
  }
done:
  vkf_ref_walk_finish(&walk);
  return st;
}

static vkf_status on_run(void *user, vkf_program *program, const vkf_plan *plan, const vkf_dims *dims, uint32_t first,
                         uint32_t n) {
  verification *j = user;
  bool decodes = vkf_plan_find_index(plan, VKF_SLOT_INPUT, VKF_INPUT_TARGET_IDS) != VKF_NO_SLOT;
  (void)first;
  (void)n;
  vkf_pass_info pass = {.size = sizeof pass,
                        .stage = decodes ? VKF_STAGE_DECODE : VKF_STAGE_ENCODE,
                        .n_tokens = dims->v[decodes ? VKF_DIM_RT : VKF_DIM_BS]};
  if (!is_new(j, program)) return VKF_OK;
  for (uint32_t i = 0; i < plan->n_nodes; i++) {
    vkf_cost cost = vkf_op_cost(plan, &plan->nodes[i], dims);
    pass.flops += cost.flops;
    pass.bytes += cost.bytes;
  }
  if (!j->params->cost_only) VKF_CALL(verify_program(j, program, plan, dims, &pass.ratio));
  VKF_CALLBACK(j->session->env, j->on_pass(j->user, &pass));
  return VKF_OK;
}

vkf_status vkf_model_verify(vkf_model *m, const vkf_array *inputs, size_t n_inputs, const vkf_verify_params *params,
                            vkf_pass_fn on_pass, void *user) {
  if (!m) return VKF_ERROR_ARGUMENT;
  if (!on_pass) return vkf_engine_null(m->env, "on_pass");
  vkf_verify_params p;
  vkf_session own = {.model = m, .env = m->env, .tokenizer = m->handle};
  vkf_result *result = NULL;
  verification j = {.session = &own, .params = &p, .on_pass = on_pass, .user = user};
  if (vkf_env_refuses(m->env, "vkf_model_verify")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(m->env);
  VKF_CALL(VKF_PARAMS_READ(m->env, vkf_verify_params, params, &p));
  vkf_engine_plan_cache_init(&own.plan_cache, m->env, m->dev->backend, m->net, m->weights);
  own.plan_cache.keep_all = !p.cost_only;
  const vkf_observer observer = {.on_run = on_run, .user = &j}, *before = m->dev->backend->observer;
  m->dev->backend->observer = &observer;
  const vkf_status st = p.generate ? vkf_task_generate(&own, inputs, n_inputs, p.generate, &result)
                                   : vkf_engine_run_arrays(&own, inputs, n_inputs, NULL, &result);
  m->dev->backend->observer = before;
  vkf_engine_result_destroy(&result);
  vkf_engine_plan_cache_finish(&own.plan_cache);
  return st;
}
