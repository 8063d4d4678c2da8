/* options: parses command lines in GNU style, as the tables of the commands say.
 *
 * Refuses what the tables do not allow: an unknown or ambiguous option, a missing value, a value of the wrong kind,
 * too few or too many operands. Each is a usage error that names the option, what was expected and what was found.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

enum { MAX_OPTIONS = 128, FIRST_VALUE = 256 };

/* ---- one value --------------------------------------------------------------------------------------------------- */

static bool parse_whole(const char *text, long long minimum, long long *out) {
  char *end = NULL;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return errno == 0 && end != text && *end == 0 && *out >= minimum;
}

static bool parse_number(const char *text, double *out) {
  char *end = NULL;
  *out = strtod(text, &end);
  return end != text && *end == 0 && isfinite(*out);
}

static bool parse_sizes(const char *text, long minimum, tool_sizes *out) {
  char *end = NULL;
  for (out->n = 0; out->n < TOOL_MAX_SIZES; text = end + 1) {
    errno = 0;
    long size = strtol(text, &end, 10);
    if (errno != 0 || end == text || size < minimum || size > INT32_MAX) return false;
    out->at[out->n++] = (size_t)size;
    if (*end == 0) return true;
    if (*end != ',') return false;
  }
  return false;
}

static bool is_id(const json_t *json) {
  return json_is_integer(json) && json_integer_value(json) >= 0 && json_integer_value(json) <= INT32_MAX;
}

/* depth 2: lists of ids, none of which is empty. */
static bool is_list_of_ids(const json_t *json, int depth) {
  bool is_list = json_is_array(json);
  for (size_t i = 0, n = json_array_size(json); i < n; i++) {
    const json_t *at = json_array_get(json, i);
    is_list &= depth > 1 ? json_array_size(at) > 0 && is_list_of_ids(at, depth - 1) : is_id(at);
  }
  return is_list;
}

/* Parses "1,2" as [1,2], or (depth 2) "[1],[2,3]" as [[1],[2,3]]; NULL: it is neither. */
static json_t *parse_ids(const char *text, int depth) {
  const size_t size = strlen(text) + 3;
  char *list = malloc(size);
  if (list) snprintf(list, size, "[%s]", text);
  json_t *out = list ? json_loads(list, 0, NULL) : NULL;
  free(list);
  if (is_list_of_ids(out, depth)) return out;
  json_decref(out);
  return NULL;
}

void tool_generation_key(const char *name, char key[64]) {
  snprintf(key, 64, "%s", name);
  for (char *c = key; *c; c++)
    if (*c == '-') *c = '_';
}

/* Writes the generation key that an option sets. */
static void key_of(const tool_option *option, char key[64]) {
  /* names that Marian has for keys of transformers */
  static const char *const others[][2] = {{"n-best", "num_return_sequences"}, {"normalize", "length_penalty"}};
  const char *name = option->name;
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    if (strcmp(name, others[i][0]) == 0) name = others[i][1];
  tool_generation_key(name, key);
}

/* Parses the option's value to JSON. NULL: it is not valid, and *expected says what it must be (NULL: the kind says
 * it). */
static json_t *parse_key(const tool_option *option, const char *text, const char **expected) {
  char key[64];
  long long whole = 0;
  double number = NAN;
  switch (option->kind) {
    case TOOL_KEY_WHOLE:
      key_of(option, key);
      *expected = vkf_generation_expects(key, parse_whole(text, LLONG_MIN, &whole) ? (double)whole : NAN);
      return *expected ? NULL : json_integer(whole);
    case TOOL_KEY_NUMBER:
      key_of(option, key);
      *expected = vkf_generation_expects(key, parse_number(text, &number) ? number : NAN);
      return *expected ? NULL : json_real(number);
    case TOOL_KEY_DRAW:
      return parse_number(text, &number) ? json_real(number) : NULL;
    case TOOL_KEY_SEED:
      return parse_whole(text, 0, &whole) ? json_integer(whole) : NULL;
    case TOOL_KEY_IDS:
    case TOOL_KEY_LISTS:
      return parse_ids(text, option->kind == TOOL_KEY_IDS ? 1 : 2);
    default: /* TOOL_KEY_RULE */
      if (strcmp(text, "true") == 0) return json_true();
      if (strcmp(text, "false") == 0) return json_false();
      return strcmp(text, "never") == 0 ? json_string(text) : NULL;
  }
}

