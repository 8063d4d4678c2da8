/* attention_page: makes the data of the page tools/attention.html from the weights of a text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"

/* Limits of tokens per side and weights per page; more are sampled down. */
enum { MAX_SIDE = 512, MIN_SIDE = 16, MAX_WEIGHTS = 6000000, MAX_IMAGE = 128 };
enum { SCALE = 10000, SCORE_SCALE = 100, MOST = 999999999 };

static json_t *labels_json(const tool_tokens *tokens) {
  json_t *list = json_array();
  for (size_t i = 0; i < tokens->n; i++) json_array_append_new(list, json_string(tokens->at[i]));
  return list;
}

static json_t *special_json(const tool_tokens *tokens) {
  json_t *list = json_array();
  for (size_t i = 0; i < tokens->n; i++)
    if (tokens->special[i]) json_array_append_new(list, json_integer((json_int_t)i));
  return list;
}

/* Returns scaled numbers as integers of at least `least`, with a space between them. NULL after a message. */
static json_t *numbers_json(const float *numbers, size_t n, double least, double scale) {
  char *text = malloc(12 * n + 1);
  size_t at = 0;
  if (!text) {
    tool_error("out of memory");
    return NULL;
  }
  text[0] = 0;
  for (size_t i = 0; i < n; i++) {
    const double x = numbers[i] * scale;
    at += (size_t)sprintf(text + at, i ? " %ld" : "%ld", isfinite(x) ? lround(fmax(least, fmin(x, MOST))) : 0);
  }
  json_t *json = json_string(text);
  free(text);
  return json;
}

/* Adds the scores of a head and the bias that is added to them, in hundredths. False after a message. */
static bool add_scores(json_t *json, const tool_attended *a, const tool_attention_map *map, size_t head,
                       const vkf_attention_info *rule) {
  const size_t n = map->rows->n * map->columns->n;
  float *scores = tool_attention_scores(a, map, head, rule);
  const float *bias = scores && rule->has_bias ? tool_attention_bias(a, map, head) : NULL;
  bool is_done = scores && (bias || !rule->has_bias) &&
                 json_object_set_new(json, "scores", numbers_json(scores, n, -MOST, SCORE_SCALE)) == 0;
  if (is_done && bias) is_done = json_object_set_new(json, "bias", numbers_json(bias, n, -MOST, SCORE_SCALE)) == 0;
  free(scores);
  return is_done;
}

