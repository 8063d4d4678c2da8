/* Inside a callback every function that would disturb the outer call is refused with a sentence and changes nothing.
 * Tokenizers and results work. The outer call continues to the same result, with a message of its own.
 */
#include <unistd.h>

#include <vkformer/lab.h>

#include "support/driver.h"

#define SHIPPED VKF_SOURCE_DIR "/models/en-es"
static const char *const cat = "The cat sat on the mat because it was tired.";

typedef struct caller {
  driver *d;
  vkf_model *model;
  vkf_shortlist *list;     /* that the outer call uses; NULL: none */
  size_t n_calls, n_steps; /* forbidden calls made; callbacks */
  int stop;
} caller;

static void refused(const caller *c, const char *call, vkf_status status) {
  char wanted[128];
  snprintf(wanted, sizeof wanted, "%s() cannot be called inside a callback", call);
  const char *message =
      strncmp(call, "vkf_session", 11) ? vkf_context_message(c->d->context) : vkf_session_message(session_of(c->model));
  if (status != VKF_ERROR_ARGUMENT || !strstr(message, wanted))
    fail_msg("%s: found %s and '%s'", call, vkf_status_name(status), message);
}

static void on_row(void *user, const vkf_validate_row *row) {
  (void)user;
  (void)row;
}
static void on_pass(void *user, const vkf_pass_info *pass) {
  (void)user;
  (void)pass;
}
static void on_problem(void *user, const char *problem) {
  (void)user;
  (void)problem;
}
static void on_kernel(void *user, const vkf_kernel_info *kernel) {
  (void)user;
  (void)kernel;
}
static void on_bench(void *user, const vkf_bench_row *row) {
  (void)user;
  (void)row;
}
static void on_check(void *user, const vkf_check_info *check) {
  (void)user;
  (void)check;
}
static void on_compiled(void *user, const vkf_compiled_kernel *kernel) {
  (void)user;
  (void)kernel;
}

static void call_session(const caller *c) {
  static const int32_t ids[] = {5, 6, 1};
  const vkf_array input = {"input_ids", VKF_I32, 2, {1, 3}, (void *)ids};
  vkf_session *s = session_of(c->model);
  vkf_session_info info = {VKF_SESSION_INFO_INIT};
  vkf_result *out = NULL;
  refused(c, "vkf_session_get_info", vkf_session_get_info(s, &info));
  refused(c, "vkf_session_run", vkf_session_run(s, &input, 1, NULL, &out));
  refused(c, "vkf_session_generate", vkf_session_generate(s, &input, 1, NULL, &out));
  refused(c, "vkf_session_translate", vkf_session_translate(s, &cat, 1, NULL, &out));
  refused(c, "vkf_session_translate_queue", vkf_session_translate_queue(s, NULL, NULL));
  refused(c, "vkf_session_align_heads", vkf_session_align_heads(s, &cat, 1, NULL, &out));
  refused(c, "vkf_session_score", vkf_session_score(s, &cat, &cat, 1, NULL, &out));
  refused(c, "vkf_session_generate_text", vkf_session_generate_text(s, &cat, 1, NULL, &out));
  refused(c, "vkf_session_generate_text_queue", vkf_session_generate_text_queue(s, NULL, NULL));
  refused(c, "vkf_session_embed", vkf_session_embed(s, &cat, 1, NULL, &out));
  refused(c, "vkf_session_classify", vkf_session_classify(s, &cat, 1, NULL, &out));
  refused(c, "vkf_session_classify_images", vkf_session_classify_images(s, &cat, 1, NULL, &out));
  refused(c, "vkf_session_read_images", vkf_session_read_images(s, &cat, 1, &out));
  refused(c, "vkf_session_fill_mask", vkf_session_fill_mask(s, &cat, 1, NULL, &out));
  refused(c, "vkf_session_encode", vkf_session_encode(s, 0, ids, 3));
  refused(c, "vkf_session_feed", vkf_session_feed(s, 0, ids, 3, 1));
  refused(c, "vkf_session_step", vkf_session_step(s));
  refused(c, "vkf_session_truncate", vkf_session_truncate(s, 0, 0));
  refused(c, "vkf_session_copy", vkf_session_copy(s, 0, 1, 0));
  refused(c, "vkf_session_save", vkf_session_save(s, 0, &out));
  refused(c, "vkf_session_restore", vkf_session_restore(s, 0, ids, 1));
  vkf_session_destroy(&s);
  assert_true(s == session_of(c->model) && out == NULL);
}

