/* The pages and pictures of `attention` and `translate --attention` have the attention weights and scores of a forward
 * pass. Models: support/word_models.h, and the shipped one ($M). VKF_DEVICE names the driver under test.
 */
#include <math.h>

#include "image/image.h"
#include "support/word_models.h"

/* Reads the data of the page $T/NAME; the caller calls json_decref(). */
static json_t *page_data(const char *name) {
  static char page[1 << 22];
  static const char place[] = "id=\"data\">";
  program_read(name, page, sizeof page);
  assert_null(strstr(page, "src="));
  assert_null(strstr(page, "href="));
  const char *at = strstr(page, place);
  assert_non_null(at);
  json_t *data = json_loads(at + sizeof place - 1, JSON_DISABLE_EOF_CHECK, NULL);
  assert_non_null(data);
  return data;
}

static json_int_t number_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  assert_true(json_is_integer(value));
  return json_integer_value(value);
}

/* Returns the part of this kind of the first text. */
static json_t *part_of(const json_t *data, const char *kind) {
  size_t i;
  json_t *part;
  json_array_foreach(json_object_get(json_array_get(data, 0), "parts"), i, part) {
    if (strcmp(json_string_value(json_object_get(part, "kind")), kind) == 0) return part;
  }
  fail_msg("the page has no part %s", kind);
  return NULL;
}

/* Reads the weights of a head, in ten-thousandths, [n_rows][n_columns], and checks that each row adds up to 1. Returns
 * how many there are. */
static size_t read_weights(const json_t *part, size_t layer, size_t head, double *out, size_t most) {
  const json_t *layers = json_array_get(json_object_get(part, "layers"), layer),
               *of = json_array_get(json_object_get(layers, "heads"), head);
  const size_t n_rows = (size_t)number_of(part, "n_rows"), n_columns = (size_t)number_of(part, "n_columns");
  const char *text = json_string_value(json_object_get(of, "weights"));
  char *end = NULL;
  assert_non_null(text);
  assert_true(n_rows * n_columns <= most);
  for (size_t r = 0; r < n_rows; r++) {
    double sum = 0;
    for (size_t c = 0; c < n_columns; c++, text = end) {
      out[r * n_columns + c] = strtod(text, &end);
      assert_ptr_not_equal(end, text);
      sum += out[r * n_columns + c];
    }
    if (fabs(sum - 10000) > 0.5 * (double)n_columns + 0.01) fail_msg("row %zu adds up to %g", r, sum);
  }
  assert_int_equal(*end, 0);
  return n_rows * n_columns;
}

/* Checks that each weight of the page is that of `array` [1][heads][rows][columns] in $T/run.json, rounded. */
static void must_be_of_run(const char *kind, const char *array) {
  static double weights[4096];
  char name[64];
  json_t *data = page_data("page.html"), *part = part_of(data, kind), *run = json_load_file(getenv("RUN"), 0, NULL);
  assert_non_null(run);
  const size_t n_layers = json_array_size(json_object_get(part, "layers")),
               n_columns = (size_t)number_of(part, "n_columns");
  assert_true(n_layers >= 2);
  for (size_t layer = 0; layer < n_layers; layer++) {
    snprintf(name, sizeof name, "%s.%zu", array, layer);
    const json_t *heads = json_array_get(json_object_get(run, name), 0);
    assert_true(json_array_size(heads) >= 2);
    for (size_t head = 0; head < json_array_size(heads); head++) {
      const size_t n = read_weights(part, layer, head, weights, 4096);
      for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(json_array_get(heads, head), i / n_columns);
        const double expected = 10000 * json_real_value(json_array_get(row, i % n_columns));
        if (fabs(weights[i] - expected) > 0.501)
          fail_msg("%s, head %zu, element %zu: expected %g, found %g", name, head, i, expected, weights[i]);
      }
    }
  }
  json_decref(run);
  json_decref(data);
}

static double number_at(const json_t *rows, size_t row, size_t column) {
  return json_number_value(json_array_get(json_array_get(rows, row), column));
}

