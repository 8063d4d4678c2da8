/* Every node of every model's plans against the scalar path, each fed the inputs that the device had: the golden
 * folders and the shipped model, full pass and cached step. err/bound over 1 is a fault of that block.
 */
#include <vkformer/lab.h>

#include "support/golden.h"

typedef struct rows {
  const char *model;
  size_t n, n_nodes;
  bool same_chain; /* both chains round at the same places: their distance is that of float32 sums */
} rows;

/* As far from each other as two right float32 computations of these small models may be: 2.3e-6 was the largest on
 * lavapipe on 22 November 2026. */
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
  rows r = {folder, 0, 0, params && !params->kv_cache};
  driver_ok(d, vkf_model_open_with(d->device, folder, params, &model));
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

/* Stored in fewer bits: the scalar path has the same weights, so bounds and drift are those of float32 sums. A cache in
 * f16 rounds once more, and numbers near a middle fall to either side. */
static void test_storage_formats(void **state) {
  static const vkf_model_params params[] = {
      {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_F16},
      {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_BF16},
      {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_INT8},
      {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_INT8, .kv_cache = VKF_STORAGE_F16}};
  static const char *const folders[] = {"marian", "t5", "llama"};
  char path[GOLDEN_PATH];
  for (size_t i = 0; i < VKF_COUNT(params); i++)
    for (size_t f = 0; f < VKF_COUNT(folders); f++)
      validate_stored(*state, golden_path(path, folders[f], "."), &params[i]);
}

DRIVER_MAIN(DRIVER_TEST(test_golden_models), DRIVER_TEST(test_the_shipped_model), DRIVER_TEST(test_storage_formats))
