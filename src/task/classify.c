/* classify: labels texts, words of texts and images; the names of labels come from config.json or the caller. */
#include <math.h>
#include <string.h>

#include "task/batches.h"
#include "task/labels.h"
#include "task/preprocess.h"
#include "task/zero_shot.h"

enum { IMAGES_AT_ONCE = 16 };

typedef struct word {
  size_t part;
  char *text; /* the arena's */
  int32_t label;
  double score;
} word;

typedef struct classifier {
  vkf_session *session;
  vkf_classify_params params;
  vkf_labels labels;
  vkf_parts parts;
  double *scores; /* [parts or images][labels] */
  word *words;    /* the words of a part are adjacent */
  size_t n_words, capacity;
  vkf_text text; /* scratch: of the current word */
} classifier;

/* ---- texts and images -------------------------------------------------------------------------------------------- */

static vkf_status take_scores(void *user, size_t part, const float *logits, size_t width) {
  classifier *c = user;
  vkf_task_labels_score(&c->labels, logits, c->scores + part * width);
  return VKF_OK;
}

/* Sets out [texts][labels], which must be 0, to the mean over the parts of each text, weighted by their tokens. NaN:
 * the text was skipped. */
static void join_parts(const classifier *c, double *out) {
  const vkf_parts *p = &c->parts;
  for (size_t first = 0, end; first < p->n; first = end) {
    double n_ids = 0, *to = out + p->at[first].text * c->labels.n;
    for (end = first; end < p->n && p->at[end].text == p->at[first].text; end++) n_ids += p->at[end].n;
    for (size_t i = first; i < end; i++)
      for (size_t l = 0; l < c->labels.n; l++) to[l] += p->at[i].n / n_ids * c->scores[i * c->labels.n + l];
  }
  for (size_t i = 0; i < p->n_texts; i++)
    for (size_t l = 0; l < c->labels.n && p->skipped[i]; l++) out[i * c->labels.n + l] = NAN;
}

