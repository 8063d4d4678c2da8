/* processors: what a generation configuration does to the scores of one step, as edits that a device applies.
 *
 * Pure host code. The edits of a row are in the order in which transformers 5.12 runs its logits processors: biases of
 * sequences, encoder repetition penalty, repetition penalty, n-grams, n-grams of the source, bad words, minimum length,
 * forced first id, forced end, suppressed ids, ids suppressed at the beginning. Two rules are not theirs.
 * exponential_decay_length_penalty comes before the n-grams, theirs after the forced end: scores are the same, but an
 * end that is forbidden stays forbidden, where theirs becomes NaN. The encoder repetition penalty is for every row,
 * with the ids of its own sentence; transformers 5.12 gives it to the first B of B x beams rows, the second beam of the
 * first sentence with the ids of the second sentence. Greedy decoding edits logits, beams edit log-probabilities.
 * Invariant: a row never gets more than vkf_decode_max_edits() edits.
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

/* Memory in which processors mark the ids that they have seen. */
typedef struct vkf_id_marks {
  vkf_env *env;
  uint32_t n_vocab;
  uint32_t *visits; /* [n_vocab]: the visit in which an id was seen last */
  uint32_t visit;
} vkf_id_marks;

vkf_status vkf_decode_marks_init(vkf_id_marks *marks, vkf_env *env, uint32_t n_vocab);
void vkf_decode_marks_finish(vkf_id_marks *marks);

typedef struct vkf_processors {
  const vkf_generation_config *config;
  vkf_id_marks *marks;         /* others may use them, too */
  uint32_t prompt, max_length; /* ids before the first generated one; ids of the longest sequence, prompt included */
} vkf_processors;

/* Edits a row can need when its sequence holds up to `length` ids and its source `source_length`. */
uint32_t vkf_decode_max_edits(const vkf_generation_config *config, uint32_t length, uint32_t source_length);

/* Ids before the first one that is not forced. */
uint32_t vkf_decode_processors_begin(const vkf_processors *processors);

/* Edits for the scores of the id that follows history[length]. source: ids that the encoder read (the prompt where
 * there is no encoder), or NULL. Returns how many edits it wrote. No allocation. */
uint32_t vkf_decode_processors_edit(const vkf_processors *processors, const int32_t *history, uint32_t length,
                                    const int32_t *source, uint32_t source_length, vkf_logit_edit *out);

#endif
