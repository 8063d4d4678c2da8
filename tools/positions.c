/* positions: draws the sinusoids that many models add to their embeddings. */
#include <math.h>
#include <stdlib.h>

#include "heatmap.h"

enum { MAX_CELLS = 65536, MARGIN = 12, HEADING = 52, LEFT = 52, SIDE = 768 };

/* Returns [length][width] from 0 to 1: sines in even columns and cosines in odd ones (Vaswani et al. 2017, section
 * 3.5), mapped by (1 + x) / 2. */
static float *sinusoids(size_t length, size_t width) {
  float *table = malloc(length * width * sizeof *table);
  for (size_t i = 0; table && i < length * width; i++) {
    const size_t position = i / width, k = i % width;
    const double angle = (double)position / pow(10000, (double)(k - k % 2) / (double)width);
    table[i] = (float)(0.5 + 0.5 * (k % 2 ? cos(angle) : sin(angle)));
  }
  return table;
}

static int write_svg(const float *table, size_t length, size_t width, const char *path) {
  tool_svg svg = {0};
  const double w = fmax(3, fmin(12, 640 / (double)width)), h = fmax(3, fmin(12, 640 / (double)length));
  if (tool_svg_begin(&svg) != TOOL_OK) return TOOL_FAILED;
  fprintf(svg.file, "<text class=\"title\" x=\"%d\" y=\"22\">%zu positions, d_model %zu</text>\n", MARGIN, length,
          width);
  fprintf(svg.file, "<text class=\"soft\" x=\"%d\" y=\"42\">columns: sin, cos of position / 10000^(2i / d)</text>\n",
          LEFT);
  for (size_t step = (length + 9) / 10, row = 0; row < length; row += step)
    fprintf(svg.file, "<text class=\"right\" x=\"%d\" y=\"%.5g\">%zu</text>\n", LEFT - 6,
            HEADING + ((double)row + 0.5) * h + 4, row);
  tool_svg_cells(svg.file, table, length, width, LEFT, HEADING, w, h);
  return tool_svg_end(&svg, TOOL_OK, path, fmax(LEFT + w * (double)width + MARGIN, 400),
                      HEADING + h * (double)length + MARGIN);
}

static int write_png(const float *table, size_t length, size_t width, const char *path) {
  tool_png png = {0};
  int exit_code = tool_png_add(&png, table, length, width, SIDE, 0, 0);
  if (exit_code == TOOL_OK) exit_code = tool_png_write(&png, path);
  tool_png_finish(&png);
  return exit_code;
}

static int run_positions(const tool_args *args) {
  const size_t length = args->length ? args->length : 100, width = args->d_model ? args->d_model : 64;
  const bool is_svg = args->output && tool_ends_with(args->output, ".svg");
  if (!is_svg && !(args->output && tool_ends_with(args->output, ".png")))
    return tool_usage_error("positions", "--output: expected a name that ends in .svg or .png, found %s",
                            args->output ? args->output : "none");
  if (width % 2) return tool_usage_error("positions", "--d-model: expected an even number, found %zu", width);
  if (length > MAX_CELLS / width)
    return tool_usage_error("positions", "expected at most %d cells (--length times --d-model), found %zu by %zu",
                            MAX_CELLS, length, width);
  if (tool_args_check_files(args) != TOOL_OK) return TOOL_FAILED;
  float *table = sinusoids(length, width);
  if (!table) return tool_error("out of memory");
  int exit_code =
      is_svg ? write_svg(table, length, width, args->output) : write_png(table, length, width, args->output);
  free(table);
  return exit_code;
}

static const tool_option options[] = {
    {"output", 'o', TOOL_OUTPUT, offsetof(tool_args, output), "FILE", "the picture, .svg or .png; required"},
    {"d-model", 0, TOOL_SIZE, offsetof(tool_args, d_model), "N", "numbers per position; default 64"},
    {"length", 0, TOOL_SIZE, offsetof(tool_args, length), "N", "number of positions; default 100"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_positions = {
    .name = "positions",
    .summary = "Draw the sinusoids by which a model tells positions apart",
    .usage = "-o FILE.svg|FILE.png [OPTION]...",
    .text = "Each row is a position, each column one of its d_model numbers; the darker, the nearer to 1.",
    .examples = "  vkformer positions --d-model 64 --length 100 -o positions.svg\n",
    .groups = {&group, &tool_common_options},
    .run = run_positions,
    .computes_nothing = true,
};
