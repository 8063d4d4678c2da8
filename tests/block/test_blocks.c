/* Compares every node of every model's plans with the scalar path, which gets the inputs that the device had: the
 * golden folders and the shipped model, full pass and cached step. err/bound over 1 is a fault of that block. Also
 * models of random weights whose sums or rows are so long that lavapipe 22 would end a loop with one element a turn. */
#include <math.h>
#include <unistd.h>

#include <vkformer/lab.h>

#include "lab/validate.h"
#include "support/golden.h"

typedef struct rows {
  const char *model;
  size_t n, n_nodes;
  bool same_chain; /* both chains round at the same places: they differ only by float32 sums */
} rows;

/* How far two right float32 computations of these small models may differ: 2.3e-6 was the largest on lavapipe on 22
 * November 2026. */
#define DRIFT 1e-5

static void on_row(void *user, const vkf_validate_row *row) {
  rows *r = user;
  if (row->scope == VKF_SCOPE_NODE) {
    assert_true(row->n_elements > 0 && row->op[0] && row->part[0]);
    r->n_nodes++;
    return;
  }
  assert_int_equal(row->scope, VKF_SCOPE_BLOCK);
  assert_true(row->n_cases > 0 && row->n_cases == r->n_nodes);
  r->n_nodes = 0;
  if (!(row->ratio <= 1)) fail_msg("%s, %s: err/bound is %g", r->model, row->name, row->ratio);
  if (r->same_chain && !(row->drift <= DRIFT)) fail_msg("%s, %s: drift is %g", r->model, row->name, row->drift);
  r->n++;
}

static void validate_stored(driver *d, const char *folder, const vkf_model_params *params) {
  vkf_model *model = NULL;
  double worst = -1;
  rows r = {.model = folder};
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  driver_ok(d, vkf_model_open_with(d->device, folder, params, &model));
  driver_ok(d, vkf_model_get_info(model, &info));
  r.same_chain = params && info.kv_cache == VKF_STORAGE_F32 && info.weights != VKF_STORAGE_Q8;
  driver_ok(d, vkf_device_validate(d->device, &(vkf_validate_params){VKF_VALIDATE_PARAMS_INIT, .model = model}, on_row,
                                   &r, &worst));
  assert_true(r.n >= 2 && worst >= 0 && worst <= 1);
  print_message("  %s: %zu blocks, largest err/bound %.3f\n", folder, r.n, worst);
  vkf_model_close(&model);
}

static void validate(driver *d, const char *folder) {
  validate_stored(d, folder, NULL);
}

static void visit(driver *d, const char *folder) {
  char path[GOLDEN_PATH];
  validate(d, golden_path(path, folder, "."));
}

static void test_golden_models(void **state) {
  golden_each(*state, visit);
}

static void test_the_shipped_model(void **state) {
  validate(*state, VKF_SOURCE_DIR "/models/en-es");
}

/* Weights in fewer bits: the scalar path has the same ones, so bounds and drift are those of float32 sums. A cache in
 * f16 rounds once more, as q8 rounds activations; then numbers near a middle may be rounded either way. */
static void test_storage_formats(void **state) {
  static const vkf_model_params params[] = {
      {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_F16},
      {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_BF16},
      {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_INT8},
      {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_Q8},
      {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_INT8, .kv_cache = VKF_STORAGE_F16}};
  static const char *const folders[] = {"marian", "t5", "llama"};
  char path[GOLDEN_PATH];
  const bool is_share = getenv("VKF_GOLDEN_SHARE"); /* the folders take turns */
  for (size_t i = 0; i < VKF_COUNT(params); i++)
    for (size_t f = 0; f < VKF_COUNT(folders); f++)
      if (!is_share || f == i % VKF_COUNT(folders))
        validate_stored(*state, golden_path(path, folders[f], "."), &params[i]);
}

/* ---- long sums and rows ------------------------------------------------------------------------------------------ */

/* Makes a folder of random weights for a configuration and puts its path into `folder`. */
static void make_model(driver *d, const char *config, char folder[64]) {
  char path[96];
  snprintf(folder, 64, "/tmp/vkformer-blocks-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s.json", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(config, file) >= 0 && fclose(file) == 0);
  driver_ok(d, vkf_model_make_folder(d->context, path, folder, NULL));
  assert_int_equal(unlink(path), 0);
}

