/* Every command of the program ends with the exit codes of the table in README.md.
 *
 * In a command $V is the program, $M the shipped model, $G the golden folders and $T a fresh folder with a model whose
 * weights hold a NaN. VKF_DEVICE names the driver under test.
 */
#include <math.h>

#include <stdbool.h>

#include "../../tools/exit_codes.h"
#include "support/program.h"
#include "support/range.h"

/* The arguments that give each exit code; NULL: the command cannot end with it. Code 2 needs none: every unknown option
 * gives it. */
typedef struct row {
  const char *name, *done, *wrong, *no_device, *input;
} row;

static const row rows[] = {
    {"translate", "-m $M 'I am here.'", NULL, "--device nosuch a", "-m $T/nosuch a"},
    {"run", "$G/gpt2 -i $T/ids -o $T/o", "$T/nan -i $T/ids -o $T/o", "$G/gpt2 -i $T/ids -o $T/o --device nosuch",
     "$G/gpt2 -i $T/nosuch -o $T/o"},
    {"generate", "$G/gpt2 -i $T/ids -o $T/o", "$T/nan -i $T/ids -o $T/o", "$G/gpt2 -p a --device nosuch",
     "$T/nosuch -p a"},
    {"fill-mask", NULL, NULL, "$G/bert a --device nosuch", "$G/bert a"},
    {"embed", NULL, NULL, "$G/bert a --device nosuch", "$G/bert a"},
    {"classify", NULL, NULL, "$G/bert a --device nosuch", "$G/bert a"},
    {"attention", "$M a --from a --to a", NULL, "$M a --from a --to a --device nosuch", "$T/nosuch a --from a --to a"},
    {"layers", "$M a --growth", NULL, "$M a --growth --device nosuch", "$T/nosuch a --growth"},
    {"validate", "$G/gpt2", "--merge $T/failed.json --report $T/page.html", "$G/gpt2 --device nosuch", "$T/nosuch"},
    {"devices", "", NULL, NULL, "--icd $T/nosuch.json"},
    {"info", "$G/gpt2", NULL, "$G/gpt2 --device nosuch", "$T/nosuch"},
    {"init", "$G/gpt2/config.json -o $T/made", NULL, NULL, "$T/nosuch -o $T/other"},
    {"tokenize", "-m $M a", NULL, NULL, "-m $T/nosuch a"},
    {"kernels", "norm:8,64", NULL, "norm:8,64 --device nosuch", "norm:8,64 --device ref"},
    {"tune", NULL, NULL, "--device nosuch", "$T/nosuch"},
    {"bench", "norm:8,64 --no-roofs --seconds 0.01",
     "matmul:5,12,16 --variant matmul-naive-m1n1 --shader $T/wrong.comp --no-roofs --seconds 0.01",
     "norm:8,64 --device nosuch", "norm:8,64 --no-roofs --device ref"},
    {"op", "softmax -i $T/x.json -o $T/o.json", NULL, "softmax -i $T/x.json -o $T/o.json --device nosuch",
     "softmax -i $T/nosuch.json -o $T/o.json"},
    {"tour", "softmax", "scores --file $T/tour.json", "softmax --device nosuch", "softmax --file $T/nosuch.json"},
    {"doctor", "--icd $T/nosuch.json", NULL, NULL, "--report $T/nosuch/o"},
    {"merge", NULL, NULL, NULL, "$T/nosuch"},
    {"score", "$T/x.json $T/x.json", NULL, "$T/x.json $T/x.json --device nosuch", "$T/nosuch $T/x.json"},
    {"evaluate", "$T/x.json $T/x.json", NULL, NULL, "$T/nosuch $T/x.json"},
    {"positions", "-o $T/p.svg", NULL, NULL, "-o $T/nosuch/p.svg"},
    {"masks", "-o $T/p.svg", NULL, "-o $T/p.svg --device nosuch", "-o $T/nosuch/p.svg"},
};

