/* What the files of slots share. */
#ifndef VKF_ENGINE_SLOTS_INTERNAL_H
#define VKF_ENGINE_SLOTS_INTERNAL_H

#include "engine/opened.h"
#include "engine/slots.h"

enum { VKF_SLOT_CHUNK = 128 }; /* ids that run at a time */

typedef struct vkf_sequence {
  vkf_bucket *bucket;
  int32_t *ids; /* [most]: n of them, n_done of which have run */
  size_t n, n_done;
  size_t n_logits; /* of the last ids, that the next step computes */
  float *logits;   /* [n_read][n_vocab] */
  size_t n_read, logits_capacity;
  int32_t *source; /* [n_source], of an encoder-decoder */
  uint32_t n_source;
  const vkf_cached_plan *last; /* the plan whose mask of the source is written */
} vkf_sequence;

struct vkf_slots {
  vkf_session *session;
  vkf_sequence *at; /* [n] */
  size_t n;
  uint32_t most, most_source; /* ids of a slot, of its source */
  uint32_t n_vocab;
  int32_t *positions; /* [VKF_SLOT_CHUNK] */
  float *rows;        /* of a chunk that has several rows of logits */
  size_t rows_capacity;
};

/* Room for logits of n ids, so that a step allocates nothing. */
vkf_status vkf_engine_sequence_need_logits(vkf_slots *slots, vkf_sequence *sequence, size_t n);
/* The plan of so many tokens, of which the last n_logits have logits. */
vkf_status vkf_engine_sequence_plan(vkf_slots *slots, vkf_sequence *sequence, uint32_t n_tokens, uint32_t n_logits,
                                    const vkf_cached_plan **out);
/* vkf_engine_session_begin() of a call on a slot. */
vkf_status vkf_engine_slot_begin(vkf_session *session, const char *call, size_t slot, vkf_sequence **out);

#endif
