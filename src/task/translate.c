/* translate: translates texts. Sentences take seats (schedule.h): when one is done, the next gets its seat, whether it
 * is of the same call's texts or of one that came from the queue meanwhile.
 *
 * In class ascending other sentences change speed, never bits: kernels sum in the same order for every shape.
 */
#include <stdlib.h>
#include <string.h>

#include "task/queue.h"
#include "task/translation.h"

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static int by_length(const void *a, const void *b) {
  const vkf_part *x = (*(vkf_sentence *const *)a)->part, *y = (*(vkf_sentence *const *)b)->part;
  if (x->n != y->n) return x->n < y->n ? 1 : -1; /* the longest first: the last ones end sooner */
  return x < y ? -1 : 1;
}

/* Tokenizes a piece of a target, without special tokens. */
static vkf_status encode_target(vkf_translator *t, const char *text, vkf_text_ids *ids) {
  ids->n = 0;
  vkf_text_tokenizer *tokenizer = vkf_engine_tokenizer_lock(&t->session->tokenizer);
  vkf_status st = vkf_text_tokenizer_of_targets(tokenizer, &tokenizer);
  if (st == VKF_OK) st = vkf_text_tokenizer_encode(tokenizer, text, strlen(text), false, ids);
  vkf_engine_tokenizer_unlock(&t->session->tokenizer);
  return st;
}

/* Makes the prompt of a sentence: the ids that its target begins with, or that pull its beginning. */
static vkf_status make_prompt(vkf_translator *t, vkf_sentence *s, const char *prefix, vkf_text_ids *ids) {
  const vkf_generation_config *c = &t->config;
  const int32_t start = vkf_decode_generation_start(c);
  const uint32_t n_before = c->forced_bos != VKF_NO_TOKEN ? 2 : 1; /* start, language */
  const vkf_status st = encode_target(t, prefix, ids);
  if (st || start == VKF_NO_TOKEN || !ids->n) return st; /* without a start the search fails and says so */
  s->n_pull = c->prefix_bias_beta > 0 ? (uint32_t)ids->n : 0;
  s->n_prompt = n_before + (uint32_t)ids->n - s->n_pull;
  s->prompt = vkf_arena_alloc(&s->group->parts.arena, n_before + ids->n, sizeof *s->prompt);
  if (!s->prompt) return VKF_ERROR_MEMORY;
  s->prompt[n_before - 1] = c->forced_bos;
  s->prompt[0] = start;
  memcpy(s->prompt + n_before, ids->ids, ids->n * sizeof *s->prompt);
  return VKF_OK;
}

static bool is_too_long(const vkf_translator *t, const vkf_sentence *s) {
  return s->n_prompt >= vkf_engine_length_limit(t->session, &t->config, true, true, s->n_prompt);
}

/* Gives the first sentence of each text its prefix. If that is too long or not UTF-8, the text is refused and its
 * sentences are dropped. */
static vkf_status add_prefixes(vkf_translator *t, vkf_text_group *g, const char *const *prefixes) {
  vkf_status st = VKF_OK;
  size_t n = 0;
  vkf_text_ids ids;
  vkf_text_ids_init(&ids, t->session->env);
  for (size_t i = 0; i < g->n; i++) {
    vkf_sentence s = g->sentences[i];
    const size_t text = s.part->text;
    const bool is_first = i == 0 || g->sentences[i - 1].part->text != text;
    if (is_first && prefixes[text] && !vkf_utf8_check(prefixes[text], strlen(prefixes[text]), NULL))
      VKF_TRY(
          vkf_task_parts_refuse(&g->parts, text, VKF_SKIP_INVALID, "the beginning of its translation is not UTF-8"));
    else if (is_first && prefixes[text])
      VKF_TRY(make_prompt(t, &s, prefixes[text], &ids));
    if (s.prompt && is_too_long(t, &s))
      VKF_TRY(vkf_task_parts_refuse(&g->parts, text, VKF_SKIP_LONG,
                                    "the beginning of its translation has %u tokens, the start included, and leaves no "
                                    "room for more",
                                    s.n_prompt));
    if (g->parts.why[text]) continue;
    s.targets = g->targets + n * t->each;
    g->sentences[n++] = s;
  }
  g->n = n;
done:
  vkf_text_ids_finish(&ids);
  return st;
}

