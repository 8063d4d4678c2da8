/* generate_text: prompts in, what follows them out.
 *
 * Prompts of any length run side by side; one that is done makes place for the next (schedule.h). Random numbers count
 * from a prompt's line, so that its place among other prompts changes nothing. Each token is decoded once, as it comes
 * (vkf_text_stream): text is handed on when no later token and no stop string can change it.
 */
#include <math.h>
#include <string.h>

#include "task/parts.h"
#include "task/schedule.h"
#include "task/sequences.h"

/* A prompt on its way. */
typedef struct prompt {
  const vkf_part *part; /* NULL: it was refused */
  vkf_text_stream *stream;
  vkf_text text;   /* of all ids, the prompt's included: what no later token changes */
  size_t begin;    /* of the continuation in it */
  size_t n_handed; /* bytes that were handed on or, of the prompt, are not to be */
  size_t n_ids;    /* generated so far */
  bool is_stopped; /* a stop string was found behind n_ids */
} prompt;

typedef struct writer {
  vkf_session *session;
  vkf_generate_text_params params;
  vkf_generation_config config;
  vkf_parts parts;
  prompt *prompts;     /* [n] */
  vkf_kept *sequences; /* [n][each]: without the prompt */
  char **texts;        /* [n][each], the arena's; NULL: nothing was generated */
  size_t n, each;
  prompt **order; /* [n_order]: those that run, [n_begun] of which have begun */
  size_t n_order, n_begun;
  vkf_text rest; /* scratch memory */
  bool is_decoder, is_streaming, is_stopped;
  vkf_status st; /* of a callback that failed */
  vkf_env_failure failure;
} writer;

/* ---- the tokenizer's stream, under its lock ---------------------------------------------------------------------- */

static vkf_status stream_create(writer *w, prompt *p) {
  const vkf_status st = vkf_text_stream_create(vkf_engine_tokenizer_lock(&w->session->tokenizer), true, &p->stream);
  vkf_engine_tokenizer_unlock(&w->session->tokenizer);
  return st;
}

static vkf_status stream_add(writer *w, prompt *p, int32_t id, vkf_text *out) {
  vkf_engine_tokenizer_lock(&w->session->tokenizer);
  const vkf_status st = vkf_text_stream_add(p->stream, id, out);
  vkf_engine_tokenizer_unlock(&w->session->tokenizer);
  return st;
}

