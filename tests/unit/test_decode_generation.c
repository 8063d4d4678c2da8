/* Generation configurations: every key, wrong types, keys that are refused by name; and the edits of the processors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "decode/batch.h"
#include "decode/processors.h"
#include "support/folder.h"

enum { V = 50 };
static vkf_env env;

static void fresh(vkf_generation_config *c) {
  vkf_env_clear(&env);
  vkf_decode_generation_init(c, &env);
}

static void done(vkf_generation_config *c) {
  vkf_decode_generation_finish(c);
  assert_int_equal(env.live_bytes, 0);
}

static void apply(vkf_generation_config *c, const char *json) {
  if (vkf_decode_generation_apply(c, "options", json) != VKF_OK) fail_msg("%s: %s", json, env.message);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void defaults(void **state) {
  (void)state;
  vkf_generation_config c;
  fresh(&c);
  assert_int_equal(vkf_decode_generation_apply(&c, "none", NULL), VKF_OK);
  assert_int_equal(vkf_decode_generation_check(&c, V), VKF_OK);
  assert_true(c.num_beams == 1 && c.num_return_sequences == 1 && c.length_penalty == 1.0);
  assert_int_equal(vkf_decode_generation_length(&c, 3, 77), 77);
  assert_int_equal(vkf_decode_max_edits(&c, 100, 100), 0);
  c.repetition_penalty = 1.5; /* sums that overflow 32 bits become UINT32_MAX */
  c.no_repeat_ngram_size = 2;
  c.bad_words.n = 7;
  assert_int_equal(vkf_decode_max_edits(&c, 100, 100), 207);
  assert_int_equal(vkf_decode_max_edits(&c, UINT32_MAX / 2, 1), UINT32_MAX);
  c.bad_words.n = 0;
  assert_int_equal(vkf_decode_batch_slots(&c, 3), 3);
  c.num_beams = c.num_return_sequences = 1 << 16;
  c.return_alternatives = true;
  assert_int_equal(vkf_decode_batch_slots(&c, 1), UINT32_MAX);
  done(&c);
}

static void every_supported_key(void **state) {
  (void)state;
  vkf_generation_config c;
  fresh(&c);
  apply(&c,
        "{\"num_beams\":4,\"num_return_sequences\":3,\"max_new_tokens\":20,\"max_length\":30,\"min_new_tokens\":2,"
        "\"min_length\":5,\"no_repeat_ngram_size\":3,\"encoder_no_repeat_ngram_size\":4,\"length_penalty\":-0.5,"
        "\"repetition_penalty\":1.3,\"encoder_repetition_penalty\":2,\"early_stopping\":\"never\",\"bos_token_id\":1,"
        "\"pad_token_id\":2,\"decoder_start_token_id\":3,\"forced_bos_token_id\":4,\"eos_token_id\":[5,6],"
        "\"forced_eos_token_id\":7,\"suppress_tokens\":[8,9,10],\"begin_suppress_tokens\":[11],"
        "\"bad_words_ids\":[[12],[13,14]],\"renormalize_logits\":true}");
  assert_int_equal(vkf_decode_generation_check(&c, V), VKF_OK);
  assert_true(c.num_beams == 4 && c.num_return_sequences == 3 && c.max_new_tokens == 20 && c.max_length == 30);
  assert_true(c.min_new_tokens == 2 && c.min_length == 5 && c.no_repeat_ngram_size == 3);
  assert_true(c.encoder_no_repeat_ngram_size == 4 && c.length_penalty == -0.5 && c.repetition_penalty == 1.3);
  assert_true(c.encoder_repetition_penalty == 2 && c.early_stopping == VKF_EARLY_STOPPING_NEVER);
  assert_true(c.bos == 1 && c.pad == 2 && c.decoder_start == 3 && c.forced_bos == 4);
  assert_true(c.eos.n == 2 && c.eos.ids[1] == 6 && c.forced_eos.n == 1 && c.forced_eos.ids[0] == 7);
  assert_true(c.suppress.n == 3 && c.suppress.ids[2] == 10 && c.begin_suppress.n == 1);
  assert_true(c.bad_words.n == 2 && c.bad_words.lists[0].n == 1 && c.bad_words.lists[1].n == 2 &&
              c.bad_words.lists[1].ids[1] == 14);
  assert_true(c.renormalize_logits);
  assert_int_equal(vkf_decode_generation_length(&c, 3, 77), 23);
  assert_true(vkf_decode_id_in(&c.eos, 5) && !vkf_decode_id_in(&c.eos, 7));

  /* null restores a key's default */
  vkf_generation_config derived;
  vkf_decode_generation_derive(&derived, c.env, &c);
  apply(&derived,
        "{\"num_beams\":null,\"num_return_sequences\":null,\"max_new_tokens\":null,\"min_new_tokens\":null,"
        "\"eos_token_id\":null,\"bad_words_ids\":null,\"pad_token_id\":null,\"repetition_penalty\":null,"
        "\"early_stopping\":true,\"bos_token_id\":-1}");
  assert_true(derived.bos == VKF_NO_TOKEN && derived.top_k == 50);
  assert_true(derived.num_beams == 1 && derived.num_return_sequences == 1 && derived.max_new_tokens == 0);
  assert_true(derived.eos.n == 0 && derived.bad_words.n == 0 && derived.pad == VKF_NO_TOKEN);
  assert_true(derived.repetition_penalty == 1.0 && derived.early_stopping == VKF_EARLY_STOPPING_TRUE);
  assert_int_equal(vkf_decode_generation_length(&derived, 3, 77), 30);
  assert_true(derived.suppress.n == 3 && c.eos.n == 2 && c.num_beams == 4);
  apply(&derived, "{\"early_stopping\":false}");
  assert_int_equal(derived.early_stopping, VKF_EARLY_STOPPING_FALSE);
  vkf_decode_generation_finish(&derived);
  done(&c);
}

