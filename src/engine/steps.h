/* steps: the decoding steps of a batch on the device.
 *
 * The encoder and the cross keys and values run once a batch; a step writes ids, positions, beam order and edits, runs
 * the decoder's blocks as they were recorded, and reads back candidates. Slot r of the batch is row r of the cache.
 * Beams are reordered by an ancestry table, never by moving caches: ancestry[r][s] says which row's cache holds the key
 * that slot r has at position s. Invariant: a step allocates nothing once its plan is there.
 */
#ifndef VKF_ENGINE_STEPS_H
#define VKF_ENGINE_STEPS_H

#include "decode/batch.h"
#include "engine/opened.h"

/* As the device reads it: VKF_SPAN_*. */
typedef struct vkf_span {
  uint32_t row, queries, past, keys, slot, first;
} vkf_span;

typedef struct vkf_steps {
  vkf_session *session;
  vkf_bucket *bucket;
  vkf_need_sizes caps;
  vkf_plan_request request;          /* of the decoder's cache; T is set a step */
  uint32_t B, S, R, past;            /* R: slots */
  vkf_span *sources;                 /* [B]: keys and first key of each sentence; NULL: no encoder */
  uint32_t n_source_rows;            /* of all of them */
  int32_t *source_mask;              /* [n_source_rows]; NULL: no holes between tokens */
  int32_t *ancestry, *ancestry_next; /* [R][keys cap], by row; NULL: no beams */
  int32_t *key_mask;                 /* [R][keys cap], by slot; NULL: no padding in the prompt */
  uint32_t *row_of;                  /* [R]: the row of a slot in the last step */
  vkf_span *spans, *cross_spans;     /* [R]: of the rows of a step */
  int32_t *positions;                /* [R][T] */
  int32_t *out_rows;                 /* [R] */
  uint32_t *edit_offsets;            /* [R cap + 1] */
  const char *output;                /* of the plan, in `values`: all scores; NULL: candidates */
  uint32_t width, n_vocab;           /* of a row of values, of logits */
  float *values;                     /* [R][width] */
  int32_t *ids;
  float *logits;               /* [R][n_vocab]: of the last step; may be `values`; NULL: not asked for */
  const vkf_cached_plan *last; /* the program whose lasting inputs are written */
} vkf_steps;

/* What a batch asks of its steps. */
typedef struct vkf_steps_input {
  const vkf_encode_input *source; /* the prompt where there is no encoder */
  const vkf_generation_config *config;
  uint32_t n_prompt, limit; /* ids that the decoder is fed first; ids of the longest sequence */
  uint32_t edits;           /* that a row has at most */
  uint32_t k;               /* candidates of a row; 0: all scores */
  bool logits;              /* keep them, too */
} vkf_steps_input;

/* Memory and programs; runs the encoder. Finish it in every case. */
vkf_status vkf_engine_steps_init(vkf_steps *steps, vkf_session *session, const vkf_steps_input *input);
void vkf_engine_steps_finish(vkf_steps *steps);
/* Of the step's rows: values [n_rows][k], or all scores, and ids; steps->logits [n_rows][n_vocab]. */
vkf_status vkf_engine_steps_run(vkf_steps *steps, const vkf_batch_step *step);

#endif
