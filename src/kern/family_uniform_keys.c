/* uniform-keys: one query per subgroup, keys and values by addresses that all lanes share
 * (shaders/attention_uniform_keys.comp). */
#include "kern/attention.h"

static const char *fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size) {
  if (p->attention.value_width % v->subgroup)
    VKF_KERN_REFUSE("the width of values is a multiple of %u, here it is %u", v->subgroup, p->attention.value_width);
  return vkf_kern_attention_fit(v, p, caps, why, size);
}

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return vkf_kern_attention_first_key_turns(p) + vkf_turns_of(vkf_kern_attention_blocks(p), 0);
}

static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  static const vkf_kern_attention_cost cost = {0.33, 0.33, 1, 0};
  (void)caps; /* only software drivers have such loads */
  return vkf_kern_attention_cpu_effort(v, p, &cost);
}

const vkf_family vkf_family_uniform_keys = {.name = "uniform-keys",
                                            .fit = fit,
                                            .grid = vkf_kern_attention_grid_by_query,
                                            .loop_turns = loop_turns,
                                            .effort = effort};
