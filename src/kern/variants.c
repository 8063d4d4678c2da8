/* The one table of kernel variants, and their names.
 *
 * A row is a tiling strategy. Its name, constants, workgroup, shared bytes, grid and fit are computed from it and never
 * typed again. The order of the rows decides between variants that are otherwise equal. Unused fields are left out.
 */
#include <stdio.h>
#include <string.h>

#include "kern/family.h"
#include "kern/spirv.h"
#include "shared/constants.h"

/* The families, family_<name>.c. */
extern const vkf_family vkf_family_shared, vkf_family_split, vkf_family_vector, vkf_family_coopmat,
    vkf_family_coopmat_split, vkf_family_coopmat_halves, vkf_family_coopmat2, vkf_family_matmul_lane,
    vkf_family_matmul_uniform, vkf_family_naive, vkf_family_dot; /* matmul */
extern const vkf_family vkf_family_workgroup_per_query, vkf_family_subgroup_per_query, vkf_family_tiles,
    vkf_family_tiles_any, vkf_family_split_keys, vkf_family_attention_uniform, vkf_family_uniform_few,
    vkf_family_uniform_keys, vkf_family_vec4, vkf_family_heads, vkf_family_lane_per_query, vkf_family_attention_coopmat,
    vkf_family_weights; /* attention */
extern const vkf_family vkf_family_norm_wide, vkf_family_norm_subgroup, vkf_family_norm_uniform, vkf_family_norm_lanes,
    vkf_family_norm_row;
extern const vkf_family vkf_family_log_softmax_lanes, vkf_family_log_softmax_split, vkf_family_log_softmax_row;
extern const vkf_family vkf_family_top_k_lanes, vkf_family_top_k_split, vkf_family_top_k_row;
extern const vkf_family vkf_family_append, vkf_family_append_columns, vkf_family_append_turned,
    vkf_family_append_turned_columns, vkf_family_pairs, vkf_family_append_uniform, vkf_family_append_moved;
extern const vkf_family vkf_family_row, vkf_family_columns, vkf_family_logit_edit, vkf_family_logit_edit_columns;

/* The formats of kernels whose modules read weights in every format. */
#define ALL_FORMATS ((1u << VKF_FORMAT_COUNT) - 1)
/* The same for keys and values. */
#define CACHE_FORMATS (1u << VKF_FORMAT_F16)

/* The fields of all rows of a kind; a row adds its own. A row with texel access uses the module's "_texel" form. */
#define ROW(op_, family_, module_) .op = VKF_OP_##op_, .family = &vkf_family_##family_, .module = module_

#define TEXEL .access = VKF_ACCESS_TEXEL

/* matmul: tiles of x and w in shared memory. */
#define SHARED ROW(MATMUL, shared, "matmul_shared"), .needs = VKF_NEED_GPU | VKF_NEED_SHARED, .formats = ALL_FORMATS
/* The same with K split, for grids that would leave cores idle; a second dispatch adds up the parts. Weights in q8
 * would need a third, and VKF_MAX_STAGES is 2. */
#define SPLIT_FORMATS (ALL_FORMATS & ~(1u << VKF_FORMAT_Q8))
#define SPLIT                                                                                    \
  .combine = "matmul_combine", .needs = VKF_NEED_GPU | VKF_NEED_SHARED, .order = VKF_ORDER_FAST, \
  .formats = SPLIT_FORMATS, ROW(MATMUL, split, "matmul_split")
/* Few rows: a subgroup computes tm x tn, its lanes along K. A workgroup has bn / tn groups of columns, and for each of
 * them subgroups that share bk, four numbers per lane. */
#define VECTOR                                                                                                    \
  .needs = VKF_NEED_GPU | VKF_NEED_SHARED | VKF_NEED_ARITHMETIC, .order = VKF_ORDER_FAST, .formats = ALL_FORMATS, \
  ROW(MATMUL, vector, "matmul_vector")
/* A subgroup computes tm x tn of a workgroup's tile by cooperative matrices of f16, which hold formats of up to 16
 * bits. */
#define COOPMAT_OF(family_, module_, formats_, more_needs)                                                     \
  .vec = 8, .needs = VKF_NEED_GPU | VKF_NEED_SHARED | VKF_NEED_MATRIX | (more_needs), .order = VKF_ORDER_FAST, \
  .formats = (formats_) & ~(1u << VKF_FORMAT_F32), ROW(MATMUL, family_, module_)
#define COOPMAT COOPMAT_OF(coopmat, "matmul_coopmat", ALL_FORMATS, 0)
#define COOPMAT_SPLIT COOPMAT_OF(coopmat_split, "matmul_coopmat_split", SPLIT_FORMATS, 0), .combine = "matmul_combine"
/* A dispatch before rounds x to f16. Weights in q8 would need a third. */
#define COOPMAT_HALVES COOPMAT_OF(coopmat_halves, "matmul_coopmat_halves", SPLIT_FORMATS, 0)
/* Reads x in f16, too. The tile belongs to the workgroup as a whole; tm and tn say how many subgroups that has. */
#define COOPMAT2 COOPMAT_OF(coopmat2, "matmul_coopmat2", 1u << VKF_FORMAT_F16, VKF_NEED_MATRIX2)
/* A workgroup is one subgroup; a lane computes tm rows of tn columns. */
#define LANE_OF(module_) \
  ROW(MATMUL, matmul_lane, module_), .vec = 4, .weights = VKF_LAYOUT_W_LANE, .formats = ALL_FORMATS