static void keys_without_effect(void **state) {
  (void)state;
  vkf_generation_config c;
  fresh(&c);
  apply(&c,
        "{\"transformers_version\":\"5.12.1\",\"_from_model_config\":true,\"_commit_hash\":\"x\",\"use_cache\":true,"
        "\"output_attentions\":false,\"output_hidden_states\":true,\"output_scores\":true,\"output_logits\":null,"
        "\"return_dict_in_generate\":true,\"cache_implementation\":\"static\",\"temperature\":0.7,\"top_k\":50,"
        "\"top_p\":0.9,\"min_p\":null,\"typical_p\":1.0,\"epsilon_cutoff\":0.0,\"eta_cutoff\":0.0,\"do_sample\":false,"
        "\"num_beam_groups\":1,\"diversity_penalty\":0.0,\"patience\":0.1,\"penalty_alpha\":null,\"guidance_scale\":1,"
        "\"remove_invalid_values\":false,\"low_memory\":null,\"constraints\":[],"
        "\"force_words_ids\":null,\"stop_strings\":[],\"max_time\":null,\"generation_kwargs\":{},"
        "\"exponential_decay_length_penalty\":null,\"sequence_bias\":null,\"watermarking_config\":null}");
  assert_int_equal(vkf_decode_generation_check(&c, V), VKF_OK);
  done(&c);
}

static void refused_by_name(void **state) {
  (void)state;
  static const char *const refused[][2] = {{"remove_invalid_values", "true"},
                                           {"low_memory", "true"},
                                           {"token_healing", "true"},
                                           {"is_assistant", "true"},
                                           {"guidance_scale", "1.5"},
                                           {"penalty_alpha", "0.6"},
                                           {"constraints", "[1]"},
                                           {"forced_decoder_ids", "[[1,2]]"},
                                           {"max_time", "0"},
                                           {"stop_strings", "\"x\""},
                                           {"watermarking_config", "{\"bias\":2}"},
                                           {"dola_layers", "\"low\""},
                                           {"prompt_lookup_num_tokens", "3"},
                                           {"assistant_early_exit", "4"},
                                           {"generation_kwargs", "{\"x\":1}"},
                                           {"num_baems", "4"}};
  for (size_t i = 0; i < VKF_COUNT(refused); i++) {
    char json[128], name[64];
    vkf_generation_config c;
    fresh(&c);
    snprintf(json, sizeof(json), "{\"%s\":%s}", refused[i][0], refused[i][1]);
    snprintf(name, sizeof(name), "options: \"%s\" is not supported", refused[i][0]);
    apply(&c, json); /* no error yet: a model with such a key can still run */
    assert_int_equal(vkf_decode_generation_check(&c, V), VKF_ERROR_UNSUPPORTED);
    if (strstr(env.message, name) == NULL) fail_msg("expected \"%s\", found \"%s\"", name, env.message);
    done(&c);
  }
  vkf_generation_config c;
  fresh(&c);
  apply(&c, "{\"low_memory\":true}");
  apply(&c, "{\"low_memory\":false}"); /* a later source overrides it */
  assert_int_equal(vkf_decode_generation_check(&c, V), VKF_OK);
  done(&c);
}

