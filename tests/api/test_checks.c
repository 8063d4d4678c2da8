/* The checks of drivers pass on these drivers and find a driver that lies. Lies are facts that claim more than the
 * device has, and shaders with another instruction, as if the driver had compiled them so.
 */
#include "support/driver.h"

#include <glob.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vkformer/lab.h>

#include "gpu/vk.h"
#include "op/case_program.h"
#include "shared/constants.h"
#include "support/folder.h"
#include "support/range.h"
#include "tune/checks.h"
#include "tune/probe.h"
#include "tune/reproducible.h"
#include "tune/tuned.h"
#include "vkop/internal.h"

enum { MAX_MODULES = 1024, MAX_WORDS = 4096 };

#define ALL_CHECKS ((1u << VKF_N_CHECKS) - 1)

static bool can_be_tried(const vkf_device *device, vkf_check check) {
  char text[64];
  const vkf_caps *caps = vkf_gpu_device_caps(device->gpu);
  return vkf_tune_check_text(check, caps, text, sizeof text) &&
         !vkf_tune_check_not_done(check, caps, vkf_kern_spirv_table);
}

static void everything_holds(void **state) {
  driver *d = *state;
  vkf_check_result results[VKF_N_CHECKS] = {{0}};
  driver_ok(d, vkf_tune_checks_run(d->device->gpu, vkf_kern_spirv_table, ALL_CHECKS, results));
  for (vkf_check c = 0; c < VKF_N_CHECKS; c++) {
    const bool tried = c != VKF_CHECK_OF_REPRODUCIBLE && can_be_tried(d->device, c);
    if (results[c].state != (tried ? VKF_CHECK_PASSED : VKF_CHECK_ABSENT))
      fail_msg("%s: state %d, %s", vkf_tune_check_row(c)->name, results[c].state, results[c].text);
  }
  assert_int_equal(results[VKF_CHECK_OF_SHUFFLE].state, VKF_CHECK_PASSED);
  assert_int_equal(results[VKF_CHECK_OF_TIMESTAMPS].state, VKF_CHECK_PASSED);
}

/* Checks with several subgroups require full subgroups, as kernels do. */
static void full_subgroups_are_required(void **state) {
  driver *d = *state;
  const vkf_gpu_device *gpu = d->device->gpu;
  vkf_check_result results[VKF_N_CHECKS] = {{0}};
  size_t n = 0;
  driver_ok(d, vkf_tune_checks_run(d->device->gpu, vkf_kern_spirv_table, 1u << VKF_CHECK_OF_BALLOT, results));
  for (const vkf_gpu_pipeline *p = gpu->root->pipelines; p; p = p->next) {
    if (strcmp(p->name, "probe_ballot") != 0) continue;
    const bool has_several = p->constants[VKF_C_WORKGROUP] > p->constants[VKF_C_SUBGROUP_SIZE];
    assert_int_equal(p->subgroup_full, has_several && vkf_gpu_device_caps(gpu)->subgroup_full);
    n += has_several;
  }
  assert_true(n > 0);
}

/* Only the checks that are asked for run. */
static void the_others_are_left_alone(void **state) {
  driver *d = *state;
  vkf_check_result results[VKF_N_CHECKS] = {{0}};
  driver_ok(d, vkf_tune_checks_run(d->device->gpu, vkf_kern_spirv_table, 1u << VKF_CHECK_OF_ROUNDING, results));
  for (vkf_check c = 0; c < VKF_N_CHECKS; c++)
    assert_int_equal(results[c].state, c == VKF_CHECK_OF_ROUNDING ? VKF_CHECK_PASSED : VKF_CHECK_ABSENT);
}

/* ---- lies -------------------------------------------------------------------------------------------------------- */

/* Fails the test unless this check failed, with these words, and else only the checks whose bits are in `also`. */
static void expect_failed_with(const vkf_check_result *results, vkf_check check, uint32_t also, const char *words) {
  for (vkf_check c = 0; c < VKF_N_CHECKS; c++)
    if ((results[c].state == VKF_CHECK_FAILED) != (c == check || (also >> c & 1)))
      fail_msg("%s instead of %s: state %d, %s", vkf_tune_check_row(c)->name, vkf_tune_check_row(check)->name,
               results[c].state, results[c].text);
  if (!strstr(results[check].text, words)) fail_msg("expected '%s', found '%s'", words, results[check].text);
}

