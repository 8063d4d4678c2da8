/* The schedule of generation requests. The result of a request depends neither on the order nor on the other requests.
 * A seat that is free goes to the next request while others run, also to one that comes later. The bytes for caches
 * limit the seats: a request that does not fit waits; one that can never fit is refused with both numbers. */
#include <math.h>

#include "support/golden.h"
#include "task/schedule.h"

enum { N = 7, MOST = 32, VOCAB_BEGIN = 3, VOCAB = 50 };

static const uint32_t lengths[N] = {3, 17, 1, 9, 12, 5, 17};
static const char *const folders[] = {"llama", "bart"};
static const char *const configs[] = {
    "{\"max_new_tokens\": 6, \"num_beams\": 1, \"eos_token_id\": null}",
    "{\"max_new_tokens\": 6, \"num_beams\": 3, \"eos_token_id\": null, \"no_repeat_ngram_size\": 2}",
    "{\"max_new_tokens\": 6, \"num_beams\": 1, \"do_sample\": true, \"num_return_sequences\": 2, \"seed\": 3, "
    "\"eos_token_id\": null}"};

/* A run of the schedule: `at_once` of the requests order[0], order[1] .. come at first, then one after each step. */
typedef struct run {
  driver *d;
  vkf_model *model;
  vkf_session *session;
  vkf_generation_config config;
  bool has_encoder;
  const uint32_t *order;
  uint32_t n, at_once, n_come, n_asked;
  uint32_t ends_after[N]; /* ids after which the caller ends a request; 0: never */
  uint32_t n_ids[N], n_running, most_running;
  uint32_t beside[N]; /* how many others ran when a request came */
  uint32_t taken[N], n_taken, refused[N], n_refused;
  vkf_skip_reason reason;
  char why[1100];
  int32_t ids[N][MOST];
  int32_t results[N][3 * MOST];
  uint32_t rows[N], length[N];
  float logprobs[N][3 * MOST]; /* of the ids of each row */
} run;

static vkf_status next(void *user, vkf_request *out, bool *there) {
  run *r = user;
  r->n_asked++;
  *there = r->n_come < r->n && (r->n_come < r->at_once || r->n_asked > r->at_once + 2 * r->n_come || !r->n_running);
  if (!*there) return VKF_OK;
  const uint32_t i = r->order[r->n_come++];
  *out = (vkf_request){.user = &r->n_ids[i], .number = i, .input = {.line = i}};
  if (r->has_encoder)
    out->input.source = r->ids[i], out->input.n_source = lengths[i];
  else
    out->input.prompt = r->ids[i], out->input.n_prompt = lengths[i];
  r->beside[i] = r->n_running++;
  r->most_running = VKF_MAX(r->most_running, r->n_running);
  return VKF_OK;
}

static uint32_t number_of(const run *r, const vkf_request *request) {
  return (uint32_t)((uint32_t *)request->user - r->n_ids);
}

static vkf_answer on_token(void *user, const vkf_request *request, uint32_t copy, int32_t id) {
  run *r = user;
  const uint32_t i = number_of(r, request);
  assert_true(id >= 0 || r->config.num_beams > 1);
  if (copy == 0) r->n_ids[i]++;
  return r->ends_after[i] && r->n_ids[i] >= r->ends_after[i] ? VKF_ANSWER_END : VKF_ANSWER_CONTINUE;
}

static vkf_status take(void *user, const vkf_request *request, const vkf_generated *results,
                       const vkf_logprobs *logprobs, uint32_t row) {
  run *r = user;
  const uint32_t i = number_of(r, request);
  r->n_running--;
  r->taken[r->n_taken++] = i;
  r->rows[i] = results->n_rows;
  r->length[i] = results->length;
  assert_true(results->n_rows * results->length <= 3 * MOST);
  memcpy(r->results[i], results->sequences, results->n_rows * results->length * sizeof(int32_t));
  for (uint32_t k = 0; r->config.num_beams == 1 && k < results->n_rows; k++)
    memcpy(r->logprobs[i] + k * MOST, logprobs->chosen + (size_t)(row + k) * logprobs->capacity,
           logprobs->lengths[row + k] * sizeof(float));
  return VKF_OK;
}

