/* gemm: what the families of matmul share. */
#ifndef VKF_KERN_GEMM_H
#define VKF_KERN_GEMM_H

#include "kern/family.h"

/* Returns how many parts of tm x tn a tile has: one for each invocation (or subgroup, in kernels with matrices). */
uint32_t vkf_kern_gemm_workgroup(const vkf_variant *v);
/* A workgroup computes a tile of bm x bn; the splits of K are the third dimension. Second stage: a lane computes an
 * element. */
void vkf_kern_gemm_grid(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
/* Returns how many k a workgroup adds up. */
uint32_t vkf_kern_gemm_depth(const vkf_problem *p);
/* For kernels with partial sums of K. Returns the k of a split: enough splits that every core has work, none too small
 * to be worth a workgroup, and few enough that adding them up is cheap. */
uint32_t vkf_kern_gemm_split(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps);
uint64_t vkf_kern_gemm_scratch_bytes(const vkf_variant *v, const vkf_problem *p);
uint64_t vkf_kern_gemm_combine_turns(const vkf_problem *p);
/* Each split is a sum of its own. */
void vkf_kern_gemm_split_rounding(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out);
/* Refuses a weight in another packing, gates if tn is odd, K if not a multiple of v->vec, and operands too large for
 * texel buffers. */
const char *vkf_kern_gemm_fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size);
/* Returns the loads for one k of kernels for software drivers, padding included. */
double vkf_kern_gemm_cpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps);

/* Returns the workgroups of a GPU's busiest core; *own: the problem with the split that the kernel gets. */
double vkf_kern_gemm_turns(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, vkf_problem *own);
/* Returns the effort of kernels with a tile in shared memory, in their own products. factor: how many of these take as
 * long as a multiply-add of single numbers; least: the least work of a core for one k; x_load: the cost of loading a
 * number of x, relative to one of w. */
double vkf_kern_gemm_gpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, double factor,
                                double least, double x_load);
/* Costs, in multiply-adds of a core: one more dispatch; each number that dispatches pass on, written or read. */
#define VKF_GEMM_DISPATCH 5e5
#define VKF_GEMM_PASSED 16.0
/* Overhead of a workgroup, in k: its start, the first slice (no work hides its loads), its end. */
#define VKF_GEMM_START 64.0

#endif
