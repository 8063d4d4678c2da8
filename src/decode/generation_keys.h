/* generation_keys: every key of generation_config.json, and how its value is read.
 *
 * Owns the table of keys. vkf_generation_config.refused has one place per row. Invariant: reading a key resets it to
 * its default first, so the last source alone decides.
 */
#ifndef VKF_DECODE_GENERATION_KEYS_H
#define VKF_DECODE_GENERATION_KEYS_H

#include "decode/generation_config.h"

/* The ranges of numbers: name, words for messages, test of x. */
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
  VKF_RANGE_NONE, /* the key takes no number, or needs no range */
#define X(name, words, test) VKF_RANGE_##name,
  VKF_GENERATION_RANGES(X)
#undef X
} vkf_generation_range;

typedef enum vkf_generation_kind {
  VKF_KEY_COUNT,  /* uint32_t */
  VKF_KEY_REAL,   /* double; its range is checked after all sources are read */
  VKF_KEY_DRAW,   /* the same, for sampling: its range is checked only if do_sample is true */
  VKF_KEY_FACTOR, /* double; its range is checked when it is read */
  VKF_KEY_EARLY,
  VKF_KEY_ID,     /* int32_t */
  VKF_KEY_IDS,    /* vkf_id_list; the file may have a single id */
  VKF_KEY_WORDS,  /* vkf_id_lists */
  VKF_KEY_BIASES, /* vkf_id_lists with biases */
  VKF_KEY_DECAY,  /* vkf_length_decay */
  VKF_KEY_BOOL,
  VKF_KEY_SEED,     /* uint64_t */
  VKF_KEY_FREE,     /* ignored, as it changes no id: bookkeeping, caches, kinds of output */
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

/* The table: at most VKF_GENERATION_MAX_KEYS rows. */
extern const vkf_generation_key vkf_decode_generation_keys[];
extern const size_t vkf_decode_generation_n_keys;

/* Returns what the key's number must be, in words, if x is out of its range; NULL: x fits, or there is no range. */
const char *vkf_decode_generation_expects(const vkf_generation_key *key, double x);

/* Returns NULL if there is no such key. */
const vkf_generation_key *vkf_decode_generation_find_key(const char *name);

/* One source of keys. source: its name in messages; must live as long as the configuration. */
typedef struct vkf_generation_reader {
  vkf_generation_config *config;
  const char *source;
} vkf_generation_reader;

/* Sets the key. Checks the type and the ranges of some kinds (VKF_ERROR_FORMAT); notes an unsupported value in
 * config->refused. null gives the default. */
vkf_status vkf_decode_generation_read_key(vkf_generation_reader *reader, const vkf_generation_key *key,
                                          vkf_file_value value);

#endif
