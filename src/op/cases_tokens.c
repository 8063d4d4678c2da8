/* Cases of gate and patches: odd sizes, every activation, gate before or behind up or apart from it; patches that are
 * not square, images with pixels left over, class tokens. */
#include "op/cases.h"

#define GATE(ROWS, F, GCOL, UCOL, ACT, DATA, SEED)                                     \
  {                                                                                    \
    .name = #ACT " " #ROWS "x" #F " at " #GCOL " " #UCOL " " #DATA, .op = VKF_OP_GATE, \
    .params = {.gate = {.rows = VKF_DIM_BS,                                            \
                        .width = F,                                                    \
                        .gate_column = GCOL,                                           \
                        .up_column = UCOL,                                             \
                        .activation = VKF_ACT_##ACT}},                                 \
    .sizes = {.B = 1, .S = ROWS}, .data = VKF_DATA_##DATA, .seed = SEED,               \
  }

static const vkf_case gate_cases[] = {
    GATE(1, 1, 0, 1, SWISH, NORMAL, 1),
    GATE(3, 5, 0, 5, SWISH, NORMAL, 2),
    GATE(7, 17, 17, 0, SWISH, NORMAL, 3),
    GATE(16, 64, 0, 64, SWISH, ONE_SIGN, 4),
    GATE(33, 65, 0, 65, SWISH, LARGE, 5),
    GATE(15, 31, 0, 31, GELU_TANH, NORMAL, 6),
    GATE(17, 33, 33, 0, GELU_TANH, LARGE, 7),
    GATE(5, 40, 0, 40, GELU, NORMAL, 8),
    GATE(4, 11, 3, 20, GELU, ONE_SIGN, 9),
    GATE(9, 63, 0, 63, RELU, NORMAL, 10),
    GATE(6, 24, 0, 24, RELU, SPECIAL, 11),
    GATE(8, 13, 0, 13, SIGMOID, NORMAL, 12),
    GATE(2, 129, 0, 129, NONE, HALVES, 13),
    GATE(11, 6, 0, 6, QUICK_GELU, NORMAL, 14),
    GATE(10, 7, 0, 7, TANH, NORMAL, 15),
    GATE(12, 9, 9, 0, RELU2, NORMAL, 16),
    GATE(2, 1000, 0, 1000, SWISH, NORMAL, 17),
    GATE(3, 160, 160, 0, GELU, NORMAL, 19),
    {.name = "SWISH 6 target rows of capacity 35",
     .op = VKF_OP_GATE,
     .params = {.gate = {.rows = VKF_DIM_RT, .width = 48, .up_column = 48, .activation = VKF_ACT_SWISH}},
     .sizes = {.B = 1, .R = 3, .T = 2},
     .capacity = {.B = 1, .R = 7, .T = 5},
     .data = VKF_DATA_NORMAL,
     .seed = 18},
};
const vkf_cases vkf_op_cases_gate = {gate_cases, VKF_COUNT(gate_cases)};

/* ---- patches ----------------------------------------------------------------------------------------------------- */

/* IMAGES of C x H x W in patches of PH x PW, TOKENS rows each. */
#define PATCHES(IMAGES, C, H, W, PH, PW, LEADING, TOKENS, DATA, SEED)                                          \
  {                                                                                                            \
    .name = #IMAGES " of " #C "x" #H "x" #W " in " #PH "x" #PW ", " #LEADING " leading of " #TOKENS " " #DATA, \
    .op = VKF_OP_PATCHES,                                                                                      \
    .params = {.patches = {.channels = C,                                                                      \
                           .height = H,                                                                        \
                           .width = W,                                                                         \
                           .patch_height = PH,                                                                 \
                           .patch_width = PW,                                                                  \
                           .leading = LEADING}},                                                               \
    .sizes = {.B = IMAGES, .S = TOKENS}, .capacity = {.B = IMAGES + 1, .S = TOKENS}, .data = VKF_DATA_##DATA,  \
    .seed = SEED,                                                                                              \
  }

static const vkf_case patches_cases[] = {
    PATCHES(1, 1, 1, 1, 1, 1, 0, 1, NORMAL, 1),     PATCHES(1, 1, 2, 2, 1, 1, 0, 4, NORMAL, 2),
    PATCHES(1, 3, 4, 4, 2, 2, 1, 5, NORMAL, 3),     PATCHES(2, 3, 30, 30, 15, 15, 1, 5, NORMAL, 4),
    PATCHES(3, 3, 8, 12, 4, 4, 1, 7, NORMAL, 5),    PATCHES(2, 1, 9, 6, 3, 2, 0, 9, NORMAL, 6),
    PATCHES(1, 2, 7, 9, 2, 4, 1, 7, NORMAL, 7),     PATCHES(2, 3, 16, 16, 8, 8, 2, 6, NORMAL, 8),
    PATCHES(1, 3, 32, 32, 16, 16, 1, 8, NORMAL, 9), PATCHES(4, 3, 6, 6, 2, 3, 1, 7, SPECIAL, 10),
    PATCHES(1, 5, 3, 17, 3, 1, 0, 17, NORMAL, 11),  PATCHES(2, 1, 14, 14, 7, 7, 3, 7, NORMAL, 12),
    PATCHES(1, 4, 31, 5, 1, 5, 1, 32, NORMAL, 13),  PATCHES(5, 2, 4, 4, 4, 4, 1, 2, NORMAL, 14),
    PATCHES(2, 3, 28, 28, 4, 4, 1, 50, NORMAL, 15), PATCHES(1, 3, 5, 5, 2, 2, 1, 12, NORMAL, 16),
};
const vkf_cases vkf_op_cases_patches = {patches_cases, VKF_COUNT(patches_cases)};
