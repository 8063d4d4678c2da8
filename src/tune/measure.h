/* measure: compares kernels with their bounds, then times them. */
#ifndef VKF_TUNE_MEASURE_H
#define VKF_TUNE_MEASURE_H

#include <vkformer/lab.h>

#include "op/cases.h"

enum { VKF_MEASURE_MAX = 8 };

/* Runs block 0 of a program made with VKF_TIMING_BLOCKS. *ns: the device's own time if it measures time (*clock says
 * which), else the time from submit to fence. */
vkf_status vkf_tune_measure_run(vkf_backend *backend, vkf_program *program, const vkf_dims *dims, double *ns,
                                vkf_clock *clock);

/* Verifies n kernels, at most VKF_MEASURE_MAX, on a case, then times them in turns, each for `seconds`, after `warm`
 * seconds of all together (vkf_tune_times_take). ns[n]: the median of each; 0 for one that does not fit the case or
 * whose result exceeds its bound. */
vkf_status vkf_tune_measure(vkf_backend *backend, const vkf_case *c, const char *const *names, uint32_t n, double warm,
                            double seconds, double *ns);

#endif
