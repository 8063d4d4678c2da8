/* Takes any bytes as a tokenizer.json: a tokenizer that loads turns texts into ids of its vocabulary and back.
 *
 * The input may end in a NUL and a text, which is encoded besides the fixed one.
 */
#include "fuzz_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char fixed[] = "A cat's 12\xc3\xa9\xcc\x81 \xe4\xb8\xad<s>\n  \xf0\x9f\x98\x80!";
  vkf_env env;
  vkf_text_tokenizer *tokenizer = NULL;
  const char *json = (const char *)data;
  const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
  size_t json_size = nul ? (size_t)(nul - data) : size;
  vkf_env_init(&env, NULL);
  if (fuzz_check_status(&env, vkf_text_tokenizer_create(
                                  &env, &(vkf_text_files){.tokenizer = {json, json_size, "input"}}, &tokenizer)) ==
      VKF_OK) {
    fuzz_round_trip(&env, tokenizer, fixed, sizeof fixed - 1);
    if (nul) fuzz_round_trip(&env, tokenizer, (const char *)nul + 1, size - json_size - 1);
  } else {
    FUZZ_CHECK(tokenizer == NULL);
  }
  vkf_text_tokenizer_destroy(&tokenizer);
  fuzz_end(&env);
  return 0;
}
