/* safetensors: files are read as they were written, broken ones refused with a message; each allocation may fail. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "file/map.h"
#include "file/safetensors.h"

static vkf_env env;
static char folder[64];
static char path[512];

/* ---- files ------------------------------------------------------------------------------------------------------- */

static const char *in_folder(const char *name) {
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  return path;
}

static void put_file(const char *name, const void *bytes, size_t n) {
  FILE *f = fopen(in_folder(name), "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

/* length: of the header, as the first 8 bytes give it. */
static void put_raw(const char *name, uint64_t length, const char *header, size_t data_bytes) {
  uint8_t bytes[4096];
  size_t n = strlen(header);
  assert_true(8 + n + data_bytes <= sizeof(bytes));
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(length >> 8 * i);
  memcpy(bytes + 8, header, n);
  for (size_t i = 0; i < data_bytes; i++) bytes[8 + n + i] = (uint8_t)i;
  put_file(name, bytes, 8 + n + data_bytes);
}

static void put_tensors(const char *name, const char *header, size_t data_bytes) {
  put_raw(name, strlen(header), header, data_bytes);
}

static int make_folder(void **state) {
  (void)state;
  vkf_env_init(&env, NULL);
  strcpy(folder, "/tmp/vkf-safetensors-XXXXXX");
  return mkdtemp(folder) == NULL;
}

static size_t count_files(bool remove_them) {
  size_t n = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
    if (e->d_name[0] == '.') continue;
    n++;
    if (remove_them) remove(in_folder(e->d_name));
  }
  closedir(d);
  return n;
}

static int remove_folder(void **state) {
  (void)state;
  count_files(true);
  return rmdir(folder) != 0 || env.live_bytes != 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void reads_what_is_there(void **state) {
  (void)state;
  put_tensors(
      "model.safetensors",
      "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
      "\"a\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]},\"none\":{\"dtype\":\"U8\",\"shape\":[0,5],"
      "\"data_offsets\":[4,4]}}  ",
      28);
  const char *places[2] = {folder, NULL};
  char file[512];
  strcpy(file, in_folder("model.safetensors"));
  places[1] = file;
  for (int p = 0; p < 2; p++) {
    vkf_file_tensors *ts = NULL;
    assert_int_equal(vkf_file_tensors_open(&env, places[p], &ts), VKF_OK);
    assert_int_equal(vkf_file_tensors_count(ts), 3);
    assert_string_equal(vkf_file_tensors_at(ts, 0)->name, "a");
    assert_string_equal(vkf_file_tensors_at(ts, 2)->name, "w");
    const vkf_file_tensor *w = vkf_file_tensors_find(ts, "w");
    assert_non_null(w);
    assert_int_equal(w->dtype, VKF_F32);
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->shape[0], 2);
    assert_int_equal(w->shape[1], 3);
    assert_int_equal(w->bytes, 24);
    assert_int_equal(w->n_elements, 6);
    assert_int_equal(((const uint8_t *)w->data)[0], 4);
    assert_int_equal(((const uint8_t *)w->data)[23], 27);
    assert_int_equal(vkf_file_tensors_find(ts, "none")->bytes, 0);
    assert_int_equal(vkf_file_tensors_find(ts, "a")->n_elements, 1);
    assert_null(vkf_file_tensors_find(ts, "b"));
    assert_int_equal(vkf_file_tensors_get(ts, "b", &w), VKF_ERROR_FORMAT);
    assert_non_null(strstr(env.message, "expected a tensor \"b\", found none"));
    vkf_env_clear(&env);
    assert_int_equal(vkf_file_tensors_get_shaped(ts, "w", 2, (const size_t[]){2, 3}, &w), VKF_OK);
    assert_int_equal(vkf_file_tensors_get_shaped(ts, "w", 2, (const size_t[]){3, 2}, &w), VKF_ERROR_FORMAT);
    assert_non_null(strstr(env.message, "tensor \"w\": expected shape [3,2], found [2,3]"));
    vkf_env_clear(&env);
    assert_int_equal(vkf_file_tensors_get_shaped(ts, "w", 1, (const size_t[]){2}, &w), VKF_ERROR_FORMAT);
    vkf_env_clear(&env);
    vkf_file_tensors_close(&ts);
    assert_null(ts);
  }
}

#define ENTRY(dtype, shape, begin, end) \
  "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static const struct bad {
  const char *name;
  const char *header;
  int length; /* of the header, as the file gives it; -1: the true one */
  size_t data_bytes;
  vkf_status status;
  const char *part; /* of the message */
} bad_files[] = {
    {"length over the file", "{}", 1000, 0, VKF_ERROR_FORMAT, "found a header length of 1000"},
    {"length over the cap", "{}", 100000001, 0, VKF_ERROR_FORMAT, "found a header length of 100000001"},
    {"length zero", "{}", 0, 0, VKF_ERROR_FORMAT, "expected a header in JSON"},
    {"cut header", "{\"a\":" ENTRY("F32", "[1]", 0, 4) "}", 20, 4, VKF_ERROR_FORMAT, "expected a header in JSON"},
    {"not JSON", "hello", -1, 0, VKF_ERROR_FORMAT, "expected a header in JSON"},
    {"an array", "[1]", -1, 0, VKF_ERROR_FORMAT, "expected a JSON object as header"},
    {"twice", "{\"a\":" ENTRY("U8", "[1]", 0, 1) ",\"a\":" ENTRY("U8", "[1]", 1, 2) "}", -1, 2, VKF_ERROR_FORMAT,
     "duplicate"},
    {"no object", "{\"a\":3}", -1, 0, VKF_ERROR_FORMAT, "\"a\" of the header: expected an object"},
    {"metadata", "{\"__metadata__\":3}", -1, 0, VKF_ERROR_FORMAT, "\"__metadata__\" of the header: expected an object"},
    {"dtype", "{\"a\":" ENTRY("Q7", "[1]", 0, 1) "}", -1, 1, VKF_ERROR_UNSUPPORTED, "found \"Q7\""},
    {"dtype case", "{\"a\":" ENTRY("f32", "[1]", 0, 4) "}", -1, 4, VKF_ERROR_UNSUPPORTED, "found \"f32\""},
    {"no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", -1, 1, VKF_ERROR_FORMAT, "as dtype, found nothing"},
    {"dtype 3", "{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,1]}}", -1, 1, VKF_ERROR_FORMAT,
     "expected a string as dtype"},
    {"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", -1, 1, VKF_ERROR_FORMAT,
     "as shape, found nothing"},
    {"shape text", "{\"a\":" ENTRY("U8", "[\"1\"]", 0, 1) "}", -1, 1, VKF_ERROR_FORMAT, "shape[0] is not"},
    {"shape negative", "{\"a\":" ENTRY("U8", "[1,-1]", 0, 1) "}", -1, 1, VKF_ERROR_FORMAT, "shape[1] is not"},
    {"shape overflow", "{\"a\":" ENTRY("U8", "[4294967296,4294967296,2]", 0, 0) "}", -1, 0, VKF_ERROR_FORMAT,
     "overflows"},
    {"bytes overflow", "{\"a\":" ENTRY("F32", "[4611686018427387904]", 0, 0) "}", -1, 0, VKF_ERROR_FORMAT, "overflows"},
    {"rank 9", "{\"a\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", -1, 1, VKF_ERROR_UNSUPPORTED,
     "expected at most 8 dimensions, found 9"},
    {"no offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", -1, 1, VKF_ERROR_FORMAT, "expected data_offsets"},
    {"one offset", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", -1, 1, VKF_ERROR_FORMAT,
     "expected data_offsets"},
    {"negative offset", "{\"a\":" ENTRY("U8", "[1]", -1, 0) "}", -1, 1, VKF_ERROR_FORMAT, "expected data_offsets"},
    {"real offset", "{\"a\":" ENTRY("U8", "[1]", 0, 1.0) "}", -1, 1, VKF_ERROR_FORMAT, "expected data_offsets"},
    {"backwards", "{\"a\":" ENTRY("U8", "[1]", 1, 0) "}", -1, 1, VKF_ERROR_FORMAT, "found [1,0]"},
    {"truncated data", "{\"a\":" ENTRY("F32", "[2]", 0, 8) "}", -1, 7, VKF_ERROR_FORMAT,
     "7 bytes of data, found [0,8]"},
    {"far offsets", "{\"a\":" ENTRY("U8", "[1]", 9223372036854775806, 9223372036854775807) "}", -1, 7, VKF_ERROR_FORMAT,
     "inside the file's 7 bytes"},
    {"product", "{\"a\":" ENTRY("F32", "[2,3]", 0, 20) "}", -1, 24, VKF_ERROR_FORMAT,
     "tensor \"a\": expected 24 bytes for F32 [2,3], found data_offsets [0,20], 20 bytes"},
    {"overlap", "{\"a\":" ENTRY("U8", "[4]", 0, 4) ",\"b\":" ENTRY("U8", "[4]", 3, 7) "}", -1, 7, VKF_ERROR_FORMAT,
     "tensors \"a\" and \"b\" overlap"},
    {"same place", "{\"b\":" ENTRY("U8", "[4]", 0, 4) ",\"a\":" ENTRY("U8", "[4]", 0, 4) "}", -1, 4, VKF_ERROR_FORMAT,
     "overlap"},
    {"overlap hidden by an empty tensor",
     "{\"a\":" ENTRY("U8", "[6]", 0, 6) ",\"e\":" ENTRY("U8", "[0]", 2, 2) ",\"b\":" ENTRY("U8", "[2]", 4, 6) "}", -1,
     6, VKF_ERROR_FORMAT, "tensors \"a\" and \"b\" overlap"},
    {"a gap", "{\"a\":" ENTRY("U8", "[2]", 0, 2) ",\"b\":" ENTRY("U8", "[2]", 3, 5) "}", -1, 5, VKF_ERROR_FORMAT,
     "tensor \"b\": expected its data to begin at byte 2, where the one before ends, found 3"},
    {"a gap before the first", "{\"a\":" ENTRY("U8", "[2]", 1, 3) "}", -1, 3, VKF_ERROR_FORMAT,
     "expected its data to begin at byte 0, where the one before ends, found 1"},
    {"bytes behind the last", "{\"a\":" ENTRY("U8", "[2]", 0, 2) "}", -1, 3, VKF_ERROR_FORMAT,
     "expected 2 bytes of data, those of its tensors, found 3"},
    {"data of nothing", "{}", -1, 1, VKF_ERROR_FORMAT, "expected 0 bytes of data"},
};

