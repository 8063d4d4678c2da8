/* Workers side by side: each job is done once, one that fails is repeated by the first worker, and a failure of the
 * first worker ends the work. The models are dummies: the jobs look only at whose they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../tools/batches.c"
#include "../tools/crew.c"

/* ---- in the place of the program's sessions ---------------------------------------------------------------------- */

static int n_begun, n_opened, n_closed;
static bool context_fails, model_fails;
static char models[MAX_WORKERS];
static const vkf_model *given; /* the last model that was opened may share its weights */
static pthread_mutex_t counters = PTHREAD_MUTEX_INITIALIZER;

vkf_status tool_session_begin_copy(tool_session *copy, const tool_session *first, const tool_args *args) {
  (void)first;
  (void)args;
  *copy = (tool_session){0};
  n_begun++;
  if (context_fails) return VKF_ERROR_MEMORY;
  return vkf_context_create(NULL, &copy->context);
}

vkf_status tool_session_open_copy(tool_session *copy, const vkf_model *first, const char *device, const char *folder) {
  (void)device;
  (void)folder;
  pthread_mutex_lock(&counters);
  const int own = ++n_opened;
  given = first;
  pthread_mutex_unlock(&counters);
  if (model_fails) return VKF_ERROR_DEVICE_MEMORY;
  copy->run = (vkf_session *)(void *)&models[own];
  return VKF_OK;
}

int tool_session_close(tool_session *session, int exit_code) {
  n_closed++;
  vkf_context_destroy(&session->context);
  return exit_code;
}

int tool_session_open_context(tool_session *session, const tool_args *args) {
  (void)session;
  (void)args;
  return TOOL_FAILED;
}

int tool_session_open_device(tool_session *session, const char *device) {
  (void)session;
  (void)device;
  return TOOL_FAILED;
}

int tool_session_open_model(tool_session *session, const char *folder) {
  (void)session;
  (void)folder;
  return TOOL_FAILED;
}

int tool_session_fail(tool_session *session, vkf_status status, const char *where) {
  (void)session;
  (void)status;
  (void)where;
  return TOOL_FAILED;
}

const char *tool_session_message(const tool_session *session) {
  return vkf_context_message(session->context);
}

void tool_progress_end(tool_session *session) {
  (void)session;
}

int tool_error(const char *fmt, ...) {
  (void)fmt;
  return TOOL_FAILED;
}

int tool_usage_error(const char *command, const char *fmt, ...) {
  (void)command;
  (void)fmt;
  return TOOL_USAGE;
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

enum { N = 40 };

typedef struct jobs {
  int done[N];
  size_t first_fails_at, others_fail_at; /* the job that fails */
  int by_first, by_others;
} jobs;

/* The first worker is slow and the others are quick, so that they get jobs. */
static vkf_status work_on(void *user, vkf_session *session, size_t i) {
  jobs *j = user;
  const bool is_first = (char *)session == &models[0];
  const struct timespec wait = {.tv_nsec = is_first ? 2000000 : 200000};
  nanosleep(&wait, NULL);
  if (i == (is_first ? j->first_fails_at : j->others_fail_at)) return VKF_ERROR_DEVICE_LOST;
  pthread_mutex_lock(&counters);
  j->done[i]++;
  *(is_first ? &j->by_first : &j->by_others) += 1;
  pthread_mutex_unlock(&counters);
  return VKF_OK;
}

static const tool_command command = {.name = "translate"};

static vkf_status run(size_t workers, size_t n, jobs *j) {
  const tool_args args = {.command = &command, .workers = workers};
  tool_session first = {.run = (vkf_session *)(void *)&models[0]};
  tool_crew crew = {.args = &args, .folder = "", .first = &first, .most = workers};
  n_begun = n_opened = n_closed = 0;
  vkf_status status = tool_crew_run(&crew, n, work_on, j);
  if (status == VKF_OK) status = tool_crew_run(&crew, 0, work_on, j);
  tool_crew_finish(&crew);
  return status;
}

static jobs no_failures(void) {
  return (jobs){.first_fails_at = SIZE_MAX, .others_fail_at = SIZE_MAX};
}

static void test_each_job_is_done_once(void **state) {
  (void)state;
  for (size_t workers = 1; workers <= 4; workers++) {
    jobs j = no_failures();
    assert_int_equal(run(workers, N, &j), VKF_OK);
    for (int i = 0; i < N; i++) assert_int_equal(j.done[i], 1);
    assert_int_equal(n_opened, workers - 1);
    assert_int_equal(n_closed, workers - 1);
    assert_true(workers == 1 ? j.by_others == 0 : j.by_others > 0 && j.by_first > 0);
  }
  jobs one = no_failures();
  assert_int_equal(run(4, 1, &one), VKF_OK);
  assert_int_equal(n_begun, 0); /* no other worker is begun for one job */
}

static void test_a_job_that_fails_elsewhere_is_done_by_the_first(void **state) {
  (void)state;
  jobs j = no_failures();
  j.others_fail_at = 5;
  for (int i = 0; i < 10; i++) {
    memset(j.done, 0, sizeof j.done);
    assert_int_equal(run(3, N, &j), VKF_OK);
    for (int k = 0; k < N; k++) assert_int_equal(j.done[k], 1);
  }
}

static void test_workers_that_cannot_be_opened_are_done_without(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    jobs j = no_failures();
    context_fails = i == 0;
    model_fails = i == 1;
    assert_int_equal(run(3, N, &j), VKF_OK);
    for (int k = 0; k < N; k++) assert_int_equal(j.done[k], 1);
    assert_int_equal(j.by_first, N);
    assert_int_equal(n_begun, 2);
  }
  context_fails = model_fails = false;
}

