/* coopmat: attention of many queries by cooperative matrices; keys and values are in f16
 * (shaders/attention_coopmat.comp). Each subgroup of a workgroup has tm rows of queries; the workgroup takes the keys
 * in tiles of bn. */
#include "kern/attention.h"

static const char *fit(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size) {
  (void)caps;
  const uint32_t key_width = p->attention.key_width, value_width = p->attention.value_width;
  if (key_width % v->matrix.k || value_width % v->matrix.n || value_width % 8)
    VKF_KERN_REFUSE("head widths are multiples of %u and %u, here they are %u and %u", v->matrix.k,
                    VKF_MAX(v->matrix.n, 8), key_width, value_width);
  if (!(v->formats >> p->packing.format & 1))
    VKF_KERN_REFUSE("reads keys and values in f16, these are %s", vkf_format_get(p->packing.format)->name);
  if (p->wide) VKF_KERN_REFUSE("rounds to f16, and some numbers are beyond 65504");
  return NULL;
}

static uint32_t workgroup(const vkf_variant *v) {
  return v->tile.attention.rows / v->tile.attention.lane_rows * v->subgroup;
}

/* The factors are f16; sums have at least float32's precision but may be truncated. */
static void rounding(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out) {
  (void)p;
  out->x_f16 = true;
  out->u = 0x1p-23;
  out->key_block = v->tile.attention.keys;
}

/* Keys and values of the widest heads (queries are there first); scores; weights; the ends of the mask. */
static uint32_t shared_bytes(const vkf_variant *v) {
  const uint32_t row = v->max_width / 8 + 1;
  return 16 * (VKF_MAX(2 * v->tile.attention.keys, v->tile.attention.rows) * row +
               v->tile.attention.rows * (v->tile.attention.keys / 4 + 1 + v->tile.attention.keys / 8 + 1)) +
         8;
}

/* An invocation's share of the queries, the sums and a matrix operand; its scores, twice. */
static uint32_t registers(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t rows = v->tile.attention.lane_rows;
  return (rows * (p->attention.key_width / 2 + p->attention.value_width) + v->matrix.n * v->matrix.k / 2 +
          2 * rows * v->tile.attention.keys) /
             v->subgroup +
         VKF_ATTENTION_PLACE_REGISTERS;
}

/* Unrolled loops that contain others count, as in family_tiles.c. */
static uint64_t loop_turns(const vkf_variant *v, const vkf_problem *p) {
  const uint32_t keys = v->tile.attention.keys, part = keys * v->matrix.m / v->subgroup, threads = workgroup(v),
                 key_width = p->attention.key_width, value_width = p->attention.value_width,
                 eights = VKF_CEIL_DIV(key_width, 8) + VKF_CEIL_DIV(value_width, 8);
  const uint64_t scores = vkf_turns_of(keys / v->matrix.n, vkf_turns_of(VKF_CEIL_DIV(key_width, v->matrix.k), 0)) +
                          vkf_turns_of(part / 4, vkf_turns_of(4, 0)) +
                          vkf_turns_of(part / 8, vkf_turns_of(8, 0) + vkf_turns_of(2, 0));
  const uint64_t values = vkf_turns_of(VKF_CEIL_DIV(value_width, v->matrix.n), 0) +
                          vkf_turns_of(keys / v->matrix.k, vkf_turns_of(VKF_CEIL_DIV(value_width, v->matrix.n), 0));
  const uint64_t tile = vkf_turns_by((uint64_t)keys * eights, threads) + scores + values;
  return vkf_kern_attention_first_key_turns(p) + vkf_turns_by(p->attention.keys, threads) +
         vkf_turns_of(VKF_CEIL_DIV((uint64_t)v->tile.attention.rows * eights, threads), vkf_turns_of(8, 0)) +
         vkf_turns_of(VKF_CEIL_DIV(p->attention.keys, keys) + 1, tile) +
         vkf_turns_of(VKF_CEIL_DIV(value_width, v->matrix.n), vkf_turns_of(v->matrix.n / 4, 0));
}

/* The softmax adds some 30 operations per score. Fewer than LEAST rows would leave most of a tile empty. */
static double effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  enum { LANES = 64 /* counted for a subgroup of any size: a core multiplies as fast with half as many */, LEAST = 32 };
  vkf_problem own;
  const uint32_t heads = p->attention.heads / vkf_kern_attention_kv_heads(p); /* which are rows of one tile */
  if (caps->is_cpu || p->attention.queries * heads < LEAST) return VKF_NO_EFFORT;
  const double rows = vkf_kern_workgroups(v, p, caps, &own) * v->tile.attention.rows;
  return vkf_kern_attention_gpu_effort(v, p, caps, rows, 0.4, (double)LANES / v->subgroup);
}

const vkf_family vkf_family_attention_coopmat = {.name = "coopmat",
                                                 .fit = fit,
                                                 .workgroup = workgroup,
                                                 .shared_bytes = shared_bytes,
                                                 .registers = registers,
                                                 .grid = vkf_kern_attention_grid_by_tile,
                                                 .loop_turns = loop_turns,
                                                 .rounding = rounding,
                                                 .effort = effort};
