/* tuned: measured times of kernel variants, as data, and what selection reads from them.
 *
 * Owns nothing: the rows belong to whoever measured or read them (room tune). Pure functions. Invariant: times are
 * compared only within one problem, so rows of different days and shapes may be mixed.
 */
#ifndef VKF_KERN_TUNED_H
#define VKF_KERN_TUNED_H

#include "kern/kern.h"

typedef struct vkf_tuned_time {
  vkf_problem problem; /* with the packing that the variant reads */
  const vkf_variant *variant;
  double ns;        /* median */
  const char *from; /* where it was measured, for vkf_kern_reason(): "this device" */
  bool probed;      /* by the probe, among few candidates: counts for its packing only */
} vkf_tuned_time;

struct vkf_tuned {
  const vkf_tuned_time *times;
  size_t n_times;
};

/* Finds the tuned problem nearest to `problem`: the same op, format and widths, and sizes that are equal or, from 16
 * up, at most twice as large. NULL: none. tuned may be NULL. */
const vkf_problem *vkf_kern_tuned_near(const vkf_tuned *tuned, const vkf_problem *problem);
/* Finds the time of a variant in such a problem; NULL: it was not measured. */
const vkf_tuned_time *vkf_kern_tuned_find(const vkf_tuned *tuned, const vkf_problem *near, const vkf_variant *variant);
/* Iterates over the times of all variants in such a problem: after NULL the first; returns NULL after the last. */
const vkf_tuned_time *vkf_kern_tuned_next(const vkf_tuned *tuned, const vkf_problem *near, const vkf_tuned_time *after);
/* Returns how many times slower the best matmul of a packing is than the best of all: the geometric mean over the tuned
 * problems with this N, K and format (0, 0: over all). 1 is best. 0: not measured. */
double vkf_kern_tuned_slowdown(const vkf_tuned *tuned, uint32_t n, uint32_t k, const vkf_weight_packing *packing);

#endif
