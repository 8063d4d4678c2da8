/* Images compared with transformers: tests/images has files, configurations and the pixel values that ViTImageProcessor
 * computes from them with Pillow (make.py). Decoding, orientation, resampling, crops and rounding must give the same
 * bits. Also: damaged files, and configurations that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/ok.h"
#include "task/preprocess.h"
#include "file/map.h"
#include "file/safetensors.h"
#include "image/internal.h"
#include "support/range.h"

#define IMAGES VKF_SOURCE_DIR "/tests/images/"

static void read_image(vkf_env *env, const char *name, vkf_file_map *file) {
  char path[256];
  snprintf(path, sizeof path, IMAGES "%s", name);
  ok(env, vkf_file_map_read(env, path, file));
}

#if defined(VKF_HAS_PNG) && defined(VKF_HAS_JPEG)

/* ---- what transformers makes of it ------------------------------------------------------------------------------- */

static void check_case(vkf_env *env, size_t index, vkf_file_value row, const vkf_file_tensor *expected) {
  vkf_file_map file = {0};
  vkf_image image;
  vkf_preprocess p;
  const char *name;
  uint32_t width = 0, height = 0;
  ok(env, vkf_file_json_get_string(row, "image", &name));
  read_image(env, name, &file);
  ok(env, vkf_image_decode(env, name, file.data, file.bytes, &image));
  ok(env, vkf_task_preprocess_read(env, vkf_file_json_member(row, "config"), "cases.json", &p));
  ok(env, vkf_task_preprocess_size(env, &p, &image, &width, &height));
  if (expected->rank != 3 || expected->shape[1] != height || expected->shape[2] != width)
    fail_msg("case %zu, %s: expected %zu x %zu, found %u x %u", index, name, expected->shape[2], expected->shape[1],
             width, height);
  float *pixels = calloc(expected->n_elements, sizeof *pixels), *wanted = calloc(expected->n_elements, sizeof *wanted);
  assert_true(pixels != NULL && wanted != NULL);
  ok(env, vkf_task_preprocess_apply(&p, &image, pixels));
  assert_true(vkf_file_numbers_to_f32(expected->dtype, expected->data, expected->n_elements, wanted));
  for (size_t i = 0; i < expected->n_elements; i++)
    if (!(pixels[i] == wanted[i]))
      fail_msg("case %zu, %s: element %zu: expected %.9g, found %.9g", index, name, i, (double)wanted[i],
               (double)pixels[i]);
  free(wanted);
  free(pixels);
  vkf_image_finish(&image);
  vkf_file_map_close(&file);
}

static void test_cases(void **state) {
  (void)state;
  vkf_env env;
  vkf_file_json *cases = NULL;
  vkf_file_tensors *expected = NULL;
  vkf_env_init(&env, NULL);
  ok(&env, vkf_file_json_read(&env, IMAGES "cases.json", &cases));
  ok(&env, vkf_file_tensors_open(&env, IMAGES "expected.safetensors", &expected));
  size_t n = vkf_file_json_count(vkf_file_json_root(cases));
  assert_between(n, 20, 1000);
  for (size_t i = 0; i < n; i++) {
    char name[24];
    const vkf_file_tensor *t = NULL;
    snprintf(name, sizeof name, "%zu", i);
    ok(&env, vkf_file_tensors_get(expected, name, &t));
    check_case(&env, i, vkf_file_json_at(vkf_file_json_root(cases), i), t);
  }
  vkf_file_tensors_close(&expected);
  vkf_file_json_destroy(&cases);
  assert_int_equal(env.live_bytes, 0);
}

/* Reads the orientation from the first n_bytes of a TIFF header that says its one entry is at offset `at`. */
static int orientation(const char *mark, uint8_t at, uint16_t tag, uint16_t type, uint16_t value, size_t n_bytes) {
  uint8_t tiff[22] = {0};
  const bool is_little = mark[0] == 'I';
  const uint16_t numbers[] = {1, tag, type, 0, 0, value};
  memcpy(tiff, mark, 4);
  tiff[is_little ? 4 : 7] = at;
  for (int i = 0; i < 6; i++) {
    tiff[8 + 2 * i + !is_little] = (uint8_t)numbers[i];
    tiff[8 + 2 * i + is_little] = (uint8_t)(numbers[i] >> 8);
  }
  return vkf_image_exif_orientation(tiff, n_bytes);
}

