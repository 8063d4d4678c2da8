/* batches: see batches.h. */
#include "task/batches.h"

#include <stdlib.h>

/* Most rows of a batch, enough to fill a small GPU; most bytes of its output on the host, unless it is one row. */
enum { BATCH_ROWS = 32, BATCH_BYTES = 64 << 20 };

static int by_length(const void *a, const void *b) {
  const vkf_part *x = *(const vkf_part *const *)a, *y = *(const vkf_part *const *)b;
  if (x->n != y->n) return x->n < y->n ? 1 : -1; /* the longest first: memory grows only once */
  return x < y ? -1 : x > y;
}

/* Returns how many of the rows [n], the longest first, share a batch, so that less than a third of it is padding. */
static size_t count_rows(const vkf_part *const *rows, size_t n, size_t width) {
  const size_t longest = rows[0]->n, most = VKF_MIN(BATCH_ROWS, BATCH_BYTES / (longest * width * sizeof(float)));
  size_t count = 1, shortest = longest - longest / 3;
  while (count < n && count < most && rows[count]->n >= shortest) count++;
  return count;
}

static vkf_status run_batch(const vkf_batches *b, const vkf_part *const *rows, size_t n) {
  vkf_status st = VKF_OK;
  vkf_session *session = b->parts->session;
  const size_t S = rows[0]->n;
  const int32_t pad = VKF_MAX(vkf_model_net_info(session->model->net)->pad_id, 0);
  const char *name = b->output == VKF_RUN_LOGITS ? "logits" : "last_hidden_state";
  vkf_result *result = NULL;
  int32_t *ids = vkf_env_alloc(session->env, n * S, sizeof *ids),
          *mask = vkf_env_alloc(session->env, n * S, sizeof *mask),
          *types = vkf_env_alloc(session->env, n * S, sizeof *types);
  if (!ids || !mask || !types) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t r = 0; r < n; r++)
    for (size_t i = 0; i < S; i++) {
      const bool is_token = i < rows[r]->n;
      mask[r * S + i] = is_token;
      ids[r * S + i] = is_token ? rows[r]->ids[i] : pad;
      types[r * S + i] = is_token && rows[r]->types ? rows[r]->types[i] : 0;
    }
  vkf_array inputs[3] = {{"input_ids", VKF_I32, 2, {n, S}, ids}};
  size_t n_inputs = 1;
  if (rows[n - 1]->n < S) inputs[n_inputs++] = (vkf_array){"attention_mask", VKF_I32, 2, {n, S}, mask};
  if (rows[0]->types && vkf_model_net_info(session->model->net)->n_types > 1)
    inputs[n_inputs++] = (vkf_array){"token_type_ids", VKF_I32, 2, {n, S}, types};
  VKF_TRY(vkf_engine_run_output(session, inputs, n_inputs, b->output, &result));
  const vkf_array *found = vkf_engine_array_find(result->arrays, result->n_arrays, name);
  if (!found || found->rank < 2)
    VKF_FAIL(session->env, VKF_ERROR_UNSUPPORTED, "expected a model that has %s as an output, found one without", name);
  const bool is_flat = b->output == VKF_RUN_LOGITS && vkf_model_net_info(session->model->net)->is_flat;
  const size_t width = is_flat ? 1 : found->shape[found->rank - 1];
  const size_t stride = is_flat || found->rank == 3 ? found->shape[1] * width : width;
  for (size_t r = 0; r < n; r++)
    VKF_TRY(b->take(b->user, (size_t)(rows[r] - b->parts->at), (const float *)found->data + r * stride, width));
done:
  vkf_env_free(session->env, ids);
  vkf_env_free(session->env, mask);
  vkf_env_free(session->env, types);
  vkf_engine_result_destroy(&result);
  return st;
}

vkf_status vkf_task_batches_run(const vkf_batches *b) {
  vkf_status st = VKF_OK;
  vkf_session *session = b->parts->session;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  const size_t width = b->output == VKF_RUN_LOGITS ? info->target_vocab : info->d_model;
  const vkf_part **rows = vkf_env_alloc(session->env, b->parts->n, sizeof *rows);
  size_t n = 0;
  if (!rows) return VKF_ERROR_MEMORY;
  if (info->architecture == VKF_ARCHITECTURE_ENCODER_DECODER && !info->is_pooled)
    VKF_FAIL(session->env, VKF_ERROR_UNSUPPORTED,
             "expected a model with one stack of layers, found an encoder-decoder (%s)", info->family);
  for (size_t i = 0; i < b->parts->n; i++)
    if (!b->parts->skipped[b->parts->at[i].text]) rows[n++] = &b->parts->at[i];
  qsort(rows, n, sizeof *rows, by_length);
  for (size_t i = 0; i < n;) {
    const size_t count = count_rows(rows + i, n - i, width);
    VKF_TRY(run_batch(b, rows + i, count));
    i += count;
  }
done:
  vkf_env_free(session->env, (void *)rows);
  return st;
}
