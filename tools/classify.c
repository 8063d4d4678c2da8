/* classify: labels texts, the words of texts, and images. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include "lines.h"

static const char format[] = "vkformer-classify/1";

typedef struct classifier {
  tool_session session;
  const tool_args *args;
  vkf_classify_params params;
  bool images;      /* the texts are names of image files */
  char *candidates; /* --candidate-labels, cut at its commas */
  const char **names;
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

/* Returns {"text": ..., "text_pair": ...}. */
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

/* Prints the labels of a text or image. */
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

/* Prints the labels of the words of a text. */
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

/* Splits "urgent, not urgent" at its commas. */
static int parse_candidates(classifier *c) {
  static const char space[] = " \t\n";
  const char *text = c->args->candidate_labels;
  if (c->args->pairs && text)
    return tool_usage_error("classify", "--candidate-labels: expected no --pairs with it, found both");
  if (!text && (c->args->hypothesis_template || c->args->multi_label))
    return tool_usage_error("classify", "--%s: expected --candidate-labels as well, found none",
                            c->args->multi_label ? "multi-label" : "hypothesis-template");
  if (!text) return TOOL_OK;
  c->candidates = strdup(text);
  c->names = calloc(strlen(text) + 1, sizeof *c->names);
  if (!c->candidates || !c->names) return tool_error("out of memory");
  size_t n = 0;
  for (char *at = c->candidates, *next; at; at = next) {
    next = strchr(at, ',');
    if (next) *next++ = 0;
    at += strspn(at, space);
    for (size_t size = strlen(at); size > 0 && strchr(space, at[size - 1]); size--) at[size - 1] = 0;
    if (at[0]) c->names[n++] = at;
  }
  if (n == 0) return tool_usage_error("classify", "--candidate-labels: expected names, found '%s'", text);
  if (c->args->hypothesis_template && !strstr(c->args->hypothesis_template, "{}"))
    return tool_usage_error("classify", "--hypothesis-template: expected {} in it, found '%s'",
                            c->args->hypothesis_template);
  c->params.candidate_labels = c->names;
  c->params.n_candidate_labels = n;
  c->params.hypothesis_template = c->args->hypothesis_template;
  c->params.multi_label = c->args->multi_label > 0;
  return TOOL_OK;
}

static int run_texts(const tool_args *args, classifier *c) {
  tool_lines lines = {.session = &c->session,
                      TOOL_LINES_OF(args, 1),
                      .batch = TOOL_BATCH,
                      .window = TOOL_WINDOW * TOOL_BATCH,
                      .run = run,
                      .print = print,
                      .user = c,
                      .are_pairs = args->pairs,
                      .format = format,
                      .key = "text",
                      .skipped_text = "\n"};
  c->params.top_k = args->top;
  c->params.long_texts = tool_long_rule(args);
  c->params.skip_refused = true;
  if (tool_rules_check(args) != TOOL_OK) return TOOL_USAGE;
  if ((args->pairs || args->candidate_labels) && tool_long_is(args, "split"))
    return tool_usage_error("classify", "--%s: expected --long skip, fail or truncate, found split",
                            args->pairs ? "pairs" : "candidate-labels");
  int exit_code = tool_lines_open(&lines, args->operands[0]);
  if (exit_code == TOOL_OK) {
    vkf_model_info info = {VKF_MODEL_INFO_INIT};
    vkf_model_get_info(c->session.model, &info);
    c->images = lines.are_files = info.image[0] > 0;
    if (c->images && (args->pairs || args->candidate_labels))
      exit_code = tool_usage_error("classify", "--%s: expected a model of texts, found one of images",
                                   args->pairs ? "pairs" : "candidate-labels");
    if (c->images) lines.batch = 1, lines.window = TOOL_WINDOW; /* one that cannot be read fails alone */
    if (exit_code == TOOL_OK) exit_code = tool_lines_check(&lines);
  }
  if (exit_code == TOOL_OK) exit_code = tool_lines_run(&lines);
  return tool_lines_close(&lines, exit_code);
}

static int run_classify(const tool_args *args) {
  classifier c = {.args = args};
  vkf_classify_params_init(&c.params);
  int exit_code = parse_candidates(&c);
  if (exit_code == TOOL_OK) exit_code = run_texts(args, &c);
  free(c.names);
  free(c.candidates);
  return exit_code;
}

static const tool_option options[] = {
    {"top-k", 'k', TOOL_SIZE, offsetof(tool_args, top), "N", "print only the N best labels of a text or image"},
    TOOL_LINES_INPUT_OPTION,
    TOOL_PAIRS_OPTION,
    {"candidate-labels", 0, TOOL_TEXT, offsetof(tool_args, candidate_labels), "A,B,...",
     "choose among these names instead of the model's labels; for\ninference models, such as bart-large-mnli"},
    {"hypothesis-template", 0, TOOL_TEXT, offsetof(tool_args, hypothesis_template), "TEXT",
     "the sentence that such a model judges, with {} in place of the\nname; default: This example is {}."},
    {"multi-label", 0, TOOL_FLAG, offsetof(tool_args, multi_label), NULL,
     "any number of these names may fit; default: exactly one does"},
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL,
     "print a JSON line for each text or image, with its labels or\nwords"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_classify = {
    .name = "classify",
    .summary = "Label texts, their words, or images",
    .usage = "MODEL [OPTION]... [TEXT|IMAGE]...",
    .text =
        "Prints a line of labels and scores, best first, for each text or line of standard input. If the model\n"
        "labels tokens, prints a line for each word, with the label of its first token; a discriminator (ELECTRA)\n"
        "a line for each token, with the probability that it was replaced. For a model of images the arguments, or\n"
        "lines, are names of PNG and JPEG files. A skipped text gives an empty line. If --long splits a text, the\n"
        "scores of its parts are averaged, weighted by their numbers of tokens. With --pairs or --candidate-labels,\n"
        "--long truncate shortens the longer of the two texts.",
    .examples =
        "  vkformer classify distilbert-sst2 \"A wonderful film.\"\n"
        "  printf 'A man eats.\\tNobody eats.\\n' | vkformer classify bart-large-mnli --pairs\n"
        "  vkformer classify bart-large-mnli --candidate-labels 'travel, cooking' 'We flew to Rome.'\n"
        "  vkformer classify vit-base-patch16-224 --top-k 3 photo.jpg\n",
    .groups = {&group, &tool_line_options, &tool_crew_options, &tool_model_options, TOOL_DEVICE_GROUPS},
    .min_operands = 1,
    .max_operands = (size_t)-1,
    .operand = "MODEL, a model folder",
    .takes_model = true,
    .run = run_classify,
};