static vkf_status group_init(vkf_translator *t, vkf_text_group *g, const char *const *texts,
                             const char *const *prefixes, size_t n) {
  const vkf_part_rules rules = {.long_texts = t->params.long_texts,
                                .first = t->n_came,
                                .skip_refused = t->params.skip_refused,
                                .refuses_blanks = true,
                                .source_language = t->params.source_language,
                                .target_language = t->params.target_language};
  t->n_came += n;
  VKF_CALL(vkf_task_parts_make(t->session, texts, n, &rules, &g->parts));
  g->n = g->parts.n;
  g->sentences = vkf_arena_alloc(&g->parts.arena, g->n, sizeof *g->sentences);
  g->order = vkf_arena_alloc(&g->parts.arena, g->n, sizeof(vkf_sentence *));
  g->targets = vkf_arena_alloc(&g->parts.arena, g->n * t->each, sizeof *g->targets);
  if (!g->sentences || !g->order || !g->targets) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < g->n; i++)
    g->sentences[i] = (vkf_sentence){.part = &g->parts.at[i], .group = g, .targets = g->targets + i * t->each};
  if (prefixes) VKF_CALL(add_prefixes(t, g, prefixes));
  for (size_t i = 0; i < g->n; i++) g->order[i] = &g->sentences[i];
  qsort(g->order, g->n, sizeof(vkf_sentence *), by_length);
  return VKF_OK;
}

/* ---- texts that come one by one ---------------------------------------------------------------------------------- */

static void group_destroy(vkf_translator *t, vkf_text_group *g) {
  vkf_text_group **at = &t->groups;
  while (*at != g) at = &(*at)->next;
  *at = g->next;
  vkf_task_parts_finish(&g->parts);
  vkf_env_free(t->session->env, g);
}

/* Gives the caller the result of a text from the queue, and frees the text. */
static vkf_status deliver(vkf_translator *t, vkf_text_group *g) {
  vkf_result *result = NULL;
  const vkf_status st = vkf_task_translation_result(t, g, &result);
  if (!st) t->is_stopped |= vkf_task_queue_done(t->session->env, t->queue, g->tag, result);
  vkf_engine_result_destroy(&result);
  group_destroy(t, g);
  return st;
}

/* Takes the next text from the queue, if there is one now. */
static vkf_status take_next(vkf_translator *t) {
  while (!t->group && !t->is_stopped) {
    vkf_queued_text text;
    t->is_stopped = vkf_task_queue_next(t->session->env, t->queue, t->groups != NULL, &text);
    if (!text.text) break;
    vkf_text_group *g = vkf_env_alloc(t->session->env, 1, sizeof *g);
    if (!g) return VKF_ERROR_MEMORY;
    *g = (vkf_text_group){.line = text.line, .tag = text.tag, .next = t->groups};
    t->groups = g;
    VKF_CALL(group_init(t, g, &text.text, &text.target_prefix, 1));
    if (g->n > 0)
      t->group = g;
    else
      VKF_CALL(deliver(t, g)); /* it was skipped */
  }
  return VKF_OK;
}

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

static vkf_status next(void *user, vkf_request *out, bool *there) {
  vkf_translator *t = user;
  if (t->queue) VKF_CALL(take_next(t));
  vkf_text_group *g = t->group;
  *there = g && g->n_begun < g->n;
  if (!*there) return VKF_OK;
  vkf_sentence *s = g->order[g->n_begun++];
  const size_t text = s->part->text;
  if (t->queue && g->n_begun == g->n) t->group = NULL;
  *out = (vkf_request){.user = s,
                       .number = g->parts.rules.first + text,
                       .input = {.prompt = s->prompt,
                                 .n_prompt = s->n_prompt,
                                 .pull = s->prompt ? s->prompt + s->n_prompt : NULL,
                                 .n_pull = s->n_pull,
                                 .source = s->part->ids,
                                 .n_source = s->part->n,
                                 .line = t->queue          ? g->line
                                         : t->params.lines ? t->params.lines[text]
                                                           : text + t->params.first_line}};
  return VKF_OK;
}

static vkf_answer on_token(void *user, const vkf_request *request, uint32_t copy, int32_t token) {
  vkf_translator *t = user;
  (void)copy;
  VKF_CALLBACK(t->session->env, t->is_stopped |= t->params.on_token(t->params.user, request->number, token) != 0);
  return t->is_stopped ? VKF_ANSWER_STOP : VKF_ANSWER_CONTINUE;
}

static vkf_answer on_beams(void *user, const vkf_request *request, uint32_t search,
                           const vkf_beam_candidate *candidates, uint32_t n) {
  vkf_translator *t = user;
  VKF_CALLBACK(t->session->env,
               t->is_stopped |= t->params.on_beams(t->params.user, request->number, search, candidates, n) != 0);
  return t->is_stopped ? VKF_ANSWER_STOP : VKF_ANSWER_CONTINUE;
}

/* Counts a sentence as done. The last one of a text from the queue hands over the result. */
static vkf_status finish_sentence(vkf_translator *t, const vkf_sentence *s) {
  vkf_text_group *g = s->group;
  return ++g->n_done == g->n && t->queue ? deliver(t, g) : VKF_OK;
}

