/* Any bytes as a SentencePiece model: what loads takes texts to ids of its vocabulary and back.
 *
 * The same model is read as it is and as T5's, which looks for special tokens in the text.
 */
#include "fuzz.h"

#include "text/tokenizer.h"

static void round_trip(vkf_env *env, vkf_text_tokenizer *tokenizer) {
  static const char text[] = " A cat's  12\xc3\xa9\xcc\x81 \xe4\xb8\xad</s>\n  \xf0\x9f\x98\x80!\xe2\x96\x81 ";
  vkf_text_ids ids;
  vkf_text back;
  vkf_text_ids_init(&ids, env);
  vkf_text_init(&back, env);
  /* A charsmap may turn text into something that is none, which encoding says. */
  if (fuzz_judge(env, vkf_text_tokenizer_encode(tokenizer, text, sizeof text - 1, true, &ids)) != VKF_OK) {
    FUZZ_CHECK(ids.n == 0);
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
  static const char t5[] = "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":3}";
  static const char empty = 0;
  for (int as_t5 = 0; as_t5 <= 1; as_t5++) {
    vkf_env env;
    vkf_env_init(&env, NULL);
    vkf_text_tokenizer *tokenizer = NULL;
    vkf_text_files files = {.spm = {size ? (const char *)data : &empty, size, "input"}};
    if (as_t5) files.tokenizer_config = (vkf_text_file){t5, sizeof t5 - 1, "tokenizer_config.json"};
    if (fuzz_judge(&env, vkf_text_tokenizer_create_from(&env, &files, &tokenizer)) == VKF_OK)
      round_trip(&env, tokenizer);
    else
      FUZZ_CHECK(tokenizer == NULL);
    vkf_text_tokenizer_destroy(&tokenizer);
    fuzz_end(&env);
  }
  return 0;
}
