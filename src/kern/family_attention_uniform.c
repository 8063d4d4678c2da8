/* uniform: a query a lane, keys and values by addresses that all lanes share (shaders/attention_uniform.comp). */
#include "kern/attention.h"

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return vkf_kern_attention_first_key_turns(p) +
         vkf_turns_of(vkf_kern_attention_blocks(p), 2 * vkf_turns_of(VKF_KEY_BLOCK, 0));
}

static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  /* Making this pipeline takes a third of a second and, for a while, 430 MB: too much for a few sentences. */
  static const vkf_kern_attention_cost cost = {0.8, 0.8, 8, 15};
  vkf_problem own;
  if (caps->is_cpu) return vkf_kern_attention_cpu_effort(v, p, &cost);
  return vkf_kern_attention_gpu_effort(v, p, caps, vkf_kern_workgroups(v, p, caps, &own) * vkf_kern_workgroup(v), 4, 1);
}

const vkf_family vkf_family_attention_uniform = {.name = "uniform",
                                                 .fit = vkf_kern_attention_fit,
                                                 .grid = vkf_kern_attention_grid_by_lane,
                                                 .loop_turns = loop_turns,
                                                 .effort = effort};
