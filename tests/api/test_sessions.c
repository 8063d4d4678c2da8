/* Sessions: eight threads run one model, and each gets the bits of a single run; a second thread in a session is
 * refused; models, sessions and callbacks come and go in any order.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/opened.h"
#include "support/driver.h"

#define SHIPPED VKF_SOURCE_DIR "/models/en-es"
enum { N_THREADS = 8, N_TEXTS = 3, MOST_LOGITS = 1 << 17 };

static const char *const texts[N_TEXTS] = {"The cat sat on the mat because it was tired.", "I am at home.",
                                           "Tom asked Mary where the old books were."};
static int32_t ids[] = {5, 6, 7, 1}, target_ids[] = {0, 9, 11};
static const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {1, 4}, ids},
                                   {"decoder_input_ids", VKF_I32, 2, {1, 3}, target_ids}};

/* The results of a session. */
typedef struct outcome {
  char texts[N_TEXTS][256];
  float logits[MOST_LOGITS];
  size_t n_logits;
} outcome;

typedef struct worker {
  vkf_model *model;
  size_t number;
  outcome *found;
  vkf_status status;
  char message[512]; /* of the last failure */
  char refused[512]; /* message of the call that must fail */
} worker;

/* A session translates a text of its own first and then all, so that threads are at different places. */
static vkf_status use(vkf_session *session, worker *w) {
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT,
                                      .config_json = w->number % 2 ? "{\"num_beams\": 1}" : "{\"num_beams\": 2}"};
  vkf_result *result = NULL;
  vkf_status st = vkf_session_translate(session, &texts[w->number % N_TEXTS], 1, &params, &result);
  vkf_result_destroy(&result);
  char bad[64]; /* each thread has its own failure */
  snprintf(bad, sizeof bad, "{\"no_such_key_%zu\": 1}", w->number);
  const vkf_generate_params wrong = {VKF_GENERATE_PARAMS_INIT, .config_json = bad};
  if (!st && vkf_session_translate(session, texts, 1, &wrong, &result) == VKF_ERROR_UNSUPPORTED)
    snprintf(w->refused, sizeof w->refused, "%s", vkf_session_message(session));
  if (!st) st = vkf_session_translate(session, texts, N_TEXTS, &params, &result);
  for (size_t i = 0; !st && i < N_TEXTS; i++)
    snprintf(w->found->texts[i], sizeof w->found->texts[i], "%s", vkf_result_text(result, i));
  vkf_result_destroy(&result);
  if (!st) st = vkf_session_run(session, inputs, 2, NULL, &result);
  const float *logits = vkf_result_f32(result, "logits", &w->found->n_logits);
  if (!st && w->found->n_logits <= MOST_LOGITS) memcpy(w->found->logits, logits, w->found->n_logits * sizeof(float));
  vkf_result_destroy(&result);
  return st;
}

static void *work(void *user) {
  worker *w = user;
  vkf_session *session = NULL;
  w->status = vkf_session_create(w->model, NULL, &session);
  if (!w->status) w->status = use(session, w);
  if (w->status) snprintf(w->message, sizeof w->message, "%s", vkf_session_message(session));
  vkf_session_destroy(&session);
  return NULL;
}

static void expect_refusal(const worker *w) {
  char key[64];
  snprintf(key, sizeof key, "no_such_key_%zu\"", w->number);
  if (!strstr(w->refused, key)) fail_msg("session %zu: expected '%s', found '%s'", w->number, key, w->refused);
}