static void refuses_lies(void **state) {
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(bad_files); i++) {
    const struct bad *b = &bad_files[i];
    vkf_file_tensors *ts = NULL;
    put_raw("bad.safetensors", b->length < 0 ? strlen(b->header) : (uint64_t)b->length, b->header, b->data_bytes);
    vkf_env_clear(&env);
    vkf_status st = vkf_file_tensors_open(&env, in_folder("bad.safetensors"), &ts);
    if (st != b->status || strstr(env.message, b->part) == NULL || strstr(env.message, "bad.safetensors") == NULL)
      fail_msg("%s: status %d, \"%s\"", b->name, (int)st, env.message);
    assert_null(ts);
    assert_int_equal(env.live_bytes, 0);
  }
}

static void refuses_what_is_no_safetensors_file(void **state) {
  (void)state;
  vkf_file_tensors *ts = NULL;
  put_raw("huge.safetensors", UINT64_MAX, "{}", 0);
  assert_int_equal(vkf_file_tensors_open(&env, in_folder("huge.safetensors"), &ts), VKF_ERROR_FORMAT);
  assert_non_null(strstr(env.message, "18446744073709551615"));
  vkf_env_clear(&env);
  put_file("short.safetensors", "1234567", 7);
  assert_int_equal(vkf_file_tensors_open(&env, in_folder("short.safetensors"), &ts), VKF_ERROR_FORMAT);
  assert_non_null(strstr(env.message, "found 7"));
  vkf_env_clear(&env);
  put_file("empty.safetensors", "", 0);
  assert_int_equal(vkf_file_tensors_open(&env, in_folder("empty.safetensors"), &ts), VKF_ERROR_FORMAT);
  vkf_env_clear(&env);
  assert_int_equal(vkf_file_tensors_open(&env, in_folder("missing.safetensors"), &ts), VKF_ERROR_FILE);
  assert_non_null(strstr(env.message, "missing.safetensors"));
  vkf_env_clear(&env);
  assert_int_equal(vkf_file_tensors_open(&env, folder, &ts), VKF_ERROR_FILE);
  assert_non_null(strstr(env.message, "found neither"));
  vkf_env_clear(&env);
  put_file("pytorch_model.bin", "PK", 2);
  assert_int_equal(vkf_file_tensors_open(&env, folder, &ts), VKF_ERROR_FILE);
  assert_non_null(strstr(env.message, "found pytorch_model.bin, which is not read"));
  assert_non_null(strstr(env.message, "scripts/convert"));
  vkf_env_clear(&env);
  remove(in_folder("pytorch_model.bin"));
  assert_null(ts);
}

