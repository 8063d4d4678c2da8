/* parts: see parts.h. */
#include "task/parts.h"

#include <stdio.h>
#include <string.h>

/* ---- what is refused --------------------------------------------------------------------------------------------- */

vkf_status vkf_task_parts_refuse(vkf_parts *p, size_t text, vkf_skip_reason reason, const char *fmt, ...) {
  char why[sizeof p->session->env->message];
  va_list args;
  va_start(args, fmt);
  vsnprintf(why, sizeof why, fmt, args);
  va_end(args);
  if (!p->rules.skip_refused) {
    vkf_env_fail(p->session->env, VKF_ERROR_ARGUMENT, "%s", why); /* kept only if nothing failed before */
    return vkf_env_prefix(p->session->env, VKF_ERROR_ARGUMENT, "text %zu: ", p->rules.first + text + 1);
  }
  p->skipped[text] = reason;
  p->why[text] = vkf_arena_strdup(&p->arena, why);
  return p->why[text] ? VKF_OK : VKF_ERROR_MEMORY;
}

vkf_status vkf_task_parts_report(const vkf_parts *p, vkf_result *result) {
  return vkf_engine_result_skip(result, p->n_texts, p->skipped, p->why);
}

/* ---- one text ---------------------------------------------------------------------------------------------------- */

/* Appends a part with copies of its ids and types. types NULL: it is not of a pair. */
static vkf_status add_part(vkf_parts *p, vkf_part part, const vkf_text_ids *ids, const vkf_text_ids *types) {
  vkf_part *grown = vkf_env_grow(p->session->env, p->at, &p->capacity, p->n + 1, sizeof *grown);
  if (!grown) return VKF_ERROR_MEMORY;
  p->at = grown;
  part.n = (uint32_t)ids->n;
  part.ids = vkf_arena_alloc(&p->arena, ids->n, sizeof *part.ids);
  if (types) part.types = vkf_arena_alloc(&p->arena, ids->n, sizeof *part.types);
  if (!part.ids || (types && !part.types)) return VKF_ERROR_MEMORY;
  memcpy(part.ids, ids->ids, ids->n * sizeof *part.ids);
  if (types) memcpy(part.types, types->ids, ids->n * sizeof *part.types);
  p->at[p->n++] = part;
  return VKF_OK;
}

/* Adds the parts of a text that is too long. */
static vkf_status cut_text(vkf_parts *p, size_t index, const char *text, vkf_text_ids *ids) {
  const bool split = p->rules.long_texts == VKF_LONG_SPLIT, from_end = p->rules.keeps_end && !split;
  const size_t first = p->n;
  for (const char *at = text; !vkf_task_is_blank(at);) {
    size_t n = 0;
    VKF_CALL(vkf_task_cut(p, at, split, from_end, &n));
    if (n == 0) {
      p->n = first;
      return vkf_task_parts_refuse(p, index, VKF_SKIP_LONG,
                                   "a single character of it has more tokens than the model has positions");
    }
    ids->n = 0;
    const char *start = from_end ? at + strlen(at) - n : at;
    const bool spaced = at > text && vkf_task_is_space(at[-1]);
    VKF_CALL(vkf_task_part_ids(p, start, n, ids));
    VKF_CALL(add_part(p, (vkf_part){index, .spaced = spaced, .is_cut = true, .start = start, .size = n}, ids, NULL));
    if (!split) break;
    at += n;
    while (vkf_task_is_space(*at)) at++;
  }
  return VKF_OK;
}

/* Refuses a text that the tokenizer cannot read. */
static vkf_status refuse_unreadable(vkf_parts *p, size_t index) {
  vkf_env_failure failure;
  vkf_env_save_failure(p->session->env, &failure);
  vkf_env_clear(p->session->env);
  return vkf_task_parts_refuse(p, index, VKF_SKIP_INVALID, "%s", failure.message);
}

static vkf_status refuse_empty(vkf_parts *p, size_t index) {
  return vkf_task_parts_refuse(p, index, VKF_SKIP_INVALID, "expected at least one token, found none");
}

static vkf_status refuse_long(vkf_parts *p, size_t index, size_t n_ids) {
  return vkf_task_parts_refuse(p, index, VKF_SKIP_LONG, "expected at most %u tokens, the model's positions, found %zu",
                               p->rules.max_ids, n_ids);
}

