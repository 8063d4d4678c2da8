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

/* Results that were compared: none, or those that had this hash. */
typedef struct vkf_lab_seen {
  bool any;
  uint64_t hash;
} vkf_lab_seen;

/* Compares what the last run of a program left with the scalar path; row, whose flops are known, gets the worst
 * err/bound and its element. Where that has the bits of results that were compared before, nothing is done
 * (bench_verify.c). */
vkf_status vkf_lab_bench_compare(vkf_backend *backend, const vkf_case_run *run, vkf_program *program,
                                 vkf_lab_seen *seen, vkf_bench_row *row);

#endif
