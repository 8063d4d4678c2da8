/* Cases of attention and of its weights: encoders, decoders with and without a past, beams, cross-attention; head
 * widths from 1 to 256, shared key heads, every mask, packed batches. Every fourth row of a mask has no key at all.
 * Cases after 150 and more tokens have enough keys to be split, with a last split that is not full, and with splits
 * that no query sees.
 */
#include "op/cases.h"

enum {
  open = 0,
  mask = 1 << VKF_ATTENTION_MASK,
  bias = 1 << VKF_ATTENTION_BIAS,
  ancestry = 1 << VKF_ATTENTION_ANCESTRY,
};

#define DISTANCES(BEFORE, AFTER) .bias_by_distance = true, .bias_before = BEFORE, .bias_after = AFTER

/* What every case has; more parameters at the end. */
#define CASE(OP, MEMBER, NAME, SEQS, QUERIES, KEYS, PAST, HEADS, KV, WIDTH, VALUE, SCALE, INPUTS, DATA, SEED, ...) \
  .name = NAME, .op = VKF_OP_##OP, .inputs = (INPUTS), .data = VKF_DATA_##DATA, .seed = SEED,                      \
  .params = {.MEMBER = {.seqs = VKF_DIM_##SEQS,                                                                    \
                        .queries = VKF_DIM_##QUERIES,                                                              \
                        .keys = VKF_DIM_##KEYS,                                                                    \
                        .past = VKF_DIM_##PAST,                                                                    \
                        .n_heads = HEADS,                                                                          \
                        .n_kv_heads = KV,                                                                          \
                        .key_width = WIDTH,                                                                        \
                        .value_width = VALUE,                                                                      \
                        .scale = SCALE,                                                                            \
                        __VA_ARGS__}}
/* B sentences of S tokens; HEADS heads share KV heads of keys. */
#define SELF(OP, MEMBER, NAME, BATCH, LENGTH, ...) \
  { CASE(OP, MEMBER, NAME, B, S, S, ZERO, __VA_ARGS__, .shared = VKF_DIM_ONE), .sizes = {.B = BATCH, .S = LENGTH}, }
/* R sequences of T tokens after PASTN tokens in the cache, causal. */
#define DECODE(OP, MEMBER, NAME, ROWS, TOKENS, PASTN, ...)                                        \
  {                                                                                               \
    CASE(OP, MEMBER, NAME, R, T, KEYS, PAST, __VA_ARGS__, .shared = VKF_DIM_ONE, .causal = true), \
        .sizes = {.B = 1, .R = ROWS, .T = TOKENS, .past = PASTN},                                 \
        .capacity = {.B = 1, .R = ROWS, .T = TOKENS, .past = PASTN + 5},                          \
  }
/* R sequences of T tokens look at S keys of their sentence, shared by the R/B beams of each. */
#define CROSS(OP, MEMBER, NAME, BATCH, ROWS, TOKENS, LENGTH, ...)                                          \
  {                                                                                                        \
    CASE(OP, MEMBER, NAME, R, T, S, ZERO, __VA_ARGS__),                                                    \
        .sizes = {.B = BATCH, .R = ROWS, .T = TOKENS, .S = LENGTH},                                        \
        .capacity = {.B = BATCH + 1, .R = (BATCH + 1) * (ROWS / BATCH), .T = TOKENS + 1, .S = LENGTH + 3}, \
  }