static const char *expected(tool_option_kind kind) {
  switch (kind) {
    case TOOL_SIZE:
    case TOOL_BYTES:
      return "a whole number of at least 1";
    case TOOL_SIZES:
      return "whole numbers of at least 1, separated by commas";
    case TOOL_INDEXES:
      return "whole numbers of at least 0, separated by commas";
    case TOOL_SECONDS:
      return "seconds over 0 and at most 86400";
    case TOOL_NAME:
    case TOOL_INPUT:
    case TOOL_INPUTS:
    case TOOL_OUTPUT:
    case TOOL_MAYBE_OUTPUT:
      return "a name";
    case TOOL_KEY_SEED:
      return "a whole number of at least 0";
    case TOOL_KEY_DRAW:
      return "a number";
    case TOOL_KEY_IDS:
      return "ids, separated by commas";
    case TOOL_KEY_LISTS:
      return "lists of ids in brackets, separated by commas";
    default:
      return "true, false or never";
  }
}

static int set_key(tool_args *args, const tool_option *option, json_t *value) {
  char key[64];
  key_of(option, key);
  if (!args->config) args->config = json_object();
  return json_object_set_new(args->config, key, value) == 0 ? TOOL_OK : tool_error("out of memory");
}

static int add_text(tool_texts *texts, const char *text) {
  const char **at = realloc(texts->at, (texts->n + 1) * sizeof *at);
  if (!at) return tool_error("out of memory");
  at[texts->n++] = text;
  texts->at = at;
  return TOOL_OK;
}

/* Whether a whole number is too large for every option of the kind. */
static bool is_too_large(tool_option_kind kind, const char *text) {
  long long whole = 0;
  return (kind == TOOL_SIZE || kind == TOOL_KEY_WHOLE) && parse_whole(text, (long long)INT32_MAX + 1, &whole);
}

/* Sets the name of a file or folder; text NULL: no value. */
static int set_name(const tool_command *command, const tool_option *option, const char *text, const char **out) {
  const bool is_written = option->kind == TOOL_OUTPUT || option->kind == TOOL_MAYBE_OUTPUT;
  if (text && is_written && strncmp(text, "--", 2) == 0)
    return tool_usage_error(command->name, "--%s: expected a file to write, found '%s'", option->name, text);
  *out = text ? text : "";
  if (!is_written || strcmp(*out, "-") != 0 || tool_take_output()) return TOOL_OK;
  return tool_error("standard output: cannot be written: %s", strerror(errno));
}