/* Adds the best labels to the result. scores [n][labels]; NaN: skipped, gets label -1. */
static vkf_status add_best(const classifier *c, const double *scores, size_t n, vkf_result *result) {
  const size_t n_labels = c->labels.n, k = c->params.top_k ? VKF_MIN(c->params.top_k, n_labels) : n_labels;
  void *labels, *best;
  VKF_CALL(vkf_engine_result_add(result, "labels", VKF_I32, 2, (size_t[]){n, k}, &labels));
  VKF_CALL(vkf_engine_result_add(result, "scores", VKF_F64, 2, (size_t[]){n, k}, &best));
  for (size_t i = 0; i < n; i++) {
    int32_t *l = (int32_t *)labels + i * k;
    double *s = (double *)best + i * k;
    const bool is_skipped = isnan(scores[i * n_labels]);
    for (size_t j = 0; j < k && is_skipped; j++) l[j] = -1, s[j] = NAN;
    if (!is_skipped) VKF_CALL(vkf_task_labels_best(&c->labels, scores + i * n_labels, k, l, s));
  }
  return vkf_task_labels_add(&c->labels, result);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Returns whether a piece has the mark of a word's beginning: a space as byte-level BPE writes it, or U+2581. */
static bool begins_word(const char *piece) {
  return strncmp(piece, "\xc4\xa0", 2) == 0 || strncmp(piece, "\xe2\x96\x81", 3) == 0;
}

/* Returns whether the piece continues the word before it. marks: the tokenizer marks the beginnings of words. */
static bool continues_word(const char *piece, bool marks) {
  return strncmp(piece, "##", 2) == 0 || (marks && !begins_word(piece));
}

/* Returns whether ids have the token of unknown words, which is special but stands for a word. */
static bool have_unknown(const classifier *c, const int32_t *ids, size_t n) {
  const vkf_text_special s = vkf_text_tokenizer_special(c->session->model->tokenizer.text);
  if (s.unk < 0 || s.unk == s.bos || s.unk == s.eos || s.unk == s.pad || s.unk == s.mask) return false;
  while (n > 0 && ids[n - 1] != s.unk) n--;
  return n > 0;
}

/* Decodes ids into c->text. *out: the text without leading spaces, "" for special tokens. */
static vkf_status decode(classifier *c, const int32_t *ids, size_t n, const char **out) {
  c->text.size = 0;
  vkf_status st = vkf_engine_decode_ids(c->session, ids, n, !have_unknown(c, ids, n), &c->text);
  if (st == VKF_OK) st = vkf_text_end(&c->text);
  if (st == VKF_OK) *out = c->text.data + strspn(c->text.data, " ");
  return st;
}

/* Adds the word of ids [n] with the label of its first token. logits: of that token. */
static vkf_status add_word(classifier *c, size_t part, const int32_t *ids, size_t n, const float *logits) {
  const char *text = NULL;
  double *scores = c->scores;
  vkf_status st = decode(c, ids, n, &text);
  if (st != VKF_OK || !text[0]) return st;
  word *words = vkf_env_grow(c->session->env, c->words, &c->capacity, c->n_words + 1, sizeof *words);
  if (!words) return VKF_ERROR_MEMORY;
  c->words = words;
  word *w = &words[c->n_words++];
  *w = (word){.part = part, .text = vkf_arena_strdup(&c->parts.arena, text)};
  if (!w->text) return VKF_ERROR_MEMORY;
  vkf_task_labels_score(&c->labels, logits, scores);
  return vkf_task_labels_best(&c->labels, scores, 1, &w->label, &w->score);
}

static vkf_status take_words(void *user, size_t part, const float *logits, size_t width) {
  classifier *c = user;
  const int32_t *ids = c->parts.at[part].ids;
  const size_t n = c->parts.at[part].n;
  size_t first = 0;
  const bool marks = vkf_text_tokenizer_marks_words(c->session->model->tokenizer.text);
  bool after_special = true;
  for (size_t i = 0; i < n; i++) {
    const char *piece = vkf_text_tokenizer_piece(c->session->model->tokenizer.text, ids[i]), *text = NULL;
    VKF_CALL(decode(c, ids + i, 1, &text));
    const bool special = !text[0] && !begins_word(piece);
    const bool goes_on = !c->labels.is_flat && !special && !after_special && continues_word(piece, marks);
    if (i > 0 && !goes_on) {
      VKF_CALL(add_word(c, part, ids + first, i - first, logits + first * width));
      first = i;
    }
    after_special = special;
  }
  return add_word(c, part, ids + first, n - first, logits + first * width);
}

/* Adds the words to the result in the order of the parts; batches came in another order. */
static vkf_status add_words(const classifier *c, vkf_result *result) {
  vkf_status st = VKF_OK;
  void *texts, *labels, *scores;
  size_t n = 0,
         *first = vkf_env_alloc(c->session->env, c->parts.n + 1, sizeof *first); /* of each part; n_words: none */
  if (!first) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_engine_result_add(result, "texts", VKF_I32, 1, &c->n_words, &texts));
  VKF_TRY(vkf_engine_result_add(result, "labels", VKF_I32, 1, &c->n_words, &labels));
  VKF_TRY(vkf_engine_result_add(result, "scores", VKF_F64, 1, &c->n_words, &scores));
  for (size_t p = 0; p < c->parts.n; p++) first[p] = c->n_words;
  for (size_t w = c->n_words; w-- > 0;) first[c->words[w].part] = w;
  for (size_t p = 0; p < c->parts.n; p++)
    for (size_t w = first[p]; w < c->n_words && c->words[w].part == p; w++, n++) {
      ((int32_t *)texts)[n] = (int32_t)c->parts.at[p].text;
      ((int32_t *)labels)[n] = c->words[w].label;
      ((double *)scores)[n] = c->words[w].score;
      VKF_TRY(vkf_engine_result_add_text(result, c->words[w].text));
    }
  VKF_TRY(vkf_task_labels_add(&c->labels, result));
done:
  vkf_env_free(c->session->env, first);
  return st;
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */

/* Refuses texts without an end id if the model has an encoder and a decoder: its head reads the state of the end. */
static vkf_status refuse_endless(classifier *c) {
  const vkf_net_info *info = vkf_model_net_info(c->session->model->net);
  if (info->architecture != VKF_ARCHITECTURE_ENCODER_DECODER) return VKF_OK;
  for (size_t i = 0; i < c->parts.n; i++) {
    const vkf_part *part = &c->parts.at[i];
    if (!vkf_engine_last_end(c->session, part->ids, part->n))
      VKF_CALL(vkf_task_parts_refuse(&c->parts, part->text, VKF_SKIP_INVALID,
                                     "expected an end among its tokens (eos_token_id, %d), found none",
                                     (int)info->eos_id));
  }
  return VKF_OK;
}

/* Runs texts [n]. *joined [n][labels]: their scores, which the caller frees; not set if words are labelled. */
static vkf_status run_texts(classifier *c, const char *const *texts, size_t n, const vkf_part_rules *rules,
                            double **joined) {
  vkf_env *env = c->session->env;
  const bool words = c->labels.of_tokens;
  VKF_CALL(vkf_task_parts_make(c->session, texts, n, rules, &c->parts));
  VKF_CALL(refuse_endless(c));
  c->scores = vkf_env_alloc(env, (words ? 1 : c->parts.n) * c->labels.n, sizeof *c->scores);
  if (!c->scores) return VKF_ERROR_MEMORY;
  const vkf_batches batches = {&c->parts, VKF_RUN_LOGITS, words ? take_words : take_scores, c};
  VKF_CALL(vkf_task_batches_run(&batches));
  if (words) return VKF_OK;
  *joined = vkf_env_alloc(env, n * c->labels.n, sizeof **joined);
  if (!*joined) return VKF_ERROR_MEMORY;
  join_parts(c, *joined);
  return VKF_OK;
}

/* Reports skipped texts: a text is skipped if one of its pairs is. */
static vkf_status report_candidates(const classifier *c, const vkf_zero_shot *z, vkf_result *result) {
  vkf_status st = VKF_OK;
  const vkf_parts *p = &c->parts;
  const char **why = vkf_env_alloc(c->session->env, z->n_texts, sizeof *why);
  vkf_skip_reason *skipped = vkf_env_alloc(c->session->env, z->n_texts, sizeof *skipped);
  if (!why || !skipped) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t i = 0; i < p->n_texts; i++) {
    const size_t text = i / z->n_candidates;
    if (!p->why[i] || why[text]) continue;
    if (!c->params.skip_refused) VKF_FAIL(c->session->env, VKF_ERROR_ARGUMENT, "text %zu: %s", text + 1, p->why[i]);
    why[text] = p->why[i];
    skipped[text] = p->skipped[i];
  }
  VKF_TRY(vkf_engine_result_skip(result, z->n_texts, skipped, why));
done:
  vkf_env_free(c->session->env, skipped);
  vkf_env_free(c->session->env, why);
  return st;
}