/* Writes a golden model with a NaN in ln_f.bias, and ids as its input. */
static void make_files(vkf_context *context) {
  static int32_t ids[] = {5, 6, 7};
  enum { MAX_ARRAYS = 64 };
  vkf_array arrays[MAX_ARRAYS], input = {"input_ids", VKF_I32, 2, {1, 3}, ids};
  vkf_result *model = NULL;
  char path[256];
  bool found = false;
  program_ok(context, vkf_arrays_read(context, VKF_SOURCE_DIR "/tests/golden/gpt2/model.safetensors", &model));
  size_t n = vkf_result_count(model);
  assert_between(n, 1, MAX_ARRAYS);
  for (size_t i = 0; i < n; i++) {
    arrays[i] = *vkf_result_at(model, i);
    if (!strstr(arrays[i].name, "ln_f.bias")) continue;
    ((float *)arrays[i].data)[0] = NAN;
    found = true;
  }
  assert_true(found);
  snprintf(path, sizeof path, "%s/nan/model.safetensors", program_folder);
  program_ok(context, vkf_arrays_write(context, path, arrays, n));
  snprintf(path, sizeof path, "%s/ids", program_folder);
  program_ok(context, vkf_arrays_write(context, path, &input, 1));
  vkf_result_destroy(&model);
}

static int prepare(void **state) {
  (void)state;
  vkf_context *context = NULL;
  setenv("M", VKF_SOURCE_DIR "/models/en-es", 1);
  if (program_setup("mkdir $T/nan && cp $G/gpt2/config.json $T/nan && echo '{\"x\": [[1, 2]]}' > $T/x.json &&"
                    "sed 's/\"expect\": \\[\\[1, 6, 4\\]/\"expect\": [[1, 6, 4.001]/' " VKF_SOURCE_DIR
                    "/tour/tour.json > $T/tour.json &&"
                    "sed 's/k = 0; k < whole/k = VKF_K_AT_ONCE; k < whole/' " VKF_SOURCE_DIR
                    "/shaders/matmul_naive.comp > $T/wrong.comp && ! cmp -s $T/wrong.comp " VKF_SOURCE_DIR
                    "/shaders/matmul_naive.comp &&"
                    "echo '{\"devices\": [{\"device\": \"d\", \"passed\": false, \"rows\": []}]}' > "
                    "$T/failed.json") != 0)
    return -1;
  program_ok(NULL, vkf_context_create(NULL, &context));
  make_files(context);
  vkf_context_destroy(&context);
  return 0;
}

static void must_end(const row *r, const char *arguments, int code) {
  char command[1024];
  if (!arguments) return;
  snprintf(command, sizeof command, "$V %s %s", r->name, arguments);
  program_must(command, code, NULL, code == TOOL_OK || code == TOOL_WRONG ? NULL : "vkformer: ");
}

/* Commands that look at drivers accept --limits, and those that open a device --device; a wrong name is an error. Other
 * commands do not know these options, so none is ignored. */
static void must_refuse_names(const row *r) {
  char command[1024];
  const char *arguments = r->done ? r->done : r->input;
  const bool looks = r->no_device || !strcmp(r->name, "devices") || !strcmp(r->name, "doctor");
  snprintf(command, sizeof command, "$V %s %s --limits nosuch", r->name, arguments);
  program_must(command, looks ? TOOL_FAILED : TOOL_USAGE, "",
               looks ? "limits: expected least, pi, mali, adreno, intel, m1, deck or a file, found \"nosuch\""
                     : "expected an option of the command, found '--limits'");
  if (r->no_device) return;
  snprintf(command, sizeof command, "$V %s %s --device nosuch", r->name, arguments);
  program_must(command, TOOL_USAGE, "", "expected an option of the command, found '--device'");
}

static void test_table(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    must_end(&rows[i], rows[i].done, TOOL_OK);
    must_end(&rows[i], rows[i].wrong, TOOL_WRONG);
    must_end(&rows[i], "--nosuch", TOOL_USAGE);
    must_refuse_names(&rows[i]);
    must_end(&rows[i], rows[i].no_device, TOOL_NO_DEVICE);
    must_end(&rows[i], rows[i].input, TOOL_FAILED);
  }
}