/* A header length beyond the end of the file is refused, even by one byte, and nothing after the end is read. */
static void refuses_a_header_that_passes_the_end(void **state) {
  (void)state;
  for (uint64_t more = 1; more <= 9; more++) {
    vkf_file_tensors *ts = NULL;
    put_raw("long.safetensors", 2 + more, "{}", 0);
    vkf_env_clear(&env);
    assert_int_equal(vkf_file_tensors_open(&env, in_folder("long.safetensors"), &ts), VKF_ERROR_FORMAT);
    assert_non_null(strstr(env.message, "expected a header of at most 2 bytes, found a header length of "));
  }
}

/* A good file is refused wherever it is cut. */
static void refuses_every_truncation(void **state) {
  (void)state;
  const char *header = "{\"a\":" ENTRY("F32", "[2]", 0, 8) ",\"b\":" ENTRY("U8", "[3]", 8, 11) "}";
  put_tensors("whole.safetensors", header, 11);
  vkf_file_map map;
  assert_int_equal(vkf_file_map_read(&env, in_folder("whole.safetensors"), &map), VKF_OK);
  assert_int_equal(map.bytes, 8 + strlen(header) + 11);
  for (size_t n = 0; n <= map.bytes; n++) {
    vkf_file_tensors *ts = NULL;
    put_file("cut.safetensors", map.data, n);
    vkf_env_clear(&env);
    vkf_status st = vkf_file_tensors_open(&env, in_folder("cut.safetensors"), &ts);
    assert_int_equal(st, n < map.bytes ? VKF_ERROR_FORMAT : VKF_OK);
    vkf_file_tensors_close(&ts);
  }
  vkf_file_map_close(&map);
}

