/* The commands `layers` (the tokens that each layer would predict, and the norms of its states), `translate
 * --beam-tree` and `masks`: on a model whose numbers are known, on golden models, and as pictures. Models:
 * support/word_models.h, and the shipped one ($M). VKF_DEVICE names the driver under test.
 */
#include <math.h>

#include "support/word_models.h"

enum { WIDTH = 8, LAYERS = 3, DECIDES = 1, SAYS = 5 };

/* Appends a tensor [rows][columns] with `value` on its diagonal, or (columns 0) [rows] with `value` as element `at`. */
static void add(vkf_array *arrays, size_t *n, const char *name, size_t rows, size_t columns, float value, size_t at) {
  vkf_array *a = &arrays[(*n)++];
  float *data = calloc(rows * (columns ? columns : 1), sizeof *data);
  char *copy = strdup(name);
  assert_true(data && copy);
  for (size_t i = 0; i < rows && i < columns; i++) data[i * columns + i] = value;
  if (!columns) data[at] = value;
  *a = (vkf_array){.name = copy, .dtype = VKF_F32, .rank = columns ? 2 : 1, .shape = {rows, columns}, .data = data};
}

/* Makes the model $T/known: the embedding of token i is 4 times the unit vector i, and its logit is element i of the
 * state. The layers add nothing, except layer DECIDES, which adds 100 for the token w5. */
static void make_known(void) {
  static const char config[] =
      "{\"model_type\": \"transformer\", \"architecture\": \"decoder\", \"vocab_size\": 8, \"d_model\": 8, \"nhead\": "
      "1, "
      "\"num_layers\": 3, \"dim_feedforward\": 8, \"norm_first\": true, \"final_norm\": false, \"norm_affine\": false, "
      "\"attention_bias\": false, \"positional_encoding\": \"none\", \"lm_head\": true, \"lm_head_bias\": false}";
  static const char *const named[] = {"0 <unk>"};
  vkf_array arrays[32];
  char name[64], path[300];
  size_t n = 0;
  vkf_context *context = NULL;
  add(arrays, &n, "embed.weight", WIDTH, WIDTH, 4, 0);
  add(arrays, &n, "lm_head.weight", WIDTH, WIDTH, 1, 0);
  for (int i = 0; i < LAYERS; i++) {
    static const char *const zeros[] = {"self_attn.out_proj.weight", "linear1.weight", "linear2.weight"};
    snprintf(name, sizeof name, "layers.%d.self_attn.in_proj_weight", i);
    add(arrays, &n, name, 3 * WIDTH, WIDTH, 0, 0);
    for (int k = 0; k < 3; k++) {
      snprintf(name, sizeof name, "layers.%d.%s", i, zeros[k]);
      add(arrays, &n, name, WIDTH, WIDTH, 0, 0);
    }
    snprintf(name, sizeof name, "layers.%d.linear1.bias", i);
    add(arrays, &n, name, WIDTH, 0, 0, 0);
    snprintf(name, sizeof name, "layers.%d.linear2.bias", i);
    add(arrays, &n, name, WIDTH, 0, i == DECIDES ? 100 : 0, SAYS);
  }
  must_print("mkdir $T/known", "");
  snprintf(path, sizeof path, "%s/known/config.json", program_folder);
  FILE *file = fopen(path, "w");
  assert_true(file && fputs(config, file) >= 0 && fclose(file) == 0);
  write_tokenizer("known", WIDTH, named, 1, NULL, NULL);
  snprintf(path, sizeof path, "%s/known/model.safetensors", program_folder);
  assert_int_equal(vkf_context_create(NULL, &context), VKF_OK);
  assert_int_equal(vkf_arrays_write(context, path, arrays, n), VKF_OK);
  vkf_context_destroy(&context);
  for (size_t i = 0; i < n; i++) {
    free(arrays[i].data);
    free((void *)(uintptr_t)arrays[i].name);
  }
}

static int prepare(void **state) {
  setenv("M", VKF_SOURCE_DIR "/models/en-es", 1);
  if (word_models(state) != 0) return -1;
  make_known();
  return 0;
}