static void threads_have_the_bits_of_one(void **state) {
  driver *d = *state;
  worker alone[2] = {{.number = 0}, {.number = 1}}, workers[N_THREADS];
  pthread_t handles[N_THREADS];
  vkf_model *model = NULL;
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  outcome *found = calloc(2 + N_THREADS, sizeof *found);
  assert_non_null(found);
  for (int i = 0; i < 2; i++) {
    alone[i].model = model;
    alone[i].found = &found[i];
    work(&alone[i]);
    if (alone[i].status) fail_msg("alone: %s", alone[i].message);
    assert_true(alone[i].found->n_logits > 0 && alone[i].found->n_logits <= MOST_LOGITS);
  }
  for (size_t i = 0; i < N_THREADS; i++) {
    workers[i] = (worker){.model = model, .number = i, .found = &found[2 + i]};
    assert_int_equal(pthread_create(&handles[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++) pthread_join(handles[i], NULL);
  for (int i = 0; i < N_THREADS; i++) {
    const outcome *a = alone[i % 2].found, *b = workers[i].found;
    if (workers[i].status) fail_msg("session %d: %s", i, workers[i].message);
    expect_refusal(&workers[i]);
    for (int t = 0; t < N_TEXTS; t++) assert_string_equal(a->texts[t], b->texts[t]);
    assert_int_equal(a->n_logits, b->n_logits);
    assert_memory_equal(a->logits, b->logits, a->n_logits * sizeof(float));
  }
  free(found);
  vkf_model_close(&model);
}

/* ---- the tokenizer ----------------------------------------------------------------------------------------------- */

enum { N_WORDS = 400, N_TIMES = 60 };

typedef struct reader {
  vkf_model *model;
  char text[N_WORDS * 8];
  int32_t ids[2 * N_WORDS * 8];
  size_t n, n_wrong;
  vkf_status status;
} reader;

/* Encodes its own text again and again and counts how often the ids differ. */
static void *read_often(void *user) {
  reader *r = user;
  vkf_session *session = NULL;
  r->status = vkf_session_create(r->model, NULL, &session);
  for (int i = 0; i < N_TIMES && !r->status; i++) {
    vkf_result *result = NULL;
    size_t n = 0;
    r->status = vkf_tokenizer_encode(vkf_session_tokenizer(session), r->text, NULL, &result);
    const int32_t *ids = vkf_result_i32(result, "ids", &n);
    r->n_wrong += r->status == VKF_OK && (n != r->n || memcmp(ids, r->ids, n * sizeof *ids) != 0);
    vkf_result_destroy(&result);
  }
  vkf_session_destroy(&session);
  return NULL;
}

static void threads_share_a_tokenizer(void **state) {
  static const char *const words[] = {"house ", "tired ", "mat ", "because "};
  static reader readers[4];
  driver *d = *state;
  pthread_t handles[4];
  vkf_model *model = NULL;
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  for (size_t t = 0; t < 4; t++) {
    vkf_result *result = NULL;
    readers[t].model = model;
    for (size_t i = 0; i < N_WORDS - 40 * t; i++) strcat(readers[t].text, words[(i + t) % 4 * (t + 1) % 4]);
    driver_ok(d, vkf_tokenizer_encode(vkf_model_tokenizer(model), readers[t].text, NULL, &result));
    const int32_t *ids = vkf_result_i32(result, "ids", &readers[t].n);
    assert_true(readers[t].n > 100 && readers[t].n <= VKF_COUNT(readers[t].ids));
    memcpy(readers[t].ids, ids, readers[t].n * sizeof *ids);
    vkf_result_destroy(&result);
  }
  for (size_t t = 0; t < 4; t++) assert_int_equal(pthread_create(&handles[t], NULL, read_often, &readers[t]), 0);
  for (size_t t = 0; t < 4; t++) pthread_join(handles[t], NULL);
  for (size_t t = 0; t < 4; t++) {
    assert_int_equal(readers[t].status, VKF_OK);
    assert_int_equal(readers[t].n_wrong, 0);
  }
  vkf_model_close(&model);
}

/* ---- two threads in one session ---------------------------------------------------------------------------------- */

typedef struct intruder {
  vkf_model *model;
  vkf_session *session;
  atomic_int n_inside;
  vkf_status status, owner_status;
  char message[512], owner_message[512];
  pthread_t early;
  vkf_status early_status;
  char early_message[512];
  atomic_bool has_tried, is_over;
  bool is_parted;
  size_t seen[3]; /* of slot 0: rows of logits, ids, capacity */
} intruder;

static void look_at_slots(intruder *in) {
  if (!vkf_session_logits(in->session, 0, &in->seen[0])) in->seen[0] = 0;
  if (!vkf_session_ids(in->session, 0, &in->seen[1])) in->seen[1] = 0;
  in->seen[2] = vkf_session_slot_capacity(in->session);
}

static void *intrude(void *user) {
  intruder *in = user;
  vkf_result *result = NULL;
  look_at_slots(in);
  snprintf(in->message, sizeof in->message, "%s", vkf_session_message(in->session));
  in->status = vkf_session_translate(in->session, texts, 1, NULL, &result);
  vkf_result_destroy(&result);
  return NULL;
}

/* Reads its message only after another thread was refused, too, and the session's call has ended. */
static void *intrude_early(void *user) {
  intruder *in = user;
  vkf_result *result = NULL;
  in->early_status = vkf_session_translate(in->session, texts, 1, NULL, &result);
  in->has_tried = true;
  while (!in->is_over) sched_yield();
  snprintf(in->early_message, sizeof in->early_message, "%s", vkf_session_message(in->session));
  return NULL;
}

/* Lets two other threads try to use the session while it runs. */
static int on_token(void *user, size_t row, int32_t token) {
  intruder *in = user;
  pthread_t thread;
  (void)row;
  (void)token;
  if (in->n_inside++) return 0;
  assert_int_equal(pthread_create(&in->early, NULL, intrude_early, in), 0);
  while (!in->has_tried) sched_yield();
  assert_int_equal(pthread_create(&thread, NULL, intrude, in), 0);
  pthread_join(thread, NULL);
  return 0;
}

static void a_second_thread_is_refused(void **state) {
  driver *d = *state;
  vkf_result *alone = NULL, *disturbed = NULL;
  intruder in = {0};
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 1}",
                                      .on_token = on_token, .user = &in},
                            quiet = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 1}"};
  const vkf_session_params slots = {VKF_SESSION_PARAMS_INIT, .n_slots = 1, .slot_tokens = 16, .source_tokens = 16};
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &in.model));
  driver_ok(d, vkf_session_create(in.model, &slots, &in.session));
  assert_int_equal(vkf_session_encode(in.session, 0, ids, 4), VKF_OK);
  assert_int_equal(vkf_session_feed(in.session, 0, target_ids, 3, 1), VKF_OK);
  assert_int_equal(vkf_session_step(in.session), VKF_OK);
  assert_int_equal(vkf_session_translate(in.session, texts, 1, &quiet, &alone), VKF_OK);
  assert_int_equal(vkf_session_translate(in.session, texts, 1, &params, &disturbed), VKF_OK);
  assert_true(in.n_inside > 1);
  in.is_over = true;
  pthread_join(in.early, NULL);
  assert_int_equal(in.early_status, VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(in.early_message, "no other thread uses"));
  assert_int_equal(in.status, VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(in.message, "no other thread uses")); /* after reading the slots */
  assert_true(in.seen[0] == 0 && in.seen[1] == 0 && in.seen[2] == 0);
  assert_string_equal(vkf_session_message(in.session), "");
  assert_string_equal(vkf_result_text(alone, 0), vkf_result_text(disturbed, 0));
  vkf_result_destroy(&disturbed);
  intrude(&in); /* now no other thread uses it */
  assert_int_equal(in.status, VKF_OK);
  assert_true(in.seen[0] == 1 && in.seen[1] == 3 && in.seen[2] == 16);
  vkf_result_destroy(&alone);
  vkf_session_destroy(&in.session);
  vkf_model_close(&in.model);
}