#define LANE LANE_OF("matmul_lane"), .needs = VKF_NEED_SHUFFLE
/* TM is a macro of the shader here, part of the module. */
#define LANE_BROADCAST(module_) LANE_OF(module_), .subgroup = 4, .needs = VKF_NEED_BROADCAST, .fixed_tile = true
/* A lane owns tn columns, one of each vector; reads x and w by address. With a deeper step the loop has fewer turns,
 * but the pipeline takes longer to make; few rows, which every program has, gain less. */
#define UNIFORM(module_)                                                                         \
  .needs = VKF_NEED_UNIFORM | VKF_NEED_BROADCAST | VKF_NEED_INT64, .access = VKF_ACCESS_ADDRESS, \
  .weights = VKF_LAYOUT_W_COLUMNS, .formats = ALL_FORMATS, ROW(MATMUL, matmul_uniform, module_)

/* Keeps blocks of x and w in q8 as words in shared memory and multiplies four numbers at a time. */
#define DOT                                                                                  \
  .vec = 4, .needs = VKF_NEED_GPU | VKF_NEED_SHARED | VKF_NEED_DOT, .order = VKF_ORDER_FAST, \
  .formats = 1u << VKF_FORMAT_Q8, ROW(MATMUL, dot, "matmul_dot")

#define ATTENTION(family_, module_) \
  .formats = CACHE_FORMATS, .max_width = VKF_MAX_HEAD_WIDTH, ROW(ATTENTION, family_, module_)
/* One query per lane, four elements at a time. */
#define ATTENTION_VEC4 ATTENTION(vec4, "attention_vec4"), .vec = 4
/* A lane has a head of a query; the heads of all sequences are side by side. */
#define ATTENTION_HEADS \
  .formats = CACHE_FORMATS, .max_width = VKF_MAX_UNIFORM_WIDTH, .vec = 4, ROW(ATTENTION, heads, "attention_heads")
/* One query per workgroup. */
#define WORKGROUP_PER_QUERY                                                                              \
  ATTENTION(workgroup_per_query, "attention_workgroup_per_query"), .vec = 4, .workgroup = VKF_KEY_BLOCK, \
                                                                   .needs = VKF_NEED_SHARED
/* One query per subgroup, which is the workgroup. */
#define SUBGROUP_PER_QUERY(module_) ATTENTION(subgroup_per_query, module_), .vec = 4, .needs = VKF_NEED_SHUFFLE
/* lane_rows rows by VKF_KEY_BLOCK lanes, each with a key of every block of the tile. The bits are those of the other
 * kernels of class ascending, so batch-invariant and reproducible runs may use it, too. */
#define ATTENTION_TILES(family_, module_) ATTENTION(family_, module_), .needs = VKF_NEED_GPU | VKF_NEED_SHARED
/* Rows of several subgroups, each with the rows of one matrix. */
#define ATTENTION_COOPMAT                                                                                          \
  .needs = VKF_NEED_GPU | VKF_NEED_SHARED | VKF_NEED_SHUFFLE | VKF_NEED_MATRIX, .order = VKF_ORDER_FAST, .vec = 8, \
  .formats = CACHE_FORMATS, ROW(ATTENTION, attention_coopmat, "attention_coopmat")
/* Each workgroup has some rows and a part of the keys, in clusters of lanes; a lane has at most four vectors of a head.
 * Kernels of order class ascending add up the keys of a row in one sum. This one has a sum for each cluster and part,
 * so it is of class fast, and the number of parts may depend on keys, batch, heads and device (vkf_kern_split()): a
 * large batch is split no finer than the device can use. */
#define ATTENTION_SPLIT                                                                                 \
  .combine = "attention_combine", .vec = 4, .needs = VKF_NEED_GPU | VKF_NEED_SHARED | VKF_NEED_SHUFFLE, \
  .order = VKF_ORDER_FAST, .formats = CACHE_FORMATS, ROW(ATTENTION, split_keys, "attention_split")
/* One query per lane, keys and values by addresses that all lanes share. */
#define ATTENTION_UNIFORM(family_, module_)                                                                \
  .vec = 4, .needs = VKF_NEED_UNIFORM | VKF_NEED_BROADCAST | VKF_NEED_INT64, .access = VKF_ACCESS_ADDRESS, \
  .formats = CACHE_FORMATS, .max_width = VKF_MAX_UNIFORM_WIDTH, .not_reproducible = true,                  \
  ROW(ATTENTION, family_, module_)
/* The same with one query per subgroup. */
#define UNIFORM_KEYS                                                                                                \
  .vec = 4, .needs = VKF_NEED_UNIFORM | VKF_NEED_BROADCAST, .access = VKF_ACCESS_ADDRESS, .formats = CACHE_FORMATS, \
  .max_width = VKF_MAX_UNIFORM_WIDTH, .not_reproducible = true, ROW(ATTENTION, uniform_keys, "attention_uniform_keys")
#define ATTENTION_WEIGHTS \
  .formats = CACHE_FORMATS, .max_width = VKF_MAX_HEAD_WIDTH, ROW(ATTENTION_WEIGHTS, weights, "attention_weights")

/* Rows: one for each workgroup, through shared memory, or one for each subgroup, which is then the workgroup. Both give
 * the same bits. */
#define BY_WORKGROUP .workgroup = VKF_ROW_PARTIALS, .needs = VKF_NEED_SHARED
#define NORM_UNIFORM(module_)                                                                        \
  ROW(NORM, norm_uniform, module_), .needs = VKF_NEED_UNIFORM | VKF_NEED_BROADCAST | VKF_NEED_INT64, \
                                    .access = VKF_ACCESS_ADDRESS
#define APPEND_UNIFORM(family_, module_)                                                          \
  ROW(APPEND, family_, module_), .needs = VKF_NEED_UNIFORM | VKF_NEED_BROADCAST | VKF_NEED_INT64, \
                                 .access = VKF_ACCESS_ADDRESS
