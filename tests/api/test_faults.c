/* Memory runs out or the device is lost, at every point of a whole use of the library. Each time there must be an error
 * with a sentence, everything must be freed, and what is still open must work.
 *
 * The model is tiny, so that a use takes milliseconds. If a driver makes it slower, allocations are left out evenly,
 * and a line says how many were tested. VKF_SWEEP=full leaves none out: every number up to EVERY_UP_TO, then every
 * prime.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "support/missing.h"
#include "support/tiny_model.h"
#include "support/sessions.h"

enum { EVERY_UP_TO = 2000, SWEEP_SECONDS = 14 };

static char folder[] = "/tmp/vkf-faults-XXXXXX";

/* ---- memory that is counted and fails ---------------------------------------------------------------------------- */

typedef struct meter {
  uint64_t calls, fail_at; /* calls that ask for memory, counted from 1; fail_at 0: none fails */
  size_t live;
  char message[1024]; /* the sentence of the last use that failed */
} meter;

static void *meter_reallocate(void *user, void *old, size_t size) {
  enum { HEADER = 16 };
  meter *m = user;
  char *block = old ? (char *)old - HEADER : NULL;
  size_t before = 0;
  if (block) memcpy(&before, block, sizeof before);
  if (size == 0) {
    m->live -= before;
    free(block);
    return NULL;
  }
  if (++m->calls == m->fail_at) return NULL;
  block = realloc(block, size + HEADER);
  assert_non_null(block);
  memcpy(block, &size, sizeof size);
  m->live += size - before;
  return block + HEADER;
}

static bool is_prime(uint64_t n) {
  for (uint64_t d = 2; d * d <= n; d++)
    if (n % d == 0) return false;
  return n > 1;
}

/* The numbers of a sweep: all up to EVERY_UP_TO, then primes; fewer if time is short. */
typedef struct sweep {
  uint64_t n, last, begin_ns, n_run;
} sweep;

static sweep sweep_begin(uint64_t last) {
  return (sweep){.last = last, .begin_ns = vkf_clock_ns()};
}

static bool sweep_next(sweep *s) {
  double passed = (double)(vkf_clock_ns() - s->begin_ns) / 1e9;
  double one = s->n_run ? passed / (double)s->n_run : 0, left = SWEEP_SECONDS - passed;
  const char *how = getenv("VKF_SWEEP");
  double step = how && strcmp(how, "full") == 0 ? 1
                : left > 0                      ? one * (double)(s->last - s->n) / left
                                                : (double)s->last;
  s->n += step > 1 ? (uint64_t)step : 1;
  while (s->n > EVERY_UP_TO && s->n <= s->last && !is_prime(s->n)) s->n++;
  s->n_run += s->n <= s->last;
  return s->n <= s->last;
}

static void sweep_report(const sweep *s, const char *what, const char *device) {
  print_message("%s on %s: %llu of %llu failed one at a time\n", what, device, (unsigned long long)s->n_run,
                (unsigned long long)s->last);
}

/* ---- a use of the library ---------------------------------------------------------------------------------------- */

/* The results of run and generate, for comparison. */
typedef struct outcome {
  float logits[4 * TINY_VOCAB];
  int32_t sequences[2 * 8];
  size_t n_logits, n_sequences;
} outcome;

static vkf_status run_once(vkf_model *model, outcome *out) {
  static int32_t ids[] = {3, 4, 5, 2, 6, 2, 0, 0}, mask[] = {1, 1, 1, 1, 1, 1, 0, 0}, target[] = {1, 7, 1, 8};
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {2, 4}, ids},
                              {"attention_mask", VKF_I32, 2, {2, 4}, mask},
                              {"decoder_input_ids", VKF_I32, 2, {2, 2}, target}};
  const vkf_run_params params = {VKF_RUN_PARAMS_INIT, .hidden_states = 1, .attentions = 1};
  vkf_result *result = NULL;
  vkf_session *session = session_of(model);
  if (!session) return VKF_ERROR_MEMORY;
  vkf_status st = vkf_session_run(session, inputs, 3, &params, &result);
  if (st == VKF_OK) {
    const vkf_array *logits = vkf_result_find(result, "logits");
    out->n_logits = logits->shape[0] * logits->shape[1] * logits->shape[2];
    assert_true(out->n_logits <= VKF_COUNT(out->logits));
    memcpy(out->logits, logits->data, out->n_logits * sizeof(float));
  }
  vkf_result_destroy(&result);
  return st;
}

static vkf_status generate_once(vkf_model *model, vkf_token_fn on_token, void *user, outcome *out) {
  static int32_t ids[] = {3, 4, 5, 2, 6, 2, 7, 2};
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {2, 4}, ids}};
  const vkf_generate_params params = {
      VKF_GENERATE_PARAMS_INIT,
      .config_json = "{\"num_beams\": 2, \"max_new_tokens\": 6, \"min_new_tokens\": 6, \"repetition_penalty\": 1.5}",
      .on_token = on_token, .user = user};
  vkf_result *result = NULL;
  vkf_status st = vkf_session_generate(session_of(model), inputs, 1, &params, &result);
  if (st == VKF_OK) {
    const vkf_array *sequences = vkf_result_find(result, "sequences");
    out->n_sequences = sequences->shape[0] * sequences->shape[1];
    assert_true(out->n_sequences <= VKF_COUNT(out->sequences));
    memcpy(out->sequences, sequences->data, out->n_sequences * sizeof(int32_t));
  }
  vkf_result_destroy(&result);
  return st;
}

