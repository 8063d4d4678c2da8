/* Cases of the ops on logits: edits of all kinds in any order, top-k with ties, NaN and infinities. */
#include "op/cases.h"

#define EDIT(ROWS, WIDTH, EDITS, DATA, SEED)                                                                         \
  {                                                                                                                  \
    .name = #ROWS "x" #WIDTH ", " #EDITS " edits " #DATA, .op = VKF_OP_LOGIT_EDIT,                                   \
    .params = {.logit_edit = {.rows = VKF_DIM_OUT, .width = WIDTH, .max_edits = EDITS}},                             \
    .sizes = {.B = 1, .R = ROWS, .T = 1, .out = ROWS}, .capacity = {.B = 1, .R = ROWS + 1, .T = 1, .out = ROWS + 1}, \
    .data = VKF_DATA_##DATA, .seed = SEED,                                                                           \
  }

static const vkf_case edit_cases[] = {
    EDIT(1, 1, 1, NORMAL, 1),     EDIT(1, 5, 3, HALVES, 2),      EDIT(2, 17, 7, NORMAL, 3),
    EDIT(3, 31, 40, NORMAL, 4),   EDIT(15, 33, 16, NORMAL, 5),   EDIT(16, 64, 200, NORMAL, 6),
    EDIT(17, 65, 33, NORMAL, 7),  EDIT(4, 1000, 300, NORMAL, 8), EDIT(1, 4097, 64, NORMAL, 9),
    EDIT(33, 3, 100, NORMAL, 10), EDIT(5, 63, 1, NORMAL, 11),    EDIT(7, 32, 128, LARGE, 12),
    EDIT(6, 40, 50, SPECIAL, 13), EDIT(2, 257, 90, NORMAL, 14),  EDIT(8, 8, 64, OFFSET, 15),
    EDIT(3, 2, 31, ONE_SIGN, 16),
};
const vkf_cases vkf_op_cases_logit_edit = {edit_cases, VKF_COUNT(edit_cases)};

#define TOP_K(ROWS, WIDTH, K, DATA, SEED)                                                                            \
  {                                                                                                                  \
    .name = #ROWS "x" #WIDTH " k" #K " " #DATA, .op = VKF_OP_TOP_K,                                                  \
    .params = {.top_k = {.rows = VKF_DIM_OUT, .width = WIDTH, .k = K}},                                              \
    .sizes = {.B = 1, .R = ROWS, .T = 1, .out = ROWS}, .capacity = {.B = 1, .R = ROWS + 2, .T = 1, .out = ROWS + 2}, \
    .data = VKF_DATA_##DATA, .seed = SEED,                                                                           \
  }

static const vkf_case top_k_cases[] = {
    TOP_K(1, 1, 1, NORMAL, 1),      TOP_K(1, 2, 2, TIES, 2),       TOP_K(2, 17, 1, NORMAL, 3),
    TOP_K(3, 16, 16, NORMAL, 4),    TOP_K(5, 31, 8, TIES, 5),      TOP_K(15, 33, 4, NORMAL, 6),
    TOP_K(16, 64, 8, HALVES, 7),    TOP_K(17, 65, 2, CONSTANT, 8), TOP_K(1, 1000, 8, NORMAL, 9),
    TOP_K(4, 1021, 10, NORMAL, 10), TOP_K(2, 8192, 8, NORMAL, 11), TOP_K(2, 4099, 1, TIES, 12),
    TOP_K(3, 63, 63, TIES, 13),     TOP_K(6, 40, 8, SPECIAL, 14),  TOP_K(33, 5, 5, SPECIAL, 15),
    TOP_K(1, 32, 32, LARGE, 16),    TOP_K(8, 257, 16, NORMAL, 17), TOP_K(7, 128, 1, SPECIAL, 18),
    TOP_K(1, 30000, 8, NORMAL, 19), TOP_K(1, 65537, 64, FEW, 20),  TOP_K(1, 262145, 64, FEW, 21),
};
const vkf_cases vkf_op_cases_top_k = {top_k_cases, VKF_COUNT(top_k_cases)};
