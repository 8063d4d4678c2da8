/* Structs that can grow: what a caller that was compiled with an older or a newer header passes and gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <vkformer/lab.h>

#include "engine/engine.h"

/* vkf_run_params of an older and of a newer version. */
typedef struct older {
  size_t size;
  bool hidden_states;
} older;

typedef struct newer {
  vkf_run_params known;
  uint32_t count;
  bool flag;
} newer;

static void what_is_not_given_is_default(void **state) {
  (void)state;
  vkf_env env;
  vkf_run_params full;
  vkf_env_init(&env, NULL);
  memset(&full, 0xff, sizeof full);
  assert_int_equal(VKF_PARAMS_READ(&env, vkf_run_params, NULL, &full), VKF_OK);
  assert_int_equal(full.size, sizeof full);
  assert_false(full.hidden_states || full.attentions || full.allow_not_finite);

  struct {
    older given;
    unsigned char behind[32];
  } caller;
  memset(&caller, 0xff, sizeof caller); /* nothing after the older struct is read */
  caller.given = (older){.size = offsetof(older, hidden_states) + 1, .hidden_states = true};
  assert_int_equal(VKF_PARAMS_READ(&env, vkf_run_params, (const vkf_run_params *)(const void *)&caller, &full), VKF_OK);
  assert_int_equal(full.size, sizeof full);
  assert_true(full.hidden_states);
  assert_false(full.attentions || full.allow_not_finite);
}

static void what_is_not_known_must_be_zero(void **state) {
  (void)state;
  vkf_env env;
  vkf_run_params full;
  newer given;
  vkf_env_init(&env, NULL);
  memset(&given, 0, sizeof given);
  given.known.size = sizeof given;
  given.known.attentions = true;
  assert_int_equal(VKF_PARAMS_READ(&env, vkf_run_params, &given.known, &full), VKF_OK);
  assert_int_equal(full.size, sizeof full);
  assert_true(full.attentions);

  given.flag = true;
  assert_int_equal(VKF_PARAMS_READ(&env, vkf_run_params, &given.known, &full), VKF_ERROR_UNSUPPORTED);
  assert_non_null(strstr(env.message, "vkf_run_params"));
  assert_non_null(strstr(env.message, VKF_VERSION_TEXT));
}

static void a_size_is_needed(void **state) {
  (void)state;
  vkf_env env;
  vkf_run_params full, given = {.attentions = true};
  vkf_context *context = NULL;
  vkf_env_init(&env, NULL);
  for (given.size = 0; given.size < sizeof(size_t); given.size++) {
    vkf_env_clear(&env);
    assert_int_equal(VKF_PARAMS_READ(&env, vkf_run_params, &given, &full), VKF_ERROR_ARGUMENT);
    assert_non_null(strstr(env.message, "vkf_run_params_init()"));
  }
  assert_int_equal(vkf_context_create(&(vkf_context_params){.deterministic = true}, &context), VKF_ERROR_ARGUMENT);
  assert_null(context);
}

static void a_caller_gets_what_it_knows(void **state) {
  (void)state;
  vkf_env env;
  const vkf_model_info full = {VKF_MODEL_INFO_INIT, .family = "bert", .d_model = 7, .n_heads = 3};
  struct {
    vkf_model_info info;
    unsigned char behind[64];
  } caller;
  vkf_env_init(&env, NULL);
  memset(&caller, 0xff, sizeof caller);
  caller.info.size = offsetof(vkf_model_info, n_heads); /* an older caller: nothing after its struct is written */
  assert_int_equal(VKF_INFO_WRITE(&env, vkf_model_info, &full, &caller.info), VKF_OK);
  assert_int_equal(caller.info.size, offsetof(vkf_model_info, n_heads));
  assert_int_equal(caller.info.d_model, 7);
  assert_int_equal(caller.info.n_heads, UINT32_MAX);

  caller.info.size = sizeof caller; /* a newer one: fields that this library does not know become 0 */
  assert_int_equal(VKF_INFO_WRITE(&env, vkf_model_info, &full, &caller.info), VKF_OK);
  assert_int_equal(caller.info.n_heads, 3);
  for (size_t i = 0; i < sizeof caller.behind; i++) assert_int_equal(caller.behind[i], 0);

  caller.info.size = 0;
  assert_int_equal(VKF_INFO_WRITE(&env, vkf_model_info, &full, &caller.info), VKF_ERROR_ARGUMENT);
  assert_non_null(strstr(env.message, "vkf_model_info_init()"));
}

/* Every enumerator has a name; other numbers give NULL. */
static void enumerators_have_names(void **state) {
  (void)state;
  assert_string_equal(vkf_storage_name(VKF_STORAGE_INT8), "int8");
  assert_string_equal(vkf_storage_name(VKF_STORAGE_Q8), "q8");
  assert_null(vkf_storage_name((vkf_storage)6));
  assert_null(vkf_storage_name((vkf_storage)-1));
  assert_string_equal(vkf_device_kind_name(VKF_DEVICE_OTHER), "other");
  assert_null(vkf_device_kind_name((vkf_device_kind)6));
  assert_string_equal(vkf_check_state_name(VKF_CHECK_FAILED), "failed");
  assert_null(vkf_check_state_name((vkf_check_state)4));
  assert_string_equal(vkf_dtype_name(VKF_I16), "I16");
  assert_null(vkf_dtype_name(VKF_DTYPE_COUNT));
  assert_null(vkf_dtype_name((vkf_dtype)-1));
  assert_string_equal(vkf_architecture_name(VKF_ARCHITECTURE_DECODER), "decoder");
  assert_null(vkf_architecture_name((vkf_architecture)3));
  assert_string_equal(vkf_scope_name(VKF_SCOPE_BLOCK), "block");
  assert_null(vkf_scope_name((vkf_scope)4));
  assert_string_equal(vkf_stage_name(VKF_STAGE_DECODE), "decode");
  assert_null(vkf_stage_name((vkf_stage)2));
  assert_string_equal(vkf_clock_name(VKF_CLOCK_CALL), "call");
  assert_null(vkf_clock_name((vkf_clock)3));
  assert_string_equal(vkf_order_class_name(VKF_ORDER_FAST), "fast");
  assert_null(vkf_order_class_name((vkf_order_class)2));
  assert_string_equal(vkf_status_name(VKF_ERROR_STOPPED), "stopped");
  assert_string_equal(vkf_status_name((vkf_status)99), "unknown status");
  for (vkf_format f = 0; f < VKF_FORMAT_COUNT; f++)
    assert_string_equal(vkf_storage_name(vkf_engine_storage_of(f)), vkf_format_get(f)->name);
  assert_int_equal(vkf_engine_storage_of(VKF_FORMAT_COUNT), VKF_STORAGE_AUTO);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_not_given_is_default),
      cmocka_unit_test(what_is_not_known_must_be_zero),
      cmocka_unit_test(a_size_is_needed),
      cmocka_unit_test(a_caller_gets_what_it_knows),
      cmocka_unit_test(enumerators_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