static void remove_model(const char *folder) {
  char path[96];
  snprintf(path, sizeof path, "%s/config.json", folder);
  assert_int_equal(unlink(path), 0);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(folder), 0);
}

/* If one of 65,537 products is left out, every second sum is over its bound, and there are hundreds. The drift of both
 * chains is checked, too. */
static void test_a_wide_feed_forward(void **state) {
  char folder[64];
  make_model(*state,
             "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_head\": 1, \"n_layer\": 1, \"n_inner\": 65537, "
             "\"vocab_size\": 16, \"n_positions\": 32}",
             folder);
  validate_stored(*state, folder, &(vkf_model_params){VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_F32});
  remove_model(folder);
}

/* The weights of each query sum to one, within what their roundings allow (docs/numerics.md, rows of weights). */
static void test_a_thousand_tokens(void **state) {
  enum { N = 1000 };
  driver *d = *state;
  char folder[64];
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  int32_t ids[N];
  const double u = 0x1p-24, most = 2 * (6 + 5 * log(N) + 7 * N + N + 1 + 6) * u;
  make_model(d,
             "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_head\": 1, \"n_layer\": 1, \"vocab_size\": 64, "
             "\"n_positions\": 1024}",
             folder);
  driver_ok(d, vkf_model_open(d->device, folder, &model));
  for (int i = 0; i < N; i++) ids[i] = i * 37 % 64;
  const vkf_array input = {.name = "input_ids", .dtype = VKF_I32, .rank = 2, .shape = {1, N}, .data = ids};
  driver_ok(d, vkf_session_run(session_of(model), &input, 1, &(vkf_run_params){VKF_RUN_PARAMS_INIT, .attentions = true},
                               &result));
  const vkf_array *weights = vkf_result_find(result, "attentions.0");
  assert_non_null(weights);
  for (int q = 0; q < N; q++) {
    const float *row = (const float *)weights->data + (size_t)q * N;
    double sum = 0;
    for (int k = 0; k < N; k++) {
      if (!(k <= q ? row[k] > 0 : row[k] == 0)) fail_msg("query %d: key %d has the weight %g", q, k, (double)row[k]);
      sum += (double)row[k];
    }
    if (!(fabs(sum - 1) <= most)) fail_msg("query %d: its weights sum to %.9g, expected 1 within %.2g", q, sum, most);
  }
  vkf_result_destroy(&result);
  close_model(&model);
  remove_model(folder);
}

/* ---- what is left out ------------------------------------------------------------------------------------------- */

typedef struct kernel_rows {
  uint32_t n, n_all; /* n_all: those that were left out in every format */
  char why[256];
} kernel_rows;

static void on_kernel(void *user, const vkf_validate_row *row) {
  kernel_rows *r = user;
  if (row->scope != VKF_SCOPE_OP) return;
  assert_true(row->left_out[0] ? row->n_cases == 0 : row->n_cases > 0 && row->ratio <= 1);
  r->n++;
  r->n_all += row->format == VKF_STORAGE_AUTO;
  snprintf(r->why, sizeof r->why, "%s", row->left_out);
}

/* A kernel has a row for each format, or one that says why not. */
static void test_what_is_left_out(void **state) {
  driver *d = *state;
  size_t n = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  for (size_t i = 0; i < n; i++) {
    if (variants[i].op != VKF_OP_APPEND && !variants[i].matrix.m) continue;
    uint32_t n_formats = 0;
    kernel_rows rows = {0};
    vkf_validation v = {
        .env = &d->context->env, .dev = d->device, .backend = d->device->backend, .on_row = on_kernel, .user = &rows};
    driver_ok(d, vkf_lab_validate_variant(&v, &variants[i]));
    for (uint32_t f = 0; f < VKF_FORMAT_COUNT; f++) n_formats += (variants[i].formats | 1u) >> f & 1;
    assert_int_equal(rows.n, rows.n_all ? 1 : n_formats);
    if (variants[i].matrix.m && !vkf_gpu_device_caps(d->device->gpu)->n_matrix_shapes)
      assert_true(rows.n_all && strstr(rows.why, "matri"));
  }
}

DRIVER_MAIN(DRIVER_TEST(test_what_is_left_out), DRIVER_TEST(test_golden_models), DRIVER_TEST(test_the_shipped_model),
            DRIVER_TEST(test_storage_formats), DRIVER_TEST(test_a_wide_feed_forward),
            DRIVER_TEST(test_a_thousand_tokens))
