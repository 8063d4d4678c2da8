/* heatmap: see heatmap.h. */
#define _POSIX_C_SOURCE 200809L

#include "heatmap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef VKF_HAS_PNG
#include <png.h>
#endif

enum { GAP = 8, LETTER = 7 };      /* pixels between the maps of a PNG file; about the width of a letter of 12 pixels */
static const double LEAST = 0.004; /* smaller numbers draw nothing in an SVG file */

void tool_svg_text(const char *text, FILE *file) {
  for (; *text; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c == '&')
      fputs("&amp;", file);
    else if (c == '<')
      fputs("&lt;", file);
    else if (c == '>')
      fputs("&gt;", file);
    else
      fputc(c < 0x20 ? ' ' : c, file);
  }
}

void tool_svg_cells(FILE *file, const float *weights, size_t n_rows, size_t n_columns, double x, double y, double w,
                    double h) {
  fprintf(file, "<g class=\"cells\">\n");
  for (size_t r = 0; r < n_rows; r++)
    for (size_t c = 0; c < n_columns; c++) {
      const double weight = weights[r * n_columns + c];
      if (weight >= LEAST)
        fprintf(file, "<rect x=\"%.4g\" y=\"%.4g\" width=\"%.4g\" height=\"%.4g\" fill-opacity=\"%.3f\"/>\n",
                x + (double)c * w, y + (double)r * h, w, h, fmin(weight, 1));
    }
  fprintf(file, "</g>\n<rect class=\"frame\" x=\"%.4g\" y=\"%.4g\" width=\"%.4g\" height=\"%.4g\"/>\n", x, y,
          w * (double)n_columns, h * (double)n_rows);
}

void tool_svg_short(const char *text, size_t most, FILE *file) {
  char copy[256];
  size_t n = 0, letters = 0;
  for (; text[n] && n < sizeof copy - 4; n++) {
    const bool begins = ((unsigned char)text[n] & 0xc0) != 0x80;
    if (begins && letters + 1 > most) break;
    letters += begins;
    copy[n] = text[n];
  }
  if (text[n]) /* the last letter is replaced by three dots */
    while (n > 0 && ((unsigned char)copy[--n] & 0xc0) == 0x80) continue;
  snprintf(copy + n, sizeof copy - n, "%s", text[n] ? "\xe2\x80\xa6" : "");
  tool_svg_text(copy, file);
}

void tool_svg_begin_cell(const tool_svg_cell *c, FILE *file) {
  fprintf(file, "<g class=\"cell %s\" data-row=\"%zu\" data-column=\"%zu\"><title>", c->kind ? c->kind : "", c->row,
          c->column);
}

void tool_svg_end_cell(const tool_svg_cell *c, FILE *file) {
  const double strength = fmax(0, fmin(c->strength, 1));
  fprintf(file, "</title><rect class=\"paper\" x=\"%.5g\" y=\"%.5g\" width=\"%.5g\" height=\"%.5g\"/>", c->x, c->y,
          c->w, c->h);
  fprintf(file, "<rect x=\"%.5g\" y=\"%.5g\" width=\"%.5g\" height=\"%.5g\" fill-opacity=\"%.3f\"/>", c->x, c->y, c->w,
          c->h, strength);
  fprintf(file, "<text class=\"word%s\" x=\"%.5g\" y=\"%.5g\">", strength > 0.55 ? " on" : "", c->x + c->w / 2,
          c->y + c->h / 2 + 4);
  tool_svg_short(c->text, (size_t)fmax(2, (c->w - 4) / LETTER), file);
  fputs("</text></g>\n", file);
}

int tool_svg_check(const char *command, const char *option, const char *path) {
  if (path && (tool_ends_with(path, ".html") || tool_ends_with(path, ".svg"))) return TOOL_OK;
  return tool_usage_error(command, "--%s: expected a name that ends in .html or .svg, found %s", option,
                          path ? path : "none");
}

