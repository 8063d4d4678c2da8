/* lines: see lines.h.
 *
 * Standard input is read as it comes. Before the program would wait for more, it processes the lines that it has:
 * somebody who types a line gets the answer at once, and a file or a full pipe makes whole batches.
 */
#define _POSIX_C_SOURCE 200809L

#include "lines.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source.h"

enum { MAX_REASONS = 20 };

static const tool_option line_options[] = {
    {"long", 0, TOOL_TEXT, offsetof(tool_args, long_), "RULE",
     "what to do with a text that has more tokens than the model has\npositions: skip (default), fail, truncate (keep "
     "the words that\nfit), or split (after sentences, else between words, and join\nthe results of the parts)"},
    TOOL_INVALID_OPTION,
};
const tool_option_group tool_line_options = TOOL_GROUP("Texts that the model cannot take", line_options);

static bool is_rule(const char *given, const char *rule) {
  return strcmp(given ? given : "skip", rule) == 0;
}

bool tool_long_is(const tool_args *args, const char *rule) {
  return is_rule(args->long_, rule);
}

bool tool_invalid_is(const tool_args *args, const char *rule) {
  return is_rule(args->invalid, rule);
}

bool tool_skip_fails(const tool_args *args, vkf_skip_reason reason) {
  const bool is_invalid = reason == VKF_SKIP_INVALID || reason == VKF_SKIP_FAILED;
  return reason != VKF_SKIP_NONE && is_rule(is_invalid ? args->invalid : args->long_, "fail");
}

static const char *noun(const tool_lines *l) {
  return l->texts ? "text" : "line";
}

int tool_rules_check(const tool_args *args) {
  const char *rule = args->long_, *invalid = args->invalid, *command = args->command->name;
  if (!is_rule(rule, "skip") && !is_rule(rule, "fail") && !is_rule(rule, "truncate") && !is_rule(rule, "split"))
    return tool_usage_error(command, "--long: expected split, truncate, skip or fail, found '%s'", rule);
  if (!is_rule(invalid, "skip") && !is_rule(invalid, "fail") && !is_rule(invalid, "replace"))
    return tool_usage_error(command, "--invalid: expected skip, replace or fail, found '%s'", invalid);
  return TOOL_OK;
}

/* Requires a config.json, because a text may well be the name of some other folder. */
static bool is_model_folder(const char *text) {
  char path[4096];
  struct stat found;
  const int n = snprintf(path, sizeof path, "%s/config.json", text);
  return n > 0 && n < (int)sizeof path && stat(path, &found) == 0;
}

int tool_texts_check(const tool_args *args, const char *const *texts, size_t n) {
  struct stat found;
  for (size_t i = 0; i < n; i++) {
    if (stat(texts[i], &found) == 0 && S_ISREG(found.st_mode))
      return tool_usage_error(args->command->name,
                              "expected a text, found the name of a file, %s: its lines are read with < %s, and the "
                              "name itself with echo %s |",
                              texts[i], texts[i], texts[i]);
    if (is_model_folder(texts[i]))
      return tool_usage_error(
          args->command->name,
          "expected a text, found a model's folder, %s: name a model with --model, or before the texts", texts[i]);
  }
  return TOOL_OK;
}

vkf_long_rule tool_long_rule(const tool_args *args) {
  return tool_long_is(args, "truncate") ? VKF_LONG_TRUNCATE
         : tool_long_is(args, "split")  ? VKF_LONG_SPLIT
                                        : VKF_LONG_REFUSE;
}

int tool_lines_check(const tool_lines *l) {
  const int exit_code = tool_rules_check(l->args);
  if (l->args->inputs && l->texts)
    return tool_usage_error(l->args->command->name, "expected texts or --input, found both");
  return exit_code == TOOL_OK && !l->are_files ? tool_texts_check(l->args, l->texts, l->n_texts) : exit_code;
}

/* ---- what becomes of a line -------------------------------------------------------------------------------------- */

static void line_finish(tool_line *line) {
  free(line->text);
  free(line->skipped);
}

