/* The hazard check over real plans: it must find nothing in an encoder, a full pass and cached steps with beams and
 * edits, and must report any one of the recorder's barriers that is taken away.
 *
 * Which bytes a dispatch touches depends on sizes, not on data, so all inputs are zeros. Each program's first block
 * also runs alone and then again, because its first barrier is needed when the block follows itself. Kernels with two
 * stages, which no software driver picks, are forced in a plan of one node.
 */
#include "op/case_program.h"
#include "engine/opened.h"
#include "gpu/vk.h"
#include "kern/kern.h"
#include "support/golden.h"
#include "support/problems.h"

enum { B = 2, S = 6, R = 4, T = 3, KEYS = 8, MAX_EDITS = 8 };

static void run_program(driver *d, vkf_session *session, vkf_bucket *bucket, const vkf_plan_request *request,
                        const vkf_sizes *sizes) {
  static int32_t zeros[1 << 16]; /* more than any input at capacity */
  static float output[1 << 20];
  const vkf_backend_table *table = session->plan_cache.backend->table;
  const vkf_cached_plan *cached = NULL;
  vkf_dims dims = vkf_dims_make(sizes);
  driver_ok(d, vkf_engine_plan_get(&session->plan_cache, bucket, request, &cached));
  for (int i = 0; i < VKF_INPUT_COUNT; i++)
    driver_ok(d, vkf_engine_write_input(&session->plan_cache, cached, i, &dims, zeros));
  for (int i = 0; i < 2; i++) driver_ok(d, table->run(cached->program, &dims, 0, 1));
  driver_ok(d, vkf_engine_run_plan(&session->plan_cache, cached, &dims));
  for (uint32_t i = 0; i < cached->plan->n_slots; i++) {
    if (!cached->plan->slots[i].output) continue;
    assert_true(vkf_slot_elements(&cached->plan->slots[i]) <= VKF_COUNT(output));
    driver_ok(d, table->read(cached->program, i, &dims, output));
  }
}

/* Uses the model once for everything. */
static void use(driver *d, vkf_session *session) {
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  vkf_bucket *bucket = NULL;
  driver_ok(d, vkf_engine_bucket_get(&session->plan_cache, &(vkf_need_sizes){B, S, R, KEYS}, 0, &bucket));
  vkf_need_sizes caps = vkf_engine_bucket_sizes(bucket);
  const vkf_plan_request encode = {.stage = VKF_STAGE_ENCODE,
                                   .capacity = {.T = 1, .out = caps.B * caps.S},
                                   .hidden_states = true,
                                   .attentions = true,
                                   .mask = true},
                         full = {.stage = VKF_STAGE_DECODE,
                                 .capacity = {.T = T, .out = caps.R * T},
                                 .hidden_states = true,
                                 .attentions = true,
                                 .mask = true,
                                 .target_mask = true,
                                 .logits = info->has_head},
                         step = {.stage = VKF_STAGE_DECODE,
                                 .capacity = {.T = 1, .out = caps.R},
                                 .mask = true,
                                 .ancestry = true,
                                 .gather_out = true,
                                 .log_softmax = true,
                                 .max_edits = MAX_EDITS,
                                 .top_k = 4};
  if (info->architecture != VKF_ARCHITECTURE_DECODER)
    run_program(d, session, bucket, &encode, &(vkf_sizes){.B = B, .S = S, .R = R, .T = 1, .out = B * S});
  if (info->architecture == VKF_ARCHITECTURE_ENCODER) return;
  run_program(d, session, bucket, &full, &(vkf_sizes){.B = B, .S = S, .R = R, .T = T, .out = R * T});
  for (uint32_t i = 0; i < 3; i++)
    run_program(d, session, bucket, &step, &(vkf_sizes){.B = B, .S = S, .R = R, .T = 1, .past = T + i, .out = R});
}

/* Checks a folder's model. skip: the barrier to leave out, 0: none. Returns false if there are not so many. */
static bool check(driver *d, const char *folder, uint32_t skip, vkf_gpu_hazard *out) {
  vkf_model *model = NULL;
  driver_ok(d, vkf_model_open(d->device, folder, &model));
  vkf_gpu_device *gpu = session_of(model)->gpu;
  vkf_gpu_hazard_log(gpu, true);
  vkf_gpu_inject(gpu, &(vkf_gpu_faults){.skip_barrier = skip});
  for (int i = 0; i < 2; i++) use(d, session_of(model));
  bool left_out = skip == VKF_GPU_SKIP_HOST_BARRIER || gpu->root->faults.skip_barrier == 0;
  driver_ok(d, vkf_gpu_hazard_check(gpu, out));
  vkf_gpu_inject(gpu, &(vkf_gpu_faults){0});
  close_model(&model);
  return left_out;
}