static void expect_failed(const vkf_check_result *results, vkf_check check, const char *words) {
  expect_failed_with(results, check, 0, words);
}

/* Returns the bits of the checks that run this module. */
static uint32_t checks_of_module(const vkf_device *device, const char *module) {
  uint32_t checks = 0;
  for (vkf_check c = 0; c < VKF_N_CHECKS; c++) {
    const char *own = vkf_tune_check_row(c)->module;
    if (own && !strcmp(own, module) && can_be_tried(device, c)) checks |= 1u << c;
  }
  return checks;
}

/* Instructions of SPIR-V. */
enum {
  NOP = 0,
  EXT_INST = 12,
  CONSTANT = 43,
  IMUL = 132,
  FMUL = 133,
  FDIV = 136,
  BITWISE_AND = 199,
  BARRIER = 224,
  BROADCAST = 337,
  SHUFFLE = 345,
  SHUFFLE_XOR = 346,
  GROUP_ADD = 350,
  GROUP_MAX = 358,
  MATRIX_LOAD = 4457,
  MATRIX_STORE = 4458
};
/* Of GLSL.std.450. */
enum { SQRT = 31, INVERSE_SQRT = 32, UNPACK_UNORM = 61, UNPACK_HALF = 62 };

typedef struct lie {
  vkf_check check;
  const char *module;
  uint32_t op, becomes;      /* instructions */
  uint32_t ext, ext_becomes; /* EXT_INST: the number of the instruction; CONSTANT: the value */
  uint32_t one_for_all;      /* this word of all such instructions becomes that of the first; 0: none */
} lie;

/* Replaces the instructions in a module. Returns how many it replaced. */
static uint32_t plant(const lie *l, uint32_t *words, size_t n) {
  uint32_t planted = 0, of_first = 0;
  for (size_t at = 5; at < n; at += words[at] >> 16) {
    const uint32_t length = words[at] >> 16, ext_at = l->op == EXT_INST ? 4 : l->op == CONSTANT ? 3 : 0;
    if ((words[at] & 0xffff) != l->op || (ext_at && words[at + ext_at] != l->ext)) continue;
    if (!planted++) of_first = words[at + l->one_for_all];
    if (l->one_for_all)
      words[at + l->one_for_all] = of_first;
    else if (ext_at)
      words[at + ext_at] = l->ext_becomes;
    else if (l->becomes == NOP)
      for (uint32_t i = 0; i < length; i++) words[at + i] = 1u << 16 | NOP;
    else
      words[at] = length << 16 | l->becomes;
  }
  return planted;
}

/* Runs all checks with the lie, on a new device, because pipelines are kept by the names of their modules. */
static void check_with(const lie *l, vkf_check_result results[VKF_N_CHECKS]) {
  static struct vkf_kern_spirv modules[MAX_MODULES];
  static uint32_t words[MAX_WORDS];
  driver d = {NULL, NULL, 0};
  driver_ok(&d, driver_try(&d, DRIVER_PLAIN, driver_print)); /* the validation layer would report the lie */
  assert_between(vkf_kern_spirv_count, 1, MAX_MODULES - 1);
  memcpy(modules, vkf_kern_spirv_table, (vkf_kern_spirv_count + 1) * sizeof *modules);
  struct vkf_kern_spirv *m = modules;
  while (strcmp(m->name, l->module)) m++;
  assert_between(m->n_words, 6, MAX_WORDS);
  memcpy(words, m->words, m->n_words * 4);
  m->words = words;
  assert_true(plant(l, words, m->n_words) > 0);
  driver_ok(&d, vkf_tune_checks_run(d.device->gpu, modules, ALL_CHECKS, results));
  driver_close(&d);
}

static void tell(const lie *l) {
  vkf_check_result results[VKF_N_CHECKS] = {{0}};
  check_with(l, results);
  expect_failed(results, l->check, ": expected ");
}

