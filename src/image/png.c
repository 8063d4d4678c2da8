/* png: decodes PNG by libpng. See image.h. Takes colours as they are stored: no gamma, no profiles. */
#include "image/internal.h"

#ifdef VKF_HAS_PNG
#include <png.h>
#include <setjmp.h>
#include <string.h>

typedef struct reader {
  vkf_env *env;
  const char *source;
  const uint8_t *next;
  size_t left;
  png_structp png;
  png_infop info;
  png_bytepp rows;
  uint8_t *wide; /* gray of 16 bits, as stored */
  vkf_image *out;
  int *orientation;
} reader;

/* ---- what libpng calls ------------------------------------------------------------------------------------------- */

static void on_error(png_structp png, png_const_charp message) {
  reader *r = png_get_error_ptr(png);
  vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s: the PNG image cannot be read: %s", r->source, message);
  png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
  reader *r = png_get_error_ptr(png);
  vkf_env_log(r->env, VKF_LOG_DEBUG, "%s: %s", r->source, message);
}

static void on_read(png_structp png, png_bytep data, size_t n) {
  reader *r = png_get_io_ptr(png);
  if (n > r->left) png_error(png, "it is truncated");
  memcpy(data, r->next, n);
  r->next += n;
  r->left -= n;
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t size) {
  return vkf_env_alloc(png_get_mem_ptr(png), size, 1);
}

static void on_free(png_structp png, png_voidp memory) {
  vkf_env_free(png_get_mem_ptr(png), memory);
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */

/* Converts everything but gray of 16 bits to red, green and blue of 8 bits. */
static void set_transforms(png_structp png, int colors, int depth) {
  if (colors == PNG_COLOR_TYPE_GRAY && depth == 16) return;
  if (colors == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (colors == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16) png_set_strip_16(png);
  png_set_strip_alpha(png);
  if ((colors & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
}

static void find_orientation(reader *r) {
#ifdef PNG_eXIf_SUPPORTED
  png_uint_32 n = 0;
  png_bytep exif = NULL;
  if (png_get_eXIf_1(r->png, r->info, &n, &exif) != 0) *r->orientation = vkf_image_exif_orientation(exif, n);
#endif
}

/* Leaves by png_longjmp() if libpng fails, so the reader owns everything that is allocated. */
static vkf_status read_image(reader *r) {
  png_set_read_fn(r->png, r, on_read);
  png_set_user_limits(r->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_read_info(r->png, r->info);
  uint32_t width = png_get_image_width(r->png, r->info), height = png_get_image_height(r->png, r->info);
  int colors = png_get_color_type(r->png, r->info), depth = png_get_bit_depth(r->png, r->info);
  bool is_wide = colors == PNG_COLOR_TYPE_GRAY && depth == 16;
  VKF_CALL(vkf_image_create(r->env, r->source, width, height, r->out));
  set_transforms(r->png, colors, depth);
  png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
  size_t row_bytes = (size_t)width * (is_wide ? 2 : 3);
  if (png_get_rowbytes(r->png, r->info) != row_bytes) png_error(r->png, "its rows have another size than expected");
  r->rows = vkf_env_alloc(r->env, height, sizeof *r->rows);
  if (is_wide) r->wide = vkf_env_alloc(r->env, height, row_bytes);
  if (r->rows == NULL || (is_wide && r->wide == NULL)) return VKF_ERROR_MEMORY;
  for (size_t y = 0; y < height; y++) r->rows[y] = (is_wide ? r->wide : r->out->pixels) + y * row_bytes;
  png_read_image(r->png, r->rows);
  png_read_end(r->png, r->info);
  find_orientation(r);
  for (size_t i = 0; is_wide && i < (size_t)width * height; i++)
    memset(r->out->pixels + 3 * i, r->wide[2 * i] > 0 ? 255 : r->wide[2 * i + 1], 3);
  return VKF_OK;
}

static vkf_status read_guarded(reader *r) {
  if (setjmp(png_jmpbuf(r->png)) != 0) return r->env->first;
  return read_image(r);
}

/* Returns whether a chunk claims more bytes than the file has; libpng allocates for some before it reads them. */
static bool is_truncated(const uint8_t *bytes, size_t n_bytes) {
  enum { SIGNATURE = 8, LENGTH_AND_NAME = 8, CHECKSUM = 4 };
  for (size_t at = SIGNATURE, left; at < n_bytes && (left = n_bytes - at) >= LENGTH_AND_NAME;) {
    const uint8_t *b = bytes + at;
    const size_t length = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
    if (memcmp(b + 4, "IEND", 4) == 0) break; /* what follows is not read */
    if (length > left - LENGTH_AND_NAME) return true;
    at += LENGTH_AND_NAME + length + CHECKSUM;
  }
  return false;
}

vkf_status vkf_image_png(vkf_env *env, const char *source, const uint8_t *bytes, size_t n_bytes, vkf_image *out,
                         int *orientation) {
  if (is_truncated(bytes, n_bytes))
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: the PNG image cannot be read: it is truncated", source);
  vkf_status st = VKF_ERROR_MEMORY;
  reader r = {.env = env, .source = source, .next = bytes, .left = n_bytes, .out = out, .orientation = orientation};
  r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning, env, on_malloc, on_free);
  if (r.png != NULL) r.info = png_create_info_struct(r.png);
  if (r.info != NULL) st = read_guarded(&r);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  vkf_env_free(env, r.rows);
  vkf_env_free(env, r.wide);
  if (st != VKF_OK) vkf_image_finish(out);
  return st;
}

#else

vkf_status vkf_image_png(vkf_env *env, const char *source, const uint8_t *bytes, size_t n_bytes, vkf_image *out,
                         int *orientation) {
  (void)bytes, (void)n_bytes, (void)out, (void)orientation;
  return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "%s: a PNG image, but vkformer was built without libpng", source);
}

#endif
