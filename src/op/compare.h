/* One node on the host: the call that the scalar reference computes, and the comparison of another backend's result.
 *
 * A view is a strided host array. The reference computes in double and writes float32 results; on request also the
 * exact values and the derived bounds of |computed - exact| for a given rounding (docs/numerics.md).
 */
#ifndef VKF_OP_COMPARE_H
#define VKF_OP_COMPARE_H

#include <float.h>

#include "op/backend.h"

typedef struct vkf_view {
  void *data; /* float or int32_t; NULL: absent */
  uint32_t rank;
  uint32_t extent[VKF_MAX_SLOT_RANK]; /* actual */
  size_t stride[VKF_MAX_SLOT_RANK];   /* in elements */
  vkf_format format;                  /* numbers are rounded to it when they are written */
} vkf_view;

typedef struct vkf_call {
  vkf_op op;
  const char *name;
  const vkf_params *params;
  const vkf_dims *dims;
  bool reproducible; /* computes in float32 as the reproducible mode does, not in double; not for comparisons */
  vkf_view in[VKF_MAX_INPUTS];
  vkf_view out[VKF_MAX_OUTPUTS]; /* written */
  /* NULL, or for a comparison: arrays laid out as out[i] (same strides, as many elements as its storage). An element
   * that this node does not write keeps what the caller put there (bound -1). */
  const vkf_rounding *rounding;
  double *exact[VKF_MAX_OUTPUTS];
  double *bound[VKF_MAX_OUTPUTS];
} vkf_call;

/* Makes the views of a node: actual extents at `dims`, strides from the capacities. bases [plan->n_slots]: where each
 * slot's data begin (host). VKF_ERROR_ARGUMENT if an actual extent is over its capacity. */
vkf_status vkf_call_from_plan(vkf_env *env, const vkf_plan *plan, uint32_t node, const vkf_dims *dims,
                              void *const *bases, vkf_call *out);
/* Returns a view of the actual elements of an array with the slot's capacity strides. */
vkf_view vkf_slot_view(const vkf_slot *slot, const vkf_dims *dims, void *data);
/* Copy between a dense array at actual sizes and one with the slot's capacity strides. VKF_ERROR_ARGUMENT if an actual
 * extent is over its capacity. */
vkf_status vkf_slot_scatter(vkf_env *env, const vkf_slot *slot, const vkf_dims *dims, const void *dense, void *strided);
vkf_status vkf_slot_compact(vkf_env *env, const vkf_slot *slot, const vkf_dims *dims, const void *strided, void *dense);
/* Returns whether output o of the op holds int32. */
bool vkf_call_is_integer(vkf_op op, uint32_t o);
/* Returns the offset of an element of a view, in elements; index has `rank` entries. */
size_t vkf_view_offset(const vkf_view *view, const uint32_t *index);
/* Steps index to the next element in row-major order; false after the last. Begin with zeros, and only if
 * vkf_view_elements() is not 0. */
bool vkf_view_next(const vkf_view *view, uint32_t *index);
uint64_t vkf_view_elements(const vkf_view *view);

/* The bound of an element for which a sum may overflow on the way, so any result is right: docs/numerics.md. */
#define VKF_BOUND_ANY DBL_MAX
/* Returns err/bound of one element; infinite for a wrong special value, or for an error where the bound is 0. */
double vkf_compare_ratio(double got, double exact, double bound);

typedef struct vkf_comparison {
  uint64_t n;     /* elements compared */
  double ratio;   /* the largest err/bound */
  uint64_t worst; /* its element */
  double worst_got, worst_exact, worst_bound;
  uint32_t worst_out;
} vkf_comparison;

/* Compares `got` (laid out as call->out[o]) with exact and bound: |got - exact| <= bound; if the exact value is NaN or
 * infinite, got must be the same. int32 outputs must be equal. Elements with a negative bound are not compared. Adds to
 * *j, which begins as zeros. Comparisons are written so that NaN fails. */
void vkf_compare(const vkf_call *call, uint32_t o, const void *got, const double *exact, const double *bound,
                 vkf_comparison *j);

#endif
