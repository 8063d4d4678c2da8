/* generate_text: continues prompts that are texts, and prints the continuations in the order of the prompts. Every
 * worker takes prompts from one window (window.h) as places become free in its session.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "generate.h"
#include "window.h"

/* Sequences that are generated together, the most prompts, and prompts in the window. */
enum { TOGETHER = 128, BATCH = 64, WINDOW = 128 };

static const char format[] = "vkformer-generate/1";

typedef struct writer {
  tool_session session;
  tool_crew crew;
  tool_window window;
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

/* ---- one sequence ------------------------------------------------------------------------------------------------ */

/* Returns {"id", "token", "logprob"}. */
static json_t *token_json(const writer *w, int32_t id, double logprob) {
  const char *piece = vkf_tokenizer_piece(vkf_model_tokenizer(w->session.model), id);
  return json_pack("{s:i, s:s, s:o}", "id", id, "token", piece ? piece : "", "logprob", tool_json_real(logprob));
}

/* Returns the first n tokens of a row, each with the most likely alternatives; NULL without --top-logprobs. */
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

static void add_json(FILE *out, json_t *json) {
  char *text = json ? json_dumps(json, JSON_COMPACT | TOOL_JSON_DIGITS) : NULL;
  if (text) fprintf(out, "%s\n", text);
  free(text);
  json_decref(json);
}

/* Writes a row. Adds its number of ids to n_tokens. */
static void add_row(const writer *w, FILE *out, const tool_entry *e, const vkf_result *result, size_t row,
                    size_t *n_tokens) {
  const vkf_array *sequences = vkf_result_find(result, "sequences"),
                  *scores = vkf_result_find(result, "sequences_scores");
  const int32_t *ids = (const int32_t *)sequences->data + row * sequences->shape[1];
  size_t n = 0;
  while (n < sequences->shape[1] && ids[n] >= 0) n++;
  *n_tokens += n;
  if (!w->args->json) {
    fprintf(out, "%s\n", w->params.on_text ? "" : vkf_result_text(result, row));
    return;
  }
  json_t *score = scores ? tool_json_real(((const float *)scores->data)[row]) : json_null();
  add_json(out, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o*}", "format", format, "prompt", e->text, "text",
                          vkf_result_text(result, row), "ids", tool_json_ids(ids, n), "score", score, "logprobs",
                          logprobs_json(w, result, ids, row, n)));
}

/* Writes e->out. A prompt that was skipped has no result. */
static int render(void *user, tool_entry *e, const vkf_result *result, size_t *n_tokens) {
  const writer *w = user;
  FILE *out = open_memstream(&e->out, &e->n_out);
  if (!out) return tool_error("out of memory");
  for (size_t r = 0; r < w->each && result; r++)
    if (tool_is_found(result, r)) add_row(w, out, e, result, r, n_tokens);
  if (!result && w->args->json)
    add_json(out, json_pack("{s:s, s:s, s:s}", "format", format, "prompt", e->text, "skipped", e->skipped));
  else if (!result)
    fputc('\n', out);
  return fclose(out) == 0 ? TOOL_OK : tool_error("out of memory");
}

