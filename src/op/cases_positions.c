/* Cases of rope and relative_bias: odd sizes, both layouts of pairs, a part of a head rotated, queries or keys alone,
 * shared keys; both directions, caches, distances beyond the ends. */
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

const vkf_case *vkf_op_cases_rope(size_t *n) {
  *n = VKF_COUNT(rope_cases);
  return rope_cases;
}

/* ---- relative bias ----------------------------------------------------------------------------------------------- */

#define BIAS_SOURCE(LENGTH, HEADS, BUCKETS, BEFORE, AFTER, SEED)                                                  \
  {                                                                                                               \
    .name = "source " #LENGTH ", " #HEADS " heads, " #BUCKETS " buckets, " #BEFORE " before " #AFTER " after",    \
    .op = VKF_OP_RELATIVE_BIAS,                                                                                   \
    .params = {.relative_bias = {.queries = VKF_DIM_S,                                                            \
                                 .keys = VKF_DIM_S,                                                               \
                                 .past = VKF_DIM_ZERO,                                                            \
                                 .n_heads = HEADS,                                                                \
                                 .n_buckets = BUCKETS,                                                            \
                                 .n_before = BEFORE,                                                              \
                                 .n_after = AFTER}},                                                              \
    .sizes = {.B = 1, .S = LENGTH}, .capacity = {.B = 1, .S = LENGTH + 3}, .data = VKF_DATA_NORMAL, .seed = SEED, \
  }
#define BIAS_TARGET(TOKENS, PASTN, HEADS, BUCKETS, BEFORE, AFTER, SEED)                                               \
  {                                                                                                                   \
    .name = "target " #TOKENS " after " #PASTN ", " #HEADS " heads, " #BUCKETS " buckets, " #BEFORE " before " #AFTER \
            " after",                                                                                                 \
    .op = VKF_OP_RELATIVE_BIAS,                                                                                       \
    .params = {.relative_bias = {.queries = VKF_DIM_T,                                                                \
                                 .keys = VKF_DIM_KEYS,                                                                \
                                 .past = VKF_DIM_PAST,                                                                \
                                 .n_heads = HEADS,                                                                    \
                                 .n_buckets = BUCKETS,                                                                \
                                 .n_before = BEFORE,                                                                  \
                                 .n_after = AFTER}},                                                                  \
    .sizes = {.B = 1, .R = 2, .T = TOKENS, .past = PASTN},                                                            \
    .capacity = {.B = 1, .R = 3, .T = TOKENS, .past = PASTN + 7}, .data = VKF_DATA_NORMAL, .seed = SEED,              \
  }

static const vkf_case relative_bias_cases[] = {
    BIAS_SOURCE(1, 1, 1, 0, 0, 1),        BIAS_SOURCE(5, 2, 8, 4, 4, 2),         BIAS_SOURCE(17, 3, 32, 16, 16, 3),
    BIAS_SOURCE(31, 4, 32, 20, 20, 4),    BIAS_SOURCE(33, 8, 32, 127, 127, 5),   BIAS_SOURCE(65, 1, 7, 3, 9, 6),
    BIAS_SOURCE(16, 6, 12, 15, 0, 7),     BIAS_SOURCE(15, 5, 9, 0, 15, 8),       BIAS_SOURCE(128, 2, 32, 128, 128, 9),
    BIAS_TARGET(1, 0, 4, 32, 127, 0, 10), BIAS_TARGET(1, 13, 4, 32, 127, 0, 11), BIAS_TARGET(1, 63, 3, 16, 20, 0, 12),
    BIAS_TARGET(5, 3, 2, 8, 5, 2, 13),    BIAS_TARGET(17, 16, 6, 32, 40, 0, 14), BIAS_TARGET(33, 0, 1, 32, 8, 8, 15),
    BIAS_TARGET(2, 90, 8, 31, 64, 1, 16),
};

const vkf_case *vkf_op_cases_relative_bias(size_t *n) {
  *n = VKF_COUNT(relative_bias_cases);
  return relative_bias_cases;
}
