/* processors: turns a generation configuration into edits of the scores of one step, which a device applies.
 *
 * Pure host code. The edits of a row are in the order in which transformers 5.12 runs its logits processors: biases of
 * sequences, encoder repetition penalty, repetition penalty, n-grams, n-grams of the source, bad words, minimum length,
 * forced first id, forced end, suppressed ids, ids suppressed at the beginning. Two rules differ from transformers.
 * exponential_decay_length_penalty comes before the n-grams, there after the forced end: scores are the same, but a
 * forbidden end stays forbidden, while theirs becomes NaN. The encoder repetition penalty applies to every row, with
 * the ids of its own sentence; transformers 5.12 applies it to the first B of B x beams rows only, so that the second
 * beam of the first sentence gets the ids of the second sentence. Greedy decoding edits logits, beams edit
 * log-probabilities. Invariant: a row never gets more than vkf_decode_max_edits() edits.
 */
#ifndef VKF_DECODE_PROCESSORS_H
#define VKF_DECODE_PROCESSORS_H

#include "decode/generation_config.h"
#include "op/op.h"

/* One edit as the device reads it (four 32-bit words). */
typedef struct vkf_logit_edit {
  int32_t kind; /* vkf_logit_edit_kind */
  int32_t id;   /* 0 for VKF_LOGIT_EDIT_FILL */
  float value;
  int32_t zero;
} vkf_logit_edit;

/* Memory in which processors mark the ids that they have seen in one loop over ids, a "visit". */
typedef struct vkf_id_marks {
  vkf_env *env;
  uint32_t n_vocab;
  uint32_t *visits; /* [n_vocab]: the last visit that saw the id */
  uint32_t visit;
} vkf_id_marks;

vkf_status vkf_decode_marks_init(vkf_id_marks *marks, vkf_env *env, uint32_t n_vocab);
void vkf_decode_marks_finish(vkf_id_marks *marks);

typedef struct vkf_processors {
  const vkf_generation_config *config;
  vkf_id_marks *marks;         /* may be shared, one call at a time */
  uint32_t prompt, max_length; /* ids before the first generated one; ids of the longest sequence, prompt included */
} vkf_processors;

/* Returns the most edits that a row can need if its sequence has up to `length` ids and its source `source_length`. */
uint32_t vkf_decode_max_edits(const vkf_generation_config *config, uint32_t length, uint32_t source_length);

/* Returns the number of ids before the first one that is not forced. */
uint32_t vkf_decode_processors_begin(const vkf_processors *processors);

/* Writes the edits for the scores of the id that follows history [length]. source: the ids that the encoder read (the
 * prompt if there is no encoder), or NULL. Returns the number of edits. Allocates nothing. */
uint32_t vkf_decode_processors_edit(const vkf_processors *processors, const int32_t *history, uint32_t length,
                                    const int32_t *source, uint32_t source_length, vkf_logit_edit *out);

#endif