static json_t *cell(const json_t *tables, const char *key, size_t row, size_t column) {
  const json_t *rows = json_object_get(json_array_get(json_object_get(tables, "stacks"), 0), key);
  json_t *found = json_array_get(json_array_get(rows, row), column);
  assert_non_null(found);
  return found;
}

/* Each layer predicts its input token up to the layer that decides for w5; after it the states are longer. */
static void test_known(void **state) {
  (void)state;
  static const int given[] = {3, 6, 5};
  json_t *lens = line_of("$V layers $T/known 'w3 w6 w5' --logit-lens --json --top 2", 0);
  json_t *growth = line_of("$V layers $T/known 'w3 w6 w5' --growth --json", 0);
  for (size_t row = 0; row <= LAYERS; row++)
    for (size_t c = 0; c < 3; c++) {
      const bool decided = row > DECIDES;
      const int says = decided ? SAYS : given[c];
      const double own = decided && given[c] == SAYS ? 104 : 4, its = decided && given[c] != SAYS ? 100 : 0;
      const json_t *best = json_array_get(cell(lens, "guesses", row, c), 0);
      const double others = decided && given[c] != SAYS ? exp(4 - 100.0) + 6 * exp(-100.0) : 7 * exp(-own);
      assert_int_equal(json_integer_value(json_object_get(best, "id")), says);
      assert_float_equal(json_real_value(json_object_get(best, "probability")), 1 / (1 + others), 1e-6);
      assert_float_equal(json_real_value(cell(growth, "norms", row, c)), sqrt(own * own + its * its), 1e-4);
    }
  assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(lens, "stacks"), 0), "guesses")),
                   LAYERS + 1);
  assert_string_equal(json_string_value(json_object_get(lens, "format")), "vkformer-layers/1");
  json_decref(lens);
  json_decref(growth);
}

/* Checks that the last row is the model's own prediction: the largest of its logits, with its probability. */
static void must_end_as(const char *layers, size_t row) {
  json_t *document = line_of(layers, 0), *tables = json_object_get(document, "stacks"),
         *run = json_load_file(getenv("RUN"), 0, NULL);
  const json_t *positions = json_array_get(json_object_get(run, "logits"), 0);
  size_t c, i;
  json_t *logits, *x;
  assert_true(json_array_size(positions) > 1);
  assert_int_equal(json_array_size(json_object_get(json_array_get(tables, 0), "guesses")), row + 1);
  json_array_foreach(positions, c, logits) {
    size_t best = 0;
    double sum = 0;
    json_array_foreach(logits, i, x) if (json_number_value(x) > json_number_value(json_array_get(logits, best))) best =
        i;
    json_array_foreach(logits, i, x) sum += exp(json_number_value(x) - json_number_value(json_array_get(logits, best)));
    const json_t *guess = json_array_get(cell(document, "guesses", row, c), 0);
    assert_int_equal(json_integer_value(json_object_get(guess, "id")), best);
    assert_float_equal(json_real_value(json_object_get(guess, "probability")), 1 / sum, 1e-9);
  }
  json_decref(document);
  json_decref(run);
}

static void test_ends_as_the_model(void **state) {
  (void)state;
  char run[300];
  snprintf(run, sizeof run, "%s/run.json", program_folder);
  setenv("RUN", run, 1);
  must_print("$V run $T/gpt2 --text 'w5 w6 w7' -o $RUN", "");
  must_end_as("$V layers $T/gpt2 'w5 w6 w7' --logit-lens --json", 2);
  must_print("$V run $T/bert --text 'w5 w6 w7' -o $RUN", ""); /* an encoder that fills masks */
  must_end_as("$V layers $T/bert 'w5 w6 w7' --logit-lens --json", 2);
  must_print(
      "printf '{\"input_ids\": [[%s]], \"decoder_input_ids\": [[0,%s]]}' "
      "\"$($V tokenize 'I am here.' | tr ' ' ',')\" "
      "\"$($V translate --json 'I am here.' | sed 's/.*\"ids\":\\[\\([0-9,]*\\),1\\].*/\\1/')\" > $T/in.json && "
      "$V run $M -i $T/in.json -o $RUN",
      "");
  must_end_as("$V layers $M 'I am here.' --logit-lens --json --top 1", 3);
}

