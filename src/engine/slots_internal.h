/* What the files of slots share. */
#ifndef VKF_ENGINE_SLOTS_INTERNAL_H
#define VKF_ENGINE_SLOTS_INTERNAL_H

#include "engine/slots.h"
#include "engine/steps.h"

typedef struct vkf_sequence {
  uint32_t slot;
  int32_t *ids; /* [most]: n are set, of which n_done have run */
  size_t n, n_done;
  size_t n_logits; /* of the last ids: the next step computes them */
  float *logits;   /* [n_read][n_vocab] */
  size_t n_read, logits_capacity;
  int32_t *source; /* [n_source], of an encoder-decoder */
  uint32_t n_source;
} vkf_sequence;

struct vkf_slots {
  vkf_session *session;
  vkf_steps steps;
  vkf_sequence *at; /* [n] */
  size_t n;
  uint32_t most, most_source; /* ids of a slot, of its source, at most */
  uint32_t n_vocab;
  vkf_search_row *rows; /* [n]: of a step */
};

/* VKF_ERROR_ARGUMENT: the session has fewer slots. */
vkf_status vkf_engine_slot_get(vkf_session *session, size_t slot, vkf_sequence **out);
/* Begins a call on a slot: vkf_engine_session_begin() and slot_get(). Do not end it if this fails. */
vkf_status vkf_engine_slot_begin(vkf_session *session, const char *call, size_t slot, vkf_sequence **out);

#endif
