/* Cases of matmul: one and few rows (decoding), sizes around tiles of 16, 32 and 64, primes, widths that are no
 * multiple of 4, every activation, all kinds of data that are hard for a sum. The HALVES with a K of 65,537 and more
 * have exact sums, and their last products are not 0, so a kernel or driver that leaves any out fails. */
#include "op/cases.h"

enum {
  plain = 0,
  bias = 1 << VKF_MATMUL_BIAS,
  residual = 1 << VKF_MATMUL_RESIDUAL,
  both = bias | residual,
};

#define MATMUL(M, N, K, ACT, INPUTS, DATA, SEED)                                             \
  {                                                                                          \
    .name = "m" #M " n" #N " k" #K " " #ACT " " #INPUTS " " #DATA, .op = VKF_OP_MATMUL,      \
    .params = {.matmul = {.rows = VKF_DIM_BS, .n = N, .k = K, .activation = VKF_ACT_##ACT}}, \
    .sizes = {.B = 1, .S = M}, .inputs = (INPUTS), .data = VKF_DATA_##DATA, .seed = SEED,    \
  }

#define SCALED(M, N, K, SCALE, INPUTS, DATA, SEED)                                                            \
  {                                                                                                           \
    .name = "m" #M " n" #N " k" #K " scale " #SCALE " " #INPUTS " " #DATA, .op = VKF_OP_MATMUL,               \
    .params = {.matmul = {.rows = VKF_DIM_BS, .n = N, .k = K, .scale = SCALE##f}}, .sizes = {.B = 1, .S = M}, \
    .inputs = (INPUTS), .data = VKF_DATA_##DATA, .seed = SEED,                                                \
  }

/* N: columns of w, twice those of the result. */
#define GATED(M, N, K, ACT, INPUTS, DATA, SEED)                                                                \
  {                                                                                                            \
    .name = "m" #M " n" #N " k" #K " gated " #ACT " " #INPUTS " " #DATA, .op = VKF_OP_MATMUL,                  \
    .params = {.matmul = {.rows = VKF_DIM_BS, .n = N, .k = K, .activation = VKF_ACT_##ACT, .is_gated = true}}, \
    .sizes = {.B = 1, .S = M}, .inputs = (INPUTS), .data = VKF_DATA_##DATA, .seed = SEED,                      \
  }

static const vkf_case cases[] = {
    MATMUL(1, 1, 1, NONE, plain, NORMAL, 1),
    MATMUL(1, 1, 17, NONE, both, NORMAL, 2),
    MATMUL(1, 64, 64, NONE, plain, HALVES, 3),
    MATMUL(2, 3, 5, NONE, bias, HALVES, 4),
    MATMUL(3, 7, 13, RELU, both, HALVES, 5),
    MATMUL(15, 17, 16, RELU, bias, NORMAL, 6),
    MATMUL(16, 16, 16, NONE, both, HALVES, 7),
    MATMUL(17, 15, 31, NONE, residual, NORMAL, 8),
    MATMUL(31, 33, 32, GELU, bias, NORMAL, 9),
    MATMUL(32, 32, 32, NONE, plain, HALVES, 10),
    MATMUL(33, 31, 33, GELU_TANH, bias, NORMAL, 11),
    MATMUL(63, 65, 64, SWISH, bias, NORMAL, 12),
    MATMUL(64, 64, 64, NONE, both, ONE_SIGN, 13),
    MATMUL(65, 63, 63, NONE, bias, HALVES, 14),
    MATMUL(5, 129, 127, NONE, bias, NORMAL, 15),
    MATMUL(127, 5, 129, GELU, both, NORMAL, 16),
    MATMUL(1, 257, 96, RELU, bias, NORMAL, 17),
    MATMUL(4, 511, 65, NONE, bias, HALVES, 18),
    MATMUL(8, 32, 511, NONE, residual, NORMAL, 19),
    MATMUL(8, 32, 2048, NONE, plain, ONE_SIGN, 20),
    MATMUL(3, 40, 2049, NONE, bias, HALVES, 21),
    MATMUL(77, 33, 17, GELU, both, NORMAL, 22),
    MATMUL(7, 1000, 18, NONE, plain, NORMAL, 23),
    MATMUL(13, 6, 1021, GELU_TANH, both, NORMAL, 24),
    MATMUL(9, 66, 70, SWISH, both, LARGE, 25),
    MATMUL(6, 19, 23, GELU, bias, LARGE, 26),
    MATMUL(6, 19, 23, GELU_TANH, bias, LARGE, 27),
    MATMUL(11, 34, 62, RELU, both, SPECIAL, 28),
    MATMUL(2, 8, 4, NONE, bias, SPECIAL, 29),
    MATMUL(15, 17, 36, GELU, both, NORMAL, 32),
    MATMUL(17, 31, 68, RELU, both, HALVES, 33),
    MATMUL(33, 13, 260, GELU_TANH, bias, NORMAL, 34),
    MATMUL(7, 203, 1028, NONE, both, HALVES, 35),
    MATMUL(2, 65, 12, SWISH, bias, LARGE, 36),
    MATMUL(31, 1, 4, NONE, residual, HALVES, 37),
    MATMUL(9, 129, 100, RELU, both, SPECIAL, 38),
    MATMUL(3, 8, 8192, NONE, plain, ONE_SIGN, 39),
    MATMUL(9, 21, 40, TANH, bias, NORMAL, 40),
    MATMUL(5, 33, 7, TANH, both, LARGE, 41),
    MATMUL(3, 70, 64, TANH, plain, ONE_SIGN, 42),
    MATMUL(11, 17, 36, SIGMOID, bias, NORMAL, 43),
    MATMUL(4, 9, 5, SIGMOID, bias, LARGE, 44),
    MATMUL(17, 35, 68, QUICK_GELU, both, NORMAL, 45),
    MATMUL(6, 19, 23, QUICK_GELU, bias, LARGE, 46),
    MATMUL(13, 31, 44, RELU2, both, NORMAL, 47),
    MATMUL(7, 12, 15, RELU2, bias, SPECIAL, 48),
    MATMUL(7, 33, 15, GELU_TANH, bias, SPECIAL, 70),
    MATMUL(6, 34, 20, SIGMOID, both, SPECIAL, 71),
    MATMUL(5, 30, 12, TANH, bias, SPECIAL, 72),
    MATMUL(9, 18, 12, GELU, bias, SPECIAL, 73),
    MATMUL(9, 18, 12, QUICK_GELU, bias, SPECIAL, 74),
    SCALED(9, 37, 52, 0.125, plain, NORMAL, 49),
    SCALED(5, 65, 31, 0.0441941738, both, NORMAL, 50),
    SCALED(3, 8, 64, 12.0, bias, ONE_SIGN, 51),
    MATMUL(18, 33, 72, GELU, both, HUGE, 52),
    MATMUL(132, 66, 264, NONE, both, NORMAL, 57), /* more rows of tiles than matmul_coopmat takes together */
    GATED(1, 64, 64, SWISH, plain, NORMAL, 60),
    GATED(1, 2, 17, NONE, bias, HALVES, 61),
    GATED(5, 34, 36, GELU_TANH, bias, NORMAL, 62),
    GATED(17, 130, 68, SWISH, plain, NORMAL, 63),
    GATED(33, 66, 31, GELU, bias, NORMAL, 64),
    GATED(8, 258, 260, RELU, plain, HALVES, 65),
    GATED(3, 38, 12, SWISH, bias, LARGE, 66),
    GATED(9, 30, 8, SWISH, bias, SPECIAL, 67),
    GATED(66, 140, 40, SIGMOID, plain, ONE_SIGN, 68),
    GATED(4, 22, 2049, NONE, bias, HALVES, 69),
    MATMUL(1, 3, 65537, NONE, bias, HALVES, 353),
    MATMUL(1, 2, 262145, NONE, bias, HALVES, 354),
    MATMUL(1, 2, 262148, NONE, bias, HALVES, 355),
    MATMUL(1, 3, 65537, NONE, plain, NORMAL, 56),
    {.name = "m21 of capacity 48, n50 k30",
     .op = VKF_OP_MATMUL,
     .params = {.matmul = {.rows = VKF_DIM_BS, .n = 50, .k = 30, .activation = VKF_ACT_RELU}},
     .sizes = {.B = 3, .S = 7},
     .capacity = {.B = 4, .S = 12},
     .inputs = both,
     .data = VKF_DATA_NORMAL,
     .seed = 30},
    {.name = "gated, m10 of capacity 24, n60 k30",
     .op = VKF_OP_MATMUL,
     .params = {.matmul = {.rows = VKF_DIM_BS, .n = 60, .k = 30, .activation = VKF_ACT_SWISH, .is_gated = true}},
     .sizes = {.B = 2, .S = 5},
     .capacity = {.B = 3, .S = 8},
     .inputs = bias,
     .data = VKF_DATA_NORMAL,
     .seed = 70},
    {.name = "head: 3 rows of capacity 8, n203 k64",
     .op = VKF_OP_MATMUL,
     .params = {.matmul = {.rows = VKF_DIM_OUT, .n = 203, .k = 64}},
     .sizes = {.B = 1, .R = 3, .T = 1, .out = 3},
     .capacity = {.B = 2, .R = 8, .T = 1, .out = 8},
     .inputs = bias,
     .data = VKF_DATA_HALVES,
     .seed = 31},
};
const vkf_cases vkf_op_cases_matmul = {cases, VKF_COUNT(cases)};