static void drivers_that_compile_something_else(void **state) {
  static const lie lies[] = {
      {VKF_CHECK_OF_SHUFFLE, "probe_shuffle", SHUFFLE, SHUFFLE_XOR, 0, 0, 0},
      {VKF_CHECK_OF_BALLOT, "probe_ballot", BROADCAST, SHUFFLE_XOR, 0, 0, 0},
      {VKF_CHECK_OF_ARITHMETIC, "probe_arithmetic", GROUP_ADD, GROUP_MAX, 0, 0, 0},
      {VKF_CHECK_OF_SHARED, "probe_shared", BARRIER, NOP, 0, 0, 0},
      {VKF_CHECK_OF_HALF, "probe_half", EXT_INST, EXT_INST, UNPACK_HALF, UNPACK_UNORM, 0},
      {VKF_CHECK_OF_ROUNDING, "probe_rounding", FDIV, FMUL, 0, 0, 0},
      {VKF_CHECK_OF_ROUNDING, "probe_rounding", EXT_INST, EXT_INST, SQRT, INVERSE_SQRT, 0},
  };
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(lies); i++) /* on a GPU a small workgroup may be right without a barrier */
    if (!driver_is_gpu() || lies[i].check != VKF_CHECK_OF_SHARED) tell(&lies[i]);
}

/* If the device's quotients and roots are wrong by 2 to 4 units in the last place in each direction, those of the
 * reproducible mode still have the right bits; if they are wrong by 50 units, they do not. */
static void drivers_that_divide_badly(void **state) {
  enum { SCALE = 0x4b800000 }; /* 2^24 */
  static const lie larger = {VKF_CHECK_OF_ROUNDING, "probe_rounding", CONSTANT, CONSTANT, SCALE, SCALE + 2, 0};
  static const lie smaller = {VKF_CHECK_OF_ROUNDING, "probe_rounding", CONSTANT, CONSTANT, SCALE, SCALE - 4, 0};
  static const lie worse = {VKF_CHECK_OF_ROUNDING, "probe_rounding", CONSTANT, CONSTANT, SCALE, SCALE + 50, 0};
  vkf_check_result results[VKF_N_CHECKS] = {{0}};
  (void)state;
  check_with(&larger, results);
  assert_int_equal(results[VKF_CHECK_OF_ROUNDING].state, VKF_CHECK_PASSED);
  check_with(&smaller, results);
  assert_int_equal(results[VKF_CHECK_OF_ROUNDING].state, VKF_CHECK_PASSED);
  tell(&worse);
}

/* Drivers that are right with one subgroup and wrong with several: the lanes of each are counted from 0 on. */
static void drivers_that_know_one_subgroup(void **state) {
  static const lie lies[] = {{VKF_CHECK_OF_SUBGROUP_SIZE, "probe_subgroup", IMUL, BITWISE_AND, 0, 0, 0},
                             {VKF_CHECK_OF_ARITHMETIC, "probe_arithmetic", IMUL, BITWISE_AND, 0, 0, 0}};
  (void)state;
  for (size_t i = 0; i < VKF_COUNT(lies); i++) {
    vkf_check_result results[VKF_N_CHECKS] = {{0}};
    check_with(&lies[i], results);
    expect_failed(results, lies[i].check, " in 4 subgroups of ");
  }
}

/* Lies about cooperative matrices, which few drivers have. */
static void drivers_that_compile_other_matrices(void **state) {
  static const lie lies[] = {
      {VKF_CHECK_OF_MATRIX, "probe_matrix", MATRIX_LOAD, MATRIX_LOAD, 0, 0, 4},   /* ignores the layout of a load */
      {VKF_CHECK_OF_MATRIX, "probe_matrix", MATRIX_LOAD, MATRIX_LOAD, 0, 0, 5},   /* ignores its stride */
      {VKF_CHECK_OF_MATRIX, "probe_matrix", MATRIX_STORE, MATRIX_STORE, 0, 0, 3}, /* ignores the layout of a store */
  };
  driver d = {NULL, NULL, 0};
  (void)state;
  driver_ok(&d, driver_try(&d, DRIVER_PLAIN, driver_print));
  const bool has_matrices = can_be_tried(d.device, VKF_CHECK_OF_MATRIX);
  driver_close(&d);
  if (!has_matrices) skip();
  for (size_t i = 0; i < VKF_COUNT(lies); i++) tell(&lies[i]);
}

