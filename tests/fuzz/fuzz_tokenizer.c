/* Any bytes as a tokenizer.json: what loads takes texts to ids of its vocabulary and back.
 *
 * The input may end in a NUL and a text of its own, which is encoded besides the fixed ones.
 */
#include "fuzz.h"

#include "text/tokenizer.h"

static void round_trip(vkf_env *env, vkf_text_tokenizer *tokenizer, const char *text, size_t size) {
  vkf_text_ids ids;
  vkf_text back;
  vkf_text_ids_init(&ids, env);
  vkf_text_init(&back, env);
  for (int add_special = 0; add_special <= 1; add_special++) {
    size_t before = ids.n;
    if (fuzz_judge(env, vkf_text_tokenizer_encode(tokenizer, text, size, add_special, &ids)) != VKF_OK)
      FUZZ_CHECK(ids.n == before);
    vkf_env_clear(env);
  }
  for (size_t i = 0; i < ids.n; i++) {
    FUZZ_CHECK(ids.ids[i] >= 0 && (size_t)ids.ids[i] < vkf_text_tokenizer_vocab_size(tokenizer));
    FUZZ_CHECK(vkf_text_tokenizer_piece(tokenizer, ids.ids[i]));
  }
  FUZZ_CHECK(fuzz_judge(env, vkf_text_tokenizer_decode(tokenizer, ids.ids, ids.n, false, &back)) == VKF_OK);
  FUZZ_CHECK(vkf_utf8_check(back.data ? back.data : "", back.size, NULL));
  vkf_text_finish(&back);
  vkf_text_ids_finish(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char fixed[] = "A cat's 12\xc3\xa9\xcc\x81 \xe4\xb8\xad<s>\n  \xf0\x9f\x98\x80!";
  vkf_env env;
  vkf_text_tokenizer *tokenizer = NULL;
  const char *json = (const char *)data;
  const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
  size_t json_size = nul ? (size_t)(nul - data) : size;
  vkf_env_init(&env, NULL);
  if (fuzz_judge(&env, vkf_text_tokenizer_create(&env, json, json_size, "input", &tokenizer)) == VKF_OK) {
    round_trip(&env, tokenizer, fixed, sizeof fixed - 1);
    if (nul) round_trip(&env, tokenizer, (const char *)nul + 1, size - json_size - 1);
  } else {
    FUZZ_CHECK(tokenizer == NULL);
  }
  vkf_text_tokenizer_destroy(&tokenizer);
  fuzz_end(&env);
  return 0;
}
