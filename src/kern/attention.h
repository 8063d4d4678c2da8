/* attention: what the families of attention share. */
#ifndef VKF_KERN_ATTENTION_H
#define VKF_KERN_ATTENTION_H

#include "kern/family.h"

/* Heads of keys and values: as many as of queries where the problem does not say. */
static inline uint32_t vkf_kern_attention_kv_heads(const vkf_problem *p) {
  return p->attention.kv_heads ? p->attention.kv_heads : VKF_MAX(p->attention.heads, 1);
}
/* Tiles of queries, of one sequence and one head of keys and values, whose heads of queries are rows of one tile. */
static inline uint32_t vkf_kern_attention_row_tiles(const vkf_variant *v, const vkf_problem *p) {
  return VKF_CEIL_DIV(p->attention.queries * (p->attention.heads / vkf_kern_attention_kv_heads(p)),
                      v->tile.attention.rows);
}

/* A workgroup has one query of a head, or a query for each lane, or a head of a query for each lane, or a tile of
 * queries of all heads that share keys. */
void vkf_kern_attention_grid_by_query(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
void vkf_kern_attention_grid_by_lane(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
void vkf_kern_attention_grid_by_head(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
void vkf_kern_attention_grid_by_tile(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);

/* Whether head widths are multiples of what the kernel reads at once. The problem does not say how large the
 * cache is, so a texel buffer must hold as much as a storage binding can. */
const char *vkf_kern_attention_fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                                   size_t size);
enum { VKF_ATTENTION_TEXELS = 2 /* keys and values */ };

/* The time of a node as measured on software drivers; its unit is one query of the kernel that is best for one.
 * `at_once` queries take as long as one. `start` is the time to make the pipeline at every start of a program, which
 * matters if there are few queries and keys: of up to 64 keys it counts whole, of n keys 64 / n of it, because a query
 * takes longer then. */
typedef struct vkf_kern_attention_cost {
  double texel, other;
  uint32_t at_once;
  double start;
} vkf_kern_attention_cost;
double vkf_kern_attention_cpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_kern_attention_cost *cost);

/* Numbers that every kernel with tiles of rows keeps about its place and its keys. */
enum { VKF_ATTENTION_PLACE_REGISTERS = 12 };
/* On GPUs: multiply-adds of a lane, padding included. rows: queries of all workgroups; beside: the cost of
 * the loads and shuffles with each; at_a_time: keys that a lane loads together, 1 except in kernels that split them. */
double vkf_kern_attention_gpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, double rows,
                                     double beside, double at_a_time);
/* On either, of a kernel that does not split keys and has `queries` queries a workgroup. */
double vkf_kern_attention_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps,
                                 const vkf_kern_attention_cost *cost, double queries, double beside);

/* The search for the first key of the mask, which every first stage has before its own turns. */
uint64_t vkf_kern_attention_first_key_turns(const vkf_problem *p);
/* Blocks of keys; a window may begin in one. */
static inline uint64_t vkf_kern_attention_blocks(const vkf_problem *p) {
  return VKF_CEIL_DIV(p->attention.keys, VKF_KEY_BLOCK) + 1;
}

#endif
