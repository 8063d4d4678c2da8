/* align: see align.h. The weights are those of the cross-attention of the decoder's last layer, the mean over its
 * heads. That layer computes them where it predicts an id, so they are in the row of the id before it.
 */
#include "task/align.h"

#include <stdio.h>

/* The weights [n][heads][T][S] of the last layer that has a cross-attention. */
static const vkf_array *find_last(const vkf_result *pass) {
  const vkf_array *last = NULL;
  char name[64];
  for (size_t layer = 0;; layer++) {
    snprintf(name, sizeof name, "cross_attentions.%zu", layer);
    const vkf_array *array = vkf_engine_array_find(pass->arrays, pass->n_arrays, name);
    if (!array) return last;
    last = array;
  }
}

/* weights: [heads][T][S], of a batch. */
static vkf_status keep(vkf_arena *arena, const float *weights, const size_t shape[VKF_MAX_RANK], vkf_kept *target) {
  const size_t heads = shape[1], T = shape[2], S = shape[3];
  target->n_source = S;
  target->alignment = vkf_arena_alloc(arena, target->n * S, sizeof *target->alignment);
  if (!target->alignment) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < target->n * S; i++) {
    double sum = 0;
    for (size_t h = 0; h < heads && i >= S; h++) sum += weights[h * T * S + i - S];
    target->alignment[i] = (float)(sum / (double)heads);
  }
  return VKF_OK;
}

void vkf_task_aligner_init(vkf_session *out, const vkf_session *session) {
  const vkf_plan_cache *cache = &session->plan_cache;
  *out = (vkf_session){.model = session->model, .env = session->env};
  vkf_engine_plan_cache_init(&out->plan_cache, cache->env, cache->backend, cache->net, cache->weights);
}

void vkf_task_aligner_finish(vkf_session *aligner) {
  if (aligner->model) vkf_engine_plan_cache_finish(&aligner->plan_cache);
}

vkf_status vkf_task_align(vkf_session *aligner, vkf_arena *arena, const vkf_part *source, vkf_kept *targets, size_t n) {
  vkf_status st = VKF_OK;
  const size_t S = source->n;
  size_t T = 1;
  vkf_result *pass = NULL;
  for (size_t r = 0; r < n; r++) T = VKF_MAX(T, targets[r].n - 1);
  int32_t *ids = vkf_env_alloc(aligner->env, n * (S + T), sizeof *ids);
  if (!ids) VKF_TRY(VKF_ERROR_MEMORY);
  int32_t *fed = ids + n * S;
  for (size_t i = 0; i < n * S; i++) ids[i] = source->ids[i % S];
  for (size_t i = 0; i < n * T; i++) /* what follows the end is not read */
    fed[i] = targets[i / T].ids[VKF_MIN(i % T, targets[i / T].n - 1)];
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {n, S}, ids}, {"decoder_input_ids", VKF_I32, 2, {n, T}, fed}};
  VKF_TRY(vkf_engine_run_output(aligner, inputs, VKF_COUNT(inputs), VKF_RUN_ATTENTIONS, &pass));
  const vkf_array *weights = find_last(pass);
  for (size_t r = 0; r < n; r++)
    VKF_TRY(keep(arena, (const float *)weights->data + r * weights->shape[1] * T * S, weights->shape, &targets[r]));
done:
  vkf_env_free(aligner->env, ids);
  vkf_engine_result_destroy(&pass);
  return st;
}
