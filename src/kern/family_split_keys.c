/* split: a workgroup has bm rows and a part of the keys, and works in clusters of bk lanes
 * (shaders/attention_split.comp). A second dispatch combines the parts (shaders/attention_combine.comp). */
#include "kern/attention.h"

static uint32_t clusters_of(const vkf_variant *v) {
  return v->tile.attention.keys / v->tile.attention.lane_keys;
}

static uint32_t workgroup(const vkf_variant *v) {
  return clusters_of(v) * v->tile.attention.cluster;
}

/* One sum per cluster, in each split. */
static void rounding(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  out->n_partial = clusters_of(v) * VKF_MAX(p->split ? VKF_CEIL_DIV(p->attention.keys, p->split) : 1, 1);
}

/* The clusters' values of a row, four vectors per lane; their maxima and sums. */
static uint32_t shared_bytes(const vkf_variant *v) {
  return workgroup(v) * 64 + clusters_of(v) * v->tile.attention.rows * 8;
}

/* For each row a lane's share of the query and of the values' sums, a maximum, a sum and one score per key. */
static uint32_t registers(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t lane = 4 * v->tile.attention.cluster,
                 chunks = VKF_CEIL_DIV(p->attention.key_width, lane) + VKF_CEIL_DIV(p->attention.value_width, lane);
  return v->tile.attention.rows * (4 * chunks + 2 + v->tile.attention.lane_keys) + 4 + VKF_ATTENTION_PLACE_REGISTERS;
}

static uint32_t split(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  /* Workgroups for each core, so that one can load while another computes; the fewest keys worth a workgroup. */
  enum { PER_CORE = 4, LEAST_KEYS = 64 };
  const uint64_t tiles =
      VKF_MAX((uint64_t)vkf_kern_attention_row_tiles(v, p) * vkf_kern_attention_kv_heads(p) * p->attention.batch, 1);
  const uint64_t wanted = VKF_CEIL_DIV((uint64_t)PER_CORE * vkf_kern_cores(caps), tiles);
  return VKF_ROUND_UP(VKF_MAX((uint32_t)VKF_CEIL_DIV(p->attention.keys, wanted), LEAST_KEYS), v->tile.attention.keys);
}

/* The weighted values, the maximum of the scores, the sum of the weights: lib/splits.glsl. */
static uint64_t scratch_bytes(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return (uint64_t)p->attention.batch * p->attention.queries * p->attention.heads *
         VKF_CEIL_DIV(p->attention.keys, p->split) * (p->attention.value_width + 2) * 4;
}

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t clusters = clusters_of(v), keys = p->split ? VKF_MIN(p->split, p->attention.keys) : p->attention.keys;
  const uint64_t row = 2 * vkf_turns_of(clusters, 0) +
                       vkf_turns_of(VKF_CEIL_DIV(VKF_CEIL_DIV(p->attention.value_width, 4), vkf_kern_workgroup(v)),
                                    vkf_turns_of(clusters, 0));
  return vkf_kern_attention_first_key_turns(p) + vkf_turns_by(keys, (uint64_t)clusters * v->tile.attention.lane_keys) +
         v->tile.attention.rows * row;
}

static uint64_t combine_turns(const vkf_problem *p) {
  return 2 * vkf_turns_by(p->attention.keys, p->split);
}

static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  vkf_problem own;
  if (caps->is_cpu) return VKF_NO_EFFORT;
  const double groups = vkf_kern_workgroups(v, p, caps, &own),
               splits = own.split ? VKF_CEIL_DIV(p->attention.keys, own.split) : 1;
  const double beside = 2.5 + 8.0 / v->tile.attention.rows; /* shuffles; the cache */
  return vkf_kern_attention_gpu_effort(v, p, caps, groups * v->tile.attention.rows / splits, beside,
                                       v->tile.attention.lane_keys);
}

const vkf_family vkf_family_split_keys = {.name = "split",
                                          .fit = vkf_kern_attention_fit,
                                          .workgroup = workgroup,
                                          .shared_bytes = shared_bytes,
                                          .registers = registers,
                                          .grid = vkf_kern_attention_grid_by_tile,
                                          .split = split,
                                          .scratch_bytes = scratch_bytes,
                                          .loop_turns = loop_turns,
                                          .combine_turns = combine_turns,
                                          .rounding = rounding,
                                          .effort = effort};
