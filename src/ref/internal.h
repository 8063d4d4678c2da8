/* What the references share: access to views, the storing of results, and the parts of the bounds.
 *
 * Notation of docs/numerics.md: u unit roundoff, gamma(n) = n u / (1 - n u) bounds the relative error of a product of n
 * factors (1 + d), |d| <= u (Higham 2002, lemma 3.1).
 */
#ifndef VKF_REF_INTERNAL_H
#define VKF_REF_INTERNAL_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "ref/ref.h"

static inline const float *vkf_ref_row(const vkf_view *view, size_t row) {
  return (const float *)view->data + row * view->stride[0];
}
static inline const int32_t *vkf_ref_ints(const vkf_view *view, size_t row) {
  return (const int32_t *)view->data + row * view->stride[0];
}

/* Returns the span of `seq`; if spans has no data, `whole`, its part of a rectangle. */
vkf_span vkf_ref_span_of(const vkf_view *spans, uint32_t seq, const vkf_span *whole);
/* Fails unless every span fits: rows [row, row + queries) below `rows`, at most as many queries and keys as `most` has,
 * keys from `first` on in one of the slots of `cache`; if causal, the queries are among the keys. */
vkf_status vkf_ref_check_spans(vkf_env *env, const vkf_call *call, const vkf_view *spans, uint32_t rows,
                               const vkf_span *most, const vkf_view *cache, bool causal);

/* Stores element `at` of output o, rounded once, and its exact value and bound. */
static inline void vkf_ref_store(const vkf_call *call, uint32_t o, size_t at, double exact, double bound) {
  ((float *)call->out[o].data)[at] = (float)exact;
  if (call->exact[o]) call->exact[o][at] = exact;
  if (call->bound[o]) call->bound[o][at] = bound;
}

/* The same for a result that is defined in float32, step by step, so its bound is 0. */
static inline void vkf_ref_store_same(const vkf_call *call, uint32_t o, size_t at, float value) {
  ((float *)call->out[o].data)[at] = value;
  if (call->exact[o]) call->exact[o][at] = (double)value;
  if (call->bound[o]) call->bound[o][at] = 0;
}

/* Returns the bound, or VKF_BOUND_ANY if the terms of a sum have a magnitude of FLT_MAX or more: then some order of
 * them overflows. */
static inline double vkf_ref_unless_overflow(double magnitude, double bound) {
  return magnitude >= (double)FLT_MAX ? VKF_BOUND_ANY : bound;
}

static inline bool vkf_ref_wants_bounds(const vkf_call *call) {
  return call->rounding != NULL;
}

/* Returns n u / (1 - n u); infinite if n u reaches 1. */
double vkf_ref_gamma(double n, double u);
/* Returns the longest chain of roundings from a term of a sum of n products to the result, in r->n_partial partial
 * sums. Never over n, whatever the order. */
double vkf_ref_depth(const vkf_rounding *r, uint64_t n);
/* Returns the relative error of exp of an argument of magnitude x. */
double vkf_ref_exp_error(const vkf_rounding *r, double x);
/* Returns the relative error of a division. */
double vkf_ref_div_error(const vkf_rounding *r);

/* Rounds x to f16 as shaders/lib/halves.glsl does, if it is a normal number of f16. */
static inline float vkf_ref_halved(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
  memcpy(&x, &bits, sizeof x);
  return x;
}
/* What a kernel multiplies instead of x: a number within `off` of `value`. Below the normal numbers of f16 a device may
 * take 0 or either neighbour; else the number is known. */
typedef struct vkf_ref_half {
  double value, off;
} vkf_ref_half;
static inline vkf_ref_half vkf_ref_half_of(float x) {
  if (fabsf(x) >= 0x1p-14f || x == 0) return (vkf_ref_half){(double)vkf_ref_halved(x), 0};
  return (vkf_ref_half){(double)x, VKF_MAX(fabs((double)x), 0x1p-24)};
}

/* Return an activation of an exact sum, and the bound of its computed value if the sum is off by at most `error`. */
double vkf_ref_activate(vkf_activation act, double x);
double vkf_ref_activate_bound(vkf_activation act, double x, double error, const vkf_rounding *r);
/* Returns how far an activation can move if x moves by at most `error`. */
double vkf_ref_activate_error(vkf_activation act, double x, double error);

/* Returns the parameters of the op rope that turns the heads of an append's x; its out has all columns that the append
 * reads. */
vkf_params vkf_ref_append_rope(const vkf_append_params *p);

/* vkf_ref_propagate_error() for attention and attention_weights. */
vkf_status vkf_ref_attention_propagate_error(vkf_env *env, const vkf_call *call, const vkf_view *errors, float *out);

/* Fails unless 0 <= index < n: "node X: id 512 of row 3, expected 0 to 511". */
vkf_status vkf_ref_check_index(vkf_env *env, const vkf_call *call, const char *what, size_t row, int32_t index,
                               uint32_t n);

#endif
