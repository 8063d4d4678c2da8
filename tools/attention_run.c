/* attention_run: runs a text or an image, and finds words and attention maps in the outputs. */
#define _POSIX_C_SOURCE 200809L

#include "attention.h"

#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "translation.h"

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static int tokens_init(tool_tokens *tokens, size_t n) {
  tokens->at = calloc(n + 1, sizeof *tokens->at);
  tokens->special = calloc(n + 1, sizeof *tokens->special);
  tokens->n = n;
  return tokens->at && tokens->special ? TOOL_OK : tool_error("out of memory");
}

void tool_tokens_finish(tool_tokens *tokens) {
  for (size_t i = 0; tokens->at && i < tokens->n; i++) free(tokens->at[i]);
  free(tokens->at);
  free(tokens->special);
}

/* Decodes an id to text without white space around it; "" if it gives nothing that can be shown alone. To free(). */
static char *decode(tool_session *session, int32_t id, bool keeps_special) {
  const vkf_decode_params params = {VKF_DECODE_PARAMS_INIT, .keep_special_tokens = keeps_special};
  static const char spaces[] = " \t\r\n\v\f", replacement[] = "\xef\xbf\xbd";
  vkf_result *result = NULL;
  const char *text = "";
  if (vkf_tokenizer_decode(vkf_session_tokenizer(session->run), &id, 1, &params, &result) == VKF_OK)
    text = vkf_result_text(result, 0);
  if (strstr(text, replacement)) text = "";
  text += strspn(text, spaces);
  size_t n = strlen(text);
  while (n > 0 && strchr(spaces, text[n - 1])) n--;
  char *copy = strndup(text, n);
  vkf_result_destroy(&result);
  return copy;
}

/* Labels a token with its decoded text, else with its piece of the vocabulary. */
static int add_token(tool_session *session, tool_tokens *tokens, size_t i, int32_t id) {
  const char *piece = vkf_tokenizer_piece(vkf_session_tokenizer(session->run), id);
  char *plain = decode(session, id, false), *label = decode(session, id, true);
  if (plain && label) tokens->special[i] = !plain[0] && label[0];
  if (label && !label[0]) {
    free(label);
    label = tool_utf8_mend(piece ? piece : "?", strlen(piece ? piece : "?"));
  }
  free(plain);
  tokens->at[i] = label;
  return plain && label ? TOOL_OK : tool_error("out of memory");
}

int tool_tokens_of_ids(tool_session *session, const int32_t *ids, size_t n, tool_tokens *out) {
  int exit_code = tokens_init(out, n);
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++) exit_code = add_token(session, out, i, ids[i]);
  return exit_code;
}

tool_span tool_find_word(const tool_tokens *tokens, const char *word) {
  for (size_t first = 0; first < tokens->n; first++) {
    const char *left = word;
    for (size_t i = first; i < tokens->n; i++) {
      const size_t n = strlen(tokens->at[i]);
      if (n == 0 || strncmp(left, tokens->at[i], n) != 0) break;
      left += n;
      if (!*left) return (tool_span){first, i + 1 - first};
    }
  }
  char *end = NULL;
  const unsigned long position = strtoul(word, &end, 10);
  const bool is_position = word[0] >= '0' && word[0] <= '9' && !*end && position < tokens->n;
  return (tool_span){is_position ? position : 0, is_position};
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static int run(tool_session *session, const vkf_array *inputs, size_t n, tool_attended *out) {
  vkf_status status = vkf_session_run(session->run, inputs, n, &out->how, &out->pass);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, NULL);
}

/* Runs a pass over a text. target: ids of an encoder-decoder's target from its start id on. */
static int run_pass(tool_session *session, const tool_args *args, const char *text, const int32_t *target,
                    size_t n_target, tool_attended *out) {
  const vkf_encode_params params = {VKF_ENCODE_PARAMS_INIT, .source_language = args->source_lang,
                                    .target_language = args->target_lang};
  vkf_result *made = NULL;
  out->text = text;
  vkf_status status = vkf_tokenizer_encode(vkf_session_tokenizer(session->run), text, &params, &made);
  if (status != VKF_OK) return tool_session_fail(session, status, NULL);
  const vkf_array *ids = vkf_result_find(made, "ids");
  const vkf_array inputs[] = {
      {"input_ids", VKF_I32, 2, {1, ids->shape[0]}, ids->data},
      {"decoder_input_ids", VKF_I32, 2, {1, n_target ? n_target - 1 : 0}, (void *)(uintptr_t)target}};
  int exit_code = tool_tokens_of_ids(session, ids->data, ids->shape[0], &out->source);
  if (exit_code == TOOL_OK && n_target) exit_code = tool_tokens_of_ids(session, target, n_target - 1, &out->target);
  if (exit_code == TOOL_OK && n_target) exit_code = tool_tokens_of_ids(session, target + 1, n_target - 1, &out->next);
  if (exit_code == TOOL_OK) exit_code = run(session, inputs, n_target ? 2 : 1, out);
  vkf_result_destroy(&made);
  return exit_code;
}

