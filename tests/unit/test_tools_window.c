/* The window of lines: which line a worker gets, in which order results go out, and what happens to lines that no
 * worker has finished. Source and sink are arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../tools/texts.c"
#include "../tools/window.c"

/* ---- in the place of the program's other files ------------------------------------------------------------------- */

static const char *const *given; /* the lines of the source [n_given], */
static size_t n_given, n_there;  /* of which n_there have come */
static char out[200];            /* what the sink got */

int tool_source_next(tool_source *s, const char **line, size_t *size) {
  *line = s->n_lines < n_there ? given[s->n_lines] : NULL;
  s->ended = !*line && n_there == n_given;
  *size = *line ? strlen(*line) : 0;
  s->n_lines += *line != NULL;
  return TOOL_OK;
}

bool tool_source_wait(const tool_source *s) {
  (void)s;
  fail_msg("nobody waits for a line here");
  return false;
}

double tool_source_share(const tool_source *s) {
  (void)s;
  return -1;
}

int tool_source_check(const tool_source *s) {
  (void)s;
  return TOOL_OK;
}

void tool_source_close(tool_source *s) {
  (void)s;
}

bool tool_sink_is_due(const tool_sink *s) {
  (void)s;
  return true;
}

int tool_sink_add(tool_sink *s, const char *text, size_t size) {
  (void)s;
  strncat(out, text, size);
  return TOOL_OK;
}

int tool_sink_write(tool_sink *s, size_t lines, uint64_t source) {
  (void)s;
  (void)lines;
  (void)source;
  return TOOL_OK;
}

int tool_sink_end(tool_sink *s, size_t lines, uint64_t source, bool keeps_journal) {
  (void)s;
  (void)lines;
  (void)source;
  (void)keeps_journal;
  return TOOL_OK;
}

void tool_sink_close(tool_sink *s) {
  (void)s;
}

bool tool_long_is(const tool_args *args, const char *rule) {
  (void)args;
  (void)rule;
  return false;
}

bool tool_invalid_is(const tool_args *args, const char *rule) {
  (void)args;
  (void)rule;
  return false;
}

bool tool_skip_fails(const tool_args *args, vkf_skip_reason reason) {
  (void)args;
  (void)reason;
  return false;
}

int tool_skips_note(tool_skips *skips, const char *noun, size_t number, const char *why) {
  (void)noun;
  (void)number;
  (void)why;
  skips->n++;
  return TOOL_OK;
}

int tool_skips_report(tool_skips *skips, tool_session *session, const char *noun, size_t n_read) {
  (void)session;
  (void)noun;
  (void)n_read;
  return skips->n ? TOOL_FAILED : TOOL_OK;
}

static double seconds;
static char progress[100]; /* the line that a terminal shows */

double tool_seconds(void) {
  return seconds;
}

void tool_progress(tool_session *session, const char *format, ...) {
  va_list list;
  (void)session;
  va_start(list, format);
  vsnprintf(progress, sizeof progress, format, list);
  va_end(list);
}

void tool_progress_end(tool_session *session) {
  (void)session;
  progress[0] = 0;
}

const char *tool_session_message(const tool_session *session) {
  (void)session;
  return "out of memory";
}

int tool_session_fail(tool_session *session, vkf_status status, const char *where) {
  (void)session;
  (void)status;
  (void)where;
  return TOOL_FAILED;
}

/* Runs the job once, for one worker, and then reports a failure. */
vkf_status tool_crew_run(tool_crew *crew, size_t n, vkf_status (*job)(void *user, vkf_session *session, size_t i),
                         void *user) {
  (void)crew;
  (void)n;
  job(user, NULL, 0);
  return VKF_ERROR_MEMORY;
}

int tool_error(const char *format, ...) {
  fail_msg("%s", format);
  return TOOL_FAILED;
}

int tool_usage_error(const char *command, const char *format, ...) {
  (void)command;
  fail_msg("%s", format);
  return TOOL_USAGE;
}

/* ---- a window and its workers ------------------------------------------------------------------------------------ */

static int render(void *user, tool_entry *e, const vkf_result *result, size_t *n_tokens) {
  (void)user;
  (void)n_tokens;
  assert_null(result);
  e->out = strdup("-");
  e->n_out = 1;
  return TOOL_OK;
}

static const tool_args args;

static tool_window *open_window(tool_window how, const char *const *lines, size_t n) {
  tool_window *w = malloc(sizeof *w);
  given = lines;
  n_given = n_there = n;
  out[0] = 0;
  *w = how;
  w->args = &args;
  w->shard = (tool_shard){1, 1, 1};
  w->render = render;
  assert_int_equal(tool_window_init(w), TOOL_OK);
  tool_window_fill(w, true);
  return w;
}

static tool_entry *take_one(tool_window *w) {
  vkf_queued_text text = {0};
  assert_int_equal(next_text(w, true, &text), 0);
  return text.tag;
}

/* Returns the text of the next line that a worker gets, or "" if there is none. */
static const char *taken(tool_window *w) {
  const tool_entry *e = take_one(w);
  return e ? e->text : "";
}

static void finish(tool_window *w, tool_entry *e) {
  e->out = strdup(e->text);
  e->n_out = strlen(e->out);
  put_back(w, e, 1, false, TOOL_OK);
}

