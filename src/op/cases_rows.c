/* Cases of embed, append, gather and log-softmax. */
#include "op/cases.h"

/* ---- embed ------------------------------------------------------------------------------------------------------- */

#define EMBED_CASE(NAME, ROWS, WIDTH, IDS, POSITIONS, TYPES, SCALE, DATA, SEED, BY) \
  {                                                                                 \
    .name = NAME, .op = VKF_OP_EMBED,                                               \
    .params = {.embed = {.rows = VKF_DIM_BS,                                        \
                         .width = WIDTH,                                            \
                         .n_ids = IDS,                                              \
                         .n_positions = POSITIONS,                                  \
                         .n_types = TYPES,                                          \
                         .scale = SCALE##f,                                         \
                         .by_row = BY}},                                            \
    .sizes = {.B = 1, .S = ROWS}, .data = VKF_DATA_##DATA, .seed = SEED,            \
  }
#define EMBED(ROWS, WIDTH, IDS, POSITIONS, TYPES, SCALE, DATA, SEED)                                                \
  EMBED_CASE(#ROWS "x" #WIDTH " ids " #IDS " positions " #POSITIONS " types " #TYPES " scale " #SCALE, ROWS, WIDTH, \
             IDS, POSITIONS, TYPES, SCALE, DATA, SEED, false)
/* The table is rows in order. */
#define BY_ROW(ROWS, WIDTH, POSITIONS, TYPES, SCALE, DATA, SEED)                                                 \
  EMBED_CASE(#ROWS "x" #WIDTH " by row positions " #POSITIONS " types " #TYPES " scale " #SCALE " " #DATA, ROWS, \
             WIDTH, 0, POSITIONS, TYPES, SCALE, DATA, SEED, true)

static const vkf_case embed_cases[] = {
    EMBED(1, 1, 1, 0, 0, 1.0, NORMAL, 1),
    EMBED(1, 4, 3, 4, 0, 2.0, HALVES, 2),
    EMBED(7, 17, 11, 0, 0, 4.1231056, NORMAL, 3),
    EMBED(15, 31, 101, 16, 0, 5.5677643, NORMAL, 4),
    EMBED(16, 32, 64, 40, 2, 1.0, NORMAL, 5),
    EMBED(17, 33, 63, 20, 0, 0.3, NORMAL, 6),
    EMBED(31, 64, 65, 31, 2, 8.0, NORMAL, 7),
    EMBED(33, 65, 257, 64, 3, 8.0622577, NORMAL, 8),
    EMBED(65, 96, 1009, 128, 0, 9.7979590, NORMAL, 9),
    EMBED(3, 256, 50, 512, 0, 16.0, NORMAL, 10),
    EMBED(5, 513, 20, 7, 2, 1.0, NORMAL, 11),
    EMBED(9, 40, 0, 12, 2, 1.0, NORMAL, 12),
    EMBED(4, 6, 0, 5, 0, 1.0, NORMAL, 13),
    EMBED(128, 5, 13, 3, 0, 2.236068, ONE_SIGN, 14),
    {.name = "6 target rows of capacity 40",
     .op = VKF_OP_EMBED,
     .params = {.embed = {.rows = VKF_DIM_RT, .width = 24, .n_ids = 30, .n_positions = 16, .scale = 4.8989795f}},
     .sizes = {.B = 1, .R = 3, .T = 2},
     .capacity = {.B = 1, .R = 8, .T = 5},
     .data = VKF_DATA_NORMAL,
     .seed = 15},
    BY_ROW(1, 3, 2, 0, 1.0, NORMAL, 16),
    BY_ROW(19, 33, 7, 0, 1.0, NORMAL, 17),
    BY_ROW(9, 64, 5, 3, 0.3, NORMAL, 18),
    {.name = "6 target rows of capacity 40 by row",
     .op = VKF_OP_EMBED,
     .params = {.embed = {.rows = VKF_DIM_RT, .width = 24, .n_positions = 16, .scale = 1, .by_row = true}},
     .sizes = {.B = 1, .R = 3, .T = 2},
     .capacity = {.B = 1, .R = 8, .T = 5},
     .data = VKF_DATA_NORMAL,
     .seed = 19},
};
const vkf_cases vkf_op_cases_embed = {embed_cases, VKF_COUNT(embed_cases)};

/* ---- append ------------------------------------------------------------------------------------------------------ */

#define APPEND(NAME, HEADS, KEY, VALUE, KCOL, VCOL, SEED, ...)              \
  .name = NAME, .op = VKF_OP_APPEND, .data = VKF_DATA_NORMAL, .seed = SEED, \
  .params = {                                                               \
      .append = {                                                           \
          .n_heads = HEADS, .key_width = KEY, .value_width = VALUE, .k_column = KCOL, .v_column = VCOL, __VA_ARGS__}}
