/* lines: the texts of a command, from its arguments, a file or standard input.
 *
 * Lines are collected, workers process them in batches, and they are printed in their order. If no further line has
 * come yet, those that have come are processed at once. A line that is skipped, here or by the library, keeps its
 * place in the output; at the end the skipped lines are counted and named, and the exit code says so. A byte-order mark
 * before a text is dropped. window.h differs: it feeds a queue of the library, where each text ends alone; here each
 * call has a whole batch (embed, classify, fill-mask, tokenize) and returns one result for it.
 */
#ifndef VKFORMER_TOOLS_LINES_H
#define VKFORMER_TOOLS_LINES_H

#include "batches.h"

/* Texts that were skipped: how many, and why the first ones were. */
typedef struct tool_skips {
  size_t n;
  char *reasons;
  bool has_long; /* one has too many tokens (see --long) */
} tool_skips;
int tool_skips_note(tool_skips *skips, const char *noun, size_t number, const char *why);
/* Reports them at the end, of n_read texts, and frees them. TOOL_OK if none was skipped. */
int tool_skips_report(tool_skips *skips, tool_session *session, const char *noun, size_t n_read);

#define TOOL_NO_ROW SIZE_MAX
#define TOOL_BATCH 8   /* texts per batch: few, so that workers share texts of different lengths evenly */
#define TOOL_WINDOW 16 /* batches that are formed at a time, from lines of similar length */

typedef struct tool_line {
  size_t number; /* from 1 */
  char *text;    /* UTF-8 */
  size_t row;    /* its row in the result of its batch; TOOL_NO_ROW: none */
  char *skipped; /* why; NULL: it was not */
} tool_line;

typedef struct tool_lines {
  tool_session *session;
  const tool_args *args;    /* --input, --long, --invalid, --json */
  const char *const *texts; /* NULL: the lines of --input, else of standard input */
  size_t n_texts;
  size_t window;      /* most lines per call; 0: all lines in one call */
  bool are_files;     /* names of files, not texts */
  bool are_pairs;     /* two texts each, with a tab between them */
  tool_batch_fn *run; /* works on a batch; NULL: lines are only printed */
  size_t batch;       /* texts of a batch; 0: all of a call */
  /* Prints a line. result is NULL if nothing was run. Anything but TOOL_OK ends the run. */
  int (*print)(void *user, const tool_line *line, const vkf_result *result);
  void *user;
  /* Printed instead of a skipped line: {"format": format, KEY: its text, "skipped": why} with --json or is_json, else
   * skipped_text (NULL: nothing); prints_skipped: `print` prints it. */
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

/* The texts of a command: its operands from `first` on, or the lines of --input or standard input if there are none. */
#define TOOL_LINES_OF(the_args, first)                                                                    \
  .args = (the_args),                                                                                     \
  .texts = (the_args)->n_operands > (first) ? (const char *const *)(the_args)->operands + (first) : NULL, \
  .n_texts = (the_args)->n_operands - (first)

extern const tool_option_group tool_line_options;
#define TOOL_LINES_INPUT_OPTION                                                                   \
  {                                                                                               \
    "input", 'i', TOOL_INPUT, offsetof(tool_args, inputs), "FILE",                                \
        "read the lines of FILE instead of standard input; it may be\ncompressed by gzip or zstd" \
  }

#define TOOL_INVALID_OPTION                                                                                        \
  {                                                                                                                \
    "invalid", 0, TOOL_TEXT, offsetof(tool_args, invalid), "RULE",                                                 \
        "what to do with a text that is not UTF-8, has a zero byte or no\ntokens, or for which no ids are found: " \
        "skip (default), fail,\nor replace (wrong bytes become U+FFFD). Skipped texts are named\nat the end, and " \
        "the exit code is 4"                                                                                       \
  }

#define TOOL_PAIRS_OPTION                                                                                             \
  {                                                                                                                   \
    "pairs", 0, TOOL_FLAG, offsetof(tool_args, pairs), NULL,                                                          \
        "each text is two texts that belong together, with a tab\nbetween them: a premise and a hypothesis, a query " \
        "and a passage"                                                                                               \
  }

/* Check --long and --invalid, and refuse texts that name a file or a model's folder. TOOL_USAGE after a message. */
int tool_rules_check(const tool_args *args);
int tool_texts_check(const tool_args *args, const char *const *texts, size_t n);
int tool_lines_check(const tool_lines *l);
/* Whether --long or --invalid has this rule. */
bool tool_long_is(const tool_args *args, const char *rule);
bool tool_invalid_is(const tool_args *args, const char *rule);
/* Whether a text that the library skipped for this reason ends the command. */
bool tool_skip_fails(const tool_args *args, vkf_skip_reason reason);
/* Opens the session with the model and the crew that processes the lines. TOOL_OK, or another exit code after a
 * message. Close it either way. */
int tool_lines_open(tool_lines *l, const char *folder);
int tool_lines_close(tool_lines *l, int exit_code);
/* Processes every line. Does not return TOOL_OK if lines were skipped. */
int tool_lines_run(tool_lines *l);
/* Returns the rule of --long for the library, which skips what it refuses. */
vkf_long_rule tool_long_rule(const tool_args *args);

/* ---- texts (texts.c) --------------------------------------------------------------------------------------------- */

/* Copies a text, to free(). TOOL_FAILED after a message: out of memory. */
int tool_copy(const char *text, char **out);

/* Writes why a text is not valid; false: it is. */
bool tool_utf8_reason(const char *text, size_t size, char *reason, size_t capacity);
/* Returns a copy with U+FFFD for every byte that is not UTF-8, to free(); NULL: out of memory. */
char *tool_utf8_mend(const char *text, size_t size);
bool tool_is_blank(const char *text);
/* Returns how many columns it takes on a terminal. */
int tool_columns(const char *text);
/* Writes why a text is not two texts with a tab between them; false: it is. */
bool tool_pair_reason(const char *text, char *reason, size_t capacity);
/* Splits each of [n] such texts into its two; false: out of memory. Finish them either way. */
typedef struct tool_pairs {
  const char **first, **second; /* [n] */
  char *bytes;
} tool_pairs;
bool tool_pairs_part(tool_pairs *pairs, const char *const *texts, size_t n);
void tool_pairs_finish(tool_pairs *pairs);
/* Return a text without its byte-order mark; the same for a text with a size. */
const char *tool_without_bom(const char *text);
void tool_drop_bom(const char **text, size_t *size);
/* Returns what compressed a file that begins with these bytes: "gzip", "zstd", "xz", or NULL. */
const char *tool_packing(const char *bytes, size_t n);

#endif
