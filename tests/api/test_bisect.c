/* Bisection finds the first node whose error exceeds its bound, and the node can be replayed alone. The fault is
 * planted where the host reads from the device: one element of a node's result is replaced, as if its kernel had
 * computed it.
 */
#include <vkformer/lab.h>

#include "support/golden.h"
#include "support/range.h"
#include "vkop/internal.h"

/* The planted fault, and the backend's own table, which read_planted() calls. */
static struct {
  const vkf_backend_table *table;
  const char *node; /* NULL: none */
  size_t element;   /* of its first output, dense */
} planted;

static vkf_status read_planted(vkf_program *program, uint32_t slot, const vkf_dims *dims, void *data) {
  vkf_status status = planted.table->read(program, slot, dims, data);
  const vkf_plan *plan = program->plan;
  for (uint32_t n = 0; planted.node && n < plan->n_nodes; n++)
    if (plan->nodes[n].out[0] == slot && !strcmp(plan->nodes[n].name, planted.node))
      ((float *)data)[planted.element] = 12345;
  return status;
}

static int setup(void **state) {
  static vkf_backend_table table;
  driver_setup_plain(state);
  vkf_backend *backend = ((driver *)*state)->device->backend;
  memset(&planted, 0, sizeof planted);
  planted.table = backend->table;
  table = *backend->table;
  table.read = read_planted;
  backend->table = &table;
  return 0;
}

static int teardown(void **state) {
  ((driver *)*state)->device->backend->table = planted.table;
  return driver_teardown(state);
}

static void expect_text(const char *text, const char *piece) {
  if (!strstr(text, piece)) fail_msg("expected '%s' in\n%s", piece, text);
}

static vkf_status replay(driver *d, vkf_device *device, const char *text, const vkf_result *arrays, vkf_result **out) {
  vkf_array given[32];
  const size_t n = vkf_result_count(arrays);
  assert_between(n, 1, VKF_COUNT(given));
  for (size_t i = 0; i < n; i++) given[i] = *vkf_result_at(arrays, i);
  (void)d;
  return vkf_device_replay(device, text, given, n, out);
}

static double ratio_of(const vkf_result *result) {
  const char *at = strstr(vkf_result_text(result, 0), "\"ratio\": ");
  assert_non_null(at);
  return atof(at + 9 + (at[9] == '"'));
}

/* ---- every op of a model ----------------------------------------------------------------------------------------- */

typedef struct nodes {
  char names[VKF_OP_COUNT][64]; /* the first of each op */
} nodes;

static void on_row(void *user, const vkf_validate_row *row) {
  nodes *all = user;
  if (row->scope != VKF_SCOPE_NODE) return;
  char *name = all->names[vkf_op_find(row->op)];
  if (!name[0]) snprintf(name, sizeof all->names[0], "%s", row->part);
}

/* Checks that the node alone gives the same bits as in the model, except for the planted element. */
static void compare(const vkf_result *was, const vkf_result *now, size_t element) {
  const vkf_array *a = NULL, *b = NULL;
  for (size_t i = 0; i + 1 < vkf_result_count(was) && !a; i++) /* the output before its exact values */
    if (strstr(vkf_result_at(was, i + 1)->name, ".exact")) a = vkf_result_at(was, i);
  assert_non_null(a);
  b = vkf_result_find(now, a->name);
  const vkf_array *bound = vkf_result_find(now, vkf_result_at(was, vkf_result_count(was) - 1)->name);
  size_t n = 1;
  assert_true(b && bound && a->rank == b->rank && !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape));
  for (size_t i = 0; i < a->rank; i++) n *= a->shape[i];
  for (size_t i = 0; i < n; i++) {
    const char *x = (const char *)a->data + 4 * i, *y = (const char *)b->data + 4 * i;
    if (i != element && ((const double *)bound->data)[i] >= 0) assert_memory_equal(x, y, 4);
  }
}

static void plant_and_replay(driver *d, vkf_model *model, const char *name, const char *op) {
  vkf_result *fault = NULL, *again = NULL;
  char piece[96];
  planted.node = name;
  driver_ok(d, vkf_model_bisect(model, NULL, NULL, &fault));
  planted.node = NULL;
  if (!fault) fail_msg("%s: the planted fault was not found", name);
  const char *text = vkf_result_text(fault, 0);
  snprintf(piece, sizeof piece, "\"node\": \"%s\"", name);
  expect_text(text, piece);
  snprintf(piece, sizeof piece, "\"op\": \"%s\"", op);
  expect_text(text, piece);
  expect_text(text, "\"found\": 12345.0,");
  driver_ok(d, replay(d, d->device, text, fault, &again));
  assert_true(ratio_of(fault) > 1 && ratio_of(again) <= 1);
  compare(fault, again, planted.element);
  vkf_result_destroy(&again);
  vkf_result_destroy(&fault);
}