static vkf_status run(void *user, vkf_session *session, const vkf_text_queue *queue) {
  return vkf_session_generate_text_queue(session, queue, &((const writer *)user)->params);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* Returns how many prompts run together. copies: sequences of a prompt that run together. */
static size_t default_batch(size_t copies) {
  const size_t n = TOGETHER / copies;
  return n > BATCH ? BATCH : n > 1 ? n : 1;
}

/* Whether somebody may read a text as it grows: on a terminal, or through a pipe unless all prompts are in a file. */
static bool may_be_watched(const tool_args *args) {
  struct stat out, in;
  if (isatty(STDOUT_FILENO)) return true;
  if (fstat(STDOUT_FILENO, &out) != 0 || S_ISREG(out.st_mode) || S_ISCHR(out.st_mode)) return false;
  return args->prompts.n || fstat(STDIN_FILENO, &in) != 0 || !S_ISREG(in.st_mode);
}

static int check(const writer *w) {
  const tool_args *args = w->args;
  if (tool_rules_check(args) != TOOL_OK || tool_texts_check(args, args->prompts.at, args->prompts.n) != TOOL_OK)
    return TOOL_USAGE;
  if (tool_long_is(args, "split"))
    return tool_usage_error("generate",
                            "--long: expected truncate, skip or fail, found split: "
                            "the continuation of a part is not that of the prompt");
  return TOOL_OK;
}

/* Opens source, sink and window. is_shown: each text is shown before the next prompt is read. */
static int open_window(writer *w, size_t batch, bool is_shown) {
  const tool_args *args = w->args;
  tool_window *window = &w->window;
  bool is_done = false;
  *window = (tool_window){.session = &w->session,
                          .args = args,
                          .shard = {1, 1, 1},
                          .noun = args->prompts.n ? "text" : "line",
                          .run = run,
                          .render = render,
                          .user = w,
                          .works_blanks = true,
                          .mixes_lengths = true,
                          .capacity = is_shown              ? 1
                                      : 16 * batch > WINDOW ? 16 * batch
                                                            : WINDOW};
  int exit_code = tool_source_open(&window->source, NULL, args->prompts.at, args->prompts.n);
  if (exit_code == TOOL_OK) exit_code = tool_sink_open(&window->sink, NULL, false, 0, window->shard, &is_done);
  return exit_code == TOOL_OK ? tool_window_init(window) : exit_code;
}

/* Runs all prompts. If they are few, each worker gets its share. */
static int run_prompts(writer *w, size_t batch, bool is_shown) {
  tool_window *window = &w->window;
  tool_window_fill(window, true);
  const size_t n = window->n_waiting, most = is_shown ? 1 : w->crew.most;
  const size_t jobs = window->ended && n < most ? n : most, share = jobs ? (n + jobs - 1) / jobs : 0;
  w->params.batch_size = window->ended && share && share < batch ? share : batch;
  return tool_window_run(window, &w->crew, jobs);
}

int tool_generate_text(const tool_args *args, const char *config) {
  writer w = {.args = args, .params = {VKF_GENERATE_TEXT_PARAMS_INIT}};
  const char *folder = args->operands[0];
  w.each = tool_config_count(config, folder, "num_return_sequences");
  const size_t beams = tool_config_count(config, folder, "num_beams");
  const bool is_one_search = beams > 1 && !tool_config_flag(config, folder, "return_alternatives");
  const size_t copies = is_one_search ? beams : w.each * beams;
  /* A text is shown as it grows if somebody may be watching and no option asks for anything else. */
  const bool is_shown =
      may_be_watched(args) && !args->json && !args->batch_size && args->workers <= 1 && w.each == 1 && beams == 1;
  size_t batch = args->batch_size ? args->batch_size : is_shown ? 1 : default_batch(copies);
  if (batch > VKF_MOST_TOGETHER) batch = VKF_MOST_TOGETHER;
  w.params.config_json = config;
  w.params.stops = args->stops.at;
  w.params.n_stops = args->stops.n;
  w.params.scores = args->json > 0;
  w.params.top_logprobs = (uint32_t)args->top;
  w.params.long_texts = tool_long_rule(args);
  w.params.skip_refused = true;
  w.params.source_language = args->source_lang;
  w.params.target_language = args->target_lang;
  if (is_shown) w.params.on_text = on_text;
  int exit_code = check(&w);
  if (exit_code != TOOL_OK) return exit_code;
  exit_code = open_window(&w, batch, is_shown);
  if (exit_code == TOOL_OK) tool_window_fill(&w.window, false);
  const tool_workload load = args->prompts.n == 1 || batch == 1              ? TOOL_ONE_AT_A_TIME
                             : w.window.ended && w.window.n_waiting <= batch ? TOOL_ONE_BATCH
                                                                             : TOOL_MANY_BATCHES;
  if (exit_code == TOOL_OK) exit_code = tool_crew_open(&w.crew, args, &w.session, folder, load);
  if (exit_code == TOOL_OK) exit_code = run_prompts(&w, batch, is_shown);
  tool_window_finish(&w.window);
  tool_crew_finish(&w.crew);
  return tool_session_close(&w.session, exit_code);
}
