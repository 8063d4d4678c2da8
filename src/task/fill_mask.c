/* fill_mask: predicts the tokens at the masks of texts with a masked language model. */
#include <math.h>
#include <string.h>

#include "decode/logprobs.h"
#include "task/batches.h"

enum { DEFAULT_TOP = 5 };

typedef struct mask {
  size_t part, position;
  int32_t *ids;   /* [k], best first; the arena's */
  double *scores; /* [k] */
} mask;

typedef struct filler {
  vkf_session *session;
  vkf_fill_mask_params params;
  vkf_parts parts;
  int32_t mask; /* id of the tokenizer's mask; -1: it has none */
  size_t k;
  mask *masks; /* [n_masks], in the order of the texts */
  size_t n_masks, capacity;
} filler;

/* ---- masks ------------------------------------------------------------------------------------------------------- */

static vkf_status add_mask(filler *f, size_t part, size_t position) {
  mask *masks = vkf_env_grow(f->session->env, f->masks, &f->capacity, f->n_masks + 1, sizeof *masks);
  if (!masks) return VKF_ERROR_MEMORY;
  f->masks = masks;
  mask *found = &masks[f->n_masks++];
  *found = (mask){part, position, vkf_arena_alloc(&f->parts.arena, f->k, sizeof *found->ids),
                  vkf_arena_alloc(&f->parts.arena, f->k, sizeof *found->scores)};
  return found->ids && found->scores ? VKF_OK : VKF_ERROR_MEMORY;
}

/* Finds the masks of all parts. Refuses texts without one. */
static vkf_status find_masks(filler *f) {
  const vkf_parts *p = &f->parts;
  const vkf_text_tokenizer *tokenizer = f->session->model->tokenizer.text;
  for (size_t first = 0, end; first < p->n; first = end) {
    const size_t before = f->n_masks;
    for (end = first; end < p->n && p->at[end].text == p->at[first].text; end++)
      for (size_t i = 0; i < p->at[end].n; i++)
        if (p->at[end].ids[i] == f->mask) VKF_CALL(add_mask(f, end, i));
    if (f->n_masks == before)
      VKF_CALL(vkf_task_parts_refuse(&f->parts, p->at[first].text, VKF_SKIP_INVALID,
                                     "expected the tokenizer's mask, found %s%s",
                                     f->mask < 0 ? "a tokenizer that has none" : "no ",
                                     f->mask < 0 ? "" : vkf_text_tokenizer_piece(tokenizer, f->mask)));
  }
  return VKF_OK;
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

/* Finds the k best ids, ties by the lower id. */
static void find_best(const float *logits, size_t n, size_t k, int32_t *best) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    if (found == k && logits[i] <= logits[best[k - 1]]) continue;
    size_t at = found < k ? found++ : k - 1;
    for (; at > 0 && logits[i] > logits[best[at - 1]]; at--) best[at] = best[at - 1];
    best[at] = (int32_t)i;
  }
}

static vkf_status take(void *user, size_t part, const float *logits, size_t width) {
  filler *f = user;
  size_t low = 0, high = f->n_masks; /* bisection: low becomes the part's first mask */
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (f->masks[middle].part < part)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < f->n_masks && f->masks[low].part == part; low++) {
    mask *at = &f->masks[low];
    const float *row = logits + at->position * width;
    float top;
    const double all = vkf_decode_log_sum(row, width, &top) + (double)top;
    find_best(row, width, f->k, at->ids);
    for (size_t j = 0; j < f->k; j++) at->scores[j] = exp(row[at->ids[j]] - all);
  }
  return VKF_OK;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* *out: the id decodes to no text and is not the mask, like the special tokens at the beginning and the end. */
static vkf_status is_edge(const filler *f, int32_t id, vkf_text *text, bool *out) {
  text->size = 0;
  vkf_status st = vkf_engine_decode_ids(f->session, &id, 1, true, text);
  if (st == VKF_OK) st = vkf_text_end(text);
  *out = st == VKF_OK && id != f->mask && vkf_task_is_blank(text->data);
  return st;
}

/* Decodes ids [n] without the special tokens at both ends. Keeps masks. */
static vkf_status whole_text(const filler *f, const int32_t *ids, size_t n, vkf_text *text) {
  size_t first = 0, last = n;
  bool edge = true;
  while (first < last && edge) {
    VKF_CALL(is_edge(f, ids[first], text, &edge));
    first += edge;
  }
  for (edge = true; last > first && edge; last -= edge) VKF_CALL(is_edge(f, ids[last - 1], text, &edge));
  text->size = 0;
  return vkf_engine_decode_ids(f->session, ids + first, last - first, false, text);
}

