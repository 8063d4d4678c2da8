/* generate_text: continues prompts.
 *
 * Prompts of any length run side by side. When one is done, the next takes its seat (schedule.h), whether it is of the
 * same call or came from the queue meanwhile. Random numbers depend on a prompt's line, so its place among other
 * prompts changes nothing. Each token is decoded once, as it comes (vkf_text_stream). Text is passed to the caller as
 * soon as no later token and no stop string can change it.
 */
#include <math.h>
#include <string.h>

#include "task/parts.h"
#include "task/queue.h"
#include "task/schedule.h"
#include "task/sequences.h"

typedef struct group group;

/* A prompt and its continuation. */
typedef struct prompt {
  const vkf_part *part; /* NULL: the prompt was refused */
  group *group;
  vkf_text_stream *stream;
  vkf_text text;   /* settled text of all ids, prompt included: no later token changes it */
  size_t begin;    /* byte where the continuation begins */
  size_t n_handed; /* bytes given to the caller, counting the prompt's */
  bool is_stopped; /* a stop string was found */
} prompt;

/* Prompts that share one result. */
struct group {
  vkf_parts parts;
  prompt *prompts;              /* [n]; the first n_begun have begun or were refused */
  vkf_task_sequence *sequences; /* [n][each]: ids without the prompt */
  char **texts;                 /* [n][each], owned by the arena; NULL: nothing was generated */
  size_t n, n_begun;
  /* For a prompt from the queue, which is a group of its own: */
  uint64_t line;
  void *tag;   /* the caller's name for the prompt */
  group *next; /* of the list of such groups */
};

