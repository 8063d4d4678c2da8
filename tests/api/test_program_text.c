/* The commands on texts from outside: generate with prompts, fill-mask, classify, embed and score on models whose
 * tokens are words. VKF_DEVICE names the driver under test.
 */
#include <math.h>

#include "support/word_models.h"
#include "support/range.h"
#include "support/sessions.h"
#include "support/softmax.h"

/* ---- what a forward pass says ------------------------------------------------------------------------------------ */

/* Returns one output of a model for [CLS] w5 w6 [MASK] [SEP]; the caller frees it. */
static float *forward(const char *model, const char *name, size_t *width) {
  static int32_t ids[5] = {2, 5, 6, 4, 3};
  char path[256];
  vkf_context *context = NULL;
  vkf_device *device = NULL;
  vkf_model *opened = NULL;
  vkf_result *result = NULL;
  vkf_array input = {.name = "input_ids", .dtype = VKF_I32, .rank = 2, .shape = {1, 5}, .data = ids};
  snprintf(path, sizeof path, "%s/%s", program_folder, model);
  program_ok(NULL, vkf_context_create(NULL, &context));
  program_ok(context, vkf_device_open(context, NULL, &device));
  program_ok(context, vkf_model_open(device, path, &opened));
  program_ok(context, vkf_session_run(session_of(opened), &input, 1, NULL, &result));
  const vkf_array *array = vkf_result_find(result, name);
  assert_non_null(array);
  size_t n = 1;
  for (size_t i = 0; i < array->rank; i++) n *= array->shape[i];
  *width = array->shape[array->rank - 1];
  float *copy = calloc(n, sizeof *copy);
  assert_non_null(copy);
  memcpy(copy, array->data, n * sizeof *copy);
  vkf_result_destroy(&result);
  close_model(&opened);
  vkf_device_close(&device);
  vkf_context_destroy(&context);
  return copy;
}

static size_t best_of(const float *logits, size_t n) {
  size_t best = 0;
  for (size_t i = 1; i < n; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

/* ---- generate ---------------------------------------------------------------------------------------------------- */

static void test_prompts(void **state) {
  (void)state;
  must_print("$V generate $T/gpt2 --prompt 'w5 w6 w7' --max-new-tokens 6", " w125 w30 w30 w30 w30 w30\n");
  must_print(
      "$V generate $T/gpt2 --prompt 'w5 w6 w7' --prompt w9 -b 2 --max-new-tokens 2 --kv-cache-bytes 20000 | head -1",
      " w125 w30\n");
  /* does not suggest --long, which would not help */
  must_print("$V generate $T/gpt2 --prompt w9 --max-new-tokens 2 --kv-cache-bytes 1 2>&1 >$T/o | tail -1",
             "vkformer: skipped 1 of 1 text\n");
  must_print("printf 'w5 w6 w7\\nw5 w6 w7' | $V generate $T/gpt2 --max-new-tokens 2", " w125 w30\n w125 w30\n");
  must_print("$V generate $T/gpt2 'w5 w6 w7' --max-new-tokens 2 'w5 w6 w7' < /dev/null", " w125 w30\n w125 w30\n");
  program_must("$V generate $T/gpt2 w5 -p w6", 2, "", "as arguments or by --prompt, found both ('w5')");
  json_t *line = line_of("$V generate $T/gpt2 -p 'w5 w6 w7' --max-new-tokens 2 --json --top-logprobs 1", 0);
  json_t *ids = json_object_get(line, "ids"), *tokens = json_object_get(line, "logprobs");
  double sum = 0; /* of tokens without edits */
  for (size_t i = 0; i < json_array_size(tokens); i++)
    sum += json_number_value(json_object_get(json_array_get(tokens, i), "logprob"));
  assert_string_equal(json_string_value(json_object_get(line, "text")), " w125 w30");
  assert_int_equal(json_integer_value(json_array_get(ids, 0)), 125);
  assert_int_equal(json_integer_value(json_array_get(ids, 1)), 30);
  assert_true(sum < 0 && fabs(json_number_value(json_object_get(line, "score")) - sum / 2) < 1e-5);
  json_decref(line);
  must_print("$V generate $T/gpt2 -p 'w5 w6 w7' --max-new-tokens 6 --stop w9 --stop 'w30 w30'", " w125 \n");
  must_print("$V generate $T/gpt2 -p 'w5 w6 w7' --max-new-tokens 3 --stop w300", " w125 w30 w30\n");
  json_t *stopped = line_of("$V generate $T/gpt2 -p 'w5 w6 w7' --max-new-tokens 6 --json --stop w30", 0);
  assert_string_equal(json_string_value(json_object_get(stopped, "text")), " w125 ");
  assert_int_equal(json_array_size(json_object_get(stopped, "ids")), 2); /* it ended at the stop string */
  assert_true(json_is_null(json_object_get(stopped, "score")));
  json_decref(stopped);
}

/* A character that consists of two tokens is printed when it is complete. */
static void test_whole_characters(void **state) {
  (void)state;
  must_print("$V generate $T/bytes -p 'w5 w6 w7' --max-new-tokens 2", "\xc3\xa9\n");
  must_print("$V generate $T/bytes -p 'w5 w6 w7' --max-new-tokens 1", "\xef\xbf\xbd\n");
}

static void test_beams_and_encoder(void **state) {
  (void)state;
  static const char beams[] =
      "$V generate $T/marian -p 'w5 w6 w7 <eos>' --num-beams 3 --num-return-sequences 2 --max-new-tokens 6 --json";
  json_t *first = line_of(beams, 0), *second = line_of(beams, 1);
  double a = json_real_value(json_object_get(first, "score")), b = json_real_value(json_object_get(second, "score"));
  assert_true(a < 0 && b <= a);
  assert_int_equal(json_array_size(json_object_get(first, "ids")), 6);
  json_decref(first);
  json_decref(second);
  /* only three words may follow, so there are three alternatives of eight */
  must_print(
      "$V generate $T/gpt2 -p w5 -p w6 --return-alternatives --num-return-sequences 8 --max-new-tokens 1 "
      "--suppress-tokens $(seq -s, 10 159),0,1,2,3,4,5,6 | sort | uniq -c | tr -s ' '",
      " 2 w7\n 2 w8\n 2 w9\n");
}

/* Prompts in a batch give what each gives alone: greedy, sampled, with stop strings, and with any lengths. */
static void test_batches(void **state) {
  (void)state;
  static const char *const options[] = {
      "--max-new-tokens 6",
      "--max-new-tokens 6 --json --top-logprobs 2",
      "--do-sample --seed 5 --json",
      "--max-new-tokens 8 --stop 'w30 w30' --json",
      "--num-beams 3 --num-return-sequences 2 --json",
      "--do-sample --num-return-sequences 2 --max-new-tokens 5 --repetition-penalty 1.3"};
  char command[1024];
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    snprintf(command, sizeof command,
             "printf 'w5 w6 w7\\nw9\\nw8 w7 w6\\nw10 w11\\nw12\\nw5 w6 w8\\n' > $T/prompts; "
             "for b in '' '-b 1' '-b 2' '-b 32'; do "
             "$V generate $T/gpt2 $INVARIANT %s $b < $T/prompts > \"$T/batch$b\" || exit 1; done; "
             "cmp $T/batch \"$T/batch-b 1\" && cmp $T/batch \"$T/batch-b 2\" && cmp $T/batch \"$T/batch-b 32\"; "
             "test $? = 0 && wc -l < $T/batch",
             options[i]);
    must_print(command, strstr(options[i], "return") ? "12\n" : "6\n");
  }
  /* With output to a file, three prompts run in the steps of one; with output to a pipe, one after the other. */
  static const char three[] =
      "$V generate $T/gpt2 -p w5 -p 'w6 w8' -p w7 --min-new-tokens 3 --max-new-tokens 3 --profile";
  snprintf(command, sizeof command, "%s 2>&1 > $T/texts | awk '$1 == \"embed\" { print $2 }'", three);
  must_print(command, "3\n");
  snprintf(command, sizeof command, "(%s | cat > $T/texts) 2>&1 | awk '$1 == \"embed\" { print $2 }'", three);
  must_print(command, "9\n");
  int exit_code = program_run("printf 'w5\\nw6 w6\\n\\nw7\\n' | $V generate $T/gpt2 -b 4 --max-new-tokens 1");
  assert_int_equal(exit_code, 4); /* and the other lines are there */
  assert_int_equal(strspn(program_out, "w0123456789 \n"), strlen(program_out));
  assert_non_null(strstr(program_err, "line 3 was skipped: expected at least one token"));
}

/* Log-probabilities are those of the logits of a forward pass, however a token is chosen. */
static void test_top_logprobs(void **state) {
  (void)state;
  size_t n = 0;
  float *logits = forward("gpt2", "logits", &n); /* of 2 5 6 4 3 */
  const float *last = logits + 4 * n;
  size_t best = best_of(last, n);
  static const char *const options[] = {"", "--repetition-penalty 3", "--do-sample --temperature 3 --seed 9"};
  for (size_t i = 0; i < 3; i++) {
    char command[300];
    snprintf(command, sizeof command,
             "$V generate $T/gpt2 -p 'w2 w5 w6 w4 w3' --json --top-logprobs 3 --max-new-tokens 4 %s", options[i]);
    json_t *line = line_of(command, 0), *list = json_object_get(line, "logprobs"), *first = json_array_get(list, 0);
    json_t *top = json_object_get(first, "top"), *id = json_object_get(first, "id");
    assert_int_equal(json_array_size(list), json_array_size(json_object_get(line, "ids")));
    assert_int_equal(json_array_size(top), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(top, 0), "id")), best);
    assert_true(json_equal(id, json_array_get(json_object_get(line, "ids"), 0)));
    double sum = 0, wanted;
    for (size_t k = 0; k < n; k++) sum += exp((double)last[k] - last[best]);
    wanted = -log(sum);
    double found = json_real_value(json_object_get(json_array_get(top, 0), "logprob"));
    if (fabs(found - wanted) > 1e-6 * fabs(wanted)) fail_msg("expected %.9g, found %.9g", wanted, found);
    wanted += (double)last[json_integer_value(id)] - last[best];
    found = json_real_value(json_object_get(first, "logprob"));
    if (fabs(found - wanted) > 1e-6 * fabs(wanted)) fail_msg("expected %.9g, found %.9g", wanted, found);
    json_decref(line);
  }
  free(logits);
  program_must("$V generate $T/gpt2 -p w5 --top-logprobs 2", 2, NULL, "--top-logprobs: expected --json or --outputs");
  program_must("$V generate $T/gpt2 -p w5 --top-logprobs 2 --json --num-beams 2", 4, NULL,
               "num_beams 2 is not supported");
}