/* ---- coming and going -------------------------------------------------------------------------------------------- */

static int no_text(void *user, bool busy, vkf_queued_text *out) {
  (void)user;
  (void)busy;
  out->text = NULL;
  return 0;
}

static int no_result(void *user, void *tag, const vkf_result *result) {
  (void)user;
  (void)tag;
  (void)result;
  return 0;
}

/* Calls every function that works with a session. */
static void every_call_says_that_the_model_was_closed(vkf_session *session) {
  static const char *const paths[] = {"nothing.png"};
  const vkf_text_queue queue = {VKF_TEXT_QUEUE_INIT, .next = no_text, .done = no_result};
  vkf_session_info info = {VKF_SESSION_INFO_INIT};
  vkf_result *results[12] = {0};
  size_t n = 0;
  const vkf_status found[] = {vkf_session_run(session, inputs, 2, NULL, &results[0]),
                              vkf_session_generate(session, inputs, 2, NULL, &results[1]),
                              vkf_session_read_images(session, paths, 1, &results[2]),
                              vkf_session_translate(session, texts, 1, NULL, &results[3]),
                              vkf_session_align_heads(session, texts, 1, NULL, &results[4]),
                              vkf_session_translate_queue(session, &queue, NULL),
                              vkf_session_score(session, texts, texts, 1, NULL, &results[5]),
                              vkf_session_embed(session, texts, 1, NULL, &results[6]),
                              vkf_session_classify(session, texts, 1, NULL, &results[7]),
                              vkf_session_classify_images(session, paths, 1, NULL, &results[8]),
                              vkf_session_fill_mask(session, texts, 1, NULL, &results[9]),
                              vkf_session_generate_text(session, texts, 1, NULL, &results[10]),
                              vkf_session_generate_text_queue(session, &queue, NULL),
                              vkf_session_encode(session, 0, ids, 4),
                              vkf_session_feed(session, 0, target_ids, 3, 1),
                              vkf_session_step(session),
                              vkf_session_truncate(session, 0, 0),
                              vkf_session_copy(session, 0, 0, 0),
                              vkf_session_save(session, 0, &results[11]),
                              vkf_session_restore(session, 0, "", 0),
                              vkf_session_get_info(session, &info)};
  for (size_t i = 0; i < VKF_COUNT(found); i++)
    if (found[i] != VKF_ERROR_ARGUMENT) fail_msg("call %zu: %s", i, vkf_status_name(found[i]));
  for (size_t i = 0; i < VKF_COUNT(results); i++) assert_null(results[i]);
  assert_non_null(strstr(vkf_session_message(session), "model was closed"));
  assert_null(vkf_session_logits(session, 0, &n));
  assert_null(vkf_session_ids(session, 0, &n));
  assert_int_equal(vkf_session_slot_capacity(session), 0);
  assert_null(vkf_session_tokenizer(session));
}

