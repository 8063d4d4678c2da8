/* translate: sentences in, sentences out, one a line and in their order. A blank line stays blank. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crew.h"
#include "lines.h"

static const char format[] = "vkformer-translate/1";

enum { DEFAULT_BATCH = 32, WINDOW = 16, MAX_END_IDS = 8 }; /* WINDOW: batches that are put together at a time */

/* A text, in the order of batches. */
typedef struct place {
  const char *text;
  size_t length, index; /* in bytes; among the texts of the call */
  uint64_t number;      /* of its line */
} place;

typedef struct translation {
  tool_session session;
  const tool_args *args;
  char folder[4096];
  vkf_generate_params params;
  int end_ids[MAX_END_IDS]; /* of --json: an id that ends a row */
  size_t n_end_ids;
  size_t n_done; /* lines printed */
  double start;
  tool_crew crew;
  /* Of one call: its texts by length, where each of them is among these, and what its batches gave. */
  place *places;
  size_t *found, n, batch, n_results;
  vkf_result **results;
} translation;

/* ---- one result -------------------------------------------------------------------------------------------------- */

/* Row `row` of `sequences` without the start token, up to and with the id that ends it. */
static json_t *row_ids(const translation *t, const vkf_result *result, size_t row) {
  json_t *ids = json_array();
  const vkf_array *sequences = result ? vkf_result_find(result, "sequences") : NULL;
  if (!sequences || sequences->rank != 2 || row >= sequences->shape[0]) return ids;
  const int32_t *row_data = (const int32_t *)sequences->data + row * sequences->shape[1];
  bool ended = false;
  for (size_t i = 1; i < sequences->shape[1] && !ended; i++) {
    json_array_append_new(ids, json_integer(row_data[i]));
    for (size_t e = 0; e < t->n_end_ids; e++) ended = ended || row_data[i] == t->end_ids[e];
  }
  return ids;
}

static json_t *row_score(const vkf_result *result, size_t row) {
  const vkf_array *scores = result ? vkf_result_find(result, "sequences_scores") : NULL;
  if (!scores || scores->rank != 1 || row >= scores->shape[0]) return json_null();
  return tool_json_real(((const float *)scores->data)[row]);
}

static int print(void *user, const tool_line *line, const vkf_result *result) {
  translation *t = user;
  const vkf_array *texts = vkf_result_find(result, "texts");
  const char *text = line->row == TOOL_NO_ROW ? "" : vkf_result_text(result, line->row);
  t->n_done++;
  if (!t->args->json) {
    puts(text);
    return TOOL_OK;
  }
  json_t *ids = json_array(), *score = NULL;
  size_t n = 0; /* parts of the line */
  for (size_t row = 0; texts && row < texts->shape[0]; row++) {
    if ((size_t)((const int32_t *)texts->data)[row] != line->row) continue;
    json_t *more = row_ids(t, result, row);
    json_array_extend(ids, more);
    json_decref(more);
    json_decref(score);
    score = n++ ? json_null() : row_score(result, row);
  }
  return tool_print_json_line(json_pack("{s:s, s:s, s:s, s:o, s:o}", "format", format, "source", line->text,
                                        "translation", text, "ids", ids, "score", score ? score : json_null()));
}

/* ---- batches of texts of like length ----------------------------------------------------------------------------- */

/* The longest first; in their order where they are as long. */
static int by_length(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->length != y->length) return x->length < y->length ? 1 : -1;
  return x->index < y->index ? -1 : 1;
}

static void forget_results(translation *t) {
  for (size_t i = 0; i < t->n_results; i++) vkf_result_destroy(&t->results[i]);
  t->n_results = 0;
}

/* On any thread: changes its own result alone. */
static vkf_status translate_batch(void *user, vkf_session *session, size_t i) {
  translation *t = user;
  const size_t first = i * t->batch, n = t->n - first < t->batch ? t->n - first : t->batch;
  const char **texts = malloc(n * sizeof *texts);
  uint64_t *lines = malloc(n * sizeof *lines);
  vkf_generate_params params = t->params;
  params.lines = lines;
  for (size_t j = 0; texts && lines && j < n; j++) {
    texts[j] = t->places[first + j].text;
    lines[j] = t->places[first + j].number;
  }
  vkf_status status = VKF_ERROR_MEMORY;
  if (texts && lines) status = vkf_session_translate(session, texts, n, &params, &t->results[i]);
  free(lines);
  free(texts);
  return status;
}

