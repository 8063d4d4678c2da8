/* tuned: measured times of kernel variants, as data, and what selection reads from them.
 *
 * Owns nothing: the rows belong to whoever measured or read them (room engine). Pure functions. Invariant: times are
 * compared only within one problem, so rows of different days and shapes may be next to each other.
 */
#ifndef VKF_KERN_TUNED_H
#define VKF_KERN_TUNED_H

#include "kern/kern.h"

typedef struct vkf_tuned_time {
  vkf_problem problem; /* with the packing that the variant reads */
  const vkf_variant *variant;
  double ns;        /* median */
  const char *from; /* where it was measured, for reasons: "this device" */
  bool probed;      /* one of few candidates: it speaks for its packing, not for itself */
} vkf_tuned_time;

struct vkf_tuned {
  const vkf_tuned_time *times;
  size_t n_times;
};

/* The tuned problem that speaks for `problem`: the same op and widths, and sizes that are equal or, from 16 up, at most
 * twice as large; the nearest of them. NULL: none. tuned: NULL for none. */
const vkf_problem *vkf_kern_tuned_near(const vkf_tuned *tuned, const vkf_problem *problem);
/* What was measured of a variant in such a problem; NULL: nothing. */
const vkf_tuned_time *vkf_kern_tuned_find(const vkf_tuned *tuned, const vkf_problem *near, const vkf_variant *variant);
/* Those of all variants in such a problem, one after another: after NULL the first; NULL: there are no more. */
const vkf_tuned_time *vkf_kern_tuned_next(const vkf_tuned *tuned, const vkf_problem *near, const vkf_tuned_time *after);
/* How much slower the best matmul of a packing is than the best of all, on average over the tuned problems with this N,
 * K and format (0, 0: over all): 1 is best. 0: not measured. */
double vkf_kern_tuned_slowdown(const vkf_tuned *tuned, uint32_t n, uint32_t k, const vkf_weight_packing *packing);

#endif
