/* heatmap: draws numbers from 0 to 1 as cells of a picture, for all SVG and PNG files of the program. */
#ifndef VKFORMER_TOOLS_HEATMAP_H
#define VKFORMER_TOOLS_HEATMAP_H

#include "program.h"

/* Writes text with the characters of XML escaped. */
void tool_svg_text(const char *text, FILE *file);
/* Draws weights [n_rows][n_columns] at x, y as cells of w by h, and a frame. */
void tool_svg_cells(FILE *file, const float *weights, size_t n_rows, size_t n_columns, double x, double y, double w,
                    double h);
/* A cell with a word in it, which is cut if it is too wide. strength: from 0 to 1. row, column: its place for arrow
 * keys on a page. kind: a class of tools/attention.svg with another look; NULL: none. Between begin and end the caller
 * writes the text that is shown when the pointer is there, with the characters of XML escaped. */
typedef struct tool_svg_cell {
  double x, y, w, h, strength;
  const char *kind, *text;
  size_t row, column;
} tool_svg_cell;
void tool_svg_begin_cell(const tool_svg_cell *cell, FILE *file);
void tool_svg_end_cell(const tool_svg_cell *cell, FILE *file);
/* Writes text, cut to at most so many letters. */
void tool_svg_short(const char *text, size_t most, FILE *file);
/* A picture that is being drawn; zero-initialize. begin opens the file to draw into. end closes it and, if exit_code is
 * TOOL_OK, writes the picture inside the root element and the style that come with vkformer; if the path ends in .html,
 * on a page that describes the cell under the pointer. Call end even if begin fails. TOOL_FAILED after a message. */
typedef struct tool_svg {
  FILE *file;
  char *text;
  size_t size;
} tool_svg;
int tool_svg_begin(tool_svg *svg);
int tool_svg_end(tool_svg *svg, int exit_code, const char *path, double width, double height);

/* Checks that --output is given and ends in .html or .svg; TOOL_USAGE after a message. */
int tool_svg_check(const char *command, const char *option, const char *path);

/* A grid of maps in shades of gray (black is 1), one to a square, with gaps. Zero-initialize, then finish. */
typedef struct tool_png {
  unsigned char *pixels;
  size_t width, height;
} tool_png;
/* Draws weights [n_rows][n_columns], each at most `side`, as the map in this row and column of the grid, at most `side`
 * pixels wide and high. */
int tool_png_add(tool_png *png, const float *weights, size_t n_rows, size_t n_columns, size_t side, size_t column,
                 size_t row);
int tool_png_write(const tool_png *png, const char *path);
void tool_png_finish(tool_png *png);

#endif
