/* shortlist: which ids a translation may have, by the ids of its source.
 *
 * Owns a lexical table in Marian's format: a line "target source probability" for each pair of tokens. A source allows
 * the first ids of the vocabulary (its most frequent tokens), the special ones, the best targets of each of its ids
 * and, where source and target have one vocabulary, its own ids. Refuses a line that is none; tokens that the
 * vocabulary does not have are counted. Not changed once it is read, so any number of threads may ask it.
 */
#ifndef VKF_DECODE_SHORTLIST_H
#define VKF_DECODE_SHORTLIST_H

#include "decode/generation_config.h"

enum { VKF_SHORTLIST_SPECIAL = 4 };

typedef struct vkf_shortlist_input {
  const char *text; /* [size]: the file */
  size_t size;
  const char *name;              /* of the file, for messages */
  uint32_t n_sources, n_targets; /* ids of the two vocabularies */
  uint32_t n_first, n_best;
  bool is_shared;                                       /* they are one vocabulary */
  int32_t special[VKF_SHORTLIST_SPECIAL];               /* VKF_NO_TOKEN: none */
  int32_t (*find)(const void *user, const char *piece); /* the id of a token; negative: there is none */
  const void *user;
} vkf_shortlist_input;

struct vkf_shortlist {
  vkf_env *env;
  uint32_t n_sources, n_targets, n_first;
  bool is_shared;
  int32_t special[VKF_SHORTLIST_SPECIAL];
  uint32_t *offsets; /* [n_sources + 1] */
  int32_t *targets;  /* of source i: from offsets[i] to offsets[i + 1] */
};

/* VKF_ERROR_FORMAT names the line that is not as it should be, or says that no pair has two known tokens. Finish it in
 * every case. */
vkf_status vkf_decode_shortlist_init(vkf_shortlist *list, vkf_env *env, const vkf_shortlist_input *input);
void vkf_decode_shortlist_finish(vkf_shortlist *list);

/* Sets of ids: bit id % 64 of word id / 64. */
#define VKF_ID_WORDS(n_ids) VKF_CEIL_DIV((size_t)(n_ids), 64)
static inline void vkf_id_set_add(uint64_t *set, int32_t id) {
  set[id / 64] |= UINT64_C(1) << id % 64;
}
static inline bool vkf_id_set_has(const uint64_t *set, int32_t id) {
  return set[id / 64] >> id % 64 & 1;
}

/* Adds what source ids [n] allow to `allowed` [VKF_ID_WORDS(n_targets)]. mask: 0: it is no token; NULL: all are. */
void vkf_decode_shortlist_allow(const vkf_shortlist *list, const int32_t *source, const int32_t *mask, uint32_t n,
                                uint64_t *allowed);

#endif