static void exif_orientation(void **state) {
  (void)state;
  static const char little[4] = {'I', 'I', 42, 0}, big[4] = {'M', 'M', 0, 42}, other[4] = {'M', 'M', 0, 43};
  for (uint16_t value = 0; value < 10; value++) {
    const int expected = value >= 1 && value <= 8 ? value : 1;
    assert_int_equal(orientation(little, 8, 0x0112, 3, value, 22), expected);
    assert_int_equal(orientation(big, 8, 0x0112, 3, value, 22), expected);
  }
  assert_int_equal(orientation(other, 8, 0x0112, 3, 6, 22), 1);
  assert_int_equal(orientation(big, 8, 0x0113, 3, 6, 22), 1);
  assert_int_equal(orientation(big, 8, 0x0112, 4, 6, 22), 1); /* not a short number */
  assert_int_equal(orientation(big, 8, 0x0112, 3, 6, 21), 1); /* cut off */
  assert_int_equal(orientation(big, 21, 0x0112, 3, 6, 22), 1);
  assert_int_equal(orientation(big, 255, 0x0112, 3, 6, 22), 1);
  assert_int_equal(orientation(big, 8, 0x0112, 3, 6, 7), 1);
}

/* Makes an image of four rows of four pixels, with the values 0, 10, 20 and 30. */
static void rows_image(vkf_env *env, vkf_image *image) {
  ok(env, vkf_image_create(env, "test", 4, 4, image));
  for (int i = 0; i < 48; i++) image->pixels[i] = (uint8_t)(i / 12 * 10);
}

/* Only one side is resized. Bilinear: the weights are 3, 3 and 1 of 7, the rows 12.5 / 1.75 and 40 / 1.75. */
static void resize_of_one_side(void **state) {
  (void)state;
  static const struct {
    vkf_image_filter filter;
    uint8_t rows[2];
  } cases[] = {{VKF_IMAGE_NEAREST, {10, 30}}, {VKF_IMAGE_BILINEAR, {7, 23}}};
  vkf_env env;
  vkf_image image, out;
  vkf_env_init(&env, NULL);
  rows_image(&env, &image);
  for (size_t c = 0; c < VKF_COUNT(cases); c++) {
    ok(&env, vkf_image_resize(&image, 4, 2, cases[c].filter, &out));
    for (int i = 0; i < 24; i++) assert_int_equal(out.pixels[i], cases[c].rows[i / 12]);
    vkf_image_finish(&out);
  }
  ok(&env, vkf_image_resize(&image, 2, 4, VKF_IMAGE_BICUBIC, &out));
  for (int i = 0; i < 24; i++) assert_int_equal(out.pixels[i], i / 6 * 10);
  vkf_image_finish(&out);
  vkf_image_finish(&image);
  assert_int_equal(vkf_image_create(&env, "test", 0, 3, &out), VKF_ERROR_FORMAT);
  vkf_env_clear(&env);
  assert_int_equal(vkf_image_create(&env, "test", 3, 0, &out), VKF_ERROR_FORMAT);
}

/* If the difference is odd, a smaller crop cuts the smaller half off the top; a larger one has the larger half, in
 * black, at the top. */
static void crop_of_odd_differences(void **state) {
  (void)state;
  static const uint8_t larger[7] = {0, 0, 0, 10, 20, 30, 0}, smaller[3] = {0, 10, 20}; /* black: rows 0, 1 and 6 */
  vkf_env env;
  vkf_image image, out;
  vkf_env_init(&env, NULL);
  rows_image(&env, &image);
  ok(&env, vkf_image_crop(&image, 4, 7, &out)); /* (4 - 7) / 2, rounded down, is -2 */
  for (int i = 0; i < 84; i++) assert_int_equal(out.pixels[i], larger[i / 12]);
  vkf_image_finish(&out);
  ok(&env, vkf_image_crop(&image, 4, 3, &out));
  for (int i = 0; i < 36; i++) assert_int_equal(out.pixels[i], smaller[i / 12]);
  vkf_image_finish(&out);
  vkf_image_finish(&image);
}

