/* translation: see translation.h. */
#define _POSIX_C_SOURCE 200809L

#include "translation.h"

#include <stdlib.h>
#include <string.h>

#include "alignment.h"

static const char format[] = "vkformer-translate/1";

void tool_translation_read_config(tool_translation *t, const char *config, const char *folder) {
  t->n_best = tool_config_count(config, folder, "num_return_sequences");
  t->is_list = t->n_best > 1 || json_object_get(t->args->config, "num_return_sequences");
  t->end_ids = tool_config_value(config, folder, "eos_token_id");
  json_t *pad = tool_config_value(config, folder, "pad_token_id");
  t->pad_id = json_is_integer(pad) ? (int)json_integer_value(pad) : 0;
  json_decref(pad);
}

void tool_translation_finish(tool_translation *t) {
  json_decref(t->end_ids);
}

/* ---- lines in ---------------------------------------------------------------------------------------------------- */

/* Takes the text from the column of --column, and the prefix of --force-decode from after the last tab. */
static int prepare_columns(const tool_translation *t, tool_entry *e) {
  const char *at = e->line, *last = strrchr(e->line, '\t');
  const size_t column = t->args->column ? t->args->column : 1;
  size_t n_columns = 1;
  for (const char *c = e->line; *c; c++) n_columns += *c == '\t';
  for (size_t i = 1; at && i < column; i++) {
    at = strchr(at, '\t');
    at += at != NULL;
  }
  if (!at || (t->args->force_decode && (!last || last < at))) {
    char why[80];
    snprintf(why, sizeof why, "expected %zu columns with tabs between them, found %zu",
             column + (t->args->force_decode > 0), n_columns);
    return tool_copy(why, &e->skipped);
  }
  if (t->args->force_decode) e->prefix = last + 1;
  e->text = e->field = strndup(at, strcspn(at, "\t"));
  return e->field ? TOOL_OK : tool_error("out of memory");
}

static bool has_zero(const json_t *text) {
  return json_is_string(text) && strlen(json_string_value(text)) != json_string_length(text);
}

