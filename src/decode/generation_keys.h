/* generation_keys: every key of a generation_config.json, and how its value is read.
 *
 * Owns the one table of keys. vkf_generation_config.refused has a place for each row of it. Invariant: a key gets its
 * default back before its value is read, so the last source decides alone.
 */
#ifndef VKF_DECODE_GENERATION_KEYS_H
#define VKF_DECODE_GENERATION_KEYS_H

#include "decode/generation_config.h"

/* What a number may be: a name, the words of messages, the test of x. */
#define VKF_GENERATION_RANGES(X)                                    \
  X(ANY, "a number", isfinite(x))                                   \
  X(OVER_0, "a number over 0", x > 0)                               \
  X(FROM_0, "a number of at least 0", x >= 0)                       \
  X(FROM_0_TO_1, "a number from 0 to 1", x >= 0 && x <= 1)          \
  X(OVER_0_TO_1, "a number over 0, up to 1", x > 0 && x <= 1)       \
  X(BELOW_1, "a number from 0 to below 1", x >= 0 && x < 1)         \
  X(WHOLE, "a whole number of at least 0", x >= 0 && x == floor(x)) \
  X(COUNT, "a whole number of at least 1", x >= 1 && x == floor(x))

typedef enum vkf_generation_range {
  VKF_RANGE_NONE, /* the key takes no number, or any whole one */
#define X(name, words, test) VKF_RANGE_##name,
  VKF_GENERATION_RANGES(X)
#undef X
} vkf_generation_range;

typedef enum vkf_generation_kind {
  VKF_KEY_COUNT,  /* uint32_t */
  VKF_KEY_REAL,   /* double; its range is checked when all sources were read */
  VKF_KEY_DRAW,   /* the same, for sampling alone: its range is checked where do_sample is true */
  VKF_KEY_FACTOR, /* double; its range is checked when it is read */
  VKF_KEY_EARLY,
  VKF_KEY_ID,     /* int32_t */
  VKF_KEY_IDS,    /* vkf_id_list, also written as one id */
  VKF_KEY_WORDS,  /* vkf_id_lists */
  VKF_KEY_BIASES, /* vkf_id_lists with biases */
  VKF_KEY_DECAY,  /* vkf_length_decay */
  VKF_KEY_BOOL,
  VKF_KEY_SEED,     /* uint64_t */
  VKF_KEY_FREE,     /* changes no id: bookkeeping, caches, what is returned */
  VKF_KEY_NO_FALSE, /* not supported, unless false */
  VKF_KEY_NO_0,     /* not supported, unless 0 */
  VKF_KEY_NO_1,     /* not supported, unless 1 */
  VKF_KEY_NO        /* not supported, unless null or empty */
} vkf_generation_kind;

typedef struct vkf_generation_key {
  const char *name;
  vkf_generation_kind kind;
  size_t offset;
  vkf_generation_range range;
} vkf_generation_key;

/* The table; VKF_GENERATION_MAX_KEYS rows at most. */
extern const vkf_generation_key vkf_decode_generation_keys[];
extern const size_t vkf_decode_generation_n_keys;

/* What the key's number must be, in words, if x is not that. NULL: x fits, or the key has no range. */
const char *vkf_decode_generation_expects(const vkf_generation_key *key, double x);

/* NULL: no such key. */
const vkf_generation_key *vkf_decode_generation_find_key(const char *name);

/* One source of keys: its name for messages, kept as long as the configuration. */
typedef struct vkf_generation_reader {
  vkf_generation_config *config;
  const char *source;
} vkf_generation_reader;

/* Types are checked (VKF_ERROR_FORMAT); a value that is not supported is remembered in config->refused. */
vkf_status vkf_decode_generation_read_key(vkf_generation_reader *reader, const vkf_generation_key *key,
                                          vkf_file_value value);

#endif