/* Calls every function that is refused. */
static void call_all(caller *c) {
  static int32_t ids[] = {5, 6, 1};
  const vkf_array input = {"input_ids", VKF_I32, 2, {1, 3}, ids};
  const vkf_kernel_time time = {"norm:8,64", "norm", 1};
  const vkf_memory_file file = {"config.json", "{}", 2};
  driver *d = c->d;
  vkf_model *model = c->model, *other = NULL;
  vkf_device *device = d->device;
  vkf_context *context = d->context;
  vkf_shortlist *list = c->list, *opened = NULL;
  vkf_result *out = NULL;
  double worst = 0;
  call_session(c);
  refused(c, "vkf_model_open", vkf_model_open(device, SHIPPED, &other));
  refused(c, "vkf_model_open", vkf_model_open_with(device, SHIPPED, NULL, &other));
  refused(c, "vkf_model_open_memory", vkf_model_open_memory(device, &file, 1, NULL, &other));
  refused(c, "vkf_shortlist_open", vkf_shortlist_open(model, "/nosuch/file", 1, 1, &opened));
  refused(c, "vkf_model_make_folder", vkf_model_make_folder(context, SHIPPED "/config.json", "/nosuch/folder", NULL));
  refused(c, "vkf_model_describe_plan", vkf_model_describe_plan(model, 1, 4, &out));
  refused(c, "vkf_model_verify", vkf_model_verify(model, &input, 1, NULL, on_pass, NULL));
  refused(c, "vkf_model_bisect", vkf_model_bisect(model, on_row, NULL, &out));
  refused(c, "vkf_model_list_problems", vkf_model_list_problems(model, 1, 4, on_problem, NULL));
  refused(c, "vkf_device_run_op", vkf_device_run_op(device, "softmax", NULL, &input, 1, NULL, &out));
  refused(c, "vkf_device_replay", vkf_device_replay(device, "{}", NULL, 0, &out));
  refused(c, "vkf_device_validate", vkf_device_validate(device, NULL, on_row, NULL, &worst));
  refused(c, "vkf_device_bench", vkf_device_bench(device, "norm:8,64", NULL, on_bench, NULL));
  refused(c, "vkf_device_list_kernels", vkf_device_list_kernels(device, "norm:8,64", on_kernel, NULL));
  refused(c, "vkf_device_compile", vkf_device_compile(device, NULL, on_compiled, NULL));
  refused(c, "vkf_device_profile_begin", vkf_device_profile_begin(device, 0));
  refused(c, "vkf_device_run_checks", vkf_device_run_checks(device, on_check, NULL));
  refused(c, "vkf_device_store_times", vkf_device_store_times(device, &time, 1));
  refused(c, "vkf_device_export_times", vkf_device_export_times(device, "/nosuch/file"));
  refused(c, "vkf_device_import_times", vkf_device_import_times(device, "/nosuch/file", NULL));
  vkf_shortlist_close(&list);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  assert_true(list == c->list && model == c->model && device == d->device && context == d->context && other == NULL &&
              opened == NULL && out == NULL);
  c->n_calls++;
}

