/* model_problems: lists the problems of a model's plans, which `vkformer tune MODEL` measures. */
#include <string.h>
#include <vkformer/lab.h>

#include "engine/opened.h"
#include "tune/problem.h"
#include "vkop/vkop.h"

typedef struct posed {
  vkf_model *model;
  char (*texts)[64]; /* of the problems so far */
  size_t n, capacity;
  vkf_problem_fn on_problem;
  void *user;
} posed;

static vkf_status tell(posed *p, const char *text) {
  for (size_t i = 0; i < p->n; i++)
    if (!strcmp(p->texts[i], text)) return VKF_OK;
  void *grown = vkf_env_grow(p->model->env, p->texts, &p->capacity, p->n + 1, sizeof *p->texts);
  if (!grown) return VKF_ERROR_MEMORY;
  p->texts = grown;
  memcpy(p->texts[p->n++], text, strlen(text) + 1);
  VKF_CALLBACK(p->model->env, p->on_problem(p->user, text));
  return VKF_OK;
}

/* Lists the problems of a plan's nodes at its capacity, which is what variants are picked for. */
static vkf_status tell_plan(posed *p, vkf_stage stage, const vkf_sizes *sizes) {
  vkf_status st = VKF_OK;
  vkf_plan *plan = NULL;
  const vkf_net_info *info = vkf_model_net_info(p->model->net);
  const vkf_plan_request request = {.stage = stage,
                                    .capacity = *sizes,
                                    .mask = true,
                                    .last_hidden_state = true,
                                    .gather_out = stage == VKF_STAGE_DECODE && sizes->out < sizes->R * sizes->T,
                                    .logits = info->has_head && stage == VKF_STAGE_DECODE,
                                    .log_softmax = info->can_generate && stage == VKF_STAGE_DECODE};
  vkf_dims dims = vkf_dims_make(sizes);
  char text[64];
  VKF_TRY(vkf_model_plan_build(p->model->net, p->model->env, &request, &plan));
  for (uint32_t i = 0; i < plan->n_nodes; i++) {
    vkf_problem problem;
    const vkf_node *node = &plan->nodes[i];
    vkf_vkop_node_problem(plan, node, &dims, &problem);
    if (node->op == VKF_OP_MATMUL) problem.packing.format = plan->slots[node->in[VKF_MATMUL_W]].format;
    if (node->op == VKF_OP_ATTENTION) problem.packing.format = plan->slots[node->in[VKF_ATTENTION_K]].format;
    if (vkf_tune_problem_text(&problem, text, sizeof text)) VKF_TRY(tell(p, text));
  }
done:
  vkf_model_plan_destroy(&plan);
  return st;
}

vkf_status vkf_model_list_problems(vkf_model *m, size_t batch, size_t length, vkf_problem_fn on_problem, void *user) {
  if (!m) return VKF_ERROR_ARGUMENT;
  if (!on_problem) return vkf_engine_null(m->env, "on_problem");
  vkf_status st = VKF_OK;
  const vkf_net_info *info = vkf_model_net_info(m->net);
  posed p = {.model = m, .on_problem = on_problem, .user = user};
  if (vkf_env_refuses(m->env, "vkf_model_list_problems")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(m->env);
  if (!batch || !length || batch > UINT32_MAX / 64 / length)
    VKF_FAIL(m->env, VKF_ERROR_ARGUMENT,
             "expected a batch and a length of at least 1, and at most %u tokens, found %zu and %zu", UINT32_MAX / 64,
             batch, length);
  if (info->max_positions) length = VKF_MIN(length, info->max_positions);
  const uint32_t B = vkf_engine_round_rows((uint32_t)batch), N = vkf_engine_round_length((uint32_t)length);
  const uint32_t beams = VKF_MAX(m->generation.num_beams, 1);
  vkf_sizes sizes = {.B = B, .S = N, .R = B, .T = N, .out = B * N};
  if (info->architecture != VKF_ARCHITECTURE_DECODER) VKF_TRY(tell_plan(&p, VKF_STAGE_ENCODE, &sizes));
  if (info->architecture == VKF_ARCHITECTURE_ENCODER) goto done;
  if (!info->is_pooled) sizes.out = B;
  if (info->architecture == VKF_ARCHITECTURE_DECODER) VKF_TRY(tell_plan(&p, VKF_STAGE_DECODE, &sizes)); /* the prompt */
  if (info->is_pooled) goto done;
  for (uint32_t each = 1; each <= beams; each += VKF_MAX(beams - 1, 1)) { /* greedy, and the folder's beams */
    sizes = (vkf_sizes){.B = B, .S = N, .R = B * each, .T = 1, .past = N - 1, .out = B * each};
    VKF_TRY(tell_plan(&p, VKF_STAGE_DECODE, &sizes));
  }
done:
  vkf_env_free(m->env, p.texts);
  return st;
}