#define NORM_LANES(module_) ROW(NORM, norm_lanes, module_), .needs = VKF_NEED_SHUFFLE
#define LOG_SOFTMAX_LANES(module_) ROW(LOG_SOFTMAX, log_softmax_lanes, module_), .needs = VKF_NEED_SHUFFLE
#define TOP_K_LANES(module_) \
  .needs = VKF_NEED_SHUFFLE | VKF_NEED_BROADCAST, .max_width = VKF_MAX_LANES_K, ROW(TOP_K, top_k_lanes, module_)
/* Rows without sums, each shared by workgroups. */
#define COLUMNS .workgroup = 64, .needs = VKF_NEED_GPU
/* One row per subgroup, which adds up in its own order. */
#define NORM_SUBGROUP ROW(NORM, norm_subgroup, "norm_subgroup"), .needs = VKF_NEED_ARITHMETIC, .order = VKF_ORDER_FAST

/* One row per workgroup of several subgroups, in registers. */
#define NORM_WIDE                                                                                           \
  .workgroup = 256, .needs = VKF_NEED_GPU | VKF_NEED_SHARED | VKF_NEED_ARITHMETIC, .order = VKF_ORDER_FAST, \
  ROW(NORM, norm_wide, "norm_wide")

static const vkf_variant table[] = {
    {ROW(EMBED, columns, "embed"), COLUMNS, .formats = ALL_FORMATS},
    {ROW(EMBED, row, "embed"), .workgroup = 64, .formats = ALL_FORMATS},
    {UNIFORM("matmul_uniform_w8_d64"), .subgroup = 8, .tile.gemm = {.bm = 6, .bn = 16, .bk = 64, .tm = 6, .tn = 2}},
    {UNIFORM("matmul_uniform_w8_d64"), .subgroup = 8, .tile.gemm = {.bm = 4, .bn = 16, .bk = 64, .tm = 4, .tn = 2}},
    {UNIFORM("matmul_uniform_w8_d64"), .subgroup = 8, .tile.gemm = {.bm = 2, .bn = 16, .bk = 64, .tm = 2, .tn = 2}},
    {UNIFORM("matmul_uniform_w8_d64"), .subgroup = 8, .tile.gemm = {.bm = 1, .bn = 16, .bk = 64, .tm = 1, .tn = 2}},
    {UNIFORM("matmul_uniform_w16_d32"), .subgroup = 16, .tile.gemm = {.bm = 6, .bn = 64, .bk = 32, .tm = 6, .tn = 4}},
    {UNIFORM("matmul_uniform_w16_d16"), .subgroup = 16, .tile.gemm = {.bm = 4, .bn = 64, .bk = 16, .tm = 4, .tn = 4}},
    {UNIFORM("matmul_uniform_w16_d16"), .subgroup = 16, .tile.gemm = {.bm = 2, .bn = 64, .bk = 16, .tm = 2, .tn = 4}},
    {UNIFORM("matmul_uniform_w16_d16"), .subgroup = 16, .tile.gemm = {.bm = 1, .bn = 64, .bk = 16, .tm = 1, .tn = 4}},
    {LANE, .subgroup = 8, TEXEL, .tile.gemm = {.bm = 16, .bn = 32, .bk = 4, .tm = 16, .tn = 4}},
    {LANE, .subgroup = 8, TEXEL, .tile.gemm = {.bm = 8, .bn = 32, .bk = 4, .tm = 8, .tn = 4}},
    {LANE, .subgroup = 8, TEXEL, .tile.gemm = {.bm = 4, .bn = 32, .bk = 4, .tm = 4, .tn = 4}},
    {LANE, .subgroup = 8, TEXEL, .tile.gemm = {.bm = 1, .bn = 32, .bk = 4, .tm = 1, .tn = 4}},
    {LANE, .subgroup = 8, .tile.gemm = {.bm = 16, .bn = 32, .bk = 4, .tm = 16, .tn = 4}},
    {LANE, .subgroup = 8, .tile.gemm = {.bm = 8, .bn = 32, .bk = 4, .tm = 8, .tn = 4}},
    {LANE, .subgroup = 8, .tile.gemm = {.bm = 4, .bn = 32, .bk = 4, .tm = 4, .tn = 4}},
    {LANE, .subgroup = 8, .tile.gemm = {.bm = 1, .bn = 32, .bk = 4, .tm = 1, .tn = 4}},
    {LANE, .subgroup = 16, TEXEL, .tile.gemm = {.bm = 16, .bn = 64, .bk = 4, .tm = 16, .tn = 4}},
    {LANE, .subgroup = 16, TEXEL, .tile.gemm = {.bm = 8, .bn = 64, .bk = 4, .tm = 8, .tn = 4}},
    {LANE, .subgroup = 16, TEXEL, .tile.gemm = {.bm = 4, .bn = 64, .bk = 4, .tm = 4, .tn = 4}},
    {LANE, .subgroup = 16, TEXEL, .tile.gemm = {.bm = 1, .bn = 64, .bk = 4, .tm = 1, .tn = 4}},
    {LANE, .subgroup = 16, .tile.gemm = {.bm = 16, .bn = 64, .bk = 4, .tm = 16, .tn = 4}},
    {LANE, .subgroup = 16, .tile.gemm = {.bm = 8, .bn = 64, .bk = 4, .tm = 8, .tn = 4}},
    {LANE, .subgroup = 16, .tile.gemm = {.bm = 4, .bn = 64, .bk = 4, .tm = 4, .tn = 4}},
    {LANE, .subgroup = 16, .tile.gemm = {.bm = 1, .bn = 64, .bk = 4, .tm = 1, .tn = 4}},
    {LANE_BROADCAST("matmul_lane_broadcast_m16"), .tile.gemm = {.bm = 16, .bn = 16, .bk = 4, .tm = 16, .tn = 4}},
    {LANE_BROADCAST("matmul_lane_broadcast_m4"), .tile.gemm = {.bm = 4, .bn = 16, .bk = 4, .tm = 4, .tn = 4}},
    {LANE_BROADCAST("matmul_lane_broadcast_m1"), .tile.gemm = {.bm = 1, .bn = 16, .bk = 4, .tm = 1, .tn = 4}},
    /* NVIDIA; AMD with 32 and with 64 lanes; Intel below; lavapipe, to test the others' kernel. */
    {COOPMAT, .subgroup = 32, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 128, .bn = 128, .bk = 32, .tm = 64, .tn = 32}},
    {COOPMAT, .subgroup = 32, .matrix = {16, 16, 16}, .tile.gemm = {.bm = 64, .bn = 64, .bk = 32, .tm = 32, .tn = 32}},
    {COOPMAT, .subgroup = 32, .matrix = {16, 16, 16}, .tile.gemm = {.bm = 16, .bn = 64, .bk = 64, .tm = 16, .tn = 16}},
    {COOPMAT, .subgroup = 64, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 128, .bn = 128, .bk = 32, .tm = 64, .tn = 64}},
    {COOPMAT, .subgroup = 64, .matrix = {16, 16, 16}, .tile.gemm = {.bm = 64, .bn = 64, .bk = 32, .tm = 32, .tn = 32}},
    {COOPMAT, .subgroup = 64, .matrix = {16, 16, 16}, .tile.gemm = {.bm = 16, .bn = 64, .bk = 64, .tm = 16, .tn = 16}},
    /* Intel: Alchemist; Ponte Vecchio and later. */
    {COOPMAT, .subgroup = 8, .matrix = {8, 8, 16}, .tile.gemm = {.bm = 64, .bn = 64, .bk = 32, .tm = 16, .tn = 16}},
    {COOPMAT, .subgroup = 8, .matrix = {8, 8, 16}, .tile.gemm = {.bm = 16, .bn = 64, .bk = 32, .tm = 8, .tn = 16}},
    {COOPMAT, .subgroup = 16, .matrix = {8, 16, 16}, .tile.gemm = {.bm = 64, .bn = 64, .bk = 32, .tm = 32, .tn = 16}},
    {COOPMAT, .subgroup = 16, .matrix = {8, 16, 16}, .tile.gemm = {.bm = 16, .bn = 64, .bk = 32, .tm = 8, .tn = 16}},
    {COOPMAT, .subgroup = 8, .matrix = {8, 8, 8}, .tile.gemm = {.bm = 32, .bn = 32, .bk = 16, .tm = 16, .tn = 16}},
    {COOPMAT, .subgroup = 8, .matrix = {8, 8, 8}, .tile.gemm = {.bm = 16, .bn = 64, .bk = 32, .tm = 8, .tn = 32}},
    /* Many rows: NVIDIA, with 200 numbers in registers and with fewer, and of few tiles; AMD; lavapipe. */
    {COOPMAT_HALVES, .subgroup = 32, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 128, .bn = 128, .bk = 32, .tm = 64, .tn = 64}},
    {COOPMAT_HALVES, .subgroup = 32, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 64, .bn = 64, .bk = 64, .tm = 32, .tn = 32}},
    {COOPMAT_HALVES, .subgroup = 32, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 128, .bn = 128, .bk = 32, .tm = 64, .tn = 32}},
    {COOPMAT_HALVES, .subgroup = 64, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 128, .bn = 128, .bk = 32, .tm = 64, .tn = 64}},
    {COOPMAT_HALVES, .subgroup = 8, .matrix = {8, 8, 8},
     .tile.gemm = {.bm = 32, .bn = 32, .bk = 16, .tm = 16, .tn = 16}},
    /* NVIDIA. */
    {COOPMAT2, .subgroup = 32, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 128, .bn = 128, .bk = 64, .tm = 64, .tn = 32}},
    {COOPMAT2, .subgroup = 32, .matrix = {16, 16, 16}, .tile.gemm = {.bm = 64, .bn = 64, .bk = 64, .tm = 32, .tn = 32}},
    /* The same devices, K split. */
    {COOPMAT_SPLIT, .subgroup = 32, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 64, .bn = 64, .bk = 32, .tm = 32, .tn = 32}},
    {COOPMAT_SPLIT, .subgroup = 32, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 16, .bn = 64, .bk = 64, .tm = 16, .tn = 16}},
    {COOPMAT_SPLIT, .subgroup = 64, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 64, .bn = 64, .bk = 32, .tm = 32, .tn = 32}},
    {COOPMAT_SPLIT, .subgroup = 64, .matrix = {16, 16, 16},
     .tile.gemm = {.bm = 16, .bn = 64, .bk = 64, .tm = 16, .tn = 16}},
    {COOPMAT_SPLIT, .subgroup = 8, .matrix = {8, 8, 16},
     .tile.gemm = {.bm = 64, .bn = 64, .bk = 32, .tm = 16, .tn = 16}},
    {COOPMAT_SPLIT, .subgroup = 8, .matrix = {8, 8, 16},
     .tile.gemm = {.bm = 16, .bn = 64, .bk = 32, .tm = 8, .tn = 16}},
    {COOPMAT_SPLIT, .subgroup = 16, .matrix = {8, 16, 16},
     .tile.gemm = {.bm = 64, .bn = 64, .bk = 32, .tm = 32, .tn = 16}},
    {COOPMAT_SPLIT, .subgroup = 16, .matrix = {8, 16, 16},
     .tile.gemm = {.bm = 16, .bn = 64, .bk = 32, .tm = 8, .tn = 16}},
    {COOPMAT_SPLIT, .subgroup = 8, .matrix = {8, 8, 8}, .tile.gemm = {.bm = 16, .bn = 64, .bk = 32, .tm = 8, .tn = 32}},
    /* NVIDIA, Intel, RDNA; Intel and others; AMD, Adreno; lavapipe, to test the others' kernel. On an H100 few rows are
     * 10 to 15 % faster where four subgroups share K; eight are slower. */
    {VECTOR, .subgroup = 32, .tile.gemm = {.bm = 1, .bn = 2, .bk = 512, .tm = 1, .tn = 2}},
    {VECTOR, .subgroup = 32, .tile.gemm = {.bm = 1, .bn = 8, .bk = 128, .tm = 1, .tn = 2}},
    {VECTOR, .subgroup = 32, .tile.gemm = {.bm = 4, .bn = 2, .bk = 512, .tm = 4, .tn = 2}},
    {VECTOR, .subgroup = 32, .tile.gemm = {.bm = 4, .bn = 8, .bk = 128, .tm = 4, .tn = 2}},
    {VECTOR, .subgroup = 32, .tile.gemm = {.bm = 8, .bn = 16, .bk = 128, .tm = 8, .tn = 4}},
    {VECTOR, .subgroup = 32, .tile.gemm = {.bm = 8, .bn = 4, .bk = 512, .tm = 8, .tn = 4}},
    {VECTOR, .subgroup = 16, .tile.gemm = {.bm = 1, .bn = 8, .bk = 64, .tm = 1, .tn = 2}},
    {VECTOR, .subgroup = 16, .tile.gemm = {.bm = 1, .bn = 2, .bk = 256, .tm = 1, .tn = 2}},
    {VECTOR, .subgroup = 16, .tile.gemm = {.bm = 4, .bn = 8, .bk = 64, .tm = 4, .tn = 2}},
    {VECTOR, .subgroup = 16, .tile.gemm = {.bm = 4, .bn = 2, .bk = 256, .tm = 4, .tn = 2}},
    {VECTOR, .subgroup = 16, .tile.gemm = {.bm = 8, .bn = 16, .bk = 64, .tm = 8, .tn = 4}},
    {VECTOR, .subgroup = 16, .tile.gemm = {.bm = 8, .bn = 4, .bk = 256, .tm = 8, .tn = 4}},
    {VECTOR, .subgroup = 64, .tile.gemm = {.bm = 1, .bn = 8, .bk = 256, .tm = 1, .tn = 2}},
    {VECTOR, .subgroup = 64, .tile.gemm = {.bm = 1, .bn = 2, .bk = 1024, .tm = 1, .tn = 2}},
    {VECTOR, .subgroup = 64, .tile.gemm = {.bm = 4, .bn = 8, .bk = 256, .tm = 4, .tn = 2}},
    {VECTOR, .subgroup = 64, .tile.gemm = {.bm = 4, .bn = 2, .bk = 1024, .tm = 4, .tn = 2}},
    {VECTOR, .subgroup = 64, .tile.gemm = {.bm = 8, .bn = 16, .bk = 256, .tm = 8, .tn = 4}},
    {VECTOR, .subgroup = 64, .tile.gemm = {.bm = 8, .bn = 4, .bk = 1024, .tm = 8, .tn = 4}},
    {VECTOR, .subgroup = 8, .tile.gemm = {.bm = 1, .bn = 8, .bk = 32, .tm = 1, .tn = 2}},
    {VECTOR, .subgroup = 8, .tile.gemm = {.bm = 1, .bn = 2, .bk = 128, .tm = 1, .tn = 2}},
    {VECTOR, .subgroup = 8, .tile.gemm = {.bm = 4, .bn = 8, .bk = 32, .tm = 4, .tn = 2}},
    {VECTOR, .subgroup = 8, .tile.gemm = {.bm = 4, .bn = 2, .bk = 128, .tm = 4, .tn = 2}},
    {VECTOR, .subgroup = 8, .tile.gemm = {.bm = 8, .bn = 16, .bk = 32, .tm = 8, .tn = 4}},
    {VECTOR, .subgroup = 8, .tile.gemm = {.bm = 8, .bn = 4, .bk = 128, .tm = 8, .tn = 4}},
    /* Two slices if they fit into 32 KiB of shared memory. One if they do not, or in tiles that a small device (16 KiB,
     * 128 invocations) needs: for many rows (64x64 with 64 invocations), for few (16x64) and between. */
    {SHARED, .tile.gemm = {.bm = 128, .bn = 128, .bk = 16, .tm = 8, .tn = 8, .slices = 1}},
    {SHARED, .tile.gemm = {.bm = 128, .bn = 64, .bk = 16, .tm = 8, .tn = 4, .slices = 2}},
    {SHARED, .tile.gemm = {.bm = 64, .bn = 64, .bk = 16, .tm = 4, .tn = 4, .slices = 2}},
    {SHARED, .tile.gemm = {.bm = 64, .bn = 64, .bk = 16, .tm = 8, .tn = 8, .slices = 1}},
    {SHARED, .tile.gemm = {.bm = 64, .bn = 32, .bk = 16, .tm = 4, .tn = 4, .slices = 1}},
    {SHARED, .tile.gemm = {.bm = 32, .bn = 32, .bk = 16, .tm = 4, .tn = 4, .slices = 1}},
    {SHARED, .tile.gemm = {.bm = 16, .bn = 64, .bk = 16, .tm = 2, .tn = 4, .slices = 1}},
    {SPLIT, .tile.gemm = {.bm = 64, .bn = 64, .bk = 16, .tm = 4, .tn = 4, .slices = 2}},
    {SPLIT, .tile.gemm = {.bm = 64, .bn = 64, .bk = 16, .tm = 8, .tn = 8, .slices = 1}},
    {SPLIT, .tile.gemm = {.bm = 32, .bn = 32, .bk = 16, .tm = 4, .tn = 4, .slices = 1}},
    {SPLIT, .tile.gemm = {.bm = 16, .bn = 64, .bk = 16, .tm = 2, .tn = 4, .slices = 1}},
    {DOT, .tile.gemm = {.bm = 128, .bn = 64, .bk = VKF_Q8_BLOCK, .tm = 8, .tn = 4}},
    {DOT, .tile.gemm = {.bm = 64, .bn = 64, .bk = VKF_Q8_BLOCK, .tm = 4, .tn = 4}},
    {DOT, .tile.gemm = {.bm = 32, .bn = 32, .bk = VKF_Q8_BLOCK, .tm = 4, .tn = 4}},
    {DOT, .tile.gemm = {.bm = 16, .bn = 64, .bk = VKF_Q8_BLOCK, .tm = 2, .tn = 4}},
    {ROW(MATMUL, naive, "matmul_naive"), .workgroup = 64, .weights = VKF_LAYOUT_W_COUNT /* any */,
     .formats = ALL_FORMATS, .tile.gemm = {.bm = 1, .bn = 64, .bk = 1, .tm = 1, .tn = 1}},
    {WORKGROUP_PER_QUERY},
    {WORKGROUP_PER_QUERY, TEXEL},
    {SUBGROUP_PER_QUERY("attention_subgroup_per_query"), .subgroup = 8, TEXEL},
    {SUBGROUP_PER_QUERY("attention_subgroup_per_query"), .subgroup = 8},
    {SUBGROUP_PER_QUERY("attention_subgroup_per_query"), .subgroup = 16, TEXEL},
    {SUBGROUP_PER_QUERY("attention_subgroup_per_query"), .subgroup = 16},
    {SUBGROUP_PER_QUERY("attention_subgroup_per_query_w4"), .subgroup = 4},
    {ATTENTION_TILES(tiles, "attention_tiles"), .vec = 4,
     .tile.attention = {.rows = 64, .keys = 32, .slice = 64, .lane_rows = 4, .lane_keys = 2}},
    {ATTENTION_TILES(tiles, "attention_tiles"), .vec = 4,
     .tile.attention = {.rows = 32, .keys = 32, .slice = 64, .lane_rows = 4, .lane_keys = 2}},
    {ATTENTION_TILES(tiles, "attention_tiles"), .vec = 4,
     .tile.attention = {.rows = 16, .keys = 32, .slice = 64, .lane_rows = 2, .lane_keys = 2}},
    /* This one also fits into 16 KiB of shared memory. */
    {ATTENTION_TILES(tiles, "attention_tiles"), .vec = 4,
     .tile.attention = {.rows = 32, .keys = 16, .slice = 64, .lane_rows = 4, .lane_keys = 1}},
    /* A lane of V3D has no more registers. */
    {ATTENTION_TILES(tiles, "attention_tiles"), .vec = 4,
     .tile.attention = {.rows = 16, .keys = 16, .slice = 64, .lane_rows = 1, .lane_keys = 1}},
    {ATTENTION_TILES(tiles_any, "attention_tiles_any"),
     .tile.attention = {.rows = 32, .keys = 16, .slice = 64, .lane_rows = 4, .lane_keys = 1}},
    {ATTENTION_COOPMAT, .subgroup = 32, .matrix = {16, 16, 16}, .max_width = 128,
     .tile.attention = {.rows = 64, .keys = 32, .slice = 128, .lane_rows = 16, .lane_keys = 32}},
    {ATTENTION_COOPMAT, .subgroup = 64, .matrix = {16, 16, 16}, .max_width = 128,
     .tile.attention = {.rows = 64, .keys = 32, .slice = 128, .lane_rows = 16, .lane_keys = 32}},
    /* lavapipe, to test the others' kernel. */
    {ATTENTION_COOPMAT, .subgroup = 8, .matrix = {8, 8, 8}, .max_width = 128,
     .tile.attention = {.rows = 32, .keys = 32, .slice = 128, .lane_rows = 8, .lane_keys = 32}},
    {ATTENTION_SPLIT, .subgroup = 32, .max_width = 256,
     .tile.attention = {.rows = 8, .keys = 32, .cluster = 16, .lane_rows = 8, .lane_keys = 4}},
    {ATTENTION_SPLIT, .subgroup = 32, .max_width = 256,
     .tile.attention = {.rows = 4, .keys = 32, .cluster = 16, .lane_rows = 4, .lane_keys = 4}},
    {ATTENTION_SPLIT, .subgroup = 32, .max_width = 256,
     .tile.attention = {.rows = 1, .keys = 32, .cluster = 16, .lane_rows = 1, .lane_keys = 4}},
    {ATTENTION_SPLIT, .subgroup = 64, .max_width = 256,
     .tile.attention = {.rows = 8, .keys = 32, .cluster = 16, .lane_rows = 8, .lane_keys = 4}},
    {ATTENTION_SPLIT, .subgroup = 64, .max_width = 256,
     .tile.attention = {.rows = 4, .keys = 32, .cluster = 16, .lane_rows = 4, .lane_keys = 4}},
    {ATTENTION_SPLIT, .subgroup = 64, .max_width = 256,
     .tile.attention = {.rows = 1, .keys = 32, .cluster = 16, .lane_rows = 1, .lane_keys = 4}},
    /* Intel, Mali. */
    {ATTENTION_SPLIT, .subgroup = 16, .max_width = 256,
     .tile.attention = {.rows = 4, .keys = 32, .cluster = 16, .lane_rows = 4, .lane_keys = 4}},
    {ATTENTION_SPLIT, .subgroup = 16, .max_width = 256,
     .tile.attention = {.rows = 1, .keys = 32, .cluster = 16, .lane_rows = 1, .lane_keys = 4}},
    /* Software drivers, to test the others' kernel. */
    {ATTENTION_SPLIT, .subgroup = 8, .max_width = 128,
     .tile.attention = {.rows = 4, .keys = 32, .cluster = 8, .lane_rows = 4, .lane_keys = 4}},
    {ATTENTION_SPLIT, .subgroup = 8, .max_width = 128,
     .tile.attention = {.rows = 1, .keys = 32, .cluster = 8, .lane_rows = 1, .lane_keys = 4}},
    {ATTENTION_SPLIT, .subgroup = 4, .max_width = 64,
     .tile.attention = {.rows = 4, .keys = 32, .cluster = 4, .lane_rows = 4, .lane_keys = 4}},
    {UNIFORM_KEYS, .subgroup = 8},
    {UNIFORM_KEYS, .subgroup = 16},
    {ATTENTION_UNIFORM(attention_uniform, "attention_uniform"), .subgroup = 8},
    {ATTENTION_UNIFORM(attention_uniform, "attention_uniform"), .subgroup = 16},
    {ATTENTION_UNIFORM(uniform_few, "attention_uniform_few"), .subgroup = 8},
    {ATTENTION_UNIFORM(uniform_few, "attention_uniform_few"), .subgroup = 16},
    {ATTENTION_HEADS, .workgroup = 8},
    {ATTENTION_HEADS, .workgroup = 8, TEXEL},
    {ATTENTION_HEADS, .workgroup = 16},
    {ATTENTION_HEADS, .workgroup = 16, TEXEL},
    {ATTENTION_VEC4, .workgroup = 8},
    {ATTENTION_VEC4, .workgroup = 8, TEXEL},
    {ATTENTION(lane_per_query, "attention"), .workgroup = 8},
    {ATTENTION(lane_per_query, "attention"), .workgroup = 32},
    {ATTENTION_WEIGHTS, .workgroup = 8},
    {ATTENTION_WEIGHTS, .workgroup = 32},
    {NORM_WIDE, .subgroup = 32},
    {NORM_WIDE, .subgroup = 16},
    {NORM_WIDE, .subgroup = 64},
    {NORM_WIDE, .subgroup = 8}, /* software drivers, to test the others' kernel */
    {NORM_WIDE, .subgroup = 4},
    {NORM_SUBGROUP, .subgroup = 8},
    {NORM_SUBGROUP, .subgroup = 16},
    {NORM_SUBGROUP, .subgroup = 32},
    {NORM_SUBGROUP, .subgroup = 64},
    {NORM_UNIFORM("norm_uniform_w8"), .subgroup = 8},
    {NORM_UNIFORM("norm_uniform_w16"), .subgroup = 16},
    {NORM_LANES("norm_lanes"), .subgroup = 8, TEXEL},
    {NORM_LANES("norm_lanes"), .subgroup = 8},
    {NORM_LANES("norm_lanes"), .subgroup = 16, TEXEL},
    {NORM_LANES("norm_lanes"), .subgroup = 16},
    {NORM_LANES("norm_lanes_w4"), .subgroup = 4},
    {ROW(NORM, norm_row, "norm"), BY_WORKGROUP},
    {APPEND_UNIFORM(append_moved, "append_moved_w8"), .subgroup = 8},
    {APPEND_UNIFORM(append_moved, "append_moved_w16"), .subgroup = 16},
    {ROW(APPEND, pairs, "append_pairs"), .vec = 2, .workgroup = 16, .needs = VKF_NEED_INT64},
    {APPEND_UNIFORM(append_uniform, "append_uniform_w8"), .subgroup = 8},
    {APPEND_UNIFORM(append_uniform, "append_uniform_w16"), .subgroup = 16},
    {ROW(APPEND, append_columns, "append"), COLUMNS, .formats = CACHE_FORMATS},
    {ROW(APPEND, append_turned_columns, "append_turned"), COLUMNS, .formats = CACHE_FORMATS},
    {ROW(APPEND, append, "append"), .workgroup = 64, .formats = CACHE_FORMATS},
    {ROW(APPEND, append_turned, "append_turned"), .workgroup = 64, .formats = CACHE_FORMATS},
    {ROW(GATHER, columns, "gather"), COLUMNS},
    {ROW(GATHER, row, "gather"), .workgroup = 64},
    {LOG_SOFTMAX_LANES("log_softmax_lanes"), .subgroup = 8, TEXEL},
    {LOG_SOFTMAX_LANES("log_softmax_lanes"), .subgroup = 8},
    {LOG_SOFTMAX_LANES("log_softmax_lanes"), .subgroup = 16, TEXEL},
    {LOG_SOFTMAX_LANES("log_softmax_lanes"), .subgroup = 16},
    {LOG_SOFTMAX_LANES("log_softmax_lanes_w4"), .subgroup = 4},
    {ROW(LOG_SOFTMAX, log_softmax_split, "log_softmax_split"), .workgroup = VKF_ROW_PARTIALS,
     .combine = "log_softmax_combine", .needs = VKF_NEED_GPU | VKF_NEED_SHARED, .order = VKF_ORDER_FAST},
    {ROW(LOG_SOFTMAX, log_softmax_row, "log_softmax"), BY_WORKGROUP},
    {ROW(LOGIT_EDIT, logit_edit_columns, "logit_edit"), COLUMNS},
    {ROW(LOGIT_EDIT, logit_edit, "logit_edit"), .workgroup = 64},
    {TOP_K_LANES("top_k_lanes"), .subgroup = 8, TEXEL},
    {TOP_K_LANES("top_k_lanes"), .subgroup = 8},
    {TOP_K_LANES("top_k_lanes"), .subgroup = 16, TEXEL},
    {TOP_K_LANES("top_k_lanes"), .subgroup = 16},
    {TOP_K_LANES("top_k_lanes_w4"), .subgroup = 4},
    {ROW(TOP_K, top_k_split, "top_k_split"), .workgroup = VKF_ROW_PARTIALS, .combine = "top_k_combine",
     .needs = VKF_NEED_GPU | VKF_NEED_SHARED},
    {ROW(TOP_K, top_k_row, "top_k"), BY_WORKGROUP},
    {ROW(ROPE, row, "rope"), .workgroup = 64},
    {ROW(GATE, row, "gate"), .workgroup = 64},
    {ROW(RELATIVE_BIAS, row, "relative_bias"), .workgroup = 64},
    {ROW(PATCHES, row, "patches"), .workgroup = 64},
};