/* Changes the facts so that they claim more than the driver has, and expects that the check fails. */
static void claim_more(vkf_check check, const char *words, void (*change)(vkf_caps *caps)) {
  vkf_check_result results[VKF_N_CHECKS] = {{0}};
  driver d = {NULL, NULL, 0};
  driver_ok(&d, driver_try(&d, DRIVER_PLAIN, driver_print));
  vkf_caps caps = *vkf_gpu_device_caps(d.device->gpu);
  caps.subgroup_size_control = false;
  change(&caps);
  vkf_gpu_device_lower(d.device->gpu, &caps);
  const uint32_t wanted = check == VKF_CHECK_OF_SUBGROUP_SIZE ? 1u << check : ALL_CHECKS;
  driver_ok(&d, vkf_tune_checks_run(d.device->gpu, vkf_kern_spirv_table, wanted, results));
  expect_failed(results, check, words);
  driver_close(&d);
}

static void twice_the_lanes(vkf_caps *caps) {
  caps->subgroup_size = caps->subgroup_min = caps->subgroup_max = 2 * caps->subgroup_size;
}

static void a_slow_clock(vkf_caps *caps) {
  caps->timestamp_ns /= 2;
}

static void a_fast_clock(vkf_caps *caps) {
  caps->timestamp_ns *= 2;
}

static void facts_that_say_too_much(void **state) {
  (void)state;
  claim_more(VKF_CHECK_OF_SUBGROUP_SIZE, "word 0 of invocation 0 in subgroups of ", twice_the_lanes);
  claim_more(VKF_CHECK_OF_TIMESTAMPS, "ms between the ends of two submits", a_slow_clock);
  claim_more(VKF_CHECK_OF_TIMESTAMPS, "ms between the ends of two submits", a_fast_clock);
}

/* If the driver cannot make a pipeline, only the checks that use it fail. */
static void shaders_that_do_not_compile(void **state) {
  (void)state;
  for (vkf_check check = 0; check < VKF_N_CHECKS; check++) {
    const char *module = vkf_tune_check_row(check)->module;
    vkf_check_result results[VKF_N_CHECKS] = {{0}};
    driver d = {NULL, NULL, 0};
    driver_ok(&d, driver_try(&d, DRIVER_PLAIN, driver_print));
    if (module && can_be_tried(d.device, check)) {
      vkf_gpu_inject(d.device->gpu, &(vkf_gpu_faults){.fail_pipeline = module});
      driver_ok(&d, vkf_tune_checks_run(d.device->gpu, vkf_kern_spirv_table, ALL_CHECKS, results));
      expect_failed_with(results, check, checks_of_module(d.device, module), module);
      const char *call = vkf_gpu_device_caps(d.device->gpu)->shader_objects ? "vkCreateShadersEXT returned"
                                                                            : "vkCreateComputePipelines returned";
      if (!strstr(results[check].text, call)) fail_msg("%s", results[check].text);
    }
    driver_close(&d);
  }
}

/* If the driver's unpacking failed its check, kernels unpack 16-bit numbers themselves: every finite one to the bit. */
enum { FINITE = 2 * 0x7c00, FINITE_WIDTH = 256 };

static uint16_t finite_half(uint32_t i) {
  return (uint16_t)(i < FINITE / 2 ? i : 0x8000 | (i - FINITE / 2));
}

static void load_halves(void *user, uint32_t index, uint32_t first, uint32_t n, float *dst) {
  (void)user, (void)index;
  for (uint32_t i = 0; i < n * FINITE_WIDTH; i++) dst[i] = vkf_f16_to_f32(finite_half(first * FINITE_WIDTH + i));
}

