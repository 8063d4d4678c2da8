/* generate on texts: prompts in, what follows them out. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "generate.h"
#include "lines.h"

enum { BATCH = 8 }; /* prompts together; more would leave workers without a share where prompts are few */

static const char format[] = "vkformer-generate/1";

typedef struct writer {
  tool_session session;
  const tool_args *args;
  vkf_generate_text_params params;
  size_t each; /* sequences of a prompt */
} writer;

static int on_text(void *user, size_t prompt, const char *text, size_t n_bytes) {
  (void)user;
  (void)prompt;
  fwrite(text, 1, n_bytes, stdout);
  return fflush(stdout) != 0;
}

static vkf_status run(void *user, vkf_session *session, const char *const *texts, const uint64_t *numbers, size_t n,
                      vkf_result **out) {
  vkf_generate_text_params params = ((const writer *)user)->params;
  params.lines = numbers;
  return vkf_session_generate_text(session, texts, n, &params, out);
}

/* ---- one sequence ------------------------------------------------------------------------------------------------ */

/* {"id", "token", "logprob"} */
static json_t *token_json(const writer *w, int32_t id, double logprob) {
  const char *piece = vkf_tokenizer_piece(vkf_model_tokenizer(w->session.model), id);
  return json_pack("{s:i, s:s, s:o}", "id", id, "token", piece ? piece : "", "logprob", tool_json_real(logprob));
}

/* Of the first n tokens of a row: each with its most likely rivals; NULL without --top-logprobs. */
static json_t *logprobs_json(const writer *w, const vkf_result *result, const int32_t *ids, size_t row, size_t n) {
  const vkf_array *top = vkf_result_find(result, "top_ids"), *chosen = vkf_result_find(result, "logprobs"),
                  *values = vkf_result_find(result, "top_logprobs");
  if (!top || !chosen || !values) return NULL;
  const size_t n_top = top->shape[2];
  json_t *list = json_array();
  for (size_t t = 0; t < n; t++) {
    const size_t at = row * top->shape[1] + t;
    json_t *rivals = json_array(), *token = token_json(w, ids[t], ((const float *)chosen->data)[at]);
    for (size_t i = 0; i < n_top; i++)
      json_array_append_new(rivals, token_json(w, ((const int32_t *)top->data)[at * n_top + i],
                                               ((const float *)values->data)[at * n_top + i]));
    json_object_set_new(token, "top", rivals);
    json_array_append_new(list, token);
  }
  return list;
}

static int print_row(const writer *w, const tool_line *line, const vkf_result *result, size_t row) {
  const vkf_array *sequences = vkf_result_find(result, "sequences"),
                  *scores = vkf_result_find(result, "sequences_scores");
  const int32_t *ids = (const int32_t *)sequences->data + row * sequences->shape[1];
  size_t n = 0;
  if (!w->args->json) {
    puts(w->params.on_text ? "" : vkf_result_text(result, row));
    return TOOL_OK;
  }
  json_t *list = json_array();
  for (; n < sequences->shape[1] && ids[n] >= 0; n++) json_array_append_new(list, json_integer(ids[n]));
  json_t *score = scores ? tool_json_real(((const float *)scores->data)[row]) : json_null();
  return tool_print_json_line(json_pack("{s:s, s:s, s:s, s:o, s:o, s:o*}", "format", format, "prompt", line->text,
                                        "text", vkf_result_text(result, row), "ids", list, "score", score, "logprobs",
                                        logprobs_json(w, result, ids, row, n)));
}

static int print(void *user, const tool_line *line, const vkf_result *result) {
  const writer *w = user;
  int exit_code = TOOL_OK;
  for (size_t r = 0; r < w->each && exit_code == TOOL_OK; r++)
    exit_code = print_row(w, line, result, line->row * w->each + r);
  return exit_code;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* A whole number of the configuration; 1 where there is none. */
static size_t config_size(const writer *w, const char *config, const char *key) {
  json_t *value = tool_config_value(config, w->args->operands[0], key);
  const json_int_t n = json_integer_value(value);
  json_decref(value);
  return n > 1 ? (size_t)n : 1;
}

static bool is_file(int descriptor) {
  struct stat found;
  return fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
}

int tool_generate_text(const tool_args *args, const char *config) {
  writer w = {.args = args};
  w.each = config_size(&w, config, "num_return_sequences");
  /* A text is shown as it grows where somebody may watch and nobody asked for anything else. */
  const bool is_shown = !is_file(STDOUT_FILENO) && !args->json && !args->batch_size && args->workers <= 1 &&
                        w.each == 1 && config_size(&w, config, "num_beams") == 1;
  const size_t batch = args->batch_size ? args->batch_size : is_shown ? 1 : BATCH;
  tool_lines lines = {.session = &w.session,
                      .args = args,
                      .texts = args->prompts.at,
                      .n_texts = args->prompts.n,
                      .batch = batch,
                      .spreads = true,
                      .window = is_shown ? 1 : TOOL_WINDOW * batch,
                      .run = run,
                      .print = print,
                      .user = &w,
                      .format = format,
                      .key = "prompt",
                      .skipped_text = "\n"};
  if (tool_lines_check(&lines) != TOOL_OK) return TOOL_USAGE;
  if (args->long_ && strcmp(args->long_, "split") == 0)
    return tool_usage_error("generate",
                            "--long: expected truncate, skip or fail, found split: what follows a part is "
                            "not what follows the prompt");
  int exit_code = tool_lines_open(&lines, args->operands[0]);
  vkf_generate_text_params_init(&w.params);
  w.params.config_json = config;
  w.params.stops = args->stops.at;
  w.params.n_stops = args->stops.n;
  if (args->batch_size) w.params.batch_size = args->batch_size;
  w.params.scores = args->json > 0;
  w.params.top_logprobs = (uint32_t)args->top;
  w.params.long_texts = tool_long_rule(args);
  w.params.skip_refused = true;
  w.params.source_language = args->source_lang;
  w.params.target_language = args->target_lang;
  if (is_shown) w.params.on_text = on_text;
  if (exit_code == TOOL_OK) exit_code = tool_lines_run(&lines);
  return tool_lines_close(&lines, exit_code);
}
