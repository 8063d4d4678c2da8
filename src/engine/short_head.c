/* short_head: see short_head.h. */
#include "engine/short_head.h"

#include <math.h>
#include <string.h>

#include "shared/constants.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static vkf_status allocate(vkf_short_head *h) {
  vkf_env *env = h->session->env;
  const size_t words = VKF_ID_WORDS(h->n_vocab);
  h->allowed = vkf_env_alloc(env, h->n_places * words, sizeof *h->allowed);
  h->in_use = vkf_env_alloc(env, words, sizeof *h->in_use);
  h->columns = vkf_env_alloc(env, h->n_vocab, sizeof *h->columns);
  h->bias = vkf_env_alloc(env, h->n_vocab, sizeof *h->bias);
  return h->allowed && h->in_use && h->columns && h->bias ? VKF_OK : VKF_ERROR_MEMORY;
}

/* Makes room for h->width columns. */
static vkf_status grow(vkf_short_head *h) {
  vkf_env *env = h->session->env;
  int32_t *ids = vkf_env_grow(env, h->ids, &h->ids_capacity, h->width, sizeof *ids);
  if (ids) h->ids = ids;
  float *rows = vkf_env_grow(env, h->rows, &h->rows_capacity, (size_t)h->width * h->depth, sizeof *rows);
  if (rows) h->rows = rows;
  float *masks = vkf_env_grow(env, h->masks, &h->masks_capacity, (size_t)h->n_places * h->width, sizeof *masks);
  if (masks) h->masks = masks;
  return ids && rows && masks ? VKF_OK : VKF_ERROR_MEMORY;
}

/* Rounds the width of a step to one of a few, so that there are few plans. per_class: columns of the largest class. */
static uint32_t round_width(const vkf_short_head *h, uint32_t per_class) {
  uint32_t rounded = 4;
  while (rounded < per_class || rounded * h->n_classes < h->least) rounded += VKF_MAX(rounded / 8, 1);
  return VKF_MIN(rounded, VKF_CEIL_DIV(h->n_vocab, h->n_classes)) * h->n_classes;
}

vkf_status vkf_engine_short_head_init(vkf_short_head *h, vkf_session *session, const vkf_short_head_params *p) {
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  vkf_weight_source weights;
  *h = (vkf_short_head){.session = session,
                        .list = p->list,
                        .config = p->config,
                        .n_places = p->n_places,
                        .n_vocab = info->target_vocab,
                        .depth = info->head_depth,
                        .least = VKF_MIN(p->k, info->target_vocab),
                        .n_classes = p->log_softmax ? VKF_ROW_PARTIALS : 1};
  if (p->list->n_targets != h->n_vocab || p->list->n_sources != info->vocab)
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED,
                        "expected a short list of this model, with %u ids of sources and %u of targets, found one with "
                        "%u and %u",
                        info->vocab, h->n_vocab, p->list->n_sources, p->list->n_targets);
  VKF_CALL(allocate(h));
  h->width = round_width(h, 0);
  h->is_stale = true;
  vkf_model_net_weights(session->model->net, &weights);
  return info->head_bias < weights.n_weights ? vkf_weight_load(session->env, &weights, info->head_bias, h->bias)
                                             : VKF_OK;
}

