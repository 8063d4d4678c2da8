/* inputs: packs a rectangle of tokens without pads, writes it to a plan's inputs and runs the plan. */

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

uint32_t vkf_engine_last_end(const vkf_session *session, const int32_t *ids, uint32_t n) {
  const int32_t eos = vkf_model_net_info(session->model->net)->eos_id;
  while (n > 0 && ids[n - 1] != eos) n--;
  return n;
}

/* ---- which tokens are rows --------------------------------------------------------------------------------------- */

vkf_token_grid vkf_engine_source_grid(const vkf_session *session, const vkf_encode_input *in) {
  return (vkf_token_grid){.rows = in->B,
                          .length = in->S,
                          .mask = in->mask,
                          .reads_first = vkf_model_net_info(session->model->net)->reads_first};
}

vkf_token_grid vkf_engine_target_grid(const vkf_decode_input *in) {
  return (vkf_token_grid){.rows = in->R, .length = in->T, .mask = in->mask, .reads = in->reads};
}

vkf_token_span vkf_engine_token_span(const vkf_token_grid *grid, uint32_t row) {
  const int32_t *mask = grid->mask ? grid->mask + (size_t)row * grid->length : NULL;
  uint32_t first = 0, end = grid->length;
  while (mask && end > 0 && mask[end - 1] == 0) end--;
  while (mask && first < end && mask[first] == 0) first++;
  if (end == 0 || grid->reads_first) first = 0;
  end = VKF_MAX(end, 1);
  if (grid->reads) first = VKF_MIN(first, grid->reads[row]);
  if (grid->reads) end = VKF_MAX(end, grid->reads[row] + 1);
  return (vkf_token_span){first, end - first};
}

bool vkf_engine_has_holes(const vkf_token_grid *grid) {
  for (uint32_t row = 0; grid->mask && row < grid->rows; row++) {
    const vkf_token_span span = vkf_engine_token_span(grid, row);
    const int32_t *mask = grid->mask + (size_t)row * grid->length + span.first;
    for (uint32_t t = 0; t < span.length; t++)
      if (mask[t] == 0) return true;
  }
  return false;
}

/* ---- the encoder ------------------------------------------------------------------------------------------------- */

/* The inputs of the encoder's rows. */
typedef struct source_rows {
  int32_t *ids, *types, *positions, *mask; /* [rows] */
  int32_t *first;                          /* [B]: the first row of each, which a pooled head reads */
  vkf_span *spans, *places;                /* [B] */
  uint32_t n;
} source_rows;

/* Packs the tokens of the spans. positions: of the whole rectangle. */
static void gather_rows(const vkf_session *session, const vkf_encode_input *in, const int32_t *positions,
                        source_rows *rows) {
  const vkf_token_grid grid = vkf_engine_source_grid(session, in);
  for (uint32_t b = 0; b < in->B; b++) {
    const vkf_token_span span = vkf_engine_token_span(&grid, b);
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

/* ---- the decoder ------------------------------------------------------------------------------------------------- */

/* The inputs of the decoder's rows. */
typedef struct target_rows {
  int32_t *ids, *positions, *reads; /* [rows], [rows], [R] */
  vkf_span *spans, *cross_spans;    /* [R] */
  uint32_t n;
} target_rows;

/* Packs the tokens of the decoder's spans. Keys stay at the positions of their tokens, so masks may be rectangles. */
static void gather_targets(const vkf_decode_input *in, const vkf_token_grid *grid, const vkf_token_grid *sources,
                           const int32_t *positions, target_rows *rows) {
  for (uint32_t r = 0; r < in->R; r++) {
    const vkf_token_span span = vkf_engine_token_span(grid, r);
    rows->spans[r] =
        (vkf_span){.row = rows->n, .queries = span.length, .keys = span.length, .slot = r, .first = span.first};
    rows->cross_spans[r] = rows->spans[r];
    if (in->source) {
      const vkf_token_span keys = vkf_engine_token_span(sources, r);
      rows->cross_spans[r].keys = keys.length;
      rows->cross_spans[r].first = keys.first;
    }
    rows->reads[r] = (int32_t)(rows->n + (in->reads ? in->reads[r] - span.first : 0));
    for (uint32_t t = span.first; t < span.first + span.length; t++, rows->n++) {
      rows->ids[rows->n] = in->ids[(size_t)r * in->T + t];
      rows->positions[rows->n] = positions[(size_t)r * in->T + t];
    }
  }
}

/* Writes a [rows][length] mask at capacity strides, if the plan reads it. */
static vkf_status write_mask(vkf_session *session, const vkf_cached_plan *cached, vkf_input input, const vkf_dims *dims,
                             const vkf_token_grid *grid) {
  if (cached->slots[input] == VKF_NO_SLOT) return VKF_OK;
  const vkf_slot *slot = &cached->plan->slots[cached->slots[input]];
  const size_t stride = slot->extent[1].cap;
  int32_t *strided = vkf_env_alloc(session->env, vkf_slot_elements(slot), sizeof *strided);
  if (!strided) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < (size_t)grid->rows * grid->length; i++)
    strided[i / grid->length * stride + i % grid->length] = !grid->mask || grid->mask[i] != 0;
  const vkf_status st = vkf_engine_write_input(&session->plan_cache, cached, input, dims, strided);
  vkf_env_free(session->env, strided);
  return st;
}

vkf_status vkf_engine_decode(vkf_session *session, const vkf_cached_plan *cached, vkf_dims *dims,
                             const vkf_decode_input *in) {
  vkf_status st = VKF_OK;
  const size_t R = in->R, n = R * in->T;
  const vkf_plan_cache *cache = &session->plan_cache;
  const vkf_model_tokens tokens = {.stage = VKF_STAGE_DECODE,
                                   .rows = in->R,
                                   .length = in->T,
                                   .ids = in->ids,
                                   .mask = in->mask,
                                   .mask_stride = in->T};
  const vkf_token_grid grid = vkf_engine_target_grid(in);
  vkf_token_grid sources = {0};
  if (in->source) sources = vkf_engine_source_grid(session, in->source);
  int32_t *numbers = vkf_env_alloc(session->env, 3 * n + R, sizeof *numbers);
  vkf_span *spans = vkf_env_alloc(session->env, 2 * R, sizeof *spans);
  if (!numbers || !spans) VKF_TRY(VKF_ERROR_MEMORY);
  target_rows rows = {.ids = numbers + n,
                      .positions = numbers + 2 * n,
                      .reads = numbers + 3 * n,
                      .spans = spans,
                      .cross_spans = spans + R};
  vkf_model_positions(session->model->net, &tokens, numbers);
  gather_targets(in, &grid, &sources, numbers, &rows);
  dims->v[VKF_DIM_RT] = dims->v[VKF_DIM_OUT] = rows.n;
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_TARGET_IDS, dims, rows.ids));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_TARGET_POSITIONS, dims, rows.positions));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_TARGET_SPANS, dims, rows.spans));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_CROSS_SPANS, dims, rows.cross_spans));
  VKF_TRY(vkf_engine_write_input(cache, cached, VKF_INPUT_OUT_ROWS, dims, rows.reads));
  VKF_TRY(write_mask(session, cached, VKF_INPUT_TARGET_MASK, dims, &grid));
  if (in->source) VKF_TRY(write_mask(session, cached, VKF_INPUT_MASK, dims, &sources));
  VKF_TRY(vkf_engine_run_plan(cache, cached, dims));
done:
  vkf_env_free(session->env, spans);
  vkf_env_free(session->env, numbers);
  return st;
}