static vkf_status refuse(void *user, const vkf_request *request, vkf_skip_reason reason) {
  run *r = user;
  r->n_running--;
  r->refused[r->n_refused++] = number_of(r, request);
  r->reason = reason;
  snprintf(r->why, sizeof r->why, "%s", r->session->env->message);
  return VKF_OK;
}

static void open_run(run *r, driver *d, const char *folder, const char *config, uint64_t kv_cache_bytes) {
  char path[GOLDEN_PATH];
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .kv_cache_bytes = kv_cache_bytes};
  *r = (run){.d = d};
  for (uint32_t i = 0; i < N * MOST; i++) r->ids[i / MOST][i % MOST] = (int32_t)(VOCAB_BEGIN + i * 7 % VOCAB);
  driver_ok(d, vkf_model_open(d->device, golden_path(path, folder, "."), &r->model));
  driver_ok(d, vkf_model_get_info(r->model, &info));
  driver_ok(d, vkf_session_create(r->model, &params, &r->session));
  r->has_encoder = info.architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  assert_int_equal(vkf_engine_derive_generation(r->session, NULL, NULL, config, &r->config), VKF_OK);
}

static void close_run(run *r) {
  vkf_decode_generation_finish(&r->config);
  vkf_session_destroy(&r->session);
  vkf_model_close(&r->model);
}

static vkf_status go(run *r, uint32_t n_seats, const uint32_t *order, uint32_t n, uint32_t at_once) {
  r->order = order;
  r->n = n;
  r->at_once = at_once;
  r->n_come = r->n_asked = r->n_taken = r->n_refused = r->n_running = r->most_running = 0;
  memset(r->n_ids, 0, sizeof r->n_ids);
  return vkf_task_schedule_run(&(vkf_schedule){.session = r->session,
                                               .config = &r->config,
                                               .batch_size = n_seats,
                                               .top_logprobs = r->config.num_beams == 1,
                                               .next = next,
                                               .on_token = on_token,
                                               .take = take,
                                               .refuse = refuse,
                                               .user = r});
}

static const uint32_t orders[][N] = {
    {0, 1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1, 0}, {3, 0, 6, 2, 5, 1, 4}, {2, 0, 5, 3, 4, 1, 6} /* ever longer */};

/* In any order, with any number of seats, all at once or one after the other, each request gets what it gets alone. */
static void any_company(void **state) {
  for (size_t k = 0; k < VKF_COUNT(folders) * VKF_COUNT(configs); k++) {
    run alone, together;
    open_run(&alone, *state, folders[k % VKF_COUNT(folders)], configs[k / VKF_COUNT(folders)], 0);
    open_run(&together, *state, folders[k % VKF_COUNT(folders)], configs[k / VKF_COUNT(folders)], 0);
    for (uint32_t i = 0; i < N; i++) driver_ok(*state, go(&alone, 1, &i, 1, 1));
    for (uint32_t way = 0; way < 5; way++) {
      static const uint32_t n_seats[] = {3, 2, N, 4, 4}, at_once[] = {N, N, N, 2, 1}, order[] = {0, 1, 2, 0, 3};
      driver_ok(*state, go(&together, n_seats[way], orders[order[way]], N, at_once[way]));
      assert_int_equal(together.n_taken, N);
      for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(together.rows[i], alone.rows[i]);
        assert_int_equal(together.length[i], alone.length[i]);
        assert_memory_equal(together.results[i], alone.results[i], sizeof alone.results[i]);
        assert_memory_equal(together.logprobs[i], alone.logprobs[i], sizeof alone.logprobs[i]);
      }
    }
    close_run(&together);
    close_run(&alone);
  }
}

