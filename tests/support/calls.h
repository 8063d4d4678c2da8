/* Calls of single ops on small host arrays, for tests of the scalar path. Everything is dense and row-major. */
#ifndef VKF_TESTS_SUPPORT_CALLS_H
#define VKF_TESTS_SUPPORT_CALLS_H

#include "ref/ref.h"

static inline vkf_view view_of(const void *data, uint32_t rank, const uint32_t *extent) {
  vkf_view view = {.data = (void *)data, .rank = rank};
  size_t stride = 1;
  for (uint32_t i = rank; i-- > 0; stride *= extent[i]) {
    view.extent[i] = extent[i];
    view.stride[i] = stride;
  }
  return view;
}
#define VIEW(data, ...) \
  view_of(data, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (const uint32_t[]){__VA_ARGS__})

/* Returns parameters of attention from `queries` to keys S, without a past. */
static inline vkf_attention_params plain_attention(vkf_dim seqs, vkf_dim queries, uint32_t heads, uint32_t key_width,
                                                   uint32_t value_width, float scale) {
  return (vkf_attention_params){.seqs = seqs,
                                .queries = queries,
                                .keys = VKF_DIM_S,
                                .past = VKF_DIM_ZERO,
                                .shared = VKF_DIM_ONE,
                                .n_heads = heads,
                                .n_kv_heads = heads,
                                .key_width = key_width,
                                .value_width = value_width,
                                .scale = scale};
}

/* Returns the rounding of a float32 device whose functions are as exact as Vulkan promises. */
static inline vkf_rounding vulkan_rounding(uint32_t n_partial, uint32_t key_block) {
  return (vkf_rounding){.u = 0x1p-24,
                        .n_partial = n_partial,
                        .key_block = key_block,
                        .exp_ulp_base = 3,
                        .exp_ulp_slope = 2,
                        .log_abs = 0x1p-21,
                        .log_ulp = 3,
                        .div_ulp = 2.5,
                        .rsqrt_ulp = 2,
                        .tiny = 0x1p-126};
}

#endif