const vkf_variant *vkf_kern_variants(size_t *n) {
  *n = VKF_COUNT(table);
  return table;
}

const char *vkf_kern_name(const vkf_variant *v, char *buffer, size_t size) {
  char tile[64] = "", lanes[16] = "";
  const uint32_t *t = v->tile.constants; /* BM, BN, BK, TM, TN */
  if (t[0] && v->needs & VKF_NEED_SHARED)
    snprintf(tile, sizeof tile, "-%ux%ux%u-m%un%u", t[0], t[1], t[2], t[3], t[4]);
  else if (t[0])
    snprintf(tile, sizeof tile, "-m%un%u", t[3], t[4]);
  if (v->matrix.m)
    snprintf(tile + strlen(tile), sizeof tile - strlen(tile), "-%ux%ux%u", v->matrix.m, v->matrix.n, v->matrix.k);
  if (v->subgroup) snprintf(lanes, sizeof lanes, "-w%u", v->subgroup);
  if (!v->subgroup && !t[0]) snprintf(lanes, sizeof lanes, "-%u", v->workgroup);
  snprintf(buffer, size, "%s-%s%s%s%s", vkf_op_name(v->op), v->own ? "own" : v->family->name, tile, lanes,
           v->access == VKF_ACCESS_TEXEL ? "-texel" : "");
  return buffer;
}

