/* The figures of `vkformer bench` with measured roofs. Rates are computed from the median, which is between the fastest
 * run and the 90th percentile. A row's share is the least time that its roofs allow, divided by the median. The roofs
 * are multiply-adds and bytes: those of caches, or of memory from 32 MiB on. The rows of "peak", which are the roofs,
 * and rows faster than their roofs have no share. The text has the same figures as the JSON. Also checks what is
 * printed beside the figures, and what is refused before anything is measured.
 */
#include <math.h>
#include <string.h>

#include "support/documented.h"

/* Makes wrong kernels, $T/wrong_*.comp: one is wrong in one element of many, one leaves out a row, one is right only if
 * it has not written to its memory before. */
static int prepare(void **state) {
  (void)state;
  setenv("E", VKF_SOURCE_DIR "/examples/own_kernel.comp", 1);
  return program_setup(
      "printf '#version 450\\nvoid main() {}\\n' > $T/nothing.comp; echo '[1]' > $T/array.json;"
      "sed 's/ + bias/ + (row == 100u \\&\\& column == 7u ? 1.0 : 0.0) + bias/' $E > $T/wrong_element.comp;"
      "sed 's/      result/if (row != 77u) result/' $E > $T/wrong_row.comp;"
      "sed 's/ + bias/ + (isnan(result[at[4].x + row * p.n + column]) ? 0.0 : 1.0) + bias/;s/writeonly //' $E > "
      "$T/wrong_again.comp");
}

static double number(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_number(value)) fail_msg("expected a number '%s', found none", key);
  return json_number_value(value);
}

/* Compares a number with one that is computed here in double from the same figures; it is printed with 15 digits. */
static void same(const json_t *row, const char *key, double expected) {
  double found = number(row, key);
  if (!(fabs(found - expected) <= 1e-12 * fabs(expected)))
    fail_msg("%s, %s: expected %.17g, found %.17g", json_string_value(json_object_get(row, "variant")), key, expected,
             found);
}

static void check_share(const json_t *row, const json_t *peak) {
  const double bytes = number(row, "bytes"), memory = number(peak, "gbytes"), cached = number(peak, "cached_gbytes");
  const double multiplying = number(row, "flops") / number(peak, "gflops");
  const double moving = bytes / (bytes >= 32 << 20 ? memory : fmax(cached, memory));
  const double share = fmax(multiplying, moving) / (1e3 * number(row, "median_us"));
  const json_t *roof = json_object_get(row, "roof");
  if (!strcmp(json_string_value(json_object_get(row, "problem")), "peak") || share > 1) {
    assert_true(json_is_null(json_object_get(row, "peak_share")) && json_is_null(roof));
    return;
  }
  same(row, "peak_share", share);
  assert_string_equal(json_string_value(roof), multiplying >= moving ? "multiply-adds"
                                               : bytes >= 32 << 20   ? "memory"
                                                                     : "caches");
}

static void check_row(const json_t *row, const json_t *peak) {
  const double least = number(row, "min_us"), median = number(row, "median_us"), flops = number(row, "flops"),
               bytes = number(row, "bytes"), gflops = flops / median / 1e3, gbytes = bytes / median / 1e3;
  assert_true(number(row, "runs") >= 1);
  assert_true(least > 0 && least <= median && median <= number(row, "p90_us"));
  assert_true(number(row, "ratio") >= 0 && number(row, "ratio") <= 1);
  assert_true(bytes > 0);
  same(row, "gflops", gflops);
  same(row, "gbytes", gbytes);
  check_share(row, peak);
}

static void shares_of_roofs(void **state) {
  (void)state;
  program_must("$V bench matmul:96,64,48 norm:40,256 peak --seconds 0.01 --json", 0, "\"rows\"", NULL);
  program_must_be_documented();
  json_error_t wrong;
  json_t *root = json_loads(program_out, 0, &wrong);
  if (!root) fail_msg("line %d: %s", wrong.line, wrong.text);
  const json_t *peak = json_object_get(root, "peak"), *rows = json_object_get(root, "rows");
  size_t i, with_flops = 0;
  json_t *row;
  assert_true(number(peak, "gflops") > 0 && number(peak, "gbytes") > 0 && number(peak, "cached_gbytes") > 0);
  assert_true(json_array_size(rows) >= 3);
  json_array_foreach(rows, i, row) {
    check_row(row, peak);
    with_flops += number(row, "flops") > 0;
  }
  assert_true(with_flops > 0 && with_flops < json_array_size(rows));
  json_decref(root);
}

/* All keys of the JSON of `kernels`, and of `bench` with a wrong kernel and its worst element, are documented. */
static void keys_are_documented(void **state) {
  (void)state;
  program_must("$V kernels matmul:77,512,512 --json", 0, NULL, NULL);
  program_must_be_documented();
  program_must(
      "$V bench matmul:33,40,24 --shader $T/nothing.comp --variant matmul-naive-m1n1 --no-roofs --seconds 0.01 --json",
      1, NULL, NULL);
  program_must_be_documented();
}

