/* walk: compares a program that has run with the reference, node by node. The reference computes each node from the
 * inputs that the device really had, so a ratio over 1 is the fault of that node and of no other.
 */
#ifndef VKF_REF_WALK_H
#define VKF_REF_WALK_H

#include <vkformer/lab.h>

#include "op/compare.h"

/* Host copies of the slots of a program after a run. */
typedef struct vkf_walk {
  vkf_env *env;
  vkf_backend *backend;
  const vkf_plan *plan;
  vkf_program *program; /* made with keep_all */
  const vkf_dims *dims;
  const vkf_weight_source *weights;
  void **bases; /* [n_slots], capacity strides; of a weight NULL until a node that reads it is compared */
  bool *owned;  /* [n_slots] */
  /* vkf_ref_walk_keep_rows(): */
  const uint32_t *rows; /* NULL: all are kept */
  vkf_dim rows_dim;
  const vkf_dims *run_dims;
} vkf_walk;

/* weights: of the plan, may have no weight; it outlives the walk, as all that is given here. */
vkf_status vkf_ref_walk_init(vkf_walk *walk, vkf_env *env, vkf_backend *backend, const vkf_plan *plan,
                             vkf_program *program, const vkf_dims *dims, const vkf_weight_source *weights);
void vkf_ref_walk_finish(vkf_walk *walk);
/* Leaves these rows, ascending, of every slot whose first extent is `dim`, so that only they are compared. few: the
 * sizes with so many rows. Both outlive the walk. Of ops whose rows do not depend on each other. */
vkf_status vkf_ref_walk_keep_rows(vkf_walk *walk, vkf_dim dim, const uint32_t *rows, const vkf_dims *few);
/* Adds node `index` to *j. */
vkf_status vkf_ref_walk_node(vkf_walk *walk, uint32_t index, vkf_comparison *j);
/* Logs a warning where j, of node `index` alone, is over its bound. where: what of the run the node belongs to. */
void vkf_ref_walk_warn(const vkf_walk *walk, uint32_t index, const vkf_comparison *j, const char *where);
/* The worst element of j, of node `index` alone, by its place in the tensor of the run (j has its place at capacity
 * strides, among the rows that were kept). */
vkf_status vkf_ref_walk_worst(const vkf_walk *walk, uint32_t index, const vkf_comparison *j, vkf_bench_element *out);
/* The exact values of output o of node `index` for the inputs that the device had, and the bounds of its errors; as
 * many as the slot has at capacity. */
vkf_status vkf_ref_walk_values(vkf_walk *walk, uint32_t index, uint32_t o, double *exact, double *bound);
/* Distance of slot `slot` from the same slot of another walk over the largest magnitude of that one. */
double vkf_ref_walk_drift(const vkf_walk *walk, const vkf_walk *other, uint32_t slot);

#endif
