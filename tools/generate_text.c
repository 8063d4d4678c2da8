/* generate on texts: prompts in, what follows them out, shown while it grows.
 *
 * A prompt is generated alone, so that its text can be shown at once; the random numbers count from its line, so its
 * place among other prompts changes nothing. Text is shown up to the last character that is complete and that no stop
 * string could still take back.
 */
#include <stdlib.h>
#include <string.h>

#include "generate.h"

typedef struct writer {
  tool_session *session;
  const tool_args *args;
  const char *folder, *config;
  const char *source; /* the prompt's text */
  int32_t *ids;       /* [n_ids]: the prompt of a decoder, then what was generated */
  size_t n_ids, n_prompt, capacity;
  size_t begin;    /* of the text of all ids: where the continuation begins */
  size_t n_shown;  /* bytes of the continuation on standard output */
  bool streams;    /* one sequence, and not as JSON */
  bool is_decoder; /* the continuation follows the prompt's own ids */
  int exit_code;   /* of the callback */
  vkf_result *text;
} writer;

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* The continuation as text: valid until the next call. NULL after a message. */
static const char *continuation(writer *w, const int32_t *ids, size_t n) {
  vkf_result_destroy(&w->text);
  vkf_status status = vkf_model_detokenize(w->session->model, ids, n, &w->text);
  if (status != VKF_OK) {
    tool_session_fail(w->session, status, NULL);
    return NULL;
  }
  const char *text = vkf_result_text(w->text, 0);
  return text + (w->begin < strlen(text) ? w->begin : strlen(text));
}

/* Where the first stop string begins, or the end of the text; *found: there is one. */
static size_t find_stop(const tool_args *args, const char *text, bool *found) {
  size_t end = strlen(text);
  *found = false;
  for (size_t i = 0; i < args->stops.n; i++) {
    const char *at = strstr(text, args->stops.at[i]);
    if (!at) continue;
    *found = true;
    if ((size_t)(at - text) < end) end = (size_t)(at - text);
  }
  return end;
}

/* Bytes that later tokens cannot change: without a character that is not complete (U+FFFD until it is) and without the
 * beginning of a stop string. */
static size_t settled(const tool_args *args, const char *text) {
  size_t n = strlen(text), keep = n;
  while (keep >= 3 && memcmp(text + keep - 3, "\xef\xbf\xbd", 3) == 0) keep -= 3;
  for (size_t i = 0; i < args->stops.n; i++) {
    size_t length = strlen(args->stops.at[i]);
    for (size_t k = length < n ? length : n; k > 0; k--)
      if (memcmp(text + n - k, args->stops.at[i], k) == 0 && n - k < keep) keep = n - k;
  }
  return keep;
}

/* A decoder may take back bytes that were a character (more bytes came that fit none): what follows them begins with a
 * whole character all the same. */
static void show(writer *w, const char *text, size_t n) {
  while (w->n_shown < n && ((unsigned char)text[w->n_shown] & 0xc0) == 0x80) w->n_shown++;
  if (n <= w->n_shown) return;
  fwrite(text + w->n_shown, 1, n - w->n_shown, stdout);
  fflush(stdout);
  w->n_shown = n;
}

static bool append_id(writer *w, int32_t id) {
  if (w->n_ids == w->capacity) {
    size_t capacity = 2 * w->capacity + 64;
    int32_t *ids = realloc(w->ids, capacity * sizeof *ids);
    if (!ids) return false;
    w->ids = ids;
    w->capacity = capacity;
  }
  w->ids[w->n_ids++] = id;
  return true;
}

static int on_token(void *user, size_t row, int32_t token) {
  writer *w = user;
  bool stops = false;
  if (token < 0 || row > 0) return 0; /* beams: shown when they are done */
  const char *text = append_id(w, token) ? continuation(w, w->ids, w->n_ids) : NULL;
  if (!text) {
    w->exit_code = TOOL_FAILED;
    return 1;
  }
  size_t end = find_stop(w->args, text, &stops);
  if (w->streams) show(w, text, stops ? end : settled(w->args, text));
  return stops;
}

/* ---- one sequence ------------------------------------------------------------------------------------------------ */

/* A key of the given configuration, else of the folder's; a new reference or NULL. */
static json_t *config_value(const writer *w, const char *key) {
  json_t *sources[] = {w->config ? json_loads(w->config, 0, NULL) : NULL,
                       tool_folder_json(w->folder, "generation_config.json"),
                       tool_folder_json(w->folder, "config.json")};
  json_t *value = NULL;
  for (size_t i = 0; i < 3; i++) {
    if (!value) value = json_incref(json_object_get(sources[i], key));
    json_decref(sources[i]);
  }
  return value;
}