typedef struct head_scores {
  double scores[64 * 64], errors[64 * 64]; /* inputs of the softmax, and the error that a device's sum may have */
  size_t n_rows, n_columns, width;
  double scale;
  bool causal;
  size_t window; /* 0: none */
} head_scores;

/* Checks that the number at `page`, in hundredths, is this one, rounded. Returns the text after it. */
static const char *must_round(const char *page, double expected, size_t head, size_t i) {
  char *end = NULL;
  const double found = strtod(page, &end);
  if (end == page || fabs(found - 100 * expected) > 0.501)
    fail_msg("head %zu, number %zu: expected %g, found %g", head, i, 100 * expected, found);
  return end;
}

/* Computes the scores of a head from the queries, keys and biases (NULL: none) of a pass, and checks that the page has
 * them, rounded. The head's keys begin at column `first`. */
static void products(const json_t *queries, const json_t *keys, const json_t *bias, size_t first, size_t head,
                     const json_t *page, head_scores *out) {
  const size_t d = out->width;
  const char *scores = json_string_value(json_object_get(page, "scores")),
             *biases = json_string_value(json_object_get(page, "bias"));
  assert_non_null(scores);
  assert_int_equal(bias != NULL, biases != NULL);
  assert_true(out->n_rows * out->n_columns <= 64 * 64);
  for (size_t i = 0; i < out->n_rows * out->n_columns; i++) {
    const size_t r = i / out->n_columns, c = i % out->n_columns;
    const double added = bias ? number_at(json_array_get(bias, head), r, c) : 0;
    double sum = 0, sum_of_sizes = 0;
    for (size_t k = 0; k < d; k++) {
      const double x = number_at(queries, r, head * d + k) * number_at(keys, c, first + k);
      sum += x;
      sum_of_sizes += fabs(x);
    }
    scores = must_round(scores, sum, head, i);
    if (bias) biases = must_round(biases, added, head, i);
    out->scores[i] = out->scale * sum + added;
    out->errors[i] = 0x1p-24 * ((double)(d + 3) * out->scale * sum_of_sizes + fabs(added));
  }
  assert_int_equal(*scores, 0);
}

/* Checks that the softmax of the scores that the mask leaves gives the device's weights. Two scores are off by at most
 * `error` each, and exp in numerator and denominator by 3 + 2|x| units in the last place (the rule of Vulkan). */
static void must_be_softmax(const head_scores *s, const json_t *weights) {
  for (size_t r = 0; r < s->n_rows; r++) {
    const double *x = s->scores + r * s->n_columns;
    const size_t n = s->causal ? r + 1 : s->n_columns, first = s->window && n > s->window ? n - s->window : 0;
    double most = x[first], least = x[first], error = 0, sum = 0;
    for (size_t c = first; c < n; c++) {
      most = fmax(most, x[c]);
      least = fmin(least, x[c]);
      error = fmax(error, s->errors[r * s->n_columns + c]);
    }
    for (size_t c = first; c < n; c++) sum += exp(x[c] - most);
    const double off = 4 * error + 2 * (3 + 2 * (most - least) + (double)n) * 0x1p-23;
    for (size_t c = 0; c < s->n_columns; c++) {
      const double expected = c >= first && c < n ? exp(x[c] - most) / sum : 0, found = number_at(weights, r, c);
      if (!(fabs(found - expected) <= expected * expm1(off)))
        fail_msg("row %zu, column %zu: expected %.9g, found %.9g", r, c, expected, found);
    }
  }
}

/* Returns the array NAME.LAYER in $T/run.json, of its one sentence; NULL: there is none. */
static const json_t *array_of(const json_t *run, const char *name, size_t layer) {
  char full[64];
  snprintf(full, sizeof full, "%s.%zu", name, layer);
  return json_array_get(json_object_get(run, full), 0);
}

/* Checks that the scores of the page are products of the queries and keys in $T/run.json, and that with the page's
 * scale, bias and mask they give its weights. Returns how many rows have keys that the window cuts off. */