static void close_window(tool_window *w, const char *expected) {
  assert_int_equal(end_window(w, TOOL_OK), TOOL_OK);
  assert_string_equal(out, expected);
  tool_window_finish(w);
  free(w);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static const char *const lines[] = {"ccc", "a", "eeeee", "dddd", "bb"};
enum { N = sizeof lines / sizeof *lines };

static void expect_order(tool_window how, const char *const order[N]) {
  tool_window *w = open_window(how, lines, N);
  for (size_t i = 0; i < N; i++) assert_string_equal(taken(w), order[i]);
  assert_string_equal(taken(w), "");
  tool_window_finish(w);
  free(w);
}

/* Decoding ends with the longest line, so that one begins first. */
static void test_the_longest_line_is_taken_first(void **state) {
  (void)state;
  static const char *const order[N] = {"eeeee", "dddd", "ccc", "bb", "a"};
  expect_order((tool_window){.capacity = 8}, order);
}

/* A worker that takes several lines at once gets long and short ones, and so does one that comes later. */
static void test_lengths_are_mixed(void **state) {
  (void)state;
  static const char *const order[N] = {"eeeee", "a", "dddd", "bb", "ccc"};
  expect_order((tool_window){.capacity = 8, .mixes_lengths = true}, order);
}

static void test_results_go_out_in_the_order_of_the_lines(void **state) {
  (void)state;
  tool_window *w = open_window((tool_window){.capacity = 8}, lines, N);
  tool_entry *all[N];
  for (size_t i = 0; i < N; i++) all[i] = take_one(w);
  finish(w, all[0]); /* eeeee */
  finish(w, all[4]); /* a */
  assert_string_equal(out, "");
  finish(w, all[2]); /* ccc */
  assert_string_equal(out, "cccaeeeee");
  finish(w, all[1]);
  finish(w, all[3]);
  close_window(w, "cccaeeeeeddddbb");
}

static void test_a_window_of_one_line_takes_them_in_their_order(void **state) {
  (void)state;
  tool_window *w = open_window((tool_window){.capacity = 1}, lines, N);
  for (size_t i = 0; i < N; i++) {
    tool_entry *e = take_one(w);
    assert_string_equal(e->text, lines[i]);
    assert_null(take_one(w));
    finish(w, e);
  }
  close_window(w, "cccaeeeeeddddbb");
}

/* A full window takes no further line, however often it is filled. */
static void test_a_full_window_loses_no_line(void **state) {
  (void)state;
  tool_window *w = open_window((tool_window){.capacity = 2}, lines, N);
  tool_window_fill(w, false);
  tool_window_fill(w, true);
  for (tool_entry *e; (e = take_one(w));) finish(w, e);
  close_window(w, "cccaeeeeeddddbb");
}

/* A worker that fails leaves its lines to the others. */
static void test_lines_that_are_returned_are_taken_again(void **state) {
  (void)state;
  tool_window *w = open_window((tool_window){.capacity = 8}, lines, N);
  finish(w, take_one(w));
  take_one(w);
  take_one(w);
  return_lines(w);
  static const char *const order[] = {"dddd", "ccc", "bb", "a"};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    tool_entry *e = take_one(w);
    assert_string_equal(e->text, order[i]);
    finish(w, e);
  }
  close_window(w, "cccaeeeeeddddbb");
}

static size_t n_to_do; /* lines */

static vkf_status do_some(void *user, vkf_session *session, const vkf_text_queue *queue) {
  (void)user;
  (void)session;
  for (size_t done = 0; done < n_to_do; done++) finish(queue->user, take_one(queue->user));
  return VKF_OK;
}

/* A failure of the first worker counts only if lines are left. */
static void test_a_worker_fails_when_all_is_done(void **state) {
  (void)state;
  for (n_to_do = N - 1; n_to_do <= N; n_to_do++) {
    tool_window *w = open_window((tool_window){.capacity = 8, .run = do_some}, lines, N);
    assert_int_equal(tool_window_run(w, NULL, 1), n_to_do < N ? TOOL_FAILED : TOOL_OK);
    assert_string_equal(out, n_to_do < N ? "ccc" : "cccaeeeeeddddbb");
    tool_window_finish(w);
    free(w);
  }
}

static void test_blank_lines_are_worked_on_where_that_is_asked_for(void **state) {
  (void)state;
  static const char *const blank[] = {" ", "a"};
  for (int works = 0; works <= 1; works++) {
    tool_window *w = open_window((tool_window){.capacity = 8, .works_blanks = works}, blank, 2);
    for (tool_entry *e; (e = take_one(w));) finish(w, e);
    close_window(w, works ? " a" : "-a");
  }
}

/* If a line takes long, a terminal shows the number of its tokens once a second, until its result is printed. */
static void test_steps_of_a_long_line_are_shown(void **state) {
  (void)state;
  tool_window *w = open_window((tool_window){.capacity = 4}, lines, 1);
  tool_entry *e = take_one(w);
  for (seconds = 0.25; seconds < 2; seconds += 0.25) {
    tool_window_step(w, true);
    assert_string_equal(progress, seconds < 1 ? "" : "0 lines, 4 tokens, 1 s");
  }
  tool_window_step(w, false);
  assert_string_equal(progress, "0 lines, 8 steps, 2 s");
  finish(w, e);
  assert_string_equal(progress, "");
  seconds = 0;
  close_window(w, "ccc");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_longest_line_is_taken_first),
      cmocka_unit_test(test_lengths_are_mixed),
      cmocka_unit_test(test_results_go_out_in_the_order_of_the_lines),
      cmocka_unit_test(test_a_window_of_one_line_takes_them_in_their_order),
      cmocka_unit_test(test_a_full_window_loses_no_line),
      cmocka_unit_test(test_lines_that_are_returned_are_taken_again),
      cmocka_unit_test(test_a_worker_fails_when_all_is_done),
      cmocka_unit_test(test_blank_lines_are_worked_on_where_that_is_asked_for),
      cmocka_unit_test(test_steps_of_a_long_line_are_shown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