static bool is_aligned(const vkf_translator *t) {
  return t->links || t->params.alignments || t->params.replace_unknowns || t->config.coverage_penalty > 0;
}

/* Sorts the hypotheses by score plus coverage penalty. Ties keep their order. */
static void rank_by_coverage(vkf_translator *t) {
  for (size_t i = 0; i < t->n_found; i++) {
    vkf_task_sequence one = t->found[i];
    size_t to = i;
    one.score += (float)(t->config.coverage_penalty * vkf_task_coverage(&one));
    for (; to > 0 && t->found[to - 1].score < one.score; to--) t->found[to] = t->found[to - 1];
    t->found[to] = one;
  }
}

static vkf_status take(void *user, const vkf_request *request, const vkf_generated *results,
                       const vkf_logprobs *logprobs, uint32_t first_row) {
  vkf_translator *t = user;
  const vkf_sentence *s = request->user;
  vkf_arena *arena = &s->group->parts.arena;
  for (uint32_t r = 0; r < t->n_found; r++) {
    const vkf_task_sequence_source source = {&t->config,
                                             results,
                                             logprobs,
                                             .row = r,
                                             .logprobs_row = first_row + r,
                                             .n_prompt = s->prompt ? s->n_prompt : 1};
    VKF_CALL(vkf_task_sequence_take(arena, &source, &t->found[r]));
  }
  if (is_aligned(t)) VKF_CALL(vkf_task_align(&t->aligner, arena, s->part, t->found, t->n_found));
  if (t->config.coverage_penalty > 0) rank_by_coverage(t);
  memcpy(s->targets, t->found, t->each * sizeof *s->targets);
  return finish_sentence(t, s);
}

static vkf_status refuse(void *user, const vkf_request *request, vkf_skip_reason reason) {
  vkf_translator *t = user;
  const vkf_sentence *s = request->user;
  VKF_CALL(vkf_task_parts_refuse(&s->group->parts, s->part->text, reason, "%s", t->session->env->message));
  return finish_sentence(t, s);
}

/* Adds the caller's force_words to those of the configuration. */
static vkf_status add_force_words(vkf_translator *t) {
  vkf_status st = VKF_OK;
  const size_t n_before = t->config.force_words.n, n = t->params.n_force_words;
  vkf_id_list *lists = n ? vkf_arena_alloc(&t->config.arena, n_before + n, sizeof *lists) : NULL;
  if (!n) return VKF_OK;
  if (!lists) return VKF_ERROR_MEMORY;
  if (n_before) memcpy(lists, t->config.force_words.lists, n_before * sizeof *lists);
  for (size_t i = 0; i < n && !st; i++) {
    const char *words = t->params.force_words ? t->params.force_words[i] : NULL;
    if (!words || vkf_task_is_blank(words))
      return vkf_env_fail(t->session->env, VKF_ERROR_ARGUMENT, "force_words %zu: expected words, found none", i + 1);
    vkf_text_ids ids;
    vkf_text_ids_init(&ids, t->session->env);
    st = encode_target(t, words, &ids);
    int32_t *copy = st ? NULL : vkf_arena_alloc(&t->config.arena, ids.n, sizeof *copy);
    if (!st && !copy) st = VKF_ERROR_MEMORY;
    if (!st) memcpy(copy, ids.ids, ids.n * sizeof *copy);
    lists[n_before + i] = (vkf_id_list){copy, (uint32_t)ids.n};
    vkf_text_ids_finish(&ids);
  }
  t->config.force_words = (vkf_id_lists){.lists = lists, .n = (uint32_t)(n_before + n)};
  return st;
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */

/* Makes a search return all its hypotheses, so that coverage can rank them. */
static vkf_status choose_by_coverage(vkf_translator *t) {
  vkf_generation_config *c = &t->config;
  if (c->do_sample || c->return_alternatives)
    return vkf_env_fail(c->env, VKF_ERROR_UNSUPPORTED,
                        "generation configuration: \"coverage_penalty\" with \"%s\" is not supported: expected one of "
                        "the two",
                        c->do_sample ? "do_sample" : "return_alternatives");
  VKF_CALL(vkf_engine_generation_check(t->session, c));
  c->num_return_sequences = c->num_beams;
  if (c->patience > 0 && c->num_beams > 1)
    c->num_return_sequences = (uint32_t)VKF_MIN(c->num_beams, vkf_decode_generation_patience(c));
  t->n_found = c->num_return_sequences;
  return VKF_OK;
}

/* Starts a call. Call finish() even if this fails. */
static vkf_status begin(vkf_translator *t, const vkf_generate_params *params) {
  vkf_session *session = t->session;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  VKF_CALL(VKF_PARAMS_READ(session->env, vkf_generate_params, params, &t->params));
  if (info->architecture != VKF_ARCHITECTURE_ENCODER_DECODER)
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED,
                        "expected an encoder-decoder to translate with, found %s (family %s)",
                        vkf_model_architecture_name(info->architecture), info->family);
  if (!session->model->tokenizer.text)
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED, "translating needs a tokenizer: %s",
                        session->model->tokenizer.why);
  VKF_CALL(vkf_engine_derive_generation(session, t->params.source_language, t->params.target_language,
                                        t->params.config_json, &t->config));
  VKF_CALL(add_force_words(t));
  t->each = t->n_found = VKF_MAX(t->config.num_return_sequences, 1);
  if (t->config.coverage_penalty > 0) VKF_CALL(choose_by_coverage(t));
  t->found = vkf_env_alloc(session->env, t->n_found, sizeof *t->found);
  if (!t->found) return VKF_ERROR_MEMORY;
  if (!is_aligned(t) && !t->params.align_heads) return VKF_OK;
  VKF_CALL(vkf_task_aligner_init(&t->aligner, session, t->params.align_heads));
  t->aligner.links = t->links;
  return VKF_OK;
}