/* The defaults of the classes, if a file says no more than the class. */
static void usual_options(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint32_t width, height, scaled;
  } rows[] = {{"ViTImageProcessor", 224, 224, 224}, {"DeiTImageProcessor", 224, 224, 256}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_env env;
    vkf_file_json *json = NULL;
    vkf_preprocess p;
    vkf_image image;
    char text[80];
    uint32_t width = 0, height = 0;
    vkf_env_init(&env, NULL);
    int n = snprintf(text, sizeof text, "{\"image_processor_type\": \"%s\"}", rows[i].name);
    ok(&env, vkf_file_json_parse(&env, "F", text, (size_t)n, &json));
    ok(&env, vkf_task_preprocess_read(&env, vkf_file_json_root(json), "F", &p));
    ok(&env, vkf_image_create(&env, "F", 10, 20, &image));
    ok(&env, vkf_task_preprocess_size(&env, &p, &image, &width, &height));
    assert_true(width == rows[i].width && height == rows[i].height && p.width == rows[i].scaled);
    assert_int_equal(p.filter, i == 0 ? VKF_IMAGE_BILINEAR : VKF_IMAGE_BICUBIC);
    vkf_image_finish(&image);
    vkf_file_json_destroy(&json);
  }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void refuse(const uint8_t *bytes, size_t n, vkf_status status, const char *words) {
  vkf_env env;
  vkf_image image;
  vkf_env_init(&env, NULL);
  vkf_status st = vkf_image_decode(&env, "F", bytes, n, &image);
  if (st != status || strncmp(env.message, "F: ", 3) != 0 || strstr(env.message, words) == NULL)
    fail_msg("expected %d and '%s', found %d and '%s'", status, words, st, env.message);
  vkf_image_finish(&image);
  assert_int_equal(env.live_bytes, 0);
}

/* A file that is cut off anywhere is refused. With a flipped bit it is refused or read, and nothing leaks. */
static void damage(const char *name, uint32_t n_changes) {
  vkf_env env;
  vkf_file_map file = {0};
  vkf_env_init(&env, NULL);
  read_image(&env, name, &file);
  uint8_t *copy = malloc(file.bytes);
  assert_non_null(copy);
  size_t n_signature = file.data[0] == 0xff ? 3 : 8;
  for (size_t n = 0; n < file.bytes; n += 1 + n / 16) {
    memcpy(copy, file.data, n);
    refuse(copy, n, VKF_ERROR_FORMAT, n < n_signature ? "expected a PNG or JPEG image" : "truncated");
  }
  for (uint32_t i = 0; i < n_changes; i++) {
    vkf_image image;
    vkf_env changed;
    vkf_env_init(&changed, NULL);
    memcpy(copy, file.data, file.bytes);
    uint64_t at = vkf_rng_u64(1, 0, i);
    copy[at % file.bytes] ^= (uint8_t)(1 << (at >> 60 & 7));
    vkf_status st = vkf_image_decode(&changed, "F", copy, file.bytes, &image);
    assert_true(st == VKF_OK || st == VKF_ERROR_FORMAT || st == VKF_ERROR_UNSUPPORTED);
    vkf_image_finish(&image);
    assert_int_equal(changed.live_bytes, 0);
  }
  free(copy);
  vkf_file_map_close(&file);
}

static void test_damaged(void **state) {
  (void)state;
  damage("interlaced.png", 300);
  damage("gray16.png", 200);
  damage("palette.png", 200);
  damage("turned.png", 200);
  damage("progressive.jpg", 300);
  damage("turned6.jpg", 300);
}

