/* output: prints results on standard output, makes JSON values, and reads the configuration of a generation. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lines.h"
#include "program.h"

vkf_array *tool_arrays(const vkf_result *result) {
  size_t n = vkf_result_count(result);
  vkf_array *arrays = calloc(n ? n : 1, sizeof *arrays);
  if (!arrays) tool_error("out of memory");
  for (size_t i = 0; arrays && i < n; i++) arrays[i] = *vkf_result_at(result, i);
  return arrays;
}

void tool_print_state(FILE *file, int width, const char *state) {
  static const char *const colours[][2] = {{"ok", "32"},    {"passed", "32"}, {"warning", "33"},
                                           {"fault", "31"}, {"FAILED", "31"}, {"OVER", "31"}};
  const char *none = getenv("NO_COLOR"), *term = getenv("TERM"), *colour = NULL;
  const bool is_painted = isatty(fileno(file)) == 1 && !(none && none[0]) && !(term && strcmp(term, "dumb") == 0);
  for (size_t i = 0; is_painted && i < sizeof colours / sizeof colours[0]; i++)
    if (strcmp(state, colours[i][0]) == 0) colour = colours[i][1];
  fprintf(file, "%s%s%s%-*s%s", colour ? "\033[" : "", colour ? colour : "", colour ? "m" : "", width, state,
          colour ? "\033[0m" : "");
}

int tool_print_json(json_t *json) {
  if (!json) return tool_error("out of memory");
  int failed = json_dumpf(json, stdout, JSON_INDENT(2) | TOOL_JSON_DIGITS);
  json_decref(json);
  putchar('\n');
  return failed ? tool_error("standard output: cannot be written: %s", strerror(errno)) : TOOL_OK;
}

int tool_print_json_line(json_t *json) {
  if (!json) return tool_error("out of memory");
  json_dumpf(json, stdout, JSON_COMPACT | TOOL_JSON_DIGITS);
  putchar('\n');
  json_decref(json);
  return tool_flush();
}

int tool_flush(void) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return TOOL_OK;
  int cause = errno;
  clearerr(stdout); /* report it once */
  return tool_error("standard output: cannot be written: %s", strerror(cause));
}