static vkf_status run(void *user, const char *const *texts, const uint64_t *numbers, size_t n, vkf_result **out) {
  translation *t = user;
  *out = NULL;
  if (t->n_done && !t->args->n_operands && !isatty(STDOUT_FILENO))
    tool_progress(&t->session, "%zu lines, %.1f a second", t->n_done, (double)t->n_done / (tool_seconds() - t->start));
  forget_results(t);
  t->n = n;
  for (size_t i = 0; i < n; i++)
    t->places[i] = (place){.text = texts[i], .length = strlen(texts[i]), .index = i, .number = numbers[i]};
  qsort(t->places, n, sizeof *t->places, by_length);
  for (size_t i = 0; i < n; i++) t->found[t->places[i].index] = i;
  t->n_results = (n + t->batch - 1) / t->batch;
  return tool_crew_run(&t->crew, t->n_results, translate_batch, t);
}

static const vkf_result *find(void *user, size_t i, size_t *row) {
  const translation *t = user;
  *row = t->found[i] % t->batch;
  return t->results[t->found[i] / t->batch];
}

/* Room for a call of n texts. */
static int make_room(translation *t, size_t n) {
  t->places = calloc(n, sizeof *t->places);
  t->found = calloc(n, sizeof *t->found);
  t->results = calloc(n, sizeof *t->results);
  return t->places && t->found && t->results ? TOOL_OK : tool_error("out of memory");
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* eos_token_id, a number or a list of them. */
static void read_end_ids(translation *t) {
  json_t *ids = tool_config_value(t->params.config_json, t->folder, "eos_token_id");
  if (json_is_integer(ids)) t->end_ids[t->n_end_ids++] = (int)json_integer_value(ids);
  for (size_t i = 0; i < json_array_size(ids) && i < MAX_END_IDS; i++)
    t->end_ids[t->n_end_ids++] = (int)json_integer_value(json_array_get(ids, i));
  json_decref(ids);
}

static int run_translate(const tool_args *args) {
  translation t = {
      .args = args, .params = {VKF_GENERATE_PARAMS_INIT}, .batch = args->batch_size ? args->batch_size : DEFAULT_BATCH};
  const size_t window = WINDOW * t.batch;
  tool_lines lines = {.session = &t.session,
                      .args = args,
                      .texts = args->n_operands ? (const char *const *)args->operands : NULL,
                      .n_texts = args->n_operands,
                      .batch = window,
                      .keeps_blanks = true,
                      .run = run,
                      .find = find,
                      .print = print,
                      .user = &t,
                      .format = format,
                      .key = "source",
                      .skipped_text = "\n"};
  char *config = NULL;
  if (tool_lines_check(&lines, "translate") != TOOL_OK) return TOOL_USAGE;
  int exit_code = tool_find_model(args, t.folder, sizeof t.folder);
  if (exit_code == TOOL_OK) exit_code = tool_generation_config(args, &config);
  if (exit_code == TOOL_OK)
    exit_code = tool_crew_begin(&t.crew, args, &t.session, t.folder, t.batch > 1 && args->n_operands != 1);
  if (exit_code == TOOL_OK) exit_code = make_room(&t, window);
  if (exit_code == TOOL_OK) exit_code = tool_session_open(&t.session, args, args->device, t.folder);
  if (exit_code == TOOL_OK) {
    t.params.config_json = config;
    t.params.scores = args->json > 0;
    t.params.long_texts = tool_long_rule(args);
    t.params.skip_refused = true;
    t.params.source_language = args->source_lang;
    t.params.target_language = args->target_lang;
    if (args->json) read_end_ids(&t);
    tool_warn_sampling(args, config, t.folder);
    t.start = tool_seconds();
    tool_crew_choose(&t.crew);
    exit_code = tool_lines_run(&lines);
  }
  forget_results(&t);
  tool_crew_finish(&t.crew);
  exit_code = tool_session_close(&t.session, exit_code);
  free(t.results);
  free(t.found);
  free(t.places);
  free(config);
  return exit_code;
}

static const tool_option options[] = {
    {"model", 'm', TOOL_NAME, offsetof(tool_args, model), "DIR", "a model folder; default: the English-Spanish model"},
    {"batch-size", 'b', TOOL_SIZE, offsetof(tool_args, batch_size), "N",
     "lines translated together; default 32; fewer where no\nfurther line is at hand"},
    TOOL_CREW_OPTIONS,
    TOOL_SOURCE_LANG,
    TOOL_TARGET_LANG,
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL,
     "a JSON line for each text: source, translation, ids, score"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_translate = {
    .name = "translate",
    .summary = "Translate texts, or the lines of standard input",
    .usage = "[OPTION]... [TEXT]...",
    .text =
        "One line is printed for each text; an empty line stays empty, and a text that is skipped gives one. If "
        "--long\n"
        "splits a text, its parts are joined with a space where the text had white space.",
    .examples =
        "  vkformer translate \"The cat sat on the mat because it was tired.\"\n"
        "  vkformer translate --num-beams 1 --device lavapipe < english.txt > spanish.txt\n",
    .groups = {&group, &tool_line_options, &tool_generation_options, &tool_model_options, &tool_common_options},
    .max_operands = (size_t)-1,
    .run = run_translate,
};
