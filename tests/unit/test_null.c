/* Calls each public function with NULL for each of its pointers in turn. Unless the header allows NULL, it must return
 * an error or do nothing. The table has a row for every VKF_API of include/vkformer; a test compares it with the
 * headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <vkformer/lab.h>
#include <vkformer/vkformer.h>
#include <vkformer/vulkan.h>

#include "support/headers.h"

#define MODEL VKF_SOURCE_DIR "/models/en-es"

static vkf_context *context;
static vkf_device *device;
static vkf_model *model;
static vkf_session *session;
static vkf_tokenizer *tokenizer;
static vkf_result *result; /* one array, one text */
static char written[] = "/tmp/vkf-null-XXXXXX";

static int32_t ids[] = {5, 6, 0}, target_ids[] = {2};
static const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {1, 3}, ids},
                                   {"decoder_input_ids", VKF_I32, 2, {1, 1}, target_ids}};
static const char *const texts[] = {"a"};
static const vkf_array op_inputs[] = {{"x", VKF_F32, 2, {1, 2}, (float[]){1, 2}}};

static int on_next(void *user, bool busy, vkf_queued_text *out) {
  (void)user, (void)busy, (void)out;
  return 0;
}
static int on_done(void *user, void *tag, const vkf_result *done) {
  (void)user, (void)tag, (void)done;
  return 0;
}
static const vkf_text_queue queue = {VKF_TEXT_QUEUE_INIT, .next = on_next, .done = on_done};
static void on_check(void *user, const vkf_check_info *check) {
  (void)user, (void)check;
}
static void on_row(void *user, const vkf_validate_row *row) {
  (void)user, (void)row;
}
static void on_pass(void *user, const vkf_pass_info *pass) {
  (void)user, (void)pass;
}
static void on_profile(void *user, const vkf_profile_row *row) {
  (void)user, (void)row;
}
static void on_event(void *user, const vkf_profile_event *event) {
  (void)user, (void)event;
}
static void on_kernel(void *user, const vkf_kernel_info *kernel) {
  (void)user, (void)kernel;
}
static void on_compiled(void *user, const vkf_compiled_kernel *kernel) {
  (void)user, (void)kernel;
}
static void on_problem(void *user, const char *problem) {
  (void)user, (void)problem;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static int at; /* which pointer is NULL */
#define P(i, pointer) (at == (i) ? NULL : (pointer))
/* For functions without a status. GAVE: VKF_OK if it returned something; NO_OP: it returns nothing. */
#define GAVE(something) ((something) ? VKF_OK : VKF_ERROR_ARGUMENT)
#define NO_OP(call) ((call), VKF_ERROR_ARGUMENT)

/* A row: the function, the number of its pointers (without user data), a bit for each that may be NULL, and a call,
 * which must return VKF_OK if NULL is allowed, and else an error. */
#define FUNCTIONS(X)                                                                                                   \
  X(vkf_core_count, 0, 0, GAVE(vkf_core_count() > 0))                                                                  \
  X(vkf_version, 0, 0, GAVE(vkf_version()))                                                                            \
  X(vkf_status_name, 0, 0, GAVE(vkf_status_name(0)))                                                                   \
  X(vkf_storage_name, 0, 0, GAVE(vkf_storage_name(0)))                                                                 \
  X(vkf_device_kind_name, 0, 0, GAVE(vkf_device_kind_name(0)))                                                         \
  X(vkf_dtype_name, 0, 0, GAVE(vkf_dtype_name(0)))                                                                     \
  X(vkf_check_state_name, 0, 0, GAVE(vkf_check_state_name(0)))                                                         \
  X(vkf_architecture_name, 0, 0, GAVE(vkf_architecture_name(0)))                                                       \
  X(vkf_scope_name, 0, 0, GAVE(vkf_scope_name(0)))                                                                     \
  X(vkf_stage_name, 0, 0, GAVE(vkf_stage_name(0)))                                                                     \
  X(vkf_clock_name, 0, 0, GAVE(vkf_clock_name(0)))                                                                     \
  X(vkf_order_class_name, 0, 0, GAVE(vkf_order_class_name(0)))                                                         \
  X(vkf_context_create, 2, 1, vkf_context_create(P(0, NULL), P(1, &made.context)))                                     \
  X(vkf_context_destroy, 1, 0, NO_OP(vkf_context_destroy(P(0, &made.context))))                                        \
  X(vkf_context_skip_checks, 1, 0, NO_OP(vkf_context_skip_checks(P(0, context))))                                      \
  X(vkf_context_message, 1, 0, GAVE(vkf_context_message(P(0, context))[0]))                                            \
  X(vkf_context_list_devices, 2, 0, vkf_context_list_devices(P(0, context), P(1, &made.n)))                            \
  X(vkf_context_device_info, 2, 0, vkf_context_device_info(P(0, context), 0, P(1, &made.device_info)))                 \
  X(vkf_device_open, 3, 2, vkf_device_open(P(0, context), P(1, "ref"), P(2, &made.device)))                            \
  X(vkf_device_close, 1, 0, NO_OP(vkf_device_close(P(0, &made.device))))                                               \
  X(vkf_device_get_info, 1, 0, GAVE(vkf_device_get_info(P(0, device))))                                                \
  X(vkf_device_memory, 3, 0, NO_OP(vkf_device_memory(P(0, device), P(1, &made.bytes), P(2, &made.bytes))))             \
  X(vkf_device_adopt, 3, 0, vkf_device_adopt(P(0, context), P(1, &made.handles), P(2, &made.device)))                  \
  X(vkf_arrays_read, 3, 0, vkf_arrays_read(P(0, context), P(1, MODEL), P(2, &made.result)))                            \
  X(vkf_arrays_write, 3, 0, vkf_arrays_write(P(0, context), P(1, written), P(2, inputs), 2))                           \
  X(vkf_bytes_read, 3, 0, vkf_bytes_read(P(0, context), P(1, MODEL "/config.json"), P(2, &made.result)))               \
  X(vkf_bytes_write, 3, 0, vkf_bytes_write(P(0, context), P(1, written), P(2, "x"), 1))                                \
  X(vkf_bytes_check_write, 2, 0, vkf_bytes_check_write(P(0, context), P(1, written)))                                  \
  X(vkf_model_open, 3, 0, vkf_model_open(P(0, device), P(1, MODEL), P(2, &made.model)))                                \
  X(vkf_model_open_with, 4, 4, vkf_model_open_with(P(0, device), P(1, MODEL), P(2, NULL), P(3, &made.model)))          \
  X(vkf_model_open_memory, 4, 0,                                                                                       \
    vkf_model_open_memory(P(0, device), P(1, &made.file), 1, P(2, NULL), P(3, &made.model)))                           \
  X(vkf_model_close, 1, 0, NO_OP(vkf_model_close(P(0, &made.model))))                                                  \
  X(vkf_model_get_info, 2, 0, vkf_model_get_info(P(0, model), P(1, &made.model_info)))                                 \
  X(vkf_model_get_attention, 2, 0,                                                                                     \
    vkf_model_get_attention(P(0, model), VKF_ATTENTION_CROSS, 1, P(1, &made.attention_info)))                          \
  X(vkf_model_unused_tensor, 1, 0, GAVE(vkf_model_unused_tensor(P(0, model), 0)))                                      \
  X(vkf_shortlist_open, 3, 0, vkf_shortlist_open(P(0, model), P(1, MODEL), 1, 1, P(2, &made.shortlist)))               \
  X(vkf_shortlist_close, 1, 0, NO_OP(vkf_shortlist_close(P(0, &made.shortlist))))                                      \
  X(vkf_session_create, 3, 2, vkf_session_create(P(0, model), P(1, NULL), P(2, &made.session)))                        \
  X(vkf_session_destroy, 1, 0, NO_OP(vkf_session_destroy(P(0, &made.session))))                                        \
  X(vkf_session_message, 1, 0, GAVE(vkf_session_message(P(0, session))[0]))                                            \
  X(vkf_session_get_info, 2, 0, vkf_session_get_info(P(0, session), P(1, &made.session_info)))                         \
  X(vkf_session_run, 4, 4, vkf_session_run(P(0, session), P(1, inputs), 2, P(2, NULL), P(3, &made.result)))            \
  X(vkf_session_read_images, 3, 0, vkf_session_read_images(P(0, session), P(1, texts), 1, P(2, &made.result)))         \
  X(vkf_generation_expects, 1, 0, GAVE(vkf_generation_expects(P(0, "top_p"), 2)))                                      \
  X(vkf_result_skipped, 2, 0, GAVE(vkf_result_skipped(P(0, result), 0, P(1, &made.text))))                             \
  X(vkf_session_generate, 4, 4, vkf_session_generate(P(0, session), P(1, inputs), 1, P(2, NULL), P(3, &made.result)))  \
  X(vkf_session_translate, 3, 0, vkf_session_translate(P(0, session), P(1, texts), 1, NULL, P(2, &made.result)))       \
  X(vkf_session_align_heads, 3, 0, vkf_session_align_heads(P(0, session), P(1, texts), 1, NULL, P(2, &made.result)))   \
  X(vkf_session_translate_queue, 2, 0, vkf_session_translate_queue(P(0, session), P(1, &queue), NULL))                 \
  X(vkf_session_score, 4, 0, vkf_session_score(P(0, session), P(1, texts), P(2, texts), 1, NULL, P(3, &made.result)))  \
  X(vkf_evaluate, 5, 8, vkf_evaluate(P(0, context), P(1, texts), 1, P(2, texts), 1, P(3, NULL), P(4, &made.result)))   \
  X(vkf_session_embed, 3, 0, vkf_session_embed(P(0, session), P(1, texts), 1, NULL, P(2, &made.result)))               \
  X(vkf_session_classify, 3, 0, vkf_session_classify(P(0, session), P(1, texts), 1, NULL, P(2, &made.result)))         \
  X(vkf_session_fill_mask, 3, 0, vkf_session_fill_mask(P(0, session), P(1, texts), 1, NULL, P(2, &made.result)))       \
  X(vkf_session_generate_text, 3, 0,                                                                                   \
    vkf_session_generate_text(P(0, session), P(1, texts), 1, NULL, P(2, &made.result)))                                \
  X(vkf_session_generate_text_queue, 2, 0, vkf_session_generate_text_queue(P(0, session), P(1, &queue), NULL))         \
  X(vkf_session_classify_images, 3, 0,                                                                                 \
    vkf_session_classify_images(P(0, session), P(1, texts), 1, NULL, P(2, &made.result)))                              \
  X(vkf_session_encode, 2, 0, vkf_session_encode(P(0, session), 0, P(1, ids), 3))                                      \
  X(vkf_session_feed, 2, 0, vkf_session_feed(P(0, session), 0, P(1, ids), 3, 1))                                       \
  X(vkf_session_step, 1, 0, vkf_session_step(P(0, session)))                                                           \
  X(vkf_session_logits, 1, 0, GAVE(vkf_session_logits(P(0, session), 0, NULL)))                                        \
  X(vkf_session_ids, 1, 0, GAVE(vkf_session_ids(P(0, session), 0, NULL)))                                              \
  X(vkf_session_slot_capacity, 1, 0, GAVE(vkf_session_slot_capacity(P(0, session))))                                   \
  X(vkf_session_truncate, 1, 0, vkf_session_truncate(P(0, session), 0, 0))                                             \
  X(vkf_session_copy, 1, 0, vkf_session_copy(P(0, session), 0, 1, 0))                                                  \
  X(vkf_session_save, 2, 0, vkf_session_save(P(0, session), 0, P(1, &made.result)))                                    \
  X(vkf_session_restore, 2, 0, vkf_session_restore(P(0, session), 0, P(1, "x"), 1))                                    \
  X(vkf_tokenizer_open, 3, 0, vkf_tokenizer_open(P(0, context), P(1, MODEL), P(2, &made.tokenizer)))                   \
  X(vkf_tokenizer_close, 1, 0, NO_OP(vkf_tokenizer_close(P(0, &made.tokenizer))))                                      \
  X(vkf_model_tokenizer, 1, 0, GAVE(vkf_model_tokenizer(P(0, model))))                                                 \
  X(vkf_session_tokenizer, 1, 0, GAVE(vkf_session_tokenizer(P(0, session))))                                           \
  X(vkf_tokenizer_encode, 4, 4, vkf_tokenizer_encode(P(0, tokenizer), P(1, "a"), P(2, NULL), P(3, &made.result)))      \
  X(vkf_tokenizer_decode, 4, 4, vkf_tokenizer_decode(P(0, tokenizer), P(1, ids), 3, P(2, NULL), P(3, &made.result)))   \
  X(vkf_tokenizer_piece, 1, 0, GAVE(vkf_tokenizer_piece(P(0, tokenizer), 1)))                                          \
  X(vkf_tokenizer_find, 2, 0, GAVE(vkf_tokenizer_find(P(0, tokenizer), P(1, "a")) >= 0))                               \
  X(vkf_tokenizer_get_special_ids, 2, 0, vkf_tokenizer_get_special_ids(P(0, tokenizer), P(1, &made.special)))          \
  X(vkf_model_get_special_ids, 2, 0, vkf_model_get_special_ids(P(0, model), P(1, &made.special)))                      \
  X(vkf_result_count, 1, 0, GAVE(vkf_result_count(P(0, result))))                                                      \
  X(vkf_result_at, 1, 0, GAVE(vkf_result_at(P(0, result), 0)))                                                         \
  X(vkf_result_find, 2, 0, GAVE(vkf_result_find(P(0, result), P(1, "ids"))))                                           \
  X(vkf_result_f32, 3, 0, GAVE(vkf_result_f32(P(0, result), P(1, "ids"), P(2, &made.n))))                              \
  X(vkf_result_f64, 3, 0, GAVE(vkf_result_f64(P(0, result), P(1, "ids"), P(2, &made.n))))                              \
  X(vkf_result_i32, 3, 4, GAVE(vkf_result_i32(P(0, result), P(1, "ids"), P(2, &made.n))))                              \
  X(vkf_result_text, 1, 0, GAVE(vkf_result_text(P(0, result), 0)))                                                     \
  X(vkf_result_text_count, 1, 0, GAVE(vkf_result_text_count(P(0, result))))                                            \
  X(vkf_result_destroy, 1, 0, NO_OP(vkf_result_destroy(P(0, &made.result))))                                           \
  X(vkf_device_run_checks, 2, 0, vkf_device_run_checks(P(0, device), P(1, on_check), NULL))                            \
  X(vkf_model_make_folder, 3, 0,                                                                                       \
    vkf_model_make_folder(P(0, context), P(1, MODEL "/config.json"), P(2, written), NULL))                             \
  X(vkf_model_describe_plan, 2, 0, vkf_model_describe_plan(P(0, model), 1, 4, P(1, &made.result)))                     \
  X(vkf_device_run_op, 6, 36,                                                                                          \
    vkf_device_run_op(P(0, device), P(1, "gate"), P(2, NULL), P(3, op_inputs), 1, P(5, NULL), P(4, &made.result)))     \
  X(vkf_device_validate, 3, 2, vkf_device_validate(P(0, device), NULL, P(1, on_row), NULL, P(2, &made.worst)))         \
  X(vkf_model_bisect, 3, 2, vkf_model_bisect(P(0, model), P(1, on_row), NULL, P(2, &made.result)))                     \
  X(vkf_device_replay, 4, 0, vkf_device_replay(P(0, device), P(1, "{}"), P(2, inputs), 1, P(3, &made.result)))         \
  X(vkf_model_verify, 4, 4, vkf_model_verify(P(0, model), P(1, inputs), 2, P(2, NULL), P(3, on_pass), NULL))           \
  X(vkf_device_profile_begin, 1, 0, vkf_device_profile_begin(P(0, device), false))                                     \
  X(vkf_device_profile_read, 3, 0,                                                                                     \
    NO_OP(vkf_device_profile_read(P(0, device), P(1, on_profile), P(2, on_event), NULL)))                              \
  X(vkf_device_list_kernels, 3, 0, vkf_device_list_kernels(P(0, device), P(1, "matmul:1,8,8"), P(2, on_kernel), NULL)) \
  X(vkf_device_compile, 2, 0, vkf_device_compile(P(0, device), NULL, P(1, on_compiled), NULL))                         \
  X(vkf_model_list_problems, 2, 0, vkf_model_list_problems(P(0, model), 1, 4, P(1, on_problem), NULL))                 \
  X(vkf_device_store_times, 2, 0, vkf_device_store_times(P(0, device), P(1, &made.time), 1))                           \
  X(vkf_device_get_kept_info, 2, 0, vkf_device_get_kept_info(P(0, device), P(1, &made.kept_info)))                     \
  X(vkf_device_export_times, 2, 0, vkf_device_export_times(P(0, device), P(1, written)))                               \
  X(vkf_device_import_times, 2, 0, vkf_device_import_times(P(0, device), P(1, written), NULL))                         \
  X(vkf_device_bench, 2, 0, vkf_device_bench(P(0, device), P(1, "matmul:1,8,8"), NULL, NULL, NULL))

/* What the calls create or fill. */
static struct {
  vkf_context *context;
  vkf_device *device;
  vkf_model *model;
  vkf_session *session;
  vkf_tokenizer *tokenizer;
  vkf_shortlist *shortlist;
  vkf_result *result;
  vkf_device_info device_info;
  vkf_device_handles handles;
  vkf_model_info model_info;
  vkf_attention_info attention_info;
  vkf_session_info session_info;
  vkf_kept_info kept_info;
  vkf_special_ids special;
  vkf_kernel_time time;
  vkf_memory_file file;
  const char *text;
  uint64_t bytes;
  double worst;
  size_t n;
} made;

#define FUNCTION(name, n, allowed, call) \
  static vkf_status call_##name(void) {  \
    return (call);                       \
  }