const char *tool_json_get_text(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

void tool_date(char text[32]) {
  const time_t now = time(NULL);
  strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
}

json_t *tool_json_real(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

json_t *tool_json_float(float value) {
  char text[32];
  snprintf(text, sizeof text, "%.9g", (double)value);
  return tool_json_real(strtod(text, NULL));
}

json_t *tool_json_ids(const int32_t *ids, size_t n) {
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
  return list;
}

json_t *tool_json_text(const char *text, size_t n) {
  char *mended = tool_utf8_mend(text, n);
  json_t *json = mended ? json_string(mended) : NULL;
  free(mended);
  return json;
}

int tool_generation_config(const tool_args *args, char **out) {
  *out = NULL;
  json_t *config = json_object();
  if (args->generation_config) {
    json_t *file = tool_read_json(args->generation_config);
    const bool is_object = json_object_update(config, file) == 0;
    if (file && !is_object)
      tool_error("%s: expected a JSON object with keys as in generation_config.json", args->generation_config);
    json_decref(file);
    if (!is_object) {
      json_decref(config);
      return TOOL_FAILED;
    }
  }
  if (args->config) json_object_update(config, args->config);
  if (json_object_size(config) > 0) *out = json_dumps(config, JSON_COMPACT);
  bool failed = json_object_size(config) > 0 && !*out;
  json_decref(config);
  return failed ? tool_error("out of memory") : TOOL_OK;
}

json_t *tool_config_value(const char *config, const char *folder, const char *key) {
  json_t *sources[] = {config ? json_loads(config, 0, NULL) : NULL, tool_folder_json(folder, "generation_config.json"),
                       tool_folder_json(folder, "config.json")};
  json_t *value = NULL;
  for (size_t i = 0; i < 3; i++) {
    if (!value) value = json_incref(json_object_get(sources[i], key));
    json_decref(sources[i]);
  }
  return value;
}

size_t tool_config_count(const char *config, const char *folder, const char *key) {
  json_t *value = tool_config_value(config, folder, key);
  const json_int_t n = json_integer_value(value);
  json_decref(value);
  return n > 1 ? (size_t)n : 1;
}

bool tool_config_flag(const char *config, const char *folder, const char *key) {
  json_t *value = tool_config_value(config, folder, key);
  const bool is_set = json_is_true(value);
  json_decref(value);
  return is_set;
}

/* Checks what the library reports poorly: for more results than beams it names a key that the user did not type, and it
 * accepts a least length over the most. */
static int check_counts(const tool_args *args, const char *config, const char *folder, size_t n_beams) {
  const json_int_t n_results = json_integer_value(json_object_get(args->config, "num_return_sequences")),
                   least = json_integer_value(json_object_get(args->config, "min_new_tokens")),
                   most = json_integer_value(json_object_get(args->config, "max_new_tokens"));
  if (most > 0 && least > most)
    fprintf(stderr, "vkformer: --min-new-tokens has no effect beyond --max-new-tokens: every text ends there\n");
  if (n_results <= (json_int_t)n_beams || tool_config_flag(config, folder, "do_sample") ||
      tool_config_flag(config, folder, "return_alternatives"))
    return TOOL_OK;
  json_t *patience = tool_config_value(config, folder, "patience");
  const bool has_patience = patience != NULL; /* more than the beams can end */
  json_decref(patience);
  if (has_patience) return TOOL_OK;
  return tool_usage_error(
      args->command->name, "--%s: expected at most %zu, the number of beams (--num-beams), found %lld",
      strcmp(args->command->name, "translate") ? "num-return-sequences" : "n-best", n_beams, (long long)n_results);
}

/* Refuses options that exclude each other. The library refuses what files ask for. */
static int check_ways(const tool_args *args) {
  const json_int_t n_beams = json_integer_value(json_object_get(args->config, "num_beams")),
                   n_groups = json_integer_value(json_object_get(args->config, "num_beam_groups"));
  if (n_beams > 1 && json_is_true(json_object_get(args->config, "do_sample")))
    return tool_usage_error(args->command->name, "--do-sample: expected --num-beams 1, found %lld", (long long)n_beams);
  if (n_beams > 0 && n_groups > 0 && n_beams % n_groups != 0)
    return tool_usage_error(args->command->name,
                            "--num-beam-groups: expected a number that divides --num-beams %lld, found %lld",
                            (long long)n_beams, (long long)n_groups);
  return TOOL_OK;
}

int tool_check_generation(const tool_args *args, const char *config, const char *folder) {
  static const char *const of_draws[] = {"temperature", "top-k",          "top-p",      "min-p", "top-h",
                                         "typical-p",   "epsilon-cutoff", "eta-cutoff", "seed"};
  static const char *const of_beams[] = {"early-stopping", "patience", "coverage-penalty"};
  const bool draws = tool_config_flag(config, folder, "do_sample");
  const size_t n_beams = tool_config_count(config, folder, "num_beams");
  char key[64];
  if (check_ways(args) != TOOL_OK) return TOOL_USAGE;
  for (size_t i = 0; i < sizeof of_draws / sizeof of_draws[0]; i++) {
    tool_generation_key(of_draws[i], key);
    const json_t *given = json_object_get(args->config, key);
    const double x = json_number_value(given);
    const char *expected = given && draws ? vkf_generation_expects(key, x) : NULL;
    if (given && !draws)
      fprintf(stderr, "vkformer: --%s has no effect without --do-sample: the best token is taken\n", of_draws[i]);
    if (expected) return tool_usage_error(args->command->name, "--%s: expected %s, found %g", of_draws[i], expected, x);
  }
  for (size_t i = 0; i < sizeof of_beams / sizeof of_beams[0] && n_beams == 1; i++) {
    tool_generation_key(of_beams[i], key);
    if (json_object_get(args->config, key))
      fprintf(stderr, "vkformer: --%s has no effect without beams (--num-beams)\n", of_beams[i]);
  }
  if (json_object_get(args->config, "min_alternative_expansion_prob") &&
      !tool_config_flag(config, folder, "return_alternatives"))
    fprintf(stderr, "vkformer: --min-alternative-expansion-prob has no effect without --return-alternatives\n");
  return check_counts(args, config, folder, n_beams);
}
