/* Turns a text into ids of a tokenizer's vocabulary, with and without special tokens, and back into text. */
#ifndef VKF_TESTS_FUZZ_FUZZ_TEXT_H
#define VKF_TESTS_FUZZ_FUZZ_TEXT_H

#include "fuzz.h"
#include "text/tokenizer.h"

/* Encoding may refuse the text, because a normalizer may turn it into something that is no text. */
static inline void fuzz_round_trip(vkf_env *env, vkf_text_tokenizer *tokenizer, const char *text, size_t size) {
  vkf_text_ids ids;
  vkf_text back;
  vkf_text_ids_init(&ids, env);
  vkf_text_init(&back, env);
  for (int add_special = 0; add_special <= 1; add_special++) {
    size_t before = ids.n;
    if (fuzz_check_status(env, vkf_text_tokenizer_encode(tokenizer, text, size, add_special, &ids)) != VKF_OK)
      FUZZ_CHECK(ids.n == before);
    vkf_env_clear(env);
  }
  for (size_t i = 0; i < ids.n; i++) FUZZ_CHECK(vkf_text_tokenizer_piece(tokenizer, ids.ids[i]));
  FUZZ_CHECK(fuzz_check_status(env, vkf_text_tokenizer_decode(tokenizer, ids.ids, ids.n, false, &back)) == VKF_OK);
  FUZZ_CHECK(vkf_utf8_check(back.data ? back.data : "", back.size, NULL));
  vkf_text_finish(&back);
  vkf_text_ids_finish(&ids);
}

#endif
