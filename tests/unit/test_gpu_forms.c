/* Forms of kernels as bytes: they are read as they were written, and damaged bytes give the forms that are whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/forms.h"
#include "gpu/vk.h"

static void add(vkf_gpu_forms *f, vkf_env *env, uint64_t key, const char *text) {
  unsigned char *to = vkf_gpu_forms_add(f, env, key, strlen(text));
  assert_non_null(to);
  memcpy(to, text, strlen(text));
}

static void is(vkf_gpu_forms *f, uint64_t key, const char *text) {
  const vkf_gpu_form *form = vkf_gpu_forms_find(f, key);
  assert_non_null(form);
  assert_int_equal(form->n, strlen(text));
  assert_memory_equal(form->bytes, text, form->n);
  assert_int_equal((uintptr_t)form->bytes % 16, 0); /* vkCreateShadersEXT requires it */
}

/* Frees all that a test has and checks that nothing else was allocated. */
static void end(vkf_env *env, void *bytes, vkf_gpu_forms *f, vkf_gpu_forms *g) {
  vkf_env_free(env, bytes);
  vkf_gpu_forms_finish(f, env);
  vkf_gpu_forms_finish(g, env);
  assert_int_equal(env->live_bytes, 0);
}

static void what_was_added_comes_back(void **state) {
  (void)state;
  vkf_env env;
  vkf_gpu_forms f, g;
  void *bytes;
  size_t n = 99;
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_gpu_forms_open(&f, &env, NULL, 0), VKF_OK);
  assert_int_equal(vkf_gpu_forms_take(&f, &env, &bytes, &n), VKF_OK);
  assert_true(!bytes && n == 0);
  add(&f, &env, 7, "seven");
  add(&f, &env, 8, "eight of them");
  add(&f, &env, 7, "another seven");
  is(&f, 7, "another seven");
  is(&f, 8, "eight of them");
  assert_null(vkf_gpu_forms_find(&f, 9));
  assert_int_equal(vkf_gpu_forms_take(&f, &env, &bytes, &n), VKF_OK);
  assert_int_equal(vkf_gpu_forms_open(&g, &env, bytes, n), VKF_OK);
  is(&g, 7, "another seven");
  is(&g, 8, "eight of them");
  void *none;
  size_t n_none = 99;
  assert_int_equal(vkf_gpu_forms_take(&g, &env, &none, &n_none), VKF_OK); /* the file has them already */
  assert_true(!none && n_none == 0);
  end(&env, bytes, &f, &g);
}

static void damaged_bytes_give_what_is_whole(void **state) {
  (void)state;
  vkf_env env;
  vkf_gpu_forms f, g;
  void *bytes;
  size_t n;
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_gpu_forms_open(&f, &env, NULL, 0), VKF_OK);
  add(&f, &env, 1, "one");
  add(&f, &env, 2, "two");
  assert_int_equal(vkf_gpu_forms_take(&f, &env, &bytes, &n), VKF_OK);
  const size_t entry = (n - 8) / 2;
  for (size_t cut = 0; cut < n; cut++) {
    char *part = vkf_env_alloc(&env, cut + 1, 1); /* its own block, so a sanitizer sees reads beyond it */
    memcpy(part, bytes, cut);
    assert_int_equal(vkf_gpu_forms_open(&g, &env, part, cut), VKF_OK);
    assert_true(!!vkf_gpu_forms_find(&g, 2) == (cut >= 8 + entry)); /* the most recently used one is first */
    assert_null(vkf_gpu_forms_find(&g, 1));
    vkf_gpu_forms_finish(&g, &env);
    vkf_env_free(&env, part);
  }
  ((char *)bytes)[0] ^= 1;
  assert_int_equal(vkf_gpu_forms_open(&g, &env, bytes, n), VKF_OK);
  assert_null(g.first);
  ((char *)bytes)[0] ^= 1;
  memset((char *)bytes + 16, 0xff, 8); /* the first form's size exceeds the bytes */
  assert_int_equal(vkf_gpu_forms_open(&g, &env, bytes, n), VKF_OK);
  assert_null(g.first);
  end(&env, bytes, &f, &g);
}

