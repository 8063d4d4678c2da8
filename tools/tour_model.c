/* tour_model: the steps of a topic that run a whole model, the one that comes with vkformer.
 *
 *   {"model": "tokenize", "text": ...}     ids and pieces; back together they are the text
 *   {"model": "translate", "text": ..., "config": {...}, "expect_text": ...}
 *   {"model": "sample", "text": ..., "config": {...}, "seeds": [...], "expect": [...]}   one translation a seed; the
 *                                          same seed gives the same again
 *   {"model": "forced", "text": ...}       one masked pass over a translation predicts each of its tokens, as the steps
 *                                          with a cache did
 *   {"model": "attention", "text": ..., "layer": N, "head": N}   a heat map; every row sums to one
 *   {"model": "parameters", "expect": N}
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tour.h"

static int open_model(tour *t) {
  if (t->session.model) return TOOL_OK;
  int exit_code = tool_find_model(t->args, t->model, sizeof t->model);
  return exit_code == TOOL_OK ? tool_session_open_model(&t->session, t->model) : exit_code;
}

static int failed(tour *t, vkf_status status) {
  return status == VKF_OK ? TOOL_OK : tool_session_fail(&t->session, status, t->model);
}

/* Writes the text of one id to `piece`. */
static void piece_of(tour *t, int32_t id, char *piece, size_t size) {
  vkf_result *text = NULL;
  snprintf(piece, size, "<%d>", (int)id);
  if (vkf_tokenizer_decode(vkf_model_tokenizer(t->session.model), &id, 1, NULL, &text) == VKF_OK &&
      vkf_result_text(text, 0)[0])
    snprintf(piece, size, "%s", vkf_result_text(text, 0));
  vkf_result_destroy(&text);
}

/* Skips the space with which a detokenizer of pieces begins. */
static const char *trimmed(const char *text) {
  return text + (text[0] == ' ');
}

static int model_tokenize(tour *t, const json_t *step) {
  const char *text = tour_text(step, "text", "");
  vkf_result *result = NULL, *back = NULL;
  int exit_code = failed(t, vkf_tokenizer_encode(vkf_model_tokenizer(t->session.model), text, NULL, &result));
  const vkf_array *ids = exit_code == TOOL_OK ? vkf_result_find(result, "ids") : NULL;
  if (ids)
    exit_code =
        failed(t, vkf_tokenizer_decode(vkf_model_tokenizer(t->session.model), ids->data, ids->shape[0], NULL, &back));
  if (ids && exit_code == TOOL_OK) {
    tour_say(t, "  \"%s\"", text);
    char line[1024] = "   ";
    for (size_t i = 0, n = 3; i < ids->shape[0] && n < sizeof line; i++) {
      char piece[128];
      piece_of(t, ((const int32_t *)ids->data)[i], piece, sizeof piece);
      n += (size_t)snprintf(line + n, sizeof line - n, " %s=%d", piece, (int)((const int32_t *)ids->data)[i]);
    }
    tour_say(t, "%s", line);
    exit_code = tour_expect(t, step, "ids", ids, NULL);
    tour_check(t, strcmp(trimmed(vkf_result_text(back, 0)), text) == 0, "the ids give the text back");
  }
  vkf_result_destroy(&back);
  vkf_result_destroy(&result);
  return exit_code;
}

static int translate_as(tour *t, const json_t *step, const json_t *config, vkf_result **result) {
  const char *text = tour_text(step, "text", "");
  char *json = config ? json_dumps(config, JSON_COMPACT) : NULL;
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = json};
  int exit_code = failed(t, vkf_session_translate(t->session.run, &text, 1, &params, result));
  free(json);
  return exit_code;
}

static int translate(tour *t, const json_t *step, vkf_result **result) {
  return translate_as(t, step, json_object_get(step, "config"), result);
}

static int model_translate(tour *t, const json_t *step) {
  vkf_result *result = NULL;
  int exit_code = translate(t, step, &result);
  if (exit_code == TOOL_OK) {
    const char *got = trimmed(vkf_result_text(result, 0));
    const vkf_array *score = vkf_result_find(result, "sequences_scores");
    char scored[64] = "";
    if (score) snprintf(scored, sizeof scored, "   (score %.6g)", tool_array_value(score, 0));
    tour_say(t, "  %s", tour_text(step, "text", ""));
    tour_say(t, "  > %s%s", got, scored);
    tour_check(t, strcmp(got, tour_text(step, "expect_text", "")) == 0, "the translation of PyTorch");
  }
  vkf_result_destroy(&result);
  return exit_code;
}