static vkf_status add_pair(vkf_parts *p, size_t index, const char *const texts[2]) {
  const bool is_cut = p->rules.long_texts == VKF_LONG_TRUNCATE;
  vkf_text_tokenizer *tokenizer = p->session->model->tokenizer.text; /* the caller has its lock */
  vkf_text_ids ids, types;
  vkf_text_ids_init(&ids, p->session->env);
  vkf_text_ids_init(&types, p->session->env);
  vkf_status st = vkf_task_pair_ids(tokenizer, texts, true, is_cut ? p->rules.max_ids : 0, &ids, &types);
  if (st == VKF_ERROR_ARGUMENT)
    st = refuse_unreadable(p, index);
  else if (st == VKF_OK && ids.n == 0)
    st = refuse_empty(p, index);
  else if (st == VKF_OK && p->rules.max_ids && ids.n > p->rules.max_ids)
    st = refuse_long(p, index, ids.n);
  else if (st == VKF_OK)
    st = add_part(p, (vkf_part){index, .start = texts[0], .size = strlen(texts[0])}, &ids, &types);
  vkf_text_ids_finish(&types);
  vkf_text_ids_finish(&ids);
  return st;
}

static vkf_status add_text(vkf_parts *p, size_t index, const char *text, vkf_text_ids *ids) {
  ids->n = 0;
  if (p->rules.pairs) return add_pair(p, index, (const char *const[]){text, p->rules.pairs[index]});
  if (p->rules.refuses_blanks && vkf_task_is_blank(text))
    return vkf_task_parts_refuse(p, index, VKF_SKIP_INVALID, "expected at least one word, found none");
  vkf_status st = vkf_task_part_ids(p, text, strlen(text), ids);
  if (st == VKF_ERROR_ARGUMENT) return refuse_unreadable(p, index);
  if (st != VKF_OK) return st;
  if (ids->n == 0) return refuse_empty(p, index);
  if (ids->n <= p->rules.max_ids || p->rules.max_ids == 0 || p->rules.takes_all)
    return add_part(p, (vkf_part){index, .start = text, .size = strlen(text)}, ids, NULL);
  if (p->rules.long_texts != VKF_LONG_REFUSE) return cut_text(p, index, text, ids);
  return refuse_long(p, index, ids->n);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

vkf_status vkf_task_parts_make(vkf_session *session, const char *const *texts, size_t n, const vkf_part_rules *rules,
                               vkf_parts *out) {
  vkf_status st = VKF_OK;
  const uint32_t positions = vkf_model_net_info(session->model->net)->max_positions;
  vkf_text_languages_before before;
  vkf_text_tokenizer *tokenizer = NULL;
  int32_t begin; /* not used here; see vkf_engine_derive_generation() */
  vkf_text_ids ids;
  *out = (vkf_parts){.session = session, .rules = *rules, .n_texts = n};
  vkf_arena_init(&out->arena, session->env);
  vkf_text_ids_init(&ids, session->env);
  if (!out->rules.max_ids || (positions && positions < out->rules.max_ids)) out->rules.max_ids = positions;
  if (!session->model->tokenizer.text)
    VKF_FAIL(session->env, VKF_ERROR_UNSUPPORTED, "this needs a tokenizer: %s", session->model->tokenizer.why);
  if (!texts || n == 0) VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected at least one text, found none");
  if ((unsigned)rules->long_texts > VKF_LONG_SPLIT)
    VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected a rule for long texts, found %d", (int)rules->long_texts);
  if (rules->pairs && rules->long_texts == VKF_LONG_SPLIT)
    VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected pairs of texts that are refused or truncated, found split");
  out->skipped = vkf_arena_alloc(&out->arena, n, sizeof *out->skipped);
  out->why = vkf_arena_alloc(&out->arena, n, sizeof *out->why);
  if (!out->skipped || !out->why) VKF_TRY(VKF_ERROR_MEMORY);
  tokenizer = vkf_engine_tokenizer_lock(&session->tokenizer);
  if (vkf_text_tokenizer_cuts_left(tokenizer)) out->rules.keeps_end = true;
  VKF_TRY(vkf_text_languages_use(tokenizer, rules->source_language, rules->target_language, &before, &begin));
  for (size_t i = 0; i < n && st == VKF_OK; i++)
    st = texts[i] && (!rules->pairs || rules->pairs[i])
             ? add_text(out, i, texts[i], &ids)
             : vkf_env_fail(session->env, VKF_ERROR_ARGUMENT, "expected a text as text %zu, found NULL",
                            rules->first + i + 1);
  vkf_text_languages_restore(tokenizer, &before);
done:
  if (tokenizer) vkf_engine_tokenizer_unlock(&session->tokenizer);
  vkf_text_ids_finish(&ids);
  return st;
}

void vkf_task_parts_finish(vkf_parts *p) {
  if (!p->session) return;
  vkf_env_free(p->session->env, p->at);
  vkf_arena_finish(&p->arena);
  *p = (vkf_parts){0};
}
