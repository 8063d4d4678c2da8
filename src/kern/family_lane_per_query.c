/* lane-per-query, vec4: one query per lane, by single elements or four at a time; heads: one head of a query per lane,
 * the heads of all sequences side by side (shaders/attention.comp); weights: one query of attention_weights per lane
 * (shaders/attention_weights.comp). */

#include "kern/attention.h"

/* Turns for a key or value of a head of this width. */
static uint64_t head_turns(uint32_t width) {
  return vkf_turns_by(width, VKF_HEAD_AT_ONCE);
}

static uint64_t head_turns_by(uint32_t width, uint32_t vec) {
  return vec == 4 ? vkf_turns_by(width, VKF_HEAD_AT_ONCE_VEC4) : head_turns(width);
}

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t vec = VKF_MAX(v->vec, 1);
  const uint64_t rescale = head_turns_by(p->attention.value_width, vec);
  const uint64_t keys = vkf_turns_of(VKF_KEY_BLOCK, head_turns_by(p->attention.key_width, vec));
  const uint64_t values = vkf_turns_of(VKF_KEY_BLOCK, rescale);
  const uint64_t spare = 8; /* of a block: llvmpipe was found to count a few more than are in the shader */
  return vkf_kern_attention_first_key_turns(p) +
         vkf_turns_of(VKF_CEIL_DIV(p->attention.keys, VKF_KEY_BLOCK), keys + rescale + values + spare) +
         vkf_turns_by(p->attention.key_width, vec) + vkf_turns_by(p->attention.value_width, vec) +
         vkf_turns_of(p->attention.value_width, 0);
}

static double lane_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  static const vkf_kern_attention_cost cost = {60, 60, 8, 0};
  return vkf_kern_attention_effort(v, p, caps, &cost, vkf_kern_workgroup(v), 16);
}

static double vec4_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  static const vkf_kern_attention_cost cost = {10, 10, 8, 0};
  return vkf_kern_attention_effort(v, p, caps, &cost, vkf_kern_workgroup(v), 4);
}

const vkf_family vkf_family_lane_per_query = {
    .name = "lane-per-query", .grid = vkf_kern_attention_grid_by_lane, .loop_turns = loop_turns, .effort = lane_effort};

const vkf_family vkf_family_vec4 = {.name = "vec4",
                                    .fit = vkf_kern_attention_fit,
                                    .grid = vkf_kern_attention_grid_by_lane,
                                    .loop_turns = loop_turns,
                                    .effort = vec4_effort,
                                    .n_texels = VKF_ATTENTION_TEXELS};

/* Counts all lanes of each vector and at least four workgroups, because fewer leave cores idle. */
static double heads_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  static const vkf_kern_attention_cost cost = {0.3, 0.9, 1, 0};
  const uint64_t heads = (uint64_t)p->attention.batch * p->attention.heads;
  const uint32_t vector = VKF_MAX(caps->subgroup_size, 1), workgroup = vkf_kern_workgroup(v);
  const uint64_t workgroups = VKF_MAX(VKF_CEIL_DIV(heads, workgroup), 4);
  const double lanes = (double)workgroups * VKF_CEIL_DIV(workgroup, vector) * vector;
  return caps->is_cpu && heads ? vkf_kern_attention_cpu_effort(v, p, &cost) * lanes / (double)heads : VKF_NO_EFFORT;
}

const vkf_family vkf_family_heads = {.name = "heads",
                                     .fit = vkf_kern_attention_fit,
                                     .grid = vkf_kern_attention_grid_by_head,
                                     .loop_turns = loop_turns,
                                     .effort = heads_effort,
                                     .n_texels = VKF_ATTENTION_TEXELS};

static uint64_t weights_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  const uint64_t zeros = vkf_turns_by(p->attention.keys, VKF_SCORES_OF_NARROW);
  if (p->attention.key_width < VKF_NARROW_HEAD) return 4 * zeros;
  return vkf_turns_of(p->attention.keys, head_turns(p->attention.key_width)) +
         2 * vkf_turns_by(p->attention.keys, VKF_SCORES_AT_ONCE) + zeros;
}

/* A software driver computes a workgroup lane by lane, so a small one wastes less; a GPU wants full subgroups. */
static double weights_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  (void)p;
  return caps->is_cpu ? vkf_kern_workgroup(v) : 1.0 / vkf_kern_workgroup(v);
}

const vkf_family vkf_family_weights = {.name = "lane-per-query",
                                       .grid = vkf_kern_attention_grid_by_lane,
                                       .loop_turns = weights_turns,
                                       .effort = weights_effort};
