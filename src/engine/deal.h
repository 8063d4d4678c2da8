/* deal: the order in which attention takes the sequences of a step. Pure host code. */
#ifndef VKF_ENGINE_DEAL_H
#define VKF_ENGINE_DEAL_H

#include "op/op.h"

/* Sorts spans [n] and writes them to dealt [n] so that each thread of a CPU driver gets about as many keys: such a
 * driver cuts a dispatch into one run of neighbours for each thread. The longest come first, then the shortest, then
 * the next longest, and so on, up to four of similar length at a time, because a kernel may put several sequences into
 * one vector, which takes as long as the longest of them. */
void vkf_engine_deal(vkf_span *spans, uint32_t n, vkf_span *dealt);

#endif