/* Samples with each seed twice. */
static int model_sample(tour *t, const json_t *step) {
  const json_t *seeds = json_object_get(step, "seeds"), *expect = json_object_get(step, "expect");
  int exit_code = TOOL_OK;
  tour_say(t, "  %s", tour_text(step, "text", ""));
  for (size_t i = 0; exit_code == TOOL_OK && i < json_array_size(seeds); i++) {
    json_t *config = json_deep_copy(json_object_get(step, "config"));
    vkf_result *once = NULL, *again = NULL;
    json_object_set(config, "seed", json_array_get(seeds, i));
    exit_code = translate_as(t, step, config, &once);
    if (exit_code == TOOL_OK) exit_code = translate_as(t, step, config, &again);
    if (exit_code == TOOL_OK) {
      const char *got = trimmed(vkf_result_text(once, 0)), *want = json_string_value(json_array_get(expect, i));
      tour_say(t, "  > %s", got);
      tour_check(t, want && strcmp(got, want) == 0 && strcmp(got, trimmed(vkf_result_text(again, 0))) == 0,
                 "the choice of seed %d, twice", (int)json_integer_value(json_array_get(seeds, i)));
    }
    vkf_result_destroy(&again);
    vkf_result_destroy(&once);
    json_decref(config);
  }
  return exit_code;
}

/* Runs a pass over the source and the target without its last token. source, target: owned by the results. */
static int forced_pass(tour *t, const json_t *step, bool attentions, vkf_result **source, vkf_result **target,
                       vkf_result **out) {
  const vkf_run_params params = {VKF_RUN_PARAMS_INIT, .attentions = attentions};
  int exit_code =
      failed(t, vkf_tokenizer_encode(vkf_model_tokenizer(t->session.model), tour_text(step, "text", ""), NULL, source));
  if (exit_code == TOOL_OK) exit_code = translate(t, step, target);
  if (exit_code != TOOL_OK) return exit_code;
  const vkf_array *ids = vkf_result_find(*source, "ids"), *sequence = vkf_result_find(*target, "sequences");
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {1, ids->shape[0]}, ids->data},
                              {"decoder_input_ids", VKF_I32, 2, {1, sequence->shape[1] - 1}, sequence->data}};
  return failed(t, vkf_session_run(t->session.run, inputs, 2, &params, out));
}

static size_t largest(const float *row, size_t n) {
  size_t best = 0;
  for (size_t i = 1; i < n; i++)
    if (row[i] > row[best]) best = i;
  return best;
}

static int model_forced(tour *t, const json_t *step) {
  vkf_result *source = NULL, *target = NULL, *out = NULL;
  int exit_code = forced_pass(t, step, false, &source, &target, &out);
  if (exit_code == TOOL_OK) {
    const vkf_array *sequence = vkf_result_find(target, "sequences"), *logits = vkf_result_find(out, "logits");
    const int32_t *ids = sequence->data;
    size_t V = logits->shape[2], n = logits->shape[1], right = 0;
    for (size_t i = 0; i < n; i++) {
      char piece[128];
      size_t best = largest((const float *)logits->data + i * V, V);
      right += (int32_t)best == ids[i + 1];
      piece_of(t, (int32_t)best, piece, sizeof piece);
      tour_say(t, "    position %2zu: the largest logit is that of %s", i, piece);
    }
    tour_check(t, right == n, "%zu of %zu positions predict the token that the cached steps gave", right, n);
  }
  vkf_result_destroy(&out);
  vkf_result_destroy(&target);
  vkf_result_destroy(&source);
  return exit_code;
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

/* Prints the weights [T][S] of one head, with tokens on both sides. */
static void heat_map(tour *t, const float *weights, const int32_t *rows, size_t T, const int32_t *columns, size_t S) {
  static const char shades[] = " .:-=+*#%@";
  char piece[128];
  for (size_t c = 0; c < S; c++) {
    piece_of(t, columns[c], piece, sizeof piece);
    printf("    column %c: %s\n", (char)('a' + c % 26), piece);
  }
  printf("    %-16s ", "");
  for (size_t c = 0; c < S; c++) printf(" %c ", (char)('a' + c % 26));
  putchar('\n');
  for (size_t r = 0; r < T; r++) {
    const float *row = weights + r * S;
    piece_of(t, rows[r], piece, sizeof piece);
    printf("    %-16.16s |", piece);
    for (size_t c = 0; c < S; c++) {
      char shade = shades[(int)fmin(9, fmax(0, 10.0 * (double)row[c]))];
      printf("%c%c%c", shade, shade, shade);
    }
    printf("|  %c %.0f %%\n", (char)('a' + largest(row, S) % 26), 100.0 * (double)row[largest(row, S)]);
  }
}

static json_t *labels_of(tour *t, const int32_t *ids, size_t n) {
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) {
    char piece[128];
    piece_of(t, ids[i], piece, sizeof piece);
    json_array_append_new(list, tool_json_text(piece, strlen(piece)));
  }
  return list;
}