typedef struct writer {
  vkf_session *session;
  vkf_generate_text_params params;
  vkf_generation_config config;
  const vkf_text_queue *queue; /* NULL: there is one group */
  group *group;                /* its prompts begin next; NULL: none */
  group *groups;               /* list: prompts of the queue that are not done */
  size_t n_came, each;
  vkf_text rest; /* scratch memory */
  bool is_decoder, is_streaming, is_watched, is_stopped;
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

/* *out: the text from byte `from` on, as it would be if it ended here; in w->rest. */
static vkf_status text_from(writer *w, const prompt *p, size_t from, const char **out) {
  const size_t settled = VKF_MIN(from, p->text.size);
  w->rest.size = 0;
  vkf_text_append(&w->rest, p->text.size ? p->text.data + settled : "", p->text.size - settled);
  vkf_status st = stream_rest(w, p, &w->rest);
  if (st == VKF_OK) st = vkf_text_status(&w->rest);
  if (st == VKF_OK) *out = w->rest.data + VKF_MIN(from - settled, w->rest.size);
  return st;
}

/* Returns where the first stop string begins in `text`, or the length of `text`. */
static size_t find_stop(const writer *w, const char *text) {
  size_t end = strlen(text);
  for (size_t i = 0; i < w->params.n_stops; i++) {
    const char *at = strstr(text, w->params.stops[i]);
    if (at) end = VKF_MIN(end, (size_t)(at - text));
  }
  return end;
}

/* Returns how many settled bytes come before what may be the beginning of a stop string. */
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

/* Returns a prompt's number in the call. */
static size_t number_of(const prompt *p) {
  return p->group->parts.rules.first + p->part->text;
}

/* Passes text [n] to the caller. */
static void hand_on(writer *w, prompt *p, const char *text, size_t n) {
  if (!w->is_streaming || n == 0 || w->is_stopped) return;
  VKF_CALLBACK(w->session->env, w->is_stopped = w->params.on_text(w->params.user, number_of(p), text, n) != 0);
}

/* Passes p->text up to `end` to the caller. */
static void hand_on_settled(writer *w, prompt *p, size_t end) {
  if (end <= p->n_handed) return;
  hand_on(w, p, p->text.data + p->n_handed, end - p->n_handed);
  p->n_handed = end;
}

/* Adds a token. Looks for stop strings only where it may have completed one. */
static vkf_status add_token(writer *w, prompt *p, int32_t token) {
  size_t longest = 1;
  for (size_t i = 0; i < w->params.n_stops; i++) longest = VKF_MAX(longest, strlen(w->params.stops[i]));
  const size_t safe = p->text.size - VKF_MIN(p->text.size, longest - 1), from = VKF_MAX(safe, p->begin);
  VKF_CALL(stream_add(w, p, token, &p->text));
  if (w->params.n_stops) {
    const char *text = NULL;
    VKF_CALL(text_from(w, p, from, &text));
    const size_t end = find_stop(w, text);
    p->is_stopped = text[end] != 0;
    if (p->is_stopped) { /* the text before it may not be settled yet */
      hand_on_settled(w, p, VKF_MIN(from, p->text.size));
      const size_t handed = p->n_handed - VKF_MIN(p->n_handed, from);
      if (end > handed) hand_on(w, p, text + handed, end - handed);
      return VKF_OK;
    }
  }
  hand_on_settled(w, p, without_begun_stop(w, p));
  return VKF_OK;
}

/* Starts the stream of a prompt; for a decoder, with the prompt's ids. */
static vkf_status begin_stream(writer *w, prompt *p) {
  vkf_text_stream_destroy(&p->stream);
  p->text.size = p->begin = p->n_handed = 0;
  VKF_CALL(stream_create(w, p));
  for (uint32_t i = 0; w->is_decoder && i < p->part->n; i++) VKF_CALL(stream_add(w, p, p->part->ids[i], &p->text));
  const char *text = "";
  if (w->is_decoder) VKF_CALL(text_from(w, p, 0, &text));
  p->begin = p->n_handed = strlen(text);
  return VKF_OK;
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* *out: the text of a sequence up to the first stop string; the arena owns it. */
static vkf_status make_text(writer *w, prompt *p, const vkf_task_sequence *s, char **out) {
  VKF_CALL(begin_stream(w, p));
  for (size_t i = 0; i < s->n; i++) VKF_CALL(stream_add(w, p, s->ids[i], &p->text));
  const char *text = NULL;
  VKF_CALL(text_from(w, p, p->begin, &text));
  *out = vkf_arena_printf(&p->group->parts.arena, "%.*s", (int)find_stop(w, text), text);
  if (!*out) return VKF_ERROR_MEMORY;
  return VKF_OK;
}

/* Keeps row `row` of a prompt's results as its sequence `row`, with row first_row + row of the log-probabilities. */
static vkf_status take_row(writer *w, prompt *p, const vkf_generated *results, uint32_t row, const vkf_logprobs *l,
                           uint32_t first_row) {
  const size_t at = p->part->text * w->each + row;
  vkf_task_sequence *sequence = &p->group->sequences[at];
  const uint32_t n_prompt = w->is_decoder ? p->part->n : 1; /* the start id */
  const vkf_task_sequence_source source = {&w->config, results, l, row, first_row + row, n_prompt, .first = n_prompt};
  VKF_CALL(vkf_task_sequence_take(&p->group->parts.arena, &source, sequence));
  if (p->is_stopped) sequence->score = NAN;
  const size_t n_handed = p->n_handed;
  VKF_CALL(make_text(w, p, sequence, &p->group->texts[at]));
  const char *text = p->group->texts[at];
  const size_t done = n_handed - VKF_MIN(n_handed, p->begin);
  if (!p->is_stopped && strlen(text) > done) hand_on(w, p, text + done, strlen(text) - done);
  return VKF_OK;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static uint64_t limit_of(const writer *w, uint32_t n_prompt) {
  return vkf_engine_length_limit(w->session, &w->config, false, true, n_prompt);
}

/* Returns the length of the longest prompt that is not truncated. It leaves room for the new ids that are asked for,
 * but at most half of the positions. 0: all positions. */
static uint32_t longest_prompt(const writer *w) {
  const vkf_generation_config *c = &w->config;
  const uint32_t positions = vkf_model_net_info(w->session->model->net)->max_positions;
  if (!w->is_decoder || !positions || w->params.long_texts != VKF_LONG_TRUNCATE) return 0;
  if (!c->max_new_tokens && c->max_length > 1) return VKF_MIN(positions, c->max_length - 1);
  return positions - (uint32_t)VKF_MIN(limit_of(w, 0) - 1, positions / 2); /* new ids; the last is not fed */
}

/* Refuses prompts that leave no room for new ids. */
static vkf_status refuse_full(writer *w, group *g) {
  for (size_t i = 0; w->is_decoder && i < g->parts.n; i++) {
    const vkf_part *part = &g->parts.at[i];
    const uint64_t limit = limit_of(w, part->n);
    if (part->n < limit) continue;
    g->prompts[part->text].part = NULL;
    VKF_CALL(vkf_task_parts_refuse(&g->parts, part->text, VKF_SKIP_LONG,
                                   "expected fewer than %llu tokens, so that more have room, found %u",
                                   (unsigned long long)limit, part->n));
  }
  return VKF_OK;
}

/* Call finish even if this fails. */
static vkf_status group_init(writer *w, group *g, const char *const *texts, size_t n) {
  const vkf_part_rules rules = {.long_texts = w->params.long_texts,
                                .first = w->n_came,
                                .skip_refused = w->params.skip_refused,
                                .keeps_end = w->is_decoder,
                                .max_ids = longest_prompt(w),
                                .source_language = w->params.source_language,
                                .target_language = w->params.target_language};
  VKF_CALL(vkf_task_parts_make(w->session, texts, n, &rules, &g->parts));
  prompt *prompts = vkf_arena_alloc(&g->parts.arena, n, sizeof *prompts);
  g->sequences = vkf_arena_alloc(&g->parts.arena, n * w->each, sizeof *g->sequences);
  g->texts = vkf_arena_alloc(&g->parts.arena, n * w->each, sizeof *g->texts);
  if (!prompts || !g->sequences || !g->texts) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    prompts[i].group = g;
    vkf_text_init(&prompts[i].text, w->session->env);
  }
  for (size_t i = 0; i < g->parts.n; i++) prompts[g->parts.at[i].text].part = &g->parts.at[i];
  g->prompts = prompts;
  g->n = n;
  w->n_came += n;
  return refuse_full(w, g);
}

static void group_finish(group *g) {
  for (size_t i = 0; i < g->n; i++) {
    vkf_text_stream_destroy(&g->prompts[i].stream);
    vkf_text_finish(&g->prompts[i].text);
  }
  vkf_task_parts_finish(&g->parts);
}

static vkf_status make_result(const writer *w, const group *g, vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_result *result = NULL;
  const size_t rows = g->n * w->each;
  const uint32_t n_vocab = vkf_model_net_info(w->session->model->net)->target_vocab;
  for (size_t i = 0; i < rows; i++)
    if (!g->texts[i]) g->sequences[i].score = NAN;
  VKF_TRY(vkf_engine_result_create(w->session->env, &result));
  VKF_TRY(vkf_task_sequences_add(g->sequences, rows, -1, vkf_decode_search_scores(&w->config, w->params.scores),
                                 VKF_MIN(w->params.top_logprobs, n_vocab), result));
  for (size_t i = 0; i < rows; i++) VKF_TRY(vkf_engine_result_add_text(result, g->texts[i]));
  VKF_TRY(vkf_task_parts_report(&g->parts, result));
done:
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}

/* ---- prompts that come one by one -------------------------------------------------------------------------------- */

static void group_destroy(writer *w, group *g) {
  group **at = &w->groups;
  while (*at != g) at = &(*at)->next;
  *at = g->next;
  group_finish(g);
  vkf_env_free(w->session->env, g);
}

/* Gives the caller the result of a prompt from the queue, and frees the prompt. */
static vkf_status deliver(writer *w, group *g) {
  vkf_result *result = NULL;
  const vkf_status st = make_result(w, g, &result);
  if (!st) w->is_stopped |= vkf_task_queue_done(w->session->env, w->queue, g->tag, result);
  vkf_engine_result_destroy(&result);
  group_destroy(w, g);
  return st;
}

/* Takes the next prompt from the queue, if there is one now. */
static vkf_status take_next(writer *w) {
  vkf_env *env = w->session->env;
  while (!w->group && !w->is_stopped) {
    vkf_queued_text text;
    w->is_stopped = vkf_task_queue_next(env, w->queue, w->groups != NULL, &text);
    if (!text.text) break;
    if (text.target_prefix)
      return vkf_env_fail(env, VKF_ERROR_UNSUPPORTED,
                          "expected no target_prefix, which is for translations, found one");
    group *g = vkf_env_alloc(env, 1, sizeof *g);
    if (!g) return VKF_ERROR_MEMORY;
    *g = (group){.line = text.line, .tag = text.tag, .next = w->groups};
    w->groups = g;
    VKF_CALL(group_init(w, g, &text.text, 1));
    if (g->prompts[0].part)
      w->group = g;
    else
      VKF_CALL(deliver(w, g)); /* it was skipped */
  }
  return VKF_OK;
}

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

static vkf_status next(void *user, vkf_request *out, bool *there) {
  writer *w = user;
  if (w->queue) VKF_CALL(take_next(w));
  group *g = w->group;
  while (g && g->n_begun < g->n && !g->prompts[g->n_begun].part) g->n_begun++;
  *there = g && g->n_begun < g->n;
  if (!*there) return VKF_OK;
  prompt *p = &g->prompts[g->n_begun++];
  const size_t text = p->part->text;
  if (w->queue) w->group = NULL;
  *out = (vkf_request){.user = p,
                       .number = number_of(p),
                       .input = {.line = w->queue          ? g->line
                                         : w->params.lines ? w->params.lines[text]
                                                           : text}};
  if (w->is_decoder) {
    out->input.prompt = p->part->ids;
    out->input.n_prompt = p->part->n;
  } else {
    out->input.source = p->part->ids;
    out->input.n_source = p->part->n;
  }
  return begin_stream(w, p);
}

static vkf_answer on_token(void *user, const vkf_request *request, uint32_t row, int32_t token) {
  writer *w = user;
  prompt *p = request->user;
  (void)row;
  w->st = add_token(w, p, token);
  if (w->st != VKF_OK) vkf_env_save_failure(w->session->env, &w->failure);
  return w->st != VKF_OK || w->is_stopped ? VKF_ANSWER_STOP : p->is_stopped ? VKF_ANSWER_END : VKF_ANSWER_CONTINUE;
}

static vkf_status take(void *user, const vkf_request *request, const vkf_generated *results,
                       const vkf_logprobs *logprobs, uint32_t row) {
  writer *w = user;
  prompt *p = request->user;
  if (w->st != VKF_OK) { /* a callback failed */
    vkf_env_restore_failure(w->session->env, &w->failure);
    VKF_CALL(w->st);
  }
  for (uint32_t r = 0; r < w->each; r++) VKF_CALL(take_row(w, p, results, r, logprobs, row));
  vkf_text_stream_destroy(&p->stream);
  vkf_text_finish(&p->text);
  return w->queue && !w->is_stopped ? deliver(w, p->group) : VKF_OK; /* on_text may have stopped the call */
}

static vkf_status refuse(void *user, const vkf_request *request, vkf_skip_reason reason) {
  writer *w = user;
  const prompt *p = request->user;
  VKF_CALL(vkf_task_parts_refuse(&p->group->parts, p->part->text, reason, "%s", w->session->env->message));
  return w->queue ? deliver(w, p->group) : VKF_OK;
}

/* n: number of prompts; longest: ids of the longest; 0: unknown. */
static vkf_status run(writer *w, size_t n, uint32_t longest) {
  return vkf_task_schedule_run(&(vkf_schedule){.session = w->session,
                                               .config = &w->config,
                                               .n_requests = n,
                                               .batch_size = w->params.batch_size,
                                               .n_longest = longest,
                                               .top_logprobs = w->params.top_logprobs,
                                               .scores = w->params.scores,
                                               .ends_with_positions = true,
                                               .is_stopped = w->queue ? &w->is_stopped : NULL,
                                               .next = next,
                                               .on_token = w->is_watched ? on_token : NULL,
                                               .take = take,
                                               .refuse = refuse,
                                               .user = w});
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */

static vkf_status check(const writer *w) {
  for (size_t i = 0; i < w->params.n_stops; i++)
    if (!w->params.stops || !w->params.stops[i] || !w->params.stops[i][0])
      return vkf_env_fail(w->session->env, VKF_ERROR_ARGUMENT, "expected a text as stop string %zu, found none", i + 1);
    else if (!vkf_utf8_check(w->params.stops[i], strlen(w->params.stops[i]), NULL))
      return vkf_env_fail(w->session->env, VKF_ERROR_ARGUMENT, "expected UTF-8 as stop string %zu, found other bytes",
                          i + 1);
  if (w->params.long_texts == VKF_LONG_SPLIT)
    return vkf_env_fail(w->session->env, VKF_ERROR_ARGUMENT,
                        "expected prompts that are truncated or refused where they are too long, found a rule that "
                        "splits them: what follows a part is not what follows the prompt");
  return VKF_OK;
}

/* Starts a call. Call end_call() even if this fails. */
static vkf_status begin_call(writer *w, const vkf_generate_text_params *params) {
  vkf_session *session = w->session;
  VKF_CALL(VKF_PARAMS_READ(session->env, vkf_generate_text_params, params, &w->params));
  vkf_text_init(&w->rest, session->env);
  VKF_CALL(vkf_engine_derive_generation(session, w->params.source_language, w->params.target_language,
                                        w->params.config_json, &w->config));
  VKF_CALL(check(w));
  w->is_decoder = vkf_model_net_info(session->model->net)->architecture == VKF_ARCHITECTURE_DECODER;
  w->each = VKF_MAX(w->config.num_return_sequences, 1);
  w->is_streaming = w->params.on_text && w->each == 1 && w->config.num_beams == 1;
  w->is_watched = w->each == 1 && w->config.num_beams == 1 && (w->is_streaming || w->params.n_stops);
  return VKF_OK;
}

static void end_call(writer *w) {
  while (w->groups) group_destroy(w, w->groups);
  vkf_text_finish(&w->rest);
  vkf_decode_generation_finish(&w->config);
}

static vkf_status generate_text(vkf_session *session, const char *const *texts, size_t n,
                                const vkf_generate_text_params *params, vkf_result **out) {
  vkf_status st = VKF_OK;
  group all = {0};
  writer w = {.session = session, .group = &all};
  uint32_t longest = 0;
  VKF_TRY(begin_call(&w, params));
  VKF_TRY(group_init(&w, &all, texts, n));
  size_t n_there = 0;
  for (size_t i = 0; i < n; i++) {
    if (!all.prompts[i].part) continue;
    longest = VKF_MAX(longest, all.prompts[i].part->n);
    n_there++;
  }
  VKF_TRY(run(&w, n_there, longest));
  VKF_TRY(make_result(&w, &all, out));
  if (w.is_stopped) st = vkf_env_fail(session->env, VKF_ERROR_STOPPED, "the text callback asked to stop");
done:
  group_finish(&all);
  end_call(&w);
  return st;
}

vkf_status vkf_session_generate_text(vkf_session *session, const char *const *texts, size_t n,
                                     const vkf_generate_text_params *params, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, generate_text(session, texts, n, params, out));
}

static vkf_status generate_queue(vkf_session *session, const vkf_text_queue *given,
                                 const vkf_generate_text_params *params) {
  vkf_status st = VKF_OK;
  vkf_text_queue queue;
  writer w = {.session = session, .queue = &queue};
  VKF_TRY(vkf_task_queue_read(session->env, given, &queue));
  VKF_TRY(begin_call(&w, params));
  VKF_TRY(run(&w, 0, 0));
  if (w.is_stopped) st = vkf_env_fail(session->env, VKF_ERROR_STOPPED, "a callback asked to stop");
done:
  end_call(&w);
  return st;
}

vkf_status vkf_session_generate_text_queue(vkf_session *session, const vkf_text_queue *queue,
                                           const vkf_generate_text_params *params) {
  VKF_CALL(vkf_engine_session_begin(session, "vkf_session_generate_text_queue"));
  return vkf_engine_session_end(session, generate_queue(session, queue, params), NULL);
}