static void test_pictures(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V layers $T/known 'w3 w6' --logit-lens --top 1", 0,
       "self, 2 positions\n0 \"w3\"\n  layer 0    0.8864 \"w3\"\n  layer 1    0.8864 \"w3\"\n  layer 2    1.0000 "
       "\"w5\"\n",
       ""},
      {"cp -r $T/known $T/bell && sed -i 's/\"w5\"/\"\\\\u0007w5\"/' $T/bell/tokenizer.json && "
       "$V layers $T/bell w3 --logit-lens --top 1 | tail -n 1",
       0, "  layer 3    1.0000 \"\\x07w5\"\n", ""},
      /* the final norm is applied before the head: 1 / (1 + 7 exp(-4 / sqrt(1.75))) */
      {"cp -r $T/known $T/normed && sed -i 's/\"final_norm\": false/\"final_norm\": true/' $T/normed/config.json && "
       "$V layers $T/normed w3 --logit-lens --top 1 | sed -n 3p",
       0, "  layer 0    0.7461 \"w3\"\n", ""},
      {"$V layers $M 'I am here.' --growth | grep positions", 0, "encoder, 5 positions\ndecoder, 4 positions\n", ""},
      {"$V layers $T/gpt2 'w5 <eos>' --logit-lens -o $T/l.svg && $V layers $M 'I am here.' --growth -o $T/g.svg && "
       "grep -c 'data-row=\"2\"' $T/l.svg; grep -c '^<text.*&lt;eos&gt;</text>' $T/l.svg; "
       "! command -v xmllint >/dev/null || xmllint --noout $T/l.svg $T/g.svg",
       0, "2\n1\n", ""},
      {"$V layers $T/gpt2 'w5 <eos>' --logit-lens -o $T/l.html && ! grep -q 'src=\\|href=' $T/l.html", 0, "", ""},
      {"$V layers $T/gpt2 w5", 2, "", "expected --logit-lens or --growth, found neither"},
      {"$V layers $T/gpt2 w5 --growth --logit-lens", 2, "", "found both"},
      {"$V layers $T/gpt2 w5 --growth --top 2", 2, "", "--top: expected --logit-lens, found --growth"},
      {"$V layers $T/gpt2 w5 --growth -o $T/x.png", 2, "", "--output: expected a name that ends in .html or .svg"},
      {"$V layers $T/gpt2 w5 --logit-lens --top 101", 2, "", "--top: expected at most 100, found 101"},
      {"$V layers $T/labels w5 --logit-lens", 4, "",
       "expected a head that reads every position, to apply it after each layer, found one that reads a single one"},
      {"$V layers $T/words w5 --logit-lens", 4, "", "found one with a head for labels or answers"},
      {"cp -r $G/families/bert-question-answering $T/answers && chmod -R u+w $T/answers && "
       "cp $T/bert/tokenizer.json $T/answers && $V layers $T/answers w5 --logit-lens",
       4, "", "found one with a head for labels or answers"},
      {"test -e $T/x.png", 1, "", ""},
  };
  PROGRAM_ROWS(rows);
}