/* A good file with random bytes replaced is refused, or the data of all its tensors can be read. */
static void survives_random_damage(void **state) {
  (void)state;
  enum { ROUNDS = 1000 };
  put_tensors("whole.safetensors",
              "{\"a\":" ENTRY("F32", "[2]", 0, 8) ",\"bc\":" ENTRY("U8", "[3,1]", 8, 11) ",\"d\":" ENTRY("I16", "[]",
                                                                                                         11, 13) "}",
              13);
  vkf_file_map map;
  assert_int_equal(vkf_file_map_read(&env, in_folder("whole.safetensors"), &map), VKF_OK);
  uint8_t *damaged = vkf_env_alloc(&env, map.bytes, 1);
  static const char likely[] = "0123456789-[]{},:\"\\eE. \xff";
  size_t n_read = 0;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    memcpy(damaged, map.data, map.bytes);
    for (uint64_t i = 0; i < 1 + round % 3; i++) {
      uint64_t r = vkf_rng_u64(7, round, i);
      damaged[r % map.bytes] = r >> 63 ? (uint8_t)(r >> 40) : (uint8_t)likely[(r >> 40) % sizeof(likely)];
    }
    put_file("damaged.safetensors", damaged, map.bytes);
    vkf_file_tensors *ts = NULL;
    vkf_env_clear(&env);
    vkf_status st = vkf_file_tensors_open(&env, in_folder("damaged.safetensors"), &ts);
    assert_int_equal(st == VKF_OK, env.message[0] == '\0');
    if (st != VKF_OK) continue;
    n_read++;
    volatile unsigned sum = 0;
    for (size_t i = 0; i < vkf_file_tensors_count(ts); i++) {
      const vkf_file_tensor *t = vkf_file_tensors_at(ts, i);
      for (size_t j = 0; j < t->bytes; j++) sum += ((const uint8_t *)t->data)[j];
    }
    (void)sum; /* the reads must not fault */
    vkf_file_tensors_close(&ts);
  }
  assert_true(n_read > 0 && n_read < ROUNDS);
  vkf_env_free(&env, damaged);
  vkf_file_map_close(&map);
}

/* ---- shards ------------------------------------------------------------------------------------------------------ */

#define SHARD_A "m-1.safetensors"
#define SHARD_B "m-2.safetensors"

static vkf_status open_shards(const char *index, vkf_file_tensors **ts) {
  put_tensors(SHARD_A, "{\"a\":" ENTRY("U8", "[2]", 0, 2) ",\"b\":" ENTRY("U8", "[1]", 2, 3) "}", 3);
  put_file("model.safetensors.index.json", index, strlen(index));
  vkf_env_clear(&env);
  return vkf_file_tensors_open(&env, folder, ts);
}

