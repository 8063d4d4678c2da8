/* Every node of every model's plans against the scalar path, each fed the inputs that the device had: the golden
 * folders and the shipped model, full pass and cached step. err/bound over 1 is a fault of that block.
 */
#include "support/golden.h"

typedef struct rows {
  const char *model;
  size_t n;
} rows;

static void on_row(void *user, const vkf_validate_row *row) {
  rows *r = user;
  assert_string_equal(row->scope, "block");
  assert_true(row->n_cases > 0);
  if (!(row->ratio <= 1)) fail_msg("%s, %s: err/bound is %g", r->model, row->name, row->ratio);
  r->n++;
}

static void validate(driver *d, const char *folder) {
  vkf_model *model = NULL;
  double worst = -1;
  rows r = {folder, 0};
  driver_ok(d, vkf_model_open(d->device, folder, &model));
  driver_ok(d, vkf_device_validate(d->device, model, on_row, &r, &worst));
  assert_true(r.n >= 2 && worst >= 0 && worst <= 1);
  print_message("  %s: %zu blocks, largest err/bound %.3f\n", folder, r.n, worst);
  vkf_model_close(&model);
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

DRIVER_MAIN(DRIVER_TEST(test_golden_models), DRIVER_TEST(test_the_shipped_model))
