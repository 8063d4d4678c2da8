/* program: what all commands of vkformer share: arguments, the open context, output.
 *
 * The program uses the public headers of the library and nothing else of it. A command has one row in commands.h and is
 * one file, or a few if it is large; its options are tables, which both the parser and the help read. Invariant: a
 * command writes its results to standard output or to the file it was given; everything else goes to standard error and
 * begins with "vkformer: ".
 */
#ifndef VKFORMER_TOOLS_PROGRAM_H
#define VKFORMER_TOOLS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <jansson.h>
#include <vkformer/vkformer.h>

#include "exit_codes.h"

#if defined(__GNUC__)
#define TOOL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TOOL_PRINTF(fmt, args)
#endif

/* The output of `git describe` when the build was configured. */
extern const char tool_commit[];
/* Whether this build has the kernels for matrix cores. */
extern const bool tool_has_coopmat;

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* The values of a repeatable option. */
typedef struct tool_texts {
  const char **at;
  size_t n;
} tool_texts;

/* A list of sizes: "1,128,1024". */
#define TOOL_MAX_SIZES 32
typedef struct tool_sizes {
  size_t at[TOOL_MAX_SIZES];
  size_t n; /* 0: not given */
} tool_sizes;

/* The parsed command line: one member for each option of any command. */
typedef struct tool_args {
  const char *device, *limits;
  int verbose, deterministic, batch_invariant, help, no_wide_vectors, no_checks;
  const char *profile; /* NULL: none; "": a table alone; else the file of the trace */
  const char *model, *inputs, *outputs, *generation_config, *json_file, *variant;
  const char *params, *file, *output, *dtype;
  const char *weights, *activations, *kv_cache;
  size_t kv_cache_bytes; /* 0: not given */
  int trace, list;
  const char *report, *replay;
  int quick, ops, merge, bisect;
  int allow_not_finite;
  int brief;
  int json, plan, decode, pairs, multi_label, hidden_states, attentions, projections, scores, compile;
  size_t batch_size, length; /* 0: not given */
  double seconds, limit;     /* 0: not given */
  tool_texts icd_files, prompts, stops, force_words, images, problems;
  tool_sizes m, n, k, batches, lengths, layers_at, heads_at;
  size_t layers, d_model, heads, d_ff, vocab; /* 0: not given */
  const char *norm, *activation;
  const char *level, *export_file, *import_file;
  int worker;
  const char *filter, *tile, *shader, *html;
  int cold, sweep, stdin_, no_roofs;
  tool_texts merges;
  const char *pooling, *source_lang, *target_lang;
  const char *candidate_labels, *hypothesis_template;
  const char *long_, *invalid; /* rules of lines.h */
  const char *attention, *kind, *from, *to;
  size_t workers; /* 0: not given */
  const char *driver_threads;
  int normalize, similarity;
  int resume;
  size_t column; /* 0: not given */
  const char *jsonl, *shard, *shortlist, *alignment, *align_heads;
  int force_decode, word_scores, replace_unknowns;
  int logit_lens, growth;
  const char *beam_tree;
  size_t pads, window;  /* 0: not given */
  size_t samples, seed; /* 0: not given */
  const char *baseline;
  size_t top;     /* 0: not given */
  json_t *config; /* generation keys given as options; an object */
  const struct tool_command *command;
  char **operands;
  size_t n_operands;
  struct tool_given *given; /* the options, in their order */
  size_t n_given;
} tool_args;

typedef enum tool_option_kind {
  TOOL_FLAG,         /* int, counted */
  TOOL_TEXT,         /* const char * */
  TOOL_SIZE,         /* size_t, from 1 to 2147483647 */
  TOOL_BYTES,        /* size_t, at least 1 */
  TOOL_SIZES,        /* tool_sizes, each from 1 to 2147483647 */
  TOOL_INDEXES,      /* tool_sizes, each from 0 to 2147483647 */
  TOOL_SECONDS,      /* double, over 0 and at most a day */
  TOOL_TEXTS,        /* tool_texts, appended */
  TOOL_NAME,         /* const char *, of a file or folder, not empty */
  TOOL_INPUT,        /* const char *, a file that can be read */
  TOOL_INPUTS,       /* tool_texts, appended: such files */
  TOOL_OUTPUT,       /* const char *, a file that can be written; "-": standard output */
  TOOL_MAYBE_OUTPUT, /* such a file, "" without a value; the value follows '=' */
  TOOL_KEY_WHOLE,    /* a key of generation_config.json: a whole number of the key's range, to 2147483647 */
  TOOL_KEY_NUMBER,   /* a number of the key's range */
  TOOL_KEY_DRAW,     /* a number for sampling alone: see tool_check_generation() */
  TOOL_KEY_SEED,     /* a whole number of 63 bits */
  TOOL_KEY_IDS,      /* ids with commas between them */
  TOOL_KEY_LISTS,    /* lists of ids in brackets, with commas between them */
  TOOL_KEY_RULE,     /* true, false or never */
  TOOL_KEY_TRUE      /* true, written without a value */
} tool_option_kind;