/* Two seats; every request except request 1 ends after one id, so that they take turns while request 1 runs. */
static void seats_are_given_on(void **state) {
  static const uint32_t order[N] = {1, 0, 2, 3, 4, 5, 6};
  run r;
  open_run(&r, *state, "llama", "{\"max_new_tokens\": 9, \"num_beams\": 1, \"eos_token_id\": null}", 0);
  for (uint32_t i = 0; i < N; i++) r.ends_after[i] = i == 1 ? 0 : 1;
  driver_ok(*state, go(&r, 2, order, N, N));
  assert_int_equal(r.n_taken, N);
  assert_int_equal(r.taken[N - 1], 1); /* the first one ends last, after the N - 1 others */
  assert_int_equal(r.n_ids[1], 9);
  assert_int_equal(r.length[0], lengths[0] + 1);
  /* The same if the others come while it runs. */
  driver_ok(*state, go(&r, 2, order, N, 1));
  assert_int_equal(r.n_taken, N);
  assert_true(r.n_taken > 1 && r.taken[0] != 1);
  close_run(&r);
}

/* With an encoder the next requests start only when a quarter of the seats is free (two of five), and share one run of
 * the encoder. */
static void encoders_wait_for_seats(void **state) {
  static const char *const of[] = {"marian", "llama"};
  for (uint32_t k = 0; k < 2; k++) {
    run r;
    open_run(&r, *state, of[k], "{\"max_new_tokens\": 9, \"num_beams\": 1, \"eos_token_id\": null}", 0);
    const uint32_t *order = orders[1]; /* the longest first, so that every seat fits all */
    for (uint32_t i = 0; i < N; i++) r.ends_after[order[i]] = i + 1; /* one after each step */
    driver_ok(*state, go(&r, 5, order, N, N));
    assert_int_equal(r.n_taken, N);
    assert_int_equal(r.beside[order[5]], k == 0 ? 3 : 4);
    assert_int_equal(r.beside[order[6]], 4);
    close_run(&r);
  }
}

/* Returns the bytes that a seat for a request takes, from the message that refuses it. */
static uint64_t bytes_of(driver *d, uint32_t request) {
  run r;
  unsigned long long needed = 0, given = 0;
  open_run(&r, d, "llama", configs[0], 1);
  driver_ok(d, go(&r, 4, &request, 1, 1));
  assert_int_equal(r.n_refused, 1);
  assert_int_equal(r.refused[0], request);
  assert_int_equal(sscanf(strstr(r.why, "needed"), "needed %llu bytes, given %llu", &needed, &given), 2);
  assert_int_equal(given, 1);
  close_run(&r);
  return needed;
}

static void bytes_bound_the_seats(void **state) {
  run free_run, r;
  const uint64_t small = bytes_of(*state, 5), large = bytes_of(*state, 1);
  if (large <= small)
    fail_msg("expected a prompt of 17 tokens to need more than %llu bytes", (unsigned long long)small);
  open_run(&free_run, *state, "llama", configs[0], 0);
  driver_ok(*state, go(&free_run, N, orders[0], N, N));
  /* Room for one large request or two small ones: all run, never more at a time than fit. The large one waits until the
   * small ones before it are done. */
  open_run(&r, *state, "llama", configs[0], VKF_MAX(large, 2 * small));
  static const uint32_t order[] = {5, 0, 2, 1, 6};
  driver_ok(*state, go(&r, 4, order, VKF_COUNT(order), VKF_COUNT(order)));
  assert_int_equal(r.n_taken, VKF_COUNT(order));
  assert_int_equal(r.n_refused, 0);
  assert_int_equal(r.most_running, 2); /* two, or one and one that waits */
  assert_int_equal(r.taken[VKF_COUNT(order) - 2], 1);
  for (size_t i = 0; i < VKF_COUNT(order); i++)
    assert_memory_equal(r.results[order[i]], free_run.results[order[i]], sizeof r.results[0]);
  close_run(&r);
  /* Room for one small request: the large ones are refused, all others run. */
  open_run(&r, *state, "llama", configs[0], small);
  driver_ok(*state, go(&r, N, orders[0], N, N));
  assert_int_equal(r.n_taken + r.n_refused, N);
  for (uint32_t i = 0; i < r.n_refused; i++) assert_true(lengths[r.refused[i]] > lengths[5]);
  for (uint32_t i = 0; i < r.n_taken; i++)
    assert_memory_equal(r.results[r.taken[i]], free_run.results[r.taken[i]], sizeof r.results[0]);
  assert_true(r.n_refused >= 2);
  close_run(&r);
  close_run(&free_run);
}