FUNCTIONS(FUNCTION)

static const struct {
  const char *name;
  int n;
  unsigned allowed;
  vkf_status (*call)(void);
} table[] = {
#define ROW(name, n, allowed, call) {#name, n, allowed, call_##name},
    FUNCTIONS(ROW)};
enum { N_ROWS = sizeof table / sizeof table[0] };

static void no_null_is_followed(void **state) {
  (void)state;
  for (size_t i = 0; i < N_ROWS; i++) {
    for (at = 0; at < table[i].n; at++) {
      memset(&made, 0, sizeof made);
      const vkf_status found = table[i].call();
      const bool is_allowed = table[i].allowed >> at & 1;
      if ((found == VKF_OK) != is_allowed)
        fail_msg("%s, pointer %d: expected %s, found %s: %s", table[i].name, at, is_allowed ? "ok" : "an error",
                 vkf_status_name(found), vkf_context_message(context));
      vkf_result_destroy(&made.result);
      vkf_tokenizer_close(&made.tokenizer);
      vkf_shortlist_close(&made.shortlist);
      vkf_session_destroy(&made.session);
      vkf_model_close(&made.model);
      vkf_device_close(&made.device);
      vkf_context_destroy(&made.context);
    }
  }
}

/* ---- the headers ------------------------------------------------------------------------------------------------- */

