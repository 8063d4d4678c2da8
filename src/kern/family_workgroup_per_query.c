/* workgroup-per-query: one query per workgroup, one key of a block per lane, scores in shared memory
 * (shaders/attention_workgroup_per_query.comp). */
#include "kern/attention.h"

static uint32_t shared_bytes(const vkf_variant *v) {
  (void)v;
  return VKF_MAX_HEAD_WIDTH * 4 + VKF_KEY_BLOCK * 12;
}

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t vectors = VKF_CEIL_DIV(p->attention.key_width, 4);
  (void)v;
  return vkf_kern_attention_first_key_turns(p) + vkf_turns_by(vectors, VKF_KEY_BLOCK) +
         vkf_turns_of(vkf_kern_attention_blocks(p), vkf_turns_of(vectors, 0) + 2 * vkf_turns_of(VKF_KEY_BLOCK, 0));
}

static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  static const vkf_kern_attention_cost cost = {3, 4, 1, 0};
  return vkf_kern_attention_effort(v, p, caps, &cost, 1, 4);
}

const vkf_family vkf_family_workgroup_per_query = {.name = "workgroup-per-query",
                                                   .fit = vkf_kern_attention_fit,
                                                   .shared_bytes = shared_bytes,
                                                   .grid = vkf_kern_attention_grid_by_query,
                                                   .loop_turns = loop_turns,
                                                   .effort = effort,
                                                   .n_texels = VKF_ATTENTION_TEXELS};
