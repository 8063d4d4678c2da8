/* Takes any bytes as the legacy files of a tokenizer: tokenizer_config.json, config.json, vocab.json, merges.txt,
 * vocab.txt and a text, each ended by a NUL; an empty one counts as missing. A tokenizer that loads turns texts into
 * ids of its vocabulary and back. */
#include "fuzz_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char fixed[] = "A cat's 12\xc3\xa9\xcc\x81 \xe4\xb8\xad[MASK]\n  \xf0\x9f\x98\x80!";
  vkf_env env;
  vkf_text_tokenizer *tokenizer = NULL;
  vkf_text_files files = {0};
  vkf_text_file text = {0},
                *parts[] = {&files.tokenizer_config, &files.config, &files.vocab, &files.merges, &files.words, &text};
  const char *names[] = {"tokenizer_config.json", "config.json", "vocab.json", "merges.txt", "vocab.txt", "text"};
  const char *at = (const char *)data, *end = at + size;
  for (size_t i = 0; i < VKF_COUNT(parts) && at < end; i++) {
    const char *nul = memchr(at, 0, (size_t)(end - at));
    if (!nul) nul = end;
    if (nul > at) *parts[i] = (vkf_text_file){at, (size_t)(nul - at), names[i]};
    at = nul < end ? nul + 1 : end;
  }
  vkf_env_init(&env, NULL);
  if (fuzz_check_status(&env, vkf_text_tokenizer_create(&env, &files, &tokenizer)) == VKF_OK) {
    fuzz_round_trip(&env, tokenizer, fixed, sizeof fixed - 1);
    if (text.data) fuzz_round_trip(&env, tokenizer, text.data, text.size);
  } else {
    FUZZ_CHECK(tokenizer == NULL);
  }
  vkf_text_tokenizer_destroy(&tokenizer);
  fuzz_end(&env);
  return 0;
}
