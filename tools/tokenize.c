/* tokenize: converts texts to token ids and back, a line each, so that either output can be piped into the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

static const char format[] = "vkformer-tokenize/1";

typedef struct job {
  tool_session session;
  const tool_args *args;
  vkf_tokenizer *tokenizer;
} job;

/* ---- text to ids ------------------------------------------------------------------------------------------------- */

static int encode(job *j, const char *text) {
  vkf_encode_params params = {VKF_ENCODE_PARAMS_INIT, .source_language = j->args->source_lang,
                              .target_language = j->args->target_lang};
  vkf_result *result = NULL;
  tool_pairs pairs = {0};
  vkf_status status = VKF_OK;
  if (j->args->pairs && !tool_pairs_part(&pairs, &text, 1)) status = VKF_ERROR_MEMORY;
  if (pairs.second) params.text_pair = pairs.second[0];
  if (status == VKF_OK)
    status = vkf_tokenizer_encode(j->tokenizer, pairs.first ? pairs.first[0] : text, &params, &result);
  if (status != VKF_OK) {
    tool_pairs_finish(&pairs);
    return tool_session_fail(&j->session, status, NULL);
  }
  const vkf_array *array = vkf_result_find(result, "ids"), *types = vkf_result_find(result, "token_type_ids");
  const int32_t *ids = array->data;
  const size_t n = array->shape[0];
  int exit_code = TOOL_OK;
  if (j->args->json) {
    json_t *pieces = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(pieces, json_string(vkf_result_text(result, i)));
    json_t *row = json_pack("{s:s, s:s, s:s*, s:o, s:o}", "format", format, "text", pairs.first ? pairs.first[0] : text,
                            "text_pair", params.text_pair, "ids", tool_json_ids(ids, n), "pieces", pieces);
    if (types) json_object_set_new(row, "token_type_ids", tool_json_ids(types->data, n));
    exit_code = tool_print_json_line(row);
  } else {
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? " " : "", ids[i]);
    putchar('\n');
  }
  vkf_result_destroy(&result);
  tool_pairs_finish(&pairs);
  return exit_code;
}

/* ---- ids to text ------------------------------------------------------------------------------------------------- */

/* Appends the ids of a text, separated by white space or commas; *bad: the first word that is no id, else NULL. */
static int parse_ids(const char *text, int32_t **ids, size_t *n, const char **bad) {
  static const char between[] = " \t\r\n,";
  *bad = NULL;
  for (text += strspn(text, between); *text; text += strspn(text, between)) {
    char *end = NULL;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (errno || end == text || (*end && !strchr(between, *end)) || number < 0 || number > INT32_MAX) {
      *bad = text;
      return TOOL_OK;
    }
    int32_t *more = realloc(*ids, (*n + 1) * sizeof *more);
    if (!more) return tool_error("out of memory");
    *ids = more;
    more[(*n)++] = (int32_t)number;
    text = end;
  }
  return TOOL_OK;
}

static int decode(job *j, const int32_t *ids, size_t n) {
  vkf_result *result = NULL;
  vkf_status status = vkf_tokenizer_decode(j->tokenizer, ids, n, NULL, &result);
  if (status != VKF_OK) return tool_session_fail(&j->session, status, NULL);
  const char *text = vkf_result_text(result, 0);
  int exit_code = TOOL_OK;
  if (j->args->json)
    exit_code = tool_print_json_line(
        json_pack("{s:s, s:s, s:o}", "format", format, "text", text, "ids", tool_json_ids(ids, n)));
  else
    puts(text);
  vkf_result_destroy(&result);
  return exit_code;
}

/* Decodes all arguments as the ids of one text. */
static int decode_arguments(job *j) {
  int32_t *ids = NULL;
  size_t n = 0;
  const char *bad = NULL;
  int exit_code = TOOL_OK;
  for (size_t i = 0; i < j->args->n_operands && exit_code == TOOL_OK; i++) {
    exit_code = parse_ids(j->args->operands[i], &ids, &n, &bad);
    if (bad) exit_code = tool_usage_error("tokenize", "--decode: expected a token id, found '%s'", bad);
  }
  if (exit_code == TOOL_OK) exit_code = decode(j, ids, n);
  free(ids);
  return exit_code;
}

static int decode_line(job *j, const tool_line *line) {
  int32_t *ids = NULL;
  size_t n = 0;
  const char *bad = NULL;
  int exit_code = parse_ids(line->text, &ids, &n, &bad);
  if (bad) exit_code = tool_error("line %zu: expected token ids, found '%.40s'", line->number, bad);
  if (exit_code == TOOL_OK) exit_code = decode(j, ids, n);
  free(ids);
  return exit_code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int print(void *user, const tool_line *line, const vkf_result *result) {
  job *j = user;
  (void)result;
  return j->args->decode ? decode_line(j, line) : encode(j, line->text);
}

static int run_tokenize(const tool_args *args) {
  job j = {.args = args};
  tool_lines lines = {.session = &j.session,
                      TOOL_LINES_OF(args, 0),
                      .window = 1,
                      .print = print,
                      .user = &j,
                      .are_pairs = args->pairs && !args->decode,
                      .format = format,
                      .key = "text",
                      .skipped_text = "\n"};
  char folder[4096];
  if (args->decode && args->inputs && args->n_operands)
    return tool_usage_error("tokenize", "expected ids or --input, found both");
  if (!args->decode && tool_lines_check(&lines) != TOOL_OK) return TOOL_USAGE;
  int exit_code = tool_find_model(args, folder, sizeof folder);
  if (exit_code == TOOL_OK) exit_code = tool_session_open_context(&j.session, args);
  if (exit_code == TOOL_OK) {
    vkf_status status = vkf_tokenizer_open(j.session.context, folder, &j.tokenizer);
    if (status != VKF_OK) exit_code = tool_session_fail(&j.session, status, NULL);
  }
  if (exit_code == TOOL_OK)
    exit_code = args->decode && args->n_operands ? decode_arguments(&j) : tool_lines_run(&lines);
  vkf_tokenizer_close(&j.tokenizer);
  return tool_session_close(&j.session, exit_code);
}

static const tool_option options[] = {
    {"model", 'm', TOOL_NAME, offsetof(tool_args, model), "DIR",
     "a folder with a tokenizer, also one without weights; default:\nthe English-Spanish model"},
    TOOL_SOURCE_LANG,
    TOOL_TARGET_LANG,
    {"decode", 0, TOOL_FLAG, offsetof(tool_args, decode), NULL,
     "print texts: the arguments are the ids of one text; without\narguments, each line of standard input has the ids "
     "of one"},
    TOOL_LINES_INPUT_OPTION,
    TOOL_PAIRS_OPTION,
    TOOL_INVALID_OPTION,
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL,
     "print a JSON line for each text: text, ids and, without\n--decode, pieces; for pairs also token_type_ids"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_tokenize = {
    .name = "tokenize",
    .summary = "Turn texts, or the lines of standard input, into token ids, or ids into text",
    .usage = "[OPTION]... [TEXT|ID]...",
    .text = "Prints one line of ids for each text, including the special tokens that the tokenizer adds.",
    .examples =
        "  vkformer tokenize \"The cat sat on the mat.\"\n"
        "  vkformer tokenize --decode 382 1351 1873 16 1\n"
        "  vkformer tokenize < english.txt | vkformer tokenize --decode\n",
    .groups = {&group, &tool_common_options},
    .max_operands = (size_t)-1,
    .run = run_tokenize,
    .computes_nothing = true,
};