static void commands_and_digits(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V bench norm:8,64 --no-roofs --seconds 0.01 --json > $T/n.json && sed -n 2p $T/n.json && ! grep "
       "'[1-9][0-9]\\{15\\}' $T/n.json",
       0, "  \"format\": \"vkformer-bench/1\",\n", ""},
      /* the printed command repeats the row: options with full names, the tile with the row that it is based on */
      {"$V bench matmul --m 5 --n 12 --k 16 --variant matmul-shared-32x32x16-m4n4 --tile bm=16,bn=16,tm=2,tn=2 --ht "
       "$T/c.html --no-r --seconds 0.01 --json | grep -o 'vkformer bench.*\"'",
       0,
       "vkformer bench matmul:5,12,16 --variant matmul-shared-32x32x16-m4n4 --tile bm=16,bn=16,tm=2,tn=2 --no-roofs "
       "--seconds 0.01\"\n",
       ""},
      {"$V bench encoder --layers 1 --d-model 16 --heads 2 --d-ff 24 --vocab 20 --length 3,5 --no-roofs --seconds 0.01 "
       "--json | grep -o 'vkformer bench.*length 5.*\"'",
       0,
       "vkformer bench encoder --batch 1 --length 5 --layers 1 --d-model 16 --heads 2 --d-ff 24 --vocab 20 --no-roofs "
       "--seconds 0.01\"\n",
       ""},
      /* running that command gives the same problem and kernel */
      {"$V bench norm:3,8 --no-roofs --seconds 0.01 --json > $T/first.json && cd $(dirname $V) && eval \"./$(sed -n "
       "'s/.*\"command\": \"\\(.*\\)\".*/\\1/p' $T/first.json | head -n 1) --json\" > $T/again.json && for k in "
       "problem "
       "variant; do grep -m 1 \"\\\"$k\\\"\" $T/first.json > $T/k && grep -qF -f $T/k $T/again.json || exit 1; done",
       0, "", ""},
  };
  PROGRAM_ROWS(rows);
}

/* Nothing is measured if an argument is wrong, so standard output is empty. */
static void what_is_refused_first(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V bench norm:8,64 $T/page.html", 2, "", "expected one of peak, matmul, "},
      {"$V bench norm:8,64 norm:8", 2, "", "norm:8"},
      {"$V bench norm:8,64 ffn:3,16", 2, "", "expected a problem of the form ffn:M,D,F"},
      {"$V bench norm:8,64 --html $T/nosuch/x.html", 4, "", "nosuch/x.html: cannot be written: No such file"},
      {"$V bench norm:8,64 --html $T", 4, "", "cannot be written: Is a directory"},
      {"$V bench norm:8,64 --html --json", 2, "", "--html: expected a file to write, found '--json'"},
      {"$V bench norm:8,64 --merge $T/nosuch.json --html $T/x.html", 4, "", "--merge: "},
      {"$V bench norm:8,64 --merge $T/array.json --html $T/x.html", 4, "",
       "array.json: expected the output of vkformer bench"},
      {"$V bench norm:8,64 --merge $T/array.json", 2, "", "--merge: expected --html FILE as well"},
      {"$V bench norm:8,64 --variant norm-row-64 --shader $T/nosuch.comp", 4, "", "--shader: "},
      {"$V bench norm:8,64 --variant norm-row-64,nosuch", 2, "", "--variant: no kernel is named 'nosuch'"},
      {"$V bench norm:8,64 matmul --variant norm-row-64", 2, "", "no kernel of matmul is named norm-row-64; "},
      {"$V bench norm --filter nosuch", 2, "", "--filter: no kernel of norm has in its name nosuch; "},
      {"$V bench norm:8,64 encoder --norm side", 2, "", "--norm: expected post or pre"},
      {"test -e $T/x.html", 1, "", ""},
  };
  PROGRAM_ROWS(rows);
}

/* What is printed beside the results. */
static void what_is_said(void **state) {
  (void)state;
  if (driver_is_gpu()) skip(); /* one row needs a machine without a GPU */
  static const program_row rows[] = {
      /* only commands that compute say that no GPU was found */
      {"unset VKF_DEVICE; $V kernels norm:8,64 >$T/k && $V info $M >$T/k", 0, "", ""},
      {"unset VKF_DEVICE; $V bench norm:8,64 --no-roofs --seconds 0.01", 0, NULL,
       "no GPU was found: computing on the CPU"},
      {"$V translate -vv 'I am here.'", 0, "\n", ", last run "},
      {"$V translate -v 'I am here.' 2>&1 | grep -c 'last run 0.000'", 1, "0\n", ""},
  };
  setenv("M", VKF_SOURCE_DIR "/models/en-es", 1);
  PROGRAM_ROWS(rows);
}

