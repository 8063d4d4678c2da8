/* tiles: tm rows of queries by VKF_KEY_BLOCK lanes, keys in tiles of bn, head widths in slices of 64, all in shared
 * memory (shaders/attention_tiles.comp); tiles-any: the same for head widths that are no multiple of four. */
#include "kern/attention.h"

static uint32_t workgroup(const vkf_variant *v) {
  return v->tile.attention.rows / v->tile.attention.lane_rows * VKF_KEY_BLOCK;
}

/* Slices of rows and keys, the scores; maxima and factors of blocks; three words. */
static uint32_t shared_bytes(const vkf_variant *v) {
  const uint32_t slice = v->tile.attention.slice / 4 + 1, blocks = v->tile.attention.keys / VKF_KEY_BLOCK;
  return 16 * ((v->tile.attention.rows + v->tile.attention.keys) * slice +
               v->tile.attention.rows * (v->tile.attention.keys / 4 + 1)) +
         8 * v->tile.attention.rows * blocks + 12;
}

/* Loops that the shader marks for unrolling count if they contain other loops: lavapipe does not unroll those. */
static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t slice = v->tile.attention.slice / 4, blocks = v->tile.attention.keys / VKF_KEY_BLOCK,
                 chunks = VKF_CEIL_DIV(p->attention.value_width, 64);
  const uint64_t staged = vkf_turns_by((uint64_t)v->tile.attention.rows * slice, vkf_kern_workgroup(v)) +
                          vkf_turns_by((uint64_t)v->tile.attention.keys * slice, vkf_kern_workgroup(v)) +
                          vkf_turns_of(slice, 0);
  const uint64_t scores = vkf_turns_of(VKF_CEIL_DIV(VKF_CEIL_DIV(p->attention.key_width, 4), slice), staged);
  const uint64_t values = vkf_turns_of(chunks, vkf_turns_by(v->tile.attention.keys * 16, vkf_kern_workgroup(v)) +
                                                   vkf_turns_of(blocks, vkf_turns_of(VKF_KEY_BLOCK / 4, 0)));
  const uint64_t each = vkf_turns_of(v->tile.attention.lane_rows, vkf_turns_of(blocks, 0)); /* score of an invocation */
  const uint64_t tile = scores + vkf_turns_by(v->tile.attention.lane_rows * blocks, VKF_KEY_BLOCK) +
                        vkf_turns_of(blocks, 0) + values + (blocks > 1 ? 2 * each : 0);
  const uint64_t results = vkf_turns_of(v->tile.attention.lane_rows, vkf_turns_of(chunks, vkf_turns_of(4, 0)));
  return vkf_kern_attention_first_key_turns(p) + vkf_turns_by(p->attention.keys, vkf_kern_workgroup(v)) +
         vkf_turns_of(VKF_CEIL_DIV(p->attention.keys, v->tile.attention.keys) + 1, tile) + results;
}

/* Sums of values, scores, and in each turn weights and a vector of values; a maximum and a sum of an own row. */
static uint32_t registers(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t rows = v->tile.attention.lane_rows, blocks = v->tile.attention.keys / VKF_KEY_BLOCK;
  return rows * (4 * VKF_CEIL_DIV(p->attention.value_width, 64) + blocks + 4 + 1) + blocks + 4 + 2 +
         VKF_ATTENTION_PLACE_REGISTERS;
}

static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  vkf_problem own;
  if (caps->is_cpu) return VKF_NO_EFFORT;
  const double rows = vkf_kern_workgroups(v, p, caps, &own) * v->tile.attention.rows;
  const double beside = 1.0 / v->tile.attention.lane_rows + 1.0 / v->tile.attention.lane_keys +
                        8.0 / v->tile.attention.rows;                                  /* shared memory; the cache */
  const bool one_sum = v->tile.attention.lane_rows * v->tile.attention.lane_keys == 1; /* which waits for itself */
  return vkf_kern_attention_gpu_effort(v, p, caps, rows, beside, one_sum ? 0.5 : 1);
}

#define TILES                                                                                                  \
  .fit = vkf_kern_attention_fit, .workgroup = workgroup, .shared_bytes = shared_bytes, .registers = registers, \
  .grid = vkf_kern_attention_grid_by_tile, .loop_turns = loop_turns, .effort = effort

const vkf_family vkf_family_tiles = {.name = "tiles", TILES};
const vkf_family vkf_family_tiles_any = {.name = "tiles-any", TILES};