#define APPEND_SOURCE(NAME, BATCH, LENGTH, HEADS, KEY, VALUE, KCOL, VCOL, SEED, ...)                                \
  {                                                                                                                 \
    APPEND(NAME, HEADS, KEY, VALUE, KCOL, VCOL, SEED, .seqs = VKF_DIM_B, .tokens = VKF_DIM_S, .past = VKF_DIM_ZERO, \
           __VA_ARGS__),                                                                                            \
        .sizes = {.B = BATCH, .S = LENGTH}, .capacity = {                                                           \
          .B = BATCH + 1,                                                                                           \
          .S = LENGTH + 2                                                                                           \
        }                                                                                                           \
  }
#define APPEND_TARGET(NAME, ROWS, TOKENS, PASTN, HEADS, KEY, VALUE, KCOL, VCOL, SEED, ...)                          \
  {                                                                                                                 \
    APPEND(NAME, HEADS, KEY, VALUE, KCOL, VCOL, SEED, .seqs = VKF_DIM_R, .tokens = VKF_DIM_T, .past = VKF_DIM_PAST, \
           __VA_ARGS__),                                                                                            \
        .sizes = {.B = 1, .R = ROWS, .T = TOKENS, .past = PASTN}, .capacity = {                                     \
          .B = 1,                                                                                                   \
          .R = ROWS + 2,                                                                                            \
          .T = TOKENS,                                                                                              \
          .past = PASTN + 9                                                                                         \
        }                                                                                                           \
  }

static const vkf_case append_cases[] = {
    APPEND_SOURCE("one number", 1, 1, 1, 1, 1, 0, 1, 1, .packed = false),
    APPEND_SOURCE("keys after queries", 2, 7, 2, 8, 8, 16, 32, 2, .packed = false),
    APPEND_SOURCE("no queries", 3, 5, 4, 16, 16, 0, 64, 3, .packed = false),
    APPEND_SOURCE("width 5, value width 3", 2, 17, 3, 5, 3, 15, 30, 4, .packed = false),
    APPEND_SOURCE("values before keys", 2, 9, 2, 6, 10, 20, 0, 5, .packed = false),
    APPEND_SOURCE("width 64, 33 tokens", 1, 33, 4, 64, 64, 256, 512, 6, .packed = false),
    APPEND_SOURCE("width 256", 1, 15, 1, 256, 256, 0, 256, 7, .packed = false),
    APPEND_SOURCE("width 17, 31 tokens", 2, 31, 2, 17, 17, 34, 68, 8, .packed = false),
    APPEND_TARGET("first token", 2, 1, 0, 2, 8, 8, 16, 32, 9, .packed = false),
    APPEND_TARGET("one token after 12", 4, 1, 12, 2, 8, 8, 16, 32, 10, .packed = false),
    APPEND_TARGET("one token after 63, width 64", 3, 1, 63, 4, 64, 64, 256, 512, 11, .packed = false),
    APPEND_TARGET("5 tokens after 3", 2, 5, 3, 3, 10, 6, 30, 60, 12, .packed = false),
    APPEND_TARGET("shared heads", 5, 1, 8, 1, 40, 40, 160, 200, 13, .packed = false),
    APPEND_TARGET("16 tokens after 1", 1, 16, 1, 2, 12, 12, 24, 48, 14, .packed = false),
    APPEND_TARGET("17 tokens after 16", 1, 17, 16, 2, 7, 9, 0, 14, 15, .packed = false),
    APPEND_SOURCE("packed", 6, 19, 2, 8, 8, 16, 32, 16, .packed = true),
    APPEND_SOURCE("packed, width 5, value width 3", 9, 4, 3, 5, 3, 15, 30, 17, .packed = true),
    APPEND_SOURCE("packed to slots", 6, 19, 2, 8, 8, 16, 32, 20, .packed = true, .to_slots = true),
    APPEND_TARGET("packed, one token after up to 40", 7, 1, 40, 2, 8, 8, 16, 32, 18, .packed = true),
    APPEND_TARGET("packed prompts and single tokens", 8, 20, 33, 2, 7, 9, 0, 14, 19, .packed = true),
    APPEND_TARGET("turned, one token after 12", 4, 1, 12, 2, 8, 8, 16, 32, 21, .n_q_heads = 2, .rotary = 8,
                  .n_positions = 16),
    APPEND_TARGET("turned, width 64, shared heads", 3, 1, 63, 2, 64, 64, 256, 384, 22, .n_q_heads = 4, .rotary = 64,
                  .n_positions = 70),
    APPEND_TARGET("a part of a head turned, neighbours", 2, 5, 3, 3, 10, 6, 30, 60, 23, .n_q_heads = 3, .rotary = 6,
                  .n_positions = 9, .pairs = VKF_ROPE_INTERLEAVED),
    APPEND_TARGET("queries behind values, odd width", 3, 2, 5, 1, 7, 3, 0, 7, 24, .n_q_heads = 2, .q_column = 11,
                  .rotary = 4, .n_positions = 5),
    APPEND_TARGET("turned, packed prompts and single tokens", 8, 20, 33, 2, 6, 9, 12, 24, 25, .packed = true,
                  .n_q_heads = 2, .rotary = 6, .n_positions = 60),
    APPEND_SOURCE("turned, packed", 6, 19, 2, 8, 8, 16, 32, 26, .packed = true, .n_q_heads = 2, .rotary = 8,
                  .n_positions = 20),
    APPEND_TARGET("turned, packed, width 128, value width 32, shared heads", 4, 3, 33, 2, 128, 32, 512, 768, 27,
                  .packed = true, .n_q_heads = 4, .rotary = 128, .n_positions = 60),
};
const vkf_cases vkf_op_cases_append = {append_cases, VKF_COUNT(append_cases)};

