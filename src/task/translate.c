/* translate: texts to texts in batches. Sentences of like length share a batch, the order of the caller is kept.
 *
 * A batch changes speed, never bits: within an order class the kernels sum alike for every shape.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/batch_split.h"
#include "task/generate.h"
#include "task/parts.h"

/* Rows (sentences times beams) of a batch: enough to fill a small GPU, small enough for caches of CPU drivers. */
#define BATCH_ROWS 128

typedef struct sentence {
  const vkf_part *part;
  int32_t *target; /* generated ids with the start token, without padding */
  uint32_t n_target;
  float score;
} sentence;

typedef struct translation {
  vkf_session *session;
  vkf_parts parts;
  sentence *sentences; /* [n], one for each part */
  size_t n;
  vkf_generation_config config;
  const vkf_generate_params *params;
  size_t first; /* of the batch that is on its way */
  bool begun;   /* the callback was told of a token of this batch */
  bool stopped; /* by the callback; sentences that were not begun have no target */
} translation;

static int by_length(const void *a, const void *b) {
  const sentence *x = a, *y = b;
  if (x->part->n != y->part->n)
    return x->part->n < y->part->n ? 1 : -1; /* the longest first: memory is asked for once */
  return x->part < y->part ? -1 : 1;
}

static int by_part(const void *a, const void *b) {
  return ((const sentence *)a)->part < ((const sentence *)b)->part ? -1 : 1;
}

static vkf_status make_sentences(translation *t, const char *const *texts, size_t n) {
  vkf_status st = VKF_OK;
  vkf_env *env = t->session->env;
  const vkf_part_rules rules = {.long_texts = t->params->long_texts,
                                .skip_refused = t->params->skip_refused,
                                .source_language = t->params->source_language,
                                .target_language = t->params->target_language};
  for (size_t i = 0; texts && i < n; i++)
    if (!texts[i] || vkf_task_is_blank(texts[i]))
      VKF_FAIL(env, VKF_ERROR_ARGUMENT, "text %zu is empty, expected at least one word", i + 1);
  VKF_TRY(vkf_task_parts_make(t->session, texts, n, &rules, &t->parts));
  t->n = t->parts.n;
  t->sentences = vkf_env_alloc(env, t->n, sizeof *t->sentences);
  if (!t->sentences) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t i = 0; i < t->n; i++) t->sentences[i].part = &t->parts.at[i];
done:
  return st;
}

/* Hands tokens on with the caller's index of the text. */
static int on_token(void *user, size_t row, int32_t token) {
  translation *t = user;
  t->begun = true;
  int stop = 0;
  VKF_CALLBACK(t->session->env,
               stop = t->params->on_token(t->params->user, t->sentences[t->first + row].part->text, token));
  return stop;
}

static vkf_status keep_target(translation *t, sentence *s, const vkf_generated *g, uint32_t row) {
  const int32_t *ids = g->sequences + (size_t)row * g->length;
  uint32_t n = 1;
  while (n < g->length && !vkf_decode_id_in(&t->config.eos, ids[n])) n++;
  n = VKF_MIN(n + 1, g->length); /* the end token is kept */
  s->target = vkf_env_alloc(t->session->env, n, sizeof *s->target);
  if (!s->target) return VKF_ERROR_MEMORY;
  memcpy(s->target, ids, n * sizeof *ids);
  s->n_target = n;
  s->score = g->scores ? g->scores[row] : 0;
  return VKF_OK;
}

static vkf_status translate_batch(translation *t, size_t first, uint32_t B) {
  vkf_status st = VKF_OK;
  vkf_env *env = t->session->env;
  uint32_t S = t->sentences[first].part->n; /* the longest */
  vkf_generated g = {0};
  int32_t *ids = vkf_env_alloc(env, (size_t)B * S, sizeof *ids),
          *mask = vkf_env_alloc(env, (size_t)B * S, sizeof *mask);
  uint64_t *lines = vkf_env_alloc(env, B, sizeof *lines);
  if (!ids || !mask || !lines) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t b = 0; b < B; b++)
    for (uint32_t i = 0; i < S; i++) {
      const vkf_part *part = t->sentences[first + b].part;
      mask[(size_t)b * S + i] = i < part->n;
      ids[(size_t)b * S + i] = i < part->n ? part->ids[i] : t->config.pad == VKF_NO_TOKEN ? 0 : t->config.pad;
    }
  for (uint32_t b = 0; b < B; b++) {
    const size_t text = t->sentences[first + b].part->text;
    lines[b] = t->params->lines ? t->params->lines[text] : text + t->params->first_line;
  }
  t->first = first;
  st = vkf_task_generate(t->session,
                         &(vkf_generate_input){.source = {.B = B, .S = S, .ids = ids, .mask = mask},
                                               .config = &t->config,
                                               .lines = lines,
                                               .scores = t->params->scores,
                                               .translate = true,
                                               .on_token = t->params->on_token ? on_token : NULL,
                                               .user = t},
                         &g);
  t->stopped = st == VKF_ERROR_STOPPED; /* what there is until then is kept */
  if (!t->stopped) VKF_TRY(st);
  for (uint32_t b = 0; b < B; b++) VKF_TRY(keep_target(t, &t->sentences[first + b], &g, b));
done:
  vkf_decode_generated_finish(&g);
  vkf_env_free(env, ids);
  vkf_env_free(env, mask);
  vkf_env_free(env, lines);
  return st;
}

/* The text without white space at its ends, which tokenizers leave there; it changes text[size]. */
static const char *trim(char *text, size_t size) {
  static const char spaces[] = " \t\r\n\v\f";
  while (size > 0 && strchr(spaces, text[size - 1])) size--;
  text[size] = 0;
  return text + strspn(text, spaces);
}