static void halves_are_read_by_hand(void **state) {
  (void)state;
  enum { ROWS = FINITE / FINITE_WIDTH };
  static float found[FINITE];
  const vkf_case c = {.name = "halves",
                      .op = VKF_OP_EMBED,
                      .params = {.embed = {.rows = VKF_DIM_R, .width = FINITE_WIDTH, .n_ids = ROWS, .scale = 1}},
                      .sizes = {.B = 1, .S = 1, .R = ROWS, .T = 1, .out = 1},
                      .format = VKF_FORMAT_F16};
  driver d = {NULL, NULL, 0};
  vkf_case_program p = {0};
  driver_ok(&d, driver_try(&d, DRIVER_PLAIN, driver_print));
  vkf_caps caps = *vkf_gpu_device_caps(d.device->gpu);
  vkf_tune_check_mark_failed(&caps, VKF_CHECK_OF_HALF);
  vkf_gpu_device_lower(d.device->gpu, &caps);
  driver_ok(&d, vkf_case_make(&d.context->env, &c, &p.run));
  const vkf_node *node = &p.run.plan.nodes[0];
  p.run.weights.load = load_halves;
  int32_t *ids = (int32_t *)(uintptr_t)p.run.plan.slots[node->in[VKF_EMBED_IDS]].data;
  for (int32_t i = 0; i < ROWS; i++) ids[i] = i;
  vkf_backend *backend = d.device->backend;
  driver_ok(&d, vkf_case_program_ready(&p, backend, NULL));
  assert_int_equal(p.program->nodes[0].dispatch[0].constants[VKF_C_HALVES_BY_HAND], 1);
  driver_ok(&d, backend->table->run(p.program, &p.run.dims, 0, 1));
  driver_ok(&d, backend->table->read(p.program, node->out[0], &p.run.dims, found));
  for (uint32_t i = 0; i < FINITE; i++) {
    const float expected = vkf_f16_to_f32(finite_half(i));
    if (memcmp(&found[i], &expected, sizeof expected) != 0 && (expected != 0 || found[i] != 0))
      fail_msg("%04x is %.9g, expected %.9g", finite_half(i), found[i], expected);
  }
  vkf_case_program_finish(&p);
  driver_close(&d);
}

/* If the driver cannot make a kernel, the next one takes its place, unless the kernel was asked for by name. */
static void kernels_that_do_not_compile(void **state) {
  (void)state;
  char first[128], module[64];
  vkf_case_program p;
  size_t n;
  const vkf_case *c = vkf_op_cases(VKF_OP_MATMUL, &n);
  driver d = {NULL, NULL, 0};
  driver_ok(&d, driver_try(&d, DRIVER_PLAIN, driver_print));
  vkf_backend *backend = d.device->backend;
  driver_ok(&d, vkf_case_program_init(backend, c, NULL, &p));
  snprintf(first, sizeof first, "%s", backend->table->node_variant(p.program, 0, NULL));
  vkf_case_program_finish(&p);
  vkf_kern_module(vkf_kern_find(first), 0, &(vkf_problem){.op = VKF_OP_MATMUL}, vkf_gpu_device_caps(d.device->gpu),
                  module, sizeof module);
  vkf_gpu_pipelines_trim(d.device->gpu, 0);
  vkf_gpu_inject(d.device->gpu, &(vkf_gpu_faults){.fail_pipeline = module});
  driver_ok(&d, vkf_case_program_init(backend, c, NULL, &p));
  assert_string_not_equal(backend->table->node_variant(p.program, 0, NULL), first);
  driver_ok(&d, backend->table->run(p.program, &p.run.dims, 0, 1));
  vkf_case_program_finish(&p);
  assert_int_equal(vkf_case_program_init(backend, c, first, &p), VKF_ERROR_DEVICE);
  vkf_case_program_finish(&p);
  if (!strstr(d.context->env.message, module)) fail_msg("%s", d.context->env.message);
  driver_close(&d);
}

/* A device that is lost during the checks counts as no failure of any check. */
static void a_lost_device_refutes_nothing(void **state) {
  (void)state;
  vkf_check_result results[VKF_N_CHECKS] = {{0}};
  driver d = {NULL, NULL, 0};
  driver_ok(&d, driver_try(&d, DRIVER_PLAIN, driver_print));
  vkf_gpu_inject(d.device->gpu, &(vkf_gpu_faults){.lose_submit = 1});
  assert_int_equal(vkf_tune_checks_run(d.device->gpu, vkf_kern_spirv_table, ALL_CHECKS, results),
                   VKF_ERROR_DEVICE_LOST);
  for (vkf_check c = 0; c < VKF_N_CHECKS; c++) assert_int_equal(results[c].state, VKF_CHECK_ABSENT);
  driver_close(&d);
}

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

static vkf_status try_with_cache(driver *d, const char *folder, bool deterministic) {
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .cache_folder = folder, .deterministic = deterministic};
  memset(d, 0, sizeof *d);
  assert_int_equal(vkf_context_create(&params, &d->context), VKF_OK);
  return vkf_device_open(d->context, NULL, &d->device);
}