/* The jobs before the one that fails are done, whichever worker had them. */
static void test_a_failure_of_the_first_ends_the_work(void **state) {
  (void)state;
  for (size_t workers = 1; workers <= 3; workers++) {
    jobs j = no_failures();
    j.first_fails_at = j.others_fail_at = 7;
    assert_int_equal(run(workers, N, &j), VKF_ERROR_DEVICE_LOST);
    for (int i = 0; i < 7; i++) assert_int_equal(j.done[i], 1);
    assert_int_equal(j.done[7], 0);
  }
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* Of each batch, at the index of its first text: the number of its texts, and all of them as one string. */
typedef struct batch_notes {
  size_t n[8];
  char texts[8][40];
} batch_notes;

static const char *const *all_texts;

static vkf_status note(void *user, vkf_session *session, const char *const *texts, size_t n, vkf_result **out) {
  batch_notes *notes = user;
  size_t first = 0;
  (void)session;
  (void)out;
  pthread_mutex_lock(&counters);
  while (all_texts[first] != texts[0]) first++;
  notes->n[first] = n;
  for (size_t i = 0; i < n; i++) strcat(notes->texts[first], texts[i]);
  pthread_mutex_unlock(&counters);
  return VKF_OK;
}

static batch_notes shared_out(tool_batches batches, const char *const *texts, size_t n) {
  static const tool_args args = {.command = &command, .workers = 2};
  batch_notes notes = {0};
  tool_session first = {.run = (vkf_session *)(void *)&models[0], .model = (vkf_model *)(void *)&models[0]};
  tool_crew crew = {.args = &args, .folder = "", .first = &first, .most = 2};
  given = NULL;
  all_texts = texts;
  batches.run = note;
  batches.user = &notes;
  assert_int_equal(tool_batches_run(&batches, &crew, texts, n), VKF_OK);
  tool_batches_finish(&batches);
  tool_crew_finish(&crew);
  return notes;
}

/* Texts that fit into one batch are not split. */
static void test_texts_are_shared_out(void **state) {
  (void)state;
  static const char *const texts[] = {"a", "b", "c", "d", "e"};
  for (size_t n = 1; n <= sizeof texts / sizeof *texts; n++) {
    assert_int_equal(shared_out((tool_batches){.size = 8}, texts, n).n[0], n);
    assert_null(given);
  }
}

static void test_batches_have_texts_of_like_length(void **state) {
  (void)state;
  static const char *const texts[] = {"a", "bb", "hhhhhhhh", "ggggggg", "cccc", "ffffff", "eeeee", "ddd"};
  const batch_notes four = shared_out((tool_batches){.size = 4}, texts, 8),
                    two = shared_out((tool_batches){.size = 2}, texts, 8);
  assert_string_equal(four.texts[2], "hhhhhhhhgggggggffffffeeeee");
  assert_string_equal(two.texts[2], "hhhhhhhhggggggg");
  assert_string_equal(two.texts[1], "bba");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_job_is_done_once),
      cmocka_unit_test(test_a_job_that_fails_elsewhere_is_done_by_the_first),
      cmocka_unit_test(test_workers_that_cannot_be_opened_are_done_without),
      cmocka_unit_test(test_a_failure_of_the_first_ends_the_work),
      cmocka_unit_test(test_texts_are_shared_out),
      cmocka_unit_test(test_batches_have_texts_of_like_length),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