/* Scores candidate labels for each text, by zero-shot classification. */
static vkf_status classify_candidates(classifier *c, const char *const *texts, size_t n, vkf_result *result) {
  vkf_status st = VKF_OK;
  vkf_zero_shot z = {0};
  double *logits = NULL, *scores = NULL;
  if (c->labels.of_tokens || c->params.text_pairs)
    VKF_FAIL(c->session->env, VKF_ERROR_UNSUPPORTED, "candidate labels: expected %s",
             c->params.text_pairs ? "no pairs of texts, found some" : "a model of inference, found one of words");
  VKF_TRY(vkf_task_zero_shot_init(&z, &c->labels, &c->params, texts, n));
  const size_t n_labels = c->labels.n;
  const vkf_part_rules rules = {.long_texts = c->params.long_texts, .skip_refused = true, .pairs = z.hypotheses};
  c->labels.scores = VKF_LABELS_PLAIN;
  VKF_TRY(run_texts(c, z.premises, n * z.n_candidates, &rules, &logits));
  VKF_TRY(report_candidates(c, &z, result));
  scores = vkf_env_alloc(c->session->env, n * z.n_candidates, sizeof *scores);
  if (!scores) VKF_TRY(VKF_ERROR_MEMORY);
  vkf_task_zero_shot_score(&z, logits, n_labels, scores);
  c->labels.candidates = c->params.candidate_labels;
  c->labels.n = z.n_candidates;
  VKF_TRY(add_best(c, scores, n, result));
done:
  vkf_env_free(c->session->env, scores);
  vkf_env_free(c->session->env, logits);
  vkf_task_zero_shot_finish(&z);
  return st;
}