/* Whatever the op, its past and formats, the fault is found where it is planted, and the node alone gives the same
 * bits.
 */
static void test_every_op(void **state) {
  driver *d = *state;
  static const struct {
    const char *folder;
    vkf_storage weights, kv_cache;
  } models[] = {{"marian", VKF_STORAGE_F32, VKF_STORAGE_F32},
                {"t5", VKF_STORAGE_INT8, VKF_STORAGE_F16},
                {"llama", VKF_STORAGE_F16, VKF_STORAGE_F16},
                {"vit", VKF_STORAGE_F32, VKF_STORAGE_F32}};
  bool seen[VKF_OP_COUNT] = {false};
  char path[GOLDEN_PATH];
  for (size_t m = 0; m < VKF_COUNT(models); m++) {
    static nodes all;
    vkf_model *model = NULL;
    double worst = 0;
    memset(&all, 0, sizeof all);
    const vkf_model_params how = {VKF_MODEL_PARAMS_INIT, .weights = models[m].weights, .kv_cache = models[m].kv_cache};
    driver_ok(d, vkf_model_open_with(d->device, golden_path(path, models[m].folder, "."), &how, &model));
    driver_ok(d, vkf_device_validate(d->device, &(vkf_validate_params){VKF_VALIDATE_PARAMS_INIT, .model = model},
                                     on_row, &all, &worst));
    for (int op = 0; op < VKF_OP_COUNT; op++) {
      if (!all.names[op][0]) continue;
      print_message("  %s: %s\n", models[m].folder, all.names[op]);
      plant_and_replay(d, model, all.names[op], vkf_op_name((vkf_op)op));
      seen[op] = true;
    }
    vkf_model_close(&model);
  }
  for (int op = 0; op < VKF_OP_COUNT; op++)
    if (!seen[op] && op != VKF_OP_GATE) /* models have gates in their matmuls */
      fail_msg("no model here has the op %s", vkf_op_name((vkf_op)op));
}

/* ---- one fault, in full ------------------------------------------------------------------------------------------ */

static void test_nothing_to_find(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_result *fault = NULL;
  char path[GOLDEN_PATH];
  driver_ok(d, vkf_model_open(d->device, golden_path(path, "marian", "."), &model));
  driver_ok(d, vkf_model_bisect(model, NULL, NULL, &fault));
  assert_null(fault);
  vkf_model_close(&model);
}

/* Writes a folder as --bisect does, and checks that `validate --replay` finds the node within its bound on the scalar
 * path. */
static void replay_folder(driver *d, const char *text, const vkf_result *fault) {
  char folder[] = "/tmp/vkformer-bisect-XXXXXX", path[64], command[1024];
  vkf_array arrays[32];
  assert_non_null(mkdtemp(folder));
  for (size_t i = 0; i < vkf_result_count(fault); i++) arrays[i] = *vkf_result_at(fault, i);
  snprintf(path, sizeof path, "%s/arrays.safetensors", folder);
  driver_ok(d, vkf_arrays_write(d->context, path, arrays, vkf_result_count(fault)));
  snprintf(path, sizeof path, "%s/node.json", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  snprintf(command, sizeof command,
           "%s/vkformer validate --replay %s --device ref | grep -q 'alone on ref (ref): .* within its bound'; s=$?; "
           "rm -r %s; exit $s",
           VKF_BINARY_DIR, folder, folder);
  assert_int_equal(system(command), 0);
}

/* A fault in the last block of the encoder: the text has its element and tile. A replay on this device exceeds the
 * bound as long as the fault is planted; one on the scalar path does not. */
static void test_element(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_result *fault = NULL, *again = NULL;
  vkf_device *ref = NULL;
  char path[GOLDEN_PATH];
  driver_ok(d, vkf_model_open(d->device, golden_path(path, "marian", "."), &model));
  planted.node = "encoder.1.self.out";
  planted.element = 5 * 64 + 17;
  driver_ok(d, vkf_model_bisect(model, NULL, NULL, &fault));
  assert_non_null(fault);
  const char *text = vkf_result_text(fault, 0);
  expect_text(text, "\"pass\": \"encode\"");
  expect_text(text, "\"node\": \"encoder.1.self.out\"");
  expect_text(text, "\"output\": \"out\", \"shape\": [11, 64], \"element\": [5, 17], \"tile_shape\": [");
  expect_text(text, "\"variant\": \"matmul-");
  driver_ok(d, replay(d, d->device, text, fault, &again));
  assert_true(ratio_of(again) > 1);
  expect_text(vkf_result_text(again, 0), "\"element\": [5, 17]");
  vkf_result_destroy(&again);
  driver_ok(d, vkf_device_open(d->context, "ref", &ref));
  driver_ok(d, replay(d, ref, text, fault, &again));
  assert_true(ratio_of(again) <= 1);
  expect_text(vkf_result_text(again, 0), "\"variant\": \"ref\"");
  replay_folder(d, text, fault);
  vkf_result_destroy(&again);
  vkf_device_close(&ref);
  vkf_result_destroy(&fault);
  vkf_model_close(&model);
}

/* ---- what is no node --------------------------------------------------------------------------------------------- */

/* Returns the text with the first `from` after `after` replaced by `to`; valid until the next call. */
static char *change(const char *text, const char *after, const char *from, const char *to) {
  static char out[1 << 14];
  const char *at = strstr(text, after);
  at = at ? strstr(at, from) : NULL;
  if (!at) fail_msg("'%s' after '%s' is not in\n%s", from, after, text);
  assert_true(snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) < (int)sizeof out);
  return out;
}