static void a_closed_model_parts_its_sessions(void **state) {
  driver *d = *state;
  vkf_model *models[2] = {NULL, NULL};
  vkf_session *sessions[3] = {NULL, NULL, NULL};
  vkf_result *result = NULL, *tokens = NULL;
  for (int i = 0; i < 2; i++) driver_ok(d, vkf_model_open(d->device, SHIPPED, &models[i]));
  for (int i = 0; i < 3; i++) driver_ok(d, vkf_session_create(models[i == 2], NULL, &sessions[i]));
  vkf_tokenizer *tokenizer = vkf_session_tokenizer(sessions[0]);
  assert_int_equal(vkf_session_translate(sessions[0], texts, 1, NULL, &result), VKF_OK);
  assert_int_equal(vkf_tokenizer_encode(tokenizer, "a cat", NULL, &tokens), VKF_OK);
  vkf_model_close(&models[0]);
  assert_null(models[0]);
  assert_non_null(strstr(vkf_result_text(result, 0), "gato")); /* results stay */
  vkf_result_destroy(&result);
  vkf_result_destroy(&tokens);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(vkf_session_translate(sessions[i], texts, 1, NULL, &result), VKF_ERROR_ARGUMENT);
    assert_non_null(strstr(vkf_session_message(sessions[i]), "model was closed"));
    every_call_says_that_the_model_was_closed(sessions[i]);
  }
  assert_int_equal(vkf_tokenizer_encode(tokenizer, "a cat", NULL, &tokens), VKF_ERROR_ARGUMENT);
  assert_null(vkf_tokenizer_piece(tokenizer, 1));
  assert_int_equal(vkf_session_translate(sessions[2], texts, 1, NULL, &result), VKF_OK); /* of the other model */
  vkf_result_destroy(&result);
  vkf_model_close(&models[1]);
  for (int i = 0; i < 3; i++) {
    vkf_session_destroy(&sessions[i]);
    assert_null(sessions[i]);
  }
}

static void *close_it(void *user) {
  intruder *in = user;
  vkf_model_close(&in->model);
  in->is_parted = true;
  return NULL;
}

static int wait_a_little(void *user, size_t row, int32_t token) {
  const struct timespec wait = {.tv_nsec = 5000000};
  intruder *in = user;
  (void)row;
  (void)token;
  in->n_inside++;
  nanosleep(&wait, NULL);
  return 0;
}

static void *run_slowly(void *user) {
  intruder *in = user;
  vkf_result *result = NULL;
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 1}",
                                      .on_token = wait_a_little, .user = in};
  in->owner_status = vkf_session_translate(in->session, texts, 1, &params, &result);
  if (in->owner_status) snprintf(in->owner_message, sizeof in->owner_message, "%s", vkf_session_message(in->session));
  vkf_result_destroy(&result);
  return NULL;
}