/* What is wrong in the command line alone ends with 2, also if only the library sees it. */
static void test_command_lines(void **state) {
  (void)state;
  static const program_row lines[] = {
      {"$V kernels matmul:8", TOOL_USAGE, "", "expected a problem of the form matmul:M,N,K[,FORMAT]"},
      {"$V kernels --compile matmul:8", TOOL_USAGE, "", "found matmul:8\nSee `vkformer kernels --help`"},
      {"$V bench matmul:8", TOOL_USAGE, "", "found matmul:8\nSee `vkformer bench --help`"},
      {"$V generate $G/gpt2 -p a --do-sample --num-beams 4", TOOL_USAGE, "",
       "--do-sample: expected --num-beams 1, found 4"},
      {"$V generate $G/gpt2 -p a --num-beams 4 --num-beam-groups 3", TOOL_USAGE, "",
       "--num-beam-groups: expected a number that divides --num-beams 4, found 3"},
      {"$V translate -m $M a --do-sample --num-beams 2", TOOL_USAGE, "",
       "--do-sample: expected --num-beams 1, found 2"},
      {"echo '{\"num_beams\": 4}' > $T/beams.json; $V translate -m $M a --do-sample -g $T/beams.json", TOOL_FAILED, "",
       "\"do_sample\" with num_beams 4 is not supported"},
  };
  PROGRAM_ROWS(lines);
}

/* A result over its bound (here the reference is wrong) is reported on stderr, and the trace is complete. */
static void test_op_over_its_bound(void **state) {
  (void)state;
#ifdef VKF_WRONG_EXP
  program_must("$V op softmax -i $T/x.json --trace -p '{\"causal\": true}'", TOOL_FAILED, "",
               "softmax: softmax has no parameter called causal; expected trace\n");
  program_must("$V op softmax -i $T/x.json --trace", TOOL_OK, "out [1,2]  err/bound 0.", "");
  program_must("echo '{\"x\": [[1, 1e39]]}' > $T/large.json; $V op softmax -i $T/large.json --trace", TOOL_FAILED, "",
               "x: expected numbers of float32");
  program_must(
      "echo '{\"x\": [[3e38, 3e38]], \"w\": [[3, 3]]}' > $T/large.json; "
      "$V op matmul -i $T/large.json -o $T/large.out.json; c=$?; ls $T/large.out.json; exit $c",
      TOOL_WRONG, "", "out: expected finite numbers, found inf as element 0 of 1");
  program_must("$V op matmul -i $T/large.json -o $T/large.out.json --allow-not-finite", TOOL_OK, "", "");
  program_must("LD_PRELOAD=" VKF_WRONG_EXP " $V op softmax -i $T/x.json --trace", TOOL_WRONG, "out [1,2]  err/bound ",
               "vkformer: out is over its bound: err/bound ");
#else
  skip();
#endif
}

/* Every command has a row, in the order of the help. */
static void test_no_command_is_missing(void **state) {
  (void)state;
  assert_int_equal(program_run("$V --help | sed -n '/^Commands/,/^$/s/^  \\([a-z-]*\\) .*/\\1/p'"), 0);
  const char *at = program_out;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    size_t n = strcspn(at, "\n");
    if (strlen(rows[i].name) != n || strncmp(rows[i].name, at, n) != 0)
      fail_msg("row %zu is %s, expected %.*s", i, rows[i].name, (int)n, at);
    at += n + (at[n] == '\n');
  }
  if (*at) fail_msg("expected a row for each command, found none for %.*s", (int)strcspn(at, "\n"), at);
}

/* In the help of every command the descriptions of options begin in one column, after at least two spaces. */
static void test_columns_of_help(void **state) {
  (void)state;
  program_must(
      "for c in $($V --help | sed -n '/^Commands/,/^$/s/^  \\([a-z-]*\\) .*/\\1/p'); do $V $c --help; done | awk '"
      "/^  (-.,|   ) --/ { n++; match($0, /--[^ ]+( [^ ]+)?/); e = RSTART + RLENGTH; "
      "if (length($0) >= e && !(substr($0, e, 2) == \"  \" && substr($0, 31, 2) == \"  \" && "
      "substr($0, 33, 1) != \" \")) print } END { if (n < 100) print n \" options\" }'",
      0, "", "");
}

PROGRAM_MAIN(prepare, cmocka_unit_test(test_table), cmocka_unit_test(test_command_lines),
             cmocka_unit_test(test_op_over_its_bound), cmocka_unit_test(test_no_command_is_missing),
             cmocka_unit_test(test_columns_of_help))