static bool has_row(const char *name, size_t n) {
  for (size_t i = 0; i < N_ROWS; i++)
    if (strlen(table[i].name) == n && strncmp(table[i].name, name, n) == 0) return true;
  return false;
}

/* Returns the number of functions in a header; each must have a row. */
static size_t count_functions(const char *path) {
  vkf_result *header = NULL;
  size_t n = 0;
  assert_int_equal(vkf_bytes_read(context, path, &header), VKF_OK);
  const char *text = vkf_result_find(header, "bytes")->data; /* a zero byte follows */
  while ((text = strstr(text, "\nVKF_API ")) != NULL) {
    const char *open = strchr(++text, '('), *name = open;
    assert_non_null(open);
    while (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z') || (name[-1] >= '0' && name[-1] <= '9')) name--;
    if (!has_row(name, (size_t)(open - name))) fail_msg("%s: no row for %.*s", path, (int)(open - name), name);
    n++;
  }
  vkf_result_destroy(&header);
  return n;
}

static void every_function_has_a_row(void **state) {
  (void)state;
  size_t n = 0;
  for (size_t i = 0; i < N_PUBLIC_HEADERS; i++) n += count_functions(public_headers[i]);
  assert_int_equal(n, N_ROWS);
}

static int setup(void **state) {
  (void)state;
  const int file = mkstemp(written);
  if (file < 0) return -1;
  close(file);
  if (vkf_context_create(NULL, &context) || vkf_device_open(context, "ref", &device) ||
      vkf_model_open(device, MODEL, &model) || vkf_session_create(model, NULL, &session) ||
      vkf_tokenizer_open(context, MODEL, &tokenizer) || vkf_tokenizer_encode(tokenizer, "a", NULL, &result))
    return -1;
  return 0;
}

static int teardown(void **state) {
  (void)state;
  vkf_result_destroy(&result);
  vkf_tokenizer_close(&tokenizer);
  vkf_session_destroy(&session);
  vkf_model_close(&model);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return unlink(written);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_has_a_row), cmocka_unit_test(no_null_is_followed)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
