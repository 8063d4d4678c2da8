/* translate: sentences in, sentences out, one a line and in their order. A blank line stays blank. */
#include <stdlib.h>

#include "attention.h"
#include "lines.h"

static const char format[] = "vkformer-translate/1";

enum { DEFAULT_BATCH = 32, MAX_END_IDS = 8, MAX_PICTURES = 16 };

typedef struct translation {
  tool_session session;
  const tool_args *args;
  char folder[4096];
  vkf_generate_params params;
  int end_ids[MAX_END_IDS]; /* of --json: an id that ends a row */
  size_t n_end_ids;
  json_t *pictures; /* of --attention; NULL: not asked for */
  size_t n_unpictured;
} translation;

static vkf_status run(void *user, vkf_session *session, const char *const *texts, const uint64_t *numbers, size_t n,
                      vkf_result **out) {
  vkf_generate_params params = ((const translation *)user)->params;
  params.lines = numbers;
  return vkf_session_translate(session, texts, n, &params, out);
}

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

/* Adds the weights of a text that was translated in one piece to those of --attention. */
static int picture(translation *t, const tool_line *line, const vkf_result *result) {
  size_t n_rows = 0, n = 0, row = 0;
  const int32_t *texts = line->row == TOOL_NO_ROW ? NULL : vkf_result_i32(result, "texts", &n_rows);
  for (size_t r = 0; r < n_rows; r++) {
    if ((size_t)texts[r] != line->row) continue;
    row = r;
    n++;
  }
  if (!n) return TOOL_OK;
  if (n > 1 || json_array_size(t->pictures) == MAX_PICTURES) {
    t->n_unpictured++;
    return TOOL_OK;
  }
  tool_attended a = {0};
  json_t *document = NULL;
  int exit_code = tool_attend_translation(&t->session, t->args, line->text, result, row, &a);
  if (exit_code == TOOL_OK) document = tool_attention_document(&t->session, t->args, &a);
  tool_attended_finish(&a);
  if (exit_code != TOOL_OK) return exit_code;
  return json_array_append_new(t->pictures, document) == 0 ? TOOL_OK : TOOL_FAILED;
}

static int print(void *user, const tool_line *line, const vkf_result *result) {
  translation *t = user;
  const vkf_array *texts = vkf_result_find(result, "texts");
  const char *text = line->row == TOOL_NO_ROW ? "" : vkf_result_text(result, line->row);
  const int pictured = t->pictures ? picture(t, line, result) : TOOL_OK;
  if (pictured != TOOL_OK) return pictured;
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

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* eos_token_id, a number or a list of them. */
static void read_end_ids(translation *t) {
  json_t *ids = tool_config_value(t->params.config_json, t->folder, "eos_token_id");
  if (json_is_integer(ids)) t->end_ids[t->n_end_ids++] = (int)json_integer_value(ids);
  for (size_t i = 0; i < json_array_size(ids) && i < MAX_END_IDS; i++)
    t->end_ids[t->n_end_ids++] = (int)json_integer_value(json_array_get(ids, i));
  json_decref(ids);
}

/* Writes the page of --attention. */
static int write_pictures(translation *t) {
  if (t->n_unpictured)
    fprintf(stderr, "vkformer: --attention: the page has the first %d texts that were not split; %zu are left out\n",
            MAX_PICTURES, t->n_unpictured);
  json_t *pictures = t->pictures;
  t->pictures = NULL;
  return tool_write_page("tools/attention.html", t->args->attention, pictures);
}

static int run_translate(const tool_args *args) {
  translation t = {.args = args, .params = {VKF_GENERATE_PARAMS_INIT}};
  const size_t batch = args->batch_size ? args->batch_size : DEFAULT_BATCH;
  tool_lines lines = {.session = &t.session,
                      .args = args,
                      .texts = args->n_operands ? (const char *const *)args->operands : NULL,
                      .n_texts = args->n_operands,
                      .batch = batch,
                      .window = TOOL_WINDOW * batch,
                      .keeps_blanks = true,
                      .run = run,
                      .print = print,
                      .user = &t,
                      .format = format,
                      .key = "source",
                      .skipped_text = "\n"};
  char *config = NULL;
  if (tool_lines_check(&lines, "translate") != TOOL_OK) return TOOL_USAGE;
  int exit_code = tool_find_model(args, t.folder, sizeof t.folder);
  if (exit_code == TOOL_OK) exit_code = tool_generation_config(args, &config);
  if (exit_code == TOOL_OK) exit_code = tool_lines_open(&lines, t.folder);
  if (exit_code == TOOL_OK) {
    t.params.config_json = config;
    t.params.scores = args->json > 0;
    t.params.long_texts = tool_long_rule(args);
    t.params.skip_refused = true;
    t.params.source_language = args->source_lang;
    t.params.target_language = args->target_lang;
    if (args->json) read_end_ids(&t);
    tool_warn_sampling(args, config, t.folder);
    if (args->attention) t.pictures = json_array();
    exit_code = tool_lines_run(&lines);
  }
  if (t.pictures) exit_code = tool_both_exit_codes(exit_code, write_pictures(&t));
  exit_code = tool_lines_close(&lines, exit_code);
  free(config);
  return exit_code;
}

static const tool_option options[] = {
    {"model", 'm', TOOL_NAME, offsetof(tool_args, model), "DIR", "a model folder; default: the English-Spanish model"},
    {"batch-size", 'b', TOOL_SIZE, offsetof(tool_args, batch_size), "N",
     "lines translated together; default 32; fewer where no\nfurther line is at hand"},
    TOOL_SOURCE_LANG,
    TOOL_TARGET_LANG,
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL,
     "a JSON line for each text: source, translation, ids, score"},
    {"attention", 0, TOOL_OUTPUT, offsetof(tool_args, attention), "FILE",
     "write a page that shows which token looks at which"},
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
    .groups = {&group, &tool_line_options, &tool_crew_options, &tool_generation_options, &tool_model_options,
               &tool_common_options},
    .max_operands = (size_t)-1,
    .run = run_translate,
};