#define CASES(OP, M)                                                                                                 \
  SELF(OP, M, "one key, one query, width 1", 1, 1, 1, 1, 1, 1, 1.0f, open, NORMAL, 1, .causal = false),              \
      SELF(OP, M, "3 words, width 4", 1, 3, 1, 1, 4, 4, 0.5f, open, HALVES, 2, .causal = false),                     \
      SELF(OP, M, "width 5, mask", 5, 7, 3, 3, 5, 5, 0.447f, mask, NORMAL, 3, .causal = false),                      \
      SELF(OP, M, "width 17, value width 9", 2, 15, 2, 2, 17, 9, 0.2425f, open, NORMAL, 4, .causal = false),         \
      SELF(OP, M, "width 40, mask", 4, 16, 2, 2, 40, 40, 0.158f, mask, NORMAL, 5, .causal = false),                  \
      SELF(OP, M, "width 64, 33 tokens", 1, 33, 2, 2, 64, 64, 0.125f, open, NORMAL, 6, .causal = false),             \
      SELF(OP, M, "width 96, 17 tokens", 1, 17, 2, 2, 96, 96, 0.102f, open, NORMAL, 7, .causal = false),             \
      SELF(OP, M, "width 256, mask", 4, 9, 1, 1, 256, 256, 0.0625f, mask, NORMAL, 8, .causal = false),               \
      SELF(OP, M, "value width 66 over key width 6", 2, 11, 2, 2, 6, 66, 0.4f, open, NORMAL, 9, .causal = false),    \
      SELF(OP, M, "causal, 65 tokens", 1, 65, 2, 2, 16, 16, 0.25f, open, NORMAL, 10, .causal = true),                \
      SELF(OP, M, "causal, mask", 8, 13, 2, 2, 8, 8, 0.35f, mask, NORMAL, 11, .causal = true),                       \
      SELF(OP, M, "window of 4", 2, 19, 2, 2, 8, 8, 0.35f, open, NORMAL, 12, .causal = true, .window = 4),           \
      SELF(OP, M, "window of 1", 1, 6, 1, 1, 4, 4, 0.5f, open, NORMAL, 13, .causal = true, .window = 1),             \
      SELF(OP, M, "bias for all heads", 2, 15, 3, 3, 8, 8, 0.35f, bias, NORMAL, 14, .causal = false),                \
      SELF(OP, M, "bias per head, mask", 4, 12, 3, 3, 8, 8, 1.0f, bias | mask, NORMAL, 15, .bias_per_head = true),   \
      SELF(OP, M, "8 heads on 2 key heads", 2, 14, 8, 2, 12, 12, 0.29f, open, NORMAL, 16, .causal = true),           \
      SELF(OP, M, "6 heads on 1 key head", 2, 10, 6, 1, 10, 7, 0.31f, mask, NORMAL, 17, .causal = false),            \
      SELF(OP, M, "q from column 24", 2, 9, 2, 2, 12, 12, 0.29f, open, NORMAL, 18, .q_column = 24),                  \
      SELF(OP, M, "scores of 10000", 2, 20, 2, 2, 64, 64, 0.125f, open, LARGE, 19, .causal = false),                 \
      SELF(OP, M, "all scores equal", 1, 31, 1, 1, 8, 8, 0.35f, open, CONSTANT, 20, .causal = true),                 \
      SELF(OP, M, "one sign, 128 tokens", 1, 128, 1, 1, 32, 32, 0.177f, open, ONE_SIGN, 21, .causal = false),        \
      SELF(OP, M, "unscaled", 1, 18, 2, 2, 16, 16, 1.0f, open, NORMAL, 22, .causal = false),                         \
      SELF(OP, M, "300 tokens", 1, 300, 1, 1, 8, 8, 0.35f, open, NORMAL, 23, .causal = true),                        \
      DECODE(OP, M, "first step", 2, 1, 0, 2, 2, 8, 8, 0.35f, open, NORMAL, 24, .window = 0),                        \
      DECODE(OP, M, "one query, 20 keys", 3, 1, 19, 4, 4, 16, 16, 0.25f, open, NORMAL, 25, .window = 0),             \
      DECODE(OP, M, "one query, 65 keys, width 64", 1, 1, 64, 2, 2, 64, 64, 0.125f, open, NORMAL, 26, .window = 0),  \
      DECODE(OP, M, "4 tokens after 7", 2, 4, 7, 2, 2, 8, 8, 0.35f, open, NORMAL, 27, .window = 0),                  \
      DECODE(OP, M, "mask over past and new", 5, 2, 9, 2, 2, 8, 8, 0.35f, mask, NORMAL, 28, .window = 0),            \
      DECODE(OP, M, "beams by ancestry", 4, 1, 12, 2, 2, 8, 8, 0.35f, ancestry, NORMAL, 29, .window = 0),            \
      DECODE(OP, M, "ancestry, mask, shared heads", 6, 1, 16, 4, 2, 16, 16, 0.25f, ancestry | mask, NORMAL, 30,      \
             .window = 0),                                                                                           \
      DECODE(OP, M, "window of 8 after 30", 2, 3, 30, 2, 2, 8, 8, 0.35f, open, NORMAL, 31, .window = 8),             \
      CROSS(OP, M, "cross, one beam", 2, 2, 3, 17, 2, 2, 16, 16, 0.25f, mask, NORMAL, 32, .shared = VKF_DIM_BEAMS),  \
      CROSS(OP, M, "cross, 4 beams, one query", 3, 12, 1, 15, 2, 2, 64, 64, 0.125f, mask, NORMAL, 33,                \
            .shared = VKF_DIM_BEAMS),                                                                                \
      CROSS(OP, M, "cross, 3 beams, more keys than queries", 4, 12, 2, 33, 1, 1, 5, 11, 0.447f, mask, NORMAL, 34,    \
            .shared = VKF_DIM_BEAMS),                                                                                \
      CROSS(OP, M, "cross, fewer keys than queries", 1, 1, 21, 2, 2, 1, 8, 8, 0.35f, open, NORMAL, 35,               \
            .shared = VKF_DIM_BEAMS),                                                                                \
      DECODE(OP, M, "one query, 200 keys, 6 heads on 2", 2, 1, 199, 6, 2, 64, 32, 0.125f, open, NORMAL, 36,          \
             .window = 0),                                                                                           \
      DECODE(OP, M, "5 tokens after 150, mask", 3, 5, 150, 2, 2, 16, 16, 0.25f, mask, NORMAL, 37, .window = 0),      \
      DECODE(OP, M, "window of 20 after 170", 2, 2, 170, 2, 1, 8, 12, 0.35f, open, NORMAL, 38, .window = 20),        \
      SELF(OP, M, "bias by distance", 2, 21, 3, 3, 8, 8, 1.0f, bias, NORMAL, 39, .bias_per_head = true,              \
           DISTANCES(9, 4)),                                                                                         \
      DECODE(OP, M, "bias by distance after 30, mask", 3, 2, 30, 2, 2, 8, 8, 1.0f, bias | mask, NORMAL, 40,          \
             .bias_per_head = true, DISTANCES(12, 0)),                                                               \
      SELF(OP, M, "packed", 7, 19, 2, 2, 16, 16, 0.25f, open, NORMAL, 41, .packed = true),                           \
      SELF(OP, M, "packed, one token each", 5, 1, 2, 2, 8, 8, 0.35f, open, NORMAL, 42, .packed = true),              \
      SELF(OP, M, "packed, 70 tokens, 6 heads on 2", 4, 70, 6, 2, 64, 32, 0.125f, open, NORMAL, 43, .packed = true), \
      SELF(OP, M, "packed, bias by distance, width 5", 6, 40, 3, 3, 5, 7, 1.0f, bias, NORMAL, 44, .packed = true,    \
           .bias_per_head = true, DISTANCES(9, 20)),                                                                 \
      SELF(OP, M, "packed, causal, mask", 6, 33, 2, 2, 12, 12, 0.29f, mask, NORMAL, 45, .packed = true,              \
           .causal = true),                                                                                          \
      DECODE(OP, M, "packed, one query, 90 keys", 9, 1, 89, 4, 2, 16, 16, 0.25f, open, NORMAL, 46, .packed = true),  \
      DECODE(OP, M, "packed prompts and single tokens, mask", 8, 23, 60, 2, 2, 64, 64, 0.125f, mask, NORMAL, 47,     \
             .packed = true),                                                                                        \
      DECODE(OP, M, "packed, ancestry, bias by distance", 6, 3, 40, 2, 1, 8, 12, 1.0f, ancestry | bias, NORMAL, 48,  \
             .packed = true, .bias_per_head = true, DISTANCES(15, 0)),                                               \
      DECODE(OP, M, "packed, window of 20", 5, 6, 150, 4, 2, 8, 8, 0.35f, open, NORMAL, 49, .packed = true,          \
             .window = 20),                                                                                          \
      CROSS(OP, M, "packed cross, one query", 3, 12, 1, 45, 2, 2, 64, 64, 0.125f, open, NORMAL, 50, .packed = true), \
      CROSS(OP, M, "packed cross, mask, width 6", 4, 8, 7, 30, 2, 2, 6, 10, 0.4f, mask, NORMAL, 51, .packed = true), \
      SELF(OP, M, "soft cap, causal, width 64", 2, 37, 2, 2, 64, 64, 0.25f, open, NORMAL, 52, .causal = true,        \
           .softcap = 2.5f),                                                                                         \
      SELF(OP, M, "soft cap, bias, width 17", 2, 20, 2, 2, 17, 17, 1.0f, bias, NORMAL, 53, .softcap = 30),           \
      SELF(OP, M, "soft cap, scores of 10000", 2, 20, 2, 1, 32, 32, 0.125f, open, LARGE, 54, .softcap = 50),         \
      DECODE(OP, M, "soft cap, one query, 90 keys", 3, 1, 89, 4, 2, 64, 64, 1.0f, mask, NORMAL, 55, .softcap = 4),   \
      SELF(OP, M, "soft cap far over the scores", 2, 9, 2, 2, 16, 16, 0.25f, open, NORMAL, 63, .softcap = 1e6f),     \
      SELF(OP, M, "rows of q that begin at odd places", 2, 9, 2, 2, 8, 8, 0.35f, open, NORMAL, 58, .q_column = 3),   \
      SELF(OP, M, "infinite where the mask is 0, causal", 2, 37, 2, 2, 32, 32, 0.25f, mask, UNSEEN, 59,              \
           .causal = true)