/* Three ids are allowed, none of them twice, so some prompts leave none for the first new id, others none for the
 * second. These requests fail and say why; the others get what they get alone, also in the seat of one that failed. */
static void a_search_fails_alone(void **state) {
  static const int32_t allowed[] = {3, 4, 10};
  char config[2048], *at = config;
  run alone, together;
  uint32_t n_failed = 0, left[N];
  at += sprintf(at,
                "{\"max_new_tokens\": 2, \"do_sample\": true, \"num_return_sequences\": 2, \"eos_token_id\": null, "
                "\"no_repeat_ngram_size\": 1, \"suppress_tokens\": [0");
  for (int32_t id = 1; id < 160; id++)
    if (id != allowed[0] && id != allowed[1] && id != allowed[2]) at += sprintf(at, ", %d", id);
  sprintf(at, "]}");
  open_run(&alone, *state, "llama", config, 0);
  open_run(&together, *state, "llama", config, 0);
  for (uint32_t i = 0; i < N; i++) {
    left[i] = 3;
    for (uint32_t k = 0; k < lengths[i]; k++)
      left[i] -= alone.ids[i][k] == allowed[0] || alone.ids[i][k] == allowed[1] || alone.ids[i][k] == allowed[2];
    driver_ok(*state, go(&alone, 1, &i, 1, 1));
    assert_int_equal(alone.n_taken, left[i] >= 2);
    n_failed += left[i] < 2;
    if (left[i] >= 2) continue;
    assert_int_equal(alone.reason, VKF_SKIP_FAILED);
    assert_string_equal(alone.why, left[i] ? "step 1: expected an id with a finite score, but every id is forbidden"
                                           : "step 0: expected an id with a finite score, but every id is forbidden");
  }
  for (uint32_t n_seats = 1; n_seats <= N; n_seats++) {
    driver_ok(*state, go(&together, n_seats, orders[n_seats % 3], N, N));
    assert_int_equal(together.n_refused, n_failed);
    for (uint32_t i = 0; i < n_failed; i++) assert_true(left[together.refused[i]] < 2);
    for (uint32_t i = 0; i < together.n_taken; i++) {
      const uint32_t k = together.taken[i];
      assert_memory_equal(together.results[k], alone.results[k], sizeof alone.results[k]);
      assert_memory_equal(together.logprobs[k], alone.logprobs[k], sizeof alone.logprobs[k]);
    }
  }
  close_run(&together);
  close_run(&alone);
}

enum { WIDE = 12 };

typedef struct told {
  size_t n, stop_after, n_each[2 * N]; /* ids; 0: does not stop */
} told;

static int count(void *user, size_t row, int32_t id) {
  told *t = user;
  assert_true(row < VKF_COUNT(t->n_each));
  t->n_each[row] += id != 0;
  return ++t->n == t->stop_after;
}

/* With few seats (batch_size) `lines` are given, which choose the same random numbers as first_line. */
static vkf_status generate_rows(const run *r, const char *config, size_t batch_size, told *t, vkf_result **out) {
  static const uint64_t lines[N] = {4, 5, 6, 7, 8, 9, 10};
  static int32_t ids[N * WIDE], mask[N * WIDE];
  for (int i = 0; i < N * WIDE; i++) { /* pads before the rows, and a hole in the longest one */
    ids[i] = VOCAB_BEGIN + i * 5 % VOCAB;
    mask[i] = i % WIDE >= i / WIDE && i != 7;
  }
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {N, WIDE}, ids},
                              {"attention_mask", VKF_I32, 2, {N, WIDE}, mask}};
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT,
                                      .config_json = config,
                                      .on_token = count,
                                      .user = t,
                                      .scores = t->stop_after != 0,
                                      .first_line = lines[0],
                                      .lines = batch_size ? lines : NULL,
                                      .top_logprobs = strstr(config, "num_beams\": 1") ? 2 : 0,
                                      .batch_size = batch_size};
  return vkf_session_generate(r->session, inputs, 2, &params, out);
}

