/* phrases: counts the ids of required phrases that a sequence has.
 *
 * Pure functions of the ids. A phrase is met once its ids occur one after the other; phrases may overlap. A phrase that
 * is not met counts the ids of its longest prefix that the sequence ends with, as in Hokamp & Liu (2017, "Lexically
 * Constrained Decoding for Sequence Generation Using Grid Beam Search").
 */
#ifndef VKF_DECODE_PHRASES_H
#define VKF_DECODE_PHRASES_H

#include "decode/generation_config.h"

/* Returns how many ids of the phrases ids [n] have: all ids of the phrases that are met, plus the longest prefix among
 * the others. */
uint32_t vkf_decode_phrases_met(const vkf_id_lists *phrases, const int32_t *ids, uint32_t n);

/* Returns the number of ids of all phrases: vkf_decode_phrases_met() of a sequence that has them all. */
uint32_t vkf_decode_phrases_total(const vkf_id_lists *phrases);

/* Returns the id that continues phrase i after ids [n]; VKF_NO_TOKEN: the phrase is met. */
int32_t vkf_decode_phrases_next(const vkf_id_lists *phrases, uint32_t i, const int32_t *ids, uint32_t n);

#endif
