/* Takes any bytes as a SentencePiece model: a tokenizer that loads turns texts into ids of its vocabulary and back.
 *
 * The same model is read as it is and as T5's, which looks for special tokens in the text.
 */
#include "fuzz_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char t5[] = "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":3}";
  static const char text[] = " A cat's  12\xc3\xa9\xcc\x81 \xe4\xb8\xad</s>\n  \xf0\x9f\x98\x80!\xe2\x96\x81 ",
                    empty = 0;
  for (int as_t5 = 0; as_t5 <= 1; as_t5++) {
    vkf_env env;
    vkf_env_init(&env, NULL);
    vkf_text_tokenizer *tokenizer = NULL;
    vkf_text_files files = {.spm = {size ? (const char *)data : &empty, size, "input"}};
    if (as_t5) files.tokenizer_config = (vkf_text_file){t5, sizeof t5 - 1, "tokenizer_config.json"};
    if (fuzz_check_status(&env, vkf_text_tokenizer_create(&env, &files, &tokenizer)) == VKF_OK)
      fuzz_round_trip(&env, tokenizer, text, sizeof text - 1);
    else
      FUZZ_CHECK(tokenizer == NULL);
    vkf_text_tokenizer_destroy(&tokenizer);
    fuzz_end(&env);
  }
  return 0;
}