/* Closing a model waits for the call that runs, which ends without an error. */
static void a_model_that_closes_waits(void **state) {
  driver *d = *state;
  const struct timespec wait = {.tv_nsec = 1000000};
  intruder in = {0};
  pthread_t runs, closes;
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &in.model));
  driver_ok(d, vkf_session_create(in.model, NULL, &in.session));
  assert_int_equal(pthread_create(&runs, NULL, run_slowly, &in), 0);
  for (int i = 0; i < 10000 && !in.n_inside; i++) nanosleep(&wait, NULL);
  assert_int_equal(pthread_create(&closes, NULL, close_it, &in), 0);
  pthread_join(runs, NULL);
  pthread_join(closes, NULL);
  if (in.owner_status) fail_msg("%s", in.owner_message);
  assert_true(in.is_parted && in.n_inside > 3);
  vkf_session_destroy(&in.session);
}

/* Creates and runs another session of the same model inside a callback, which is allowed. */
static int run_another(void *user, size_t row, int32_t token) {
  intruder *in = user;
  vkf_session *other = NULL;
  vkf_result *result = NULL;
  (void)row;
  (void)token;
  if (in->n_inside++ != 1) return 0;
  in->status = vkf_session_create(in->model, NULL, &other);
  if (!in->status) in->status = vkf_session_translate(other, texts + 1, 1, NULL, &result);
  vkf_result_destroy(&result);
  vkf_session_destroy(&other);
  return 0;
}

static void a_callback_runs_another_session(void **state) {
  driver *d = *state;
  intruder in = {.status = VKF_ERROR_STOPPED};
  vkf_result *result = NULL;
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 1}",
                                      .on_token = run_another, .user = &in};
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &in.model));
  driver_ok(d, vkf_session_create(in.model, NULL, &in.session));
  assert_int_equal(vkf_session_translate(in.session, texts, 1, &params, &result), VKF_OK);
  assert_int_equal(in.status, VKF_OK);
  assert_non_null(strstr(vkf_result_text(result, 0), "gato"));
  vkf_result_destroy(&result);
  vkf_session_destroy(&in.session);
  vkf_model_close(&in.model);
}

/* A log callback that uses sessions of the model while it is closed, and what these calls return. */
typedef struct closing {
  driver d; /* its log calls use_sessions() */
  vkf_model *model;
  vkf_session *other;
  int n_lines;
  vkf_status made, asked;
  char message[512];
} closing;

static void use_sessions(void *user, vkf_log_level level, const char *line) {
  closing *c = user;
  vkf_session *made = NULL;
  vkf_session_info info = {VKF_SESSION_INFO_INIT};
  (void)level;
  (void)line;
  if (!c->model || c->n_lines++) return;
  c->made = vkf_session_create(c->model, NULL, &made);
  snprintf(c->message, sizeof c->message, "%s", vkf_context_message(c->d.context));
  c->asked = vkf_session_get_info(c->other, &info);
  vkf_session_destroy(&c->other);
}

static void a_log_uses_sessions_while_the_model_closes(void **state) {
  closing c = {.made = VKF_OK};
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_result *result = NULL;
  (void)state;
  driver_ok(&c.d, driver_try(&c.d, false, use_sessions));
  c.d.context->env.log_level = VKF_LOG_INFO; /* a session logs a summary when it ends */
  driver_ok(&c.d, vkf_model_open(c.d.device, SHIPPED, &model));
  driver_ok(&c.d, vkf_session_create(model, NULL, &c.other));
  driver_ok(&c.d, vkf_session_create(model, NULL, &session));
  assert_int_equal(vkf_session_translate(session, texts, 1, NULL, &result), VKF_OK);
  vkf_result_destroy(&result);
  c.model = model;
  alarm(30); /* ends the test if it hangs */
  vkf_model_close(&model);
  alarm(0);
  if (c.d.device->gpu) { /* the scalar path logs nothing */
    assert_true(c.n_lines > 0);
    assert_int_equal(c.made, VKF_ERROR_ARGUMENT);
    assert_non_null(strstr(c.message, "that was closed"));
    assert_int_equal(c.asked, VKF_ERROR_ARGUMENT);
    assert_null(c.other);
  }
  vkf_session_destroy(&c.other);
  vkf_session_destroy(&session);
  driver_close(&c.d);
}