/* The source language is a token of the text; the target language is the first token of the translation. */
static void test_languages(void **state) {
  (void)state;
  must_print("$V tokenize -m $T/mbart 'w5 w6'", "5 6 2 17\n");
  must_print("$V tokenize -m $T/mbart 'w5 w6' --source-lang fr_XX", "5 6 2 18\n");
  assert_int_equal(program_run("echo '{\"forced_bos_token_id\": 18}' > $T/forced"), 0);
  json_t *wanted = line_of("$V generate $T/mbart --json --num-beams 2 --max-new-tokens 6 -g $T/forced -p 'w5 w6'", 0);
  json_t *named =
      line_of("$V translate -m $T/mbart --json --num-beams 2 --max-new-tokens 6 --target-lang fr_XX 'w5 w6'", 0);
  json_t *prompt =
      line_of("$V generate $T/mbart --json --num-beams 2 --max-new-tokens 6 --target-lang fr_XX -p 'w5 w6'", 0);
  json_t *other = line_of(
      "$V translate -m $T/mbart --json --num-beams 2 --max-new-tokens 6 --target-lang fr_XX "
      "--source-lang fr_XX 'w5 w6'",
      0);
  assert_int_equal(json_integer_value(json_array_get(json_object_get(named, "ids"), 0)), 18);
  assert_true(json_equal(wanted, prompt));
  assert_true(json_equal(json_object_get(prompt, "ids"), json_object_get(named, "ids")));
  assert_int_equal(json_array_size(json_object_get(named, "ids")), 6);
  assert_false(json_equal(other, named));
  json_decref(wanted);
  json_decref(named);
  json_decref(prompt);
  json_decref(other);
  program_must("$V translate -m $T/mbart --target-lang fr w5", 4, NULL, "such as fr_XX, en_XX; found \"fr\"");
  program_must("$V generate $T/gpt2 --source-lang fr -p w5", 4, NULL, "this model's tokenizer has no languages");
}

/* Samples depend on the seed and the line only, not on the other lines. */
static void test_sampling(void **state) {
  (void)state;
  static const char options[] = "--do-sample --seed 3 --max-new-tokens 6 --json";
  char command[512];
  snprintf(command, sizeof command, "printf 'w5 w6\\nw9\\nw9' | $V generate $T/gpt2 %s", options);
  json_t *second = line_of(command, 1), *third = line_of(command, 2);
  snprintf(command, sizeof command, "printf 'w50\\nw9\\n' | $V generate $T/gpt2 %s", options);
  json_t *again = line_of(command, 1);
  assert_true(json_equal(second, again));
  assert_false(json_equal(second, third)); /* another line */
  snprintf(command, sizeof command, "printf 'w50\\nw9\\n' | $V generate $T/gpt2 %s --seed 4", options);
  json_t *other = line_of(command, 1);
  assert_false(json_equal(second, other));
  json_decref(second);
  json_decref(third);
  json_decref(again);
  json_decref(other);
  must_print("$V generate $T/gpt2 -p 'w5 w6 w7' --do-sample --top-k 1 --max-new-tokens 3", " w125 w30 w30\n");
}