static int refuse(const tool_lines *l, const tool_line *line, const char *why) {
  return tool_error("%s %zu: %s", noun(l), line->number, why);
}

int tool_skips_note(tool_skips *s, const char *what, size_t number, const char *why) {
  if (++s->n > MAX_REASONS) return TOOL_OK;
  size_t size = s->reasons ? strlen(s->reasons) : 0, more = strlen(why) + 80;
  char *reasons = realloc(s->reasons, size + more);
  if (!reasons) return tool_error("out of memory");
  s->reasons = reasons;
  snprintf(reasons + size, more, "vkformer: %s %zu was skipped: %s\n", what, number, why);
  return TOOL_OK;
}

int tool_skips_report(tool_skips *s, tool_session *session, const char *what, size_t n_read) {
  const size_t n = s->n;
  const char *hint = s->has_long ? "; see --long for those that are too long" : "";
  if (n == 0) return TOOL_OK;
  tool_progress_end(session);
  fflush(stdout);
  if (s->reasons) fputs(s->reasons, stderr);
  if (n > MAX_REASONS) fprintf(stderr, "vkformer: and %zu more, which are not named here\n", n - MAX_REASONS);
  free(s->reasons);
  *s = (tool_skips){0};
  return tool_error("skipped %zu of %zu %s%s%s", n, n_read, what, n_read == 1 ? "" : "s", hint);
}

static int print_skipped(const tool_lines *l, const tool_line *line, const vkf_result *result) {
  if (l->prints_skipped) return l->print(l->user, line, result);
  if (l->format && (l->is_json || l->args->json))
    return tool_print_json_line(
        json_pack("{s:s, s:s, s:s}", "format", l->format, l->key, line->text, "skipped", line->skipped));
  if (l->skipped_text) fputs(l->skipped_text, stdout);
  return TOOL_OK;
}

static int print_line(tool_lines *l, tool_line *line, const vkf_result *result) {
  const char *why = NULL;
  const vkf_skip_reason reason = line->row == TOOL_NO_ROW ? VKF_SKIP_NONE : vkf_result_skipped(result, line->row, &why);
  int exit_code = TOOL_OK;
  if (tool_skip_fails(l->args, reason)) return refuse(l, line, why);
  l->skips.has_long |= reason == VKF_SKIP_LONG;
  if (reason != VKF_SKIP_NONE) exit_code = tool_copy(why, &line->skipped);
  if (exit_code == TOOL_OK && !line->skipped) return l->print(l->user, line, result);
  if (exit_code == TOOL_OK) exit_code = tool_skips_note(&l->skips, noun(l), line->number, line->skipped);
  return exit_code == TOOL_OK ? print_skipped(l, line, result) : exit_code;
}

static void show_progress(tool_lines *l) {
  if (l->n_printed && !l->texts && !isatty(STDOUT_FILENO))
    tool_progress(l->session, "%zu lines, %.1f a second", l->n_printed,
                  (double)l->n_printed / (tool_seconds() - l->start));
}

/* Processes the lines that have arrived and prints their results. */
static int flush(tool_lines *l) {
  const char **texts = calloc(l->n, sizeof *texts);
  size_t n = 0;
  vkf_status status = VKF_OK;
  int exit_code = texts ? TOOL_OK : tool_error("out of memory");
  for (size_t i = 0; exit_code == TOOL_OK && i < l->n; i++) {
    tool_line *line = &l->lines[i];
    line->row = TOOL_NO_ROW;
    if (!l->run || line->skipped) continue;
    line->row = n;
    texts[n++] = line->text;
  }
  show_progress(l);
  if (n > 0) status = tool_batches_run(&l->batches, &l->crew, texts, n);
  tool_progress_end(l->session);
  for (size_t i = 0; i < l->n && exit_code == TOOL_OK; i++) {
    tool_line *line = &l->lines[i];
    const vkf_result *result = NULL;
    if (line->row != TOOL_NO_ROW) result = tool_batches_find(&l->batches, line->row, &line->row);
    if (line->row != TOOL_NO_ROW && !result) break; /* the call failed before it came to this line */
    exit_code = print_line(l, line, result);
    l->n_printed++;
  }
  if (status != VKF_OK) exit_code = tool_both_exit_codes(tool_session_fail(l->session, status, NULL), exit_code);
  for (size_t i = 0; i < l->n; i++) line_finish(&l->lines[i]);
  l->n = 0;
  free(texts);
  return exit_code == TOOL_OK ? tool_flush() : exit_code;
}