static void test_refused(void **state) {
  (void)state;
  vkf_env env;
  vkf_file_map file = {0};
  vkf_env_init(&env, NULL);
  refuse((const uint8_t *)"GIF89a", 6, VKF_ERROR_FORMAT, "expected a PNG or JPEG image, found something else");
  refuse((const uint8_t *)"", 0, VKF_ERROR_FORMAT, "expected a PNG or JPEG image");
  read_image(&env, "cmyk.jpg", &file);
  refuse(file.data, file.bytes, VKF_ERROR_UNSUPPORTED, "CMYK");
  vkf_file_map_close(&file);
  /* The header says 2^31-1 x 1, and that of the JPEG below 60138 x 60138: refused before anything is allocated. */
  static uint8_t png[] = {0x89, 'P',  'N',  'G',  '\r', '\n', 0x1a, '\n', 0,   0,   0,   13,   'I',  'H',  'D',
                          'R',  0x7f, 0xff, 0xff, 0xff, 0,    0,    0,    1,   8,   2,   0,    0,    0,    0x2f,
                          0x54, 0xa4, 0x8a, 0,    0,    0,    0,    'I',  'D', 'A', 'T', 0x35, 0xaf, 0x06, 0x1e};
  refuse(png, sizeof png, VKF_ERROR_FORMAT, "2147483647 x 1");
  /* A chunk that says it has a gigabyte: nothing is allocated for it. */
  static uint8_t exif[] = {0x89, 0x50, 0x4e, 0x47, 13, 10, 0x1a, 10,   0,    0,    0,    13,   0x49, 0x48, 0x44,
                           0x52, 0,    0,    0,    12, 0,  0,    0,    8,    8,    2,    0,    0,    0,    0x42,
                           0x86, 0x89, 0xa6, 0x40, 4,  0,  0x1a, 0x65, 0x58, 0x49, 0x66, 0x4d, 0x4d, 0,    0x2a};
  vkf_image none = {0};
  env.fail_at = env.n_allocations + 1;
  assert_int_equal(vkf_image_decode(&env, "F", exif, sizeof exif, &none), VKF_ERROR_FORMAT);
  env.fail_at = 0;
  read_image(&env, "turned2.jpg", &file);
  uint8_t *jpeg = malloc(file.bytes);
  assert_non_null(jpeg);
  memcpy(jpeg, file.data, file.bytes);
  for (size_t i = 0; i + 9 < file.bytes; i++)
    if (jpeg[i] == 0xff && jpeg[i + 1] == 0xc0) memset(jpeg + i + 5, 0xea, 4);
  refuse(jpeg, file.bytes, VKF_ERROR_FORMAT, "60138 x 60138");
  free(jpeg);
  vkf_file_map_close(&file);
  assert_int_equal(env.live_bytes, 0);
}

/* Lets each allocation fail in turn. */
static void fail_each(const char *name) {
  vkf_env env;
  vkf_file_map file = {0};
  vkf_env_init(&env, NULL);
  read_image(&env, name, &file);
  vkf_status st = VKF_ERROR_MEMORY;
  for (uint64_t at = 1; st != VKF_OK; at++) {
    vkf_env failing;
    vkf_image image, scaled = {0};
    vkf_env_init(&failing, NULL);
    failing.fail_at = at;
    st = vkf_image_decode(&failing, "F", file.data, file.bytes, &image);
    if (st == VKF_OK) st = vkf_image_resize(&image, 5, 40, VKF_IMAGE_BICUBIC, &scaled);
    assert_true(st == VKF_OK || st == VKF_ERROR_MEMORY);
    vkf_image_finish(&scaled);
    vkf_image_finish(&image);
    assert_int_equal(failing.live_bytes, 0);
    assert_between(at, 1, 500);
  }
  vkf_file_map_close(&file);
}

static void test_memory(void **state) {
  (void)state;
  fail_each("interlaced.png");
  fail_each("gray16.png");
  fail_each("turned6.jpg");
}

#else

static void test_without(void **state) {
  (void)state;
  static const char *const names[] = {
#ifndef VKF_HAS_PNG
      "rgb.png",
#endif
#ifndef VKF_HAS_JPEG
      "gray.jpg",
#endif
  };
  for (size_t i = 0; i < VKF_COUNT(names); i++) {
    vkf_env env;
    vkf_file_map file = {0};
    vkf_image image;
    vkf_env_init(&env, NULL);
    read_image(&env, names[i], &file);
    assert_int_equal(vkf_image_decode(&env, "F", file.data, file.bytes, &image), VKF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(env.message, "vkformer was built without lib"));
    vkf_image_finish(&image);
    vkf_file_map_close(&file);
  }
}

#endif