/* A prompt after which no id is allowed; the other prompts get their texts, alone or in a batch with it. */
static void test_no_id_is_allowed(void **state) {
  (void)state;
  assert_int_equal(
      program_run("seq -s, 0 159 | sed 's/,5,6,7,/,/; s/.*/{\"suppress_tokens\": [&], \"do_sample\": true, "
                  "\"no_repeat_ngram_size\": 1, \"max_new_tokens\": 1}/' > $T/three"),
      0);
  for (int batch = 1; batch <= 3; batch += 2) {
    char command[256];
    snprintf(command, sizeof command, "printf 'w5 w7\nw5 w6 w7\nw6 w7\n' | $V generate $T/gpt2 -g $T/three -b %d",
             batch);
    program_must(command, 4, " w6\n\n w5\n", "line 2 was skipped: step 0: expected an id with a finite score");
    assert_non_null(strstr(program_err, "skipped 1 of 3 lines"));
    strcat(command, " --invalid fail");
    program_must(command, 4, NULL, "line 2: step 0: expected an id with a finite score");
  }
  program_must(
      "$V translate --model $T/mbart 'w5 w6' --num-beams 2 --force-words w7 --max-new-tokens 3 --suppress-tokens 7", 4,
      NULL, "no sequence of up to 4 ids has all words of force_words_ids");
}

/* A prompt that fills the 96 positions gets one more token. */
static void test_full_prompts(void **state) {
  (void)state;
  program_must(
      "p=$(yes w5 | head -96 | tr '\\n' ' '); for o in '' '--max-new-tokens 1' '--max-new-tokens 9'; do "
      "$V generate $T/gpt2 -p \"$p\" $o | wc -w; done",
      0, "1\n1\n1\n", "");
  program_must(
      "echo '{\"max_length\": 96}' > $T/length && $V generate $T/gpt2 -p \"$(yes w5 | head -96 | tr '\\n' ' ')\" "
      "-g $T/length",
      4, NULL, "text 1 was skipped: expected fewer than 96 tokens, so that more have room, found 96");
}

static void test_refused(void **state) {
  (void)state;
  program_must("$V generate $T/gpt2 -p \"$(yes w5 | head -97 | tr '\\n' ' ')\"", 4, NULL,
               "text 1 was skipped: expected at most 96 tokens, the model's positions, found 97");
  static const char *const wrong[][2] = {{"temperature 0", "a number over 0, found 0"},
                                         {"temperature -1", "a number over 0, found -1"},
                                         {"top-p 1.5", "a number from 0 to 1, found 1.5"},
                                         {"min-p -0.1", "a number from 0 to 1, found -0.1"},
                                         {"typical-p 0", "a number over 0, up to 1, found 0"},
                                         {"eta-cutoff 1", "a number from 0 to below 1, found 1"},
                                         {"top-k -1", "a whole number of at least 0, found"},
                                         {"repetition-penalty 0", "a number over 0, found '0'"},
                                         {"patience 0", "a number over 0, found '0'"},
                                         {"num-beams 2147483648", "a whole number of at most 2147483647"},
                                         {"bad-words-ids 5", "lists of ids in brackets,"},
                                         {"bad-words-ids [],[5]", "lists of ids in brackets,"},
                                         {"suppress-tokens [5]", "ids, separated by commas"},
                                         {"suppress-tokens -1", "ids, separated by commas"}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    char command[160], message[160];
    snprintf(command, sizeof command, "$V generate $T/gpt2 -p w5 --do-sample --%s", wrong[i][0]);
    snprintf(message, sizeof message, "--%.*s: expected %s", (int)strcspn(wrong[i][0], " "), wrong[i][0], wrong[i][1]);
    program_must(command, 2, "", message);
  }
  program_must("echo '{\"do_sample\": true, \"temperature\": 0}' > $T/cold && $V generate $T/gpt2 -p w5 -g $T/cold", 4,
               NULL, "\"temperature\": expected a number over 0");
  assert_int_equal(program_run("$V generate $T/gpt2 -p w5 --top-k 5 --seed 1 --max-new-tokens 1"), 0);
  assert_non_null(strstr(program_err, "--top-k has no effect without --do-sample"));
  assert_non_null(strstr(program_err, "--seed has no effect"));
  program_must("$V generate $T/gpt2 -p w5 -i a -o b", 2, NULL, "found prompts as well");
  program_must("$V generate $T/gpt2 -p ''", 4, NULL, "text 1 was skipped: expected at least one token");
  program_must("$V generate $T/bert -p w5", 4, NULL, "to generate with, found encoder");
  program_must(
      "cp -rL $T/gpt2 $T/bare && sed -i s/GPT2LMHeadModel/GPT2Model/ $T/bare/config.json && "
      "$V generate $T/bare -p w5",
      4, NULL, "found decoder without a head (family gpt2). If its head is tied to its embeddings, name the");
  program_must("$V generate $T/verdicts -p w5", 4, NULL,
               "expected a language model head to generate with, found one of");
  program_must("$V layers $T/verdicts w5 --logit-lens", 4, NULL, "found one that reads a single one");
  program_must("$V fill-mask $T/bert w5", 4, NULL, "text 1 was skipped: expected the tokenizer's mask");
  program_must("$V fill-mask $T/labels '[MASK]'", 4, NULL, "masked language model");
  program_must("$V classify $T/bert w5", 4, NULL, "classification head");
  program_must("$V embed $T/bert w5 --pooling sum", 2, NULL,
               "--pooling: expected mean, cls, max, last, weighted_mean or mean_sqrt_len, found 'sum'");
}

/* ---- other commands ---------------------------------------------------------------------------------------------- */

static void check_score(const json_t *object, const char *key, double expected) {
  double score = json_real_value(json_object_get(object, key));
  if (fabs(score - expected) > 1e-9) fail_msg("expected %.12g, found %.12g", expected, score);
}

static void test_fill_mask(void **state) {
  (void)state;
  size_t n = 0;
  float *logits = forward("bert", "logits", &n);
  size_t best = best_of(logits + 3 * n, n);
  json_t *line = line_of("$V fill-mask $T/bert 'w5 w6 [MASK]' --top-k 2 --json", 0);
  char text[64];
  assert_int_equal(json_integer_value(json_object_get(line, "id")), best);
  assert_int_equal(json_integer_value(json_object_get(line, "position")), 3);
  snprintf(text, sizeof text, "w5 w6 w%zu", best);
  assert_string_equal(json_string_value(json_object_get(line, "text")), text);
  check_score(line, "score", softmax_of(logits + 3 * n, n, best));
  json_decref(line);
  assert_int_equal(program_run("test $($V fill-mask $T/bert 'w5 [MASK] [MASK]' -k 3 --json | wc -l) = 6"), 0);
  /* a mask of another name */
  assert_int_equal(program_run("cp -r $T/bert $T/hole && sed -i 's/\\[MASK\\]/<hole>/g' $T/hole/tokenizer.json && "
                               "echo '{\"mask_token\": \"<hole>\"}' > $T/hole/tokenizer_config.json && "
                               "$V fill-mask $T/bert 'w5 [MASK]' > $T/filled && "
                               "$V fill-mask $T/hole 'w5 <hole>' | cmp - $T/filled"),
                   0);
  free(logits);
}

