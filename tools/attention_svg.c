/* attention_svg: draws the weights of a text: one head with its tokens, or several as small maps. A PNG has only the
 * cells.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "heatmap.h"
#include "lines.h"

/* Sizes in pixels; limits of tokens per side, for one head and for small maps. */
enum {
  CELL = 24,
  SMALL = 112,
  GAP = 16,
  MARGIN = 12,
  HEADING = 34,
  LETTER = 8,
  MAX_SIDE = 128,
  MAX_SMALL = 48,
  PNG_SIDE = 768
};
static double label_width(const tool_tokens *tokens) {
  int most = 0;
  for (size_t i = 0; i < tokens->n; i++) {
    const int n = tool_columns(tokens->at[i]);
    most = n > most ? n : most;
  }
  return (most < 30 ? most : 30) * LETTER + MARGIN;
}

/* ---- one head ---------------------------------------------------------------------------------------------------- */

static void put_labels(FILE *file, const tool_attention_map *map, double left, double top, tool_span from) {
  for (size_t r = 0; r < map->rows->n; r++) {
    const bool picked = r >= from.first && r < from.first + from.n;
    fprintf(file, "<text class=\"right%s\" x=\"%.4g\" y=\"%.5g\">", picked ? " picked" : "", left - 6,
            top + ((double)r + 0.68) * CELL);
    tool_svg_text(map->rows->at[r], file);
    fputs("</text>\n", file);
  }
  for (size_t c = 0; c < map->columns->n; c++) {
    fprintf(file, "<text transform=\"translate(%.5g %.4g) rotate(-90)\">", left + ((double)c + 0.68) * CELL, top - 6);
    tool_svg_text(map->columns->at[c], file);
    fputs("</text>\n", file);
  }
}

/* Draws a frame around the picked rows, and their weights in percent. */
static void put_picked(FILE *file, const float *weights, size_t n_columns, double left, double top, tool_span from) {
  for (size_t r = from.first; r < from.first + from.n; r++)
    for (size_t c = 0; c < n_columns; c++) {
      const double weight = weights[r * n_columns + c];
      if (weight >= 0.01)
        fprintf(file, "<text class=\"value%s\" x=\"%.5g\" y=\"%.5g\">%.0f</text>\n", weight > 0.55 ? " on" : "",
                left + ((double)c + 0.5) * CELL, top + ((double)r + 0.63) * CELL, 100 * weight);
    }
  fprintf(file, "<rect class=\"pick\" x=\"%.4g\" y=\"%.5g\" width=\"%.5g\" height=\"%.4g\"/>\n", left,
          top + (double)from.first * CELL, (double)n_columns * CELL, (double)from.n * CELL);
}

static int put_head(FILE *file, const tool_attention_map *map, size_t head, const tool_args *args, double *width,
                    double *height) {
  const bool is_sampled = map->rows->n > MAX_SIDE || map->columns->n > MAX_SIDE;
  const size_t n_rows = is_sampled && map->rows->n > MAX_SIDE ? MAX_SIDE : map->rows->n,
               n_columns = is_sampled && map->columns->n > MAX_SIDE ? MAX_SIDE : map->columns->n;
  const double cell = is_sampled ? 6 : CELL, left = is_sampled ? MARGIN : label_width(map->rows),
               top = HEADING + (is_sampled ? 0 : label_width(map->columns));
  float *weights = tool_attention_sample(map, head, n_rows, n_columns);
  if (!weights) return TOOL_FAILED;
  *width = fmax(left + cell * (double)n_columns + MARGIN, 320);
  *height = top + cell * (double)n_rows + MARGIN;
  fprintf(file, "<text class=\"title\" x=\"%d\" y=\"22\">%s, layer %zu, head %zu%s</text>\n", MARGIN, map->kind,
          map->layer, head, is_sampled ? ", sampled down" : "");
  tool_svg_cells(file, weights, n_rows, n_columns, left, top, cell, cell);
  if (!is_sampled) {
    const tool_span from = args->from ? tool_find_word(map->rows, args->from) : (tool_span){0, 0};
    put_labels(file, map, left, top, from);
    if (from.n) put_picked(file, weights, n_columns, left, top, from);
  }
  free(weights);
  return TOOL_OK;
}

/* ---- small maps -------------------------------------------------------------------------------------------------- */