#define FEW_KEYS(OP, M, NAME, KEYS) DECODE(OP, M, NAME, 1, 1, KEYS - 1, 1, 1, 4, 4, 1.0f, open, FEW, 39, .window = 0)

/* The first two are for kernels with cooperative matrices: several tiles of wide heads; numbers beyond f16. */
static const vkf_case cases[] = {CASES(ATTENTION, attention),
                                 SELF(ATTENTION, attention, "width 128, 70 tokens, 4 heads on 2, causal, mask", 2, 70,
                                      4, 2, 128, 128, 0.088f, mask, NORMAL, 56, .causal = true),
                                 SELF(ATTENTION, attention, "width 32, 20 tokens, beyond f16", 1, 20, 2, 2, 32, 32,
                                      1e-9f, open, HUGE, 57, .causal = false),
                                 FEW_KEYS(ATTENTION, attention, "65537 keys, few of which count", 65537)};
/* One kernel takes no more than about 18,000 keys on lavapipe 22. */
static const vkf_case weights_cases[] = {
    CASES(ATTENTION_WEIGHTS, attention_weights),
    FEW_KEYS(ATTENTION_WEIGHTS, attention_weights, "16385 keys, few of which count", 16385)};
const vkf_cases vkf_op_cases_attention = {cases, VKF_COUNT(cases)};
const vkf_cases vkf_op_cases_attention_weights = {weights_cases, VKF_COUNT(weights_cases)};