static void test_classify(void **state) {
  (void)state;
  size_t n = 0;
  char name[32];
  float *logits = forward("labels", "logits", &n);
  json_t *line = line_of("$V classify $T/labels 'w5 w6 [MASK]' --json", 0), *labels = json_object_get(line, "labels");
  assert_int_equal(json_array_size(labels), n);
  snprintf(name, sizeof name, "LABEL_%zu", best_of(logits, n));
  assert_string_equal(json_string_value(json_object_get(json_array_get(labels, 0), "label")), name);
  check_score(json_array_get(labels, 0), "score", softmax_of(logits, n, best_of(logits, n)));
  json_decref(line);
  free(logits);

  logits = forward("words", "logits", &n);
  line = line_of("$V classify $T/words 'w5 w6 [MASK]' --json", 0);
  json_t *words = json_object_get(line, "words");
  assert_int_equal(json_array_size(words), 2); /* special tokens are no words */
  for (size_t i = 0; i < 2; i++) {
    const float *row = logits + (i + 1) * n;
    snprintf(name, sizeof name, "LABEL_%zu", best_of(row, n));
    assert_string_equal(json_string_value(json_object_get(json_array_get(words, i), "label")), name);
    assert_string_equal(json_string_value(json_object_get(json_array_get(words, i), "word")), i ? "w6" : "w5");
    check_score(json_array_get(words, i), "score", softmax_of(row, n, best_of(row, n)));
  }
  json_decref(line);
  free(logits);
  line = line_of("$V classify $T/words 'w5 never w6' --json", 0);
  words = json_object_get(line, "words");
  assert_int_equal(json_array_size(words), 3); /* an unknown word is one; here its token is [PAD] */
  assert_string_equal(json_string_value(json_object_get(json_array_get(words, 1), "word")), "[PAD]");
  json_decref(line);
}

/* A discriminator says of each token, not of each word, how probable it is that it was replaced. */
static void test_classify_replaced(void **state) {
  static const char *const named[] = {"0 [PAD]", "1 [UNK]", "2 [CLS]", "3 [SEP]", "4 [MASK]", "6 ##w6"};
  static const char *const words[] = {"w5", "##w6"};
  static const char *const post = "{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],\"cls\":[\"[CLS]\",2]}";
  (void)state;
  size_t n = 0;
  char expected[64] = "";
  assert_int_equal(program_run("cp -rL $G/families/electra-discriminator $T/replaced && chmod -R u+w $T/replaced"), 0);
  write_tokenizer("replaced", 90, named, 6, NULL, post);
  float *logits = forward("replaced", "logits", &n);
  assert_int_equal(n, 5);
  json_t *line = line_of("$V classify $T/replaced 'w5 ##w6 [MASK]' --json", 0), *list = json_object_get(line, "words");
  assert_int_equal(json_array_size(list), 2);
  for (size_t i = 0; i < 2; i++) {
    const json_t *word = json_array_get(list, i);
    const double score = 1 / (1 + exp(-(double)logits[i + 1]));
    assert_string_equal(json_string_value(json_object_get(word, "word")), words[i]);
    assert_string_equal(json_string_value(json_object_get(word, "label")), "replaced");
    check_score(word, "score", score);
    snprintf(expected + strlen(expected), 32, "%s\treplaced\t%.4f\n", words[i], score);
  }
  json_decref(line);
  free(logits);
  must_print("$V classify $T/replaced 'w5 ##w6 [MASK]' 'w7 w8 w9' | head -n 2", expected);
  must_print("$V classify $T/replaced 'w7 w8 w9 w5' 'w5 ##w6 [MASK]' | tail -n 2", expected);
  program_must("$V classify $T/replaced --candidate-labels a w5", 4, NULL, "found one of words");
  assert_int_equal(program_run("rm -r $T/replaced"), 0);
}

/* Byte-level tokens show where words begin, except for the first word; a text of one word is one word. */
static void test_words_of_bytes(void **state) {
  static const char json[] =
      "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"x\": 5, \"y\": 6, \"\xC4\xA0\": 7}, \"merges\": []},"
      "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false},"
      "\"decoder\": {\"type\": \"ByteLevel\"}}";
  (void)state;
  char path[512];
  assert_int_equal(program_run("cp -r $T/words $T/byte-words"), 0);
  snprintf(path, sizeof path, "%s/byte-words/tokenizer.json", program_folder);
  FILE *file = fopen(path, "w");
  assert_true(file && fputs(json, file) >= 0 && fclose(file) == 0);
  must_print("$V classify $T/byte-words xyx | cut -f 1", "xyx\n");
  must_print("$V classify $T/byte-words 'xy x' | cut -f 1", "xy\nx\n");
}

/* Pairs of texts, with a tab between the two. */
static void test_pairs(void **state) {
  (void)state;
  json_t *line = line_of("printf 'w5 w6\\tw7\\n' | $V classify $T/inference --pairs --json", 0);
  assert_string_equal(json_string_value(json_object_get(line, "text")), "w5 w6");
  assert_string_equal(json_string_value(json_object_get(line, "text_pair")), "w7");
  assert_int_equal(json_array_size(json_object_get(line, "labels")), 3);
  json_decref(line);
  line = line_of("printf 'w5 w6\\tw7\\n' | $V tokenize --model $T/labels --pairs --json", 0);
  json_t *wanted =
      json_pack("{s:s, s:s, s:[i,i,i,i,i,i]}", "text", "w5 w6", "text_pair", "w7", "token_type_ids", 0, 0, 0, 0, 1, 1);
  const char *key;
  json_t *value;
  json_object_foreach(wanted, key, value) assert_true(json_equal(json_object_get(line, key), value));
  json_decref(wanted);
  json_decref(line);
  program_must("printf 'w5\\n' | $V classify $T/labels --pairs --invalid replace", 4, NULL,
               "line 1 was skipped: expected two texts with a tab between them, found 0 tabs");
  program_must("printf 'w5\\tw6\\tw7\\n' | $V classify $T/labels --pairs --invalid fail", 4, NULL, "found 2 tabs");
  program_must("printf 'w5\\tw6\\n' | $V classify $T/labels --pairs --long split", 2, NULL, "found split");
  program_must("$V classify $T/vit --pairs $I/rgb.png", 2, NULL, "found one of images");
  program_must("cp -r $T/inference $T/judge && sed -i s/LABEL_2/entailment/ $T/judge/config.json", 0, "", "");
  must_print(
      "$V classify $T/judge --candidate-labels ' w7 w8,,w9 ' --hypothesis-template {} --multi-label w5 'w5 w6' | "
      "sed 's/ 0[.][0-9]*/ X/g;s/w9 X  w7 w8 X/ok/;s/w7 w8 X  w9 X/ok/'",
      "ok\nok\n");
  program_must("$V classify $T/judge --candidate-labels ' ,' w5", 2, NULL, "expected names, found ' ,'");
  program_must("$V classify $T/judge --candidate-labels a --hypothesis-template b w5", 2, NULL, "{} in it, found 'b'");
  program_must("$V classify $T/judge --candidate-labels a --pairs w5", 2, NULL, "expected no --pairs with it");
  program_must("$V classify $T/judge --multi-label w5", 2, NULL, "--multi-label: expected --candidate-labels as well");
  program_must("$V classify $T/judge --candidate-labels a --long split w5", 2, NULL, "found split");
  program_must("$V classify $T/vit --candidate-labels a $I/rgb.png", 2, NULL, "found one of images");
  must_print("printf 'w5\\tw6\\n\\t\\n' | $V classify $T/verdicts --pairs --json 2>/dev/null | grep -c skipped", "1\n");
  static const char *const bart[] = {"0 <s>", "1 <pad>", "2 </s>", "3 <unk>"}; /* its tokenizer adds no end */
  assert_int_equal(program_run("cp -r $T/inference $T/endless"), 0);
  write_tokenizer("endless", 90, bart, 4, NULL, NULL);
  program_must("printf 'w5 </s>\\nw5\\n' | $V classify $T/endless | wc -w", 0, "6\n",
               "line 2 was skipped: expected an end among its tokens (eos_token_id, 2), found none");
  program_must("$V run $T/inference --text 'w5 w6' -o $T/inference.json", 0, NULL, "");
}