static vkf_status classify(classifier *c, const char *const *texts, size_t n, vkf_result *result) {
  vkf_status st = VKF_OK;
  const vkf_part_rules rules = {
      .long_texts = c->params.long_texts, .skip_refused = c->params.skip_refused, .pairs = c->params.text_pairs};
  double *joined = NULL;
  VKF_CALL(vkf_task_labels_read(c->session, &c->labels));
  if (c->params.candidate_labels) return classify_candidates(c, texts, n, result);
  if (c->labels.of_tokens && rules.pairs)
    VKF_FAIL(c->session->env, VKF_ERROR_UNSUPPORTED,
             "expected a model that labels whole texts for pairs, found one that labels words");
  VKF_TRY(run_texts(c, texts, n, &rules, &joined));
  VKF_TRY(vkf_task_parts_report(&c->parts, result));
  VKF_TRY(c->labels.of_tokens ? add_words(c, result) : add_best(c, joined, n, result));
done:
  vkf_env_free(c->session->env, joined);
  return st;
}

static vkf_status classify_images(classifier *c, const char *const *paths, size_t n, vkf_result *result) {
  vkf_status st = VKF_OK;
  vkf_result *pixels = NULL, *pass = NULL;
  VKF_TRY(vkf_task_labels_read(c->session, &c->labels));
  c->scores = vkf_env_alloc(c->session->env, n * c->labels.n, sizeof *c->scores);
  if (!c->scores) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t first = 0, count; first < n || first == 0; first += count) {
    count = VKF_MIN(n - first, IMAGES_AT_ONCE);
    VKF_TRY(vkf_task_read_images(c->session, paths ? paths + first : NULL, count, &pixels));
    VKF_TRY(vkf_engine_run_output(c->session, pixels->arrays, 1, VKF_RUN_LOGITS, &pass));
    const float *logits = pass->arrays[0].data;
    for (size_t i = 0; i < count; i++) VKF_TRY(take_scores(c, first + i, logits + i * c->labels.n, c->labels.n));
    vkf_engine_result_destroy(&pixels);
    vkf_engine_result_destroy(&pass);
  }
  VKF_TRY(add_best(c, c->scores, n, result));
done:
  vkf_engine_result_destroy(&pixels);
  vkf_engine_result_destroy(&pass);
  return st;
}

static vkf_status run(vkf_session *session, const char *const *list, size_t n, const vkf_classify_params *params,
                      vkf_status (*work)(classifier *c, const char *const *list, size_t n, vkf_result *result),
                      vkf_result **out) {
  vkf_status st = VKF_OK;
  classifier c = {.session = session};
  vkf_result *result = NULL;
  vkf_text_init(&c.text, session->env);
  VKF_TRY(VKF_PARAMS_READ(session->env, vkf_classify_params, params, &c.params));
  VKF_TRY(vkf_engine_result_create(session->env, &result));
  VKF_TRY(work(&c, list, n, result));
done:
  vkf_text_finish(&c.text);
  vkf_env_free(session->env, c.words);
  vkf_env_free(session->env, c.scores);
  vkf_task_parts_finish(&c.parts);
  vkf_task_labels_finish(&c.labels);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}

vkf_status vkf_session_classify(vkf_session *session, const char *const *texts, size_t n,
                                const vkf_classify_params *params, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, run(session, texts, n, params, classify, out));
}

vkf_status vkf_session_classify_images(vkf_session *session, const char *const *paths, size_t n,
                                       const vkf_classify_params *params, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, run(session, paths, n, params, classify_images, out));
}