static int put_small(FILE *file, const tool_attention_map *map, size_t head, double x, double y) {
  const size_t n_rows = map->rows->n < MAX_SMALL ? map->rows->n : MAX_SMALL,
               n_columns = map->columns->n < MAX_SMALL ? map->columns->n : MAX_SMALL;
  float *weights = tool_attention_sample(map, head, n_rows, n_columns);
  if (!weights) return TOOL_FAILED;
  tool_svg_cells(file, weights, n_rows, n_columns, x, y, SMALL / (double)n_columns, SMALL / (double)n_rows);
  free(weights);
  return TOOL_OK;
}

static int put_grid(FILE *file, const tool_attention_maps *maps, const tool_args *args, double *width, double *height) {
  enum { LEFT = 76 };
  double y = MARGIN;
  int exit_code = TOOL_OK;
  *width = 320;
  for (size_t i = 0; i < maps->n && exit_code == TOOL_OK; i++) {
    const tool_attention_map *map = &maps->at[i];
    double x = LEFT;
    if (i == 0 || strcmp(map->kind, maps->at[i - 1].kind) != 0) {
      fprintf(file, "<text class=\"title\" x=\"%d\" y=\"%.5g\">%s</text>\n", MARGIN, y + 14, map->kind);
      for (size_t h = 0, at = 0; h < map->n_heads; h++)
        if (tool_attention_has_head(args, h))
          fprintf(file, "<text class=\"soft\" x=\"%.5g\" y=\"%.5g\">head %zu</text>\n",
                  LEFT + (double)at++ * (SMALL + GAP), y + 36, h);
      y += 44;
    }
    fprintf(file, "<text class=\"soft\" x=\"%d\" y=\"%.5g\">layer %zu</text>\n", MARGIN, y + SMALL / 2.0, map->layer);
    for (size_t h = 0; h < map->n_heads && exit_code == TOOL_OK; h++) {
      if (!tool_attention_has_head(args, h)) continue;
      exit_code = put_small(file, map, h, x, y);
      x += SMALL + GAP;
    }
    *width = fmax(*width, x);
    y += SMALL + GAP;
  }
  *height = y;
  return exit_code;
}

int tool_attention_write_svg(const tool_args *args, const tool_attended *a, const char *path) {
  tool_attention_maps *maps = malloc(sizeof *maps);
  tool_svg svg = {0};
  size_t head = 0;
  double width = 0, height = 0;
  int exit_code = maps ? tool_attention_choose(a, args, maps) : tool_error("out of memory");
  if (exit_code == TOOL_OK) exit_code = tool_svg_begin(&svg);
  while (exit_code == TOOL_OK && !tool_attention_has_head(args, head)) head++;
  if (exit_code == TOOL_OK)
    exit_code = maps->n_heads == 1 ? put_head(svg.file, &maps->at[0], head, args, &width, &height)
                                   : put_grid(svg.file, maps, args, &width, &height);
  exit_code = tool_svg_end(&svg, exit_code, path, width, height);
  free(maps);
  return exit_code;
}

int tool_attention_write_png(const tool_args *args, const tool_attended *a, const char *path) {
  tool_attention_maps *maps = malloc(sizeof *maps);
  tool_png png = {0};
  size_t column = 0, row = 0;
  int exit_code = maps ? tool_attention_choose(a, args, maps) : tool_error("out of memory");
  const bool is_one = exit_code == TOOL_OK && maps->n_heads == 1;
  for (size_t i = 0; exit_code == TOOL_OK && i < maps->n; i++, row++) {
    const tool_attention_map *map = &maps->at[i];
    const size_t most = is_one ? PNG_SIDE : SMALL, n_rows = map->rows->n < most ? map->rows->n : most,
                 n_columns = map->columns->n < most ? map->columns->n : most;
    column = 0;
    for (size_t h = 0; exit_code == TOOL_OK && h < map->n_heads; h++) {
      if (!tool_attention_has_head(args, h)) continue;
      float *weights = tool_attention_sample(map, h, n_rows, n_columns);
      exit_code = weights ? tool_png_add(&png, weights, n_rows, n_columns, most, column++, row) : TOOL_FAILED;
      free(weights);
    }
  }
  if (exit_code == TOOL_OK) exit_code = tool_png_write(&png, path);
  tool_png_finish(&png);
  free(maps);
  return exit_code;
}