static void open_with_cache(driver *d, const char *folder) {
  driver_ok(d, try_with_cache(d, folder, false));
}

static void finish_cache(const char *folder) {
  char pattern[512];
  glob_t compiled; /* compiled kernels; some drivers have none */
  snprintf(pattern, sizeof pattern, "%s/pipelines-*.bin", folder);
  if (glob(pattern, 0, NULL, &compiled) == 0) {
    for (size_t i = 0; i < compiled.gl_pathc; i++) remove(compiled.gl_pathv[i]);
    globfree(&compiled);
  }
  assert_int_equal(folder_remove(folder, "tuned.json", "lock"), 0);
}

/* Replaces the finding about the shuffle in the cache. */
static void keep_of_shuffle(const driver *d, const char *found) {
  vkf_tuned_check check = {"", ""};
  const vkf_caps *caps = vkf_gpu_device_caps(d->device->gpu);
  assert_true(vkf_tune_check_text(VKF_CHECK_OF_SHUFFLE, caps, check.check, sizeof check.check));
  snprintf(check.found, sizeof check.found, "%s", found);
  driver_ok(d, vkf_tune_keep_checks(&d->device->tuning, &check, 1));
}

static const char *kept_of_shuffle(const driver *d) {
  char text[64];
  assert_true(vkf_tune_check_text(VKF_CHECK_OF_SHUFFLE, vkf_gpu_device_caps(d->device->gpu), text, sizeof text));
  return vkf_tune_found(&d->device->tuning, text);
}

/* Puts a finding about the shuffle into the cache and opens the device again. */
static void reopen_with(driver *d, const char *folder, const char *found) {
  keep_of_shuffle(d, found);
  driver_close(d);
  open_with_cache(d, folder);
}

static const char ended_text[] =
    "the process that ran it died, or its device was lost (it is tried again without "
    "tuned.json in the cache folder)";

static void expect_no_shuffle(const driver *d, const char *words) {
  const vkf_caps *caps = vkf_gpu_device_caps(d->device->gpu);
  assert_false(caps->subgroup_shuffle || d->device->info.has_subgroup_shuffle);
  assert_int_equal(caps->failed_checks, 1u << VKF_CHECK_OF_SHUFFLE);
  assert_int_equal(d->device->tuning.checks[VKF_CHECK_OF_SHUFFLE].state, VKF_CHECK_FAILED);
  assert_string_equal(d->device->tuning.checks[VKF_CHECK_OF_SHUFFLE].text, words);
}

/* A failure that is kept removes the fact whenever the device is opened again. */
static void a_kept_failure_counts(void **state) {
  (void)state;
  char folder[] = "/tmp/vkformer-checks-XXXXXX";
  driver d;
  assert_non_null(mkdtemp(folder));
  open_with_cache(&d, folder);
  assert_string_equal(kept_of_shuffle(&d), "");
  keep_of_shuffle(&d, "as planted");
  assert_true(vkf_gpu_device_caps(d.device->gpu)->subgroup_shuffle);
  driver_close(&d);
  open_with_cache(&d, folder);
  expect_no_shuffle(&d, "as planted");
  driver_close(&d);
  finish_cache(folder);
}

static pid_t ended_process(void) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  assert_int_equal(waitpid(gone, NULL, 0), gone);
  return gone;
}

/* A process dies among several checks, then in one of them alone, then in that one again. Only the last death counts as
 * a failure, because the user may have ended the others. */
static void a_check_that_ends_the_process(void **state) {
  (void)state;
  char folder[] = "/tmp/vkformer-checks-XXXXXX", under_way[64];
  const pid_t gone = ended_process();
  driver d;
  assert_non_null(mkdtemp(folder));
  open_with_cache(&d, folder);
  const struct {
    const char *mark;
    int process;
  } marks[] = {{"with others", getpid()}, {"with others", gone},     {"with others", 0},
               {"alone", getpid()},       {"alone again", getpid()}, {"alone", gone}};
  for (size_t i = 0; i < VKF_COUNT(marks); i++) { /* the check runs again and passes */
    snprintf(under_way, sizeof under_way, "begun %s by process %d", marks[i].mark, marks[i].process);
    reopen_with(&d, folder, under_way);
    assert_string_equal(kept_of_shuffle(&d), "");
    assert_true(d.device->info.has_subgroup_shuffle);
  }
  snprintf(under_way, sizeof under_way, "begun alone again by process %d", gone);
  keep_of_shuffle(&d, under_way);
  for (int i = 0; i < 2; i++) {
    driver_close(&d);
    open_with_cache(&d, folder);
    expect_no_shuffle(&d, ended_text);
  }
  driver_close(&d);
  finish_cache(folder);
}

