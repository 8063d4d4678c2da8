/* probe: tests a device when it is first opened, and keeps the findings in the cache with its tuned times: the results
 * of the checks (checks.h); which of two kernels is faster if the facts do not decide; and, for the reproducible mode,
 * whether its bits are those of the scalar path (reproducible.c).
 *
 * If the results cannot be kept, only the bits of the reproducible mode are tried, and checks only if they are asked
 * for. A feature whose check failed is removed from the facts that selection sees, with a warning. A reproducible mode
 * whose check failed is refused.
 */
#ifndef VKF_TUNE_PROBE_H
#define VKF_TUNE_PROBE_H

#include "tune/tuning.h"

/* Call it before the backend is made. asked: run the checks even if their results cannot be kept. */
vkf_status vkf_tune_probe_checks(vkf_tuning *t, bool asked);
/* Call it after t->backend is made. */
vkf_status vkf_tune_probe_kernels(vkf_tuning *t);
/* Checks the reproducible mode; the backend must be in it. VKF_ERROR_UNSUPPORTED: its bits differ from the scalar
 * path's. */
vkf_status vkf_tune_probe_reproducible(vkf_tuning *t);

#endif