/* ---- gather ------------------------------------------------------------------------------------------------------ */

/* ROWS (OUT) of SOURCE (R*T) rows. */
#define GATHER(ROWS, SOURCE, WIDTH, DATA, SEED)                                                            \
  {                                                                                                        \
    .name = #ROWS " of " #SOURCE " rows, width " #WIDTH " " #DATA, .op = VKF_OP_GATHER,                    \
    .params = {.gather = {.rows = VKF_DIM_OUT, .x_rows = VKF_DIM_RT, .width = WIDTH}},                     \
    .sizes = {.B = 1, .R = SOURCE, .T = 1, .out = ROWS},                                                   \
    .capacity = {.B = 1, .R = SOURCE + 3, .T = 1, .out = ROWS + 2}, .data = VKF_DATA_##DATA, .seed = SEED, \
  }

static const vkf_case gather_cases[] = {
    GATHER(1, 1, 1, NORMAL, 1),    GATHER(1, 17, 5, NORMAL, 2),   GATHER(3, 3, 64, NORMAL, 3),
    GATHER(15, 7, 31, NORMAL, 4),  GATHER(16, 64, 32, NORMAL, 5), GATHER(17, 33, 33, NORMAL, 6),
    GATHER(2, 90, 512, NORMAL, 7), GATHER(65, 2, 40, NORMAL, 8),  GATHER(33, 31, 96, SPECIAL, 9),
    GATHER(4, 12, 1, NORMAL, 10),  GATHER(6, 5, 257, NORMAL, 11), GATHER(31, 65, 6, SPECIAL, 12),
    GATHER(8, 8, 4, NORMAL, 13),   GATHER(5, 11, 63, NORMAL, 14), GATHER(3, 40, 128, NORMAL, 15),
};
const vkf_cases vkf_op_cases_gather = {gather_cases, VKF_COUNT(gather_cases)};

/* ---- log-softmax ------------------------------------------------------------------------------------------------- */

#define LOG_SOFTMAX(ROWS, WIDTH, DATA, SEED)                                                  \
  {                                                                                           \
    .name = #ROWS "x" #WIDTH " " #DATA, .op = VKF_OP_LOG_SOFTMAX,                             \
    .params = {.log_softmax = {.rows = VKF_DIM_OUT, .width = WIDTH}},                         \
    .sizes = {.B = 1, .R = ROWS, .T = 1, .out = ROWS}, .data = VKF_DATA_##DATA, .seed = SEED, \
  }

static const vkf_case log_softmax_cases[] = {
    LOG_SOFTMAX(1, 1, NORMAL, 1),
    LOG_SOFTMAX(1, 2, NORMAL, 2),
    LOG_SOFTMAX(2, 5, HALVES, 3),
    LOG_SOFTMAX(3, 17, NORMAL, 4),
    LOG_SOFTMAX(16, 31, NORMAL, 5),
    LOG_SOFTMAX(15, 32, LARGE, 6),
    LOG_SOFTMAX(17, 33, OFFSET, 7),
    LOG_SOFTMAX(33, 63, ONE_SIGN, 8),
    LOG_SOFTMAX(4, 64, CONSTANT, 9),
    LOG_SOFTMAX(5, 65, NORMAL, 10),
    LOG_SOFTMAX(2, 1000, LARGE, 11),
    LOG_SOFTMAX(3, 1021, NORMAL, 12),
    LOG_SOFTMAX(1, 8192, NORMAL, 13),
    LOG_SOFTMAX(1, 10007, OFFSET, 14),
    LOG_SOFTMAX(6, 40, SPECIAL, 15),
    LOG_SOFTMAX(12, 3, SPECIAL, 16),
    LOG_SOFTMAX(65, 6, TIES, 17),
    LOG_SOFTMAX(1, 65537, FEW, 19),
    LOG_SOFTMAX(1, 262150, FEW, 20),
    LOG_SOFTMAX(3, 4100, LARGE, 21),
    LOG_SOFTMAX(4, 2049, SPECIAL, 22),
    {.name = "2 rows of capacity 9, width 77",
     .op = VKF_OP_LOG_SOFTMAX,
     .params = {.log_softmax = {.rows = VKF_DIM_OUT, .width = 77}},
     .sizes = {.B = 1, .R = 2, .T = 1, .out = 2},
     .capacity = {.B = 1, .R = 9, .T = 1, .out = 9},
     .data = VKF_DATA_NORMAL,
     .seed = 18},
};
const vkf_cases vkf_op_cases_log_softmax = {log_softmax_cases, VKF_COUNT(log_softmax_cases)};