typedef struct tool_option {
  const char *name; /* of a generation key: the key with '-' for '_', or what Marian calls it */
  char letter;      /* 0: none */
  tool_option_kind kind;
  size_t offset; /* of the member of tool_args */
  const char *value, *help;
} tool_option;

/* An option as the command line has it. */
typedef struct tool_given {
  const tool_option *option;
  const char *text; /* NULL: no value */
} tool_given;

typedef struct tool_option_group {
  const char *title;
  const tool_option *options;
  size_t n_options;
} tool_option_group;

#define TOOL_GROUP(title, options) \
  { title, options, sizeof(options) / sizeof((options)[0]) }
#define TOOL_MAX_GROUPS 10
#define TOOL_SOURCE_LANG                                                               \
  {                                                                                    \
    "source-lang", 0, TOOL_TEXT, offsetof(tool_args, source_lang), "LANG",             \
        "multilingual models: the language of the texts, such as\nen_XX, eng_Latn, fr" \
  }
#define TOOL_TARGET_LANG                                                   \
  {                                                                        \
    "target-lang", 0, TOOL_TEXT, offsetof(tool_args, target_lang), "LANG", \
        "multilingual models: the language to translate into"              \
  }

typedef struct tool_command {
  const char *name, *summary; /* summary: one line of `vkformer --help` */
  const char *usage;          /* what follows the name */
  const char *text;           /* a paragraph; may be NULL */
  const char *examples;       /* whole lines */
  const tool_option_group *groups[TOOL_MAX_GROUPS];
  size_t min_operands, max_operands;
  const char *operand; /* for messages: "MODEL, a model folder" */
  int (*run)(const tool_args *args);
  bool computes_nothing; /* its output is the same whether or not a GPU was found */
  bool takes_model;      /* the first operand is a model folder, or a file in one */
} tool_command;

/* For development; only of commands that compute nothing. */
#define TOOL_NO_CHECKS                                                                                        \
  {                                                                                                           \
    "no-checks", 0, TOOL_FLAG, offsetof(tool_args, no_checks), NULL,                                          \
        "for development: trust what the driver says and check nothing,\nto plan for a GPU that is not there" \
  }

extern const tool_option_group tool_common_options, tool_device_options, tool_driver_options, tool_generation_options,
    tool_model_options;
/* The groups of a command that computes. */
#define TOOL_DEVICE_GROUPS &tool_device_options, &tool_driver_options, &tool_common_options

/* argv[0] is the command's name. TOOL_OK, or TOOL_USAGE after a message. `args` needs finishing either way. */
int tool_args_parse(const tool_command *command, int argc, char **argv, tool_args *args);
void tool_args_finish(tool_args *args);
/* Checks that the files that options name can be read or written. Called when a context is opened, before any work that
 * would be lost. TOOL_FAILED after a message. */
int tool_args_check_files(const tool_args *args);
/* Check one file (files.c). */
int tool_check_input(const char *option, const char *path);
int tool_check_output(const char *option, const char *path);
/* TOOL_USAGE after a message if `output`, which is written while `input` (NULL: standard input) is read, is the same
 * file (files.c). output NULL: there is none. */
int tool_refuse_same_file(const char *command, const char *option, const char *input, const char *output);
/* Reserves standard output for the file "-"; everything else is printed to standard error from now on. False: errno. */
bool tool_take_output(void);
/* Writes the generation key of an option's name: '_' for '-' (options.c). */
void tool_generation_key(const char *name, char key[64]);
void tool_command_help(const tool_command *command, FILE *file);

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Print "vkformer: sentence" on standard error; return TOOL_FAILED and TOOL_USAGE. */
int tool_error(const char *fmt, ...) TOOL_PRINTF(1, 2);
int tool_usage_error(const char *command, const char *fmt, ...) TOOL_PRINTF(2, 3);

/* The name that is nearest to a word, if it is near enough to be what the user meant (nearest.c). */
typedef struct tool_nearest {
  const char *word, *name; /* name NULL: none so far */
  size_t distance;
} tool_nearest;
void tool_nearest_begin(tool_nearest *nearest, const char *word);
void tool_nearest_try(tool_nearest *nearest, const char *name);

/* ---- session: context, device, model ----------------------------------------------------------------------------- */

