/* Tuned times in files and in the cache folder: keys, which times count, what is not trusted, which of two is kept. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tune/cache.h"
#include "tune/tuned.h"

static vkf_env env;
static char last_line[2048];

static void on_log(void *user, vkf_log_level level, const char *line) {
  (void)user;
  (void)level;
  snprintf(last_line, sizeof last_line, "%s", line);
}

static int set_up(void **state) {
  (void)state;
  vkf_env_init(&env, &(vkf_context_params){VKF_CONTEXT_PARAMS_INIT, .log = on_log, .log_level = VKF_LOG_DEBUG});
  last_line[0] = 0;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  return env.live_bytes != 0;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static vkf_tuned_key a_cpu(void) {
  return (vkf_tuned_key){.device = "llvmpipe (LLVM 22, 256 bits)",
                         .cpu = "Some CPU",
                         .uuid = "6d6573613236",
                         .vendor_id = 65541,
                         .driver_id = 13,
                         .driver_version = 7,
                         .subgroup_size = 8,
                         .threads = 2,
                         .vector_bits = 256,
                         .table = 42};
}

static vkf_tuned_key a_gpu(void) {
  return (vkf_tuned_key){.device = "GPU 1",
                         .uuid = "01",
                         .vendor_id = 0x10de,
                         .driver_id = 4,
                         .driver_version = 1,
                         .subgroup_size = 32,
                         .table = 42};
}

#define EXPECT(match_, change)                           \
  do {                                                   \
    vkf_tuned_key k = base;                              \
    change;                                              \
    assert_int_equal(vkf_tune_match(&k, &base), match_); \
    assert_int_equal(vkf_tune_match(&base, &k), match_); \
  } while (0)

static void keys_match_by_levels(void **state) {
  (void)state;
  vkf_tuned_key base = a_cpu();
  EXPECT(VKF_MATCH_DEVICE, (void)0);
  EXPECT(VKF_MATCH_ARCHITECTURE, k.driver_version = 8);
  EXPECT(VKF_MATCH_ARCHITECTURE, k.threads = 16);
  EXPECT(VKF_MATCH_ARCHITECTURE, k.uuid[0] = 'x');
  EXPECT(VKF_MATCH_ARCHITECTURE, k.device[0] = 'L'); /* its name holds LLVM's version */
  EXPECT(VKF_MATCH_VENDOR, k.cpu[0] = 's');          /* the UUID of a software driver is the same everywhere */
  EXPECT(VKF_MATCH_VENDOR, k.vector_bits = 512);
  EXPECT(VKF_MATCH_VENDOR, k.subgroup_size = 16);
  EXPECT(VKF_MATCH_NONE, k.driver_id = 10);
  EXPECT(VKF_MATCH_NONE, k.vendor_id = 1);
  EXPECT(VKF_MATCH_NONE, k.table = 43);
  base = a_gpu();
  EXPECT(VKF_MATCH_DEVICE, (void)0);
  EXPECT(VKF_MATCH_ARCHITECTURE, k.uuid[0] = '2'); /* a second card of this kind */
  EXPECT(VKF_MATCH_ARCHITECTURE, k.driver_version = 2);
  EXPECT(VKF_MATCH_VENDOR, k.device[4] = '2');
  EXPECT(VKF_MATCH_NONE, k.driver_id = 5);
}