void vkf_engine_short_head_finish(vkf_short_head *h) {
  if (!h->session) return;
  void *all[] = {h->allowed, h->in_use, h->columns, h->bias, h->ids, h->rows, h->masks, h->numbers};
  for (size_t i = 0; i < VKF_COUNT(all); i++) vkf_env_free(h->session->env, all[i]);
  *h = (vkf_short_head){0};
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static uint64_t *allowed_at(const vkf_short_head *h, uint32_t place) {
  return h->allowed + place * VKF_ID_WORDS(h->n_vocab);
}

static void allow_all(uint64_t *allowed, const vkf_id_list *ids) {
  for (uint32_t i = 0; i < ids->n; i++) vkf_id_set_add(allowed, ids->ids[i]);
}

void vkf_engine_short_head_set(vkf_short_head *h, uint32_t place, const vkf_encode_input *in, uint32_t i) {
  const size_t at = (size_t)i * in->S;
  const vkf_generation_config *c = h->config;
  uint64_t *allowed = allowed_at(h, place);
  memset(allowed, 0, VKF_ID_WORDS(h->n_vocab) * sizeof *allowed);
  vkf_decode_shortlist_allow(h->list, in->ids + at, in->mask ? in->mask + at : NULL, in->S, allowed);
  allow_all(allowed, &c->eos);
  allow_all(allowed, &c->forced_eos);
  if (c->forced_bos != VKF_NO_TOKEN) vkf_id_set_add(allowed, c->forced_bos);
  h->is_stale = true;
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* Returns the number of ids in use in the class that has most. */
static uint32_t largest_class(const vkf_short_head *h) {
  uint32_t counts[VKF_ROW_PARTIALS] = {0}, most = 0;
  for (uint32_t id = 0; id < h->n_vocab; id++) counts[id % h->n_classes] += vkf_id_set_has(h->in_use, (int32_t)id);
  for (uint32_t i = 0; i < h->n_classes; i++) most = VKF_MAX(most, counts[i]);
  return most;
}

static vkf_status fill_columns(vkf_short_head *h) {
  const vkf_net_info *info = vkf_model_net_info(h->session->model->net);
  vkf_weight_source weights;
  uint32_t next[VKF_ROW_PARTIALS] = {0};
  vkf_model_net_weights(h->session->model->net, &weights);
  const vkf_weight_info *weight = &weights.infos[info->head_weight];
  memset(h->rows, 0, (size_t)h->width * h->depth * sizeof *h->rows);
  for (uint32_t c = 0; c < h->width; c++) h->ids[c] = VKF_NO_TOKEN;
  for (uint32_t id = 0; id < h->n_vocab; id++) {
    h->columns[id] = VKF_NO_TOKEN;
    if (!vkf_id_set_has(h->in_use, (int32_t)id)) continue;
    const uint32_t column = next[id % h->n_classes]++ * h->n_classes + id % h->n_classes;
    float *row = h->rows + (size_t)column * h->depth;
    h->ids[column] = (int32_t)id;
    h->columns[id] = (int32_t)column;
    weights.load(weights.user, info->head_weight, id, 1, row);
    VKF_CALL(vkf_format_round(h->session->env, weight->name, weight->format, id, row, 1, h->depth));
  }
  return VKF_OK;
}

vkf_status vkf_engine_short_head_ready(vkf_short_head *h, const uint32_t *places, uint32_t n) {
  const size_t words = VKF_ID_WORDS(h->n_vocab);
  if (!h->is_stale) return VKF_OK;
  memset(h->in_use, 0, words * sizeof *h->in_use);
  for (uint32_t i = 0; i < n; i++)
    for (size_t w = 0; w < words; w++) h->in_use[w] |= allowed_at(h, places[i])[w];
  h->width = round_width(h, largest_class(h));
  VKF_CALL(grow(h));
  VKF_CALL(fill_columns(h));
  for (uint32_t i = 0; i < n; i++) {
    if (i > 0 && places[i] == places[i - 1]) continue;
    float *mask = h->masks + (size_t)places[i] * h->width;
    for (uint32_t c = 0; c < h->width; c++) {
      const int32_t id = h->ids[c];
      mask[c] = id >= 0 && vkf_id_set_has(allowed_at(h, places[i]), id) ? h->bias[id] : -INFINITY;
    }
  }
  h->is_stale = false;
  return VKF_OK;
}

/* ---- a submit ---------------------------------------------------------------------------------------------------- */

float *vkf_engine_short_head_room(vkf_short_head *h, size_t n) {
  float *grown = vkf_env_grow(h->session->env, h->numbers, &h->numbers_capacity, n * h->width, sizeof *grown);
  if (grown) h->numbers = grown;
  return grown;
}

const float *vkf_engine_short_head_masks(vkf_short_head *h, const uint32_t *places, uint32_t n) {
  float *room = vkf_engine_short_head_room(h, n);
  for (uint32_t i = 0; room && i < n; i++)
    memcpy(room + (size_t)i * h->width, h->masks + (size_t)places[i] * h->width, h->width * sizeof *room);
  return room;
}

void vkf_engine_short_head_edits(const vkf_short_head *h, const vkf_logit_edit *edits, uint32_t n,
                                 vkf_logit_edit *out) {
  for (uint32_t i = 0; i < n; i++) {
    out[i] = edits[i];
    if (edits[i].kind == VKF_LOGIT_EDIT_FILL) continue;
    const int32_t column = (uint32_t)edits[i].id < h->n_vocab ? h->columns[edits[i].id] : VKF_NO_TOKEN;
    out[i].id = column;
    if (column == VKF_NO_TOKEN) out[i] = (vkf_logit_edit){.kind = VKF_LOGIT_EDIT_ADD};
  }
}

void vkf_engine_short_head_ids(const vkf_short_head *h, int32_t *columns, size_t n) {
  for (size_t i = 0; i < n; i++) columns[i] = VKF_MAX(h->ids[columns[i]], 0);
}

void vkf_engine_short_head_scatter(const vkf_short_head *h, const float *rows, uint32_t n, float *out) {
  for (uint32_t r = 0; r < n; r++, rows += h->width, out += h->n_vocab)
    for (uint32_t id = 0; id < h->n_vocab; id++) out[id] = h->columns[id] < 0 ? -INFINITY : rows[h->columns[id]];
}
