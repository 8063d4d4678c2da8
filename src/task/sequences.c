/* sequences: see sequences.h. */
#include "task/sequences.h"

#include <math.h>
#include <string.h>

/* Copies n records of `bytes` each, from number `first` on. NULL: no memory. */
static void *copy(vkf_arena *arena, const void *records, size_t first, size_t n, size_t bytes) {
  char *out = vkf_arena_alloc(arena, n, bytes);
  if (out) memcpy(out, (const char *)records + first * bytes, n * bytes);
  return out;
}

bool vkf_task_sequence_is_absent(const vkf_task_sequence *sequence) {
  return sequence->n_new == 0 && isinf(sequence->score);
}

vkf_status vkf_task_sequence_take(vkf_arena *arena, const vkf_task_sequence_source *source, vkf_task_sequence *out) {
  const vkf_generated *results = source->results;
  const vkf_logprobs *l = source->logprobs;
  const size_t at = (size_t)source->row * results->length, first = (size_t)source->logprobs_row * l->capacity;
  const bool may_be_absent = vkf_decode_search_scores(source->config, false);
  const bool is_absent = may_be_absent && isinf(results->scores[source->row]);
  size_t end = source->n_prompt;
  while (!is_absent && end < results->length)
    if (vkf_decode_id_in(&source->config->eos, results->sequences[at + end++])) break; /* pads follow */
  *out = (vkf_task_sequence){.n = end - source->first, .n_new = end - source->n_prompt};
  if (results->scores) out->score = results->scores[source->row];
  out->ids = copy(arena, results->sequences, at + source->first, out->n, sizeof *out->ids);
  if (results->logprobs) out->token_scores = copy(arena, results->logprobs, at + source->first, out->n, sizeof(float));
  if (!out->ids || (results->logprobs && !out->token_scores)) return VKF_ERROR_MEMORY;
  if (!l->n_top) return VKF_OK;
  out->logprobs = copy(arena, l->chosen, first, out->n_new, sizeof *l->chosen);
  out->top_ids = copy(arena, l->ids, first, out->n_new, l->n_top * sizeof *l->ids);
  out->top_logprobs = copy(arena, l->values, first, out->n_new, l->n_top * sizeof *l->values);
  return out->logprobs && out->top_ids && out->top_logprobs ? VKF_OK : VKF_ERROR_MEMORY;
}

static vkf_status add_logprobs(const vkf_task_sequence *sequences, size_t n, size_t n_top, vkf_result *result) {
  void *logprobs, *ids, *values;
  size_t length = 0;
  for (size_t i = 0; i < n; i++) length = VKF_MAX(length, sequences[i].n_new);
  const size_t shape[] = {n, length, n_top};
  VKF_CALL(vkf_engine_result_add(result, "logprobs", VKF_F32, 2, shape, &logprobs));
  VKF_CALL(vkf_engine_result_add(result, "top_ids", VKF_I32, 3, shape, &ids));
  VKF_CALL(vkf_engine_result_add(result, "top_logprobs", VKF_F32, 3, shape, &values));
  for (size_t i = 0; i < n * length * n_top; i++) ((int32_t *)ids)[i] = -1;
  for (size_t i = 0; i < n; i++) {
    const vkf_task_sequence *s = &sequences[i];
    if (!s->logprobs) continue;
    memcpy((float *)logprobs + i * length, s->logprobs, s->n_new * sizeof(float));
    memcpy((int32_t *)ids + i * length * n_top, s->top_ids, s->n_new * n_top * sizeof(int32_t));
    memcpy((float *)values + i * length * n_top, s->top_logprobs, s->n_new * n_top * sizeof(float));
  }
  return VKF_OK;
}

vkf_status vkf_task_sequences_add_alignments(const vkf_task_sequence *sequences, size_t n, vkf_result *result) {
  void *data = NULL;
  size_t S = 0, length = 0;
  for (size_t i = 0; i < n; i++) {
    S = VKF_MAX(S, sequences[i].n_source);
    length = VKF_MAX(length, sequences[i].n);
  }
  VKF_CALL(vkf_engine_result_add(result, "n_sources", VKF_I32, 1, &n, &data));
  for (size_t i = 0; i < n; i++) ((int32_t *)data)[i] = (int32_t)sequences[i].n_source;
  VKF_CALL(vkf_engine_result_add(result, "alignments", VKF_F32, 3, (size_t[]){n, length, S}, &data));
  for (size_t i = 0; i < n; i++)
    for (size_t t = 0; t < sequences[i].n && sequences[i].alignment; t++)
      memcpy((float *)data + (i * length + t) * S, sequences[i].alignment + t * sequences[i].n_source,
             sequences[i].n_source * sizeof(float));
  return VKF_OK;
}

vkf_status vkf_task_sequences_add(const vkf_task_sequence *sequences, size_t n, int32_t fill, bool scores, size_t n_top,
                                  vkf_result *result) {
  size_t length = 0;
  void *data = NULL;
  for (size_t i = 0; i < n; i++) length = VKF_MAX(length, sequences[i].n);
  VKF_CALL(vkf_engine_result_add(result, "sequences", VKF_I32, 2, (size_t[]){n, length}, &data));
  for (size_t i = 0; i < n; i++)
    for (size_t t = 0; t < length; t++)
      ((int32_t *)data)[i * length + t] = t < sequences[i].n ? sequences[i].ids[t] : fill;
  if (scores) {
    VKF_CALL(vkf_engine_result_add(result, "sequences_scores", VKF_F32, 1, &n, &data));
    for (size_t i = 0; i < n; i++) ((float *)data)[i] = sequences[i].score;
    VKF_CALL(vkf_engine_result_add(result, "token_scores", VKF_F32, 2, (size_t[]){n, length}, &data));
    for (size_t i = 0; i < n; i++)
      if (sequences[i].token_scores)
        memcpy((float *)data + i * length, sequences[i].token_scores, sequences[i].n * sizeof(float));
  }
  if (n_top) VKF_CALL(add_logprobs(sequences, n, n_top, result));
  return VKF_OK;
}
