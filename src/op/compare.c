/* compare: checks whether a computed result is within its derived bound.
 *
 * Room ref computes exact values and bounds. Invariant: a missing NaN never passes, nor does one that should not be
 * there, unless any result is right (VKF_BOUND_ANY).
 */
#include "op/compare.h"

#include <float.h>
#include <math.h>

double vkf_compare_ratio(double got, double exact, double bound) {
  if (isnan(exact)) return isnan(got) ? 0 : INFINITY;
  if (isinf(exact)) return got == exact ? 0 : INFINITY;
  if (bound == VKF_BOUND_ANY) return 0;
  /* If the exact value with its bound leaves the range of float32, infinity is the right rounding. */
  if (isinf(got) && fabs(exact) + bound >= (double)FLT_MAX && (got > 0) == (exact > 0)) return 0;
  const double error = fabs(got - exact);
  if (error == 0) return 0;
  const double ratio = error / bound;
  return ratio <= DBL_MAX ? ratio : INFINITY; /* NaN becomes infinite, too */
}

void vkf_compare(const vkf_call *call, uint32_t o, const void *got, const double *exact, const double *bound,
                 vkf_comparison *j) {
  const vkf_view *view = &call->out[o];
  bool integer = vkf_call_is_integer(call->op, o);
  uint32_t index[VKF_MAX_SLOT_RANK] = {0};
  if (vkf_view_elements(view) == 0) return;
  do {
    size_t at = vkf_view_offset(view, index);
    if (bound[at] < 0) continue;
    double value = integer ? (double)((const int32_t *)got)[at] : (double)((const float *)got)[at];
    const double ratio = vkf_compare_ratio(value, exact[at], bound[at]);
    j->n++;
    if (j->n > 1 && !(ratio > j->ratio)) continue;
    j->ratio = ratio;
    j->worst = at;
    j->worst_out = o;
    j->worst_got = value;
    j->worst_exact = exact[at];
    j->worst_bound = bound[at];
  } while (vkf_view_next(view, index));
}