static vkf_status use_model(vkf_model *model, outcome *out) {
  vkf_status st = run_once(model, out);
  return st ? st : generate_once(model, NULL, NULL, out);
}

static void assert_same(const outcome *a, const outcome *b) {
  assert_int_equal(a->n_logits, b->n_logits);
  assert_int_equal(a->n_sequences, b->n_sequences);
  assert_memory_equal(a->logits, b->logits, a->n_logits * sizeof(float));
  assert_memory_equal(a->sequences, b->sequences, a->n_sequences * sizeof(int32_t));
}

/* Does everything from the context to the last result and closes it all. Checks that a failure has a message. */
static vkf_status whole_use(meter *m, const char *device, outcome *out) {
  const vkf_allocator allocator = {meter_reallocate, m};
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .allocator = &allocator};
  vkf_context *context = NULL;
  vkf_device *dev = NULL;
  vkf_model *model = NULL;
  vkf_status st = vkf_context_create(&params, &context);
  if (!st) st = vkf_device_open(context, device, &dev);
  if (!st) st = vkf_model_open(dev, folder, &model);
  if (!st) st = use_model(model, out);
  if (context) snprintf(m->message, sizeof m->message, "%s", last_message(context));
  if (context) assert_true((st == VKF_OK) == (m->message[0] == 0));
  close_model(&model);
  vkf_device_close(&dev);
  vkf_context_destroy(&context);
  return st;
}

/* ---- host memory ------------------------------------------------------------------------------------------------- */

static void every_allocation_of_a_use(const char *device) {
  meter m = {0};
  outcome expected = {0}, got = {0};
  assert_int_equal(whole_use(&m, device, &expected), VKF_OK);
  assert_int_equal(m.live, 0);
  sweep s = sweep_begin(m.calls);
  while (sweep_next(&s)) {
    m = (meter){.fail_at = s.n};
    vkf_status st = whole_use(&m, device, &got);
    if (st != VKF_ERROR_MEMORY || m.live != 0)
      fail_msg("allocation %llu of %llu: status \"%s\", %zu bytes left: %s", (unsigned long long)s.n,
               (unsigned long long)s.last, vkf_status_name(st), m.live, m.message);
  }
  m = (meter){0};
  assert_int_equal(whole_use(&m, device, &got), VKF_OK);
  assert_same(&got, &expected);
  sweep_report(&s, "host allocations of a whole use", device ? device : "the device under test");
}

/* Lets each allocation fail while a model works; then the same model must do the work. */
static void every_allocation_of_a_model_in_use(const char *device) {
  meter m = {0};
  const vkf_allocator allocator = {meter_reallocate, &m};
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .allocator = &allocator};
  vkf_context *context = NULL;
  vkf_device *dev = NULL;
  vkf_model *model = NULL;
  outcome expected = {0}, got = {0};
  assert_int_equal(vkf_context_create(&params, &context), VKF_OK);
  assert_int_equal(vkf_device_open(context, device, &dev), VKF_OK);
  size_t before = 0;
  uint64_t first = 0;
  for (int i = 0; i < 2; i++) { /* the first use makes the pipelines, which stay with the device */
    before = m.live;
    assert_int_equal(vkf_model_open(dev, folder, &model), VKF_OK);
    first = m.calls;
    assert_int_equal(use_model(model, &expected), VKF_OK);
    if (i == 0) close_model(&model);
  }
  sweep s = sweep_begin(m.calls - first);
  close_model(&model);
  while (sweep_next(&s)) {
    assert_int_equal(vkf_model_open(dev, folder, &model), VKF_OK);
    m.fail_at = m.calls + s.n;
    vkf_status st = use_model(model, &got);
    if (st != VKF_ERROR_MEMORY) fail_msg("allocation %llu: \"%s\"", (unsigned long long)s.n, vkf_status_name(st));
    assert_true(last_message(context)[0] != 0);
    m.fail_at = 0;
    got = (outcome){0};
    assert_int_equal(use_model(model, &got), VKF_OK);
    assert_same(&got, &expected);
    close_model(&model);
  }
  assert_int_equal(m.live, before);
  vkf_device_close(&dev);
  vkf_context_destroy(&context);
  assert_int_equal(m.live, 0);
  sweep_report(&s, "host allocations of a model in use", device ? device : "the device under test");
}

static void host_memory_on_ref(void **state) {
  (void)state;
  every_allocation_of_a_use("ref");
  every_allocation_of_a_model_in_use("ref");
}

static void host_memory_on_the_device(void **state) {
  (void)state;
  every_allocation_of_a_use(NULL);
  every_allocation_of_a_model_in_use(NULL);
}