static void check_embedding(const char *command, const double *expected, size_t n) {
  json_t *line = line_of(command, 0), *vector = json_object_get(line, "embedding");
  assert_int_equal(json_array_size(vector), n);
  for (size_t i = 0; i < n; i++) {
    double found = json_real_value(json_array_get(vector, i));
    if (fabs(found - expected[i]) > 1e-9) fail_msg("%s: [%zu] %.12g, expected %.12g", command, i, found, expected[i]);
  }
  json_decref(line);
}

/* The scores of images are those of transformers with its Pillow image processor. */
static void test_images(void **state) {
  (void)state;
  static const char *const with = "printf '{\"size\": 32}' > $T/vit/preprocessor_config.json";
  program_must("$V classify $T/vit $I/rgb.png", 4, NULL, "vit/preprocessor_config.json: cannot be opened");
  must_print(with, "");
  if (program_run("$V classify $T/vit -k 1 $I/rgb.png") != 0 && strstr(program_err, "built without")) {
    print_message("no images: %s", program_err);
    skip();
  }
  must_print("$V classify $T/vit -k 3 $I/chroma.jpg $I/rgb.png",
             "LABEL_9 0.2151  LABEL_6 0.1812  LABEL_4 0.1455\nLABEL_9 0.3731  LABEL_6 0.2083  LABEL_0 0.1340\n");
  json_t *line = line_of("ls $I/rgb.png | $V classify $T/vit --json", 0);
  assert_non_null(strstr(json_string_value(json_object_get(line, "image")), "/rgb.png"));
  assert_int_equal(json_array_size(json_object_get(line, "labels")), 10);
  json_decref(line);
  must_print("$V run $T/vit --image $I/rgb.png --image $I/chroma.jpg -o $T/vit.out", "");
  program_must("$V run $T/vit --image $I/rgb.png -i $T/vit.out -o $T/vit.none", 2, NULL,
               "expected one of --inputs, --text and --image");
  program_must("$V run $T/gpt2 --image $I/rgb.png -o $T/vit.out", 4, NULL, "found a model of token ids");
  program_must("$V classify $T/vit $T/vit.out", 4, NULL, "vit.out: expected a PNG or JPEG image, found something else");
  program_must("head -c 300 $I/rgb.png > $T/cut.png; $V classify $T/vit $T/cut.png", 4, NULL,
               "cut.png: the PNG image cannot be");
  program_must("$V classify $T/vit $I/cmyk.jpg", 4, NULL, "CMYK");
  must_print("printf '{\"size\": 33}' > $T/vit/preprocessor_config.json", "");
  program_must("$V classify $T/vit $I/rgb.png", 4, NULL,
               "expected images of 32 x 32, as the model has them, found 33 x 33");
  must_print("printf '{\"do_pad\": true}' > $T/vit/preprocessor_config.json", "");
  program_must("$V classify $T/vit $I/rgb.png", 4, NULL, "\"do_pad\" is not supported");
}

/* A .npy file has the numbers of the JSON lines, after its header. */
static void test_embed_npy(void **state) {
  (void)state;
  static const char shape[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 64), }";
  char bytes[128 + 2 * 64 * sizeof(float) + 2], path[256];
  must_print("$V embed $T/bert $INVARIANT 'w5 w6' 'w7' -o $T/v.npy", "");
  snprintf(path, sizeof path, "%s/v.npy", program_folder);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(bytes, 1, sizeof bytes, file), sizeof bytes - 2);
  fclose(file);
  assert_memory_equal(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
  assert_memory_equal(bytes + 10, shape, sizeof shape - 1);
  assert_int_equal(bytes[127], '\n');
  for (int i = 0; i < 2; i++) {
    json_t *line = line_of(i ? "$V embed $T/bert $INVARIANT 'w7'" : "$V embed $T/bert $INVARIANT 'w5 w6'", 0);
    for (int k = 0; k < 64; k++) {
      float value;
      memcpy(&value, bytes + 128 + (64 * i + k) * sizeof value, sizeof value);
      /* The line has 15 digits of a double, which may be rounded across the middle between two floats. */
      double x = json_number_value(json_array_get(json_object_get(line, "embedding"), k)), step = 5e-15 * fabs(x);
      assert_true((float)(x - step) <= value && value <= (float)(x + step));
    }
    json_decref(line);
  }
  program_must("$V embed $T/bert w5 -o $T/no/such.npy", 4, NULL, "such.npy: cannot be written: No such file");
  program_must("$V embed $T/bert w5 -o $T/v.npy --similarity", 2, NULL, "expected --output or --similarity");
}

/* Writes this text to a file of the bert folder; NULL: removes the file. */
static void put(const char *file, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/bert/%s", program_folder, file);
  remove(path);
  FILE *out = text ? fopen(path, "wb") : NULL;
  assert_true(!text || (out && fputs(text, out) >= 0 && fclose(out) == 0));
}

