/* case_spans: the spans of a case whose batch is packed. */
#ifndef VKF_OP_CASE_SPANS_H
#define VKF_OP_CASE_SPANS_H

#include "op/cases.h"

/* Is input `input` of the case its spans? */
bool vkf_case_has_spans(const vkf_case *c, uint32_t input);
/* Sequences of 0 tokens up to the case's length, one of which has all, with the past that fits. Their rows, their keys
 * and the slots of their caches are in three different orders; none of them is that of the sequences. Gives the spans
 * [seqs][VKF_SPAN_FIELDS] (NULL: there was no memory) and sets the rows in `sizes`. */
const int32_t *vkf_case_spans(vkf_arena *arena, const vkf_case *c, vkf_sizes *sizes);

#endif