/* Runs in a child process, which has none of its parent's threads. Returns 0 or the line that failed. */
static int drop(driver *d, vkf_model *model, vkf_session *session) {
  vkf_result *result = NULL;
  vkf_session *other = NULL;
  const bool has_vulkan = d->device->gpu != NULL;
  if (has_vulkan && vkf_session_translate(session, texts, 1, NULL, &result) != VKF_ERROR_ARGUMENT) return __LINE__;
  if (has_vulkan && !strstr(vkf_session_message(session), "child process")) return __LINE__;
  if (has_vulkan && vkf_session_create(model, NULL, &other) != VKF_ERROR_ARGUMENT) return __LINE__;
  if (has_vulkan && !strstr(vkf_context_message(d->context), "child process")) return __LINE__;
  if (vkf_tokenizer_encode(vkf_model_tokenizer(model), texts[0], NULL, &result) != VKF_OK) return __LINE__;
  vkf_result_destroy(&result);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&d->device);
  vkf_context_destroy(&d->context);
  return 0;
}

static void a_child_drops_what_its_parent_made(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_result *result = NULL;
  int how = 0;
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  driver_ok(d, vkf_session_create(model, NULL, &session));
  assert_int_equal(vkf_session_translate(session, texts, 1, NULL, &result), VKF_OK);
  vkf_result_destroy(&result);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30); /* ends the child if it hangs */
    _exit(drop(d, model, session) % 256);
  }
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how));
  assert_int_equal(WEXITSTATUS(how), 0);
  assert_int_equal(vkf_session_translate(session, texts, 1, NULL, &result), VKF_OK);
  vkf_result_destroy(&result);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
}

/* Stops the call when `left` reaches 0, and tries to use the session inside the callback. */
typedef struct stopping {
  vkf_session *session;
  int left;
  vkf_status inside;
} stopping;

static int should_stop(void *user) {
  stopping *s = user;
  vkf_result *result = NULL;
  if (--s->left != 0) return 0;
  s->inside = vkf_session_run(s->session, inputs, 2, NULL, &result);
  return 1;
}

/* A call can be stopped at any point. It has no result, and the session works as before. */
static void calls_are_stopped(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_result *result = NULL;
  stopping s = {0};
  char before[256];
  const vkf_generate_params beams = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 2}"};
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .should_stop = should_stop, .user = &s};
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  assert_int_equal(vkf_session_create(model, &params, &s.session), VKF_OK);
  assert_int_equal(vkf_session_translate(s.session, texts, 2, &beams, &result), VKF_OK);
  snprintf(before, sizeof before, "%s", vkf_result_text(result, 0));
  vkf_result_destroy(&result);
  for (int at = 1; at < 6; at++) {
    s.left = at;
    s.inside = VKF_OK;
    assert_int_equal(vkf_session_translate(s.session, texts, 2, &beams, &result), VKF_ERROR_STOPPED);
    assert_null(result);
    assert_int_equal(s.inside, VKF_ERROR_ARGUMENT);
    assert_string_equal(vkf_session_message(s.session), "the session was asked to stop");
  }
  s.left = 1;
  assert_int_equal(vkf_session_run(s.session, inputs, 2, NULL, &result), VKF_ERROR_STOPPED);
  assert_null(result);
  assert_int_equal(vkf_session_translate(s.session, texts, 2, &beams, &result), VKF_OK);
  assert_string_equal(vkf_result_text(result, 0), before);
  vkf_result_destroy(&result);
  vkf_session_destroy(&s.session);
  vkf_model_close(&model);
}

/* After a stop the next step computes what was fed, and the next vkf_session_encode() runs the encoder. */
static void stopped_slots_go_on(void **state) {
  static const int32_t source[] = {5, 6, 7, 1}, ids[] = {0, 9, 11};
  driver *d = *state;
  vkf_model *model = NULL;
  stopping s = {0};
  float *expected = NULL;
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT,    .n_slots = 1, .slot_tokens = 16, .source_tokens = 16,
                                     .should_stop = should_stop, .user = &s};
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  assert_int_equal(vkf_session_create(model, &params, &s.session), VKF_OK);
  for (int stops = 0; stops < 2; stops++) {
    size_t n = 0, n_vocab = 8000;
    s.left = stops;
    if (stops) assert_int_equal(vkf_session_encode(s.session, 0, source, 4), VKF_ERROR_STOPPED);
    assert_int_equal(vkf_session_encode(s.session, 0, source, 4), VKF_OK);
    assert_int_equal(vkf_session_feed(s.session, 0, ids, 3, 1), VKF_OK);
    s.left = stops;
    if (stops) assert_int_equal(vkf_session_step(s.session), VKF_ERROR_STOPPED);
    assert_int_equal(vkf_session_step(s.session), VKF_OK);
    const float *logits = vkf_session_logits(s.session, 0, &n);
    assert_int_equal(n, 1);
    if (stops) {
      assert_memory_equal(logits, expected, n_vocab * sizeof *logits);
    } else {
      expected = malloc(n_vocab * sizeof *expected);
      assert_non_null(expected);
      memcpy(expected, logits, n_vocab * sizeof *expected);
    }
    assert_int_equal(vkf_session_truncate(s.session, 0, 0), VKF_OK);
  }
  free(expected);
  vkf_session_destroy(&s.session);
  vkf_model_close(&model);
}