static json_t *map_labels(tour *t, const int32_t *rows, size_t T, const int32_t *columns, size_t S) {
  return json_pack("{s:o, s:o}", "rows", labels_of(t, rows, T), "columns", labels_of(t, columns, S));
}

/* Returns how far the sum of a computed row of n weights may be from one (docs/numerics.md, rows of weights). */
static double row_sum_bound(double n) {
  return 2 * (6 + 5 * log(n) + 7 * n + (n + 1) + 6) * 0x1p-24 * (1 + 1e-3);
}

static int model_attention(tour *t, const json_t *step) {
  vkf_result *source = NULL, *target = NULL, *out = NULL;
  char name[64];
  size_t head = (size_t)json_integer_value(json_object_get(step, "head"));
  snprintf(name, sizeof name, "%s.%d", tour_text(step, "of", "cross_attentions"),
           (int)json_integer_value(json_object_get(step, "layer")));
  int exit_code = forced_pass(t, step, true, &source, &target, &out);
  const vkf_array *a = exit_code == TOOL_OK ? vkf_result_find(out, name) : NULL;
  if (exit_code == TOOL_OK && (!a || a->rank != 4 || head >= a->shape[1]))
    exit_code = tool_error("the model has no head %zu of %s", head, name);
  if (exit_code == TOOL_OK) {
    size_t T = a->shape[2], S = a->shape[3];
    float *weights = (float *)a->data + head * T * S;
    const bool cross = strncmp(name, "cross", 5) == 0, encoder = strncmp(name, "encoder", 7) == 0;
    const int32_t *from = vkf_result_find(source, "ids")->data, *to = vkf_result_find(target, "sequences")->data;
    const int32_t *rows = encoder ? from : to, *columns = encoder || cross ? from : to;
    printf("  %s, head %zu: %zu queries (rows), %zu keys (columns)\n", name, head, T, S);
    const vkf_array map = {NULL, VKF_F32, 2, {T, S}, weights};
    tour_show(t, name, NULL, "Weights of attention in percent; a row is a token that looks.", &map,
              map_labels(t, rows, T, columns, S));
    heat_map(t, weights, rows, T, columns, S);
    double worst = 0;
    for (size_t r = 0; r < T; r++) {
      double sum = 0;
      for (size_t c = 0; c < S; c++) sum += (double)weights[r * S + c];
      if (!(fabs(sum - 1) <= worst)) worst = fabs(sum - 1);
    }
    double allowed = row_sum_bound((double)S);
    tour_check(t, worst <= allowed, "every row of weights sums to one (off by at most %.2g, allowed %.2g)", worst,
               allowed);
  }
  vkf_result_destroy(&out);
  vkf_result_destroy(&target);
  vkf_result_destroy(&source);
  return exit_code;
}

static int model_parameters(tour *t, const json_t *step) {
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_model_get_info(t->session.model, &info);
  tour_say(t, "  width %u, %u heads, feed-forward %u, vocabulary %u, %u + %u layers", info.d_model, info.n_heads,
           info.d_ff, info.vocab, info.encoder_layers, info.decoder_layers);
  json_int_t want = json_integer_value(json_object_get(step, "expect"));
  tour_check(t, (json_int_t)info.n_parameters == want, "the model has %llu parameters",
             (unsigned long long)info.n_parameters);
  return TOOL_OK;
}

int tour_model_step(tour *t, const json_t *step) {
  static const struct {
    const char *name;
    int (*run)(tour *, const json_t *);
  } kinds[] = {{"tokenize", model_tokenize}, {"translate", model_translate}, {"sample", model_sample},
               {"forced", model_forced},     {"attention", model_attention}, {"parameters", model_parameters}};
  const char *name = tour_text(step, "model", "");
  int exit_code = open_model(t);
  if (exit_code != TOOL_OK) return exit_code;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, name) == 0) return kinds[i].run(t, step);
  return tool_error("there is no step of a model called %s", name);
}
