/* shortlist: which ids a translation may have, given the ids of its source.
 *
 * Owns a lexical table in Marian's format: a line "target source probability" for each pair of tokens. A source allows
 * the first ids of the vocabulary (its most frequent tokens), the special ids, the best targets of each of its ids and,
 * if source and target share a vocabulary, its own ids. Refuses a malformed line; skips pairs with unknown tokens and
 * logs their number. It never changes after init, so any number of threads may read it.
 */
#ifndef VKF_DECODE_SHORTLIST_H
#define VKF_DECODE_SHORTLIST_H

#include "decode/generation_config.h"

enum { VKF_SHORTLIST_SPECIAL = 4 };

typedef struct vkf_shortlist_input {
  const char *text; /* [size]: the file */
  size_t size;
  const char *name;                       /* of the file, in messages */
  uint32_t n_sources, n_targets;          /* sizes of the two vocabularies */
  uint32_t n_first, n_best;               /* first ids that are always allowed; best targets kept of each source id */
  bool is_shared;                         /* source and target share one vocabulary */
  int32_t special[VKF_SHORTLIST_SPECIAL]; /* always allowed; VKF_NO_TOKEN: none */
  int32_t (*find)(const void *user, const char *piece); /* returns the id of a token; negative: unknown */
  const void *user;
} vkf_shortlist_input;

struct vkf_shortlist {
  vkf_env *env;
  uint32_t n_sources, n_targets, n_first;
  bool is_shared;
  int32_t special[VKF_SHORTLIST_SPECIAL];
  uint32_t *offsets; /* [n_sources + 1] */
  int32_t *targets;  /* those of source i: targets[offsets[i]] .. targets[offsets[i+1]-1] */
};

/* Reads the table. VKF_ERROR_FORMAT: names a malformed line, or says that no pair has two known tokens. Call finish
 * even if this fails. */
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

/* Adds the ids that source [n] allows to the set `allowed` [VKF_ID_WORDS(n_targets)]. mask [n]: 0: not a token; NULL:
 * all are. */
void vkf_decode_shortlist_allow(const vkf_shortlist *list, const int32_t *source, const int32_t *mask, uint32_t n,
                                uint64_t *allowed);

#endif