/* At most 8 MiB are kept. The least recently used forms are dropped first. */
static void what_is_used_stays(void **state) {
  (void)state;
  enum { EACH = 1 << 20, N = 10 };
  vkf_env env;
  vkf_gpu_forms f, g;
  void *bytes;
  size_t n;
  vkf_env_init(&env, NULL);
  assert_int_equal(vkf_gpu_forms_open(&f, &env, NULL, 0), VKF_OK);
  for (uint64_t key = 0; key < N; key++) memset(vkf_gpu_forms_add(&f, &env, key, EACH), (int)key, EACH);
  assert_non_null(vkf_gpu_forms_find(&f, 1));
  assert_int_equal(vkf_gpu_forms_take(&f, &env, &bytes, &n), VKF_OK);
  assert_true(n <= 8 * EACH);
  assert_int_equal(vkf_gpu_forms_open(&g, &env, bytes, n), VKF_OK);
  for (uint64_t key = 0; key < N; key++) {
    const vkf_gpu_form *form = vkf_gpu_forms_find(&g, key);
    assert_true(!!form == (key == 1 || key > 3));
    if (form) assert_true(form->bytes[0] == key && form->bytes[EACH - 1] == key);
  }
  end(&env, bytes, &f, &g);
}

/* The key covers everything that changes what the driver compiles. */
static void each_kernel_has_its_key(void **state) {
  (void)state;
  const uint32_t code[] = {1, 2, 3, 4}, other_code[] = {1, 2, 3, 5}, constants[] = {1, 2}, other_constants[] = {1, 3};
  const vkf_gpu_binding_kind storage[] = {VKF_GPU_BINDING_STORAGE, VKF_GPU_BINDING_STORAGE},
                             texel[] = {VKF_GPU_BINDING_STORAGE, VKF_GPU_BINDING_TEXEL_U32};
  const vkf_gpu_pipeline_params base = {.name = "matmul",
                                        .code = code,
                                        .code_bytes = sizeof code,
                                        .constants = constants,
                                        .n_constants = 2,
                                        .n_bindings = 2,
                                        .kinds = storage,
                                        .push_bytes = 16,
                                        .subgroup_size = 8};
  vkf_gpu_device narrow = {.caps.device_name = "llvmpipe (LLVM 22.1.8, 256 bits)"},
                 wide = {.caps.device_name = "llvmpipe (LLVM 22.1.8, 512 bits)"};
  enum { N = 11 };
  vkf_gpu_pipeline_params p[N];
  uint64_t keys[N];
  for (size_t i = 0; i < N; i++) p[i] = base;
  p[1].name = "norm";
  p[2].code = other_code;
  p[3].code_bytes = sizeof code - 4;
  p[4].constants = other_constants;
  p[5].n_constants = 1;
  p[6].n_bindings = 1;
  p[7].kinds = texel;
  p[8].push_bytes = 20;
  p[9].subgroup_size = 16;
  p[10].subgroup_full = true;
  for (size_t i = 0; i < N; i++) {
    keys[i] = vkf_gpu_shader_key(&narrow, &p[i]);
    assert_true(keys[i] == vkf_gpu_shader_key(&narrow, &p[i]));
    assert_true(keys[i] != vkf_gpu_shader_key(&wide, &p[i]));
    for (size_t j = 0; j < i; j++) assert_true(keys[i] != keys[j]);
  }
  p[0].kinds = NULL; /* all are storage buffers */
  assert_true(keys[0] == vkf_gpu_shader_key(&narrow, &p[0]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_added_comes_back),
      cmocka_unit_test(damaged_bytes_give_what_is_whole),
      cmocka_unit_test(what_is_used_stays),
      cmocka_unit_test(each_kernel_has_its_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
