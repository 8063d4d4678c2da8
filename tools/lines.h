/* lines: the texts of a command, from its arguments or from standard input.
 *
 * Lines are collected, workers process them in batches, and they are printed in their order. If no further line has
 * come yet, those that have come are processed at once. A line that is skipped, here or by the library, keeps its
 * place in the output; at the end the skipped lines are counted and named, and the exit code says so. A byte-order
 * mark before a text is dropped. window.h is another thing: it feeds a queue of the library, in which each text ends by
 * itself; these lines are calls with whole batches (embed, classify, fill-mask, tokenize), whose results are of all.
 */
#ifndef VKFORMER_TOOLS_LINES_H
#define VKFORMER_TOOLS_LINES_H

#include "batches.h"

/* Texts that were skipped: how many, and why the first ones were. */
typedef struct tool_skips {
  size_t n;
  char *reasons;
  bool has_long; /* one has too many tokens, for which there is --long */
} tool_skips;
int tool_skips_note(tool_skips *skips, const char *noun, size_t number, const char *why);
/* Names them at the end, of n_read texts; frees what there is. TOOL_OK if none was skipped. */
int tool_skips_report(tool_skips *skips, tool_session *session, const char *noun, size_t n_read);

#define TOOL_NO_ROW SIZE_MAX
#define TOOL_BATCH 8   /* texts of a batch: few, so that workers have much the same to do where lengths differ */
#define TOOL_WINDOW 16 /* batches that are put together at a time, out of lines of like length */

typedef struct tool_line {
  size_t number; /* from 1 */
  char *text;    /* UTF-8 */
  size_t row;    /* its row in the result of its batch; TOOL_NO_ROW: it was in none */
  char *skipped; /* why; NULL: it was not */
} tool_line;

typedef struct tool_lines {
  tool_session *session;
  const tool_args *args;    /* --long, --invalid, --json */
  const char *const *texts; /* NULL: standard input */
  size_t n_texts;
  size_t window;      /* at most so many lines a call; 0: all lines in one call */
  bool are_files;     /* names of files, not texts */
  bool are_pairs;     /* two texts each, with a tab between them */
  tool_batch_fn *run; /* works on a batch; NULL: lines are only printed */
  size_t batch;       /* texts of a batch; 0: all of a call */
  /* Prints a line. result is NULL where nothing was run. Not TOOL_OK ends. */
  int (*print)(void *user, const tool_line *line, const vkf_result *result);
  void *user;
  /* What is printed instead of a skipped line: {"format": format, KEY: its text, "skipped": why} with --json or
   * is_json, else skipped_text (NULL: nothing); prints_skipped: `print` prints it. */
  const char *format, *key, *skipped_text;
  bool is_json, prints_skipped;
  bool is_done;   /* set by tool_lines_run(): every line was passed on */
  tool_crew crew; /* set by tool_lines_open() */
  /* lines.c's own; inside `print` lines [n] are those of the call */
  tool_line *lines;
  size_t n, capacity, n_read, n_printed;
  double start; /* seconds */
  tool_skips skips;
  tool_batches batches;
} tool_lines;

/* The texts of a command: its operands from `first` on, without any the lines of standard input. */
#define TOOL_LINES_OF(the_args, first)                                                                    \
  .args = (the_args),                                                                                     \
  .texts = (the_args)->n_operands > (first) ? (const char *const *)(the_args)->operands + (first) : NULL, \
  .n_texts = (the_args)->n_operands - (first)

extern const tool_option_group tool_line_options;
#define TOOL_INVALID_OPTION                                                                                          \
  {                                                                                                                  \
    "invalid", 0, TOOL_TEXT, offsetof(tool_args, invalid), "RULE",                                                   \
        "a text that is not UTF-8, has a zero byte or no tokens, or for\nwhich no ids are found: skip (default), "   \
        "fail, or replace (wrong\nbytes become U+FFFD). Skipped texts are named at the end, and\nthe exit code is 4" \
  }

#define TOOL_PAIRS_OPTION                                                                                             \
  {                                                                                                                   \
    "pairs", 0, TOOL_FLAG, offsetof(tool_args, pairs), NULL,                                                          \
        "each text is two texts that belong together, with a tab\nbetween them: a premise and a hypothesis, a query " \
        "and a passage"                                                                                               \
  }

/* TOOL_OK, or TOOL_USAGE after a message: --long and --invalid; texts that name a file or a model's folder. */
int tool_rules_check(const tool_args *args);
int tool_texts_check(const tool_args *args, const char *const *texts, size_t n);
int tool_lines_check(const tool_lines *l);
/* The rules of --long and --invalid. */
bool tool_long_is(const tool_args *args, const char *rule);
bool tool_invalid_is(const tool_args *args, const char *rule);
/* Whether a text that the library skipped for this reason ends the command. */
bool tool_skip_fails(const tool_args *args, vkf_skip_reason reason);
/* Opens the session with the model and the crew that works on the lines. TOOL_OK, or another exit code after a message.
 * Close it either way. */
int tool_lines_open(tool_lines *l, const char *folder);
int tool_lines_close(tool_lines *l, int exit_code);
/* Every line. Not TOOL_OK also where lines were skipped. */
int tool_lines_run(tool_lines *l);
/* The rule of --long for the library, which skips what it refuses. */
vkf_long_rule tool_long_rule(const tool_args *args);

/* ---- texts (texts.c) --------------------------------------------------------------------------------------------- */

/* A copy, to free(). TOOL_FAILED after a message: out of memory. */
int tool_copy(const char *text, char **out);

/* Why a text cannot be taken; false: it can. */
bool tool_utf8_reason(const char *text, size_t size, char *reason, size_t capacity);
/* A copy with U+FFFD instead of every byte that makes no UTF-8; to free(), NULL when out of memory. */
char *tool_utf8_mend(const char *text, size_t size);
bool tool_is_blank(const char *text);
/* How many columns a terminal shows it in. */
int tool_columns(const char *text);
/* Why a text is not two texts with a tab between them; false: it is. */
bool tool_pair_reason(const char *text, char *reason, size_t capacity);
/* The two texts of each of [n] such texts; false: out of memory. Finish them either way. */
typedef struct tool_pairs {
  const char **first, **second; /* [n] */
  char *bytes;
} tool_pairs;
bool tool_pairs_part(tool_pairs *pairs, const char *const *texts, size_t n);
void tool_pairs_finish(tool_pairs *pairs);
/* The text behind a byte-order mark; the same of a text with a size. */
const char *tool_without_bom(const char *text);
void tool_drop_bom(const char **text, size_t *size);
/* What compressed a file that begins with these bytes: "gzip", "zstd", "xz", or NULL. */
const char *tool_packing(const char *bytes, size_t n);

#endif
