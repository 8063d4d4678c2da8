/* Profiles: what is timed, by the device's clock and by the host's. Profiling changes no result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <vkformer/lab.h>

#include "engine/engine.h"
#include "support/missing.h"
#include "support/sessions.h"

#define MODEL VKF_SOURCE_DIR "/tests/golden/transformer-postln-relu"

enum { TOKENS = 6 };

typedef struct seen {
  const char *clock; /* of every row */
  uint64_t n_rows, n_runs, n_events;
  double ns, event_ns, flops, last_begin;
  bool in_order, has_matmul;
} seen;

static void on_row(void *user, const vkf_profile_row *row) {
  seen *s = user;
  assert_string_equal(vkf_clock_name(row->clock), s->clock);
  assert_true(row->n_runs > 0 && row->bytes > 0);
  assert_true(row->block[0] && row->node[0] && row->variant[0]);
  s->has_matmul = s->has_matmul || strcmp(row->op, "matmul") == 0;
  s->n_rows++;
  s->n_runs += row->n_runs;
  s->ns += row->ns;
  s->flops += row->flops;
}

static void on_event(void *user, const vkf_profile_event *e) {
  seen *s = user;
  s->n_events++;
  s->event_ns += e->ns;
  s->in_order = s->in_order && e->begin_ns >= s->last_begin;
  s->last_begin = e->begin_ns;
}

static void ok(vkf_context *context, vkf_status status) {
  if (status != VKF_OK) fail_msg("%s", last_message(context));
}

/* Sets the ids of greedy search and what a profile counted. clock NULL: no profile. without_stamps: as on a device
 * without time stamps. */
static void generate(const char *selector, const char *clock, bool without_stamps, int32_t ids[TOKENS], seen *s) {
  static int32_t source[] = {3, 4, 5, 6, 7, 2};
  const vkf_array input = {"input_ids", VKF_I32, 2, {1, TOKENS}, source};
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT,
                                      .config_json = "{\"max_new_tokens\": 5, \"min_new_tokens\": 5}"};
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  *s = (seen){.clock = clock, .in_order = true};
  ok(context, vkf_context_create(NULL, &context));
  ok(context, vkf_device_open(context, selector, &device));
  if (without_stamps) ((vkf_caps *)(uintptr_t)vkf_gpu_device_caps(device->gpu))->timestamps = false;
  if (clock) ok(context, vkf_device_profile_begin(device, 1));
  ok(context, vkf_model_open(device, MODEL, &model));
  ok(context, vkf_session_generate(session_of(model), &input, 1, &params, &result));
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  assert_non_null(sequences);
  assert_int_equal(sequences->shape[1], TOKENS);
  memcpy(ids, sequences->data, TOKENS * sizeof *ids);
  vkf_device_profile_read(device, on_row, on_event, s);
  if (clock) assert_int_equal(vkf_device_profile_begin(device, 0), VKF_ERROR_ARGUMENT);
  vkf_result_destroy(&result);
  close_model(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
}

static void test_clocks(void **state) {
  (void)state;
  int32_t plain[TOKENS], ids[TOKENS];
  seen none, stamps, apart, scalar;
  generate(NULL, NULL, false, plain, &none);
  assert_int_equal(none.n_rows + none.n_events, 0);
  generate(NULL, "device", false, ids, &stamps);
  assert_memory_equal(ids, plain, sizeof ids);
  generate(NULL, "submit", true, ids, &apart);
  assert_memory_equal(ids, plain, sizeof ids);
  generate("ref", "submit", false, ids, &scalar);
  assert_memory_equal(ids, plain, sizeof ids);
  const seen *all[] = {&stamps, &apart, &scalar};
  for (size_t i = 0; i < 3; i++) {
    assert_true(all[i]->has_matmul && all[i]->in_order);
    assert_true(all[i]->ns > 0 && all[i]->event_ns == all[i]->ns);
    assert_int_equal(all[i]->n_events, all[i]->n_runs);
    assert_int_equal(all[i]->n_runs, stamps.n_runs); /* the same plans */
    assert_true(all[i]->flops == stamps.flops);
  }
}

static void on_pass(void *user, const vkf_pass_info *pass) {
  vkf_pass_info *passes = user;
  passes[pass->stage == VKF_STAGE_DECODE] = *pass;
}

/* Passes are compared at the sizes of the call. With cost_only they have the same counts and no comparison. */
static void test_verify(void **state) {
  (void)state;
  static int32_t source[] = {3, 4, 5, 6, 7, 2, 3, 4};
  const vkf_array input = {"input_ids", VKF_I32, 2, {2, 4}, source};
  const vkf_generate_params generate = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"max_new_tokens\": 2}"};
  vkf_verify_params params = {VKF_VERIFY_PARAMS_INIT, .generate = &generate};
  vkf_pass_info compared[2] = {{0}}, counted[2] = {{0}};
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *model = NULL;
  ok(context, vkf_context_create(NULL, &context));
  ok(context, vkf_device_open(context, NULL, &device));
  ok(context, vkf_model_open(device, MODEL, &model));
  ok(context, vkf_model_verify(model, &input, 1, &params, on_pass, compared));
  params.cost_only = 1;
  ok(context, vkf_model_verify(model, &input, 1, &params, on_pass, counted));
  assert_int_equal(compared[0].n_tokens, 8);
  assert_int_equal(compared[1].n_tokens, 2);
  for (int i = 0; i < 2; i++) {
    assert_true(compared[i].ratio > 0 && compared[i].ratio <= 1);
    assert_true(counted[i].ratio == 0);
    assert_true(compared[i].flops > 0 && compared[i].flops == counted[i].flops &&
                compared[i].bytes == counted[i].bytes);
  }
  close_model(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_clocks), cmocka_unit_test(test_verify)};
  int missing = driver_missing();
  return missing ? missing : cmocka_run_group_tests(tests, NULL, NULL);
}
