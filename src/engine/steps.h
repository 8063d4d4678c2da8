/* steps: packed steps over slots of one cache on the device.
 *
 * A slot holds one sequence, or one beam of it, and has a row of the cache of keys and values, or a part of a row. A
 * step runs ids of any number of slots, prompts and single ids side by side, without pads, in one submit, or in several
 * if they are more than `most_rows`. An encoder-decoder has a source for every `each` slots; encoding one puts its
 * cross keys and values into the cache. Beams are reordered by an ancestry table, never by moving caches:
 * ancestry[r][s] says which slot holds the key that row r has at position s. Invariant: a step allocates nothing once
 * its plan is there.
 */
#ifndef VKF_ENGINE_STEPS_H
#define VKF_ENGINE_STEPS_H

#include "decode/batch.h"
#include "engine/cache_rows.h"
#include "engine/opened.h"
#include "engine/short_head.h"

typedef struct vkf_steps_params {
  uint32_t n_sources, each;            /* slots: n_sources * each */
  uint32_t slot_tokens, source_tokens; /* tokens that a slot and a source hold at least; source_tokens 0: no encoder */
  bool is_own;                         /* a cache of its own, not one that the plan cache keeps */
  bool shares_rows;                    /* short sequences share rows: the caller fills `cache_rows` */
  bool has_holes;                      /* a source may have masked tokens between others */
  uint32_t edits;                      /* of a row, at most */
  vkf_short_head *short_head;          /* the caller's; NULL: the head has all its rows */
  vkf_plan_request head; /* what is computed from logits: reads ancestry, log_softmax, renormalize and top_k */
} vkf_steps_params;

typedef struct vkf_steps {
  vkf_session *session;
  vkf_bucket *bucket;
  bool is_own;
  vkf_need_sizes caps;
  vkf_plan_request request;            /* of every step; each submit sets its sizes */
  uint32_t each, most_rows;            /* most_rows: the most ids of a submit */
  vkf_span *sources;                   /* [n_sources]: keys and slot of each; NULL: no encoder */
  int32_t *source_mask;                /* [n_sources][S cap]; NULL: no holes between tokens */
  int32_t *ancestry, *ancestry_next;   /* [R][keys cap], by row; NULL: no beams */
  uint32_t *row_of;                    /* [R]: the row of a slot in the last step */
  vkf_cache_rows cache_rows;           /* n 0: slot s has row s, as on all GPUs, which sharing would not help */
  vkf_span *spans, *cross_spans;       /* [R]: of a submit */
  vkf_span *dealt;                     /* [R]: spans in the order of deal.h; NULL: on a GPU, and with an ancestry */
  int32_t *ids, *positions, *out_rows; /* [most_rows] */
  uint32_t *edit_offsets;              /* [R + 1] */
  const char *output;                  /* the output that `values` gets, all scores; NULL: candidates, or nothing */
  uint32_t width, n_vocab;             /* of a row of values, of logits */
  float *values;                       /* [R][width]; NULL: only logits are asked for */
  int32_t *top_ids;                    /* [R][width] of candidates */
  vkf_short_head *short_head;          /* NULL: the head has all its rows, and the next three are not used */
  const vkf_cached_plan *short_plan;   /* the plan whose memory has the rows of the head; NULL: none */
  uint32_t *places;                    /* [most_rows]: of rows, or of ids whose scores are wanted */
  vkf_logit_edit *edits;               /* [request.max_edits]: by column */
  float *rows;                         /* logits of a submit, if it has several rows of them */
  size_t rows_capacity;
} vkf_steps;

/* Allocates memory and the cache. Finish it in every case. */
vkf_status vkf_engine_steps_init(vkf_steps *steps, vkf_session *session, const vkf_steps_params *params);
void vkf_engine_steps_finish(vkf_steps *steps);
/* Allocates memory for n rows of logits, so that steps of up to n allocate nothing. */
vkf_status vkf_engine_steps_need_logits(vkf_steps *steps, size_t n);
/* Runs the encoder for the sources input->places. */
vkf_status vkf_engine_steps_encode(vkf_steps *steps, const vkf_encode_input *input);
/* Runs the rows of a step. Fills values and top_ids for the ids that want scores, in their order; writes logits where
 * the rows say. Rows advance as they run (past, ids, n, n_out, logits), so after a failure they say what is left. */
vkf_status vkf_engine_steps_run(vkf_steps *steps, const vkf_batch_step *step);
/* Finds or makes the plan of n single ids, all of which want scores. */
vkf_status vkf_engine_steps_plan(vkf_steps *steps, uint32_t n, bool has_logits, const vkf_cached_plan **out);
/* Makes the plans of such a step and of one source. Fails if the device has no room for them. */
vkf_status vkf_engine_steps_try(vkf_steps *steps, uint32_t n, bool has_logits);

#endif