/* --jsonl: takes the value of a key and, with --force-decode, of "prefix", which may be absent or null. */
static int prepare_json(const tool_translation *t, tool_entry *e) {
  char why[320], no_json[JSON_ERROR_TEXT_LENGTH + 16] = "";
  const char *key = t->args->jsonl;
  json_error_t error;
  e->json = json_loads(e->line, JSON_REJECT_DUPLICATES, &error);
  if (!e->json) { /* numbers of other keys may be of any size, because they are not read */
    snprintf(no_json, sizeof no_json, "no JSON (%s)", error.text);
    e->json = json_loads(e->line, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
  }
  const json_t *text = json_object_get(e->json, key);
  const json_t *prefix = t->args->force_decode ? json_object_get(e->json, "prefix") : NULL;
  e->text = has_zero(text) ? NULL : json_string_value(text);
  e->prefix = has_zero(prefix) ? NULL : json_string_value(prefix);
  const bool has_wrong_prefix = prefix && !e->prefix && !json_is_null(prefix);
  if (e->text && !has_wrong_prefix) return TOOL_OK;
  const json_t *wrong = e->text ? prefix : text;
  const char *found = !e->json                   ? no_json
                      : !json_is_object(e->json) ? "no object"
                      : !wrong                   ? "none"
                      : has_zero(wrong)          ? "one with a zero byte"
                                                 : "another value";
  if (e->text) key = "prefix";
  if (!json_is_object(e->json)) {
    json_decref(e->json);
    e->json = NULL;
  }
  snprintf(why, sizeof why, "expected a JSON object with a string as \"%.60s\", found %s", key, found);
  return tool_copy(why, &e->skipped);
}

int tool_translation_prepare(const tool_translation *t, tool_entry *e) {
  if (t->args->jsonl) return prepare_json(t, e);
  return t->args->column || t->args->force_decode ? prepare_columns(t, e) : TOOL_OK;
}

/* ---- lines out --------------------------------------------------------------------------------------------------- */

static bool is_end(const tool_translation *t, int32_t id) {
  for (size_t i = 0; i < json_array_size(t->end_ids); i++)
    if (json_integer_value(json_array_get(t->end_ids, i)) == id) return true;
  return json_is_integer(t->end_ids) && json_integer_value(t->end_ids) == id;
}

size_t tool_translation_length(const tool_translation *t, const vkf_array *sequences, size_t row) {
  const int32_t *ids = (const int32_t *)sequences->data + row * sequences->shape[1];
  for (size_t i = 1; i < sequences->shape[1]; i++)
    if (is_end(t, ids[i])) return i;
  size_t n = sequences->shape[1] - 1;
  while (n > 0 && ids[n] == t->pad_id) n--; /* cut off: part of a text after one that has a prefix */
  return n;
}

size_t tool_translation_row(const tool_translation *t, const vkf_array *sequences) {
  const size_t n = tool_translation_length(t, sequences, 0);
  return 1 + (n ? n : 1);
}

bool tool_translation_is_there(const tool_translation *t, const vkf_result *result, size_t best) {
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  for (size_t row = best; best > 0 && sequences && row < sequences->shape[0]; row += t->n_best)
    if (!tool_is_found(result, row)) return false;
  return true;
}

typedef void (*id_fn)(void *user, int32_t id, float score);

/* Calls call for the ids of a line's translation, in all its parts, with their scores (0: there are none). */
static void each_id(const tool_translation *t, const vkf_result *result, size_t best, id_fn call, void *user) {
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  const float *scores = vkf_result_f32(result, "token_scores", NULL);
  for (size_t row = best; sequences && row < sequences->shape[0]; row += t->n_best) {
    const size_t at = row * sequences->shape[1], n = tool_translation_length(t, sequences, row);
    for (size_t i = 1; i <= n; i++) call(user, ((const int32_t *)sequences->data)[at + i], scores ? scores[at + i] : 0);
  }
}

static void add_id(void *list, int32_t id, float score) {
  (void)score;
  json_array_append_new(list, json_integer(id));
}

static void add_score(void *list, int32_t id, float score) {
  (void)id;
  json_array_append_new(list, tool_json_real(score));
}

static void print_score(void *file, int32_t id, float score) {
  (void)id;
  fprintf(file, " %.6g", (double)score);
}

/* Adds the ids of a translation, of all parts, and its score, null if there are several parts. */
static void add_numbers(const tool_translation *t, const vkf_result *result, size_t best, json_t *to) {
  json_t *ids = json_array(), *score = json_null();
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  const float *scores = vkf_result_f32(result, "sequences_scores", NULL);
  const size_t rows = sequences ? sequences->shape[0] : 0;
  each_id(t, result, best, add_id, ids);
  if (scores && rows == t->n_best) score = tool_json_real(scores[best]);
  json_object_set_new(to, "ids", ids);
  json_object_set_new(to, "score", score);
}

/* Keeps the input line as it was written and inserts `found` before its last brace. If the line has one of these keys
 * already, writes the object anew. */
static int set_json(tool_entry *e, json_t *found) {
  const char *key = NULL;
  json_t *value = NULL;
  bool is_there = false;
  size_t n = e->json ? strlen(e->line) : 0;
  while (n > 0 && e->line[n - 1] != '}') n--;
  json_object_foreach(found, key, value) is_there |= json_object_get(e->json, key) != NULL;
  json_t *all = is_there ? json_copy(e->json) : json_incref(found);
  if (is_there) json_object_update(all, found);
  char *text = all ? json_dumps(all, JSON_COMPACT | TOOL_JSON_DIGITS) : NULL;
  json_decref(all);
  json_decref(found);
  FILE *out = text ? open_memstream(&e->out, &e->n_out) : NULL;
  if (out && n > 0 && !is_there)
    fprintf(out, "%.*s%s%s\n", (int)n - 1, e->line, json_object_size(e->json) ? "," : "", text + 1);
  else if (out)
    fprintf(out, "%s\n", text);
  free(text);
  return out && fclose(out) == 0 ? TOOL_OK : tool_error("out of memory");
}

/* result NULL: the line was not translated. */
static int render_json(const tool_translation *t, tool_entry *e, const vkf_result *result) {
  json_t *json = e->json          ? json_object()
                 : t->args->jsonl ? json_pack("{s:s}", "line", e->line)
                                  : json_pack("{s:s, s:s}", "format", format, "source", e->text);
  if (e->skipped) {
    json_object_set_new(json, "skipped", json_string(e->skipped));
    return set_json(e, json);
  }
  json_t *list = t->is_list ? json_array() : NULL;
  for (size_t i = 0; i < t->n_best && (result || !t->is_list); i++) {
    if (result && !tool_translation_is_there(t, result, i)) continue;
    json_t *to = t->is_list ? json_object() : json;
    json_object_set_new(to, "translation", json_string(result ? vkf_result_text(result, i) : ""));
    if (t->args->json) add_numbers(t, result, i, to);
    if (t->args->word_scores) {
      json_t *scores = json_array();
      each_id(t, result, i, add_score, scores);
      json_object_set_new(to, "word_scores", scores);
    }
    if (t->args->alignment)
      json_object_set_new(to, "alignment", tool_alignment_json(&(tool_alignment){result, t->threshold, i, t->n_best}));
    if (t->is_list) json_array_append_new(list, to);
  }
  if (t->is_list) json_object_set_new(json, "translations", list);
  return set_json(e, json);
}

/* Writes a translation as one line, whatever is in it. */
static void add_text(const tool_translation *t, FILE *out, const char *text) {
  for (; *text; text++) fputc(*text == '\n' || *text == '\r' || (t->args->column && *text == '\t') ? ' ' : *text, out);
}

/* Writes a translation, followed by what Marian writes for --alignment and --word-scores. */
static void add_translation(const tool_translation *t, FILE *out, size_t best, const vkf_result *result) {
  add_text(t, out, vkf_result_text(result, best));
  if (t->args->alignment) {
    fputs(" |||", out);
    tool_alignment_print(&(tool_alignment){result, t->threshold, best, t->n_best}, out);
  }
  if (!t->args->word_scores) return;
  fputs(" ||| WordScores=", out);
  each_id(t, result, best, print_score, out);
}

static void add_to_sum(void *sum, int32_t id, float score) {
  (void)id;
  *(double *)sum += (double)score;
}

/* Writes an n-best list as Moses and Marian do; F0 is the sum of the log-probabilities. */
static void add_best(const tool_translation *t, FILE *out, size_t number, const vkf_result *result) {
  const float *scores = vkf_result_f32(result, "sequences_scores", NULL);
  for (size_t i = 0; i < t->n_best; i++) {
    double sum = 0;
    if (!tool_translation_is_there(t, result, i)) continue;
    each_id(t, result, i, add_to_sum, &sum);
    fprintf(out, "%zu ||| ", number - 1);
    add_translation(t, out, i, result);
    fprintf(out, " ||| F0= %.6g ||| %.6g\n", sum, scores ? (double)scores[i] : 0);
  }
}

int tool_translation_render(const tool_translation *t, tool_entry *e, const vkf_result *result) {
  if (t->args->json || t->args->jsonl) return render_json(t, e, result);
  FILE *out = open_memstream(&e->out, &e->n_out);
  if (!out) return tool_error("out of memory");
  if (t->args->column) fprintf(out, "%s\t", e->line);
  if (result && t->is_list)
    add_best(t, out, e->number, result);
  else if (result)
    add_translation(t, out, 0, result);
  if (!result || !t->is_list) fputc('\n', out);
  return fclose(out) == 0 ? TOOL_OK : tool_error("out of memory");
}