/* ---- device memory ----------------------------------------------------------------------------------------------- */

typedef struct fixture {
  vkf_context *context;
  vkf_device *dev;
} fixture;

static void open_device(fixture *f) {
  *f = (fixture){0};
  assert_int_equal(vkf_context_create(NULL, &f->context), VKF_OK);
  assert_int_equal(vkf_device_open(f->context, NULL, &f->dev), VKF_OK);
  if (f->dev->gpu) return;
  vkf_device_close(&f->dev);
  vkf_context_destroy(&f->context);
  skip();
}

static void close_device(fixture *f) {
  uint64_t now = 0, peak = 0;
  vkf_device_memory(f->dev, &now, &peak);
  assert_int_equal(now, 0);
  vkf_device_close(&f->dev);
  vkf_context_destroy(&f->context);
}

static void every_device_allocation(void **state) {
  (void)state;
  fixture f;
  vkf_model *model = NULL;
  outcome expected = {0}, got = {0};
  unsigned n_failed = 0;
  open_device(&f);
  assert_int_equal(vkf_model_open(f.dev, folder, &model), VKF_OK);
  assert_int_equal(use_model(model, &expected), VKF_OK);
  close_model(&model);
  for (vkf_status st = VKF_ERROR_DEVICE_MEMORY; st != VKF_OK;) {
    vkf_gpu_inject(f.dev->gpu, &(vkf_gpu_faults){.fail_allocation = n_failed + 1});
    st = vkf_model_open(f.dev, folder, &model);
    if (!st) st = use_model(model, &got);
    vkf_gpu_inject(f.dev->gpu, &(vkf_gpu_faults){0});
    if (st != VKF_OK) {
      assert_int_equal(st, VKF_ERROR_DEVICE_MEMORY);
      assert_true(last_message(f.context)[0] != 0);
      n_failed++;
    }
    if (!model) assert_int_equal(vkf_model_open(f.dev, folder, &model), VKF_OK);
    got = (outcome){0};
    assert_int_equal(use_model(model, &got), VKF_OK);
    assert_same(&got, &expected);
    close_model(&model);
    uint64_t now = 0, peak = 0;
    vkf_device_memory(f.dev, &now, &peak);
    assert_int_equal(now, 0);
  }
  assert_true(n_failed > 3);
  print_message("device allocations of a model in use: %u failed one at a time\n", n_failed);
  close_device(&f);
}

/* ---- a device that is lost --------------------------------------------------------------------------------------- */

typedef struct loser {
  vkf_device *dev;
  int n_tokens;
} loser;

/* After the third token, lets the next submit lose the device. */
static int lose(void *user, size_t row, int32_t token) {
  loser *l = user;
  (void)row;
  (void)token;
  if (++l->n_tokens == 3) vkf_gpu_inject(l->dev->gpu, &(vkf_gpu_faults){.lose_submit = 1});
  return 0;
}

static void expect_lost_words(const fixture *f) {
  const char *message = last_message(f->context);
  if (!strstr(message, "lost") && !strstr(message, "LOST")) fail_msg("expected a lost device, found: %s", message);
}

static void lost_while_generating(void **state) {
  (void)state;
  fixture f;
  vkf_model *model = NULL, *second = NULL;
  outcome expected = {0}, got = {0};
  open_device(&f);
  assert_int_equal(vkf_model_open(f.dev, folder, &model), VKF_OK);
  assert_int_equal(use_model(model, &expected), VKF_OK);
  loser l = {f.dev, 0};
  assert_int_equal(generate_once(model, lose, &l, &got), VKF_ERROR_DEVICE_LOST);
  assert_int_equal(l.n_tokens, 3);
  expect_lost_words(&f);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(generate_once(model, NULL, NULL, &got), VKF_ERROR_DEVICE_LOST);
    assert_int_equal(run_once(model, &got), VKF_ERROR_DEVICE_LOST);
    expect_lost_words(&f);
    assert_int_equal(vkf_model_open(f.dev, folder, &second), VKF_ERROR_DEVICE_LOST);
    assert_null(second);
  }
  close_model(&model);
  vkf_device_close(&f.dev);
  assert_int_equal(vkf_device_open(f.context, NULL, &f.dev), VKF_OK);
  assert_int_equal(vkf_model_open(f.dev, folder, &model), VKF_OK);
  got = (outcome){0};
  assert_int_equal(use_model(model, &got), VKF_OK);
  assert_same(&got, &expected);
  close_model(&model);
  close_device(&f);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static int make_folder(void **state) {
  (void)state;
  return tiny_folder_make(folder);
}

static int remove_folder(void **state) {
  (void)state;
  return tiny_folder_remove(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(host_memory_on_ref),
      cmocka_unit_test(host_memory_on_the_device),
      cmocka_unit_test(every_device_allocation),
      cmocka_unit_test(lost_while_generating),
  };
  int missing = driver_missing();
  return missing ? missing : cmocka_run_group_tests(tests, make_folder, remove_folder);
}