static void wrong_types_and_ranges(void **state) {
  (void)state;
  static const char *const wrong[][2] = {
      {"{\"num_beams\":\"4\"}", "options: key \"num_beams\": expected an integer, found a string"},
      {"{\"num_beams\":2.0}", "options: key \"num_beams\": expected an integer, found a real number"},
      {"{\"num_beams\":0}", "options: key \"num_beams\": expected 1 to 2147483647, found 0"},
      {"{\"num_return_sequences\":0}", "expected 1 to"},
      {"{\"max_new_tokens\":0}", "expected 1 to"},
      {"{\"max_length\":-1}", "expected 1 to"},
      {"{\"min_length\":-1}", "expected 0 to"},
      {"{\"min_new_tokens\":true}", "expected an integer, found a boolean"},
      {"{\"no_repeat_ngram_size\":4294967296}", "found 4294967296"},
      {"{\"encoder_no_repeat_ngram_size\":[]}", "expected an integer, found an array"},
      {"{\"length_penalty\":\"1\"}", "options: key \"length_penalty\": expected a number, found a string"},
      {"{\"repetition_penalty\":0}", "expected a number over 0, found 0"},
      {"{\"encoder_repetition_penalty\":-1}", "expected a number over 0, found -1"},
      {"{\"patience\":0}", "options: key \"patience\": expected a number over 0, found 0"},
      {"{\"early_stopping\":\"always\"}", "expected true, false or \"never\", found \"always\""},
      {"{\"early_stopping\":1}", "expected a boolean, found an integer"},
      {"{\"pad_token_id\":-2}", "options: key \"pad_token_id\": expected an id from 0 to 2147483647, found -2"},
      {"{\"pad_token_id\":2147483648}", "expected an id from 0 to 2147483647, found 2147483648"},
      {"{\"bos_token_id\":[1]}", "expected an integer, found an array"},
      {"{\"decoder_start_token_id\":1.5}", "expected an integer, found a real number"},
      {"{\"forced_bos_token_id\":{}}", "expected an integer, found an object"},
      {"{\"eos_token_id\":\"2\"}", "options: key \"eos_token_id\": expected an array, found a string"},
      {"{\"eos_token_id\":[1,-2]}", "key \"eos_token_id[1]\": expected an id"},
      {"{\"forced_eos_token_id\":true}", "expected an array, found a boolean"},
      {"{\"suppress_tokens\":[1,\"x\"]}", "key \"suppress_tokens[1]\": expected an integer, found a string"},
      {"{\"begin_suppress_tokens\":{}}", "expected an array, found an object"},
      {"{\"bad_words_ids\":[1]}", "key \"bad_words_ids[0]\": expected an array, found an integer"},
      {"{\"sequence_bias\":{\"1\":2}}", "key \"sequence_bias\": expected an array, found an object"},
      {"{\"sequence_bias\":[[[1],2,3]]}",
       "key \"sequence_bias[0]\": expected a pair [[id, ...], number], found 3 elements"},
      {"{\"exponential_decay_length_penalty\":1.5}", "expected an array, found"},
      {"{\"exponential_decay_length_penalty\":[1]}", "expected a pair [start, factor], found 1 elements"},
      {"{\"exponential_decay_length_penalty\":[-1,2]}", "expected 0 to 2147483647, found -1"},
      {"{\"exponential_decay_length_penalty\":[1,0]}", "expected a number over 0, found 0"},
      {"{\"sequence_bias\":[[[],2]]}", "key \"sequence_bias[0][0]\": expected at least one id, found none"},
      {"{\"sequence_bias\":[[[1],\"a\"]]}", "key \"sequence_bias[0][1]\": expected a number"},
      {"{\"bad_words_ids\":[[1],[]]}", "key \"bad_words_ids[1]\": expected at least one id, found none"},
      {"{\"temperature\":\"hot\"}", "key \"temperature\": expected a number, found a string"},
      {"{\"do_sample\":1}", "key \"do_sample\": expected a boolean, found an integer"},
      {"{\"num_beam_groups\":\"2\"}", "key \"num_beam_groups\": expected an integer, found a string"},
      {"[1]", "options: expected an object, found an array"},
      {"{\"num_beams\":}", "options: expected JSON"}};
  for (size_t i = 0; i < VKF_COUNT(wrong); i++) {
    vkf_generation_config c;
    fresh(&c);
    assert_int_equal(vkf_decode_generation_apply(&c, "options", wrong[i][0]), VKF_ERROR_FORMAT);
    if (strstr(env.message, wrong[i][1]) == NULL) fail_msg("expected \"%s\", found \"%s\"", wrong[i][1], env.message);
    done(&c);
  }
}