static void reads_shards(void **state) {
  (void)state;
  vkf_file_tensors *ts = NULL;
  put_tensors(SHARD_B, "{\"c\":" ENTRY("U8", "[2]", 0, 2) "}", 2);
  assert_int_equal(open_shards("{\"metadata\":{\"total_size\":5},\"weight_map\":{\"a\":\"" SHARD_A "\",\"c\":\"" SHARD_B
                               "\",\"b\":\"" SHARD_A "\"}}",
                               &ts),
                   VKF_OK);
  assert_int_equal(vkf_file_tensors_count(ts), 3);
  assert_int_equal(((const uint8_t *)vkf_file_tensors_find(ts, "b")->data)[0], 2);
  assert_int_equal(((const uint8_t *)vkf_file_tensors_find(ts, "c")->data)[0], 0);
  assert_non_null(strstr(vkf_file_tensors_find(ts, "c")->file, SHARD_B));
  vkf_file_tensors_close(&ts);
  assert_int_equal(vkf_file_tensors_open(&env, in_folder("model.safetensors.index.json"), &ts), VKF_OK);
  vkf_file_tensors_close(&ts);
}

/* As transformers 5.12 does: it opens every file that the index names and takes what it finds in them. */
static void shards_say_what_they_hold(void **state) {
  (void)state;
  static const struct {
    const char *b, *index;
    size_t n;
  } cases[] = {
      {"{\"c\":" ENTRY("U8", "[2]", 0, 2) "}",
       "{\"weight_map\":{\"a\":\"" SHARD_A "\",\"b\":\"" SHARD_B "\",\"c\":\"" SHARD_B "\"}}", 3}, /* b is in A */
      {"{\"c\":" ENTRY("U8", "[2]", 0, 2) "}", "{\"weight_map\":{\"a\":\"" SHARD_A "\",\"c\":\"" SHARD_B "\"}}",
       3}, /* not a word of b */
      {"{\"a\":" ENTRY("U8", "[2]", 0, 2) "}", "{\"weight_map\":{\"a\":\"" SHARD_A "\",\"b\":\"" SHARD_B "\"}}",
       2}, /* a is in both, with the same bytes */
  };
  for (size_t i = 0; i < VKF_COUNT(cases); i++) {
    vkf_file_tensors *ts = NULL;
    put_tensors(SHARD_B, cases[i].b, 2);
    assert_int_equal(open_shards(cases[i].index, &ts), VKF_OK);
    assert_int_equal(vkf_file_tensors_count(ts), cases[i].n);
    assert_int_equal(((const uint8_t *)vkf_file_tensors_find(ts, "b")->data)[0], 2);
    assert_non_null(strstr(vkf_file_tensors_find(ts, "b")->file, SHARD_A));
    vkf_file_tensors_close(&ts);
  }
}

static void shards_lie_in_subfolders(void **state) {
  (void)state;
  static const char *const names[] = {"sub/..b/x.safetensors", "./sub/..b/x.safetensors", "sub//..b/x.safetensors"};
  assert_int_equal(mkdir(in_folder("sub"), 0700), 0);
  assert_int_equal(mkdir(in_folder("sub/..b"), 0700), 0);
  put_tensors("sub/..b/x.safetensors", "{\"c\":" ENTRY("U8", "[2]", 0, 2) "}", 2);
  for (size_t i = 0; i < VKF_COUNT(names); i++) {
    char index[256];
    vkf_file_tensors *ts = NULL;
    snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"" SHARD_A "\",\"c\":\"%s\"}}", names[i]);
    assert_int_equal(open_shards(index, &ts), VKF_OK);
    assert_int_equal(((const uint8_t *)vkf_file_tensors_find(ts, "c")->data)[1], 1);
    vkf_file_tensors_close(&ts);
  }
  remove(in_folder("sub/..b/x.safetensors"));
  rmdir(in_folder("sub/..b"));
}

