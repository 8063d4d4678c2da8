/* case_spans: makes the spans of a case whose batch is packed. */
#ifndef VKF_OP_CASE_SPANS_H
#define VKF_OP_CASE_SPANS_H

#include "op/cases.h"

/* Returns whether input `input` of the case is its spans. */
bool vkf_case_has_spans(const vkf_case *c, uint32_t input);
/* Returns the spans [seqs][VKF_SPAN_FIELDS] (NULL: there is no memory) of sequences of different lengths, and sets the
 * rows in `sizes`. The first has the length of the case and the longest past that fits; the others have any length up
 * to it and any past that fits. Rows, keys and slots of caches are in three different orders, none of them that of the
 * sequences. */
const int32_t *vkf_case_spans(vkf_arena *arena, const vkf_case *c, vkf_sizes *sizes);

#endif