/* Returns the heads of a layer, each a text of ten-thousandths. NULL after a message. */
static json_t *layer_json(const tool_args *args, const tool_attended *a, const tool_attention_map *map,
                          const vkf_attention_info *rule, size_t n_rows, size_t n_columns) {
  json_t *list = json_array();
  for (size_t h = 0; h < map->n_heads; h++) {
    if (!tool_attention_has_head(args, h)) continue;
    float *sampled = tool_attention_sample(map, h, n_rows, n_columns);
    json_t *head = json_pack("{s:i, s:o}", "head", (int)h, "weights",
                             sampled ? numbers_json(sampled, n_rows * n_columns, 0, SCALE) : NULL);
    const bool is_done = head && (!args->scores || add_scores(head, a, map, h, rule));
    free(sampled);
    if (json_array_append_new(list, head) != 0 || !is_done) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static size_t side_of(size_t n, size_t most) {
  return n < most ? n : most;
}

/* Returns what the maps of one kind share. */
static json_t *part_json(const tool_attended *a, const tool_attention_map *map, const vkf_attention_info *rule,
                         size_t n_rows, size_t n_columns, json_t *layers) {
  return json_pack("{s:s, s:s, s:s, s:b, s:b, s:f, s:i, s:i, s:i, s:o}", "kind", map->kind, "rows",
                   map->rows == &a->source ? "source" : "target", "columns",
                   map->columns == &a->source ? "source" : "target", "causal", rule->causal, "has_bias", rule->has_bias,
                   "scale", (double)rule->scale, "head_width", (int)rule->key_width, "n_rows", (int)n_rows, "n_columns",
                   (int)n_columns, "layers", layers);
}

/* NULL after a message. */
static json_t *parts_json(const tool_session *session, const tool_args *args, const tool_attended *a,
                          const tool_attention_maps *maps) {
  const double fits = sqrt((double)MAX_WEIGHTS / (double)(maps->n_heads ? maps->n_heads : 1));
  const size_t most = fits > MAX_SIDE ? MAX_SIDE : fits < MIN_SIDE ? MIN_SIDE : (size_t)fits;
  json_t *parts = json_array(), *layers = NULL;
  for (size_t i = 0; i < maps->n; i++) {
    const tool_attention_map *map = &maps->at[i];
    const size_t n_rows = side_of(map->rows->n, most), n_columns = side_of(map->columns->n, most);
    vkf_attention_info rule;
    if (args->scores && (n_rows < map->rows->n || n_columns < map->columns->n)) {
      tool_error("--scores: expected at most %zu tokens of %zu heads, found %zu: choose fewer with --layer and --head",
                 most, maps->n_heads, n_rows < map->rows->n ? map->rows->n : map->columns->n);
      goto failed;
    }
    if (tool_attention_rule(session, map, &rule) != TOOL_OK) goto failed;
    if (i == 0 || strcmp(map->kind, maps->at[i - 1].kind) != 0) {
      layers = json_array();
      json_array_append_new(parts, part_json(a, map, &rule, n_rows, n_columns, layers));
    }
    json_t *heads = layer_json(args, a, map, &rule, n_rows, n_columns);
    if (!heads) goto failed;
    json_array_append_new(
        layers, json_pack("{s:i, s:i, s:o}", "layer", (int)map->layer, "window", (int)rule.window, "heads", heads));
  }
  return parts;
failed:
  json_decref(parts);
  return NULL;
}

/* Returns the pixels that the model got, each channel scaled to its range, every k-th pixel. */
static json_t *image_json(const tool_attended *a) {
  const vkf_array *pixels = vkf_result_at(a->pixels, 0);
  const size_t C = pixels->shape[1], H = pixels->shape[2], W = pixels->shape[3],
               step = 1 + (H > W ? H - 1 : W - 1) / MAX_IMAGE, rows = (H + step - 1) / step,
               columns = (W + step - 1) / step;
  const float *x = pixels->data;
  float *rgb = calloc(3 * rows * columns, sizeof *rgb);
  for (size_t c = 0; rgb && c < 3; c++) {
    const float *plane = x + (c < C ? c : 0) * H * W;
    float least = plane[0], most = plane[0];
    for (size_t i = 0; i < H * W; i++) {
      least = fminf(least, plane[i]);
      most = fmaxf(most, plane[i]);
    }
    for (size_t r = 0; r < rows; r++)
      for (size_t k = 0; k < columns; k++)
        rgb[3 * (r * columns + k) + c] =
            most > least ? (plane[r * step * W + k * step] - least) / (most - least) : 0.5F;
  }
  json_t *json = json_pack("{s:i, s:i, s:i, s:i, s:o}", "width", (int)columns, "height", (int)rows, "patch_rows",
                           (int)a->patch_rows, "patch_columns", (int)a->patch_columns, "pixels",
                           rgb ? numbers_json(rgb, 3 * rows * columns, 0, 255) : NULL);
  free(rgb);
  return json;
}

json_t *tool_attention_document(const tool_session *session, const tool_args *args, const tool_attended *a) {
  tool_attention_maps *maps = malloc(sizeof *maps);
  json_t *json = NULL;
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_model_get_info(session->model, &info);
  if (!maps) tool_error("out of memory");
  if (maps && tool_attention_choose(a, args, maps) == TOOL_OK) {
    const tool_tokens *rows = maps->at[0].rows;
    const tool_span none = {0}, from = args->from ? tool_find_word(rows, args->from) : none,
                    to = args->to ? tool_find_word(maps->at[0].columns, args->to) : none;
    json_t *parts = parts_json(session, args, a, maps);
    json = json_pack(
        "{s:s, s:s?, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:o, s:o*}", "text", a->text, "translation",
        a->translation, "family", info.family, "device", vkf_device_get_info(session->device)->name, "source",
        labels_json(&a->source), "target", labels_json(&a->target), "next", labels_json(&a->next), "special_source",
        special_json(&a->source), "special_target", special_json(&a->target), "picked", from.n ? (int)from.first : -1,
        "picked_column", to.n ? (int)to.first : -1, "parts", parts, "image", a->pixels ? image_json(a) : NULL);
    if (!json && parts) tool_error("out of memory");
  }
  free(maps);
  return json;
}
