/* gemm: what the families of matmul share. */
#ifndef VKF_KERN_GEMM_H
#define VKF_KERN_GEMM_H

#include "kern/family.h"

/* Invocations, each of which computes tm x tn of the tile. */
uint32_t vkf_kern_gemm_workgroup(const vkf_variant *v);
/* A tile of bm x bn a workgroup, a split of K in the third dimension; second stage: an element a lane. */
void vkf_kern_gemm_grid(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
/* k that a workgroup adds up. */
uint32_t vkf_kern_gemm_depth(const vkf_problem *p);
/* Of kernels that leave partial sums of K. How much of K a split has: enough splits that every core has work, none too
 * small to be worth a workgroup, and few enough that adding them up is cheap. */
uint32_t vkf_kern_gemm_split(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps);
uint64_t vkf_kern_gemm_scratch_bytes(const vkf_variant *v, const vkf_problem *p);
uint64_t vkf_kern_gemm_combine_turns(const vkf_problem *p);
/* Each split is a sum of its own. */
void vkf_kern_gemm_split_rounding(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out);
/* Whether the weight is packed as the kernel reads it, and texel buffers can hold the operands. */
const char *vkf_kern_gemm_fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size);
/* Loads a multiply-add, of kernels for software drivers. */
double vkf_kern_gemm_cpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps);

/* On GPUs: the workgroups of the core that has most to do; *own: the problem with the split that the kernel gets. */
double vkf_kern_gemm_turns(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, vkf_problem *own);
/* Of kernels with a tile in shared memory, in their products; factor: how much faster these are than a multiply-add;
 * least: what a core does for a k at least; x_load: what a number of x takes beside one of w. */
double vkf_kern_gemm_gpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, double factor,
                                double least, double x_load);
/* What a dispatch more costs, in multiply-adds of a core, and each number that dispatches pass on, written or read. */
#define VKF_GEMM_DISPATCH 5e5
#define VKF_GEMM_PASSED 16.0
/* What a workgroup takes beside its products, in k of them: its start, the first slice that nothing hides, the end. */
#define VKF_GEMM_START 64.0

#endif
