/* subgroup-per-query: one query per subgroup, which is the workgroup (shaders/attention_subgroup_per_query.comp). */
#include "kern/attention.h"

/* Loops that the shader marks for unrolling count if they contain other loops: lavapipe does not unroll those. */
static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t keys = VKF_CEIL_DIV(VKF_KEY_BLOCK, v->subgroup); /* of a block in a lane */
  const uint64_t results = vkf_turns_of(VKF_CEIL_DIV(p->attention.value_width, 4 * v->subgroup), vkf_turns_of(4, 0));
  return vkf_kern_attention_first_key_turns(p) + vkf_turns_of(vkf_kern_attention_blocks(p), 2 * vkf_turns_of(keys, 0)) +
         results;
}

static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  static const vkf_kern_attention_cost cost = {1, 1.6, 1, 0};
  return vkf_kern_attention_effort(v, p, caps, &cost, 1, 4);
}

const vkf_family vkf_family_subgroup_per_query = {.name = "subgroup-per-query",
                                                  .fit = vkf_kern_attention_fit,
                                                  .grid = vkf_kern_attention_grid_by_query,
                                                  .loop_turns = loop_turns,
                                                  .effort = effort,
                                                  .n_texels = VKF_ATTENTION_TEXELS};
