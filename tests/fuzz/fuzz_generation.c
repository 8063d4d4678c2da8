/* Takes any bytes as a generation configuration, alone and over a folder's own: what passes the check has no id outside
 * the vocabulary and no number that the search cannot take. */
#include "fuzz.h"

#include <math.h>

#include "decode/generation_config.h"

enum { VOCAB = 150 };

static void check_list(const vkf_id_list *list) {
  for (uint32_t i = 0; i < list->n; i++) FUZZ_CHECK(list->ids[i] >= 0 && list->ids[i] < VOCAB);
}

static void check(const vkf_generation_config *c) {
  FUZZ_CHECK(c->num_beams >= 1 && c->num_return_sequences >= 1);
  if (!c->do_sample && !c->return_alternatives) /* else each sequence has a search of its own */
    FUZZ_CHECK(c->num_return_sequences <= fmax(c->num_beams, vkf_decode_generation_patience(c)));
  FUZZ_CHECK(c->min_alternative_expansion_prob >= 0 && c->min_alternative_expansion_prob <= 1);
  FUZZ_CHECK(isfinite(c->length_penalty) && isfinite(c->repetition_penalty) && c->repetition_penalty > 0);
  FUZZ_CHECK(c->bos < VOCAB && c->pad < VOCAB && c->decoder_start < VOCAB && c->forced_bos < VOCAB);
  check_list(&c->eos);
  check_list(&c->forced_eos);
  for (uint32_t i = 0; i < c->bad_words.n; i++) {
    FUZZ_CHECK(c->bad_words.lists[i].n > 0);
    check_list(&c->bad_words.lists[i]);
  }
  FUZZ_CHECK(vkf_decode_generation_length(c, 1, 64) >= 1);
}

static void apply(const vkf_generation_config *base, const char *json) {
  vkf_env env;
  vkf_generation_config c;
  vkf_env_init(&env, NULL);
  if (base)
    vkf_decode_generation_derive(&c, base->env, base);
  else
    vkf_decode_generation_init(&c, &env);
  c.env = &env;
  c.arena.env = &env;
  if (fuzz_check_status(&env, vkf_decode_generation_apply(&c, "input", json)) == VKF_OK &&
      fuzz_check_status(&env, vkf_decode_generation_check(&c, VOCAB)) == VKF_OK)
    check(&c);
  vkf_decode_generation_finish(&c);
  fuzz_end(&env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static vkf_env env;
  static vkf_generation_config base;
  if (base.env == NULL) {
    vkf_env_init(&env, NULL);
    vkf_decode_generation_init(&base, &env);
    FUZZ_CHECK(vkf_decode_generation_read(&base, &(vkf_file_source){.folder = VKF_SOURCE_DIR "/models/en-es"}) ==
               VKF_OK);
  }
  char *json = malloc(size + 1);
  FUZZ_CHECK(json);
  if (size) memcpy(json, data, size);
  json[size] = 0;
  apply(NULL, json);
  apply(&base, json);
  free(json);
  return 0;
}
