/* fill-mask: prints what a masked language model predicts for each mask of a text. */
#include "lines.h"

static const char format[] = "vkformer-fill-mask/1";

typedef struct filler {
  tool_session session;
  const tool_args *args;
  vkf_fill_mask_params params;
} filler;

static vkf_status run(void *user, vkf_session *session, const char *const *texts, size_t n, vkf_result **out) {
  const filler *f = user;
  return vkf_session_fill_mask(session, texts, n, &f->params, out);
}

/* Prints candidate c of the masks of a result. */
static int print_candidate(const filler *f, const tool_line *line, const vkf_result *result, size_t c) {
  const vkf_array *ids = vkf_result_find(result, "ids");
  const int32_t *positions = vkf_result_find(result, "positions")->data;
  const double score = ((const double *)vkf_result_find(result, "scores")->data)[c];
  const char *token = vkf_result_text(result, 2 * c), *text = vkf_result_text(result, 2 * c + 1);
  if (f->args->json)
    return tool_print_json_line(json_pack("{s:s, s:s, s:i, s:o, s:i, s:s, s:s}", "format", format, "source", line->text,
                                          "position", positions[c / ids->shape[1]], "score", tool_json_real(score),
                                          "id", ((const int32_t *)ids->data)[c], "token", token, "text", text));
  const int columns = tool_columns(token);
  printf("%.4f  %s%*s %s\n", score, token, columns < 16 ? 16 - columns : 0, "", text);
  return TOOL_OK;
}

static int print(void *user, const tool_line *line, const vkf_result *result) {
  const filler *f = user;
  const vkf_array *ids = vkf_result_find(result, "ids");
  const int32_t *texts = vkf_result_find(result, "texts")->data;
  const size_t k = ids->shape[1];
  int exit_code = TOOL_OK;
  for (size_t m = 0, n = 0; m < ids->shape[0]; m++) {
    if ((size_t)texts[m] != line->row) continue;
    if (n++ && !f->args->json) putchar('\n');
    for (size_t i = 0; i < k && exit_code == TOOL_OK; i++) exit_code = print_candidate(f, line, result, m * k + i);
  }
  return exit_code;
}

static int run_fill_mask(const tool_args *args) {
  filler f = {.args = args};
  tool_lines lines = {.session = &f.session,
                      TOOL_LINES_OF(args, 1),
                      .batch = TOOL_BATCH,
                      .window = TOOL_WINDOW * TOOL_BATCH,
                      .run = run,
                      .print = print,
                      .user = &f,
                      .format = format,
                      .key = "source"};
  if (tool_lines_check(&lines) != TOOL_OK) return TOOL_USAGE;
  vkf_fill_mask_params_init(&f.params);
  if (args->top) f.params.top_k = args->top;
  f.params.long_texts = tool_long_rule(args);
  f.params.skip_refused = true;
  int exit_code = tool_lines_open(&lines, args->operands[0]);
  if (exit_code == TOOL_OK) exit_code = tool_lines_run(&lines);
  return tool_lines_close(&lines, exit_code);
}

static const tool_option options[] = {
    {"top-k", 'k', TOOL_SIZE, offsetof(tool_args, top), "N", "candidates for each mask; default 5"},
    TOOL_LINES_INPUT_OPTION,
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL,
     "print a JSON line for each candidate: source, position, score,\nid, token, text"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_fill_mask = {
    .name = "fill-mask",
    .summary = "Fill the masks of texts, or of the lines of standard input",
    .usage = "MODEL [OPTION]... [TEXT]...",
    .text =
        "Write a mask as the model's tokenizer does: [MASK] or <mask>. Each mask is filled alone, while the others\n"
        "stay masks. A text without a mask is invalid. If --long splits a text, each of its parts is filled alone.",
    .examples = "  vkformer fill-mask bert-base-uncased \"Paris is the [MASK] of France.\" --top-k 3\n",
    .groups = {&group, &tool_line_options, &tool_crew_options, &tool_model_options, TOOL_DEVICE_GROUPS},
    .min_operands = 1,
    .max_operands = (size_t)-1,
    .operand = "MODEL, a model folder",
    .takes_model = true,
    .run = run_fill_mask,
};
