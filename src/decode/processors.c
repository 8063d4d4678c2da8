/* processors: see processors.h. One function per processor; each appends to a list that has room for it. */
#include "decode/processors.h"

#include <math.h>
#include <string.h>

typedef struct edit_list {
  vkf_logit_edit *at;
  uint32_t n;
} edit_list;

static void append(edit_list *list, vkf_logit_edit_kind kind, int32_t id, float value) {
  list->at[list->n++] = (vkf_logit_edit){(int32_t)kind, id, value, 0};
}

static void forbid(edit_list *list, int32_t id) {
  append(list, VKF_LOGIT_EDIT_SET, id, -INFINITY);
}

static void forbid_all(edit_list *list, const vkf_id_list *ids) {
  for (uint32_t i = 0; i < ids->n; i++) forbid(list, ids->ids[i]);
}

/* Allows only these ids. Drops earlier edits, which would have no effect. */
static void force(edit_list *list, const int32_t *ids, uint32_t n) {
  list->n = 0;
  append(list, VKF_LOGIT_EDIT_FILL, 0, -INFINITY);
  for (uint32_t i = 0; i < n; i++) append(list, VKF_LOGIT_EDIT_SET, ids[i], 0.0f);
}

/* Returns whether the current visit sees the id for the first time. Ids outside the vocabulary are never seen. */
static bool mark_seen(vkf_id_marks *marks, int32_t id) {
  if ((uint32_t)id >= marks->n_vocab || marks->visits[id] == marks->visit) return false;
  marks->visits[id] = marks->visit;
  return true;
}

/* Penalizes every id of a sequence once (Keskar et al. 2019, section 4.1). */
static void penalize(vkf_id_marks *marks, edit_list *list, const int32_t *ids, uint32_t n, double penalty) {
  marks->visit++;
  for (uint32_t i = 0; i < n; i++)
    if (mark_seen(marks, ids[i])) append(list, VKF_LOGIT_EDIT_PENALTY, ids[i], (float)penalty);
}

/* Forbids ids that would repeat an n-gram of `size` ids of `text`, whose first size-1 ids end the history. */
static void forbid_ngrams(vkf_id_marks *marks, edit_list *list, const int32_t *history, uint32_t length,
                          const int32_t *text, uint32_t text_length, uint32_t size) {
  if (size == 0 || length + 1 < size || text_length < size) return;
  const int32_t *tail = history + (length + 1 - size);
  marks->visit++;
  for (uint32_t i = 0; i + size <= text_length; i++) {
    if (memcmp(text + i, tail, (size - 1) * sizeof(*text)) != 0) continue;
    if (mark_seen(marks, text[i + size - 1])) forbid(list, text[i + size - 1]);
  }
}

/* Returns whether all but the last id of a sequence end the history. As in transformers, a sequence of more ids than
 * the history never does, even if it begins with the whole history. */
static bool goes_on(const vkf_id_list *ids, const int32_t *history, uint32_t length) {
  const uint32_t n_before = ids->n - 1;
  if (n_before > 0 && ids->n > length) return false;
  return memcmp(history + (length - n_before), ids->ids, n_before * sizeof(*history)) == 0;
}

/* Adds to an id the float32 sum of its biases, in one edit, as transformers does. */
static void add_biases(const vkf_generation_config *c, edit_list *list, const int32_t *history, uint32_t length) {
  const vkf_id_lists *all = &c->sequence_bias;
  for (uint32_t i = 0; i < all->n;) {
    const int32_t id = vkf_decode_last_id(&all->lists[i]);
    bool any = false;
    float sum = 0;
    for (; i < all->n && vkf_decode_last_id(&all->lists[i]) == id; i++) {
      if (!goes_on(&all->lists[i], history, length)) continue;
      sum += all->biases[i];
      any = true;
    }
    if (any) append(list, VKF_LOGIT_EDIT_ADD, id, sum);
  }
}

/* Adds to end ids a part of their own score, which grows with each new id. At most 1e30 times it: scores stay finite.
 */
