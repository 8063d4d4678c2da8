/* bench: what its files share. */
#ifndef VKF_LAB_BENCH_H
#define VKF_LAB_BENCH_H

#include <vkformer/lab.h>

#include "engine/engine.h"
#include "op/cases.h"

/* Measures the problems "peak" and "overhead" (bench_device.c). */
vkf_status vkf_lab_bench_device(vkf_device *dev, bool overhead, const vkf_bench_params *params, vkf_bench_fn on_row,
                                void *user);

/* Makes "ffn:M,D,F" a plan of two matmuls with data; finish it as any case (bench_ffn.c). *is_ffn: the text is such a
 * problem. */
vkf_status vkf_lab_bench_ffn(vkf_env *env, const char *problem, vkf_case_run *out, bool *is_ffn);

/* The results that were compared before: none, or those with this hash. */
typedef struct vkf_lab_seen {
  bool any;
  uint64_t hash;
} vkf_lab_seen;

/* Compares the results of a program's last run with the scalar path and writes the worst err/bound and its element to
 * row, whose flops must be set. Does nothing if the bits are those of `seen` (bench_verify.c). */
vkf_status vkf_lab_bench_compare(vkf_backend *backend, const vkf_case_run *run, vkf_program *program,
                                 vkf_lab_seen *seen, vkf_bench_row *row);

#endif
