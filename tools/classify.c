/* classify: labels of texts, of the words of a text and of images. */
#include <string.h>

#include "lines.h"

static const char format[] = "vkformer-classify/1";

typedef struct classifier {
  tool_session session;
  const tool_args *args;
  vkf_classify_params params;
  bool images; /* the texts are names of image files */
} classifier;

static vkf_status run(void *user, vkf_session *session, const char *const *texts, size_t n, vkf_result **out) {
  const classifier *c = user;
  vkf_classify_params params = c->params;
  tool_pairs pairs;
  if (c->images) return vkf_session_classify_images(session, texts, n, &params, out);
  if (!c->args->pairs) return vkf_session_classify(session, texts, n, &params, out);
  vkf_status status = VKF_ERROR_MEMORY;
  if (tool_pairs_part(&pairs, texts, n)) {
    params.text_pairs = pairs.second;
    status = vkf_session_classify(session, pairs.first, n, &params, out);
  }
  tool_pairs_finish(&pairs);
  return status;
}

/* {"text": ..., "text_pair": ...} */
static json_t *text_json(const classifier *c, const char *text) {
  const char *tab = c->args->pairs ? strchr(text, '\t') : NULL;
  json_t *line = json_object();
  json_object_set_new(line, "format", json_string(format));
  json_object_set_new(line, c->images ? "image" : "text",
                      tool_json_text(text, tab ? (size_t)(tab - text) : strlen(text)));
  if (tab) json_object_set_new(line, "text_pair", json_string(tab + 1));
  return line;
}

static json_t *label_json(const char *name, double score) {
  return json_pack("{s:s, s:o}", "label", name, "score", tool_json_real(score));
}

/* The labels of a text or image. */
static int print_labels(const classifier *c, const tool_line *line, const vkf_result *result) {
  const vkf_array *labels = vkf_result_find(result, "labels"), *scores = vkf_result_find(result, "scores");
  const size_t k = labels->shape[1];
  const int32_t *label = (const int32_t *)labels->data + line->row * k;
  const double *score = (const double *)scores->data + line->row * k;
  json_t *list = c->args->json ? json_array() : NULL;
  for (size_t i = 0; i < k; i++) {
    const char *name = vkf_result_text(result, (size_t)label[i]);
    if (list)
      json_array_append_new(list, label_json(name, score[i]));
    else
      printf("%s%s %.4f", i ? "  " : "", name, score[i]);
  }
  if (list) {
    json_t *row = text_json(c, line->text);
    json_object_set_new(row, "labels", list);
    return tool_print_json_line(row);
  }
  putchar('\n');
  return TOOL_OK;
}

/* The words of a text. */
static int print_words(const classifier *c, const tool_line *line, const vkf_result *result) {
  const vkf_array *all = vkf_result_find(result, "texts");
  const int32_t *texts = all->data, *labels = vkf_result_find(result, "labels")->data;
  const double *scores = vkf_result_find(result, "scores")->data;
  const size_t n = all->shape[0];
  json_t *list = c->args->json ? json_array() : NULL;
  for (size_t i = 0; i < n; i++) {
    if ((size_t)texts[i] != line->row) continue;
    const char *word = vkf_result_text(result, i), *name = vkf_result_text(result, n + (size_t)labels[i]);
    if (!list) {
      printf("%s\t%s\t%.4f\n", word, name, scores[i]);
      continue;
    }
    json_t *row = label_json(name, scores[i]);
    json_object_set_new(row, "word", json_string(word));
    json_array_append_new(list, row);
  }
  return list ? tool_print_json_line(json_pack("{s:s, s:s, s:o}", "format", format, "text", line->text, "words", list))
              : TOOL_OK;
}

static int print(void *user, const tool_line *line, const vkf_result *result) {
  return vkf_result_find(result, "texts") ? print_words(user, line, result) : print_labels(user, line, result);
}

static int run_classify(const tool_args *args) {
  classifier c = {.args = args};
  tool_lines lines = {.session = &c.session,
                      TOOL_LINES_OF(args, 1),
                      .batch = TOOL_BATCH,
                      .window = TOOL_WINDOW * TOOL_BATCH,
                      .run = run,
                      .print = print,
                      .user = &c,
                      .are_pairs = args->pairs,
                      .format = format,
                      .key = "text",
                      .skipped_text = "\n"};
  vkf_classify_params_init(&c.params);
  c.params.top_k = args->top;
  c.params.long_texts = tool_long_rule(args);
  c.params.skip_refused = true;
  if (tool_rules_check(args) != TOOL_OK) return TOOL_USAGE;
  if (args->pairs && tool_long_is(args, "split"))
    return tool_usage_error("classify", "--pairs: expected --long skip, fail or truncate, found split");
  int exit_code = tool_lines_open(&lines, args->operands[0]);
  if (exit_code == TOOL_OK) {
    vkf_model_info info = {VKF_MODEL_INFO_INIT};
    vkf_model_get_info(c.session.model, &info);
    c.images = lines.are_files = info.image[0] > 0;
    if (c.images && args->pairs)
      exit_code = tool_usage_error("classify", "--pairs: expected a model of texts, found one of images");
    if (c.images) lines.batch = 1, lines.window = TOOL_WINDOW; /* one that cannot be read takes no other along */
    if (exit_code == TOOL_OK) exit_code = tool_lines_check(&lines);
  }
  if (exit_code == TOOL_OK) exit_code = tool_lines_run(&lines);
  return tool_lines_close(&lines, exit_code);
}

static const tool_option options[] = {
    {"top-k", 'k', TOOL_SIZE, offsetof(tool_args, top), "N", "only the best N labels of a text or image"},
    TOOL_PAIRS_OPTION,
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL, "a JSON line for each: text or image, and labels or words"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_classify = {
    .name = "classify",
    .summary = "Label texts, their words, or images",
    .usage = "MODEL [OPTION]... [TEXT|IMAGE]...",
    .text =
        "For each text, or line of standard input, a line of labels and scores is printed, best first. If the model\n"
        "labels tokens, a line is printed for each word, with the label of its first token. For a model of images the\n"
        "arguments, or lines, are names of PNG and JPEG files. A text that is skipped gives an empty line. If --long\n"
        "splits a text, the scores of its parts are averaged; a part counts as much as it has tokens. With --pairs,\n"
        "--long truncate shortens the longer of the two texts.",
    .examples =
        "  vkformer classify distilbert-sst2 \"A wonderful film.\"\n"
        "  printf 'A man eats.\\tNobody eats.\\n' | vkformer classify bart-large-mnli --pairs\n"
        "  vkformer classify vit-base-patch16-224 --top-k 3 photo.jpg\n",
    .groups = {&group, &tool_line_options, &tool_crew_options, &tool_model_options, TOOL_DEVICE_GROUPS},
    .min_operands = 1,
    .max_operands = (size_t)-1,
    .operand = "MODEL, a model folder",
    .run = run_classify,
};