static const char *const folders[] = {
    VKF_SOURCE_DIR "/tests/golden/marian", VKF_SOURCE_DIR "/tests/golden/transformer-preln-gelu",
    VKF_SOURCE_DIR "/tests/golden/transformer-lm-postln", VKF_SOURCE_DIR "/tests/golden/transformer-encoder-learned",
    VKF_SOURCE_DIR "/models/en-es"};
enum { N_FOLDERS = sizeof folders / sizeof *folders };

static void test_plans_are_clean(void **state) {
  for (int i = 0; i < N_FOLDERS; i++) {
    vkf_gpu_hazard hazard;
    check(*state, folders[i], 0, &hazard);
    if (hazard.found) fail_msg("%s: %s", folders[i], hazard.text);
  }
}

/* The layer is off, because it would report what is planted. The shipped model has the plans of its family's golden
 * folder, only more layers of them. */
static void test_every_barrier_is_needed(void **state) {
  if (driver_is_gpu()) skip(); /* copies to and from memory that is not mapped wait, too */
  driver *d = *state;
  for (int i = 0; i < N_FOLDERS - 1; i++) {
    vkf_gpu_hazard hazard;
    uint32_t skip = 1;
    if (!golden_is_in_share((size_t)i)) continue;
    for (; check(d, folders[i], skip, &hazard); skip++)
      if (!hazard.found) fail_msg("%s: barrier %u was left out and nothing was found", folders[i], skip);
    print_message("  %s: %u barriers\n", folders[i], skip - 1);
    assert_true(skip > 10);
    check(d, folders[i], VKF_GPU_SKIP_HOST_BARRIER, &hazard);
    assert_true(hazard.found);
  }
}

/* Runs a case on a variant twice. skip: the barrier to leave out, 0: none. Returns false if the variant doesn't fit. */
static bool check_case(driver *d, const vkf_case *c, const char *variant, uint32_t skip, vkf_gpu_hazard *out) {
  vkf_gpu_device *gpu = d->device->gpu;
  vkf_backend *backend = d->device->backend;
  vkf_case_program r;
  vkf_gpu_hazard_log(gpu, true);
  vkf_gpu_inject(gpu, &(vkf_gpu_faults){.skip_barrier = skip});
  driver_ok(d, vkf_case_program_init(backend, c, variant, &r));
  const bool fits = r.program;
  for (int i = 0; fits && i < 2; i++) driver_ok(d, backend->table->run(r.program, &r.run.dims, 0, 1));
  driver_ok(d, vkf_gpu_hazard_check(gpu, out));
  vkf_case_program_finish(&r);
  vkf_gpu_inject(gpu, &(vkf_gpu_faults){0});
  vkf_gpu_hazard_log(gpu, false);
  return fits;
}

/* The second stage waits for the first one, and the first one of the next run for the second. */
static void test_stages_wait_for_each_other(void **state) {
  if (driver_is_gpu()) skip(); /* copies to and from memory that is not mapped wait, too */
  driver *d = *state;
  size_t n = 0, n_cases = 0, n_checked = 0;
  const vkf_variant *variants = vkf_kern_variants(&n);
  for (size_t i = 0; i < n; i++) {
    char name[96];
    vkf_gpu_hazard hazard;
    if (!variants[i].combine && format_of(&variants[i]) != VKF_FORMAT_Q8) continue;
    const vkf_case *cases = vkf_op_cases(variants[i].op, &n_cases);
    vkf_case c = {0};
    bool found = false;
    vkf_kern_name(&variants[i], name, sizeof name);
    for (size_t k = 0; k < n_cases && !found; k++) {
      c = cases[k];
      c.format = format_of(&variants[i]);
      found = check_case(d, &c, name, 0, &hazard);
    }
    if (!found) continue;
    if (hazard.found) fail_msg("%s: %s", name, hazard.text);
    for (uint32_t skip = 1; skip <= 2; skip++) {
      check_case(d, &c, name, skip, &hazard);
      if (!hazard.found) fail_msg("%s: barrier %u was left out and nothing was found", name, skip);
    }
    n_checked++;
  }
  if (n_checked == 0) skip();
}

DRIVER_MAIN(DRIVER_TEST(test_plans_are_clean), DRIVER_TEST_PLAIN(test_every_barrier_is_needed),
            DRIVER_TEST_PLAIN(test_stages_wait_for_each_other))