/* The tree of a beam search: the candidates of each step, and the path of the translation through them. */
static void test_beam_tree(void **state) {
  (void)state;
  static const program_row rows[] = {
      /* a step has two candidates for each beam; the translation is four tokens with three edges between them */
      {"$V translate 'I am here.' --num-beams 3 --beam-tree $T/b.svg && grep -c 'data-column=\"2\"' $T/b.svg && "
       "grep -c 'class=\"cell best\"' $T/b.svg && grep -c 'class=\"edge best\"' $T/b.svg && "
       "! command -v xmllint >/dev/null || xmllint --noout $T/b.svg",
       0, "Estoy aqu\xc3\xad.\n6\n4\n3\n", ""},
      {"grep 'class=\"cell best\" .*data-column=\"3\"' $T/b.svg | sed 's/.*<title>//; s/ -[0-9.]*//g; "
       "s/<.title.*//'",
       0, "\"Estoy aqu\xc3\xad.&lt;/s&gt;\", step 4: log-probability, in all: finished; in the translation\n", ""},
      /* the path of this one leaves the best beam */
      {"$V translate \"The animal didn't cross the street because it was too tired.\" --beam-tree $T/b.svg > $T/o && "
       "grep -c 'class=\"cell best\"' $T/b.svg && grep -c 'class=\"cell best\" data-row=\"1\"' $T/b.svg",
       0, "13\n1\n", ""},
      {"$V translate 'I am here.' --num-beams 4 --num-beam-groups 2 --diversity-penalty 0.5 --beam-tree $T/b.html && "
       "grep -o 'cell best' $T/b.html | wc -l",
       0, "Estoy aqu\xc3\xad.\n4\n", ""},
      /* the beginning that is given has no step */
      {"$V translate \"$(printf 'I love you.\\tTe')\" --force-decode --beam-tree $T/b.svg && "
       "grep 'class=\"cell best\"' $T/b.svg | sed 's/.*<title>\"//; s/\".*//'",
       0, "Te amo.\namo\namo.\namo.&lt;/s&gt;\n", ""},
      {"$V translate 'I am here.' --num-beams 1 --beam-tree $T/x.svg", 4, "Estoy", "found one without beams"},
      {"$V translate a b --beam-tree $T/x.svg", 2, "", "--beam-tree: expected one text, found 2"},
      {"$V translate a --long split --beam-tree $T/x.svg", 2, "", "--beam-tree: expected no --long split"},
      {"$V translate a --beam-tree $T/x.png", 2, "", "--beam-tree: expected a name that ends in .html or .svg"},
      {"test -e $T/x.svg || test -e $T/x.png", 1, "", ""},
  };
  PROGRAM_ROWS(rows);
}

/* Which keys a query sees; each weight is 1 over their number. */
static void test_masks(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V masks --length 6 --pads 1 --window 2 -o $T/m.svg && grep -o '<title>.*</title>' $T/m.svg | sed "
       "'s/<.\\?title>//g' > $T/t; "
       "for m in causal padding sliding cross; do grep -c \"^$m.* sees\" $T/t; done; "
       "! command -v xmllint >/dev/null || xmllint --noout $T/m.svg",
       0, "21\n30\n11\n25\n", ""},
      {"grep '^sliding window: query 4' $T/t", 0,
       "sliding window: query 4 does not see key 0\nsliding window: query 4 does not see key 1\n"
       "sliding window: query 4 does not see key 2\nsliding window: query 4 sees key 3; of equal scores its weight is "
       "1/2\n"
       "sliding window: query 4 sees key 4; of equal scores its weight is 1/2\n"
       "sliding window: query 4 does not see key 5\n",
       ""},
      {"grep -c '^causal: query 3 sees .* 1/4' $T/t; grep -c '^padding: query 3 does not see key 5' $T/t; "
       "$V masks -o $T/m.html",
       0, "4\n1\n", ""},
      {"$V masks", 2, "", "--output: expected a name that ends in .html or .svg, found none"},
      {"$V masks --length 3 -o $T/x.svg", 2, "", "--length: expected 4 to 64, found 3"},
      {"$V masks --length 4 --pads 4 -o $T/x.svg", 2, "", "--pads: expected fewer than the 4 keys, found 4"},
      {"test -e $T/x.svg", 1, "", ""},
      {"printf '{\"q\": [[[[0]]]], \"k\": [[[[0]]]]}' > $T/op.json && "
       "$V op attention_weights -i $T/op.json --trace -p '{\"window\": 1}'",
       4, "", "window: expected causal attention, found one that sees all keys"},
  };
  PROGRAM_ROWS(rows);
}

PROGRAM_MAIN(prepare, cmocka_unit_test(test_known), cmocka_unit_test(test_ends_as_the_model),
             cmocka_unit_test(test_pictures), cmocka_unit_test(test_beam_tree), cmocka_unit_test(test_masks))