/* Reads what sentence-transformers writes, in its present and earlier forms. */
static void test_embed_folders(void **state) {
  (void)state;
  enum { MAX_WIDTH = 256, S = 5 };
  static const char pooling[] = "1_Pooling/config.json", sentence[] = "sentence_bert_config.json",
                    model[] = "config_sentence_transformers.json";
  static const struct {
    const char *file, *text, *words;
  } refused[] = {
      {pooling, "{\"pooling_mode\": \"sum\"}",
       "\"pooling_mode\": expected cls, max, mean, mean_sqrt_len_tokens, weighted"},
      {pooling, "{\"pooling_mode\": 1}", "weightedmean or lasttoken, found 1"},
      {pooling, "{\"pooling_mode\": []}", "weightedmean or lasttoken, found []"},
      {pooling, "{\"pooling_mode\": [\"cls\", null]}", "weightedmean or lasttoken, found null"},
      {pooling, "{\"pooling_mode\": [\"cls\", \"cls\", \"cls\", \"cls\", \"cls\", \"cls\", \"cls\"]}",
       "\"pooling_mode\": expected 6 poolings at most, found \"cls\""},
      {pooling, "{\"pooling_mode_sum_tokens\": true}", "\"pooling_mode_sum_tokens\" is not supported"},
      {pooling, "{\"pooling_mode\": \"cls\", \"depth\": 2}", "\"depth\" is not supported"},
      {pooling, "{\"pooling_mode\": \"cls\", \"embedding_dimension\": 32}",
       "expected a pooling of 64 numbers, as the model has, found 32"},
      {pooling, "{\"pooling_mode_cls_token\": true}", "\"pooling_mode_mean_tokens\": expected true or false"},
      {pooling, "{\"pooling_mode_mean_tokens\": false}", "expected one pooling that is true, found none"},
      {sentence, "{\"max_seq_length\": 0}", "\"max_seq_length\": expected a number of tokens, found 0"},
      {sentence, "{\"max_seq_length\": 2}", "of which 2 are special ones, found a limit of 2"},
      {sentence, "{\"do_lower_case\": true}", "\"do_lower_case\": expected false, found true"},
      {sentence, "{\"module_output_name\": \"scores\"}", "\"module_output_name\": expected \"token_embeddings\""},
      {sentence, "{\"window\": 8}", "sentence_bert_config.json: \"window\" is not supported"},
      {model, "{\"model_type\": \"SparseEncoder\"}", "\"model_type\": expected \"SentenceTransformer\""},
      {model, "{\"default_prompt_name\": \"query\"}",
       "\"default_prompt_name\": expected the name of one of \"prompts\""},
      {model, "{\"truncate_dim\": 8}", "\"truncate_dim\" is not supported"},
      {"modules.json", "[{\"type\": \"sentence_transformers.base.modules.asym.Asym\"}]", "module \"Asym\" is not"},
      {"modules.json", "[{\"type\": \"a.Transformer\", \"path\": \"0_T\"}]", "as the path of the Transformer"},
      {"modules.json", "{}", "modules.json: expected a list of modules"},
  };
  static double first[MAX_WIDTH];
  size_t n = 0;
  float *states = forward("bert", "last_hidden_state", &n);
  for (size_t d = 0; d < n; d++) first[d] = states[d];
  assert_int_equal(program_run("mkdir $T/bert/1_Pooling"), 0);
  put(pooling, "{\"embedding_dimension\": 64, \"pooling_mode\": \"cls\", \"include_prompt\": true}");
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", first, n);
  for (size_t d = 0; d < n; d++) first[d] = states[(S - 1) * n + d];
  put(pooling, "{\"embedding_dimension\": 64, \"pooling_mode\": \"lasttoken\", \"include_prompt\": false}");
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", first, n);
  /* cut after its first words, special tokens kept; below with a prompt, which the printed text does not show */
  put(sentence, "{\"max_seq_length\": 5, \"do_lower_case\": false}");
  check_embedding("$V embed $T/bert 'w5 w6 [MASK] w9 w8 w7'", first, n);
  assert_int_equal(program_run("$V embed $T/bert 'w5 w6 [MASK] w9 w8 w7'"), 0);
  assert_non_null(strstr(program_err, "text 1 has 8 tokens: only 5 of them are embedded"));
  put("tokenizer_config.json", "{\"truncation_side\": \"left\"}"); /* this keeps its last words */
  check_embedding("$V embed $T/bert 'w9 w8 w7 w5 w6 [MASK]'", first, n);
  put(sentence,
      "{\"transformer_task\": \"feature-extraction\", \"modality_config\": {\"text\": {\"method\": \"forward\", "
      "\"method_output_name\": \"last_hidden_state\"}}, \"module_output_name\": \"token_embeddings\"}");
  put(pooling, "{\"embedding_dimension\": 64, \"pooling_mode\": \"lasttoken\", \"include_prompt\": true}");
  put("tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656}"); /* no limit */
  put(model,
      "{\"model_type\": \"SentenceTransformer\", \"__version__\": {\"pytorch\": \"2\"}, \"similarity_fn_name\": "
      "\"dot\", \"prompts\": {\"query\": \"w5 w6 \"}, \"default_prompt_name\": \"query\"}");
  check_embedding("$V embed $T/bert '[MASK]'", first, n);
  json_t *line = line_of("$V embed $T/bert '[MASK]'", 0);
  assert_string_equal(json_string_value(json_object_get(line, "text")), "[MASK]");
  json_decref(line);
  program_must("$V embed $T/bert w5 --similarity", 4, NULL, "\"similarity_fn_name\": expected \"cosine\" for");
  put(pooling, "{\"pooling_mode\": \"lasttoken\", \"include_prompt\": false}");
  program_must("$V embed $T/bert w5", 4, NULL,
               "\"include_prompt\": expected true beside a default prompt, found false");
  program_must("$V embed $T/bert --pooling mean w5", 4, NULL, "\"include_prompt\": expected true");
  put(model, NULL);
  put(sentence, NULL);
  put(pooling, NULL);
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    put(refused[i].file, refused[i].text);
    program_must("$V embed $T/bert w5", 4, NULL, refused[i].words);
    put(refused[i].file, NULL);
  }
  assert_int_equal(program_run("rmdir $T/bert/1_Pooling"), 0);
  free(states);
}