typedef struct tool_session {
  vkf_context *context;
  vkf_device *device;
  vkf_model *model;
  vkf_session *run;           /* of the model */
  vkf_model_params how;       /* how the model is opened */
  vkf_session_params run_how; /* how its session is created */
  bool terminal;              /* standard error is a terminal: progress is shown */
  bool line_is_open;          /* a progress line is shown */
  size_t n_steps;             /* decoding steps so far, for progress */
  const char *profile;        /* as in tool_args */
  bool tells_of_cpu;          /* print a line if no GPU is found */
} tool_session;

/* Opens the context, then (device not NULL) that device, then (folder not NULL) the model; "" opens the default device.
 * TOOL_OK, or another exit code after a message. Close the session either way. */
int tool_session_open(tool_session *session, const tool_args *args, const char *device, const char *folder);
int tool_session_open_context(tool_session *session, const tool_args *args);
/* Refuses a wrong --limits, also for commands that open no device. */
int tool_session_check_limits(const tool_args *args);
int tool_session_open_device(tool_session *session, const char *device);
/* Whether --device, whose value this is, or the environment chooses a device. */
bool tool_device_is_chosen(const char *device);
/* Calls work for the device that --device names, or for each if that is "all". Returns their combined exit code. */
int tool_session_each_device(tool_session *session, const char *selector,
                             int (*work)(void *user, tool_session *session, const char *device), void *user);
int tool_session_open_model(tool_session *session, const char *folder);
/* Open another session of the same model, which logs nothing. The first call opens the context, on the thread that
 * opened the first session (it may change the environment). The second opens what is not open yet, on any thread; it
 * uses the weights of `first` if the devices can share them. */
vkf_status tool_session_begin_copy(tool_session *copy, const tool_session *first, const tool_args *args);
vkf_status tool_session_open_copy(tool_session *copy, const vkf_model *first, const char *device, const char *folder);
/* Close the session, or only its device and model, and write the device's profile if one was asked for. Return
 * exit_code, or TOOL_FAILED if that is TOOL_OK and the profile cannot be written. */
int tool_session_close(tool_session *session, int exit_code);
int tool_session_close_device(tool_session *session, int exit_code);
/* Returns why the last call failed: of the model's session, else of the context; "": none did. */
const char *tool_session_message(const tool_session *session);
/* Prints the library's message of the failed call, after the words of `where` (NULL: none). Returns its exit code. */
int tool_session_fail(tool_session *session, vkf_status status, const char *where);

/* Overwrites the progress line on a terminal; prints nothing elsewhere. */
void tool_progress(tool_session *session, const char *fmt, ...) TOOL_PRINTF(2, 3);
/* The same with a bar, as a vkf_progress_fn: `user` is the session. Returns 0. */
int tool_progress_bytes(void *user, uint64_t done, uint64_t all);
void tool_progress_end(tool_session *session);
/* Prints "ok", "passed", "warning", "fault", "FAILED" or "OVER", padded to `width` columns; in colour on a terminal,
 * unless NO_COLOR is set (no-color.org) or TERM is "dumb" (output.c). */
void tool_print_state(FILE *file, int width, const char *state);
double tool_seconds(void); /* monotonic */

/* Writes args->model, or the model shipped with vkformer, to `path`. TOOL_FAILED after a message. */
int tool_find_model(const tool_args *args, char *path, size_t size);

/* Writes the path of `name`, a file or folder that comes with vkformer ("models/en-es", "tour/tour.json"), to `path`.
 * It is there if path + `probe` can be read. TOOL_FAILED without a message. */
int tool_find_shipped(const char *name, const char *probe, char *path, size_t size);

/* Returns every fact about device number `index`; NULL: out of memory (devices.c). */
json_t *tool_device_json(size_t index, const vkf_device_info *info);

/* Prints what ran on this device so far as a table on standard error and, unless path is "", writes the trace for
 * chrome://tracing. TOOL_FAILED after a message (profile.c). */
int tool_profile_write(const vkf_device *device, const char *path);

/* ---- arrays and JSON (arrays.c) ---------------------------------------------------------------------------------- */

/* Converts nested lists of numbers to an array, int32 if `integers`, else float32; free() its data. The name is not
 * copied. TOOL_FAILED after a message that begins with the name. */