static bool is_end(const json_t *end_ids, int32_t id) {
  if (json_is_integer(end_ids)) return json_integer_value(end_ids) == id;
  for (size_t i = 0; i < json_array_size(end_ids); i++)
    if (json_integer_value(json_array_get(end_ids, i)) == id) return true;
  return false;
}

/* Ids of a row, without padding: up to and with the first end id that was generated. */
static size_t row_length(const int32_t *row, size_t begin, size_t n, const json_t *end_ids) {
  for (size_t i = begin; i < n; i++)
    if (is_end(end_ids, row[i])) return i + 1;
  return n;
}

static int print_row(writer *w, const vkf_result *result, size_t row, const json_t *end_ids) {
  const vkf_array *sequences = vkf_result_find(result, "sequences"),
                  *scores = vkf_result_find(result, "sequences_scores");
  const int32_t *ids = (const int32_t *)sequences->data + row * sequences->shape[1];
  size_t begin = w->is_decoder ? w->n_prompt : 1, n = row_length(ids, begin, sequences->shape[1], end_ids);
  bool stops = false;
  const char *text = w->is_decoder ? continuation(w, ids, n) : continuation(w, ids + begin, n - begin);
  if (!text) return TOOL_FAILED;
  size_t end = find_stop(w->args, text, &stops);
  if (!w->args->json) {
    show(w, text, end);
    w->n_shown = 0;
    putchar('\n');
    return tool_flush();
  }
  json_t *list = json_array();
  for (size_t i = begin; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
  return tool_print_json_line(json_pack("{s:s, s:s%, s:o, s:o}", "prompt", w->source, "text", text, end, "ids", list,
                                        "score",
                                        scores ? tool_json_real(((const float *)scores->data)[row]) : json_null()));
}

static int generate(writer *w, size_t index, const vkf_array *ids) {
  char where[32];
  vkf_result *result = NULL;
  vkf_array input = {.name = "input_ids", .dtype = VKF_I32, .rank = 2, .shape = {1, ids->shape[0]}, .data = ids->data};
  vkf_generate_params params = {.config_json = w->config, .on_token = on_token, .user = w, .first_line = index};
  snprintf(where, sizeof where, "prompt %zu", index + 1);
  vkf_status status = vkf_model_generate(w->session->model, &input, 1, &params, &result);
  int exit_code = w->exit_code;
  if (exit_code == TOOL_OK && status != VKF_OK && status != VKF_ERROR_STOPPED)
    exit_code = tool_session_fail(w->session, status, where);
  json_t *end_ids = config_value(w, "eos_token_id");
  size_t n_rows = exit_code == TOOL_OK ? vkf_result_find(result, "sequences")->shape[0] : 0;
  for (size_t r = 0; r < n_rows && exit_code == TOOL_OK; r++) exit_code = print_row(w, result, r, end_ids);
  json_decref(end_ids);
  vkf_result_destroy(&result);
  return exit_code;
}

/* ---- prompts ----------------------------------------------------------------------------------------------------- */

static int on_prompt(void *user, size_t index, const char *text) {
  writer *w = user;
  vkf_result *tokens = NULL;
  int exit_code = tool_tokenize_text(w->session, index, text, &tokens);
  if (exit_code != TOOL_OK) return exit_code;
  const vkf_array *ids = vkf_result_find(tokens, "ids");
  w->source = text;
  w->n_ids = w->begin = w->n_shown = 0;
  w->n_prompt = ids->shape[0];
  for (size_t i = 0; w->is_decoder && i < w->n_prompt && exit_code == TOOL_OK; i++)
    if (!append_id(w, ((const int32_t *)ids->data)[i])) exit_code = tool_error("out of memory");
  if (w->is_decoder && exit_code == TOOL_OK) {
    const char *prompt = continuation(w, w->ids, w->n_ids);
    if (!prompt) exit_code = TOOL_FAILED;
    w->begin = prompt ? strlen(prompt) : 0;
  }
  if (exit_code == TOOL_OK) exit_code = generate(w, index, ids);
  vkf_result_destroy(&w->text);
  vkf_result_destroy(&tokens);
  return exit_code;
}

int tool_generate_text(const tool_args *args, const char *config) {
  tool_session session = {0};
  vkf_model_info info;
  writer w = {.session = &session, .args = args, .folder = args->operands[0], .config = config};
  int exit_code = tool_session_open(&session, args, args->device, w.folder);
  if (exit_code == TOOL_OK) {
    vkf_model_get_info(session.model, &info);
    json_t *n_rows = config_value(&w, "num_return_sequences");
    w.is_decoder = strcmp(info.architecture, "decoder") == 0;
    w.streams = !args->json && json_integer_value(n_rows) < 2;
    json_decref(n_rows);
    exit_code = tool_each_text(args->prompts.at, args->prompts.n, on_prompt, &w);
  }
  free(w.ids);
  tool_session_close(&session);
  return exit_code;
}