/* Layers after the pooling: tanh(W x + b), then one without a bias, whose width is that of the vectors. */
static void test_embed_dense(void **state) {
  (void)state;
  enum { N = 64, HIDDEN = 5, WIDTH = 3, S = 5 };
  static const char modules[] =
      "[{\"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"}, {\"path\": \"1_Pooling\", \"type\": "
      "\"sentence_transformers.models.Pooling\"}, {\"path\": \"2_Dense\", \"type\": "
      "\"sentence_transformers.models.Dense\"}, {\"path\": \"3_Dense\", \"type\": "
      "\"sentence_transformers.models.Dense\"}"
      "%s]";
  static const char first[] =
      "{\"in_features\": 64, \"out_features\": 5, \"bias\": true, \"activation_function\": "
      "\"torch.nn.modules.activation.Tanh\"}",
                    second[] =
                        "{\"in_features\": 5, \"out_features\": 3, \"bias\": false, \"activation_function\": "
                        "\"torch.nn.modules.linear.Identity\", \"module_input_name\": \"sentence_embedding\", "
                        "\"use_residual\": false}";
  static const struct {
    const char *file, *text, *words;
  } refused[] = {
      {"2_Dense/config.json", "{\"in_features\": 64}", "\"out_features\": expected a width"},
      {"2_Dense/config.json", "{\"in_features\": 32, \"out_features\": 5}", "linear.weight"},
      {"2_Dense/config.json", "{\"in_features\": 64, \"out_features\": 5, \"activation_function\": \"torch.nn.ReLU\"}",
       "\"activation_function\": expected Tanh or Identity"},
      {"2_Dense/config.json", "{\"in_features\": 64, \"out_features\": 5, \"depth\": 2}", "\"depth\": expected a key"},
      {"2_Dense/config.json", "{\"in_features\": 64, \"out_features\": 5, \"use_residual\": true}",
       "\"use_residual\": expected false"},
      {"2_Dense/config.json", NULL, "2_Dense/config.json: cannot be opened"},
      {"modules.json",
       "[{\"type\": \"a.Pooling\"}, {\"type\": \"a.Normalize\"}, {\"path\": \"2_Dense\", \"type\": \"a.Dense\"}]",
       "expected Normalize as the last module"},
      {"modules.json", "[{\"type\": \"a.Pooling\"}, {\"path\": \"3_Dense\", \"type\": \"a.Dense\"}]",
       "a Dense for 64 numbers"},
      {"modules.json", "[{\"path\": \"3_Dense\", \"type\": \"a.Dense\"}]", "expected Pooling before Dense"},
  };
  float weights[2][N * HIDDEN], bias[HIDDEN];
  double mean[N] = {0}, hidden[HIDDEN], vector[WIDTH], length = 0;
  char text[1024];
  size_t n = 0;
  float *states = forward("bert", "last_hidden_state", &n);
  assert_int_equal(n, N);
  for (size_t d = 0; d < N; d++)
    for (size_t t = 0; t < S; t++) mean[d] += states[t * N + d] / (double)S;
  for (size_t i = 0; i < N * HIDDEN; i++) weights[0][i] = (float)((double)(i * 7 % 13) / 40 - 0.15);
  for (size_t i = 0; i < HIDDEN * WIDTH; i++) weights[1][i] = (float)(i % 4) - 1.25f;
  for (size_t i = 0; i < HIDDEN; i++) bias[i] = 0.1f * (float)i;
  for (size_t i = 0; i < HIDDEN; i++) {
    hidden[i] = bias[i];
    for (size_t d = 0; d < N; d++) hidden[i] += weights[0][i * N + d] * mean[d];
    hidden[i] = tanh(hidden[i]);
  }
  for (size_t i = 0; i < WIDTH; i++) {
    vector[i] = 0;
    for (size_t d = 0; d < HIDDEN; d++) vector[i] += weights[1][i * HIDDEN + d] * hidden[d];
    length += vector[i] * vector[i];
  }
  assert_int_equal(program_run("mkdir $T/bert/2_Dense $T/bert/3_Dense"), 0);
  const vkf_array layers[] = {{"linear.weight", VKF_F32, 2, {HIDDEN, N}, weights[0]},
                              {"linear.bias", VKF_F32, 1, {HIDDEN}, bias},
                              {"linear.weight", VKF_F32, 2, {WIDTH, HIDDEN}, weights[1]}};
  vkf_context *context = NULL;
  assert_int_equal(vkf_context_create(NULL, &context), VKF_OK);
  snprintf(text, sizeof text, "%s/bert/2_Dense/model.safetensors", program_folder);
  assert_int_equal(vkf_arrays_write(context, text, layers, 2), VKF_OK);
  snprintf(text, sizeof text, "%s/bert/3_Dense/model.safetensors", program_folder);
  assert_int_equal(vkf_arrays_write(context, text, layers + 2, 1), VKF_OK);
  vkf_context_destroy(&context);
  put("2_Dense/config.json", first);
  put("3_Dense/config.json", second);
  snprintf(text, sizeof text, modules, "");
  put("modules.json", text);
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", vector, WIDTH);
  must_print(
      "printf '\\377\\nw5\\n' | $V embed $T/bert -o $T/d.npy 2>/dev/null; head -c 128 $T/d.npy | grep -c '(2, 3)'; wc "
      "-c < $T/d.npy",
      "1\n152\n");
  for (size_t i = 0; i < WIDTH; i++) vector[i] /= sqrt(length);
  snprintf(text, sizeof text, modules,
           ", {\"path\": \"4_Normalize\", \"type\": \"sentence_transformers.models.Normalize\"}");
  put("modules.json", text);
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", vector, WIDTH);
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    put("2_Dense/config.json", first);
    put("modules.json", text);
    put(refused[i].file, refused[i].text);
    program_must("$V embed $T/bert w5", 4, NULL, refused[i].words);
  }
  put("2_Dense/config.json", first);
  put("modules.json", text);
  bias[1] = NAN;
  snprintf(text, sizeof text, "%s/bert/2_Dense/model.safetensors", program_folder);
  assert_int_equal(vkf_context_create(NULL, &context), VKF_OK);
  assert_int_equal(vkf_arrays_write(context, text, layers, 2), VKF_OK);
  program_must("$V embed $T/bert w5", 1, NULL, "vector of text 1: expected finite numbers, found nan");
  assert_int_equal(vkf_arrays_write(context, text, layers, 1), VKF_OK);
  program_must("$V embed $T/bert w5", 4, NULL, "2_Dense/model.safetensors: ");
  vkf_context_destroy(&context);
  assert_int_equal(program_run("rm -r $T/bert/2_Dense $T/bert/3_Dense $T/bert/modules.json"), 0);
  free(states);
}

/* Poolings that weigh states, and poolings that are concatenated. The text that is split has two equal parts; the token
 * numbers of the second continue those of the first. */
