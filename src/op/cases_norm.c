/* Cases of norm: narrow and wide rows, both kinds, with and without residual, scale and shift; a mean far from zero,
 * with which E[x^2] - E[x]^2 would fail; constant rows. */
#include "op/cases.h"

enum {
  bare = 0,
  residual = 1 << VKF_NORM_RESIDUAL,
  scale = 1 << VKF_NORM_WEIGHT,
  shift = 1 << VKF_NORM_BIAS,
  affine = scale | shift,
  all = affine | residual,
};

#define NORM(ROWS, WIDTH, KIND, EPS, INPUTS, DATA, SEED)                                              \
  {                                                                                                   \
    .name = #KIND " " #ROWS "x" #WIDTH " eps " #EPS " " #INPUTS " " #DATA, .op = VKF_OP_NORM,         \
    .params = {.norm = {.rows = VKF_DIM_BS, .width = WIDTH, .kind = VKF_NORM_##KIND, .eps = EPS##f}}, \
    .sizes = {.B = 1, .S = ROWS}, .inputs = (INPUTS), .data = VKF_DATA_##DATA, .seed = SEED,          \
  }

/* GROUPS groups of WIDTH columns, then REST columns that pass. */
#define GROUPED(ROWS, WIDTH, GROUPS, REST, KIND, INPUTS, DATA, SEED)                                               \
  {                                                                                                                \
    .name = #KIND " " #ROWS " rows of " #GROUPS "x" #WIDTH " and " #REST " " #INPUTS " " #DATA, .op = VKF_OP_NORM, \
    .params = {.norm = {.rows = VKF_DIM_BS,                                                                        \
                        .width = WIDTH,                                                                            \
                        .kind = VKF_NORM_##KIND,                                                                   \
                        .eps = 1e-6f,                                                                              \
                        .groups = GROUPS,                                                                          \
                        .rest = REST}},                                                                            \
    .sizes = {.B = 1, .S = ROWS}, .inputs = (INPUTS), .data = VKF_DATA_##DATA, .seed = SEED,                       \
  }

static const vkf_case cases[] = {
    NORM(1, 1, LAYER, 1e-5, affine, NORMAL, 1),
    NORM(1, 3, LAYER, 1e-5, bare, NORMAL, 2),
    NORM(2, 5, LAYER, 1e-6, all, NORMAL, 3),
    NORM(3, 17, LAYER, 1e-5, affine, NORMAL, 4),
    NORM(15, 31, LAYER, 1e-12, all, NORMAL, 5),
    NORM(16, 32, LAYER, 1e-5, affine, HALVES, 6),
    NORM(17, 33, LAYER, 1e-5, scale, NORMAL, 7),
    NORM(31, 64, LAYER, 1e-5, residual, NORMAL, 8),
    NORM(33, 65, LAYER, 1e-5, shift, ONE_SIGN, 9),
    NORM(7, 127, LAYER, 1e-5, affine, OFFSET, 10),
    NORM(4, 512, LAYER, 1e-5, all, NORMAL, 11),
    NORM(2, 513, LAYER, 1e-5, affine, OFFSET, 12),
    NORM(5, 40, LAYER, 1e-5, affine, CONSTANT, 13),
    NORM(3, 2048, LAYER, 1e-5, all, NORMAL, 14),
    NORM(65, 6, LAYER, 1e-5, affine, LARGE, 15),
    NORM(9, 50, LAYER, 1e-5, affine, SPECIAL, 16),
    NORM(1, 1, RMS, 1e-6, scale, NORMAL, 17),
    NORM(6, 17, RMS, 1e-6, scale, NORMAL, 18),
    NORM(33, 66, RMS, 1e-5, scale | residual, NORMAL, 19),
    NORM(3, 515, RMS, 1e-6, scale, ONE_SIGN, 20),
    NORM(5, 96, RMS, 1e-6, bare, OFFSET, 21),
    NORM(4, 30, RMS, 1e-6, all, LARGE, 22),
    NORM(4, 30, RMS, 1e-6, scale, SPECIAL, 23),
    GROUPED(5, 16, 4, 0, RMS, scale, NORMAL, 25),
    GROUPED(7, 17, 3, 17, RMS, scale, NORMAL, 26),
    GROUPED(33, 8, 6, 16, RMS, scale, ONE_SIGN, 27),
    GROUPED(4, 64, 5, 192, RMS, bare, NORMAL, 28),
    GROUPED(3, 9, 2, 5, LAYER, all, NORMAL, 29),
    GROUPED(6, 12, 1, 30, LAYER, affine, OFFSET, 30),
    GROUPED(2, 5, 3, 7, RMS, scale | residual, SPECIAL, 31),
    NORM(2, 8188, LAYER, 1e-5, all, NORMAL, 34),
    NORM(3, 336, LAYER, 1e-5, all, NORMAL, 35),
    NORM(5, 48, LAYER, 1e-5, all, SPECIAL, 36),
    GROUPED(3, 336, 2, 48, LAYER, all, NORMAL, 37),
    NORM(1, 65537, LAYER, 1e-5, bare, FEW, 32),
    NORM(1, 262145, RMS, 1e-6, bare, FEW, 33),
    {.name = "LAYER 10 rows of capacity 35, width 48",
     .op = VKF_OP_NORM,
     .params = {.norm = {.rows = VKF_DIM_RT, .width = 48, .eps = 1e-5f}},
     .sizes = {.B = 1, .R = 5, .T = 2},
     .capacity = {.B = 1, .R = 7, .T = 5},
     .inputs = all,
     .data = VKF_DATA_NORMAL,
     .seed = 24},
};
const vkf_cases vkf_op_cases_norm = {cases, VKF_COUNT(cases)};
