/* embed: computes a vector for each text, and writes it as a JSON line, as a row of a NumPy array, or as its cosine to
 * every text. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"

static const char format[] = "vkformer-embed/1";

typedef struct embedder {
  tool_session session;
  const tool_args *args;
  vkf_embedding_params params;
  tool_lines lines;
  FILE *npy; /* of --output, in memory */
  char *bytes;
  size_t size;
  size_t width, n_before; /* of a vector, known from the first one; lines that were skipped before it */
} embedder;

static vkf_status run(void *user, vkf_session *session, const char *const *texts, size_t n, vkf_result **out) {
  const embedder *e = user;
  return vkf_session_embed(session, texts, n, &e->params, out);
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static size_t model_width(const embedder *e) {
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_model_get_info(e->session.model, &info);
  return info.d_model;
}

static void add_row(embedder *e, const double *vector) {
  for (size_t d = 0; d < e->width; d++) {
    const float value = vector ? (float)vector[d] : NAN;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint8_t bytes[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
    fwrite(bytes, 1, sizeof bytes, e->npy);
  }
}

/* Begins a file in NumPy's format 1.0: a header line, then [n][width] numbers of 32 bits, little-endian. */
static void begin_npy(embedder *e, size_t n, size_t width) {
  static const uint8_t magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  enum { HEADER = 128, BEFORE = sizeof magic + 2 };
  char header[HEADER];
  memset(header, ' ', sizeof header);
  memcpy(header, magic, sizeof magic);
  header[sizeof magic] = HEADER - BEFORE;
  header[sizeof magic + 1] = 0;
  int size = snprintf(header + BEFORE, sizeof header - BEFORE,
                      "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", n, width);
  header[BEFORE + size] = ' ';
  header[HEADER - 1] = '\n';
  fwrite(header, 1, sizeof header, e->npy);
  e->width = width;
  for (size_t i = 0; i < e->n_before; i++) add_row(e, NULL);
}

/* Writes a vector; NULL: a row of NaN, for a line that was skipped. */
static int print_npy(embedder *e, const double *vector, size_t width) {
  if (!e->width && !vector) {
    e->n_before++;
    return TOOL_OK;
  }
  if (!e->width) begin_npy(e, e->lines.n, width);
  add_row(e, vector);
  return TOOL_OK;
}

static int save_npy(embedder *e) {
  if (!e->width) begin_npy(e, e->n_before, e->n_before ? model_width(e) : 0);
  const bool failed = ferror(e->npy);
  const bool is_whole = fclose(e->npy) == 0 && !failed;
  e->npy = NULL;
  return is_whole ? tool_write_file(e->args->output, e->bytes, e->size) : tool_error("out of memory");
}

static json_t *numbers_json(const double *values, size_t n) {
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) json_array_append_new(list, tool_json_real(values[i]));
  return list;
}

/* Returns the cosines of a line with every line of the call; null if either was skipped. */
static json_t *similarity_json(const embedder *e, const tool_line *line, const vkf_result *result) {
  const vkf_array *all = vkf_result_find(result, "similarity");
  json_t *list = json_array();
  for (size_t i = 0; i < e->lines.n; i++) {
    const bool is_there = line->row != TOOL_NO_ROW && e->lines.lines[i].row != TOOL_NO_ROW;
    const size_t at = is_there ? line->row * all->shape[0] + e->lines.lines[i].row : 0;
    json_array_append_new(list, is_there ? tool_json_real(((const double *)all->data)[at]) : json_null());
  }
  return list;
}

static int print(void *user, const tool_line *line, const vkf_result *result) {
  embedder *e = user;
  const size_t row = line->row;
  const vkf_array *vectors = line->skipped ? NULL : vkf_result_find(result, "embeddings");
  const size_t width = vectors ? vectors->shape[1] : 0;
  const double *vector = vectors ? (const double *)vectors->data + row * width : NULL;
  const int32_t *has = vector ? vkf_result_find(result, "n_tokens")->data : NULL,
                *used = vector ? vkf_result_find(result, "n_used")->data : NULL;
  if (vector && used[row] < has[row])
    fprintf(stderr, "vkformer: text %zu has %d tokens: only %d of them are embedded, the folder's limit\n",
            line->number, has[row], used[row]);
  if (e->npy) return print_npy(e, vector, width);
  json_t *values = e->args->similarity ? similarity_json(e, line, result) : numbers_json(vector, width);
  return tool_print_json_line(json_pack("{s:s, s:s, s:o}", "format", format, "text", line->text,
                                        e->args->similarity ? "similarity" : "embedding", values));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int find_pooling(const char *name, vkf_pooling *out) {
  static const char *const names[] = {[VKF_POOLING_MEAN] = "mean",
                                      [VKF_POOLING_CLS] = "cls",
                                      [VKF_POOLING_MAX] = "max",
                                      [VKF_POOLING_LAST] = "last",
                                      [VKF_POOLING_WEIGHTED_MEAN] = "weighted_mean",
                                      [VKF_POOLING_MEAN_SQRT_LEN] = "mean_sqrt_len"};
  for (unsigned i = VKF_POOLING_MEAN; name && i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) *out = (vkf_pooling)i;
  if (!name || *out) return TOOL_OK;
  return tool_usage_error("embed",
                          "--pooling: expected mean, cls, max, last, weighted_mean or mean_sqrt_len, found '%s'", name);
}

static int run_embed(const tool_args *args) {
  embedder e = {.args = args};
  const bool at_once = args->similarity || args->output;
  if (args->output && args->similarity)
    return tool_usage_error("embed", "expected --output or --similarity, found both");
  e.lines = (tool_lines){.session = &e.session,
                         TOOL_LINES_OF(args, 1),
                         .batch = args->similarity ? 0 : TOOL_BATCH,
                         .window = at_once ? 0 : TOOL_WINDOW * TOOL_BATCH,
                         .run = run,
                         .print = print,
                         .user = &e,
                         .format = format,
                         .key = "text",
                         .prints_skipped = at_once,
                         .is_json = true};
  vkf_embedding_params_init(&e.params);
  if (find_pooling(args->pooling, &e.params.pooling) != TOOL_OK) return TOOL_USAGE;
  if (tool_lines_check(&e.lines) != TOOL_OK) return TOOL_USAGE;
  if (args->inputs && tool_refuse_same_file("embed", "output", args->inputs, args->output) != TOOL_OK)
    return TOOL_USAGE;
  e.params.normalize = args->normalize > 0;
  e.params.similarity = args->similarity > 0;
  e.params.long_texts = tool_long_rule(args);
  e.params.ignore_folder_limit = args->long_ != NULL;
  e.params.skip_refused = true;
  int exit_code = tool_lines_open(&e.lines, args->operands[0]);
  if (args->output && exit_code == TOOL_OK) e.npy = open_memstream(&e.bytes, &e.size);
  if (args->output && exit_code == TOOL_OK && !e.npy) exit_code = tool_error("out of memory");
  if (exit_code == TOOL_OK) exit_code = tool_lines_run(&e.lines);
  if (e.npy && e.lines.is_done)
    exit_code = tool_both_exit_codes(exit_code, save_npy(&e)); /* even if lines were skipped */
  if (e.npy) fclose(e.npy);
  free(e.bytes);
  return tool_lines_close(&e.lines, exit_code);
}

static const tool_option options[] = {
    {"pooling", 0, TOOL_TEXT, offsetof(tool_args, pooling), "MODE",
     "mean, cls, max, last, weighted_mean (the n-th token counts n\ntimes) or mean_sqrt_len (the sum over the square "
     "root of the\nlength); default: as the folder's 1_Pooling/config.json says,\nelse mean"},
    {"normalize", 0, TOOL_FLAG, offsetof(tool_args, normalize), NULL, "scale each vector to length 1"},
    {"similarity", 0, TOOL_FLAG, offsetof(tool_args, similarity), NULL,
     "print the cosine of each text with every text instead of the\nvectors"},
    TOOL_LINES_INPUT_OPTION,
    {"output", 'o', TOOL_OUTPUT, offsetof(tool_args, output), "FILE",
     "write the vectors as a float32 array [texts,width] in NumPy's\nformat (.npy) instead of JSON lines"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_embed = {
    .name = "embed",
    .summary = "Turn texts, or the lines of standard input, into vectors",
    .usage = "MODEL [OPTION]... [TEXT]...",
    .text =
        "Prints a JSON line for each text: text, and embedding or similarity. If the folder has files of\n"
        "sentence-transformers, they say how to pool, whether to normalize, which prompt to put before a text, and\n"
        "after how many tokens to cut it (--long overrides that). A skipped text gives a line with the reason, or a\n"
        "row of NaN. If --long splits a text, the states of all its parts are pooled together.",
    .examples = "  vkformer embed all-MiniLM-L6-v2 --normalize < sentences.txt > vectors.jsonl\n",
    .groups = {&group, &tool_line_options, &tool_crew_options, &tool_model_options, TOOL_DEVICE_GROUPS},
    .min_operands = 1,
    .max_operands = (size_t)-1,
    .operand = "MODEL, a model folder",
    .takes_model = true,
    .run = run_embed,
};
