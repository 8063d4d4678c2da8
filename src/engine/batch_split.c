/* batch_split: see batch_split.h. */
#include "engine/batch_split.h"

#include <string.h>

enum { MAX_SPLIT_INPUTS = 16 };

bool vkf_engine_split_helps(vkf_session *session, vkf_status status, size_t batch) {
  if (!status || !session->env->too_large || batch < 2) return false;
  vkf_env_log(session->env, VKF_LOG_INFO, "a batch of %zu is split in two: %s", batch, session->env->message);
  vkf_env_clear(session->env);
  return true;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static size_t bytes_of(const vkf_array *a) {
  return vkf_engine_array_elements(a) * vkf_dtype_bytes(a->dtype);
}

/* Adds an array with the rows of a, then those of b. */
static vkf_status join(const vkf_array *a, const vkf_array *b, vkf_result *result) {
  size_t shape[VKF_MAX_RANK];
  void *data = NULL;
  memcpy(shape, a->shape, sizeof shape);
  shape[0] += b->shape[0];
  VKF_CALL(vkf_engine_result_add(result, a->name, a->dtype, a->rank, shape, &data));
  memcpy(data, a->data, bytes_of(a));
  memcpy((char *)data + bytes_of(a), b->data, bytes_of(b));
  return VKF_OK;
}

static vkf_status join_results(const vkf_batch_split *split, const vkf_result *a, const vkf_result *b,
                               vkf_result **out) {
  VKF_CALL(vkf_engine_result_create(split->session->env, out));
  for (size_t i = 0; i < a->n_arrays; i++) VKF_CALL(join(&a->arrays[i], &b->arrays[i], *out));
  return VKF_OK;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Sets out to rows [first, first + n) of each input, which are not copied. */
static void cut(const vkf_array *inputs, size_t n_inputs, size_t first, size_t n, vkf_array *out) {
  for (size_t i = 0; i < n_inputs; i++) {
    size_t bytes = vkf_dtype_bytes(inputs[i].dtype);
    for (size_t k = 1; k < inputs[i].rank; k++) bytes *= inputs[i].shape[k];
    out[i] = inputs[i];
    out[i].shape[0] = n;
    out[i].data = (char *)inputs[i].data + first * bytes;
  }
}

static size_t batch_of(const vkf_array *inputs, size_t n) {
  if (!n || n > MAX_SPLIT_INPUTS) return 0;
  for (size_t i = 0; i < n; i++)
    if (!inputs[i].rank || inputs[i].shape[0] != inputs[0].shape[0]) return 0;
  return inputs[0].shape[0];
}

vkf_status vkf_engine_split_batch(const vkf_batch_split *split, const vkf_array *inputs, size_t n, vkf_result **out) {
  vkf_array part[MAX_SPLIT_INPUTS];
  vkf_result *a = NULL, *b = NULL;
  vkf_status st = split->run(split->user, inputs, n, out);
  const size_t batch = batch_of(inputs, n), half = batch / 2;
  if (!vkf_engine_split_helps(split->session, st, batch)) return st;
  *out = NULL;
  cut(inputs, n, 0, half, part);
  VKF_TRY(vkf_engine_split_batch(split, part, n, &a));
  cut(inputs, n, half, batch - half, part);
  VKF_TRY(vkf_engine_split_batch(split, part, n, &b));
  VKF_TRY(join_results(split, a, b, out));
done:
  vkf_engine_result_destroy(&a);
  vkf_engine_result_destroy(&b);
  if (st) vkf_engine_result_destroy(out);
  return st;
}