static void test_refused(void **state) {
  static const struct {
    const char *after, *from, *to, *words;
  } rows[] = {
      {"{", "{", "[", "expected JSON"},
      {"\"op\"", "\"embed\"", "\"exec\"", "there is no \"exec\""},
      {"\"op\"", "\"embed\"", "\"norm\"", "params.kind"},
      {"\"params\"", "\"BS\"", "\"RT\"", "ids in slot ids"},
      {"\"params\"", "\"width\": 64", "\"width\": 4294967295", "expected exactly"},
      {"\"params\"", "\"width\": 64", "\"width\": -1", "width: expected a number from 0"},
      {"\"sizes\"", "\"B\": 2", "\"B\": 3", "sizes.B: expected at most 2, found 3"},
      {"\"sizes\"", "\"BS\": 11", "\"BS\": 10", "array ids: expected I32"},
      {"\"sizes\"", "\"S\": 7", "\"S\": 5", "sizes: expected BS up to B*S"},
      {"\"capacity\"", "\"S\": 8", "\"S\": 2000000000", "capacity.S: expected at most"},
      {"\"operands\"", "[16]", "[13]", "ids"},
      {"\"operands\"", "[16]", "[0]", "expected capacities over 0"},
      {"\"operands\"", "[16]", "[16, 1]", "expected 1 extents"},
      {"\"operands\"", "\"ids\"", "\"idz\"", "has none called idz"},
      {"\"operands\"", "\"f32\"", "\"int8\"", "ids"},
      {"\"operands\"", "\"weight\": ", "\"weight\": 9", "cannot be a weight"},
  };
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_result *fault = NULL, *again = NULL;
  char path[GOLDEN_PATH];
  driver_ok(d, vkf_model_open(d->device, golden_path(path, "marian", "."), &model));
  planted.node = "embed";
  driver_ok(d, vkf_model_bisect(model, NULL, NULL, &fault));
  assert_non_null(fault);
  const char *text = vkf_result_text(fault, 0);
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_status status = replay(d, d->device, change(text, rows[i].after, rows[i].from, rows[i].to), fault, &again);
    const char *message = vkf_context_message(d->context);
    if ((status != VKF_ERROR_FORMAT && status != VKF_ERROR_ARGUMENT) || !strstr(message, rows[i].words) || again)
      fail_msg("row %zu: expected '%s', found %s and '%s'", i, rows[i].words, vkf_status_name(status), message);
  }
  ((int32_t *)vkf_result_find(fault, "ids")->data)[3] = 150; /* of 0 to 149: never reaches the device */
  assert_int_equal(replay(d, d->device, text, fault, &again), VKF_ERROR_ARGUMENT);
  expect_text(vkf_context_message(d->context), "150");
  vkf_result_destroy(&fault);
  vkf_model_close(&model);
}

#define PLANTED_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
DRIVER_MAIN(PLANTED_TEST(test_nothing_to_find), PLANTED_TEST(test_every_op), PLANTED_TEST(test_element),
            PLANTED_TEST(test_refused))
