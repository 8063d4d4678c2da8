/* score: prints how probable given translations are for a model. */

#include "commands.h"
#include "source.h"

static const char format[] = "vkformer-score/1";

enum { BATCH = 256 };

typedef struct scores {
  tool_session session;
  const tool_args *args;
  tool_text_list sources, targets;
} scores;

static int print_json(const scores *s, size_t i, double score, const int32_t *ids, const float *logprobs, size_t n) {
  json_t *tokens = json_array();
  for (size_t t = 0; t < n; t++) {
    const char *piece = vkf_tokenizer_piece(vkf_session_tokenizer(s->session.run), ids[t]);
    json_array_append_new(tokens, json_pack("{s:i, s:s, s:o}", "id", ids[t], "token", piece ? piece : "", "logprob",
                                            tool_json_float(logprobs[t])));
  }
  return tool_print_json_line(json_pack("{s:s, s:s, s:s, s:o, s:o}", "format", format, "source", s->sources.at[i],
                                        "target", s->targets.at[i], "score", tool_json_real(score), "tokens", tokens));
}

/* Scores pairs [first, first + n). */
static int score_batch(scores *s, size_t first, size_t n) {
  vkf_result *result = NULL;
  const vkf_status status = vkf_session_score(s->session.run, (const char *const *)s->sources.at + first,
                                              (const char *const *)s->targets.at + first, n, NULL, &result);
  int exit_code = TOOL_OK;
  char where[64];
  snprintf(where, sizeof where, "lines %zu to %zu", first + 1, first + n);
  if (status != VKF_OK) return tool_session_fail(&s->session, status, where);
  const vkf_array *all = vkf_result_find(result, "ids");
  const float *logprobs = vkf_result_f32(result, "logprobs", NULL);
  const double *sums = vkf_result_f64(result, "scores", NULL);
  const size_t longest = all->shape[1];
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++) {
    const int32_t *ids = (const int32_t *)all->data + i * longest;
    size_t length = 0;
    while (length < longest && ids[length] >= 0) length++;
    if (s->args->json)
      exit_code = print_json(s, first + i, sums[i], ids, logprobs + i * longest, length);
    else
      printf("%.6f\n", sums[i]);
  }
  vkf_result_destroy(&result);
  return exit_code == TOOL_OK ? tool_flush() : exit_code;
}

static int run_score(const tool_args *args) {
  scores s = {.args = args};
  char folder[4096];
  int exit_code = tool_find_model(args, folder, sizeof folder);
  if (exit_code == TOOL_OK) exit_code = tool_text_list_read(&s.sources, args->operands[0], 0);
  if (exit_code == TOOL_OK) exit_code = tool_text_list_read(&s.targets, args->operands[1], s.sources.n);
  if (exit_code == TOOL_OK) exit_code = tool_session_open(&s.session, args, args->device, folder);
  for (size_t i = 0; i < s.sources.n && exit_code == TOOL_OK; i += BATCH)
    exit_code = score_batch(&s, i, s.sources.n - i < BATCH ? s.sources.n - i : BATCH);
  tool_text_list_finish(&s.sources);
  tool_text_list_finish(&s.targets);
  return tool_session_close(&s.session, exit_code);
}

static const tool_option options[] = {
    {"model", 'm', TOOL_NAME, offsetof(tool_args, model), "DIR", "a model folder; default: the English-Spanish model"},
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL,
     "print a JSON line for each pair: source, target, score, and the\nlog-probability of each token"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_score = {
    .name = "score",
    .summary = "Compute how probable given translations are for a model",
    .usage = "SOURCES TARGETS [OPTION]...",
    .text =
        "Both files have one text per line. For each pair one line is printed: the natural logarithm of the\n"
        "probability of the target, including its end token, given the source.",
    .examples = "  vkformer score english.txt spanish.txt > scores.txt\n",
    .groups = {&group, &tool_model_options, TOOL_DEVICE_GROUPS},
    .min_operands = 2,
    .max_operands = 2,
    .operand = "SOURCES and TARGETS, files with a text a line",
    .run = run_score,
};