static void refuses_shards_that_differ(void **state) {
  (void)state;
  static const char *const b[] = {"{\"a\":" ENTRY("I8", "[2]", 0, 2) "}", "{\"a\":" ENTRY("U8", "[1,2]", 0, 2) "}",
                                  "{\"a\":" ENTRY("U8", "[1]", 0, 1) ",\"d\":" ENTRY("U8", "[1]", 1, 2) "}",
                                  "{\"d\":" ENTRY("U8", "[1]", 0, 1) ",\"a\":" ENTRY("U8", "[2]", 1, 3) "}"};
  for (size_t i = 0; i < VKF_COUNT(b); i++) {
    vkf_file_tensors *ts = NULL;
    put_tensors(SHARD_B, b[i], i == 3 ? 3 : 2);
    assert_int_equal(open_shards("{\"weight_map\":{\"a\":\"" SHARD_A "\",\"d\":\"" SHARD_B "\"}}", &ts),
                     VKF_ERROR_FORMAT);
    assert_non_null(strstr(env.message, "tensor \"a\": expected it in one file, or the same in each"));
    assert_non_null(strstr(env.message, SHARD_A));
    assert_non_null(strstr(env.message, SHARD_B));
    assert_null(ts);
  }
}

static void refuses_an_index_that_lies(void **state) {
  (void)state;
  static const struct {
    const char *index, *part;
    vkf_status status;
  } cases[] = {
      {"{\"weight_map\":{\"a\":\"" SHARD_A "\",\"b\":\"" SHARD_A "\",\"x\":\"" SHARD_A "\"}}",
       "expected tensor \"x\" in \"" SHARD_A "\", found it in none of 1 files", VKF_ERROR_FORMAT},
      {"{\"weight_map\":{\"a\":\"" SHARD_A "\",\"b\":\"m-3.safetensors\"}}", "m-3.safetensors", VKF_ERROR_FILE},
      {"{\"weight_map\":{\"a\":\"../" SHARD_A "\"}}", "a file in the same folder", VKF_ERROR_FORMAT},
      {"{\"weight_map\":{\"a\":\"\"}}", "a file in the same folder", VKF_ERROR_FORMAT},
      {"{\"weight_map\":{\"a\":\"..\"}}", "a file in the same folder", VKF_ERROR_FORMAT},
      {"{\"weight_map\":{\"a\":\"sub/../../" SHARD_A "\"}}", "a file in the same folder", VKF_ERROR_FORMAT},
      {"{\"weight_map\":{\"a\":\"sub//..\"}}", "a file in the same folder", VKF_ERROR_FORMAT},
      {"{\"weight_map\":{\"a\":\"..\\\\" SHARD_A "\"}}", "a file in the same folder", VKF_ERROR_FORMAT},
      {"{\"weight_map\":{\"a\":\"/" SHARD_A "\"}}", "a file in the same folder", VKF_ERROR_FORMAT},
      {"{\"weight_map\":{\"a\":7}}", "expected a string, found an integer", VKF_ERROR_FORMAT},
      {"{\"weight_map\":[]}", "expected an object, found an array", VKF_ERROR_FORMAT},
      {"{}", "key \"weight_map\": expected an object, found nothing", VKF_ERROR_FORMAT},
      {"[]", "expected an object", VKF_ERROR_FORMAT},
      {"{", "expected JSON", VKF_ERROR_FORMAT},
  };
  put_tensors(SHARD_B, "{\"a\":" ENTRY("U8", "[2]", 0, 2) "}", 2);
  for (size_t i = 0; i < VKF_COUNT(cases); i++) {
    vkf_file_tensors *ts = NULL;
    vkf_status st = open_shards(cases[i].index, &ts);
    if (st != cases[i].status || strstr(env.message, cases[i].part) == NULL)
      fail_msg("index %zu: status %d, \"%s\"", i, (int)st, env.message);
    assert_null(ts);
    assert_int_equal(env.live_bytes, 0);
  }
}

/* ---- conversion and writing -------------------------------------------------------------------------------------- */

