/* Cases of rope and relative_bias: odd sizes, both layouts of pairs, a part of a head rotated, queries or keys alone,
 * shared keys; buckets of distances. */
#include "op/cases.h"

/* H and HK heads of width K with R columns rotated: queries from column QCOL, keys from KCOL, W columns in all. */
#define ROPE(ROWS, H, HK, K, R, QCOL, KCOL, W, N, PAIRS, DATA, SEED)                                          \
  {                                                                                                           \
    .name = #PAIRS " " #ROWS " rows, " #H " and " #HK " heads of " #K ", " #R " rotated, at " #QCOL " " #KCOL \
                   " of " #W " " #DATA,                                                                       \
    .op = VKF_OP_ROPE,                                                                                        \
    .params = {.rope = {.rows = VKF_DIM_BS,                                                                   \
                        .width = W,                                                                           \
                        .n_heads = H,                                                                         \
                        .q_column = QCOL,                                                                     \
                        .n_kv_heads = HK,                                                                     \
                        .k_column = KCOL,                                                                     \
                        .head_width = K,                                                                      \
                        .rotary = R,                                                                          \
                        .n_positions = N,                                                                     \
                        .pairs = VKF_ROPE_##PAIRS}},                                                          \
    .sizes = {.B = 1, .S = ROWS}, .data = VKF_DATA_##DATA, .seed = SEED,                                      \
  }

static const vkf_case rope_cases[] = {
    ROPE(1, 1, 0, 2, 2, 0, 0, 2, 1, HALVES, NORMAL, 1),
    ROPE(1, 1, 0, 2, 2, 0, 0, 2, 3, INTERLEAVED, NORMAL, 2),
    ROPE(3, 2, 2, 4, 4, 0, 8, 24, 7, HALVES, NORMAL, 3),
    ROPE(7, 2, 1, 8, 8, 0, 16, 32, 16, INTERLEAVED, NORMAL, 4),
    ROPE(15, 4, 2, 16, 16, 0, 64, 128, 31, HALVES, NORMAL, 5),
    ROPE(17, 3, 1, 10, 6, 0, 30, 50, 40, HALVES, NORMAL, 6),
    ROPE(16, 3, 3, 10, 6, 0, 30, 90, 40, INTERLEAVED, NORMAL, 7),
    ROPE(33, 1, 1, 64, 64, 0, 64, 192, 64, HALVES, ONE_SIGN, 8),
    ROPE(5, 8, 2, 32, 8, 0, 256, 384, 128, HALVES, NORMAL, 9),
    ROPE(4, 0, 2, 12, 12, 0, 5, 40, 9, HALVES, NORMAL, 10),
    ROPE(9, 2, 0, 14, 2, 11, 0, 39, 9, INTERLEAVED, NORMAL, 11),
    ROPE(6, 1, 1, 6, 4, 20, 3, 33, 5, HALVES, NORMAL, 12),
    ROPE(31, 2, 2, 17, 16, 0, 34, 102, 65, HALVES, LARGE, 13),
    ROPE(8, 2, 2, 8, 8, 0, 16, 48, 12, HALVES, SPECIAL, 14),
    ROPE(8, 2, 2, 8, 4, 0, 16, 48, 12, INTERLEAVED, SPECIAL, 15),
    ROPE(2, 1, 1, 128, 128, 0, 128, 384, 2, INTERLEAVED, NORMAL, 16),
    {.name = "HALVES 6 target rows of capacity 35",
     .op = VKF_OP_ROPE,
     .params = {.rope = {.rows = VKF_DIM_RT,
                         .width = 48,
                         .n_heads = 4,
                         .n_kv_heads = 1,
                         .k_column = 32,
                         .head_width = 8,
                         .rotary = 8,
                         .n_positions = 90}},
     .sizes = {.B = 1, .R = 3, .T = 2},
     .capacity = {.B = 1, .R = 7, .T = 5},
     .data = VKF_DATA_NORMAL,
     .seed = 17},
};
const vkf_cases vkf_op_cases_rope = {rope_cases, VKF_COUNT(rope_cases)};

/* ---- relative bias ----------------------------------------------------------------------------------------------- */

#define BIAS(HEADS, BUCKETS, DISTANCES, SEED)                                                            \
  {                                                                                                      \
    .name = #HEADS " heads, " #BUCKETS " buckets, " #DISTANCES " distances", .op = VKF_OP_RELATIVE_BIAS, \
    .params = {.relative_bias = {.n_heads = HEADS, .n_buckets = BUCKETS, .n_distances = DISTANCES}},     \
    .sizes = {.B = 1}, .data = VKF_DATA_NORMAL, .seed = SEED,                                            \
  }

static const vkf_case relative_bias_cases[] = {
    BIAS(1, 1, 1, 1),      BIAS(2, 8, 9, 2),     BIAS(3, 32, 33, 3),  BIAS(4, 32, 41, 4),
    BIAS(8, 32, 255, 5),   BIAS(1, 7, 13, 6),    BIAS(6, 12, 16, 7),  BIAS(5, 9, 63, 8),
    BIAS(2, 32, 257, 9),   BIAS(4, 32, 128, 10), BIAS(3, 16, 65, 11), BIAS(64, 32, 31, 12),
    BIAS(17, 31, 127, 13), BIAS(1, 2, 64, 14),   BIAS(2, 1, 1, 15),   BIAS(12, 40, 130, 16),
};
const vkf_cases vkf_op_cases_relative_bias = {relative_bias_cases, VKF_COUNT(relative_bias_cases)};