/* A row of the table has the share as a percentage, or a dash without roofs. */
static void roofs_in_text(void **state) {
  (void)state;
  program_must("$V bench norm:40,256 --seconds 0.01 --filter norm-row | grep '^roofs: \\|^norm-'", 0, "% ", "");
  assert_non_null(strstr(program_out, "roofs: "));
  program_must("$V bench norm:40,256 --seconds 0.01 --filter norm-row --no-roofs | grep '^norm-'", 0, " - ", "");
  assert_null(strchr(program_out, '%'));
}

/* The caller's own tiles and kernels. */
static void tiles_and_own_kernels(void **state) {
  (void)state;
  static const program_row rows[] = {
      /* the example of docs/own-kernels.md with its own tile and others, on a shape that is no multiple of any tile */
      {"$V bench matmul:33,40,24 --shader " VKF_SOURCE_DIR "/examples/own_kernel.comp --variant "
       "matmul-shared-64x64x16-m4n4 --tile 'bm=32,bn=16,tm=2,tn=2;bm=16,bn=64,tm=1' --no-roofs --seconds 0.01 | grep "
       "-o "
       "'^matmul-own[^ ]*  *[1-9]\\|WRONG' | tr -d ' 0-9'",
       0, "matmul-own-xx-mn\nmatmul-own-xx-mn\nmatmul-own-xx-mn\n", ""},
      {"$V bench matmul:5,70,24 --shader " VKF_SOURCE_DIR "/examples/own_kernel.comp --variant matmul-naive-m1n1 "
       "--no-roofs --seconds 0.01 | grep -c '^matmul-own-m1n1  *[1-9]'",
       0, "1\n", ""},
      /* every tile has a line, also those that no kernel takes */
      {"$V bench matmul:33,40,24 --variant matmul-shared-64x64x16-m4n4 --tile 'bm=48;bk=7;tm=16' --no-roofs --seconds "
       "0.01 | grep -c '^matmul-shared-48x64x16-m4n4  *[1-9]\\|^bk=7  *refused: bk is a multiple of 4\\|^tm=16  "
       "*refused: "
       "tm is at most 8'",
       0, "3\n", ""},
      {"$V bench matmul:33,40,24 --variant matmul-shared-64x64x16-m4n4 --tile 'bm=48;bk=7' --no-roofs --seconds 0.01 "
       "--json | sed -n '/\"refused\"/,/}/p' | grep -c '\"problem\": \"matmul:33,40,24\"\\|\"tile\": "
       "\"bk=7\"\\|\"reason\": "
       "\"bk is'",
       0, "3\n", ""},
      /* a wrong kernel: its worst element */
      {"$V bench matmul:33,40,24 --shader $T/nothing.comp --variant matmul-naive-m1n1 --no-roofs --seconds 0.01", 1,
       "  element [", ""},
      /* wherever it is, also beyond the first rows; of a large result some rows are compared and all are looked at */
      {"$V bench matmul:128,64,64 --shader $T/wrong_element.comp --variant matmul-naive-m1n1 --no-roofs --seconds 0.01",
       1, "  element [100, 7] of out [128, 64]: ", ""},
      {"$V bench matmul:128,1024,1024 --shader $T/wrong_element.comp --variant matmul-naive-m1n1 --no-roofs --seconds "
       "0.01",
       1, "  element [100, 7] of out [128, 1024]: ", ""},
      {"$V bench matmul:128,1024,1024 --shader $T/wrong_row.comp --variant matmul-naive-m1n1 --no-roofs --seconds 0.01",
       1, "  element [77, 0] of out [128, 1024]: ", ""},
      /* a kernel that is right only in its first run gets no times; with copies of the operands each copy counts */
      {"$V bench matmul:9,8,8 --shader $T/wrong_again.comp --variant matmul-naive-m1n1 --no-roofs --seconds 0.01", 1,
       "matmul-own-m1n1                          WRONG: err/bound",
       "matmul:9,8,8: matmul-own-m1n1 was right in its first run and is wrong after "},
      {"$V bench matmul:9,8,8 --shader $T/wrong_again.comp --variant matmul-naive-m1n1 --no-roofs --seconds 0.01 "
       "--cold",
       1, "matmul-own-m1n1                          WRONG: err/bound", "was right in its first run"},
      /* whether a kernel fits depends on the format of the weights */
      {"$V bench matmul:64,64,64,q8 --variant matmul-split-32x32x16-m4n4 --no-roofs", 4, NULL,
       "does not read numbers stored as q8"},
  };
  PROGRAM_ROWS(rows);
}

PROGRAM_MAIN(prepare, cmocka_unit_test(shares_of_roofs), cmocka_unit_test(roofs_in_text),
             cmocka_unit_test(keys_are_documented), cmocka_unit_test(commands_and_digits),
             cmocka_unit_test(what_is_refused_first), cmocka_unit_test(what_is_said),
             cmocka_unit_test(tiles_and_own_kernels))