/* Calls the functions that work inside a callback. */
static void use_tokenizer(const caller *c) {
  vkf_result *tokens = NULL, *text = NULL;
  driver_ok(c->d, vkf_tokenizer_encode(vkf_model_tokenizer(c->model), cat, NULL, &tokens));
  const vkf_array *ids = vkf_result_find(tokens, "ids");
  driver_ok(c->d, vkf_tokenizer_decode(vkf_model_tokenizer(c->model), ids->data, ids->shape[0], NULL, &text));
  assert_non_null(strstr(vkf_result_text(text, 0), "cat sat"));
  vkf_result_destroy(&text);
  vkf_result_destroy(&tokens);
}

static int on_token(void *user, size_t row, int32_t token) {
  caller *c = user;
  (void)row;
  (void)token;
  if (c->n_steps++ == 1) {
    call_all(c);
    use_tokenizer(c);
  }
  return c->stop && c->n_steps == 3;
}

static void test_translate(void **state) {
  driver *d = *state;
  caller c = {.d = d};
  vkf_result *alone = NULL, *disturbed = NULL;
  char table[] = "/tmp/vkformer-shortlist-XXXXXX";
  vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = "{\"num_beams\": 1}"};
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &c.model));
  FILE *file = fdopen(mkstemp(table), "w");
  assert_true(file && fputs("</s> </s> 1\n", file) > 0 && fclose(file) == 0);
  driver_ok(d, vkf_shortlist_open(c.model, table, 1000000, 1, &c.list)); /* every token may follow */
  unlink(table);
  params.shortlist = c.list;
  driver_ok(d, vkf_session_translate(session_of(c.model), &cat, 1, &params, &alone));
  params.on_token = on_token;
  params.user = &c;
  driver_ok(d, vkf_session_translate(session_of(c.model), &cat, 1, &params, &disturbed));
  assert_int_equal(c.n_calls, 1);
  assert_string_equal(vkf_result_text(alone, 0), vkf_result_text(disturbed, 0));
  assert_string_equal(last_message(d->context), "");
  vkf_result_destroy(&disturbed);

  c.n_steps = 0;
  c.stop = 1;
  assert_int_equal(vkf_session_translate(session_of(c.model), &cat, 1, &params, &disturbed), VKF_ERROR_STOPPED);
  assert_non_null(strstr(last_message(d->context), "the token callback asked to stop"));
  vkf_result_destroy(&disturbed);
  vkf_result_destroy(&alone);
  vkf_shortlist_close(&c.list);
  close_model(&c.model);
  assert_null(c.list);
  assert_null(c.model);
}

/* ---- the candidates of beams ------------------------------------------------------------------------------------- */

enum { BEAMS = 3, MOST_STEPS = 64, MOST_CANDIDATES = 16 };
typedef struct search {
  vkf_beam_candidate at[MOST_STEPS][MOST_CANDIDATES];
  size_t n[MOST_STEPS], n_steps, stop; /* stop: after this step; 0: never */
} search;

static int on_beams(void *user, size_t row, size_t search_number, const vkf_beam_candidate *candidates, size_t n) {
  search *s = user;
  uint32_t running = 0;
  assert_true(row == 0 && search_number == 0 && s->n_steps < MOST_STEPS && n > 0 && n <= MOST_CANDIDATES);
  for (size_t i = 0; i < n; i++) {
    if (i) assert_true(candidates[i].score <= candidates[i - 1].score);
    if (candidates[i].becomes >= 0) assert_int_equal(candidates[i].becomes, running++);
    assert_true(candidates[i].ends ? candidates[i].becomes < 0 : !candidates[i].finishes);
  }
  assert_int_equal(running, BEAMS);
  memcpy(s->at[s->n_steps], candidates, n * sizeof *candidates);
  s->n[s->n_steps++] = n;
  return s->n_steps == s->stop;
}

/* The translation is a path through the candidates of the steps: each continues the one before, the last one finishes,
 * and its score is that of the translation. */