static void a_key_is_filled_from_the_device(void **state) {
  (void)state;
  vkf_caps caps = {.is_cpu = true, .device_name = "cpu", .subgroup_size = 8, .vector_bits = 256, .uuid = {0xab, 1}};
  vkf_tuned_key key;
  vkf_tune_key(&caps, &key);
  assert_string_equal(key.uuid, "ab010000000000000000000000000000");
  assert_true(key.cpu[0] && key.threads >= 1 && key.vector_bits == 256 && key.table == vkf_kern_checksum());
  caps.is_cpu = false;
  vkf_tune_key(&caps, &key);
  assert_true(!key.cpu[0] && !key.threads && !key.vector_bits);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static vkf_tuned_entry entry(const char *problem, const char *kernel, uint64_t ns, bool probed) {
  vkf_tuned_entry e = {.ns = ns, .probed = probed};
  snprintf(e.problem, sizeof e.problem, "%s", problem);
  snprintf(e.kernel, sizeof e.kernel, "%s", kernel);
  return e;
}

static void add(vkf_tuned_file *file, const vkf_tuned_key *key, const char *problem, const char *kernel, uint64_t ns,
                bool probed) {
  const vkf_tuned_entry e = entry(problem, kernel, ns, probed);
  assert_int_equal(vkf_tune_file_add(file, key, &e), VKF_OK);
}

static void what_is_printed_is_read(void **state) {
  (void)state;
  vkf_tuned_file file, again;
  vkf_text text, second;
  vkf_tuned_key cpu = a_cpu(), gpu = a_gpu();
  snprintf(cpu.cpu, sizeof cpu.cpu, "A \"quoted\" CPU\\");
  vkf_text_init(&text, &env);
  vkf_text_init(&second, &env);
  vkf_tune_file_init(&file, &env);
  vkf_tune_file_init(&again, &env);
  add(&file, &cpu, "matmul:1,2,3", "matmul-naive-m1n1", 123, true);
  add(&file, &cpu, "norm:1,2", "norm-row-64", 5, false);
  add(&file, &gpu, "norm:1,2", "norm-row-64", 6, false);
  add(&file, &cpu, "matmul:1,2,3", "matmul-naive-m1n1", 100, false); /* tuned over probed */
  add(&file, &cpu, "matmul:1,2,3", "matmul-naive-m1n1", 99, true);   /* not the other way */
  assert_int_equal(file.n_sections, 2);
  assert_int_equal(file.sections[0].n_entries, 2);
  assert_int_equal(file.sections[0].entries[0].ns, 100);
  vkf_tuned_entry slower = entry("norm:1,2", "norm-row-64", 9, false);
  slower.reproducible = true;
  assert_int_equal(vkf_tune_file_add(&file, &cpu, &slower), VKF_OK);
  assert_int_equal(file.sections[0].n_entries, 3);
  assert_int_equal(vkf_tune_file_print(&file, &text), VKF_OK);
  assert_int_equal(vkf_tune_file_parse(&again, "it", text.data, text.size), VKF_OK);
  assert_int_equal(again.n_sections, 2);
  assert_int_equal(vkf_tune_match(&again.sections[0].key, &cpu), VKF_MATCH_DEVICE);
  assert_int_equal(vkf_tune_match(&again.sections[1].key, &gpu), VKF_MATCH_DEVICE);
  assert_int_equal(vkf_tune_file_print(&again, &second), VKF_OK);
  assert_string_equal(text.data, second.data);
  assert_true(!again.sections[0].entries[1].reproducible && again.sections[0].entries[2].reproducible);
  vkf_tuned_key newer = cpu;
  newer.table++;
  vkf_tune_file_prune(&again, &newer); /* the same device, kernels of another build */
  assert_int_equal(again.n_sections, 1);
  assert_string_equal(again.sections[0].key.device, gpu.device);
  vkf_tune_file_finish(&file);
  vkf_tune_file_finish(&again);
  vkf_text_finish(&text);
  vkf_text_finish(&second);
}

/* A driver's name may be any bytes; JSON is UTF-8. */
static void bytes_that_are_no_utf8_are_left_out(void **state) {
  (void)state;
  vkf_tuned_file file;
  vkf_text text;
  vkf_tuned_key key = a_gpu();
  snprintf(key.device, sizeof key.device, "GPU \xff");
  vkf_text_init(&text, &env);
  vkf_tune_file_init(&file, &env);
  add(&file, &key, "norm:1,2", "norm-row-64", 5, false);
  assert_int_equal(vkf_tune_file_print(&file, &text), VKF_OK);
  assert_non_null(strstr(text.data, "\"device\": \"\""));
  assert_non_null(strstr(text.data, "\"kernel\": \"norm-row-64\""));
  vkf_tune_file_finish(&file);
  vkf_text_finish(&text);
}

static void findings_belong_to_one_device(void **state) {
  (void)state;
  vkf_tuned_file file, again;
  vkf_text text;
  const vkf_tuned_key cpu = a_cpu(), gpu = a_gpu();
  vkf_tuned_key driver = gpu;
  driver.driver_version++;
  const vkf_tuned_check fine = {"half", ""}, bad = {"shared:32768", "word 1: expected \"7\""},
                        good = {"shared:32768", ""};
  vkf_text_init(&text, &env);
  vkf_tune_file_init(&file, &env);
  vkf_tune_file_init(&again, &env);
  assert_int_equal(vkf_tune_file_check(&file, &gpu, &fine), VKF_OK);
  assert_int_equal(vkf_tune_file_check(&file, &gpu, &good), VKF_OK);
  assert_int_equal(vkf_tune_file_check(&file, &gpu, &bad), VKF_OK); /* the later finding counts */
  add(&file, &cpu, "norm:1,2", "norm-row-64", 5, false);
  assert_int_equal(vkf_tune_file_print(&file, &text), VKF_OK);
  assert_int_equal(vkf_tune_file_parse(&again, "it", text.data, text.size), VKF_OK);
  assert_int_equal(again.sections[0].n_checks, 2);
  assert_string_equal(vkf_tune_file_found(&again, &gpu, "half"), "");
  assert_string_equal(vkf_tune_file_found(&again, &gpu, "shared:32768"), bad.found);
  assert_null(vkf_tune_file_found(&again, &gpu, "shared:16384"));
  assert_null(vkf_tune_file_found(&again, &cpu, "half"));
  assert_null(vkf_tune_file_found(&again, &driver, "half"));
  vkf_tune_file_finish(&file);
  vkf_tune_file_finish(&again);
  vkf_text_finish(&text);
}

static void damaged_files_add_nothing(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"", "expected JSON"},
      {"{\"format\": \"vkformer tuned kernels 1\", \"devices\": [", "expected JSON"},
      {"[]", "format"},
      {"{\"format\": \"vkformer tuned kernels 0\", \"devices\": []}", "kernels 0"},
      {"{\"format\": \"vkformer tuned kernels 1\", \"devices\": 7}", "devices"},
      {"{\"format\": \"vkformer tuned kernels 1\", \"devices\": [{\"device\": 7}]}", "device"},
      {"{\"format\": \"vkformer tuned kernels 1\", \"devices\": [{\"device\": \"a\", \"uuid\": \"\", \"vendor_id\": 1, "
       "\"driver_id\": 1, \"driver_version\": 1, \"subgroup_size\": 1, \"table\": \"0\", \"cpu\": \"\", \"threads\": "
       "0, "
       "\"vector_bits\": 0, \"times\": [{\"problem\": \"norm:1,2\", \"kernel\": \"norm-row-64\", \"ns\": 5, \"by\": "
       "\"tune\"}, {\"problem\": \"norm:1,2\", \"kernel\": \"norm-row-64\", \"ns\": -5, \"by\": \"tune\"}]}]}",
       "over 0 ns"},
      {"{\"format\": \"vkformer tuned kernels 1\", \"devices\": [{\"device\": \"a\", \"uuid\": "
       "\"0123456789abcdef0123456789abcdef0\"}]}",
       "uuid: expected at most 32 bytes, found 33"},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_tuned_file file;
    vkf_tune_file_init(&file, &env);
    vkf_env_clear(&env);
    assert_int_equal(vkf_tune_file_parse(&file, "it", rows[i][0], strlen(rows[i][0])), VKF_ERROR_FORMAT);
    if (!strstr(env.message, rows[i][1])) fail_msg("\"%s\" does not say \"%s\"", env.message, rows[i][1]);
    assert_int_equal(file.n_sections, 0);
    vkf_tune_file_finish(&file);
  }
}

