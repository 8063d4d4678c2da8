/* gemm: see gemm.h.
 *
 * A model with a few publicly known numbers of such devices chooses the tiles for GPUs (docs/kernels.md). Measured
 * times (`vkformer tune`) override it.
 */
#include "kern/gemm.h"

/* The cost of loading a number, in multiply-adds: from shared memory, and from elsewhere. */
#define SHARED_LOAD 1.0
#define FAR_LOAD 8.0

uint32_t vkf_kern_gemm_workgroup(const vkf_variant *v) {
  return v->tile.gemm.bm / v->tile.gemm.tm * (v->tile.gemm.bn / v->tile.gemm.tn);
}

void vkf_kern_gemm_grid(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]) {
  if (stage) {
    g[0] = VKF_CEIL_DIV(p->matmul.is_gated ? p->matmul.n / 2 : p->matmul.n, vkf_kern_workgroup(v));
    g[1] = p->matmul.m;
    return;
  }
  g[0] = VKF_CEIL_DIV(p->matmul.m, v->tile.gemm.bm); /* neighbours share columns: their w stays in the cache */
  g[1] = VKF_CEIL_DIV(p->matmul.n, v->tile.gemm.bn);
  g[2] = p->split ? VKF_CEIL_DIV(p->matmul.k, p->split) : 1;
}

uint32_t vkf_kern_gemm_depth(const vkf_problem *p) {
  return p->split ? VKF_MIN(p->split, p->matmul.k) : p->matmul.k;
}

uint64_t vkf_kern_gemm_combine_turns(const vkf_problem *p) {
  return vkf_turns_by(p->matmul.k, p->split);
}

uint32_t vkf_kern_gemm_split(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  enum { PER_CORE = 2, LEAST_K = 128, MOST_SPLITS = 16 };
  const uint64_t tiles =
      VKF_MAX((uint64_t)VKF_CEIL_DIV(p->matmul.m, v->tile.gemm.bm) * VKF_CEIL_DIV(p->matmul.n, v->tile.gemm.bn), 1);
  const uint64_t wanted = VKF_MIN(VKF_CEIL_DIV((uint64_t)PER_CORE * vkf_kern_cores(caps), tiles), MOST_SPLITS);
  return VKF_ROUND_UP(VKF_MAX((uint32_t)VKF_CEIL_DIV(p->matmul.k, wanted), LEAST_K), v->tile.gemm.bk);
}

uint64_t vkf_kern_gemm_scratch_bytes(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return (uint64_t)p->matmul.m * p->matmul.n * VKF_CEIL_DIV(p->matmul.k, p->split) * 4;
}

void vkf_kern_gemm_split_rounding(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  (void)v;
  out->n_partial = VKF_CEIL_DIV(p->matmul.k, p->split);
  out->together = p->split;
}

static const char *fit_texels(const vkf_weight_packing *packing, const vkf_problem *p, const vkf_caps *caps, char *why,
                              size_t size) {
  if (p->matmul.is_shard)
    VKF_KERN_REFUSE("reads bias and residual by fours, and a part of a weight begins at any column");
  const uint64_t x = (uint64_t)p->matmul.m * VKF_MAX(p->matmul.k, p->matmul.n) / 4 + 64; /* or the residual */
  const uint64_t texel = vkf_format_get(packing->format)->bits / 8 * 4;
  const uint64_t w = vkf_kern_packed_bytes(packing, p->matmul.n, p->matmul.k) / texel + 1024 / texel;
  if (VKF_MAX(x, w) > caps->max_texel_elements)
    VKF_KERN_REFUSE("takes a texel buffer of %llu elements, the device allows %u", (unsigned long long)VKF_MAX(x, w),
                    caps->max_texel_elements);
  return NULL;
}

const char *vkf_kern_gemm_fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                              size_t size) {
  static const char *const names[] = {"rows", "lane", "columns"};
  const vkf_weight_packing own = vkf_kern_packing_of(v, p->packing.format);
  if (p->packing.layout != own.layout || p->packing.columns != own.columns)
    VKF_KERN_REFUSE("reads weights packed as %s by %u, this one is packed as %s by %u", names[own.layout], own.columns,
                    names[p->packing.layout], p->packing.columns);
  if (p->matmul.is_gated && v->tile.gemm.tn % 2)
    VKF_KERN_REFUSE("computes %u columns an invocation, and gates need an even number", v->tile.gemm.tn);
  if (v->vec > 1 && p->matmul.k % v->vec) VKF_KERN_REFUSE("K is a multiple of %u, here it is %u", v->vec, p->matmul.k);
  return v->access == VKF_ACCESS_TEXEL ? fit_texels(&own, p, caps, why, size) : NULL;
}

double vkf_kern_gemm_cpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  (void)caps;
  const double rows = (double)VKF_CEIL_DIV(p->matmul.m, v->tile.gemm.bm) * v->tile.gemm.bm;
  const double columns = (double)VKF_CEIL_DIV(p->matmul.n, v->tile.gemm.bn) * v->tile.gemm.bn;
  return rows * columns *
         (1.0 / v->tile.gemm.tm + 1.0 / v->tile.gemm.tn + 2.0 / v->tile.gemm.bm + 2.0 / v->tile.gemm.bn);
}

double vkf_kern_gemm_turns(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, vkf_problem *own) {
  const double cores = vkf_kern_cores(caps), groups = vkf_kern_workgroups(v, p, caps, own);
  return (double)(uint64_t)((groups + cores - 1) / cores);
}

double vkf_kern_gemm_gpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, double factor,
                                double least, double x_load) {
  const double cores = vkf_kern_cores(caps);
  const double bm = v->tile.gemm.bm, bn = v->tile.gemm.bn, tm = v->tile.gemm.tm, tn = v->tile.gemm.tn;
  vkf_problem own;
  const double turns = vkf_kern_gemm_turns(v, p, caps, &own);
  const double product = 1 + factor * (SHARED_LOAD * (1 / tm + 1 / tn) + FAR_LOAD * (1 / bm + x_load / bn));
  const double splits = own.split ? VKF_CEIL_DIV(p->matmul.k, own.split) : 0,
               elements = (double)p->matmul.m * p->matmul.n;
  const double combining = own.split ? VKF_GEMM_DISPATCH + (1 + splits) * VKF_GEMM_PASSED * elements / cores : 0;
  const double work = turns * bm * bn * product,
               taken = VKF_MAX(work, least) + 0.1 * work; /* among tiles that only wait, less work wins */
  return taken * ((own.split ? own.split : p->matmul.k) + VKF_GEMM_START) + factor * combining;
}
