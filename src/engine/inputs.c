/* inputs: what every run writes before its blocks run: ids, positions, types, masks; and the encoder's pass. */
#include <string.h>

#include "engine/opened.h"

vkf_status vkf_engine_check_ids(const vkf_session *session, const char *name, const int32_t *ids, size_t B,
                                size_t length, uint32_t vocab) {
  uint32_t max = vkf_model_net_info(session->model->net)->max_positions;
  if (max && length > max)
    return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                        "%s: expected at most %u tokens, the model's positions, found %zu", name, max, length);
  for (size_t i = 0; i < B * length; i++)
    if (ids[i] < 0 || (uint32_t)ids[i] >= vocab)
      return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                          "%s[%zu,%zu] is %d, expected an id of the vocabulary, 0 to %u", name, i / length, i % length,
                          (int)ids[i], vocab - 1);
  return VKF_OK;
}

vkf_status vkf_engine_write_mask(vkf_session *session, const vkf_cached_plan *cached, vkf_input input,
                                 const vkf_dims *dims, uint32_t rows, uint32_t length, const int32_t *mask) {
  vkf_status st = VKF_OK;
  int32_t *strided = NULL;
  if (cached->slots[input] == VKF_NO_SLOT) goto done;
  const vkf_slot *slot = &cached->plan->slots[cached->slots[input]];
  uint32_t stride = slot->extent[1].cap;
  strided = vkf_env_alloc(session->env, vkf_slot_elements(slot), sizeof *strided);
  if (!strided) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t r = 0; r < rows; r++)
    for (uint32_t s = 0; s < stride; s++)
      strided[(size_t)r * stride + s] = s < length ? (mask ? mask[(size_t)r * length + s] != 0 : 1) : !mask;
  VKF_TRY(vkf_engine_write_input(&session->plan_cache, cached, input, dims, strided));
done:
  vkf_env_free(session->env, strided);
  return st;
}

vkf_status vkf_engine_write_positions(vkf_session *session, const vkf_cached_plan *cached, const vkf_dims *dims,
                                      const vkf_model_tokens *tokens) {
  vkf_status st = VKF_OK;
  int32_t *positions = NULL;
  vkf_input input = tokens->stage == VKF_STAGE_DECODE ? VKF_INPUT_TARGET_POSITIONS : VKF_INPUT_POSITIONS;
  if (cached->slots[input] == VKF_NO_SLOT) goto done;
  positions = vkf_env_alloc(session->env, (size_t)tokens->rows * tokens->length, sizeof *positions);
  if (!positions) VKF_TRY(VKF_ERROR_MEMORY);
  vkf_model_positions(session->model->net, tokens, positions);
  VKF_TRY(vkf_engine_write_input(&session->plan_cache, cached, input, dims, positions));
done:
  vkf_env_free(session->env, positions);
  return st;
}

/* Token types, and the rows that a pooled head sees: the first of each sequence. */
static vkf_status write_types(vkf_session *session, const vkf_cached_plan *cached, const vkf_dims *dims,
                              const vkf_encode_input *input) {
  vkf_status st = VKF_OK;
  size_t n = (size_t)input->B * input->S;
  int32_t *types = NULL, *first = NULL;
  first = vkf_env_alloc(session->env, input->B, sizeof *first);
  types = vkf_env_alloc(session->env, n, sizeof *types); /* zeros */
  if (!first || !types) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t r = 0; r < input->B; r++) first[r] = (int32_t)(r * input->S);
  if (input->types) memcpy(types, input->types, n * sizeof *types);
  if (input->pixels) /* a class token, then patches */
    for (size_t i = 0; i < n; i++) types[i] = i % input->S != 0;
  VKF_TRY(vkf_engine_write_input(&session->plan_cache, cached, VKF_INPUT_OUT_ROWS, dims, first));
  VKF_TRY(vkf_engine_write_input(&session->plan_cache, cached, VKF_INPUT_TYPES, dims, types));
done:
  vkf_env_free(session->env, types);
  vkf_env_free(session->env, first);
  return st;
}

vkf_status vkf_engine_encode(vkf_session *session, const vkf_cached_plan *cached, const vkf_dims *dims,
                             const vkf_encode_input *input) {
  vkf_status st = VKF_OK;
  const vkf_model_tokens tokens = {.stage = VKF_STAGE_ENCODE, .rows = input->B, .length = input->S, .ids = input->ids};
  VKF_TRY(vkf_engine_write_input(&session->plan_cache, cached, VKF_INPUT_IDS, dims, input->ids));
  VKF_TRY(vkf_engine_write_input(&session->plan_cache, cached, VKF_INPUT_PIXELS, dims, input->pixels));
  VKF_TRY(vkf_engine_write_positions(session, cached, dims, &tokens));
  VKF_TRY(write_types(session, cached, dims, input));
  VKF_TRY(vkf_engine_write_mask(session, cached, VKF_INPUT_MASK, dims, input->B, input->S, input->mask));
  VKF_TRY(vkf_engine_run_plan(&session->plan_cache, cached, dims));
done:
  return st;
}