static vkf_status stream_rest(writer *w, const prompt *p, vkf_text *out) {
  vkf_engine_tokenizer_lock(&w->session->tokenizer);
  const vkf_status st = vkf_text_stream_rest(p->stream, out);
  vkf_engine_tokenizer_unlock(&w->session->tokenizer);
  return st;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* The text from byte `from` on, as it would be if it ended here: in w->rest. */
static vkf_status text_from(writer *w, const prompt *p, size_t from, const char **out) {
  const size_t settled = VKF_MIN(from, p->text.size);
  w->rest.size = 0;
  vkf_text_append(&w->rest, p->text.size ? p->text.data + settled : "", p->text.size - settled);
  vkf_status st = stream_rest(w, p, &w->rest);
  if (st == VKF_OK) st = vkf_text_status(&w->rest);
  if (st == VKF_OK) *out = w->rest.data + VKF_MIN(from - settled, w->rest.size);
  return st;
}

/* Where the first stop string begins in `text`, or its end; *found: there is one. */
static size_t find_stop(const writer *w, const char *text, bool *found) {
  size_t end = strlen(text);
  *found = false;
  for (size_t i = 0; i < w->params.n_stops; i++) {
    const char *at = strstr(text, w->params.stops[i]);
    if (!at) continue;
    *found = true;
    end = VKF_MIN(end, (size_t)(at - text));
  }
  return end;
}

/* Settled bytes without what may be the beginning of a stop string. */
static size_t without_begun_stop(const writer *w, const prompt *p) {
  size_t keep = p->text.size;
  for (size_t i = 0; i < w->params.n_stops; i++) {
    const size_t length = strlen(w->params.stops[i]);
    for (size_t k = VKF_MIN(length, p->text.size - VKF_MIN(p->begin, p->text.size)); k > 0; k--)
      if (memcmp(p->text.data + p->text.size - k, w->params.stops[i], k) == 0) {
        keep = VKF_MIN(keep, p->text.size - k);
        break;
      }
  }
  return keep;
}

/* Hands p->text on up to `end`. */
static void hand_on(writer *w, prompt *p, const char *text, size_t n) {
  if (!w->is_streaming || n == 0 || w->is_stopped) return;
  VKF_CALLBACK(w->session->env, w->is_stopped = w->params.on_text(w->params.user, p->part->text, text, n) != 0);
}

static void hand_on_settled(writer *w, prompt *p, size_t end) {
  if (end <= p->n_handed) return;
  hand_on(w, p, p->text.data + p->n_handed, end - p->n_handed);
  p->n_handed = end;
}

/* One more token of a row: looks for stop strings from where there was none before. */
static vkf_status add_token(writer *w, prompt *p, int32_t token) {
  size_t longest = 1;
  for (size_t i = 0; i < w->params.n_stops; i++) longest = VKF_MAX(longest, strlen(w->params.stops[i]));
  const size_t safe = p->text.size - VKF_MIN(p->text.size, longest - 1), from = VKF_MAX(safe, p->begin);
  VKF_CALL(stream_add(w, p, token, &p->text));
  p->n_ids++;
  if (w->params.n_stops) {
    const char *text = NULL;
    VKF_CALL(text_from(w, p, from, &text));
    const size_t end = find_stop(w, text, &p->is_stopped);
    if (p->is_stopped) { /* what is before it may not be settled yet */
      hand_on_settled(w, p, VKF_MIN(from, p->text.size));
      const size_t handed = p->n_handed - VKF_MIN(p->n_handed, from);
      if (end > handed) hand_on(w, p, text + handed, end - handed);
      return VKF_OK;
    }
  }
  hand_on_settled(w, p, without_begun_stop(w, p));
  return VKF_OK;
}

/* The stream of a prompt, behind its own ids where a decoder continues them. */
static vkf_status begin(writer *w, prompt *p) {
  vkf_text_stream_destroy(&p->stream);
  p->text.size = p->begin = p->n_handed = p->n_ids = 0;
  VKF_CALL(stream_create(w, p));
  for (uint32_t i = 0; w->is_decoder && i < p->part->n; i++) VKF_CALL(stream_add(w, p, p->part->ids[i], &p->text));
  const char *text = "";
  if (w->is_decoder) VKF_CALL(text_from(w, p, 0, &text));
  p->begin = p->n_handed = strlen(text);
  return VKF_OK;
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* The text of a sequence up to the first stop string. What was not handed on yet is. */
static vkf_status make_text(writer *w, prompt *p, const vkf_kept *s, char **out) {
  bool found = false;
  VKF_CALL(begin(w, p));
  for (size_t i = 0; i < s->n; i++) VKF_CALL(stream_add(w, p, s->ids[i], &p->text));
  const char *text = NULL;
  VKF_CALL(text_from(w, p, p->begin, &text));
  const size_t end = find_stop(w, text, &found);
  *out = vkf_arena_printf(&w->parts.arena, "%.*s", (int)end, text);
  if (!*out) return VKF_ERROR_MEMORY;
  return VKF_OK;
}

/* Row `row` of the results of a prompt is its sequence `row`, that of the log-probabilities first + row. */
static vkf_status take_row(writer *w, prompt *p, const vkf_generated *results, uint32_t row, const vkf_logprobs *l,
                           uint32_t first_row) {
  const size_t at = p->part->text * w->each + row;
  const uint32_t n_prompt = w->is_decoder ? p->part->n : 1; /* the start id */
  const vkf_keep keep = {&w->config, results, l, row, first_row + row, n_prompt, .first = n_prompt};
  VKF_CALL(vkf_task_keep(&w->parts.arena, &keep, &w->sequences[at]));
  if (p->is_stopped) w->sequences[at].score = NAN;
  const size_t n_handed = p->n_handed;
  VKF_CALL(make_text(w, p, &w->sequences[at], &w->texts[at]));
  const char *text = w->texts[at];
  const size_t done = n_handed - VKF_MIN(n_handed, p->begin);
  if (!p->is_stopped && strlen(text) > done) hand_on(w, p, text + done, strlen(text) - done);
  return VKF_OK;
}

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

static vkf_status next(void *user, vkf_request *out, bool *there) {
  writer *w = user;
  *there = w->n_begun < w->n_order;
  if (!*there) return VKF_OK;
  prompt *p = w->order[w->n_begun++];
  const size_t text = p->part->text;
  *out = (vkf_request){.user = p,
                       .input = {.line = w->params.lines ? w->params.lines[text] : text, .sentence = (uint32_t)text}};
  if (w->is_decoder) {
    out->input.prompt = p->part->ids;
    out->input.n_prompt = p->part->n;
  } else {
    out->input.source = p->part->ids;
    out->input.n_source = p->part->n;
  }
  return begin(w, p);
}

static vkf_told on_token(void *user, const vkf_request *request, uint32_t row, int32_t token) {
  writer *w = user;
  prompt *p = request->user;
  (void)row;
  w->st = add_token(w, p, token);
  if (w->st != VKF_OK) vkf_env_save_failure(w->session->env, &w->failure);
  return w->st != VKF_OK || w->is_stopped ? VKF_TOLD_STOP : p->is_stopped ? VKF_TOLD_ENOUGH : VKF_TOLD_GO_ON;
}

static vkf_status take(void *user, const vkf_request *request, const vkf_generated *results,
                       const vkf_logprobs *logprobs, uint32_t row) {
  writer *w = user;
  prompt *p = request->user;
  if (w->st != VKF_OK) { /* of a callback */
    vkf_env_restore_failure(w->session->env, &w->failure);
    VKF_CALL(w->st);
  }
  for (uint32_t r = 0; r < w->each; r++) VKF_CALL(take_row(w, p, results, r, logprobs, row));
  vkf_text_stream_destroy(&p->stream);
  vkf_text_finish(&p->text);
  return VKF_OK;
}

static vkf_status refuse(void *user, const vkf_request *request) {
  writer *w = user;
  const prompt *p = request->user;
  return vkf_task_parts_refuse(&w->parts, p->part->text, VKF_SKIP_MEMORY, "%s", w->session->env->message);
}

static vkf_status generate_all(writer *w) {
  vkf_status st = VKF_OK;
  const bool is_watched = w->each == 1 && w->config.num_beams == 1 && (w->is_streaming || w->params.n_stops);
  w->order = vkf_env_alloc(w->session->env, w->n, sizeof *w->order);
  if (!w->order) VKF_TRY(VKF_ERROR_MEMORY);
  uint32_t longest = 0;
  for (size_t i = 0; i < w->n; i++) {
    if (!w->prompts[i].part) continue;
    w->order[w->n_order++] = &w->prompts[i];
    longest = VKF_MAX(longest, w->prompts[i].part->n);
  }
  VKF_TRY(vkf_task_schedule_run(&(vkf_schedule){.session = w->session,
                                                .config = &w->config,
                                                .n_requests = w->n_order,
                                                .batch_size = w->params.batch_size,
                                                .n_longest = longest,
                                                .top_logprobs = w->params.top_logprobs,
                                                .scores = w->params.scores,
                                                .next = next,
                                                .on_token = is_watched ? on_token : NULL,
                                                .take = take,
                                                .refuse = refuse,
                                                .user = w}));
done:
  vkf_env_free(w->session->env, w->order);
  return st;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static vkf_status add_results(const writer *w, vkf_result *result) {
  const size_t rows = w->n * w->each;
  const uint32_t n_vocab = vkf_model_net_info(w->session->model->net)->target_vocab;
  for (size_t i = 0; i < rows; i++)
    if (!w->texts[i]) w->sequences[i].score = NAN;
  VKF_CALL(vkf_task_kept_add(w->sequences, rows, -1, w->config.num_beams > 1 || w->params.scores,
                             VKF_MIN(w->params.top_logprobs, n_vocab), result));
  for (size_t i = 0; i < rows; i++) VKF_CALL(vkf_engine_result_add_text(result, w->texts[i]));
  return vkf_task_parts_report(&w->parts, result);
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */

static vkf_status check(const writer *w) {
  for (size_t i = 0; i < w->params.n_stops; i++)
    if (!w->params.stops || !w->params.stops[i] || !w->params.stops[i][0])
      return vkf_env_fail(w->session->env, VKF_ERROR_ARGUMENT, "expected a text as stop string %zu, found none", i + 1);
  if (w->params.long_texts == VKF_LONG_SPLIT)
    return vkf_env_fail(w->session->env, VKF_ERROR_ARGUMENT,
                        "expected prompts that are truncated or refused where they are too long, found a rule that "
                        "splits them: what follows a part is not what follows the prompt");
  return VKF_OK;
}

static vkf_status make_prompts(writer *w, const char *const *texts, size_t n) {
  vkf_env *env = w->session->env;
  const vkf_part_rules rules = {.long_texts = w->params.long_texts,
                                .skip_refused = w->params.skip_refused,
                                .keeps_end = w->is_decoder,
                                .source_language = w->params.source_language,
                                .target_language = w->params.target_language};
  VKF_CALL(vkf_task_parts_make(w->session, texts, n, &rules, &w->parts));
  w->prompts = vkf_env_alloc(env, n, sizeof *w->prompts);
  w->sequences = vkf_env_alloc(env, n * w->each, sizeof *w->sequences);
  w->texts = vkf_env_alloc(env, n * w->each, sizeof *w->texts);
  if (!w->prompts || !w->sequences || !w->texts) return VKF_ERROR_MEMORY;
  w->n = n;
  for (size_t i = 0; i < n; i++) vkf_text_init(&w->prompts[i].text, env);
  for (size_t i = 0; i < w->parts.n; i++) w->prompts[w->parts.at[i].text].part = &w->parts.at[i];
  return VKF_OK;
}

static vkf_status generate_text(vkf_session *session, const char *const *texts, size_t n,
                                const vkf_generate_text_params *params, vkf_result **out) {
  vkf_status st = VKF_OK;
  writer w = {.session = session};
  vkf_result *result = NULL;
  st = VKF_PARAMS_READ(session->env, vkf_generate_text_params, params, &w.params);
  if (st) return st;
  vkf_text_init(&w.rest, session->env);
  VKF_TRY(vkf_engine_derive_generation(session, w.params.source_language, w.params.target_language,
                                       w.params.config_json, &w.config));
  VKF_TRY(check(&w));
  w.is_decoder = vkf_model_net_info(session->model->net)->architecture == VKF_ARCHITECTURE_DECODER;
  w.each = VKF_MAX(w.config.num_return_sequences, 1);
  w.is_streaming = w.params.on_text && w.each == 1 && w.config.num_beams == 1;
  VKF_TRY(make_prompts(&w, texts, n));
  VKF_TRY(generate_all(&w));
  VKF_TRY(vkf_engine_result_create(session->env, &result));
  VKF_TRY(add_results(&w, result));
  if (w.is_stopped) st = vkf_env_fail(session->env, VKF_ERROR_STOPPED, "the text callback asked to stop");
done:
  for (size_t i = 0; i < w.n; i++) {
    vkf_text_stream_destroy(&w.prompts[i].stream);
    vkf_text_finish(&w.prompts[i].text);
  }
  vkf_env_free(session->env, w.prompts);
  vkf_env_free(session->env, w.sequences);
  vkf_env_free(session->env, w.texts);
  vkf_task_parts_finish(&w.parts);
  vkf_text_finish(&w.rest);
  vkf_decode_generation_finish(&w.config);
  if (st && st != VKF_ERROR_STOPPED) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}

vkf_status vkf_session_generate_text(vkf_session *session, const char *const *texts, size_t n,
                                     const vkf_generate_text_params *params, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, generate_text(session, texts, n, params, out));
}