int tool_array_from_json(const json_t *json, const char *name, bool integers, vkf_array *out);
json_t *tool_array_to_json(const vkf_array *array);
/* Whether ops and models take the array of this name as int32: ids, positions and masks. */
bool tool_array_is_integer(const char *name);
size_t tool_array_elements(const vkf_array *array);
/* Returns element i of a float32, float64 or int32 array. */
double tool_array_value(const vkf_array *array, size_t i);
/* Returns the largest element, at least 0; NaN if one is NaN. */
double tool_array_largest(const vkf_array *array);
/* Whether there is a sequence in row `row` of a generation: a search may find fewer than were asked for. */
bool tool_is_found(const vkf_result *result, size_t row);
/* Prints an array as an indented matrix with rows of the last dimension; wide and long ones are shortened. */
void tool_array_print(const vkf_array *array);

/* ---- files and output -------------------------------------------------------------------------------------------- */

/* Reading and writing whole files (files.c), as vkf_bytes_read() and vkf_bytes_write() do it; "-" is standard output.
 * TOOL_FAILED or NULL after a message. */

/* Adds a zero byte; free() the result. */
char *tool_read_file(const char *path, size_t *size);
json_t *tool_read_json(const char *path);
/* Reads the JSON file FOLDER/NAME. NULL, without a message, if it cannot be read: the library reports that itself. */
json_t *tool_folder_json(const char *folder, const char *name);
int tool_read_arrays(tool_session *session, const char *path, vkf_result **out);

/* Named arrays from a user: a safetensors file, or a JSON object of nested lists if the name ends in .json. */
typedef struct tool_inputs {
  vkf_array *arrays; /* to free(), and for JSON also their data */
  size_t n;
  json_t *json;
  vkf_result *file;
} tool_inputs;
int tool_inputs_read(tool_session *session, const char *path, tool_inputs *in);
void tool_inputs_finish(tool_inputs *in);
/* Whether the name ends so and has something before that. */
bool tool_ends_with(const char *name, const char *end);
/* Appends a space and the argument, quoted for a shell; cuts what text[size] has no room for. */
void tool_append_word(char *text, size_t size, const char *word);
int tool_write_file(const char *path, const void *data, size_t size);
/* Consumes `json`, which may be NULL (out of memory). */
int tool_write_json(const char *path, json_t *json);
/* Writes the arrays of `result` to a safetensors file, or as JSON if the name ends in .json. */
int tool_write_arrays(tool_session *session, const char *path, const vkf_result *result);
/* Returns the path to pass to the library's writing functions in place of `path`. */
const char *tool_output_path(const char *path);
/* Reads a file that comes with vkformer, to free(); NULL after a message (page.c). */
char *tool_read_shipped(const char *name);
/* Writes the page `name` that comes with vkformer to a file, with the data in it. Consumes `documents` (page.c). */
int tool_write_page(const char *name, const char *path, json_t *documents);

/* Digits of numbers in JSON: the most that every double keeps of a decimal fraction. */
#define TOOL_JSON_DIGITS JSON_REAL_PRECISION(15)

/* Returns the arrays of `result` as one C array, to free(); their data still belong to the result. NULL after a
 * message. */
vkf_array *tool_arrays(const vkf_result *result);
/* Prints to standard output, indented. Consumes `json` as above. */
int tool_print_json(json_t *json);
/* Writes the current time in UTC in the form of ISO 8601. */
void tool_date(char text[32]);
/* Flushes standard output; TOOL_FAILED after a message if something could not be written. */
int tool_flush(void);
/* Returns the text of a member; "": there is none. */
const char *tool_json_get_text(const json_t *object, const char *key);
/* Returns a number, or null for what JSON cannot write (NaN, infinite). */
json_t *tool_json_real(double value);
/* The same with nine digits, which distinguish all float32 values. */
json_t *tool_json_float(float value);
/* Returns a list of ids [n]. */
json_t *tool_json_ids(const int32_t *ids, size_t n);
/* Returns n bytes of text as a string; bytes that are not UTF-8 become U+FFFD. NULL: out of memory. */
json_t *tool_json_text(const char *text, size_t n);
/* Prints a line of JSON to standard output and flushes it. Consumes `json` as above. */
int tool_print_json_line(json_t *json);

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Sets *out to the configuration that options and --generation-config ask for, to free(); NULL: there are none. */
int tool_generation_config(const tool_args *args, char **out);
/* Returns a key of this configuration (JSON or NULL), else of the folder's; a new reference or NULL. */
json_t *tool_config_value(const char *config, const char *folder, const char *key);
/* The same for a count (1 if there is none) and for a flag. */
size_t tool_config_count(const char *config, const char *folder, const char *key);
bool tool_config_flag(const char *config, const char *folder, const char *key);
/* Warns about options that have no effect because nothing is sampled or there are no beams. TOOL_USAGE after a message:
 * options exclude each other, a sampling option has a value outside its key's range, or more results are wanted than
 * there are beams. */
int tool_check_generation(const tool_args *args, const char *config, const char *folder);

#endif
