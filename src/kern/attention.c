/* attention: see attention.h. */
#include "kern/attention.h"

enum {
  MAX_WORKGROUPS = 65535, /* in a dimension of a grid; Vulkan guarantees that many */
  START_KEYS = 64         /* of a query when the cost of a start was measured */
};

const char *vkf_kern_attention_fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                                   size_t size) {
  const uint32_t key_width = p->attention.key_width, value_width = p->attention.value_width;
  if (v->vec > 1 && (key_width % v->vec || value_width % v->vec))
    VKF_KERN_REFUSE("head widths are multiples of %u, here they are %u and %u", v->vec, key_width, value_width);
  if (v->access == VKF_ACCESS_TEXEL && (uint64_t)caps->max_texel_elements * 16 < caps->max_storage_range_bytes)
    VKF_KERN_REFUSE("texel buffers end at %u elements", caps->max_texel_elements);
  return NULL;
}

void vkf_kern_attention_grid_by_query(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]) {
  (void)v;
  (void)stage;
  const uint32_t parts = VKF_MAX(VKF_CEIL_DIV(p->attention.queries, MAX_WORKGROUPS), 1);
  g[0] = VKF_CEIL_DIV(p->attention.queries, parts);
  g[1] = p->attention.heads * parts;
  g[2] = p->attention.batch;
}

void vkf_kern_attention_grid_by_lane(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]) {
  (void)stage;
  g[0] = VKF_CEIL_DIV(p->attention.queries, vkf_kern_workgroup(v));
  g[1] = p->attention.batch;
  g[2] = p->attention.heads;
}

void vkf_kern_attention_grid_by_head(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]) {
  (void)stage;
  g[0] = (uint32_t)VKF_CEIL_DIV((uint64_t)p->attention.batch * p->attention.heads, vkf_kern_workgroup(v));
  g[1] = p->attention.queries;
  g[2] = 1;
}

void vkf_kern_attention_grid_by_tile(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]) {
  if (stage) { /* one element of the result per lane */
    g[0] = (uint32_t)VKF_CEIL_DIV(
        (uint64_t)p->attention.batch * p->attention.queries * p->attention.heads * p->attention.value_width,
        vkf_kern_workgroup(v));
    return;
  }
  g[0] = vkf_kern_attention_row_tiles(v, p) * (p->split ? VKF_CEIL_DIV(p->attention.keys, p->split) : 1);
  g[1] = vkf_kern_attention_kv_heads(p);
  g[2] = p->attention.batch;
}

double vkf_kern_attention_cpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_kern_attention_cost *cost) {
  const uint32_t step = cost->at_once == 1 ? 1 : vkf_kern_workgroup(v);
  const double time = v->access == VKF_ACCESS_TEXEL ? cost->texel : cost->other;
  const double start = cost->start * VKF_MIN(START_KEYS / VKF_MAX((double)p->attention.keys, 1), 1);
  return start + VKF_CEIL_DIV(p->attention.queries, step) * step * time / cost->at_once;
}

/* A core can work on BUSY lanes at once; a second dispatch costs DISPATCH. */
double vkf_kern_attention_gpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, double rows,
                                     double beside, double at_a_time) {
  enum { BUSY = 512, DISPATCH = 2000 };
  vkf_problem own;
  const double lanes = vkf_kern_workgroups(v, p, caps, &own) * vkf_kern_workgroup(v) * at_a_time;
  const double work = rows * p->attention.keys * (p->attention.key_width + p->attention.value_width) * beside;
  return work / VKF_MIN(VKF_MAX(lanes, 1), (double)BUSY * vkf_kern_cores(caps)) + (own.split ? DISPATCH : 0);
}

double vkf_kern_attention_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps,
                                 const vkf_kern_attention_cost *cost, double queries, double beside) {
  vkf_problem own;
  if (caps->is_cpu) return vkf_kern_attention_cpu_effort(v, p, cost);
  return vkf_kern_attention_gpu_effort(v, p, caps, vkf_kern_workgroups(v, p, caps, &own) * queries, beside, 1);
}

uint64_t vkf_kern_attention_first_key_turns(const vkf_problem *p) {
  return vkf_turns_by(p->attention.keys, VKF_KEY_BLOCK);
}