/* Adds bytes [size] as the next line. */
static int add(tool_lines *l, const char *bytes, size_t size) {
  if (l->n_read++ == 0 || l->texts) tool_drop_bom(&bytes, &size);
  if (l->n == l->capacity) {
    const size_t capacity = 2 * l->capacity + 16;
    tool_line *lines = realloc(l->lines, capacity * sizeof *lines);
    if (!lines) return tool_error("out of memory");
    l->lines = lines;
    l->capacity = capacity;
  }
  tool_line *line = &l->lines[l->n];
  char reason[80];
  const bool is_mended = is_rule(l->args->invalid, "replace");
  bool is_bad = !l->are_files && tool_utf8_reason(bytes, size, reason, sizeof reason) && !is_mended;
  *line = (tool_line){.number = l->n_read, .text = l->are_files ? strndup(bytes, size) : tool_utf8_mend(bytes, size)};
  if (!line->text) return tool_error("out of memory");
  l->n++;
  is_bad = is_bad || (l->are_pairs && tool_pair_reason(line->text, reason, sizeof reason));
  if (!is_bad) return l->n == l->window ? flush(l) : TOOL_OK;
  if (!is_rule(l->args->invalid, "fail")) {
    int exit_code = tool_copy(reason, &line->skipped);
    return exit_code == TOOL_OK && l->n == l->window ? flush(l) : exit_code;
  }
  l->n--; /* the lines before it are processed all the same */
  int flushed = l->n > 0 ? flush(l) : TOOL_OK;
  int refused = refuse(l, line, reason);
  line_finish(line);
  return tool_both_exit_codes(refused, flushed);
}

/* ---- all lines --------------------------------------------------------------------------------------------------- */

/* Reads every line. If no further one has arrived yet, processes those that have. */
static int read_lines(tool_lines *l) {
  tool_source source;
  int exit_code = tool_source_open(&source, l->args->inputs, l->texts, l->n_texts);
  while (exit_code == TOOL_OK && !source.ended) {
    const char *line = NULL;
    size_t size = 0;
    exit_code = tool_source_next(&source, &line, &size);
    if (exit_code != TOOL_OK && l->n > 0) exit_code = tool_both_exit_codes(exit_code, flush(l)); /* nothing is lost */
    if (exit_code != TOOL_OK || (!line && source.ended)) continue;
    if (line)
      exit_code = add(l, line, size);
    else if (l->n > 0 && l->window)
      exit_code = flush(l);
    else
      tool_source_wait(&source);
  }
  tool_source_close(&source);
  return exit_code;
}

int tool_lines_open(tool_lines *l, const char *folder) {
  const bool is_one = l->n_texts == 1 || l->batch == 1;
  return tool_crew_open(&l->crew, l->args, l->session, folder, is_one ? TOOL_ONE_AT_A_TIME : TOOL_MANY_BATCHES);
}

int tool_lines_close(tool_lines *l, int exit_code) {
  tool_batches_finish(&l->batches);
  tool_crew_finish(&l->crew);
  return tool_session_close(l->session, exit_code);
}

int tool_lines_run(tool_lines *l) {
  l->batches = (tool_batches){.run = l->run, .user = l->user, .size = l->batch};
  l->batches.keeps_order = l->are_files || !l->batch;
  l->start = tool_seconds();
  int exit_code = read_lines(l);
  if (exit_code == TOOL_OK && l->n > 0) exit_code = flush(l);
  l->is_done = exit_code == TOOL_OK;
  exit_code = tool_both_exit_codes(exit_code, tool_skips_report(&l->skips, l->session, noun(l), l->n_read));
  for (size_t i = 0; i < l->n; i++) line_finish(&l->lines[i]);
  free(l->lines);
  return exit_code;
}
