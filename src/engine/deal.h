/* deal: the order in which attention takes the sequences of a step. Pure host code. */
#ifndef VKF_ENGINE_DEAL_H
#define VKF_ENGINE_DEAL_H

#include "op/op.h"

/* Puts spans [n], which it sorts, into dealt [n] so that each thread of a CPU driver gets about as many keys. Such a
 * driver cuts a dispatch into as many parts of neighbours as it has threads. So the longest come first, then the
 * shortest, then the next to longest, and so on: up to four of about one length at a time, because kernels may have
 * several sequences in one vector, which takes as long as the longest of them. */
void vkf_engine_deal(vkf_span *spans, uint32_t n, vkf_span *dealt);

#endif