static size_t must_explain(const char *kind, const char *weights, const char *queries, const char *keys,
                           const char *bias) {
  static head_scores s;
  json_t *data = page_data("page.html"), *part = part_of(data, kind), *run = json_load_file(getenv("RUN"), 0, NULL);
  const bool is_joined = strcmp(queries, keys) == 0;
  size_t n_cut = 0;
  assert_non_null(run);
  s.n_rows = (size_t)number_of(part, "n_rows");
  s.n_columns = (size_t)number_of(part, "n_columns");
  s.width = (size_t)number_of(part, "head_width");
  s.scale = json_real_value(json_object_get(part, "scale"));
  s.causal = json_is_true(json_object_get(part, "causal"));
  for (size_t layer = 0; layer < json_array_size(json_object_get(part, "layers")); layer++) {
    const json_t *of = json_array_get(json_object_get(part, "layers"), layer), *heads = json_object_get(of, "heads"),
                 *q = array_of(run, queries, layer), *k = array_of(run, keys, layer),
                 *w = array_of(run, weights, layer), *all = bias ? json_object_get(run, bias) : NULL,
                 *b = all    ? json_array_get(all, 0)
                      : bias ? array_of(run, bias, layer)
                             : NULL;
    assert_true(q && k && w && (b || !bias));
    const size_t first = is_joined ? json_array_size(heads) * s.width : 0,
                 n_kv_heads = (json_array_size(json_array_get(k, 0)) - first) / (2 * s.width);
    s.window = (size_t)number_of(of, "window");
    if (s.window && s.n_rows > s.window) n_cut += s.n_rows - s.window;
    for (size_t head = 0; head < json_array_size(heads); head++) {
      const size_t group = json_array_size(heads) / n_kv_heads;
      products(q, k, b, first + head / group * s.width, head, json_array_get(heads, head), &s);
      must_be_softmax(&s, json_array_get(w, head));
    }
  }
  json_decref(run);
  json_decref(data);
  return n_cut;
}

static int prepare(void **state) {
  static char run[300];
  setenv("M", VKF_SOURCE_DIR "/models/en-es", 1);
  if (word_models(state) != 0) return -1;
  snprintf(run, sizeof run, "%s/run.json", program_folder);
  return setenv("RUN", run, 1);
}

/* Models with one stack: an encoder, which sees all tokens, and a decoder, which sees none that come later. */
static void test_one_stack(void **state) {
  (void)state;
  must_print(
      "$V run $T/bert --text 'w5 w6 w7' --output-attentions --output-projections -o $RUN && "
      "$V attention $T/bert 'w5 w6 w7' --scores -o $T/page.html",
      "");
  must_be_of_run("self", "attentions");
  must_explain("self", "attentions", "projections", "projections", NULL);
  json_t *data = page_data("page.html"), *first = json_array_get(data, 0);
  char *labels = json_dumps(json_object_get(first, "source"), JSON_COMPACT),
       *special = json_dumps(json_object_get(first, "special_source"), JSON_COMPACT);
  assert_string_equal(labels, "[\"[CLS]\",\"w5\",\"w6\",\"w7\",\"[SEP]\"]");
  assert_string_equal(special, "[0,4]");
  assert_true(json_is_null(json_object_get(first, "translation")));
  assert_true(json_is_false(json_object_get(part_of(data, "self"), "causal")));
  free(labels);
  free(special);
  json_decref(data);

  must_print(
      "$V run $T/gpt2 --text 'w5 w6 w7 w8' --output-attentions --output-projections -o $RUN && "
      "$V attention $T/gpt2 'w5 w6 w7 w8' --scores -o $T/page.html",
      "");
  must_be_of_run("self", "attentions");
  must_explain("self", "attentions", "projections", "projections", NULL);
  data = page_data("page.html");
  assert_true(json_is_true(json_object_get(part_of(data, "self"), "causal")));
  json_decref(data);
}

