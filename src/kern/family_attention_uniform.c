/* uniform: one query per lane, keys and values by addresses that all lanes share; uniform-few: the same with less code,
 * for few queries (shaders/attention_uniform.comp). */
#include "kern/attention.h"

static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  (void)v;
  return vkf_kern_attention_first_key_turns(p) +
         vkf_turns_of(vkf_kern_attention_blocks(p), 2 * vkf_turns_of(VKF_KEY_BLOCK, 0));
}

/* The start costs (10.1 and 8) are higher than the speeds alone would give (0.9 and 1), because the pipelines take long
 * to make. uniform's takes a third of a second and, for a while, 400 MB, too much for a few sentences: it is picked
 * from 65 queries on. uniform-few's takes 15 ms longer than that of "heads" even from the driver's cache: it is picked
 * from 33 on. Over 1000 keys uniform is picked from 3 queries on: ten, a second turn of a conversation, take an eighth
 * of their time. */
static double uniform_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  static const vkf_kern_attention_cost cost = {0.15, 0.15, 8, 10.1};
  return vkf_kern_attention_effort(v, p, caps, &cost, vkf_kern_workgroup(v), 4);
}

static double few_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  static const vkf_kern_attention_cost cost = {0.39, 0.39, 8, 8};
  return vkf_kern_attention_effort(v, p, caps, &cost, vkf_kern_workgroup(v), 4);
}

const vkf_family vkf_family_attention_uniform = {.name = "uniform",
                                                 .fit = vkf_kern_attention_fit,
                                                 .grid = vkf_kern_attention_grid_by_lane,
                                                 .loop_turns = loop_turns,
                                                 .effort = uniform_effort};

const vkf_family vkf_family_uniform_few = {.name = "uniform-few",
                                           .fit = vkf_kern_attention_fit,
                                           .grid = vkf_kern_attention_grid_by_lane,
                                           .loop_turns = loop_turns,
                                           .effort = few_effort};