/* Puts `picture` into the shipped frame: the root element with its style. */
static int write_svg(const char *path, double width, double height, const char *picture) {
  static const char box[] = "viewBox=\"0 0 0 0\"", place[] = "<!-- picture -->\n";
  char *text = NULL, *frame = tool_read_shipped("tools/attention.svg");
  size_t size = 0;
  if (!frame) return TOOL_FAILED;
  const char *at_box = strstr(frame, box), *at = strstr(frame, place);
  FILE *file = at_box && at ? open_memstream(&text, &size) : NULL;
  if (file) {
    fprintf(file, "%.*sviewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\"", (int)(at_box - frame), frame, width,
            height, width, height);
    at_box += sizeof box - 1;
    fwrite(at_box, 1, (size_t)(at - at_box), file);
    fprintf(file, "<rect class=\"back\" width=\"%.0f\" height=\"%.0f\"/>\n%s%s", width, height, picture,
            at + sizeof place - 1);
  }
  const bool done = file && fclose(file) == 0;
  int exit_code = done ? TOOL_OK : tool_error("%s: cannot be written: out of memory", path);
  if (done)
    exit_code = tool_ends_with(path, ".html")
                    ? tool_write_page("tools/picture.html", path, json_pack("[{s:s}]", "svg", text))
                    : tool_write_file(path, text, size);
  free(text);
  free(frame);
  return exit_code;
}

int tool_svg_begin(tool_svg *svg) {
  svg->file = open_memstream(&svg->text, &svg->size);
  return svg->file ? TOOL_OK : tool_error("out of memory");
}

int tool_svg_end(tool_svg *svg, int exit_code, const char *path, double width, double height) {
  if (svg->file && fclose(svg->file) != 0 && exit_code == TOOL_OK) exit_code = tool_error("out of memory");
  if (exit_code == TOOL_OK) exit_code = write_svg(path, width, height, svg->text);
  free(svg->text);
  return exit_code;
}

/* ---- PNG --------------------------------------------------------------------------------------------------------- */

/* Makes room for width x height pixels; new pixels are white. */
static int grow(tool_png *png, size_t width, size_t height) {
  if (width < png->width) width = png->width;
  if (height < png->height) height = png->height;
  if (width == png->width && height == png->height) return TOOL_OK;
  unsigned char *pixels = malloc(width * height);
  if (!pixels) return tool_error("out of memory");
  memset(pixels, 255, width * height);
  for (size_t y = 0; y < png->height; y++) memcpy(pixels + y * width, png->pixels + y * png->width, png->width);
  free(png->pixels);
  *png = (tool_png){pixels, width, height};
  return TOOL_OK;
}

int tool_png_add(tool_png *png, const float *weights, size_t n_rows, size_t n_columns, size_t side, size_t column,
                 size_t row) {
  const size_t n = n_rows > n_columns ? n_rows : n_columns, cell = n && n < side ? side / n : 1,
               left = column * (side + GAP), top = row * (side + GAP);
  int exit_code = grow(png, left + cell * n_columns, top + cell * n_rows);
  for (size_t y = 0; exit_code == TOOL_OK && y < cell * n_rows; y++)
    for (size_t x = 0; x < cell * n_columns; x++) {
      const double weight = fmax(0, fmin(weights[y / cell * n_columns + x / cell], 1));
      png->pixels[(top + y) * png->width + left + x] = (unsigned char)lround(255 * (1 - weight));
    }
  return exit_code;
}

int tool_png_write(const tool_png *png, const char *path) {
#ifdef VKF_HAS_PNG
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)png->width,
                     .height = (png_uint_32)png->height,
                     .format = PNG_FORMAT_GRAY};
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  unsigned char *bytes = malloc(size);
  const bool done = bytes && png_image_write_to_memory(&image, bytes, &size, 0, png->pixels, 0, NULL);
  int exit_code = done ? tool_write_file(path, bytes, size)
                       : tool_error("%s: cannot be written: %s", path, bytes ? image.message : "out of memory");
  free(bytes);
  return exit_code;
#else
  (void)png;
  return tool_error("%s: this vkformer was built without libpng", path);
#endif
}

void tool_png_finish(tool_png *png) {
  free(png->pixels);
}