static void contradictions(void **state) {
  (void)state;
  static const char *const wrong[][2] = {
      {"{\"num_return_sequences\":2}", "at most num_beams 1, found 2"},
      {"{\"num_beams\":2,\"num_return_sequences\":3}", "at most num_beams 2, found 3"},
      {"{\"num_beams\":4,\"num_return_sequences\":3,\"patience\":0.6}",
       "patience 0.6 and num_beams 4 a search ends after 2 sequences: expected num_return_sequences of at most so "
       "many, "
       "found 3"},
      {"{\"num_beams\":2,\"patience\":0.2}", "after 0 sequences"},
      {"{\"eos_token_id\":[3,50]}", "\"eos_token_id\": expected ids below"},
      {"{\"pad_token_id\":50}", "\"pad_token_id\""},
      {"{\"do_sample\":true,\"top_p\":-0.5}", "\"top_p\": expected a number from 0 to 1"},
      {"{\"do_sample\":true,\"top_p\":1.5}", "\"top_p\": expected a number from 0 to 1"},
      {"{\"do_sample\":true,\"min_p\":-0.5}", "\"min_p\": expected a number from 0 to 1"},
      {"{\"do_sample\":true,\"min_p\":1.5}", "\"min_p\": expected a number from 0 to 1"},
      {"{\"do_sample\":true,\"top_k\":1.5}", "\"top_k\": expected a whole number"},
      {"{\"do_sample\":true,\"top_k\":-1}", "\"top_k\": expected a whole number"},
      {"{\"do_sample\":true,\"temperature\":0}", "\"temperature\": expected a number over 0"},
      {"{\"decoder_start_token_id\":99}", "size 50, found 99"},
      {"{\"suppress_tokens\":[50]}", "\"suppress_tokens\""},
      {"{\"bad_words_ids\":[[1],[2,51]]}", "\"bad_words_ids\""},
      {"{\"sequence_bias\":[[[1],1],[[2,51],1]]}", "\"sequence_bias\""},
      {"{\"num_beams\":4,\"force_words_ids\":[[1],[2,51]]}", "\"force_words_ids\": expected ids below"},
      {"{\"force_words_ids\":[[1]]}", "expected num_beams over 1 with \"force_words_ids\", found 1"},
      {"{\"num_beams\":2,\"force_words_ids\":[[1,3]],\"eos_token_id\":[3]}", "no id that ends a sequence, found 3"},
      {"{\"num_beams\":5,\"num_beam_groups\":2,\"diversity_penalty\":1}", "multiple of num_beam_groups 2, found 5"},
      {"{\"num_beams\":4,\"num_beam_groups\":2}", "a number over 0 with num_beam_groups 2, found 0"},
      {"{\"num_beams\":4,\"diversity_penalty\":1}", "expected 0 with num_beam_groups 1, found 1"}};
  for (size_t i = 0; i < VKF_COUNT(wrong); i++) {
    vkf_generation_config c;
    fresh(&c);
    apply(&c, wrong[i][0]);
    assert_int_equal(vkf_decode_generation_check(&c, V), VKF_ERROR_ARGUMENT);
    if (strstr(env.message, wrong[i][1]) == NULL) fail_msg("expected \"%s\", found \"%s\"", wrong[i][1], env.message);
    done(&c);
  }
}