/* An encoder-decoder translates first; its weights are those of a pass over the translation. */
static void test_translation(void **state) {
  (void)state;
  must_print(
      "$V translate --num-beams 1 --json 'I am here.' | "
      "sed 's/.*\"ids\":\\[\\([0-9,]*\\),1\\].*/\\1/' > $T/target && "
      "printf '{\"input_ids\": [[%s]], \"decoder_input_ids\": [[0,%s]]}' "
      "\"$($V tokenize 'I am here.' | tr ' ' ',')\" \"$(cat $T/target)\" > $T/in.json && "
      "$V run $M -i $T/in.json --kv-cache f32 --output-attentions --output-projections -o $RUN && "
      "$V attention $M --kv-cache f32 --num-beams 1 'I am here.' --scores -o $T/page.html",
      "");
  must_be_of_run("encoder", "encoder_attentions");
  must_be_of_run("decoder", "decoder_attentions");
  must_be_of_run("cross", "cross_attentions");
  must_explain("encoder", "encoder_attentions", "encoder_projections", "encoder_projections", NULL);
  must_explain("decoder", "decoder_attentions", "decoder_projections", "decoder_projections", NULL);
  must_explain("cross", "cross_attentions", "cross_queries", "cross_keys_values", NULL);
  json_t *data = page_data("page.html"), *first = json_array_get(data, 0);
  char *next = json_dumps(json_object_get(first, "next"), JSON_COMPACT);
  assert_string_equal(json_string_value(json_object_get(first, "translation")), "Estoy aqu\xc3\xad.");
  assert_string_equal(next, "[\"Estoy\",\"aqu\xc3\xad\",\".\",\"</s>\"]");
  assert_true(json_is_true(json_object_get(part_of(data, "decoder"), "causal")));
  assert_int_equal(number_of(part_of(data, "decoder"), "head_width"), 64);
  free(next);
  json_decref(data);
}

/* Models whose scores have special rules: query heads that share a key head, heads with norms and rotary positions, a
 * window, a scale that is no root, layers that share their weights, a bias by distance that is added to scaled scores.
 */
static void test_rules(void **state) {
  (void)state;
  static const char *const names[] = {"llama", "mistral-sliding", "qwen3", "gpt-neox", "albert", "mpnet"};
  static const char *const unknown[] = {"0 <unk>"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const bool has_bias = strcmp(names[i], "mpnet") == 0;
    setenv("N", names[i], 1);
    setenv("F", has_bias ? "families/mpnet" : names[i], 1);
    must_print("cp -r $G/$F $T && chmod -R u+w $T/$N", "");
    write_tokenizer(names[i], has_bias ? 90 : 120, unknown, 1, NULL, NULL);
    must_print(
        "text='w5 w6 w7 w8 w9 w5 w10 w11 w12 w13'; "
        "$V run $T/$N --text \"$text\" --output-attentions --output-projections -o $RUN && "
        "$V attention $T/$N \"$text\" --scores -o $T/page.html",
        "");
    const size_t n_cut =
        must_explain("self", "attentions", "projections", "projections", has_bias ? "position_bias" : NULL);
    assert_int_equal(n_cut > 0, strcmp(names[i], "mistral-sliding") == 0);
  }
}

/* T5: scores without a scale, and a bias by distance, which the page shows separately. */
static void test_bias(void **state) {
  (void)state;
  static const char *const names[] = {"t5", "t5-v1.1-gated", "umt5"}, *const ends[] = {"0 <pad>", "1 </s>"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    setenv("N", names[i], 1);
    setenv("F", strcmp(names[i], "umt5") ? names[i] : "families/umt5", 1);
    must_print("cp -r $G/$F $T && chmod -R u+w $T/$N", "");
    write_tokenizer(names[i], strcmp(names[i], "umt5") ? 140 : 90, ends, 2, NULL, NULL);
    must_print(
        "text='w5 w6 w7 w8 w9 w5'; how='--num-beams 1 --max-new-tokens 6 --min-new-tokens 6'; "
        "$V translate -m $T/$N $how --json \"$text\" | sed 's/.*\"ids\":\\[\\([0-9,]*\\),[0-9]*\\].*/\\1/' > $T/target "
        "&& "
        "printf '{\"input_ids\": [[%s]], \"decoder_input_ids\": [[0,%s]]}' "
        "\"$($V tokenize -m $T/$N \"$text\" | tr ' ' ',')\" \"$(cat $T/target)\" > $T/in.json && "
        "$V run $T/$N -i $T/in.json --output-attentions --output-projections -o $RUN && "
        "$V translate -m $T/$N $how \"$text\" --attention $T/page.html --scores > $T/text",
        "");
    must_be_of_run("decoder", "decoder_attentions");
    must_explain("encoder", "encoder_attentions", "encoder_projections", "encoder_projections",
                 "encoder_position_bias");
    must_explain("decoder", "decoder_attentions", "decoder_projections", "decoder_projections",
                 "decoder_position_bias");
    must_explain("cross", "cross_attentions", "cross_queries", "cross_keys_values", NULL);
    json_t *data = page_data("page.html");
    assert_true(json_real_value(json_object_get(part_of(data, "encoder"), "scale")) == 1);
    assert_true(json_is_true(json_object_get(part_of(data, "decoder"), "has_bias")));
    assert_true(json_is_false(json_object_get(part_of(data, "cross"), "has_bias")));
    json_decref(data);
  }
}

