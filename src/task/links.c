/* links: see links.h. */
#include "task/links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADS = 8 }; /* of which the mean is taken */

struct vkf_link {
  size_t source, n_source; /* the linked token of the source; tokens of the source */
  float *weights;          /* [n_layers][n_heads][n_source] */
};

void vkf_task_links_init(vkf_links *l, vkf_session *session) {
  *l = (vkf_links){.session = session};
  vkf_arena_init(&l->arena, session->env);
}

void vkf_task_links_finish(vkf_links *l) {
  vkf_env_free(l->session->env, l->at);
  vkf_arena_finish(&l->arena);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static size_t count(const int32_t *ids, size_t n, int32_t id, size_t *last) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    if (ids[i] != id) continue;
    *last = i;
    found++;
  }
  return found;
}

const vkf_array *vkf_task_cross_weights(const vkf_result *pass, size_t layer) {
  char name[64];
  snprintf(name, sizeof name, "cross_attentions.%zu", layer);
  return vkf_engine_array_find(pass->arrays, pass->n_arrays, name);
}

/* Adds the link of token `at` of the target. Its weights are in the row that predicts it: at - 1. */
static vkf_status add(vkf_links *l, const vkf_result *pass, size_t row, size_t at, size_t source) {
  vkf_link *grown = vkf_env_grow(l->session->env, l->at, &l->capacity, l->n + 1, sizeof *grown);
  if (!grown) return VKF_ERROR_MEMORY;
  l->at = grown;
  const size_t S = vkf_task_cross_weights(pass, 0)->shape[3];
  const vkf_link link = {source, S, vkf_arena_alloc(&l->arena, l->n_layers * l->n_heads * S, sizeof(float))};
  if (!link.weights) return VKF_ERROR_MEMORY;
  for (size_t head = 0; head < l->n_layers * l->n_heads; head++) {
    const vkf_array *weights = vkf_task_cross_weights(pass, head / l->n_heads);
    const size_t of = (row * l->n_heads + head % l->n_heads) * weights->shape[2] + at - 1;
    memcpy(link.weights + head * S, (const float *)weights->data + of * S, S * sizeof(float));
  }
  l->at[l->n++] = link;
  return VKF_OK;
}

vkf_status vkf_task_links_add(vkf_links *l, const vkf_part *source, const vkf_task_sequence *target,
                              const vkf_result *pass, size_t row) {
  vkf_status st = VKF_OK;
  for (l->n_layers = 0; vkf_task_cross_weights(pass, l->n_layers);) l->n_layers++;
  l->n_heads = vkf_task_cross_weights(pass, 0)->shape[1];
  const vkf_text_tokenizer *tokenizer = vkf_engine_tokenizer_lock(&l->session->tokenizer);
  for (size_t at = target->n - target->n_new; !st && at < target->n; at++) {
    const int32_t id = target->ids[at];
    size_t from = 0, to = 0;
    if (vkf_text_tokenizer_is_special(tokenizer, id) || count(source->ids, source->n, id, &from) != 1 ||
        count(target->ids, target->n, id, &to) != 1)
      continue;
    st = add(l, pass, row, at, from);
  }
  vkf_engine_tokenizer_unlock(&l->session->tokenizer);
  return st;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Counts the links that the mean over heads [n] follows: those whose source token gets the largest weight. */
static size_t count_followed(const vkf_links *l, const size_t *heads, size_t n) {
  size_t followed = 0;
  for (size_t i = 0; i < l->n; i++) {
    const vkf_link *link = &l->at[i];
    double most = -1;
    size_t best = 0;
    for (size_t s = 0; s < link->n_source; s++) {
      double sum = 0;
      for (size_t k = 0; k < n; k++) sum += link->weights[heads[k] * link->n_source + s];
      if (sum > most) best = s;
      most = VKF_MAX(most, sum);
    }
    followed += best == link->source;
  }
  return followed;
}

typedef struct ranked {
  size_t head, followed;
} ranked;

static int by_followed(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  if (a->followed != b->followed) return a->followed > b->followed ? -1 : 1;
  return (a->head > b->head) - (a->head < b->head);
}

static vkf_status choose(const vkf_links *l, ranked *all, vkf_result *result) {
  const size_t n_all = l->n_layers * l->n_heads;
  size_t heads[MOST_HEADS], n_best = 0, most = 0;
  char text[MOST_HEADS * 24] = "";
  void *data = NULL;
  VKF_CALL(vkf_engine_result_add(result, "followed", VKF_F32, 2, (size_t[]){l->n_layers, l->n_heads}, &data));
  for (size_t head = 0; head < n_all; head++) {
    all[head] = (ranked){head, count_followed(l, &head, 1)};
    ((float *)data)[head] = (float)all[head].followed / (float)l->n;
  }
  qsort(all, n_all, sizeof *all, by_followed);
  for (size_t n = 0; n < VKF_MIN(n_all, MOST_HEADS); n++) {
    heads[n] = all[n].head;
    const size_t followed = count_followed(l, heads, n + 1);
    if (followed > most) n_best = n + 1;
    most = VKF_MAX(most, followed);
  }
  for (size_t i = 0, at = 0; i < n_best; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%zu:%zu", i ? "," : "", heads[i] / l->n_heads,
                           heads[i] % l->n_heads);
  VKF_CALL(vkf_engine_result_add(result, "chosen", VKF_F32, 1, (size_t[]){1}, &data));
  *(float *)data = (float)most / (float)l->n;
  VKF_CALL(vkf_engine_result_add(result, "n_links", VKF_I32, 1, (size_t[]){1}, &data));
  *(int32_t *)data = (int32_t)l->n;
  return vkf_engine_result_add_text(result, text);
}

vkf_status vkf_task_links_result(const vkf_links *l, size_t n_texts, vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_env *env = l->session->env;
  ranked *all = NULL;
  if (l->n == 0)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT,
             "expected tokens that are once in a text and once in its translation, to see which heads look from one at "
             "the other, found none in %zu texts",
             n_texts);
  all = vkf_env_alloc(env, l->n_layers * l->n_heads, sizeof *all);
  if (!all) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_engine_result_create(env, out));
  VKF_TRY(choose(l, all, *out));
done:
  vkf_env_free(env, all);
  if (st) vkf_engine_result_destroy(out);
  return st;
}