static void finish(vkf_translator *t) {
  vkf_task_aligner_finish(&t->aligner);
  vkf_env_free(t->session->env, t->found);
  vkf_decode_generation_finish(&t->config);
}

/* n: number of sentences; longest: ids of the longest; 0: unknown. */
static vkf_status run(vkf_translator *t, size_t n, uint32_t longest) {
  return vkf_task_schedule_run(&(vkf_schedule){.session = t->session,
                                               .config = &t->config,
                                               .n_requests = n,
                                               .batch_size = t->params.batch_size,
                                               .n_longest = longest,
                                               .shortlist = t->params.shortlist,
                                               .scores = t->params.scores,
                                               .translates = true,
                                               .ends_with_positions = true,
                                               .is_stopped = t->queue ? &t->is_stopped : NULL,
                                               .next = next,
                                               .on_token = t->params.on_token ? on_token : NULL,
                                               .on_beams = t->params.on_beams ? on_beams : NULL,
                                               .take = take,
                                               .refuse = refuse,
                                               .user = t});
}

/* links: gets the links of every translation; NULL: none are wanted. */
static vkf_status translate(vkf_session *session, const char *const *texts, size_t n, const vkf_generate_params *params,
                            vkf_links *links, vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_text_group all = {0};
  vkf_translator t = {.session = session, .group = &all, .links = links};
  VKF_TRY(begin(&t, params));
  VKF_TRY(group_init(&t, &all, texts, t.params.target_prefixes, n));
  VKF_TRY(run(&t, all.n, all.n ? all.order[0]->part->n : 0));
  VKF_TRY(vkf_task_translation_result(&t, &all, out));
  if (t.is_stopped) st = vkf_env_fail(session->env, VKF_ERROR_STOPPED, "the token callback asked to stop");
done:
  vkf_task_parts_finish(&all.parts);
  finish(&t);
  return st;
}

vkf_status vkf_session_translate(vkf_session *session, const char *const *texts, size_t n_texts,
                                 const vkf_generate_params *params, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, translate(session, texts, n_texts, params, NULL, out));
}

static vkf_status find_heads(vkf_session *session, const char *const *texts, size_t n,
                             const vkf_generate_params *params, vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_result *translations = NULL;
  vkf_links links;
  vkf_task_links_init(&links, session);
  VKF_TRY(translate(session, texts, n, params, &links, &translations));
  VKF_TRY(vkf_task_links_result(&links, n, out));
done:
  vkf_engine_result_destroy(&translations);
  vkf_task_links_finish(&links);
  return st;
}

vkf_status vkf_session_align_heads(vkf_session *session, const char *const *texts, size_t n_texts,
                                   const vkf_generate_params *params, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, find_heads(session, texts, n_texts, params, out));
}

static vkf_status translate_queue(vkf_session *session, const vkf_text_queue *given,
                                  const vkf_generate_params *params) {
  vkf_status st = VKF_OK;
  vkf_text_queue queue;
  vkf_translator t = {.session = session, .queue = &queue};
  VKF_TRY(vkf_task_queue_read(session->env, given, &queue));
  VKF_TRY(begin(&t, params));
  VKF_TRY(run(&t, 0, 0));
  if (t.is_stopped) st = vkf_env_fail(session->env, VKF_ERROR_STOPPED, "a callback asked to stop");
done:
  while (t.groups) group_destroy(&t, t.groups);
  finish(&t);
  return st;
}

vkf_status vkf_session_translate_queue(vkf_session *session, const vkf_text_queue *queue,
                                       const vkf_generate_params *params) {
  VKF_CALL(vkf_engine_session_begin(session, "vkf_session_translate_queue"));
  return vkf_engine_session_end(session, translate_queue(session, queue, params), NULL);
}
