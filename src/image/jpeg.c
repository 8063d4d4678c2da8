/* jpeg: decodes JPEG by libjpeg. See image.h. Keeps its defaults: the exact integer transform, smooth chroma. */
#include "image/internal.h"

#ifdef VKF_HAS_JPEG
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

typedef struct reader {
  struct jpeg_error_mgr errors; /* first, because libjpeg passes its address to callbacks */
  jmp_buf jump;
  vkf_env *env;
  const char *source;
  struct jpeg_decompress_struct jpeg;
  vkf_image *out;
  int *orientation;
} reader;

/* ---- what libjpeg calls ------------------------------------------------------------------------------------------ */

static void on_error(j_common_ptr jpeg) {
  reader *r = (reader *)jpeg->err;
  char message[JMSG_LENGTH_MAX];
  bool is_memory = r->errors.msg_code == JERR_OUT_OF_MEMORY;
  r->errors.format_message(jpeg, message);
  vkf_env_fail(r->env, is_memory ? VKF_ERROR_MEMORY : VKF_ERROR_FORMAT, "%s: the JPEG image cannot be read: %s",
               r->source, message);
  longjmp(r->jump, 1);
}

/* Logs the first damage after which libjpeg continues (level -1), but fails if the file ends early. */
static void on_message(j_common_ptr jpeg, int level) {
  reader *r = (reader *)jpeg->err;
  char message[JMSG_LENGTH_MAX];
  if (level >= 0) return;
  if (r->errors.msg_code == JWRN_JPEG_EOF) {
    vkf_env_fail(r->env, VKF_ERROR_FORMAT, "%s: the JPEG image cannot be read: it is truncated", r->source);
    longjmp(r->jump, 1);
  }
  if (r->errors.num_warnings++ > 0) return; /* the first says enough */
  r->errors.format_message(jpeg, message);
  vkf_env_log(r->env, VKF_LOG_WARNING, "%s: %s", r->source, message);
}

static void on_output(j_common_ptr jpeg) {
  (void)jpeg;
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */

static void find_orientation(reader *r) {
  static const char exif[] = "Exif\0"; /* the second zero byte ends the string */
  for (const struct jpeg_marker_struct *m = r->jpeg.marker_list; m != NULL; m = m->next) {
    if (m->data_length < sizeof exif || memcmp(m->data, exif, sizeof exif) != 0) continue;
    *r->orientation = vkf_image_exif_orientation(m->data + sizeof exif, m->data_length - sizeof exif);
    return;
  }
}

/* Leaves by longjmp() if libjpeg fails. */
static vkf_status read_image(reader *r, const uint8_t *bytes, size_t n_bytes) {
  struct jpeg_decompress_struct *jpeg = &r->jpeg;
  jpeg_create_decompress(jpeg);
  jpeg_mem_src(jpeg, (unsigned char *)(uintptr_t)bytes, n_bytes);
  jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(jpeg, TRUE);
  if (jpeg->num_components == 4)
    return vkf_env_fail(r->env, VKF_ERROR_UNSUPPORTED, "%s: JPEG images of four colours (CMYK) are not supported",
                        r->source);
  VKF_CALL(vkf_image_create(r->env, r->source, jpeg->image_width, jpeg->image_height, r->out));
  jpeg->out_color_space = JCS_RGB;
  jpeg_start_decompress(jpeg);
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW row = r->out->pixels + (size_t)3 * r->out->width * jpeg->output_scanline;
    jpeg_read_scanlines(jpeg, &row, 1);
  }
  find_orientation(r);
  jpeg_finish_decompress(jpeg);
  return VKF_OK;
}

static vkf_status read_guarded(reader *r, const uint8_t *bytes, size_t n_bytes) {
  if (setjmp(r->jump) != 0) return r->env->first;
  return read_image(r, bytes, n_bytes);
}

vkf_status vkf_image_jpeg(vkf_env *env, const char *source, const uint8_t *bytes, size_t n_bytes, vkf_image *out,
                          int *orientation) {
  reader r = {.env = env, .source = source, .out = out, .orientation = orientation};
  r.jpeg.err = jpeg_std_error(&r.errors);
  r.errors.error_exit = on_error;
  r.errors.emit_message = on_message;
  r.errors.output_message = on_output;
  vkf_status st = read_guarded(&r, bytes, n_bytes);
  jpeg_destroy_decompress(&r.jpeg);
  if (st != VKF_OK) vkf_image_finish(out);
  return st;
}

#else

vkf_status vkf_image_jpeg(vkf_env *env, const char *source, const uint8_t *bytes, size_t n_bytes, vkf_image *out,
                          int *orientation) {
  (void)bytes, (void)n_bytes, (void)out, (void)orientation;
  return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED, "%s: a JPEG image, but vkformer was built without libjpeg", source);
}

#endif