static void grow_ends(const vkf_generation_config *c, edit_list *list, uint32_t n_new) {
  if (c->length_decay.factor == 1 || n_new <= c->length_decay.start) return;
  const double part = pow(c->length_decay.factor, n_new - c->length_decay.start) - 1;
  for (uint32_t i = 0; i < c->eos.n; i++) append(list, VKF_LOGIT_EDIT_GROW, c->eos.ids[i], (float)VKF_MIN(part, 1e30));
}

/* Forbids the last id of bad words. A word that is one end id stays allowed. */
static void forbid_words(const vkf_generation_config *c, edit_list *list, const int32_t *history, uint32_t length) {
  for (uint32_t i = 0; i < c->bad_words.n; i++) {
    const vkf_id_list *word = &c->bad_words.lists[i];
    if (word->n == 1 && vkf_decode_id_in(&c->eos, word->ids[0])) continue;
    if (goes_on(word, history, length)) forbid(list, vkf_decode_last_id(word));
  }
}

vkf_status vkf_decode_marks_init(vkf_id_marks *marks, vkf_env *env, uint32_t n_vocab) {
  *marks = (vkf_id_marks){.env = env, .n_vocab = n_vocab};
  marks->visits = vkf_env_alloc(env, n_vocab, sizeof *marks->visits);
  return marks->visits == NULL ? VKF_ERROR_MEMORY : VKF_OK;
}

void vkf_decode_marks_finish(vkf_id_marks *marks) {
  vkf_env_free(marks->env, marks->visits);
  *marks = (vkf_id_marks){0};
}

uint32_t vkf_decode_max_edits(const vkf_generation_config *c, uint32_t length, uint32_t source_length) {
  uint64_t n = (uint64_t)c->sequence_bias.n + c->bad_words.n + c->suppress.n + c->begin_suppress.n;
  if (c->encoder_repetition_penalty != 1.0) n += source_length;
  if (c->repetition_penalty != 1.0) n += length;
  if (c->length_decay.factor != 1.0) n += c->eos.n;
  if (c->no_repeat_ngram_size > 0) n += length;
  if (c->encoder_no_repeat_ngram_size > 0) n += source_length;
  if (c->min_new_tokens == VKF_NOT_GIVEN ? c->min_length > 0 : c->min_new_tokens > 0) n += c->eos.n;
  uint32_t forced = VKF_MAX(c->forced_bos == VKF_NO_TOKEN ? 0 : 2, c->forced_eos.n == 0 ? 0 : 1 + c->forced_eos.n);
  return (uint32_t)VKF_MIN(n + forced, UINT32_MAX);
}

uint32_t vkf_decode_processors_begin(const vkf_processors *p) {
  return p->prompt > 1 || p->config->forced_bos == VKF_NO_TOKEN ? p->prompt : p->prompt + 1;
}

uint32_t vkf_decode_processors_edit(const vkf_processors *p, const int32_t *history, uint32_t length,
                                    const int32_t *source, uint32_t source_length, vkf_logit_edit *out) {
  const vkf_generation_config *c = p->config;
  edit_list list = {out, 0};
  add_biases(c, &list, history, length);
  if (c->encoder_repetition_penalty != 1.0 && source != NULL)
    penalize(p->marks, &list, source, source_length, 1.0 / c->encoder_repetition_penalty);
  if (c->repetition_penalty != 1.0) penalize(p->marks, &list, history, length, c->repetition_penalty);
  grow_ends(c, &list, length - p->prompt);
  forbid_ngrams(p->marks, &list, history, length, history, length, c->no_repeat_ngram_size);
  if (source != NULL)
    forbid_ngrams(p->marks, &list, history, length, source, source_length, c->encoder_no_repeat_ngram_size);
  forbid_words(c, &list, history, length);
  uint64_t shortest = c->min_new_tokens == VKF_NOT_GIVEN ? c->min_length : (uint64_t)p->prompt + c->min_new_tokens;
  if (length < shortest) forbid_all(&list, &c->eos);
  if (c->forced_bos != VKF_NO_TOKEN && length == 1) force(&list, &c->forced_bos, 1);
  if (c->forced_eos.n > 0 && length + 1 == p->max_length) force(&list, c->forced_eos.ids, c->forced_eos.n);
  forbid_all(&list, &c->suppress);
  if (length == vkf_decode_processors_begin(p)) forbid_all(&list, &c->begin_suppress);
  return list.n;
}