int tool_attend_translation(tool_session *session, const tool_args *args, const char *text, const char *translation,
                            const int32_t *ids, size_t n, tool_attended *out) {
  out->translation = translation;
  return run_pass(session, args, text, ids, n, out);
}

/* Runs a text. An encoder-decoder translates it first, with this generation configuration (NULL: the folder's), into
 * *translated, which must outlive `out`. */
static int attend_text(tool_session *session, const tool_args *args, const char *config, const char *text,
                       vkf_result **translated, tool_attended *out) {
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_model_get_info(session->model, &info);
  if (info.architecture != VKF_ARCHITECTURE_ENCODER_DECODER) return run_pass(session, args, text, NULL, 0, out);
  const vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT, .config_json = config,
                                      .source_language = args->source_lang, .target_language = args->target_lang};
  vkf_status status = vkf_session_translate(session->run, &text, 1, &params, translated);
  if (status != VKF_OK) return tool_session_fail(session, status, NULL);
  const vkf_array *ids = vkf_result_find(*translated, "sequences");
  tool_translation lines = {.args = args};
  tool_translation_read_config(&lines, config, args->operands[0]);
  const size_t n = tool_translation_row(&lines, ids);
  tool_translation_finish(&lines);
  return tool_attend_translation(session, args, text, vkf_result_text(*translated, 0), ids->data, n, out);
}

/* Runs an image, whose tokens are the class token and its patches. */
static int attend_image(tool_session *session, const char *folder, const char *path, tool_attended *out) {
  out->text = path;
  vkf_status status = vkf_session_read_images(session->run, &path, 1, &out->pixels);
  if (status != VKF_OK) return tool_session_fail(session, status, NULL);
  const vkf_array *pixels = vkf_result_at(out->pixels, 0);
  json_t *patch = tool_config_value(NULL, folder, "patch_size");
  const size_t side = (size_t)json_integer_value(patch);
  json_decref(patch);
  int exit_code = run(session, pixels, 1, out);
  const vkf_array *weights = exit_code == TOOL_OK ? vkf_result_find(out->pass, "attentions.0") : NULL;
  if (!weights) return exit_code;
  out->patch_rows = side ? pixels->shape[2] / side : 0;
  out->patch_columns = side ? pixels->shape[3] / side : 0;
  const size_t n = weights->shape[3], n_patches = out->patch_rows * out->patch_columns,
               before = n > n_patches ? n - n_patches : 0;
  exit_code = tokens_init(&out->source, n);
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++) {
    char label[64];
    if (i < before)
      snprintf(label, sizeof label, "[CLS]");
    else
      snprintf(label, sizeof label, "%zu,%zu", (i - before) / out->patch_columns, (i - before) % out->patch_columns);
    out->source.special[i] = i < before;
    exit_code = tool_copy(label, &out->source.at[i]);
  }
  return exit_code;
}

void tool_attended_finish(tool_attended *a) {
  tool_tokens_finish(&a->source);
  tool_tokens_finish(&a->target);
  tool_tokens_finish(&a->next);
  vkf_result_destroy(&a->pixels);
  vkf_result_destroy(&a->pass);
}

