/* case_spans: the spans of a case whose batch is packed. */
#ifndef VKF_OP_CASE_SPANS_H
#define VKF_OP_CASE_SPANS_H

#include "op/cases.h"

/* Is input `input` of the case its spans? */
bool vkf_case_has_spans(const vkf_case *c, uint32_t input);
/* Sequences of different lengths, from 0 tokens to the case's length, which one of them has; the past of each is as
 * long as fits. Rows, keys and slots of caches are in three different orders, none of them that of the sequences. Gives
 * the spans [seqs][VKF_SPAN_FIELDS] (NULL: there was no memory) and sets the rows in `sizes`. */
const int32_t *vkf_case_spans(vkf_arena *arena, const vkf_case *c, vkf_sizes *sizes);

#endif