/* The page of several texts has those that were translated, by any worker; the output is the same as without a page. */
static void test_lines(void **state) {
  (void)state;
  must_print(
      "printf 'I am here.\\n\\nWe like it.\\n' > $T/lines; $V translate < $T/lines > $T/plain && "
      "$V translate -b 1 --workers 2 --attention $T/page.html < $T/lines | cmp - $T/plain",
      "");
  json_t *data = page_data("page.html");
  assert_int_equal(json_array_size(data), 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(data, 1), "text")), "We like it.");
  json_decref(data);
  program_must("for i in 1 2 3 4 5 6 7 8 9; do cat $T/lines; done | $V translate --attention $T/page.html > $T/o", 0,
               "", "the page has the first 16 texts that were not split; 2 are left out");
  program_must("$V translate '' --attention $T/page.html", 0, "\n", "");
  /* more edits of logits, in all rows of a batch together, than a loop of lavapipe has turns */
  program_must("$V translate --suppress-tokens $(seq -s, 2 1100) 'We like it.'", 0, "Eso nos agrada\n", "");
  program_must("$V translate 'I am here.' --n-best 2 --attention $T/page.html", 0, "0 ||| Estoy aqu\xc3\xad. |||", "");
  data = page_data("page.html");
  assert_int_equal(json_array_size(data), 1);
  json_decref(data);
}

/* If there are more tokens than a page has room for, neighbours are merged, and rows still add up to 1. */
static void test_sampled(void **state) {
  (void)state;
  static double weights[512 * 512];
  must_print(
      "sed 's/\"n_positions\": [0-9]*/\"n_positions\": 700/; s/\"n_layer\": [0-9]*/\"n_layer\": 1/' "
      "$G/gpt2/config.json > $T/config.json && $V init $T/config.json -o $T/big && "
      "cp $T/gpt2/tokenizer.json $T/big && "
      "$V attention $T/big \"$(yes w5 w6 w7 | head -n 200 | tr '\\n' ' ')\" -o $T/page.html",
      "");
  json_t *data = page_data("page.html");
  assert_int_equal(json_array_size(json_object_get(json_array_get(data, 0), "source")), 600);
  assert_int_equal(read_weights(part_of(data, "self"), 0, 0, weights, 512 * 512), 512 * 512);
  const json_t *layer = json_array_get(json_object_get(part_of(data, "self"), "layers"), 0);
  assert_null(json_object_get(json_array_get(json_object_get(layer, "heads"), 0), "scores")); /* not asked for */
  json_decref(data);
  program_must("$V attention $T/big \"$(yes w5 w6 w7 | head -n 200 | tr '\\n' ' ')\" --scores -o $T/n.html", 4, "",
               "--scores: expected at most 512 tokens of 4 heads, found 600: choose fewer with --layer and --head");
}

static void test_image(void **state) {
  (void)state;
  must_print("printf '{\"size\": 32}' > $T/vit/preprocessor_config.json", "");
  if (program_run("$V run $T/vit --image $I/rgb.png --output-attentions --output-projections -o $RUN") != 0 &&
      strstr(program_err, "built without"))
    skip();
  must_print("$V attention $T/vit --image $I/rgb.png --scores -o $T/page.html", "");
  must_be_of_run("self", "attentions");
  must_explain("self", "attentions", "projections", "projections", NULL);
  json_t *data = page_data("page.html");
  const json_t *first = json_array_get(data, 0), *image = json_object_get(first, "image");
  assert_int_equal(number_of(image, "patch_rows"), 4);
  assert_int_equal(number_of(image, "patch_columns"), 4);
  assert_string_equal(json_string_value(json_array_get(json_object_get(first, "source"), 0)), "[CLS]");
  assert_string_equal(json_string_value(json_array_get(json_object_get(first, "source"), 16)), "3,3");
  json_decref(data);
}