static void converts_to_f32(void **state) {
  (void)state;
  const float f32[] = {1.5f, -0.25f, 3};
  const uint16_t f16[] = {0x3e00, 0xb400, 0x4200}, bf16[] = {0x3fc0, 0xbe80, 0x4040};
  const double f64[] = {1.5, -0.25, 3};
  const int32_t i32[] = {1, 2, 3};
  const uint8_t odd[] = {9};
  /* The single byte at the front makes everything after it unaligned. */
  vkf_array arrays[] = {
      {"odd", VKF_U8, 1, {1}, (void *)odd},  {"f32", VKF_F32, 1, {3}, (void *)f32},
      {"f16", VKF_F16, 1, {3}, (void *)f16}, {"bf16", VKF_BF16, 2, {3, 1}, (void *)bf16},
      {"f64", VKF_F64, 1, {3}, (void *)f64}, {"i32", VKF_I32, 1, {3}, (void *)i32},
  };
  assert_int_equal(vkf_file_tensors_write(&env, in_folder("c.safetensors"), arrays, VKF_COUNT(arrays)), VKF_OK);
  vkf_file_tensors *ts = NULL;
  assert_int_equal(vkf_file_tensors_open(&env, in_folder("c.safetensors"), &ts), VKF_OK);
  for (size_t i = 1; i < 5; i++) {
    float out[3] = {0, 0, 0};
    const vkf_file_tensor *t = vkf_file_tensors_find(ts, arrays[i].name);
    assert_true(vkf_file_numbers_to_f32(t->dtype, t->data, t->n_elements, out));
    assert_memory_equal(out, f32, sizeof(f32));
  }
  float out[3];
  assert_false(vkf_file_numbers_to_f32(VKF_I32, vkf_file_tensors_find(ts, "i32")->data, 3, out));
  vkf_file_tensors_close(&ts);
}

static void writes_the_same_bytes_in_the_given_order(void **state) {
  (void)state;
  const uint8_t bytes[] = {1, 2, 3};
  const int64_t ids[] = {-5};
  vkf_array arrays[] = {{"z\"\xc3\xa9", VKF_BOOL, 1, {3}, (void *)bytes},
                        {"a", VKF_I64, 2, {1, 1}, (void *)ids},
                        {"none", VKF_F32, 2, {0, 4}, NULL}};
  static const char expected[] =
      "{\"z\\\"\xc3\xa9\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]},\"a\":{\"dtype\":\"I64\",\"shape\":"
      "[1,1],"
      "\"data_offsets\":[3,11]},\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[11,11]}}";
  size_t header = (sizeof(expected) - 1 + 7) / 8 * 8;
  for (int round = 0; round < 2; round++) {
    vkf_file_map map;
    assert_int_equal(vkf_file_tensors_write(&env, in_folder("w.safetensors"), arrays, 3), VKF_OK);
    assert_int_equal(vkf_file_map_open(&env, in_folder("w.safetensors"), &map), VKF_OK);
    assert_int_equal(map.bytes, 8 + header + 11);
    assert_int_equal(map.data[0] | map.data[1] << 8, header);
    assert_memory_equal(map.data + 8, expected, sizeof(expected) - 1);
    assert_memory_equal(map.data + 8 + header, bytes, 3);
    assert_memory_equal(map.data + 8 + header + 3, ids, 8);
    vkf_file_map_close(&map);
  }
  assert_int_equal(count_files(false), 1);
}

static void a_failed_write_leaves_the_old_file(void **state) {
  (void)state;
  const uint8_t bytes[] = {1, 2, 3};
  vkf_array good = {"a", VKF_U8, 1, {3}, (void *)bytes};
  static char name_b[] = "b";
  const vkf_array bad[] = {
      {NULL, VKF_U8, 1, {3}, (void *)bytes},
      {"", VKF_U8, 1, {3}, (void *)bytes},
      {"\xff", VKF_U8, 1, {3}, (void *)bytes},
      {"__metadata__", VKF_U8, 1, {3}, (void *)bytes},
      {"a", VKF_U8, 1, {3}, (void *)bytes}, /* the name of the first */
      {name_b, VKF_DTYPE_COUNT, 1, {3}, (void *)bytes},
      {name_b, VKF_U8, VKF_MAX_RANK + 1, {1, 1, 1, 1, 1, 1, 1, 1}, (void *)bytes},
      {name_b, VKF_U8, 2, {SIZE_MAX, 2}, (void *)bytes},
      {name_b, VKF_U8, 1, {3}, NULL},
  };
  char file[512];
  strcpy(file, in_folder("keep.safetensors"));
  assert_int_equal(vkf_file_tensors_write(&env, file, &good, 1), VKF_OK);
  for (size_t i = 0; i < VKF_COUNT(bad); i++) {
    const vkf_array both[] = {good, bad[i]};
    vkf_env_clear(&env);
    assert_int_equal(vkf_file_tensors_write(&env, file, both, 2), VKF_ERROR_ARGUMENT);
    assert_string_not_equal(env.message, "");
  }
  for (uint64_t n = 1;; n++) {
    uint64_t before = env.n_allocations;
    vkf_env_clear(&env);
    env.fail_at = before + n;
    vkf_status st = vkf_file_tensors_write(&env, file, &good, 1);
    assert_true(st == VKF_OK || st == VKF_ERROR_MEMORY);
    assert_int_equal(count_files(false), 1);
    if (env.n_allocations - before < n) break;
  }
  env.fail_at = 0;
  vkf_env_clear(&env);
  assert_int_equal(vkf_file_tensors_write(&env, in_folder("no/such/folder.safetensors"), &good, 1), VKF_ERROR_FILE);
  assert_non_null(strstr(env.message, "no/such/folder.safetensors: cannot be written"));
  vkf_env_clear(&env);
  assert_int_equal(vkf_file_tensors_write(&env, folder, &good, 1), VKF_ERROR_FILE);
  vkf_env_clear(&env);
  vkf_file_tensors *ts = NULL;
  assert_int_equal(vkf_file_tensors_open(&env, file, &ts), VKF_OK);
  assert_int_equal(vkf_file_tensors_count(ts), 1);
  vkf_file_tensors_close(&ts);
  assert_int_equal(count_files(false), 1);
}