static void test_embed_poolings(void **state) {
  (void)state;
  enum { N = 64, S = 5 };
  static const char pooling[] = "1_Pooling/config.json", sentence[] = "sentence_bert_config.json";
  double weighted[N] = {0}, parts[N] = {0}, root[N] = {0}, mean[N] = {0}, both[2 * N];
  size_t n = 0;
  float *states = forward("bert", "last_hidden_state", &n);
  assert_int_equal(n, N);
  for (size_t d = 0; d < N; d++)
    for (size_t t = 0; t < S; t++) {
      const double x = states[t * N + d];
      weighted[d] += (double)(t + 1) * x / (S * (S + 1) / 2);
      parts[d] += (double)(2 * (t + 1) + S) * x / (2 * S * (2 * S + 1) / 2);
      root[d] += x / sqrt(S);
      mean[d] += x / S;
    }
  check_embedding("$V embed $T/bert --pooling weighted_mean 'w5 w6 [MASK]'", weighted, N);
  check_embedding("$V embed $T/bert --pooling mean_sqrt_len 'w5 w6 [MASK]'", root, N);
  assert_int_equal(program_run("mkdir $T/bert/1_Pooling"), 0);
  put(pooling, "{\"pooling_mode\": \"weightedmean\", \"pooling_mode_mean_tokens\": true}");
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", weighted, N);
  put(sentence, "{\"max_seq_length\": 5}");
  check_embedding("$V embed $T/bert --long split 'w5 w6 [MASK] w5 w6 [MASK]'", parts, N);
  put(sentence, NULL);
  put(pooling, "{\"pooling_mode_cls_token\": false}");
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", mean, N);
  put(pooling, "{\"pooling_mode_mean_tokens\": false, \"pooling_mode_mean_sqrt_len_tokens\": true}");
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", root, N);
  memcpy(both, weighted, sizeof weighted);
  for (size_t d = 0; d < N; d++) both[N + d] = states[d];
  put(pooling, "{\"word_embedding_dimension\": 64, \"pooling_mode\": [\"weightedmean\", \"cls\"]}");
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", both, 2 * N);
  for (size_t d = 0; d < N; d++) both[d] = states[d];
  memcpy(both + N, weighted, sizeof weighted);
  put(pooling,
      "{\"pooling_mode_weightedmean_tokens\": true, \"pooling_mode_mean_tokens\": false, "
      "\"pooling_mode_max_tokens\": false, \"pooling_mode_cls_token\": true}");
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", both, 2 * N);
  must_print("$V embed $T/bert 'w5' 'w6' -o $T/p.npy; head -c 128 $T/p.npy | grep -c '(2, 128)'", "1\n");
  assert_int_equal(program_run("rm -r $T/bert/1_Pooling"), 0);
  free(states);
}

static void test_embed(void **state) {
  (void)state;
  enum { MAX_WIDTH = 256, S = 5 };
  static double mean[MAX_WIDTH], first[MAX_WIDTH], last[MAX_WIDTH], top[MAX_WIDTH], unit[MAX_WIDTH];
  double length = 0;
  size_t n = 0;
  float *states = forward("bert", "last_hidden_state", &n);
  assert_between(n, 1, MAX_WIDTH);
  for (size_t d = 0; d < n; d++) {
    top[d] = -INFINITY;
    for (size_t t = 0; t < S; t++) mean[d] += states[t * n + d] / (double)S;
    for (size_t t = 0; t < S; t++) top[d] = fmax(top[d], states[t * n + d]);
    first[d] = states[d];
    last[d] = states[(S - 1) * n + d];
    length += mean[d] * mean[d];
  }
  for (size_t d = 0; d < n; d++) unit[d] = mean[d] / sqrt(length);
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", mean, n);
  check_embedding("echo 'w5 w6 [MASK]' | $V embed $T/bert --pooling cls", first, n);
  check_embedding("$V embed $T/bert --pooling last 'w5 w6 [MASK]'", last, n);
  check_embedding("$V embed $T/bert --normalize 'w5 w6 [MASK]'", unit, n);
  assert_int_equal(program_run("mkdir $T/bert/1_Pooling && echo '{\"pooling_mode_max_tokens\": true, "
                               "\"pooling_mode_mean_tokens\": false}' > $T/bert/1_Pooling/config.json"),
                   0);
  check_embedding("$V embed $T/bert 'w5 w6 [MASK]'", top, n);
  json_t *line = line_of("printf 'w5\\nw5\\nw9 w8\\n' | $V embed $T/bert --similarity", 0);
  const json_t *row = json_object_get(line, "similarity");
  assert_int_equal(json_array_size(row), 3);
  assert_true(fabs(json_real_value(json_array_get(row, 1)) - 1) < 1e-12);
  assert_true(json_real_value(json_array_get(row, 2)) < 0.9999);
  json_decref(line);
  assert_int_equal(program_run("echo '{' > $T/bert/1_Pooling/config.json"), 0);
  program_must("$V embed $T/bert w5", 4, NULL, "1_Pooling/config.json: expected JSON, found at line ");
  assert_int_equal(program_run("rm -r $T/bert/1_Pooling"), 0);
  free(states);
}

/* A target that the model's own bias excludes has a log-probability of minus infinity, which JSON cannot represent. */
static void test_score_of_nothing(void **state) {
  (void)state;
  enum { MAX_ARRAYS = 128, BARRED = 9 };
  vkf_context *context = NULL;
  vkf_result *model = NULL;
  char path[256];
  size_t n = 0;
  assert_int_equal(program_run("cp -r $T/marian $T/barred && chmod -R u+w $T/barred && echo w5 | tee $T/source > "
                               "$T/likely && echo w9 > $T/never"),
                   0);
  snprintf(path, sizeof path, "%s/barred/model.safetensors", program_folder);
  program_ok(NULL, vkf_context_create(NULL, &context));
  program_ok(context, vkf_arrays_read(context, path, &model));
  vkf_array arrays[MAX_ARRAYS];
  n = vkf_result_count(model);
  assert_between(n, 1, MAX_ARRAYS);
  for (size_t i = 0; i < n; i++) {
    arrays[i] = *vkf_result_at(model, i);
    if (strcmp(arrays[i].name, "final_logits_bias") == 0) ((float *)arrays[i].data)[BARRED] = -INFINITY;
  }
  program_ok(context, vkf_arrays_write(context, path, arrays, n));
  vkf_result_destroy(&model);
  vkf_context_destroy(&context);
  must_print("$V score $T/source $T/never -m $T/barred", "-inf\n");
  json_t *never = line_of("$V score $T/source $T/never -m $T/barred --json", 0);
  json_t *likely = line_of("$V score $T/source $T/likely -m $T/barred --json", 0);
  const json_t *token = json_array_get(json_object_get(never, "tokens"), 0);
  assert_int_equal(json_integer_value(json_object_get(token, "id")), BARRED);
  assert_true(json_is_null(json_object_get(token, "logprob")) && json_is_null(json_object_get(never, "score")));
  assert_true(json_real_value(json_object_get(likely, "score")) < 0);
  json_decref(likely);
  json_decref(never);
  assert_int_equal(program_run("rm -r $T/barred $T/source $T/likely $T/never"), 0);
}

PROGRAM_MAIN(word_models, cmocka_unit_test(test_score_of_nothing), cmocka_unit_test(test_prompts),
             cmocka_unit_test(test_whole_characters), cmocka_unit_test(test_beams_and_encoder),
             cmocka_unit_test(test_sampling), cmocka_unit_test(test_languages), cmocka_unit_test(test_batches),
             cmocka_unit_test(test_top_logprobs), cmocka_unit_test(test_no_id_is_allowed),
             cmocka_unit_test(test_full_prompts), cmocka_unit_test(test_refused), cmocka_unit_test(test_fill_mask),
             cmocka_unit_test(test_classify), cmocka_unit_test(test_classify_replaced), cmocka_unit_test(test_pairs),
             cmocka_unit_test(test_words_of_bytes), cmocka_unit_test(test_embed_dense),
             cmocka_unit_test(test_embed_poolings), cmocka_unit_test(test_embed), cmocka_unit_test(test_embed_folders),
             cmocka_unit_test(test_embed_npy), cmocka_unit_test(test_images))