/* Reads the PNG file $T/NAME; the caller calls vkf_image_finish(). */
static vkf_image read_png(vkf_env *env, const char *name) {
  static uint8_t bytes[1 << 20];
  char path[300];
  vkf_image image;
  snprintf(path, sizeof path, "%s/%s", program_folder, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t n = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  vkf_env_init(env, NULL);
  assert_int_equal(vkf_image_decode(env, name, bytes, n, &image), VKF_OK);
  return image;
}

/* The pixel in the middle of each cell is a sinusoid of `positions` or a weight of a forward pass; black is 1. */
static void test_png(void **state) {
  (void)state;
  vkf_env env;
  if (program_run("$V positions --d-model 4 --length 3 -o $T/p.png") != 0 && strstr(program_err, "built without"))
    skip();
  vkf_image image = read_png(&env, "p.png");
  const size_t cell = image.width / 4;
  assert_int_equal(image.width, 768);
  assert_int_equal(image.height, 576);
  for (size_t row = 0; row < 3; row++)
    for (size_t k = 0; k < 4; k++) {
      const double angle = (double)row / (k < 2 ? 1 : 100), x = k % 2 ? cos(angle) : sin(angle);
      const int pixel = image.pixels[3 * ((row * cell + cell / 2) * image.width + k * cell + cell / 2)];
      if (fabs(pixel - 255 * (0.5 - 0.5 * x)) > 0.51) fail_msg("position %zu, %zu: found %d", row, k, pixel);
    }
  vkf_image_finish(&image);

  must_print(
      "$V run $T/gpt2 --text 'w5 w6 w7' --output-attentions -o $RUN && "
      "$V attention $T/gpt2 'w5 w6 w7' --layer 1 --head 1,3 -o $T/a.png",
      "");
  json_t *run = json_load_file(getenv("RUN"), 0, NULL);
  const json_t *heads = json_array_get(json_object_get(run, "attentions.1"), 0);
  image = read_png(&env, "a.png");
  for (size_t h = 0; h < 2; h++)
    for (size_t i = 0; i < 9; i++) {
      const json_t *row = json_array_get(json_array_get(heads, 1 + 2 * h), i / 3);
      const double weight = json_real_value(json_array_get(row, i % 3));
      const int pixel = image.pixels[3 * ((i / 3 * 37 + 18) * image.width + h * 120 + i % 3 * 37 + 18)];
      if (fabs(pixel - 255 * (1 - weight)) > 0.51) fail_msg("head %zu, element %zu: found %d", 1 + 2 * h, i, pixel);
    }
  vkf_image_finish(&image);
  json_decref(run);
}

static void test_positions(void **state) {
  (void)state;
  static const program_row rows[] = {
      /* (1 + cos 1) / 2 in the second column of the second row; cells near 0 have no rectangle (below) */
      {"$V positions --d-model 8 --length 6 -o $T/p.svg; grep -c 'fill-opacity=\"0.770\"' $T/p.svg", 0, "1\n", ""},
      /* position 0 is all sin 0 and cos 0; sin 11 is nearly -1 */
      {"sed -n '/^<rect .*y=\"52\"/s/.*opacity=\"\\(.*\\)\".*/\\1/p' $T/p.svg | tr '\\n' ' '", 0,
       "0.500 1.000 0.500 1.000 0.500 1.000 0.500 1.000 ", ""},
      {"$V positions --d-model 2 --length 12 -o $T/p.svg; grep -c fill-opacity $T/p.svg", 0, "23\n", ""},
      {"$V positions -o $T/p.svg; ! command -v xmllint >/dev/null || xmllint --noout $T/p.svg", 0, "", ""},
      {"$V positions", 2, "", "--output: expected a name that ends in .svg or .png, found none"},
      {"$V positions -o $T/x.gif", 2, "", "ends in .svg or .png"},
      {"$V positions --d-model 7 -o $T/x.svg", 2, "", "--d-model: expected an even number, found 7"},
      {"$V positions --length 1025 -o $T/x.svg", 2, "", "expected at most 65536 cells"},
      {"$V positions -o $T/nosuch/x.svg", 4, "", "nosuch/x.svg"},
      {"test -e $T/x.svg || test -e $T/x.gif", 1, "", ""},
  };
  PROGRAM_ROWS(rows);
}

/* Which heads look from "it" at "animal", as README shows; and what is refused. */
static void test_pairs_and_pictures(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"$V attention $M --kv-cache f32 \"The animal didn't cross the street because it was too tired.\" --from it --to "
       "animal | "
       "sed -n '1p;13p'",
       0, "encoder  layer 1   head 2   0.3059  no token gets more\n\"it\" looks most at \"animal\" in 1 of 12 heads\n",
       ""},
      {"$V attention $T/gpt2 'w5 w6 w7' --from 2 --to w5 | tail -n 1", 0, "\"2\" looks most at \"w5\" in ", ""},
      {"$V attention $M 'I am here.' --kind encoder --layer 1 --head 2 --from am -o $T/one.svg && "
       "$V attention $T/gpt2 'w5 w6 <eos>' -o $T/all.svg && grep -c 'class=\"pick\"' $T/one.svg; "
       "! command -v xmllint >/dev/null || xmllint --noout $T/one.svg $T/all.svg",
       0, "1\n", ""},
      {"$V attention $T/gpt2 'w5 <eos>' --layer 0 --head 0 -o - > $T/o.html", 2, "",
       "ends in .html, .svg or .png, found '-'"},
      {"$V attention $T/gpt2 'w5 <eos>' --layer 0 --head 0 -o $T/one.svg; grep -c '&lt;eos&gt;' $T/one.svg", 0, "2\n",
       ""},
      {"$V attention $T/gpt2 w5", 2, "", "expected -o FILE, or --from WORD and --to WORD"},
      {"$V attention $T/gpt2 -o $T/n.html", 2, "", "expected one text after the model, or one --image, found 0"},
      {"$V attention $T/gpt2 w5 --scores -o $T/n.svg", 2, "", "--scores: expected -o FILE.html as well"},
      {"$V translate w5 --scores", 2, "", "--scores: expected --attention FILE as well, found none"},
      {"$V attention $T/gpt2 w5 --to w5", 2, "", "--to: expected --from WORD as well"},
      {"$V attention $T/gpt2 w5 --layer -1 -o $T/n.html", 2, "", "--layer: expected whole numbers of at least 0"},
      {"$V attention $T/gpt2 w5 --layer 0,9 -o $T/n.html", 4, "", "--layer: expected 0 to 1, found 9"},
      {"$V attention $T/gpt2 w5 --head 9 -o $T/n.svg", 4, "", "--head: expected 0 to 3, found 9"},
      {"$V attention $T/gpt2 w5 --kind nosuch -o $T/n.html", 2, "", "--kind: expected self, encoder, decoder or cross"},
      {"$V attention $T/gpt2 w5 --kind cross -o $T/n.html", 4, "", "--kind: expected one of self, found cross"},
      {"$V attention $T/gpt2 w5 --from w9 -o $T/n.html", 4, "", "--from: expected a word of the text, found \"w9\""},
      {"$V attention $T/gpt2 w5 --from w5 --to w9", 4, "", "expected two words that are in the same map"},
      {"test -e $T/n.html || test -e $T/n.svg", 1, "", ""},
  };
  PROGRAM_ROWS(rows);
}

PROGRAM_MAIN(prepare, cmocka_unit_test(test_one_stack), cmocka_unit_test(test_translation),
             cmocka_unit_test(test_rules), cmocka_unit_test(test_bias), cmocka_unit_test(test_lines),
             cmocka_unit_test(test_sampled), cmocka_unit_test(test_image), cmocka_unit_test(test_png),
             cmocka_unit_test(test_positions), cmocka_unit_test(test_pairs_and_pictures))