/* What is not supported is accepted again once a key has become null or neutral. */
static void taken_back(void **state) {
  (void)state;
  static const char *const refused[] = {"{\"guidance_scale\":2}",
                                        "{\"penalty_alpha\":0.6}",
                                        "{\"max_time\":3}",
                                        "{\"num_beams\":4,\"num_beam_groups\":2,\"diversity_penalty\":1,"
                                        "\"patience\":1}",
                                        "{\"num_beams\":2,\"force_words_ids\":[[1]],\"prefix_bias_beta\":0.1}",
                                        "{\"num_beams\":2,\"return_alternatives\":true,\"force_words_ids\":[[1]]}"};
  static const char *const back[] = {"{\"guidance_scale\":null}", "{\"penalty_alpha\":null}",
                                     "{\"max_time\":null}",       "{\"patience\":null}",
                                     "{\"prefix_bias_beta\":0}",  "{\"force_words_ids\":[]}"};
  for (size_t i = 0; i < VKF_COUNT(refused); i++) {
    vkf_generation_config c;
    fresh(&c);
    apply(&c, refused[i]);
    assert_int_equal(vkf_decode_generation_check(&c, V), VKF_ERROR_UNSUPPORTED);
    vkf_env_clear(&env);
    apply(&c, back[i]);
    assert_int_equal(vkf_decode_generation_check(&c, V), VKF_OK);
    done(&c);
  }
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static char folder[64];

static void write_file(const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  remove(path);
  if (text == NULL) return;
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
  assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/vkf_generation_XXXXXX");
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  return folder_remove(folder, "config.json", "generation_config.json");
}

static void folders(void **state) {
  (void)state;
  vkf_generation_config c;
  fresh(&c);
  assert_int_equal(vkf_decode_generation_read(&c, &(vkf_file_source){.folder = folder}), VKF_ERROR_FILE);
  assert_non_null(strstr(env.message, "config.json"));
  done(&c);

  /* old folders of BART: the bos id is forced as the first one; -1 means no id */
  write_file("config.json", "{\"bos_token_id\":3,\"force_bos_token_to_be_generated\":true,\"pad_token_id\":-1}");
  fresh(&c);
  assert_int_equal(vkf_decode_generation_read(&c, &(vkf_file_source){.folder = folder}), VKF_OK);
  assert_true(c.forced_bos == 3 && c.pad == VKF_NO_TOKEN);
  done(&c);

  /* config.json alone: its generation keys are read, its other keys ignored */
  write_file("config.json",
             "{\"model_type\":\"x\",\"num_beams\":5,\"eos_token_id\":2,\"bos_token_id\":1,\"d_model\":8}");
  fresh(&c);
  assert_int_equal(vkf_decode_generation_read(&c, &(vkf_file_source){.folder = folder}), VKF_OK);
  assert_true(c.num_beams == 5 && c.eos.n == 1 && c.eos.ids[0] == 2 && c.bos == 1);
  assert_int_equal(vkf_decode_generation_check(&c, V), VKF_OK);
  done(&c);

  /* if there is a generation_config.json, config.json gives only the ids that it does not mention */
  write_file("generation_config.json", "{\"eos_token_id\":null,\"pad_token_id\":0,\"penalty_alpha\":0.6}");
  fresh(&c);
  assert_int_equal(vkf_decode_generation_read(&c, &(vkf_file_source){.folder = folder}), VKF_OK);
  assert_true(c.num_beams == 1 && c.eos.n == 0 && c.bos == 1 && c.pad == 0);
  assert_int_equal(vkf_decode_generation_check(&c, V), VKF_ERROR_UNSUPPORTED);
  assert_non_null(strstr(env.message, "generation_config.json: \"penalty_alpha\" is not supported"));
  done(&c);

  /* each of the four ids that generation_config.json does not mention */
  write_file("config.json", "{\"bos_token_id\":3,\"pad_token_id\":4,\"eos_token_id\":5,\"decoder_start_token_id\":6}");
  write_file("generation_config.json", "{}");
  fresh(&c);
  assert_int_equal(vkf_decode_generation_read(&c, &(vkf_file_source){.folder = folder}), VKF_OK);
  assert_true(c.bos == 3 && c.pad == 4 && c.eos.n == 1 && c.eos.ids[0] == 5 && c.decoder_start == 6);
  done(&c);

  /* a link to itself exists, but cannot be read */
  write_file("generation_config.json", NULL);
  char link[128];
  snprintf(link, sizeof link, "%s/generation_config.json", folder);
  assert_int_equal(symlink("generation_config.json", link), 0);
  fresh(&c);
  assert_int_equal(vkf_decode_generation_read(&c, &(vkf_file_source){.folder = folder}), VKF_ERROR_FILE);
  assert_non_null(strstr(env.message, "generation_config.json"));
  done(&c);

  write_file("generation_config.json", "{\"eos_token_id\":\"no\"}");
  fresh(&c);
  assert_int_equal(vkf_decode_generation_read(&c, &(vkf_file_source){.folder = folder}), VKF_ERROR_FORMAT);
  assert_non_null(
      strstr(env.message, "generation_config.json: key \"eos_token_id\": expected an array, found a string"));
  done(&c);
}

/* Ids of a folder that its vocabulary does not have are dropped. (Those of a caller are refused.) */
static void ids_of_another_vocabulary(void **state) {
  (void)state;
  static const struct {
    const char *json;
    int32_t bos, pad;
    uint32_t n_eos;
  } rows[] = {{"{\"bos_token_id\":50256,\"eos_token_id\":50256,\"pad_token_id\":50256}", VKF_NO_TOKEN, VKF_NO_TOKEN, 0},
              {"{\"bos_token_id\":9,\"eos_token_id\":[10,9,50256],\"pad_token_id\":9}", 9, 9, 1},
              {"{}", VKF_NO_TOKEN, VKF_NO_TOKEN, 0}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_generation_config c;
    fresh(&c);
    apply(&c, rows[i].json);
    assert_int_equal(vkf_decode_generation_fit(&c, 10), VKF_OK);
    assert_int_equal(c.bos, rows[i].bos);
    assert_int_equal(c.pad, rows[i].pad);
    assert_int_equal(c.eos.n, rows[i].n_eos);
    if (c.eos.n) assert_int_equal(c.eos.ids[0], 9);
    assert_int_equal(vkf_decode_generation_check(&c, 10), VKF_OK);
    done(&c);
  }
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  write_file("config.json", "{\"eos_token_id\":2}");
  write_file("generation_config.json", "{\"eos_token_id\":[1,2],\"bad_words_ids\":[[1,2],[3]],\"unknown\":1}");
  bool finished = false;
  for (uint64_t n = 1; !finished; n++) {
    vkf_generation_config c;
    vkf_id_marks marks = {0};
    fresh(&c);
    env.fail_at = env.n_allocations + n;
    vkf_status st = vkf_decode_generation_read(&c, &(vkf_file_source){.folder = folder});
    if (st == VKF_OK) st = vkf_decode_generation_apply(&c, "options", "{\"suppress_tokens\":[4]}");
    if (st == VKF_OK) st = vkf_decode_marks_init(&marks, &env, V);
    finished = env.n_allocations < env.fail_at;
    env.fail_at = 0;
    /* without memory a message may lack its path; everything else must fail */
    if (st != VKF_OK) assert_int_equal(st, VKF_ERROR_MEMORY);
    if (st == VKF_OK) assert_true(c.eos.n == 2 && c.bad_words.n == 2 && c.suppress.n == 1);
    if (marks.env != NULL) vkf_decode_marks_finish(&marks);
    done(&c);
    if (finished) assert_true(st == VKF_OK && n > 5);
  }
}

/* ---- processors -------------------------------------------------------------------------------------------------- */

typedef struct ids {
  int32_t at[8];
  uint32_t n;
} ids;

/* Checks that the edits of `history` under `options` are expected [n]. The prompt has one id, max_length is 10, the
 * source is 20 21 20. */
static void expect_edits(const char *options, const ids *history, const vkf_logit_edit *expected, uint32_t n) {
  static const int32_t source[] = {20, 21, 20};
  vkf_generation_config c;
  vkf_id_marks marks;
  vkf_logit_edit out[64];
  fresh(&c);
  apply(&c, options);
  assert_int_equal(vkf_decode_marks_init(&marks, &env, V), VKF_OK);
  const vkf_processors p = {&c, &marks, 1, 10};
  for (int twice = 0; twice < 2; twice++) { /* the first call leaves nothing behind */
    uint32_t found = vkf_decode_processors_edit(&p, history->at, history->n, source, 3, out);
    assert_int_equal(found, n);
    assert_true(found <= vkf_decode_max_edits(&c, history->n, 3));
    for (uint32_t i = 0; i < n; i++) {
      assert_int_equal(out[i].kind, expected[i].kind);
      assert_int_equal(out[i].id, expected[i].id);
      assert_true(out[i].value == expected[i].value);
      assert_int_equal(out[i].zero, 0);
    }
  }
  vkf_decode_marks_finish(&marks);
  done(&c);
}
#define HISTORY(...) (&(ids){{__VA_ARGS__}, VKF_COUNT(((const int32_t[]){__VA_ARGS__}))})
#define EXPECT(options, history, ...) \
  expect_edits(options, history, (vkf_logit_edit[]){__VA_ARGS__}, VKF_COUNT(((vkf_logit_edit[]){__VA_ARGS__})))
#define EXPECT_NONE(options, history) expect_edits(options, history, NULL, 0)
#define NOT(id) \
  { VKF_LOGIT_EDIT_SET, id, -INFINITY, 0 }
#define SET0(id) \
  { VKF_LOGIT_EDIT_SET, id, 0, 0 }
#define ONLY \
  { VKF_LOGIT_EDIT_FILL, 0, -INFINITY, 0 }
#define ADD(id, value) \
  { VKF_LOGIT_EDIT_ADD, id, value, 0 }
#define GROW(id, value) \
  { VKF_LOGIT_EDIT_GROW, id, value, 0 }
#define PENALTY(id, value) \
  { VKF_LOGIT_EDIT_PENALTY, id, value, 0 }

static void each_processor(void **state) {
  (void)state;
  EXPECT_NONE("{}", HISTORY(1, 2, 3));
  EXPECT("{\"repetition_penalty\":1.3}", HISTORY(7, 8, 7), PENALTY(7, 1.3f), PENALTY(8, 1.3f));
  EXPECT("{\"encoder_repetition_penalty\":4}", HISTORY(7, 8), PENALTY(20, 0.25f), PENALTY(21, 0.25f));

  EXPECT("{\"no_repeat_ngram_size\":1}", HISTORY(7, 8, 7), NOT(7), NOT(8));
  EXPECT("{\"no_repeat_ngram_size\":2}", HISTORY(7, 8, 7, 9, 7), NOT(8), NOT(9));
  EXPECT_NONE("{\"no_repeat_ngram_size\":2}", HISTORY(7, 8, 9));
  EXPECT("{\"no_repeat_ngram_size\":3}", HISTORY(7, 8, 9, 7, 8), NOT(9));
  EXPECT_NONE("{\"no_repeat_ngram_size\":3}", HISTORY(7, 8));
  EXPECT_NONE("{\"no_repeat_ngram_size\":5}", HISTORY(7, 7));
  EXPECT("{\"encoder_no_repeat_ngram_size\":2}", HISTORY(1, 20), NOT(21));
  EXPECT("{\"encoder_no_repeat_ngram_size\":3}", HISTORY(20, 21), NOT(20));
  EXPECT_NONE("{\"encoder_no_repeat_ngram_size\":3}", HISTORY(21, 20));
  EXPECT_NONE("{\"encoder_no_repeat_ngram_size\":4}", HISTORY(20, 21, 20));

  EXPECT("{\"bad_words_ids\":[[9],[8,12]]}", HISTORY(1, 8), NOT(9), NOT(12));
  /* the id's own bias is added first, then those of sequences; the last of two equal keys counts; a sequence that is
   * longer than the history has no effect */
  EXPECT("{\"sequence_bias\":[[[8,9],0.25],[[12],-1.5],[[9],2],[[9],4],[[3,9],8],[[1,8,9],64],[[8,9],0.5]]}",
         HISTORY(1, 8), ADD(9, 4.5f), ADD(12, -1.5f));
  EXPECT("{\"sequence_bias\":[[[1,8,9],0.5],[[9,8],3],[[8,8],1],[[8,9],16777216],[[9],1]]}", HISTORY(9, 1, 8),
         ADD(8, 1), ADD(9, 16777218.0f));
  EXPECT_NONE("{\"sequence_bias\":[]}", HISTORY(8));
  EXPECT("{\"bad_words_ids\":[[9],[8,12]]}", HISTORY(8, 1), NOT(9));
  EXPECT_NONE("{\"bad_words_ids\":[[8,12]]}", HISTORY(8)); /* longer than the history: ignored */
  EXPECT("{\"bad_words_ids\":[[1,8,12]]}", HISTORY(3, 1, 8), NOT(12));
  EXPECT_NONE("{\"bad_words_ids\":[[1,8,12]]}", HISTORY(3, 2, 8));
  EXPECT("{\"bad_words_ids\":[[5],[6]],\"eos_token_id\":[4,5]}", HISTORY(1), NOT(6)); /* an end id stays allowed */
  EXPECT("{\"bad_words_ids\":[[1,5]],\"eos_token_id\":5}", HISTORY(3, 1), NOT(5));

  /* the prompt has one id; with a start of 2 the end ids gain once there are more than two new ids */
  EXPECT("{\"exponential_decay_length_penalty\":[2,1.5],\"eos_token_id\":[4,5]}", HISTORY(1, 2, 3, 8), GROW(4, 0.5f),
         GROW(5, 0.5f));
  EXPECT("{\"exponential_decay_length_penalty\":[1,1.5],\"eos_token_id\":4}", HISTORY(1, 2, 3, 8), GROW(4, 1.25f));
  EXPECT("{\"exponential_decay_length_penalty\":[0,0.5],\"eos_token_id\":4}", HISTORY(1, 2), GROW(4, -0.5f));
  EXPECT("{\"exponential_decay_length_penalty\":[0,1e300],\"eos_token_id\":4}", HISTORY(1, 2), GROW(4, 1e30f));
  EXPECT_NONE("{\"exponential_decay_length_penalty\":[2,1.5],\"eos_token_id\":4}", HISTORY(1, 2, 3));
  EXPECT_NONE("{\"exponential_decay_length_penalty\":[0,1],\"eos_token_id\":4}", HISTORY(1, 2, 3));
  EXPECT_NONE("{\"exponential_decay_length_penalty\":[0,1.5]}", HISTORY(1, 2, 3)); /* no end id */
  EXPECT("{\"exponential_decay_length_penalty\":[0,2],\"eos_token_id\":4,\"min_new_tokens\":2}", HISTORY(1, 2),
         GROW(4, 1), NOT(4)); /* the ban comes last */

  EXPECT("{\"min_new_tokens\":2,\"eos_token_id\":[4,5]}", HISTORY(1, 2), NOT(4), NOT(5));
  EXPECT_NONE("{\"min_new_tokens\":2,\"eos_token_id\":[4,5]}", HISTORY(1, 2, 3));
  EXPECT("{\"min_length\":3,\"eos_token_id\":4}", HISTORY(1, 2), NOT(4));
  EXPECT_NONE("{\"min_length\":3,\"eos_token_id\":4}", HISTORY(1, 2, 3));
  EXPECT_NONE("{\"min_length\":3}", HISTORY(1));

  EXPECT("{\"forced_bos_token_id\":17}", HISTORY(1), ONLY, SET0(17));
  EXPECT_NONE("{\"forced_bos_token_id\":17}", HISTORY(1, 17));
  EXPECT("{\"suppress_tokens\":[5,7]}", HISTORY(1, 2), NOT(5), NOT(7));
  EXPECT("{\"begin_suppress_tokens\":[5]}", HISTORY(1), NOT(5));
  EXPECT_NONE("{\"begin_suppress_tokens\":[5]}", HISTORY(1, 2));
  /* a forced first id moves the beginning by one */
  EXPECT("{\"begin_suppress_tokens\":[5],\"forced_bos_token_id\":17}", HISTORY(1, 17), NOT(5));
}

static void forced_end_at_the_limit(void **state) {
  (void)state;
  static const int32_t history[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  vkf_generation_config c;
  vkf_id_marks marks;
  vkf_logit_edit out[8];
  fresh(&c);
  apply(&c, "{\"forced_eos_token_id\":[4,5]}");
  assert_int_equal(vkf_decode_marks_init(&marks, &env, V), VKF_OK);
  const vkf_processors p = {&c, &marks, 1, 10};
  assert_int_equal(vkf_decode_processors_edit(&p, history, 8, NULL, 0, out), 0);
  assert_int_equal(vkf_decode_processors_edit(&p, history, 9, NULL, 0, out), 3);
  assert_true(out[0].kind == VKF_LOGIT_EDIT_FILL && out[0].value == -INFINITY);
  assert_true(out[1].id == 4 && out[2].id == 5 && out[2].value == 0 && out[2].kind == VKF_LOGIT_EDIT_SET);
  vkf_decode_marks_finish(&marks);
  done(&c);
}

/* A prompt of three ids. forced_bos_token_id has no effect, because it needs a prompt of one id. begin_suppress_tokens
 * applies right after the prompt. min_new_tokens does not count the prompt, min_length does; the former wins. */
static void behind_a_prompt(void **state) {
  (void)state;
  static const struct {
    const char *options;
    uint32_t length;      /* of the history */
    int32_t forbidden[2]; /* ids that are forbidden, the rest 0 */
  } rows[] = {{"{\"forced_bos_token_id\":17}", 3, {0}},
              {"{\"forced_bos_token_id\":17}", 4, {0}},
              {"{\"begin_suppress_tokens\":[5]}", 3, {5}},
              {"{\"begin_suppress_tokens\":[5]}", 4, {0}},
              {"{\"begin_suppress_tokens\":[5],\"forced_bos_token_id\":17}", 3, {5}},
              {"{\"begin_suppress_tokens\":[5],\"forced_bos_token_id\":17}", 4, {0}},
              {"{\"min_new_tokens\":2,\"eos_token_id\":[4,6]}", 4, {4, 6}},
              {"{\"min_new_tokens\":2,\"eos_token_id\":[4,6]}", 5, {0}},
              {"{\"min_length\":4,\"eos_token_id\":4}", 3, {4}},
              {"{\"min_length\":4,\"eos_token_id\":4}", 4, {0}},
              {"{\"min_new_tokens\":1,\"min_length\":9,\"eos_token_id\":4}", 4, {0}},
              {"{\"min_new_tokens\":0,\"min_length\":9,\"eos_token_id\":4}", 4, {0}},
              {"{\"min_new_tokens\":null,\"min_length\":9,\"eos_token_id\":4}", 4, {4}}};
  static const int32_t history[] = {1, 2, 3, 8, 9};
  for (size_t i = 0; i < VKF_COUNT(rows); i++) {
    vkf_generation_config c;
    vkf_id_marks marks;
    vkf_logit_edit out[8];
    uint32_t n = 0;
    fresh(&c);
    apply(&c, rows[i].options);
    assert_int_equal(vkf_decode_marks_init(&marks, &env, V), VKF_OK);
    const vkf_processors p = {&c, &marks, 3, 10};
    while (n < 2 && rows[i].forbidden[n] != 0) n++;
    assert_int_equal(vkf_decode_processors_edit(&p, history, rows[i].length, history, 3, out), n);
    for (uint32_t k = 0; k < n; k++) {
      assert_true(out[k].kind == VKF_LOGIT_EDIT_SET && out[k].value == -INFINITY);
      assert_int_equal(out[k].id, rows[i].forbidden[k]);
    }
    vkf_decode_marks_finish(&marks);
    done(&c);
  }
}

/* All processors together, in the order of transformers. A forced id drops earlier edits and can be suppressed. */
static void order(void **state) {
  (void)state;
  EXPECT(
      "{\"begin_suppress_tokens\":[30],\"suppress_tokens\":[31],\"eos_token_id\":32,\"min_length\":5,"
      "\"bad_words_ids\":[[33]],\"encoder_no_repeat_ngram_size\":1,\"no_repeat_ngram_size\":1,"
      "\"repetition_penalty\":2,\"encoder_repetition_penalty\":2,\"sequence_bias\":[[[34],1]]}",
      HISTORY(1), ADD(34, 1), PENALTY(20, 0.5f), PENALTY(21, 0.5f), PENALTY(1, 2), NOT(1), NOT(20), NOT(21), NOT(33),
      NOT(32), NOT(31), NOT(30));
  EXPECT("{\"forced_bos_token_id\":31,\"suppress_tokens\":[31],\"repetition_penalty\":2,\"bad_words_ids\":[[33]]}",
         HISTORY(1), ONLY, SET0(31), NOT(31));
}

int main(void) {
  vkf_env_init(&env, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults),
      cmocka_unit_test(every_supported_key),
      cmocka_unit_test(keys_without_effect),
      cmocka_unit_test(refused_by_name),
      cmocka_unit_test(wrong_types_and_ranges),
      cmocka_unit_test(contradictions),
      cmocka_unit_test(taken_back),
      cmocka_unit_test(ids_of_another_vocabulary),
      cmocka_unit_test_setup_teardown(folders, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(every_allocation_may_fail, make_folder, remove_folder),
      cmocka_unit_test(each_processor),
      cmocka_unit_test(forced_end_at_the_limit),
      cmocka_unit_test(behind_a_prompt),
      cmocka_unit_test(order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