const char *vkf_kern_module(const vkf_variant *v, uint32_t stage, const vkf_problem *p, const vkf_caps *caps,
                            char *buffer, size_t size) {
  const bool rounds_x = vkf_kern_rounds_x(v, p), own = stage == rounds_x;
  const vkf_format format = vkf_format_get(p->packing.format)->q8 ? VKF_FORMAT_INT8 : p->packing.format;
  /* Dispatches pass float32 on to each other; one that combines sums also reads the scales of rows, if the format has
   * them. */
  const bool scales = stage > rounds_x && vkf_format_get(format)->block,
             stored = own ? format != VKF_FORMAT_F32 : scales;
  const char *before = v->family->round_x ? v->family->round_x : "quantise";
  const char *module = own ? v->module : rounds_x ? before : v->combine, *forms[] = {"_written_out", ""};
  for (size_t i = caps->indexed_registers; i < VKF_COUNT(forms); i++) { /* the first one that the build has */
    snprintf(buffer, size, "%s%s%s%s%s%s", module, own && v->access == VKF_ACCESS_TEXEL ? "_texel" : "", forms[i],
             stored ? "_" : "", stored ? vkf_format_get(format)->name : "", p->reproducible ? "_reproducible" : "");
    if (vkf_kern_spirv_find(vkf_kern_spirv_table, buffer)) break;
  }
  return buffer;
}