/* A mark has the start time of its process, because the process of a restarted container has the number 1 each time. */
static void the_number_of_a_process_comes_again(void **state) {
  (void)state;
#ifdef __linux__ /* elsewhere the number is all that is known of a process */
  static const char fields[] =
      "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
      "%llu";
  char folder[] = "/tmp/vkformer-checks-XXXXXX", mark[96];
  unsigned long long start = 0;
  driver d;
  FILE *file = fopen("/proc/self/stat", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, fields, &start), 1);
  fclose(file);
  assert_non_null(mkdtemp(folder));
  open_with_cache(&d, folder);
  snprintf(mark, sizeof mark, "begun alone again by process %d since %llu", getpid(), start);
  reopen_with(&d, folder, mark);
  assert_string_equal(kept_of_shuffle(&d), ""); /* the check ran again and passed */
  snprintf(mark, sizeof mark, "begun alone again by process %d since %llu", getpid(), start - 1);
  reopen_with(&d, folder, mark);
  expect_no_shuffle(&d, ended_text);
  driver_close(&d);
  finish_cache(folder);
#endif
}

/* A check fails if it loses the device twice: among all checks, and then alone. A lack of memory is no failure. */
static void a_check_that_loses_the_device(void **state) {
  (void)state;
  char folder[] = "/tmp/vkformer-checks-XXXXXX", ended[64], kept[64];
  const vkf_gpu_faults lost = {.lose_submit = 1}, short_of_memory = {.fail_allocation = 1};
  const struct {
    const char *before;
    const vkf_gpu_faults *fault;
    vkf_status status;
    const char *after;
  } steps[] = {{"put off", &short_of_memory, VKF_ERROR_DEVICE_MEMORY, "put off"},
               {"put off", &lost, VKF_ERROR_DEVICE_LOST, "begun with others by process 0"},
               {"begun with others by process 0", &short_of_memory, VKF_ERROR_DEVICE_MEMORY, "put off"},
               {"begun with others by process 0", &lost, VKF_ERROR_DEVICE_LOST, "begun alone by process 0"},
               {ended, &short_of_memory, VKF_ERROR_DEVICE_MEMORY, "put off"},
               {ended, &lost, VKF_ERROR_DEVICE_LOST, "begun alone again by process 0"}};
  driver d;
  snprintf(ended, sizeof ended, "begun alone by process %d", ended_process());
  assert_non_null(mkdtemp(folder));
  snprintf(kept, sizeof kept, "%s/tuned.json", folder);
  for (size_t i = 0; i < VKF_COUNT(steps); i++) {
    remove(kept); /* else a failure that was kept would remove the fact */
    open_with_cache(&d, folder);
    keep_of_shuffle(&d, steps[i].before);
    d.device->tuning.checks[VKF_CHECK_OF_SHUFFLE].state = VKF_CHECK_ABSENT; /* as at an opening */
    vkf_gpu_inject(d.device->gpu, steps[i].fault);
    assert_int_equal(vkf_tune_probe_checks(&d.device->tuning, false), steps[i].status);
    assert_string_equal(kept_of_shuffle(&d), steps[i].after);
    assert_non_null(strstr(vkf_context_message(d.context), steps[i].fault == &lost ? "LOST" : "memory"));
    driver_close(&d);
  }
  open_with_cache(&d, folder);
  expect_no_shuffle(&d, ended_text);
  driver_close(&d);
  finish_cache(folder);
}

/* Runs outside the common checks are marked, too: the check of the reproducible mode, and the timing of kernels, which
 * only lavapipe of Mesa 23 or newer has. */
