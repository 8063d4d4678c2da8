/* masks: draws which keys a query may see: the weights that the op attention_weights gives if all scores are equal. */
#include <math.h>
#include <vkformer/lab.h>

#include "heatmap.h"

enum { MARGIN = 12, HEADING = 62, CELL = 36, LEFT = 40, LEAST = 280, MAX_LENGTH = 64 };

typedef struct mask {
  const char *name, *rule;
  size_t n_queries, n_pads;
  char params[64]; /* of the op */
} mask;

/* Computes the weights [n_queries][n_keys] into *out; destroy it. */
static int run_mask(tool_session *session, const mask *m, size_t n_keys, vkf_result **out) {
  static float zeros[MAX_LENGTH];
  int32_t keep[MAX_LENGTH];
  for (size_t s = 0; s < n_keys; s++) keep[s] = s + m->n_pads < n_keys;
  const vkf_array inputs[] = {{"q", VKF_F32, 4, {1, m->n_queries, 1, 1}, zeros},
                              {"k", VKF_F32, 4, {1, n_keys, 1, 1}, zeros},
                              {"mask", VKF_I32, 2, {1, n_keys}, keep}};
  vkf_status status = vkf_device_run_op(session->device, "attention_weights", m->params, inputs, 3, NULL, out);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, NULL);
}

/* Draws a map with its headings; rows of cells count from `row`. */
static void put_mask(const mask *m, const float *weights, size_t n_keys, double x, double y, size_t row, size_t column,
                     FILE *file) {
  fprintf(file, "<text class=\"title\" x=\"%.6g\" y=\"%.6g\">%s</text>\n", x, y + 18, m->name);
  fprintf(file, "<text class=\"soft\" x=\"%.6g\" y=\"%.6g\">%s</text>\n", x, y + 36, m->rule);
  for (size_t s = 0; s < n_keys; s++)
    fprintf(file, "<text class=\"word\" x=\"%.6g\" y=\"%.6g\">%zu</text>\n", x + LEFT + ((double)s + 0.5) * CELL,
            y + HEADING - 6, s);
  for (size_t t = 0; t < m->n_queries; t++) {
    fprintf(file, "<text class=\"soft right\" x=\"%.6g\" y=\"%.6g\">%zu</text>\n", x + LEFT - 8,
            y + HEADING + ((double)t + 0.62) * CELL, t);
    for (size_t s = 0; s < n_keys; s++) {
      const double weight = weights[t * n_keys + s];
      char text[16] = "";
      if (weight > 0) snprintf(text, sizeof text, "1/%.0f", 1 / weight);
      const tool_svg_cell cell = {.x = x + LEFT + (double)s * CELL,
                                  .y = y + HEADING + (double)t * CELL,
                                  .w = CELL - 2,
                                  .h = CELL - 2,
                                  .strength = weight > 0 ? 0.25 : 0,
                                  .text = text,
                                  .row = row + t,
                                  .column = column + s};
      tool_svg_begin_cell(&cell, file);
      fprintf(file, "%s: query %zu %s key %zu%s%s", m->name, t, weight > 0 ? "sees" : "does not see", s,
              weight > 0 ? "; of equal scores its weight is " : "", text);
      tool_svg_end_cell(&cell, file);
    }
  }
}

/* Returns the width of a map with the lines above it. */
static double side_of(size_t n_keys) {
  return fmax(LEFT + (double)n_keys * CELL, LEAST) + 3 * MARGIN;
}

static int put_masks(tool_session *session, const mask *masks, size_t n, size_t n_keys, FILE *file) {
  const double side = side_of(n_keys), high = HEADING + (double)n_keys * CELL + MARGIN;
  int exit_code = TOOL_OK;
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++) {
    vkf_result *result = NULL;
    exit_code = run_mask(session, &masks[i], n_keys, &result);
    if (exit_code == TOOL_OK)
      put_mask(&masks[i], vkf_result_f32(result, "out", NULL), n_keys, MARGIN + (double)(i % 2) * side,
               (double)(i / 2) * high, i / 2 * n_keys, i % 2 * n_keys, file);
    vkf_result_destroy(&result);
  }
  return exit_code;
}

static int draw(tool_session *session, const tool_args *args) {
  const size_t n_keys = args->length ? args->length : 8, n_pads = args->pads ? args->pads : 2,
               window = args->window ? args->window : 3;
  mask masks[] = {{"causal", "a query sees the keys up to its own", n_keys, 0, "{\"causal\": true}"},
                  {"padding", "no query sees the pads behind a text", n_keys, n_pads, "{}"},
                  {"sliding window", "causal, and not too far back", n_keys, 0, ""},
                  {"cross", "a translation sees the whole text, no pads", n_keys - n_keys / 4, n_pads, "{}"}};
  tool_svg svg = {0};
  snprintf(masks[2].params, sizeof masks[2].params, "{\"causal\": true, \"window\": %zu}", window);
  int exit_code = tool_svg_begin(&svg);
  if (exit_code == TOOL_OK) exit_code = put_masks(session, masks, 4, n_keys, svg.file);
  const double high = HEADING + (double)n_keys * CELL + MARGIN;
  return tool_svg_end(&svg, exit_code, args->output, 2 * side_of(n_keys) + MARGIN, 2 * high);
}

static int run_masks(const tool_args *args) {
  tool_session session = {0};
  const size_t length = args->length ? args->length : 8;
  if (tool_svg_check("masks", "output", args->output) != TOOL_OK) return TOOL_USAGE;
  if (length < 4 || length > MAX_LENGTH)
    return tool_usage_error("masks", "--length: expected 4 to %d, found %zu", MAX_LENGTH, length);
  if (args->pads >= length)
    return tool_usage_error("masks", "--pads: expected fewer than the %zu keys, found %zu", length, args->pads);
  int exit_code = tool_session_open(&session, args, args->device, NULL);
  if (exit_code == TOOL_OK) exit_code = draw(&session, args);
  return tool_session_close(&session, exit_code);
}

static const tool_option options[] = {
    {"output", 'o', TOOL_OUTPUT, offsetof(tool_args, output), "FILE",
     "a picture (.svg), or the same on a page (.html); required"},
    {"length", 0, TOOL_SIZE, offsetof(tool_args, length), "N", "number of keys, 4 to 64; default 8"},
    {"pads", 0, TOOL_SIZE, offsetof(tool_args, pads), "N", "number of pads at the end; default 2"},
    {"window", 0, TOOL_SIZE, offsetof(tool_args, window), "N",
     "keys in the sliding window, with the query's own; default 3"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_masks = {
    .name = "masks",
    .summary = "Draw which keys a query may see: causal, pads, window, cross",
    .usage = "-o FILE.html|FILE.svg [OPTION]...",
    .text =
        "Each row is a query, each column a key. All scores are equal, so a query shares its weight evenly among the\n"
        "keys that it sees; a masked key gets none. The device computes the weights.",
    .examples = "  vkformer masks --length 8 --window 3 -o masks.html\n",
    .groups = {&group, TOOL_DEVICE_GROUPS},
    .run = run_masks,
};
