/* align: see align.h. The cross-attention weights of an id are in the row that predicts it: that of the id before it.
 */
#include "task/align.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- heads ------------------------------------------------------------------------------------------------------- */

static vkf_status parse_heads(vkf_aligner *a, const char *text) {
  vkf_env *env = a->session.env;
  size_t n = 1;
  if (!text) return VKF_OK;
  a->all_layers = !strcmp(text, "all");
  if (a->all_layers) return VKF_OK;
  for (const char *at = text; *at; at++) n += *at == ',';
  a->heads = vkf_env_alloc(env, n, sizeof *a->heads);
  if (!a->heads) return VKF_ERROR_MEMORY;
  for (const char *at = text; a->n_heads < n;) {
    int size = 0;
    vkf_align_head *head = &a->heads[a->n_heads];
    if (sscanf(at, "%9" SCNu32 ":%9" SCNu32 "%n", &head->layer, &head->head, &size) != 2 ||
        (at[size] && at[size] != ','))
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT,
                          "align_heads: expected \"all\", or layers and heads from 0, as 5:0,5:3, found \"%s\"", text);
    a->n_heads++;
    at += size + 1;
  }
  return VKF_OK;
}

static bool is_chosen(const vkf_aligner *a, uint32_t layer, uint32_t head, size_t n_layers) {
  for (size_t i = 0; i < a->n_heads; i++)
    if (a->heads[i].layer == layer && a->heads[i].head == head) return true;
  return !a->n_heads && (a->all_layers || layer + 1 == n_layers);
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

static vkf_status check_heads(const vkf_aligner *a, const vkf_result *pass, size_t n_layers) {
  for (size_t i = 0; i < a->n_heads; i++) {
    const vkf_array *weights = vkf_task_cross_weights(pass, a->heads[i].layer);
    if (weights && a->heads[i].head < weights->shape[1]) continue;
    return vkf_env_fail(a->session.env, VKF_ERROR_ARGUMENT,
                        "align_heads: expected layers 0 to %zu and heads 0 to %zu, found %u:%u", n_layers - 1,
                        vkf_task_cross_weights(pass, 0)->shape[1] - 1, a->heads[i].layer, a->heads[i].head);
  }
  return VKF_OK;
}

/* Sets the alignment of a target from row `row` of the pass: the mean over the chosen heads. */
static vkf_status keep(const vkf_aligner *a, vkf_arena *arena, const vkf_result *pass, size_t n_layers, size_t row,
                       vkf_task_sequence *target) {
  const size_t S = vkf_task_cross_weights(pass, 0)->shape[3];
  double *sums = vkf_env_alloc(a->session.env, target->n * S, sizeof *sums);
  size_t n_heads = 0;
  target->n_source = S;
  target->alignment = vkf_arena_alloc(arena, target->n * S, sizeof *target->alignment);
  for (uint32_t layer = 0; sums && target->alignment && layer < n_layers; layer++) {
    const vkf_array *weights = vkf_task_cross_weights(pass, layer);
    const size_t heads = weights->shape[1], T = weights->shape[2];
    for (uint32_t head = 0; head < heads; head++) {
      const float *its = (const float *)weights->data + (row * heads + head) * T * S;
      if (!is_chosen(a, layer, head, n_layers)) continue;
      for (size_t i = S; i < target->n * S; i++) sums[i] += its[i - S];
      n_heads++;
    }
  }
  for (size_t i = 0; n_heads && i < target->n * S; i++) target->alignment[i] = (float)(sums[i] / (double)n_heads);
  vkf_env_free(a->session.env, sums);
  return n_heads ? VKF_OK : VKF_ERROR_MEMORY;
}

vkf_status vkf_task_aligner_init(vkf_aligner *out, const vkf_session *session, const char *heads) {
  const vkf_plan_cache *cache = &session->plan_cache;
  *out = (vkf_aligner){.session = {.model = session->model, .env = session->env}};
  vkf_engine_plan_cache_init(&out->session.plan_cache, cache->env, cache->backend, cache->net, cache->weights);
  return parse_heads(out, heads);
}

void vkf_task_aligner_finish(vkf_aligner *a) {
  if (!a->session.model) return;
  vkf_env_free(a->session.env, a->heads);
  vkf_engine_plan_cache_finish(&a->session.plan_cache);
}

vkf_status vkf_task_align(vkf_aligner *a, vkf_arena *arena, const vkf_part *source, vkf_task_sequence *targets,
                          size_t n) {
  vkf_status st = VKF_OK;
  const size_t S = source->n;
  size_t T = 1, n_layers = 0;
  vkf_result *pass = NULL;
  for (size_t r = 0; r < n; r++) T = VKF_MAX(T, targets[r].n - 1);
  int32_t *ids = vkf_env_alloc(a->session.env, n * (S + T), sizeof *ids);
  if (!ids) VKF_TRY(VKF_ERROR_MEMORY);
  int32_t *fed = ids + n * S;
  for (size_t i = 0; i < n * S; i++) ids[i] = source->ids[i % S];
  for (size_t i = 0; i < n * T; i++) /* padding behind the end is not read */
    fed[i] = targets[i / T].ids[VKF_MIN(i % T, targets[i / T].n - 1)];
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {n, S}, ids}, {"decoder_input_ids", VKF_I32, 2, {n, T}, fed}};
  VKF_TRY(vkf_engine_run_output(&a->session, inputs, VKF_COUNT(inputs), VKF_RUN_ATTENTIONS, &pass));
  while (vkf_task_cross_weights(pass, n_layers)) n_layers++;
  VKF_TRY(check_heads(a, pass, n_layers));
  for (size_t r = 0; r < n; r++) {
    VKF_TRY(keep(a, arena, pass, n_layers, r, &targets[r]));
    if (a->links) VKF_TRY(vkf_task_links_add(a->links, source, &targets[r], pass, r));
  }
done:
  vkf_env_free(a->session.env, ids);
  vkf_engine_result_destroy(&pass);
  return st;
}

double vkf_task_coverage(const vkf_task_sequence *target) {
  double coverage = 0;
  for (size_t source = 0; source < target->n_source; source++) {
    double sum = 0;
    for (size_t i = 0; i < target->n; i++) sum += target->alignment[i * target->n_source + source];
    coverage += log(VKF_MIN(sum, 1));
  }
  return coverage;
}
