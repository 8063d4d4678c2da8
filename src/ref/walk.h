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
  void **bases; /* [n_slots], capacity strides; a weight's is NULL until a node that reads it is compared */
  bool *owned;  /* [n_slots] */
  /* vkf_ref_walk_keep_rows(): */
  const uint32_t *rows; /* NULL: all are kept */
  vkf_dim rows_dim;
  const vkf_dims *run_dims;
} vkf_walk;

/* weights: the plan's; it may have none. All arguments must outlive the walk. */
vkf_status vkf_ref_walk_init(vkf_walk *walk, vkf_env *env, vkf_backend *backend, const vkf_plan *plan,
                             vkf_program *program, const vkf_dims *dims, const vkf_weight_source *weights);
void vkf_ref_walk_finish(vkf_walk *walk);
/* Keeps only these rows, ascending, of every slot whose first extent is `dim`, so that only they are compared. few: the
 * sizes with so many rows. Both must outlive the walk. Only for ops whose rows do not depend on each other. */
vkf_status vkf_ref_walk_keep_rows(vkf_walk *walk, vkf_dim dim, const uint32_t *rows, const vkf_dims *few);
/* Compares node `index` and adds the result to *j. */
vkf_status vkf_ref_walk_node(vkf_walk *walk, uint32_t index, vkf_comparison *j);
/* Logs a warning if j, of node `index` alone, is over its bound. where: the part of the run that the node is in. */
void vkf_ref_walk_warn(const vkf_walk *walk, uint32_t index, const vkf_comparison *j, const char *where);
/* Gives the worst element of j, of node `index` alone, and its place in the tensor of the run (j has its place at
 * capacity strides, among the rows that were kept). */
vkf_status vkf_ref_walk_worst(const vkf_walk *walk, uint32_t index, const vkf_comparison *j, vkf_bench_element *out);
/* Computes the exact values of output o of node `index` for the inputs that the device had, and the bounds of its
 * errors; as many as the slot has elements at capacity. */
vkf_status vkf_ref_walk_values(vkf_walk *walk, uint32_t index, uint32_t o, double *exact, double *bound);
/* Returns the largest distance of slot `slot` from that of another walk, over the largest magnitude there (if that is
 * not 0); -1 if the slot has no float32 elements. */
double vkf_ref_walk_drift(const vkf_walk *walk, const vkf_walk *other, uint32_t slot);

#endif