static void later_formats_are_told_apart(void **state) {
  (void)state;
  static const char json[] = "{\"format\": \"vkformer tuned kernels 10\", \"devices\": 7}";
  vkf_tuned_file file;
  vkf_tune_file_init(&file, &env);
  vkf_env_clear(&env);
  assert_int_equal(vkf_tune_file_parse(&file, "it", json, strlen(json)), VKF_ERROR_UNSUPPORTED);
  assert_non_null(strstr(env.message, "found \"vkformer tuned kernels 10\""));
  vkf_tune_file_finish(&file);
}

/* device > architecture > probe > vendor, for each op on its own. */
static void the_best_source_counts(void **state) {
  (void)state;
  const char *const problem = "norm:8,64", *const kernel = "norm-row-64";
  const vkf_caps caps = {.is_cpu = true, .subgroup_size = 8};
  vkf_tuned_key own = a_cpu(), architecture = a_cpu(), vendor = a_cpu(), other = a_cpu();
  architecture.threads = 64;
  vendor.vector_bits = 512;
  other.driver_id = 10;
  const struct {
    const vkf_tuned_key *key;
    bool probed;
    uint64_t ns;
    const char *from;
  } sources[] = {{&other, false, 1, NULL},
                 {&vendor, true, 2, NULL},
                 {&vendor, false, 3, "of the same vendor"},
                 {&own, true, 4, "by a short probe"},
                 {&architecture, false, 5, "of the same architecture"},
                 {&own, false, 6, "this device"}};
  vkf_tuned_file file;
  vkf_tune_file_init(&file, &env);
  add(&file, &vendor, "nosuch:1,2", "norm-row-64", 1, false); /* of a later version: left out */
  add(&file, &vendor, problem, "norm-nosuch", 1, false);
  add(&file, &vendor, "top_k:1,64,2", "norm-row-64", 1, false);
  for (size_t i = 0; i < VKF_COUNT(sources); i++) {
    vkf_arena arena;
    vkf_tuned tuned;
    vkf_arena_init(&arena, &env);
    add(&file, sources[i].key, problem, kernel, sources[i].ns, sources[i].probed);
    for (int reproducible = 0; reproducible < 2; reproducible++) { /* the mode has no times of its own */
      assert_int_equal(vkf_tune_resolve(&file, &own, &caps, reproducible, &arena, &tuned), VKF_OK);
      assert_int_equal(tuned.n_times, sources[i].from != NULL);
      if (!sources[i].from) continue;
      assert_true(tuned.times[0].ns == (double)sources[i].ns);
      assert_non_null(strstr(tuned.times[0].from, sources[i].from));
    }
    vkf_arena_finish(&arena);
  }
  for (int reproducible = 0; reproducible < 2; reproducible++) {
    vkf_arena arena;
    vkf_tuned tuned;
    vkf_tuned_entry e = entry(problem, kernel, 7, false);
    e.reproducible = true;
    vkf_arena_init(&arena, &env);
    assert_int_equal(vkf_tune_file_add(&file, &own, &e), VKF_OK); /* it replaces no other */
    assert_int_equal(vkf_tune_resolve(&file, &own, &caps, reproducible, &arena, &tuned), VKF_OK);
    assert_int_equal(tuned.n_times, 1);
    assert_true(tuned.times[0].ns == (reproducible ? 7 : 6));
    vkf_arena_finish(&arena);
  }
  vkf_tune_file_finish(&file);
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

static char folder[64], cache[80], path[128];

static void make_cache(void) {
  snprintf(folder, sizeof folder, "/tmp/vkformer-cache-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(cache, sizeof cache, "%s/a/b", folder);
  snprintf(path, sizeof path, "%s/it", cache);
}

static void remove_cache(void) {
  char command[256];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  assert_int_equal(system(command), 0);
}

static bool reads(const char *expected) {
  char *bytes = NULL;
  size_t n = 0;
  vkf_tune_cache_read(&env, cache, "it", &bytes, &n);
  const bool same = bytes && n == strlen(expected) && memcmp(bytes, expected, n) == 0;
  vkf_env_free(&env, bytes);
  return same;
}

static void the_folder_is_made_and_its_files_replaced(void **state) {
  (void)state;
  struct stat facts;
  make_cache();
  assert_false(reads("one"));
  mode_t mask = umask(0);
  assert_true(vkf_tune_cache_write(&env, cache, "it", "one", 3));
  umask(mask);
  assert_true(reads("one"));
  assert_true(vkf_tune_cache_write(&env, cache, "it", "two", 3));
  assert_true(reads("two"));
  assert_int_equal(stat(cache, &facts), 0);
  assert_int_equal(facts.st_mode & 0777, 0700);
  assert_int_equal(stat(path, &facts), 0);
  assert_int_equal(facts.st_mode & 0777, 0600);
  remove_cache();
}

/* A limit on the sizes of files stands for a full disk. */
static void why_times_are_not_kept_is_known(void **state) {
  (void)state;
  make_cache();
  vkf_tuning t = {.env = &env, .cache_folder = cache, .key = a_cpu()};
  const vkf_tuned_entry e = entry("norm:8,64", "norm-row-64", 5, false);
  struct rlimit before, none;
  vkf_tune_file_init(&t.file, &env);
  assert_true(vkf_tune_cache_has_room(&env, cache));
  assert_int_equal(vkf_tune_keep_times(&t, &e, 1), VKF_OK);
  assert_string_equal(t.unkept, "");
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  none = before;
  none.rlim_cur = 0;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
  const bool has_room = vkf_tune_cache_has_room(&env, cache);
  const vkf_status st = vkf_tune_keep_times(&t, &e, 1);
  setrlimit(RLIMIT_FSIZE, &before); /* before an assertion prints to a file */
  signal(SIGXFSZ, handler);
  assert_false(has_room);
  assert_int_equal(st, VKF_OK);
  assert_non_null(strstr(t.unkept, "tuned.json: cannot be written: File too large"));
  vkf_tune_file_finish(&t.file);
  remove_cache();
}

static void files_have_at_most_64_mib(void **state) {
  enum { MOST = 64 << 20 };
  (void)state;
  char *bytes = NULL;
  size_t n = 0;
  make_cache();
  assert_true(vkf_tune_cache_write(&env, cache, "it", "one", 3));
  assert_int_equal(truncate(path, MOST), 0);
  vkf_tune_cache_read(&env, cache, "it", &bytes, &n);
  assert_int_equal(n, MOST);
  vkf_env_free(&env, bytes);
  assert_int_equal(truncate(path, MOST + 1), 0);
  vkf_tune_cache_read(&env, cache, "it", &bytes, &n);
  assert_null(bytes);
  assert_non_null(strstr(last_line, "it is too large"));
  remove_cache();
}

static void files_of_others_are_not_read(void **state) {
  (void)state;
  char target[160];
  make_cache();
  assert_true(vkf_tune_cache_write(&env, cache, "it", "one", 3));
  assert_int_equal(chmod(path, 0620), 0);
  assert_false(reads("one"));
  assert_non_null(strstr(last_line, "other users may write it"));
  assert_int_equal(chmod(path, 0644), 0);
  assert_true(reads("one"));
  assert_int_equal(chmod(cache, 0777), 0);
  assert_false(reads("one"));
  assert_false(vkf_tune_cache_usable(&env, cache));
  assert_int_equal(chmod(cache, 0755), 0);
  snprintf(target, sizeof target, "%s/target", cache);
  assert_int_equal(rename(path, target), 0);
  assert_int_equal(symlink(target, path), 0); /* links are not followed */
  assert_false(reads("one"));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_false(reads("one"));
  if (geteuid() == 0) { /* only root can give a file away */
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rename(target, path), 0);
    assert_true(reads("one"));
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_false(reads("one"));
    assert_non_null(strstr(last_line, "another user"));
    assert_true(vkf_tune_cache_write(&env, cache, "it", "two", 3)); /* and what replaces it is this user's */
    assert_true(reads("two"));
  }
  remove_cache();
}

static void a_folder_that_cannot_be_is_no_error(void **state) {
  (void)state;
  make_cache();
  snprintf(cache, sizeof cache, "%s/file", folder);
  FILE *file = fopen(cache, "w");
  assert_non_null(file);
  fclose(file);
  assert_false(vkf_tune_cache_usable(&env, cache));
  assert_false(vkf_tune_cache_write(&env, cache, "it", "one", 3));
  assert_int_equal(vkf_tune_cache_lock(&env, cache), -1);
  snprintf(cache, sizeof cache, "%s/file/below", folder);
  assert_false(vkf_tune_cache_write(&env, cache, "it", "one", 3));
  assert_false(reads("one"));
  remove_cache();
}

static void one_at_a_time_has_the_lock(void **state) {
  (void)state;
  make_cache();
  int first = vkf_tune_cache_lock(&env, cache);
  assert_true(first >= 0);
  assert_int_equal(vkf_tune_cache_lock(&env, cache), -1); /* after two seconds */
  vkf_tune_cache_unlock(first);
  int second = vkf_tune_cache_lock(&env, cache);
  assert_true(second >= 0);
  vkf_tune_cache_unlock(second);
  remove_cache();
}

static void the_folder_is_found(void **state) {
  (void)state;
  static const struct {
    const char *asked, *own, *xdg, *home, *expected;
  } rows[] = {
      {"/a", "/b", "/c", "/d", "/a"},          {"", "/b", "/c", "/d", NULL},
      {NULL, "/b", "/c", "/d", "/b"},          {NULL, "", "/c", "/d", NULL},
      {NULL, NULL, "/c", "/d", "/c/vkformer"}, {NULL, NULL, "rel", "/d", "/d/.cache/vkformer"},
      {NULL, NULL, NULL, NULL, NULL},
  };
  static const char *const names[] = {"VKF_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    const char *values[] = {rows[i].own, rows[i].xdg, rows[i].home};
    char *found = NULL;
    for (size_t v = 0; v < VKF_COUNT(values); v++) values[v] ? setenv(names[v], values[v], 1) : unsetenv(names[v]);
    assert_int_equal(vkf_tune_cache_folder(&env, rows[i].asked, &found), VKF_OK);
    if (rows[i].expected)
      assert_string_equal(found, rows[i].expected);
    else
      assert_null(found);
    vkf_env_free(&env, found);
  }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(keys_match_by_levels),
      TEST(a_key_is_filled_from_the_device),
      TEST(what_is_printed_is_read),
      TEST(damaged_files_add_nothing),
      TEST(later_formats_are_told_apart),
      TEST(why_times_are_not_kept_is_known),
      TEST(bytes_that_are_no_utf8_are_left_out),
      TEST(findings_belong_to_one_device),
      TEST(the_best_source_counts),
      TEST(the_folder_is_made_and_its_files_replaced),
      TEST(files_have_at_most_64_mib),
      TEST(files_of_others_are_not_read),
      TEST(a_folder_that_cannot_be_is_no_error),
      TEST(one_at_a_time_has_the_lock),
      TEST(the_folder_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