/* ---- maps and memory --------------------------------------------------------------------------------------------- */

static void reading_equals_mapping(void **state) {
  (void)state;
  enum { N = 200001 };
  uint8_t *bytes = vkf_env_alloc(&env, N, 1);
  for (size_t i = 0; i < N; i++) bytes[i] = (uint8_t)vkf_rng_u64(1, 0, i);
  put_file("data", bytes, N);
  vkf_file_map mapped, read;
  assert_int_equal(vkf_file_map_open(&env, in_folder("data"), &mapped), VKF_OK);
  assert_int_equal(vkf_file_map_read(&env, in_folder("data"), &read), VKF_OK);
  assert_int_equal(mapped.owner, VKF_FILE_OF_SYSTEM);
  assert_int_equal(read.owner, VKF_FILE_OF_ENV);
  assert_int_equal(mapped.bytes, N);
  assert_int_equal(read.bytes, N);
  assert_memory_equal(mapped.data, bytes, N);
  assert_memory_equal(read.data, bytes, N);
  vkf_file_map_close(&mapped);
  vkf_file_map_close(&read);
  vkf_env_free(&env, bytes);
  put_file("empty", "", 0);
  assert_int_equal(vkf_file_map_open(&env, in_folder("empty"), &mapped), VKF_OK);
  assert_non_null(mapped.data);
  assert_int_equal(mapped.bytes, 0);
  vkf_file_map_close(&mapped);
  vkf_file_map_close(&mapped);
  assert_int_equal(vkf_file_map_open(&env, folder, &mapped), VKF_ERROR_FILE);
  assert_non_null(strstr(env.message, "found a folder"));
  vkf_file_map_close(&mapped);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  vkf_file_tensors *ts = NULL;
  put_tensors(SHARD_B, "{\"c\":" ENTRY("U8", "[2]", 0, 2) "}", 2);
  const char *index = "{\"weight_map\":{\"a\":\"" SHARD_A "\",\"c\":\"" SHARD_B "\",\"b\":\"" SHARD_A "\"}}";
  uint64_t n_failures = 0;
  for (uint64_t n = 1;; n++) {
    uint64_t before = env.n_allocations;
    env.fail_at = before + n;
    vkf_status st = open_shards(index, &ts);
    if (st == VKF_OK) {
      assert_int_equal(vkf_file_tensors_count(ts), 3);
      vkf_file_tensors_close(&ts);
    } else {
      assert_int_equal(st, VKF_ERROR_MEMORY);
      assert_int_equal(env.first, VKF_ERROR_MEMORY);
      n_failures++;
    }
    assert_null(ts);
    assert_int_equal(env.live_bytes, 0);
    if (env.n_allocations - before < n) break;
  }
  assert_true(n_failures >= 5);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(reads_what_is_there),
      TEST(refuses_lies),
      TEST(refuses_what_is_no_safetensors_file),
      TEST(refuses_every_truncation),
      TEST(refuses_a_header_that_passes_the_end),
      TEST(survives_random_damage),
      TEST(reads_shards),
      TEST(shards_say_what_they_hold),
      TEST(shards_lie_in_subfolders),
      TEST(refuses_shards_that_differ),
      TEST(refuses_an_index_that_lies),
      TEST(converts_to_f32),
      TEST(writes_the_same_bytes_in_the_given_order),
      TEST(a_failed_write_leaves_the_old_file),
      TEST(reading_equals_mapping),
      TEST(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