int tool_attend(const tool_args *args, vkf_run_params how,
                int (*report)(tool_session *session, const tool_args *args, const tool_attended *a)) {
  tool_session session = {0};
  tool_attended a = {.how = how};
  vkf_result *translated = NULL;
  char *config = NULL;
  const char *folder = args->operands[0];
  int exit_code = tool_generation_config(args, &config);
  if (exit_code == TOOL_OK) exit_code = tool_session_open(&session, args, args->device, folder);
  if (exit_code == TOOL_OK)
    exit_code = args->images.n ? attend_image(&session, folder, args->images.at[0], &a)
                               : attend_text(&session, args, config, args->operands[1], &translated, &a);
  if (exit_code == TOOL_OK) exit_code = report(&session, args, &a);
  tool_attended_finish(&a);
  vkf_result_destroy(&translated);
  free(config);
  return tool_session_close(&session, exit_code);
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

typedef struct kind {
  const char *name, *array;
  bool target_rows, target_columns;
} kind;

static const kind kinds[] = {{"encoder", "encoder_attentions", false, false},
                             {"decoder", "decoder_attentions", true, true},
                             {"cross", "cross_attentions", true, false},
                             {"self", "attentions", false, false}};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static bool find_map(const tool_attended *a, const kind *k, size_t layer, tool_attention_map *out) {
  char name[64];
  snprintf(name, sizeof name, "%s.%zu", k->array, layer);
  const vkf_array *array = vkf_result_find(a->pass, name);
  if (!array || array->rank != 4) return false;
  *out = (tool_attention_map){.kind = k->name,
                              .layer = layer,
                              .n_heads = array->shape[1],
                              .weights = array->data,
                              .rows = k->target_rows ? &a->target : &a->source,
                              .columns = k->target_columns ? &a->target : &a->source};
  return true;
}

static bool is_chosen(const tool_sizes *chosen, size_t i) {
  for (size_t k = 0; k < chosen->n; k++)
    if (chosen->at[k] == i) return true;
  return chosen->n == 0;
}

bool tool_attention_is_kind(const char *name) {
  bool found = false;
  for (int i = 0; i < N_KINDS; i++) found |= strcmp(kinds[i].name, name) == 0;
  return found;
}

bool tool_attention_has_head(const tool_args *args, size_t head) {
  return is_chosen(&args->heads_at, head);
}

/* Checks that each chosen number is below n. */
static int check_chosen(const char *option, const tool_sizes *chosen, size_t n) {
  for (size_t k = 0; k < chosen->n; k++)
    if (chosen->at[k] >= n) return tool_error("--%s: expected 0 to %zu, found %zu", option, n - 1, chosen->at[k]);
  return TOOL_OK;
}

int tool_attention_choose(const tool_attended *a, const tool_args *args, tool_attention_maps *out) {
  char names[64] = "";
  size_t n_layers = 0, n_heads = 0;
  out->n = out->n_heads = 0;
  for (const kind *k = kinds; k < kinds + N_KINDS; k++) {
    tool_attention_map map;
    if (!find_map(a, k, 0, &map)) continue;
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] ? ", " : "", k->name);
    if (args->kind && strcmp(args->kind, k->name) != 0) continue;
    for (size_t layer = 0; out->n < TOOL_MAX_MAPS && find_map(a, k, layer, &map); layer++) {
      n_layers = layer + 1 > n_layers ? layer + 1 : n_layers;
      n_heads = map.n_heads > n_heads ? map.n_heads : n_heads;
      if (!is_chosen(&args->layers_at, layer)) continue;
      for (size_t h = 0; h < map.n_heads; h++) out->n_heads += tool_attention_has_head(args, h);
      out->at[out->n++] = map;
    }
  }
  if (!n_layers) return tool_error("--kind: expected one of %s, found %s", names, args->kind ? args->kind : "none");
  int exit_code = check_chosen("layer", &args->layers_at, n_layers);
  return exit_code == TOOL_OK ? check_chosen("head", &args->heads_at, n_heads) : exit_code;
}

float *tool_attention_sample(const tool_attention_map *map, size_t head, size_t n_rows, size_t n_columns) {
  const size_t T = map->rows->n, S = map->columns->n;
  const float *w = map->weights + head * T * S;
  float *out = calloc(n_rows * n_columns + 1, sizeof *out);
  if (!out) tool_error("out of memory");
  for (size_t r = 0; out && r < n_rows; r++) {
    const size_t first = r * T / n_rows, end = (r + 1) * T / n_rows;
    for (size_t c = 0; c < n_columns; c++) {
      double sum = 0;
      for (size_t t = first; t < end; t++)
        for (size_t s = c * S / n_columns; s < (c + 1) * S / n_columns; s++) sum += w[t * S + s];
      out[r * n_columns + c] = (float)(sum / (double)(end - first));
    }
  }
  return out;
}

double tool_attention_weight(const tool_attention_map *map, size_t head, tool_span from, tool_span to) {
  const size_t T = map->rows->n, S = map->columns->n;
  double sum = 0;
  for (size_t t = from.first; t < from.first + from.n; t++)
    for (size_t s = to.first; s < to.first + to.n; s++) sum += map->weights[(head * T + t) * S + s];
  return sum / (double)from.n;
}