/* text: NULL for a flag. */
static int set_option(const tool_command *command, const tool_option *option, const char *text, tool_args *args) {
  void *member = (char *)args + option->offset;
  long long whole = 0;
  double number = 0;
  const char *words = NULL;
  json_t *value = NULL;
  if (text) text = tool_without_bom(text);
  if (is_too_large(option->kind, text))
    return tool_usage_error(command->name, "--%s: expected a whole number of at most %d, found '%s'", option->name,
                            INT32_MAX, text);
  switch (option->kind) {
    case TOOL_FLAG:
      ++*(int *)member;
      return TOOL_OK;
    case TOOL_TEXT:
      *(const char **)member = text;
      return TOOL_OK;
    case TOOL_NAME:
    case TOOL_INPUT:
    case TOOL_OUTPUT:
    case TOOL_MAYBE_OUTPUT:
      if (text && !text[0]) break;
      return set_name(command, option, text, member);
    case TOOL_INPUTS:
      if (!text[0]) break;
      return add_text(member, text);
    case TOOL_TEXTS:
      return add_text(member, text);
    case TOOL_KEY_TRUE:
      return set_key(args, option, json_true());
    case TOOL_SIZE:
    case TOOL_BYTES:
      if (!parse_whole(text, 1, &whole)) break;
      *(size_t *)member = (size_t)whole;
      return TOOL_OK;
    case TOOL_SIZES:
    case TOOL_INDEXES:
      if (!parse_sizes(text, option->kind == TOOL_SIZES, member)) break;
      return TOOL_OK;
    case TOOL_SECONDS:
      if (!parse_number(text, &number) || !(number > 0 && number <= 86400)) break;
      *(double *)member = number;
      return TOOL_OK;
    default:
      value = parse_key(option, text, &words);
      if (!value) break;
      return set_key(args, option, value);
  }
  return tool_usage_error(command->name, "--%s: expected %s, found '%s'", option->name,
                          words ? words : expected(option->kind), text);
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

/* A command's options in the forms that getopt_long reads. */
typedef struct parser {
  const tool_option *options[MAX_OPTIONS];
  struct option longs[MAX_OPTIONS + 1];
  char shorts[2 * MAX_OPTIONS + 2];
  int n_options;
} parser;

static int parser_init(parser *p, const tool_command *command) {
  memset(p, 0, sizeof *p);
  char *letter = p->shorts;
  *letter++ = ':'; /* so getopt distinguishes a missing value from an unknown option */
  for (int g = 0; g < TOOL_MAX_GROUPS && command->groups[g]; g++) {
    const tool_option_group *group = command->groups[g];
    for (size_t i = 0; i < group->n_options; i++) {
      const tool_option *option = &group->options[i];
      if (p->n_options == MAX_OPTIONS) return tool_error("%s: it has more than %d options", command->name, MAX_OPTIONS);
      bool has_value = option->kind != TOOL_FLAG && option->kind != TOOL_KEY_TRUE;
      p->options[p->n_options] = option;
      int argument = option->kind == TOOL_MAYBE_OUTPUT ? optional_argument
                     : has_value                       ? required_argument
                                                       : no_argument;
      p->longs[p->n_options] = (struct option){option->name, argument, NULL, FIRST_VALUE + p->n_options};
      p->n_options++;
      if (option->letter) {
        *letter++ = option->letter;
        if (has_value) *letter++ = ':';
      }
    }
  }
  return TOOL_OK;
}

static const tool_option *parser_find(const parser *p, int value) {
  if (value >= FIRST_VALUE) return p->options[value - FIRST_VALUE];
  for (int i = 0; i < p->n_options; i++) {
    if (value && p->options[i]->letter == value) return p->options[i];
  }
  return NULL;
}

/* Reports what getopt could not read; optopt says which option. */
static int report_bad(const parser *p, const tool_command *command, int result, char *const *argv) {
  const tool_option *option = parser_find(p, optopt);
  if (option && result == ':')
    return tool_usage_error(command->name, "--%s: expected %s after it, found nothing", option->name, option->value);
  if (option)
    return tool_usage_error(command->name, "--%s: expected no value, found '%s'", option->name, argv[optind - 1]);
  if (optopt) return tool_usage_error(command->name, "expected an option of the command, found '-%c'", optopt);
  char word[64] = "";
  snprintf(word, sizeof word, "%.*s", (int)strcspn(argv[optind - 1] + 2, "="), argv[optind - 1] + 2);
  char several[256] = ""; /* that begin like this; getopt takes a word that begins one */
  for (int i = 0; i < p->n_options; i++) {
    const size_t n = strlen(several);
    if (word[0] && strncmp(p->options[i]->name, word, strlen(word)) == 0)
      snprintf(several + n, sizeof several - n, "%s--%s", n ? ", " : "", p->options[i]->name);
  }
  if (several[0])
    return tool_usage_error(command->name, "expected one option, found '%s', which begins %s", argv[optind - 1],
                            several);
  tool_nearest nearest;
  tool_nearest_begin(&nearest, word);
  for (int i = 0; i < p->n_options; i++) tool_nearest_try(&nearest, p->options[i]->name);
  return tool_usage_error(command->name, "expected an option of the command, found '%s'%s%s%s", argv[optind - 1],
                          nearest.name ? ": did you mean '--" : "", nearest.name ? nearest.name : "",
                          nearest.name ? "'?" : "");
}

static int add_given(tool_args *args, const tool_option *option, const char *text) {
  tool_given *given = realloc(args->given, (args->n_given + 1) * sizeof *given);
  if (!given) return tool_error("out of memory");
  given[args->n_given++] = (tool_given){option, text};
  args->given = given;
  return TOOL_OK;
}

static int check_operands(const tool_command *command, const tool_args *args) {
  if (args->help) return TOOL_OK;
  if (args->n_operands < command->min_operands)
    return tool_usage_error(command->name, "expected %s, found %s", command->operand,
                            args->n_operands ? args->operands[0] : "nothing");
  if (args->n_operands > command->max_operands)
    return tool_usage_error(
        command->name, "expected %s%s, found '%s' as well", command->max_operands ? "no more than " : "",
        command->max_operands ? command->operand : "no arguments", args->operands[command->max_operands]);
  return TOOL_OK;
}

int tool_args_parse(const tool_command *command, int argc, char **argv, tool_args *args) {
  memset(args, 0, sizeof *args);
  parser p;
  int exit_code = parser_init(&p, command);
  if (exit_code != TOOL_OK) return exit_code;
  opterr = 0;
  optind = 1;
  int value = 0;
  while ((value = getopt_long(argc, argv, p.shorts, p.longs, NULL)) != -1) {
    if (value == '?' || value == ':') return report_bad(&p, command, value, argv);
    const tool_option *option = parser_find(&p, value);
    exit_code = set_option(command, option, optarg, args);
    if (exit_code == TOOL_OK) exit_code = add_given(args, option, optarg);
    if (exit_code != TOOL_OK) return exit_code;
  }
  args->command = command;
  args->operands = argv + optind;
  args->n_operands = (size_t)(argc - optind);
  return check_operands(command, args);
}

int tool_args_check_files(const tool_args *args) {
  int exit_code = TOOL_OK;
  for (size_t i = 0; i < args->n_given && exit_code == TOOL_OK; i++) {
    const tool_given *g = &args->given[i];
    const tool_option_kind kind = g->option->kind;
    if (kind == TOOL_INPUT || kind == TOOL_INPUTS) exit_code = tool_check_input(g->option->name, g->text);
    if (kind == TOOL_OUTPUT || (kind == TOOL_MAYBE_OUTPUT && g->text))
      exit_code = tool_check_output(g->option->name, g->text);
  }
  return exit_code;
}

void tool_args_finish(tool_args *args) {
  for (size_t i = 0; i < args->n_given; i++) {
    const tool_option *option = args->given[i].option;
    if (option->kind != TOOL_TEXTS && option->kind != TOOL_INPUTS) continue;
    tool_texts *list = (tool_texts *)(void *)((char *)args + option->offset);
    free((void *)list->at);
    *list = (tool_texts){0};
  }
  free(args->given);
  json_decref(args->config);
  memset(args, 0, sizeof *args);
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

static void print_option(const tool_option *option, FILE *file) {
  enum { COLUMN = 32 };
  char left[COLUMN + 32];
  int n = snprintf(left, sizeof left, "  %c%c%c --%s%s%s", option->letter ? '-' : ' ',
                   option->letter ? option->letter : ' ', option->letter ? ',' : ' ', option->name,
                   option->value && option->kind != TOOL_MAYBE_OUTPUT ? " " : "", option->value ? option->value : "");
  fputs(left, file);
  if (n > COLUMN - 2) { /* no room for two spaces behind it */
    fputc('\n', file);
    n = 0;
  }
  fprintf(file, "%*s", COLUMN - n, "");
  for (const char *c = option->help; *c; c++) {
    fputc(*c, file);
    if (*c == '\n') fprintf(file, "%*s", COLUMN, "");
  }
  fputc('\n', file);
}

void tool_command_help(const tool_command *command, FILE *file) {
  fprintf(file, "Usage: vkformer %s %s\n\n%s.\n", command->name, command->usage, command->summary);
  if (command->text) fprintf(file, "%s\n", command->text);
  for (int g = 0; g < TOOL_MAX_GROUPS && command->groups[g]; g++) {
    fprintf(file, "\n%s:\n", command->groups[g]->title);
    for (size_t i = 0; i < command->groups[g]->n_options; i++) print_option(&command->groups[g]->options[i], file);
  }
  fprintf(file, "\nExample:\n%s", command->examples);
}
