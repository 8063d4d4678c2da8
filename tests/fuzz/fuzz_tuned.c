/* Takes any bytes as tuned.json: what is read can be written, read again and written the same. Rows that count for a
 * device name kernels and problems of this library. */
#include "fuzz.h"

#include "tune/tuned.h"

static void print(vkf_env *env, const vkf_tuned_file *file, vkf_text *out) {
  vkf_text_init(out, env);
  FUZZ_CHECK(vkf_tune_file_print(file, out) == VKF_OK);
}

static void check_rows(vkf_env *env, const vkf_tuned_file *file) {
  const vkf_caps caps = {.subgroup_size = 8};
  vkf_arena arena;
  vkf_tuned rows;
  for (size_t s = 0; s < file->n_sections; s++) {
    const vkf_tuned_section *section = &file->sections[s];
    vkf_arena_init(&arena, env);
    FUZZ_CHECK(vkf_tune_resolve(file, &section->key, &caps, s % 2, &arena, &rows) == VKF_OK);
    for (size_t i = 0; i < rows.n_times; i++)
      FUZZ_CHECK(rows.times[i].ns >= 1 && rows.times[i].variant->op == rows.times[i].problem.op);
    vkf_arena_finish(&arena);
    for (size_t i = 0; i < section->n_checks; i++)
      FUZZ_CHECK(vkf_tune_file_found(file, &section->key, section->checks[i].check));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  vkf_env env;
  vkf_tuned_file file, again;
  vkf_text text, second;
  vkf_env_init(&env, NULL);
  vkf_tune_file_init(&file, &env);
  vkf_tune_file_init(&again, &env);
  if (fuzz_check_status(&env, vkf_tune_file_parse(&file, "input", (const char *)data, size)) == VKF_OK) {
    print(&env, &file, &text);
    FUZZ_CHECK(vkf_tune_file_parse(&again, "output", text.data, text.size) == VKF_OK);
    print(&env, &again, &second);
    FUZZ_CHECK(text.size == second.size && !memcmp(text.data, second.data, text.size));
    check_rows(&env, &file);
    vkf_text_finish(&text);
    vkf_text_finish(&second);
  } else {
    FUZZ_CHECK(file.n_sections == 0);
  }
  vkf_tune_file_finish(&again);
  vkf_tune_file_finish(&file);
  fuzz_end(&env);
  return 0;
}