static void what_runs_alone_and_ends_the_process(void **state) {
  (void)state;
  char folder[] = "/tmp/vkformer-checks-XXXXXX";
  const vkf_gpu_faults lost = {.lose_submit = 1}, short_of_memory = {.fail_allocation = 1};
  vkf_tuned_check of_mode = {"", ""}, of_timing = {"timing of matmul:64,256,256", "begun alone by process 0"};
  driver d;
  assert_non_null(mkdtemp(folder));
  open_with_cache(&d, folder);
  vkf_tune_reproducible_text(&d.device->tuning, of_mode.check, sizeof of_mode.check);
  vkf_gpu_inject(d.device->gpu, &short_of_memory);
  assert_int_equal(vkf_tune_probe_reproducible(&d.device->tuning), VKF_ERROR_DEVICE_MEMORY);
  assert_string_equal(vkf_tune_found(&d.device->tuning, of_mode.check), "put off");
  vkf_gpu_inject(d.device->gpu, &lost);
  assert_int_equal(vkf_tune_probe_reproducible(&d.device->tuning), VKF_ERROR_DEVICE_LOST);
  assert_string_equal(vkf_tune_found(&d.device->tuning, of_mode.check), "begun alone by process 0");
  driver_close(&d);
  open_with_cache(&d, folder);
  assert_int_equal(vkf_tune_probe_reproducible(&d.device->tuning), VKF_ERROR_UNSUPPORTED);
  assert_non_null(strstr(vkf_context_message(d.context), "the process that ran it died"));
  vkf_caps caps = *vkf_gpu_device_caps(d.device->gpu);
  caps.driver_version = 26u << 22;
  caps.uniform_loads = true;
  vkf_gpu_device_lower(d.device->gpu, &caps);
  driver_ok(&d, vkf_tune_keep_checks(&d.device->tuning, &of_timing, 1));
  const size_t n_times = d.device->tuning.rows.n_times;
  driver_ok(&d, vkf_tune_probe_kernels(&d.device->tuning));
  assert_int_equal(d.device->tuning.rows.n_times, n_times);
  driver_close(&d);
  finish_cache(folder);
}

/* If the first start with the reproducible mode was ended, the next start does not refuse the mode. */
static void a_start_that_was_ended_refuses_no_mode(void **state) {
  (void)state;
  char folder[] = "/tmp/vkformer-checks-XXXXXX";
  static const struct {
    const char *mark;
    vkf_status status;
  } starts[] = {{"begun alone by process %d", VKF_OK}, {"begun alone again by process %d", VKF_ERROR_UNSUPPORTED}};
  vkf_tuned_check check = {"", ""};
  driver d;
  assert_non_null(mkdtemp(folder));
  for (size_t i = 0; i < VKF_COUNT(starts); i++) {
    driver_ok(&d, try_with_cache(&d, folder, true));
    vkf_tune_reproducible_text(&d.device->tuning, check.check, sizeof check.check);
    assert_string_equal(vkf_tune_found(&d.device->tuning, check.check), "");
    snprintf(check.found, sizeof check.found, starts[i].mark, ended_process());
    driver_ok(&d, vkf_tune_keep_checks(&d.device->tuning, &check, 1));
    driver_close(&d);
    assert_int_equal(try_with_cache(&d, folder, true), starts[i].status);
    if (starts[i].status) assert_non_null(strstr(vkf_context_message(d.context), "tried again without tuned.json"));
    driver_close(&d);
  }
  finish_cache(folder);
}

DRIVER_MAIN(DRIVER_TEST(everything_holds), DRIVER_TEST(full_subgroups_are_required),
            DRIVER_TEST(the_others_are_left_alone), cmocka_unit_test(drivers_that_compile_something_else),
            cmocka_unit_test(drivers_that_divide_badly), cmocka_unit_test(drivers_that_know_one_subgroup),
            cmocka_unit_test(drivers_that_compile_other_matrices), cmocka_unit_test(halves_are_read_by_hand),
            cmocka_unit_test(facts_that_say_too_much), cmocka_unit_test(shaders_that_do_not_compile),
            cmocka_unit_test(kernels_that_do_not_compile), cmocka_unit_test(a_lost_device_refutes_nothing),
            cmocka_unit_test(a_kept_failure_counts), cmocka_unit_test(a_check_that_ends_the_process),
            cmocka_unit_test(the_number_of_a_process_comes_again), cmocka_unit_test(a_check_that_loses_the_device),
            cmocka_unit_test(what_runs_alone_and_ends_the_process),
            cmocka_unit_test(a_start_that_was_ended_refuses_no_mode))