/* The rows of a batch take seats, too: with few seats they get the same results as with many. */
static void rows_take_seats(void **state) {
  for (size_t k = 0; k < VKF_COUNT(folders) * VKF_COUNT(configs); k++) {
    const char *config = configs[k / VKF_COUNT(folders)];
    run r;
    told all = {0};
    vkf_result *expected = NULL;
    open_run(&r, *state, folders[k % VKF_COUNT(folders)], config, 0);
    driver_ok(*state, generate_rows(&r, config, 0, &all, &expected));
    told few = {0};
    vkf_result *found = NULL;
    driver_ok(*state, generate_rows(&r, config, 2, &few, &found));
    same_arrays(expected, found);
    if (r.config.num_beams == 1) assert_memory_equal(&all, &few, sizeof all);
    vkf_result_destroy(&found);
    vkf_result_destroy(&expected);
    close_run(&r);
  }
}

/* If the caller stops while two of seven rows run, these two have the id that they got, and the others have nothing. */
static void a_stop_leaves_rows_that_wait(void **state) {
  run r;
  told t = {.stop_after = 1};
  vkf_result *result = NULL;
  open_run(&r, *state, "llama", configs[0], 0);
  assert_int_equal(generate_rows(&r, configs[0], 2, &t, &result), VKF_ERROR_STOPPED);
  const vkf_array *sequences = vkf_result_find(result, "sequences"), *top = vkf_result_find(result, "top_ids"),
                  *scores = vkf_result_find(result, "sequences_scores");
  assert_true(sequences->shape[0] == N && sequences->shape[1] == WIDE + 1);
  assert_true(top->shape[0] == N && top->shape[1] == 1);
  for (size_t row = 0; row < N; row++) {
    const int32_t *ids = (const int32_t *)sequences->data + row * (WIDE + 1), fill = ids[WIDE];
    if (row < 2) assert_int_equal(fill, ((const int32_t *)top->data)[row * 2]);
    for (size_t i = 0; i < WIDE; i++)
      assert_true(row < 2 ? ids[i] == (int32_t)(VOCAB_BEGIN + (row * WIDE + i) * 5 % VOCAB) : ids[i] == fill);
    assert_true((((const int32_t *)top->data)[row * 2] == -1) == (row >= 2));
    assert_true(isnan(((const float *)scores->data)[row]) == (row >= 2));
  }
  vkf_result_destroy(&result);
  close_run(&r);
}

/* kv_cache_bytes limits the slots of a session, too. */
static void slots_are_bounded(void **state) {
  char path[GOLDEN_PATH];
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  driver *d = *state;
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 2, .slot_tokens = 8, .kv_cache_bytes = 100};
  driver_ok(d, vkf_model_open(d->device, golden_path(path, "llama", "."), &model));
  assert_int_equal(vkf_session_create(model, &params, &session), VKF_ERROR_DEVICE_MEMORY);
  assert_null(session);
  if (!strstr(vkf_context_message(d->context), "2 slots of 8 tokens: needed ") ||
      !strstr(vkf_context_message(d->context), "bytes, given 100"))
    fail_msg("%s", vkf_context_message(d->context));
  vkf_model_close(&model);
}

DRIVER_MAIN(DRIVER_TEST(any_company), DRIVER_TEST(seats_are_given_on), DRIVER_TEST(encoders_wait_for_seats),
            DRIVER_TEST(bytes_bound_the_seats), DRIVER_TEST(a_search_fails_alone), DRIVER_TEST(rows_take_seats),
            DRIVER_TEST(a_stop_leaves_rows_that_wait), DRIVER_TEST(slots_are_bounded))
