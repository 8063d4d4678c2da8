/* Barriers of whole models: two runs in a row, with every barrier that was recorded for them left out once. The
 * software drivers compute the same without barriers, so the log of the device is the judge.
 */
#include "support/golden.h"

static const char config[] = "{\"num_beams\": 2, \"max_new_tokens\": 4}";

enum { MAX_PROGRAMS = 2 };

typedef struct counter {
  unsigned n_programs, barriers[MAX_PROGRAMS]; /* a program, in any order */
} counter;

/* At the end a model tells what was recorded: "decode B1 ...: head: 4 dispatches, 4 barriers, recorded 1, ...". */
static void count_barriers(void *user, vkf_log_level level, const char *line) {
  counter *c = user;
  unsigned dispatches, barriers;
  const char *at = strstr(line, " dispatches, ");
  (void)level;
  if (!at) return;
  while (at > line && at[-1] != ' ') at--;
  if (sscanf(at, "%u dispatches, %u barriers", &dispatches, &barriers) != 2) return;
  if (strstr(line, ": embed: ")) c->n_programs++; /* its first block */
  assert_in_range(c->n_programs, 1, MAX_PROGRAMS);
  c->barriers[c->n_programs - 1] += barriers;
}

/* The barrier that begins a program comes where another program, or the same one, has ended: the barriers inside of
 * that one may have done its work. */
static bool begins_a_program(const counter *c, unsigned barrier) {
  return barrier == 1 || barrier == 1 + c->barriers[0] || barrier == 1 + c->barriers[1];
}

/* What a model does twice. */
typedef struct work {
  const char *folder;
  bool generates;
} work;

static void do_work(driver *d, const work *w, vkf_model *model, const vkf_array *inputs, size_t n) {
  const vkf_generate_params params = {.config_json = config};
  vkf_result *result = NULL;
  driver_ok(d, w->generates ? vkf_model_generate(model, inputs, n, &params, &result)
                            : vkf_model_run(model, inputs, n, NULL, &result));
  vkf_result_destroy(&result);
}

/* The work twice with the barrier of this number left out (0: none), replayed by the checker. */
static vkf_gpu_hazard work_twice(driver *d, const work *w, uint32_t skip_barrier) {
  vkf_gpu_device *gpu = d->device->gpu;
  vkf_gpu_hazard hazard;
  vkf_model *model = NULL;
  vkf_result *expected = NULL;
  vkf_array inputs[GOLDEN_MAX_INPUTS];
  vkf_gpu_hazard_log(gpu, true);
  vkf_gpu_inject(gpu, &(vkf_gpu_faults){.skip_barrier = skip_barrier});
  golden_open(d, w->folder, &model, &expected);
  size_t n = golden_inputs(expected, inputs);
  for (int i = 0; i < 2; i++) do_work(d, w, model, inputs, n);
  driver_ok(d, vkf_gpu_hazard_check(gpu, &hazard));
  vkf_result_destroy(&expected);
  vkf_model_close(&model);
  vkf_gpu_inject(gpu, &(vkf_gpu_faults){0});
  vkf_gpu_hazard_log(gpu, false);
  return hazard;
}

static void check_work(const work *w) {
  counter c = {0};
  driver d;
  /* Without the validation layer: hazards are planted here. */
  unsetenv("VKF_VALIDATION");
  const vkf_context_params params = {.log = count_barriers, .log_user = &c, .log_level = VKF_LOG_INFO};
  assert_int_equal(vkf_context_create(&params, &d.context), VKF_OK);
  driver_ok(&d, vkf_device_open(d.context, NULL, &d.device));
  vkf_gpu_hazard none = work_twice(&d, w, 0);
  if (none.found) fail_msg("%s, with every barrier: %s", w->folder, none.text);
  const counter all = c; /* of the run with every barrier */
  const unsigned n_barriers = all.barriers[0] + all.barriers[1];
  unsigned n_found = 0;
  assert_in_range(n_barriers, 10, 1000);
  for (uint32_t i = 1; i <= n_barriers; i++) {
    memset(&c, 0, sizeof c);
    bool found = work_twice(&d, w, i).found;
    if (!found && !begins_a_program(&all, i)) fail_msg("%s, without barrier %u: nothing is found", w->folder, i);
    n_found += found;
  }
  print_message("  %s: a hazard is found without any of %u of %u barriers\n", w->folder, n_found, n_barriers);
  vkf_device_close(&d.device);
  vkf_context_destroy(&d.context);
}

static void test_every_barrier_is_needed(void **state) {
  (void)state;
  static const work works[] = {
      {"transformer-encoder-learned", false}, {"transformer-lm-postln", true}, {"transformer-postln-relu", true}};
  for (size_t i = 0; i < VKF_COUNT(works); i++) check_work(&works[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_barrier_is_needed)};
  int missing = driver_missing();
  return missing ? missing : cmocka_run_group_tests(tests, NULL, NULL);
}
