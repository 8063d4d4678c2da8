/* attention: what the families of attention share. */
#ifndef VKF_KERN_ATTENTION_H
#define VKF_KERN_ATTENTION_H

#include "kern/family.h"

/* Returns the key/value heads; if the problem has no number of them, as many as query heads. */
static inline uint32_t vkf_kern_attention_kv_heads(const vkf_problem *p) {
  return p->attention.kv_heads ? p->attention.kv_heads : VKF_MAX(p->attention.heads, 1);
}
/* Returns the tiles of query rows for one sequence and one key/value head. The query heads that share it are rows of
 * the same tile. */
static inline uint32_t vkf_kern_attention_row_tiles(const vkf_variant *v, const vkf_problem *p) {
  return VKF_CEIL_DIV(p->attention.queries * (p->attention.heads / vkf_kern_attention_kv_heads(p)),
                      v->tile.attention.rows);
}

/* Grids whose workgroups have one query of a head; a query for each lane; a head of a query for each lane; a tile of
 * queries of all heads that share keys. */
void vkf_kern_attention_grid_by_query(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
void vkf_kern_attention_grid_by_lane(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
void vkf_kern_attention_grid_by_head(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
void vkf_kern_attention_grid_by_tile(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);

/* Refuses head widths that are not multiples of v->vec. Refuses texel access if a texel buffer holds less than a
 * storage binding, because the problem does not say how large the cache is. */
const char *vkf_kern_attention_fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why,
                                   size_t size);
enum { VKF_ATTENTION_TEXELS = 2 /* keys and values */ };

/* The time of a node, measured on software drivers. The unit is one query of the kernel that is fastest for one query.
 * `at_once` queries take as long as one. `start` is the time to make the pipeline at every start of a program: it
 * counts whole for up to 64 keys and 64 / n of it for n keys, because a query then takes longer. */
typedef struct vkf_kern_attention_cost {
  double texel, other;
  uint32_t at_once;
  double start;
} vkf_kern_attention_cost;
double vkf_kern_attention_cpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_kern_attention_cost *cost);

/* Registers in which every kernel with tiles of rows keeps its place and its range of keys. */
enum { VKF_ATTENTION_PLACE_REGISTERS = 12 };
/* Returns the multiply-adds of a lane on a GPU, padding included. rows: queries of all workgroups; beside: the cost of
 * the loads and shuffles for a multiply-add; at_a_time: how many keys a lane works on at once, 1 for most kernels. */
double vkf_kern_attention_gpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, double rows,
                                     double beside, double at_a_time);
/* Returns the effort, on a CPU driver or a GPU, of a kernel with `queries` queries per workgroup that does not split
 * keys. */
double vkf_kern_attention_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps,
                                 const vkf_kern_attention_cost *cost, double queries, double beside);

/* Returns the turns of the search for the mask's first key, with which every first stage begins. */
uint64_t vkf_kern_attention_first_key_turns(const vkf_problem *p);
/* Returns the blocks of keys, with one more because a window may begin inside a block. */
static inline uint64_t vkf_kern_attention_blocks(const vkf_problem *p) {
  return VKF_CEIL_DIV(p->attention.keys, VKF_KEY_BLOCK) + 1;
}

#endif
