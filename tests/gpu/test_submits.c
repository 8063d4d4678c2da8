/* Decoding makes one submit a step, or several if one would take too long, with the same results. It allocates no
 * memory between steps, even with beams and edits of logits. */
#include "engine/opened.h"
#include "gpu/vk.h"
#include "support/driver.h"
#include "vkop/internal.h"

#define MODEL VKF_SOURCE_DIR "/tests/golden/marian"
enum { MAX_STEPS = 64, NEW_TOKENS = 12 };

/* At each token: how many submits and allocations there were. */
typedef struct watch {
  driver *d;
  const vkf_session *session;
  uint64_t submits[MAX_STEPS], allocations[MAX_STEPS];
  uint32_t n;
} watch;

static int on_token(void *user, size_t row, int32_t token) {
  watch *w = user;
  (void)token;
  if (row || w->n == MAX_STEPS) return 0;
  w->submits[w->n] = w->session->gpu->submitted;
  w->allocations[w->n++] = w->d->device->ctx->env.n_allocations;
  return 0;
}

/* Generates two rows of 12 ids after the first; the caller destroys the result. */
static vkf_result *generate(driver *d, const char *config, double submit_ns, watch *w) {
  static int32_t ids[] = {3, 4, 5, 2, 6, 2, 7, 2};
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {2, 4}, ids}};
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  *w = (watch){.d = d};
  driver_ok(d, vkf_model_open(d->device, MODEL, &model));
  w->session = session_of(model);
  if (submit_ns > 0) ((vkop_backend *)w->session->backend)->submit_ns = submit_ns;
  driver_ok(d, vkf_session_generate(session_of(model), inputs, 1,
                                    &(vkf_generate_params){VKF_GENERATE_PARAMS_INIT, .config_json = config,
                                                           .on_token = on_token, .user = w},
                                    &result));
  close_model(&model);
  assert_true(w->n >= NEW_TOKENS);
  return result;
}

static const char beams[] =
    "{\"num_beams\": 3, \"max_new_tokens\": 12, \"min_new_tokens\": 12, "
    "\"no_repeat_ngram_size\": 2, \"repetition_penalty\": 1.2}",
                  greedy[] =
                      "{\"num_beams\": 1, \"max_new_tokens\": 12, \"min_new_tokens\": 12, "
                      "\"no_repeat_ngram_size\": 2}";

static void steps_allocate_nothing(void **state) {
  driver *d = *state;
  const char *const configs[] = {beams, greedy};
  for (size_t c = 0; c < VKF_COUNT(configs); c++) {
    watch w;
    vkf_result *result = generate(d, configs[c], 0, &w);
    for (uint32_t i = 1; i < w.n; i++) { /* the first program is that of the first step */
      assert_int_equal(w.allocations[i], w.allocations[0]);
      assert_int_equal(w.submits[i], w.submits[i - 1] + 1);
    }
    vkf_result_destroy(&result);
  }
}

static void long_runs_are_parted(void **state) {
  driver *d = *state;
  watch w;
  vkf_result *whole = generate(d, beams, 0, &w), *parted = generate(d, beams, 1, &w);
  for (uint32_t i = 1; i < w.n; i++) assert_true(w.submits[i] > w.submits[i - 1] + 20); /* each node alone */
  assert_int_equal(vkf_result_count(whole), vkf_result_count(parted));
  for (size_t i = 0; i < vkf_result_count(whole); i++) {
    const vkf_array *a = vkf_result_at(whole, i), *b = vkf_result_find(parted, a->name);
    assert_non_null(b);
    assert_int_equal(a->shape[0], b->shape[0]);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->data, b->data, 4 * a->shape[0] * (a->rank > 1 ? a->shape[1] : 1));
  }
  vkf_result_destroy(&whole);
  vkf_result_destroy(&parted);
}

static PFN_vkQueueSubmit submit_of_driver;
static uint32_t submits_left; /* until one fails */

static VKAPI_ATTR VkResult VKAPI_CALL submit_or_fail(VkQueue queue, uint32_t n, const VkSubmitInfo *infos,
                                                     VkFence fence) {
  return submits_left-- ? submit_of_driver(queue, n, infos, fence) : VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

/* The driver takes some parts of a run and refuses one: what it took must have ended before the next run. */
static void a_refused_part_leaves_nothing_behind(void **state) {
  driver *d = *state;
  static int32_t ids[] = {3, 4, 5, 2}, target_ids[] = {2, 3};
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {1, 4}, ids},
                              {"decoder_input_ids", VKF_I32, 2, {1, 2}, target_ids}};
  vkf_model *model = NULL;
  vkf_result *before = NULL, *refused = NULL, *after = NULL;
  driver_ok(d, vkf_model_open(d->device, MODEL, &model));
  vkf_gpu_device *gpu = session_of(model)->gpu;
  ((vkop_backend *)session_of(model)->backend)->submit_ns = 1;
  driver_ok(d, vkf_session_run(session_of(model), inputs, 2, NULL, &before));
  submit_of_driver = gpu->vk.QueueSubmit;
  gpu->vk.QueueSubmit = submit_or_fail;
  submits_left = 2;
  assert_int_equal(vkf_session_run(session_of(model), inputs, 2, NULL, &refused), VKF_ERROR_DEVICE_MEMORY);
  assert_null(refused);
  assert_int_equal(gpu->completed, gpu->submitted);
  gpu->vk.QueueSubmit = submit_of_driver;
  driver_ok(d, vkf_session_run(session_of(model), inputs, 2, NULL, &after));
  const vkf_array *a = vkf_result_find(before, "logits"), *b = vkf_result_find(after, "logits");
  assert_true(a && b && a->rank == 3);
  assert_memory_equal(a->data, b->data, 4 * a->shape[1] * a->shape[2]);
  vkf_result_destroy(&before);
  vkf_result_destroy(&after);
  close_model(&model);
}

DRIVER_MAIN(DRIVER_TEST(steps_allocate_nothing), DRIVER_TEST(long_runs_are_parted),
            DRIVER_TEST(a_refused_part_leaves_nothing_behind))