/* ---- configurations ---------------------------------------------------------------------------------------------- */

static void test_orientation(void **state) {
  (void)state;
  static const uint8_t little[] = {'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0};
  static const uint8_t big[] = {'M', 'M', 0, '*', 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 8, 0, 0};
  assert_int_equal(vkf_image_exif_orientation(little, sizeof little), 6);
  assert_int_equal(vkf_image_exif_orientation(big, sizeof big), 8);
  for (size_t n = 0; n < sizeof little; n++) assert_int_equal(vkf_image_exif_orientation(little, n), 1);
  uint8_t far[sizeof little];
  memcpy(far, little, sizeof far);
  memset(far + 4, 0xff, 4);
  assert_int_equal(vkf_image_exif_orientation(far, sizeof far), 1);
}

static void test_configurations(void **state) {
  (void)state;
  static const struct {
    const char *config, *words; /* NULL: accepted */
  } rows[] = {
      {"{}", NULL},
      {"{\"size\": 32, \"do_pad\": false, \"processor_class\": \"P\", \"crop_size\": null, \"made_up\": null}", NULL},
      {"{\"feature_extractor_type\": \"ViTFeatureExtractor\"}", NULL},
      {"{\"feature_extractor_type\": \"DeiTFeatureExtractor\", \"size\": 256, \"crop_size\": 224}", NULL},
      {"{\"image_processor_type\": \"DeiTProcessor\"}", "found \"DeiTProcessor\""},
      {"{\"do_pad\": true}", "\"do_pad\" is not supported"},
      {"{\"crop_pct\": 0.9}", "\"crop_pct\" is not supported"},
      {"{\"do_flip_channel_order\": true}", "\"do_flip_channel_order\" is not supported"},
      {"{\"image_processor_type\": \"CLIPImageProcessor\"}", "found \"CLIPImageProcessor\""},
      {"{\"resample\": 1}", "as resample, found 1"},
      {"{\"size\": 0}", "expected 1 .. 16384 as size, found 0"},
      {"{\"size\": {\"height\": 5}}", "as size"},
      {"{\"size\": {\"longest_edge\": 5}}", "as size"},
      {"{\"size\": {\"shortest_edge\": 5, \"longest_edge\": 7}}", "as size"},
      {"{\"size\": {\"height\": 5, \"width\": 100000}}", "as size.width, found 100000"},
      {"{\"size\": [1, 2, 3]}", "as size"},
      {"{\"crop_size\": {\"shortest_edge\": 5}}", "as crop_size"},
      {"{\"do_center_crop\": true}", "expected crop_size"},
      {"{\"do_resize\": 1}", "do_resize"},
      {"{\"image_mean\": [1, 2]}", "expected three numbers as image_mean, found 2"},
      {"{\"image_std\": [1, 0, 1]}", "expected numbers over 0 as image_std, found 0"},
      {"{\"rescale_factor\": \"x\"}", "rescale_factor"},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_env env;
    vkf_file_json *json = NULL;
    vkf_preprocess p;
    vkf_env_init(&env, NULL);
    ok(&env, vkf_file_json_parse(&env, "F", rows[i].config, strlen(rows[i].config), &json));
    vkf_status st = vkf_task_preprocess_read(&env, vkf_file_json_root(json), "F", &p);
    if ((st == VKF_OK) != (rows[i].words == NULL) || (st != VKF_OK && strstr(env.message, rows[i].words) == NULL))
      fail_msg("%s: found %d and '%s'", rows[i].config, st, env.message);
    vkf_file_json_destroy(&json);
    assert_int_equal(env.live_bytes, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(exif_orientation),
    cmocka_unit_test(usual_options),
#if defined(VKF_HAS_PNG) && defined(VKF_HAS_JPEG)
    cmocka_unit_test(resize_of_one_side),
    cmocka_unit_test(crop_of_odd_differences),
    cmocka_unit_test(test_cases),
    cmocka_unit_test(test_damaged),
    cmocka_unit_test(test_refused),
    cmocka_unit_test(test_memory),
#else
    cmocka_unit_test(test_without),
#endif
    cmocka_unit_test(test_orientation),
    cmocka_unit_test(test_configurations)
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
