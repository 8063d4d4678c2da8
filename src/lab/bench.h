/* bench: what its files share. */
#ifndef VKF_LAB_BENCH_H
#define VKF_LAB_BENCH_H

#include <vkformer/lab.h>

#include "engine/engine.h"
#include "op/cases.h"

/* The problems "peak" and "overhead" (bench_device.c). */
vkf_status vkf_lab_bench_device(vkf_device *dev, bool overhead, const vkf_bench_params *params, vkf_bench_fn on_row,
                                void *user);

/* "ffn:M,D,F" as a plan of two matmuls with its data; finish as any case (bench_ffn.c). *is_ffn: the text is such a
 * problem. */
vkf_status vkf_lab_bench_ffn(vkf_env *env, const char *problem, vkf_case_run *out, bool *is_ffn);

#endif
