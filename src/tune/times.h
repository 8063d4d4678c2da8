/* times: times several contestants in turns, until each has had its share of time. */
#ifndef VKF_TUNE_TIMES_H
#define VKF_TUNE_TIMES_H

#include <vkformer/lab.h>

#include "base/base.h"
#include "gpu/caps.h"

enum { VKF_TIMES_MAX = 4096, VKF_TIMES_MIN = 5 };

typedef struct vkf_times {
  double *ns; /* [VKF_TIMES_MAX] */
  uint32_t n;
  double total_ns;
  double give_up_ns; /* gives up a contestant whose first run takes longer; 0: never */
  bool gave_up;
} vkf_times;

vkf_status vkf_tune_times_init(vkf_times *times, vkf_env *env);
void vkf_tune_times_finish(vkf_times *times, vkf_env *env);
/* Sets the number of runs, the minimum, the median and the 90th percentile; sorts. */
void vkf_tune_times_summarize(vkf_times *times, vkf_bench_row *row);

/* Runs contestant i once. */
typedef vkf_status (*vkf_time_fn)(void *user, uint32_t i, double *ns);
/* Returns how long a device runs before it is timed. An idle GPU lowers its clock, and takes a while under load to
 * raise it: an H100 was at 540 of 1980 MHz after 2 s in which a kernel was compiled, and took up to 0.22 s to come
 * back. */
double vkf_tune_warm_seconds(const vkf_caps *caps);
/* Runs the contestants whose ns is not NULL in turns, until each has run for `seconds` and at least VKF_TIMES_MIN
 * times. Before that it runs each at least once and for a fifth of that time, and all together for `warm` seconds.
 * Neither part runs one more than VKF_TIMES_MAX times. If a contestant is given up, its one run is the result. */
vkf_status vkf_tune_times_take(vkf_times *times, uint32_t n, double warm, double seconds, vkf_time_fn run, void *user);

#endif
