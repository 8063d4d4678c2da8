/* inputs: what every run writes before its blocks run: ids, positions, types, masks; and the encoder's pass. */

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

/* ---- the encoder ------------------------------------------------------------------------------------------------- */

vkf_source_span vkf_engine_source_span(const vkf_session *session, const vkf_encode_input *input, uint32_t b) {
  const int32_t *mask = input->mask ? input->mask + (size_t)b * input->S : NULL;
  uint32_t first = 0, end = input->S;
  while (mask && end > 0 && mask[end - 1] == 0) end--;
  while (mask && first < end && mask[first] == 0) first++;
  if (end == 0 || vkf_model_net_info(session->model->net)->reads_first) first = 0;
  return (vkf_source_span){first, VKF_MAX(end, 1u) - first};
}

bool vkf_engine_has_holes(const vkf_session *session, const vkf_encode_input *input) {
  for (uint32_t b = 0; input->mask && b < input->B; b++) {
    const vkf_source_span span = vkf_engine_source_span(session, input, b);
    const int32_t *mask = input->mask + (size_t)b * input->S + span.first;
    for (uint32_t t = 0; t < span.length; t++)
      if (mask[t] == 0) return true;
  }
  return false;
}

/* The inputs of the encoder's rows. */
typedef struct source_rows {
  int32_t *ids, *types, *positions, *mask; /* [rows] */
  int32_t *first;                          /* [B]: the rows that a pooled head sees */
  vkf_span *spans, *places;                /* [B] */
  uint32_t n;
} source_rows;

/* positions: of the whole rectangle. */
static void gather_rows(const vkf_session *session, const vkf_encode_input *in, const int32_t *positions,
                        source_rows *rows) {
  for (uint32_t b = 0; b < in->B; b++) {
    const vkf_source_span span = vkf_engine_source_span(session, in, b);
    rows->spans[b] = (vkf_span){.row = rows->n, .queries = span.length, .keys = span.length, .first = rows->n};
    rows->places[b] = rows->spans[b];
    rows->places[b].slot = in->places ? in->places[b] : b;
    rows->places[b].first = in->places ? 0 : span.first;
    rows->first[b] = (int32_t)rows->n;
    for (uint32_t t = span.first; t < span.first + span.length; t++, rows->n++) {
      const size_t at = (size_t)b * in->S + t;
      rows->ids[rows->n] = in->ids ? in->ids[at] : 0;
      rows->types[rows->n] = in->types ? in->types[at] : in->pixels && t > 0; /* a class token, then patches */
      rows->positions[rows->n] = positions[at];
      rows->mask[rows->n] = !in->mask || in->mask[at] != 0;
    }
  }
}

vkf_status vkf_engine_encode(vkf_session *session, const vkf_cached_plan *cached, vkf_dims *dims,
                             const vkf_encode_input *input) {
  vkf_status st = VKF_OK;
  const size_t B = input->B, n = B * input->S;
  const vkf_plan_cache *cache = &session->plan_cache;
  const vkf_model_tokens tokens = {.stage = VKF_STAGE_ENCODE, .rows = input->B, .length = input->S, .ids = input->ids};
  int32_t *numbers = vkf_env_alloc(session->env, 5 * n + B, sizeof *numbers);
  vkf_span *spans = vkf_env_alloc(session->env, 2 * B, sizeof *spans);
  if (!numbers || !spans) VKF_TRY(VKF_ERROR_MEMORY);
  source_rows rows = {.ids = numbers + n,
                      .types = numbers + 2 * n,
                      .positions = numbers + 3 * n,
                      .mask = numbers + 4 * n,
                      .first = numbers + 5 * n,
                      .spans = spans,
                      .places = spans + B};
  if (cached->slots[VKF_INPUT_POSITIONS] != VKF_NO_SLOT) vkf_model_positions(session->model->net, &tokens, numbers);
  gather_rows(session, input, numbers, &rows);
  dims->v[VKF_DIM_BS] = dims->v[VKF_DIM_OUT] = rows.n;
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_IDS, dims, rows.ids));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_PIXELS, dims, input->pixels));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_POSITIONS, dims, rows.positions));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_TYPES, dims, rows.types));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_MASK, dims, rows.mask));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_SPANS, dims, rows.spans));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_CROSS_PLACES, dims, rows.places));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_OUT_ROWS, dims, rows.first));
  VKF_TRY(vkf_engine_run_plan(cache, cached, dims));
done:
  vkf_env_free(session->env, spans);
  vkf_env_free(session->env, numbers);
  return st;
}