/* The translations of the parts of a text, with a space where the text had white space. */
static vkf_status add_texts(translation *t, vkf_result *result) {
  vkf_status st = VKF_OK;
  vkf_text text, whole;
  vkf_text_init(&text, t->session->env);
  vkf_text_init(&whole, t->session->env);
  for (size_t i = 0, at = 0; i < t->parts.n_texts; i++) {
    whole.size = 0;
    for (; at < t->n && t->sentences[at].part->text == i; at++) {
      const sentence *s = &t->sentences[at];
      text.size = 0;
      VKF_TRY(vkf_engine_decode_ids(t->session, s->target, s->n_target, true, &text));
      vkf_text_append(&text, "", 0);
      VKF_TRY(vkf_text_status(&text));
      const char *trimmed = trim(text.data, text.size);
      if (whole.size > 0 && s->part->spaced) vkf_text_append(&whole, " ", 1);
      vkf_text_append(&whole, trimmed, strlen(trimmed));
    }
    vkf_text_append(&whole, "", 0);
    VKF_TRY(vkf_text_status(&whole));
    VKF_TRY(vkf_engine_result_add_text(result, whole.data));
  }
  VKF_TRY(vkf_task_parts_report(&t->parts, result));
done:
  vkf_text_finish(&whole);
  vkf_text_finish(&text);
  return st;
}

static vkf_status add_results(translation *t, vkf_result *result) {
  vkf_status st = VKF_OK;
  uint32_t length = 1;
  void *data = NULL;
  int32_t pad = t->config.pad == VKF_NO_TOKEN ? 0 : t->config.pad;
  for (size_t i = 0; i < t->n; i++) length = VKF_MAX(length, t->sentences[i].n_target);
  VKF_TRY(vkf_engine_result_add(result, "sequences", VKF_I32, 2, (size_t[]){t->n, length}, &data));
  int32_t *sequences = data;
  for (size_t i = 0; i < t->n; i++)
    for (uint32_t j = 0; j < length; j++)
      sequences[i * length + j] = j < t->sentences[i].n_target ? t->sentences[i].target[j] : pad;
  VKF_TRY(vkf_engine_result_add(result, "texts", VKF_I32, 1, &t->n, &data));
  for (size_t i = 0; i < t->n; i++) ((int32_t *)data)[i] = (int32_t)t->sentences[i].part->text;
  if (t->config.num_beams > 1 || t->params->scores) {
    VKF_TRY(vkf_engine_result_add(result, "sequences_scores", VKF_F32, 1, &t->n, &data));
    for (size_t i = 0; i < t->n; i++) ((float *)data)[i] = t->sentences[i].score;
  }
  VKF_TRY(add_texts(t, result));
done:
  return st;
}

static vkf_status check_translates(const vkf_session *session) {
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  if (info->architecture != VKF_ARCHITECTURE_ENCODER_DECODER)
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED,
                        "expected an encoder-decoder to translate with, found %s (family %s)",
                        vkf_model_architecture_name(info->architecture), info->family);
  if (!session->model->tokenizer.text)
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED, "translating needs a tokenizer: %s",
                        session->model->tokenizer.why);
  return VKF_OK;
}

static vkf_status translate(vkf_session *session, const char *const *texts, size_t n_texts,
                            const vkf_generate_params *params, vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_result *result = NULL;
  vkf_generate_params p;
  translation t = {.session = session, .params = &p};
  *out = NULL;
  st = VKF_PARAMS_READ(session->env, vkf_generate_params, params, &p);
  if (st) return st;
  st = check_translates(session);
  if (st) return st;
  VKF_TRY(vkf_engine_derive_generation(session, p.source_language, p.target_language, p.config_json, &t.config));
  if (!texts || !n_texts) VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected at least one text, found none");
  if (t.config.num_return_sequences > 1)
    VKF_FAIL(session->env, VKF_ERROR_UNSUPPORTED,
             "translate gives one translation a text, num_return_sequences asks for %u; generate gives them all",
             t.config.num_return_sequences);
  VKF_TRY(make_sentences(&t, texts, n_texts));
  qsort(t.sentences, t.n, sizeof *t.sentences, by_length);
  uint32_t batch = VKF_MAX(BATCH_ROWS / VKF_MAX(t.config.num_beams, 1), 1);
  for (size_t first = 0; first < t.n && !t.stopped;) {
    const uint32_t n = (uint32_t)VKF_MIN((size_t)batch, t.n - first);
    t.begun = false;
    st = translate_batch(&t, first, n);
    if (!t.begun && vkf_engine_split_helps(session, st, n)) {
      batch = n / 2;
      continue;
    }
    VKF_TRY(st);
    first += n;
  }
  qsort(t.sentences, t.n, sizeof *t.sentences, by_part);
  VKF_TRY(vkf_engine_result_create(session->env, &result));
  VKF_TRY(add_results(&t, result));
done:
  for (size_t i = 0; t.sentences && i < t.n; i++) vkf_env_free(session->env, t.sentences[i].target);
  vkf_env_free(session->env, t.sentences);
  vkf_task_parts_finish(&t.parts);
  vkf_decode_generation_finish(&t.config);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st ? st : t.stopped ? VKF_ERROR_STOPPED : VKF_OK;
}

vkf_status vkf_session_translate(vkf_session *session, const char *const *texts, size_t n_texts,
                                 const vkf_generate_params *params, vkf_result **out) {
  if (!out) return VKF_ERROR_ARGUMENT;
  *out = NULL;
  vkf_status st = vkf_engine_session_begin(session, "vkf_session_translate");
  if (st) return st;
  st = translate(session, texts, n_texts, params, out);
  return vkf_engine_session_end(session, st, out);
}