static void test_beams(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_result *out = NULL;
  static search s;
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT,
                                      .config_json = "{\"num_beams\": 3, \"length_penalty\": 1.0}",
                                      .on_beams = on_beams, .user = &s};
  memset(&s, 0, sizeof s);
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &model));
  driver_ok(d, vkf_session_translate(session_of(model), &cat, 1, &params, &out));
  const vkf_array *sequences = vkf_result_find(out, "sequences"), *scores = vkf_result_find(out, "sequences_scores");
  const int32_t *ids = sequences->data;
  const size_t n = sequences->shape[1] - 1;
  const vkf_beam_candidate *now = NULL;
  assert_true(n > 3 && n <= s.n_steps && s.n[0] > 0 && s.at[0][0].row == 0);
  for (size_t step = 0; step < n; step++) {
    const vkf_beam_candidate *next = NULL;
    for (size_t i = 0; i < s.n[step]; i++) {
      const vkf_beam_candidate *c = &s.at[step][i];
      if (c->id == ids[step + 1] && c->row == (now ? (uint32_t)now->becomes : 0)) next = c;
    }
    assert_non_null(next);
    assert_true(next->score == next->logprob + (now ? now->score : 0));
    now = next;
  }
  assert_true(now->ends && now->finishes);
  assert_true(now->score / (float)n == ((const float *)scores->data)[0]);
  vkf_result_destroy(&out);

  s.n_steps = 0;
  s.stop = 2;
  assert_int_equal(vkf_session_translate(session_of(model), &cat, 1, &params, &out), VKF_ERROR_STOPPED);
  assert_int_equal(s.n_steps, 2);
  vkf_result_destroy(&out);
  close_model(&model);
}

/* ---- the other callbacks: one forbidden call each ---------------------------------------------------------------- */

static void try_one(caller *c) {
  vkf_result *out = NULL;
  refused(c, "vkf_session_translate", vkf_session_translate(session_of(c->model), &cat, 1, NULL, &out));
  c->n_calls++;
}
static int one_token(void *user, size_t row, int32_t token) {
  (void)row;
  (void)token;
  try_one(user);
  return 0;
}
static void one_row(void *user, const vkf_validate_row *row) {
  (void)row;
  try_one(user);
}
static void one_pass(void *user, const vkf_pass_info *pass) {
  (void)pass;
  try_one(user);
}
static void one_problem(void *user, const char *problem) {
  (void)problem;
  try_one(user);
}
static void one_kernel(void *user, const vkf_kernel_info *kernel) {
  (void)kernel;
  try_one(user);
}
static void one_bench(void *user, const vkf_bench_row *row) {
  (void)row;
  try_one(user);
}
static void one_check(void *user, const vkf_check_info *check) {
  (void)check;
  try_one(user);
}
static void one_profile(void *user, const vkf_profile_row *row) {
  (void)row;
  try_one(user);
}
static void one_event(void *user, const vkf_profile_event *event) {
  (void)event;
  try_one(user);
}

static void was_called(caller *c, const char *what) {
  if (c->n_calls == 0) fail_msg("%s called nothing", what);
  c->n_calls = 0;
}