/* Adds the candidates of a mask: the text of each token, and the whole text with it in place of the mask. */
static vkf_status add_texts(const filler *f, const mask *at, vkf_text *text, vkf_result *result) {
  const vkf_part *part = &f->parts.at[at->part];
  for (size_t j = 0; j < f->k; j++) {
    const int32_t was = part->ids[at->position];
    text->size = 0;
    VKF_CALL(vkf_engine_decode_ids(f->session, &at->ids[j], 1, true, text));
    VKF_CALL(vkf_text_end(text));
    VKF_CALL(vkf_engine_result_add_text(result, text->data));
    part->ids[at->position] = at->ids[j];
    const vkf_status st = whole_text(f, part->ids, part->n, text);
    part->ids[at->position] = was;
    VKF_CALL(st);
    VKF_CALL(vkf_text_end(text));
    VKF_CALL(vkf_engine_result_add_text(result, text->data));
  }
  return VKF_OK;
}

static vkf_status add_masks(const filler *f, vkf_result *result) {
  vkf_status st = VKF_OK;
  const size_t shape[] = {f->n_masks, f->k};
  void *texts, *positions, *ids, *scores;
  vkf_text text;
  vkf_text_init(&text, f->session->env);
  VKF_TRY(vkf_engine_result_add(result, "texts", VKF_I32, 1, shape, &texts));
  VKF_TRY(vkf_engine_result_add(result, "positions", VKF_I32, 1, shape, &positions));
  VKF_TRY(vkf_engine_result_add(result, "ids", VKF_I32, 2, shape, &ids));
  VKF_TRY(vkf_engine_result_add(result, "scores", VKF_F64, 2, shape, &scores));
  for (size_t i = 0; i < f->n_masks; i++) {
    const mask *at = &f->masks[i];
    ((int32_t *)texts)[i] = (int32_t)f->parts.at[at->part].text;
    ((int32_t *)positions)[i] = (int32_t)at->position;
    memcpy((int32_t *)ids + i * f->k, at->ids, f->k * sizeof *at->ids);
    memcpy((double *)scores + i * f->k, at->scores, f->k * sizeof *at->scores);
    VKF_TRY(add_texts(f, at, &text, result));
  }
  VKF_TRY(vkf_task_parts_report(&f->parts, result));
done:
  vkf_text_finish(&text);
  return st;
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */

static vkf_status fill(filler *f, const char *const *texts, size_t n, vkf_result *result) {
  const vkf_part_rules rules = {.long_texts = f->params.long_texts, .skip_refused = f->params.skip_refused};
  const vkf_net_info *info = vkf_model_net_info(f->session->model->net);
  f->k = VKF_MIN(f->params.top_k ? f->params.top_k : DEFAULT_TOP, info->target_vocab);
  VKF_CALL(vkf_task_parts_make(f->session, texts, n, &rules, &f->parts));
  f->mask = vkf_text_tokenizer_special(f->session->model->tokenizer.text).mask;
  VKF_CALL(find_masks(f));
  if (!info->has_head || info->target_vocab != info->vocab)
    return vkf_env_fail(f->session->env, VKF_ERROR_UNSUPPORTED,
                        "%s: expected a model with a masked language model head, found none", info->name);
  const vkf_batches batches = {&f->parts, VKF_RUN_LOGITS, take, f};
  VKF_CALL(vkf_task_batches_run(&batches));
  return add_masks(f, result);
}

static vkf_status fill_mask(vkf_session *session, const char *const *texts, size_t n,
                            const vkf_fill_mask_params *params, vkf_result **out) {
  vkf_status st = VKF_OK;
  filler f = {.session = session};
  vkf_result *result = NULL;
  VKF_TRY(VKF_PARAMS_READ(session->env, vkf_fill_mask_params, params, &f.params));
  VKF_TRY(vkf_engine_result_create(session->env, &result));
  VKF_TRY(fill(&f, texts, n, result));
done:
  vkf_env_free(session->env, f.masks);
  vkf_task_parts_finish(&f.parts);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}

vkf_status vkf_session_fill_mask(vkf_session *session, const char *const *texts, size_t n,
                                 const vkf_fill_mask_params *params, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, fill_mask(session, texts, n, params, out));
}
