/* gemm: what the families of matmul share. */
#ifndef VKF_KERN_GEMM_H
#define VKF_KERN_GEMM_H

#include "kern/family.h"

/* A tile of bm x bn a workgroup, a split of K in the third dimension; second stage: an element a lane. */
void vkf_kern_gemm_grid(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
/* Whether the weight is packed as the kernel reads it, and texel buffers can hold the operands. */
const char *vkf_kern_gemm_fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size);
/* Loads a multiply-add, of kernels for software drivers. */
double vkf_kern_gemm_cpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps);

/* On GPUs: the workgroups of the core that has most to do; *own: the problem with the split that the kernel gets. */
double vkf_kern_gemm_turns(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, vkf_problem *own);
/* Of kernels with a tile in shared memory; factor: how much faster products are than a multiply-add. */
double vkf_kern_gemm_gpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, double factor);
/* What a workgroup takes beside its products, in k of them: its start, the first slice that nothing hides, the end. */
#define VKF_GEMM_START 64.0

#endif