static void test_every_callback(void **state) {
  static int32_t ids[] = {5, 6, 1}, target[] = {0, 7};
  driver *d = *state;
  caller c = {.d = d};
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {1, 3}, ids},
                              {"decoder_input_ids", VKF_I32, 2, {1, 2}, target}};
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT,
                                      .config_json = "{\"num_beams\": 1, \"max_new_tokens\": 2}", .on_token = one_token,
                                      .user = &c};
  const vkf_bench_params quick = {VKF_BENCH_PARAMS_INIT, .variant = NULL, .seconds = 0.001};
  vkf_result *out = NULL;
  double worst = 0;
  driver_ok(d, vkf_device_profile_begin(d->device, 1));
  driver_ok(d, vkf_model_open(d->device, SHIPPED, &c.model));
  driver_ok(d, vkf_session_generate(session_of(c.model), inputs, 1, &params, &out));
  was_called(&c, "generate");
  vkf_result_destroy(&out);
  vkf_device_profile_read(d->device, one_profile, NULL, &c);
  was_called(&c, "a row of the profile");
  vkf_device_profile_read(d->device, one_profile, one_event, &c);
  was_called(&c, "an event of the profile");
  driver_ok(d, vkf_model_verify(c.model, inputs, 2, &(vkf_verify_params){VKF_VERIFY_PARAMS_INIT, .cost_only = 1},
                                one_pass, &c));
  was_called(&c, "verify");
  driver_ok(d, vkf_model_list_problems(c.model, 1, 4, one_problem, &c));
  was_called(&c, "list_problems");
  driver_ok(d, vkf_device_validate(d->device, &(vkf_validate_params){VKF_VALIDATE_PARAMS_INIT, .quick = 1}, one_row, &c,
                                   &worst));
  was_called(&c, "validate");
  if (vkf_device_get_info(d->device)->kind != VKF_DEVICE_REF) {
    driver_ok(d, vkf_device_list_kernels(d->device, "norm:8,64", one_kernel, &c));
    was_called(&c, "list_kernels");
    driver_ok(d, vkf_device_bench(d->device, "norm:8,64", &quick, one_bench, &c));
    was_called(&c, "bench");
    const vkf_bench_params refused_tile = {VKF_BENCH_PARAMS_INIT, .variant = "matmul-naive-m1n1", .tile = "bm=7"};
    assert_int_equal(vkf_device_bench(d->device, "matmul:8,16,16", &refused_tile, one_bench, &c), VKF_ERROR_ARGUMENT);
    was_called(&c, "bench of a tile that no kernel has");
    driver_ok(d, vkf_device_bench(d->device, "overhead", &quick, one_bench, &c));
    was_called(&c, "bench of overhead");
    driver_ok(d, vkf_device_run_checks(d->device, one_check, &c));
    was_called(&c, "run_checks");
  }
  close_model(&c.model);
}

static int one_progress(void *user, uint64_t done, uint64_t all) {
  (void)done;
  (void)all;
  try_one(user);
  return 0;
}

static void one_line(void *user, vkf_log_level level, const char *line) {
  (void)level;
  (void)line;
  caller *c = user;
  if (c->d->context && c->model) try_one(c);
}

/* The callbacks of a context: its log, and the progress of vkf_model_make_folder(). */
static void test_log_and_progress(void **state) {
  char parent[] = "/tmp/vkformer-test-XXXXXX", folder[64];
  driver other = {0};
  caller c = {.d = &other};
  (void)state;
  const vkf_context_params params = {VKF_CONTEXT_PARAMS_INIT, .log = one_line, .log_user = &c,
                                     .log_level = VKF_LOG_DEBUG};
  assert_int_equal(vkf_context_create(&params, &other.context), VKF_OK);
  driver_ok(&other, vkf_device_open(other.context, NULL, &other.device));
  driver_ok(&other, vkf_model_open(other.device, SHIPPED, &c.model));
  vkf_result *out = NULL;
  driver_ok(&other, vkf_session_translate(session_of(c.model), &cat, 1, NULL, &out));
  vkf_result_destroy(&out);
  was_called(&c, "the log");
  assert_non_null(mkdtemp(parent));
  snprintf(folder, sizeof folder, "%s/made", parent);
  const vkf_make_params make = {VKF_MAKE_PARAMS_INIT, .dtype = VKF_F16, .on_progress = one_progress, .user = &c};
  driver_ok(&other,
            vkf_model_make_folder(other.context, VKF_SOURCE_DIR "/tests/golden/gpt2/config.json", folder, &make));
  was_called(&c, "make_folder");
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", parent);
  assert_int_equal(system(command), 0);
  vkf_model *model = c.model;
  c.model = NULL; /* the log is called while the model closes */
  close_model(&model);
  vkf_device_close(&other.device);
  vkf_context_destroy(&other.context);
}

DRIVER_MAIN(DRIVER_TEST_PLAIN(test_translate), DRIVER_TEST_PLAIN(test_beams), DRIVER_TEST_PLAIN(test_every_callback),
            DRIVER_TEST_PLAIN(test_log_and_progress))
