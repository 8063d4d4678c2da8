/* attention: what the files of attention share. */
#ifndef VKF_REF_ATTENTION_H
#define VKF_REF_ATTENTION_H

#include "ref/internal.h"

/* One query of one head. Arrays have n_keys elements. */
typedef struct vkf_ref_query {
  const vkf_call *call;
  const vkf_attention_params *p;
  vkf_span span; /* of sequence seq */
  uint32_t seq, t, head, n_keys;
  double *score, *score_error; /* errors: bounds, if they are wanted */
  double *weight;              /* exp(score - max) */
  double *weight_error;        /* relative, of the computed weight */
  bool *seen;
  double max, max_error, sum, sum_error;
  double magnitude; /* the largest sum of |terms| of a score */
} vkf_ref_query;

static inline uint32_t vkf_ref_slot_of(const vkf_ref_query *q, uint32_t key) {
  const vkf_view *ancestry = &q->call->in[VKF_ATTENTION_ANCESTRY];
  return ancestry->data ? (uint32_t)vkf_ref_ints(ancestry, q->seq)[key] : q->span.slot;
}

static inline const float *vkf_ref_kv_row(const vkf_ref_query *q, int input, uint32_t key) {
  const vkf_view *v = &q->call->in[input];
  uint32_t head = q->head / (q->p->n_heads / q->p->n_kv_heads);
  return (const float *)v->data + vkf_ref_slot_of(q, key) * v->stride[0] + head * v->stride[1] +
         (q->span.first + key) * v->stride[2];
}

/* Returns the row of q and of the result. */
static inline size_t vkf_ref_query_row(const vkf_ref_query *q) {
  return (size_t)q->span.row + q->t;
}

/* Returns whether the mask has this key. */
static inline bool vkf_ref_has_key(const vkf_ref_query *q, uint32_t key) {
  const vkf_view *mask = &q->call->in[VKF_ATTENTION_MASK];
  return !mask->data || vkf_ref_ints(mask, q->span.slot)[q->span.first + key] != 0;
}

/* Returns the additive bias of a key; `bias` may also hold its errors. */
static inline double vkf_ref_bias_of(const vkf_ref_query *q, const vkf_view *bias, uint32_t key) {
  const vkf_attention_params *p = q->p;
  const float *plane = (const float *)bias->data + (p->bias_per_head ? q->head : 0) * bias->stride[0];
  if (!p->bias_by_distance) return (double)plane[q->t * bias->stride[1] + key * bias->stride[2]];
  int64_t before = p->bias_before, after = p->bias_after, distance = (int64_t)key - q->span.past - q->t;
  return (double)plane[VKF_MIN(VKF_MAX(distance, -before), after) + before];
}

static inline bool vkf_ref_sees(const vkf_ref_query *q, uint32_t key) {
  const vkf_attention_params *p = q->p;
  uint32_t last = q->span.past + q->t;
  if (p->causal && key > last) return false;
  if (p->causal && p->window > 0 && key + p->window <= last) return false;
  return vkf_ref_has_key(q, key);
}

/* Stores the query's row, or without `values` its weights, in the arithmetic of the reproducible mode. numbers: room
 * for n_keys scores and value_width sums. Sets q->seen. */
void vkf_ref_query_reproducible(vkf_ref_query *q, bool values, float *numbers);

/* Stores in `out`, which has the strides of the result, how far the row, or without `values` the weights, can move. q
 * must have its scores and weights; any: it has a key. e: a query over the errors of the inputs. acc: room for
 * value_width numbers. */
void vkf_ref_query_propagate(vkf_ref_query *q, vkf_ref_query *e, bool any, bool values, double *acc, float *out);

#endif