const vkf_variant *vkf_kern_find(const char *name) {
  char own[128];
  for (size_t i = 0; i < VKF_COUNT(table); i++)
    if (!strcmp(vkf_kern_name(&table[i], own, sizeof own), name)) return &table[i];
  return NULL;
}

bool vkf_kern_is_written_for(uint32_t subgroup_size) {
  for (size_t i = 0; i < VKF_COUNT(table); i++)
    if (table[i].subgroup == subgroup_size) return true;
  return false;
}

bool vkf_kern_is_written_for_matrix(uint32_t subgroup_size, const vkf_matrix_shape *s) {
  for (size_t i = 0; i < VKF_COUNT(table); i++) {
    const vkf_matrix_shape *own = &table[i].matrix;
    if (table[i].subgroup == subgroup_size && own->m == s->m && own->n == s->n && own->k == s->k) return true;
  }
  return false;
}

const struct vkf_kern_spirv *vkf_kern_spirv_find(const struct vkf_kern_spirv *modules, const char *name) {
  while (modules->name && strcmp(modules->name, name)) modules++;
  return modules->name ? modules : NULL;
}

uint64_t vkf_kern_checksum(void) {
  char name[128];
  uint64_t sum = VKF_HASH_START;
  for (size_t i = 0; i < VKF_COUNT(table); i++) sum = vkf_hash_text(sum, vkf_kern_name(&table[i], name, sizeof name));
  for (size_t i = 0; i < vkf_kern_spirv_count; i++)
    for (size_t w = 0; w < vkf_kern_spirv_table[i].n_words; w++)
      sum = vkf_hash_step(sum, vkf_kern_spirv_table[i].words[w]);
  return sum;
}