/* Gets the plans for batches of 32 x n rows. Returns true if they had to be made. */
static bool is_made(driver *d, vkf_session *session, uint32_t n, vkf_bucket **out) {
  const vkf_need_sizes need = {.B = 32 * n, .S = 8, .R = 32 * n, .keys = 8};
  const uint64_t before = d->context->env.n_allocations;
  driver_ok(d, vkf_engine_bucket_get(&session->plan_cache, &need, 0, out));
  return d->context->env.n_allocations > before;
}

/* A session keeps the plans of the 32 sizes that were used last: for each size one plan per request. */
static void plans_are_kept(void **state) {
  enum { MOST = 32 };
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_bucket *bucket = NULL;
  const vkf_cached_plan *plain = NULL, *again = NULL, *projected = NULL;
  vkf_plan_request request = {.stage = VKF_STAGE_ENCODE, .mask = true, .attentions = true};
  driver_ok(d, vkf_model_open(d->device, VKF_SOURCE_DIR "/tests/golden/bert", &model));
  driver_ok(d, vkf_session_create(model, NULL, &session));
  for (uint32_t n = 1; n <= MOST; n++) assert_true(is_made(d, session, n, &bucket));
  assert_false(is_made(d, session, 1, &bucket)); /* now the second one is the oldest */
  assert_true(is_made(d, session, MOST + 1, &bucket));
  assert_false(is_made(d, session, 1, &bucket));
  assert_true(is_made(d, session, 2, &bucket));
  driver_ok(d, vkf_engine_plan_get(&session->plan_cache, bucket, &request, &plain));
  driver_ok(d, vkf_engine_plan_get(&session->plan_cache, bucket, &request, &again));
  assert_ptr_equal(again, plain);
  request.projections = true;
  driver_ok(d, vkf_engine_plan_get(&session->plan_cache, bucket, &request, &projected));
  assert_ptr_not_equal(projected, plain);
  uint64_t bytes = vkf_engine_bucket_bytes(&session->plan_cache, bucket).plans;
  assert_false(is_made(d, session, 1, &bucket));
  driver_ok(d, vkf_engine_plan_get(&session->plan_cache, bucket, &request, &projected));
  bytes += vkf_engine_bucket_bytes(&session->plan_cache, bucket).plans;
  assert_int_equal(vkf_engine_plan_cache_bytes(&session->plan_cache).plans, bytes);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
}

static void bad_arguments(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  vkf_session_params params = {.size = 1};
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  assert_int_equal(vkf_session_create(model, &params, &session), VKF_ERROR_ARGUMENT);
  assert_null(session);
  assert_non_null(strstr(vkf_context_message(d->context), "vkf_session_params"));
  assert_string_equal(vkf_session_message(NULL), "");
  vkf_session_destroy(NULL);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
}

DRIVER_MAIN(DRIVER_TEST_PLAIN(threads_have_the_bits_of_one), DRIVER_TEST(threads_share_a_tokenizer),
            DRIVER_TEST(a_second_thread_is_refused), DRIVER_TEST(a_closed_model_parts_its_sessions),
            DRIVER_TEST(a_model_that_closes_waits), DRIVER_TEST(a_callback_runs_another_session),
            cmocka_unit_test(a_log_uses_sessions_while_the_model_closes),
            DRIVER_TEST(a_child_drops_what_its_parent_made), DRIVER_TEST(calls_are_stopped),
            DRIVER_TEST(stopped_slots_go_on), DRIVER_TEST(plans_are_kept), DRIVER_TEST(bad_arguments))
