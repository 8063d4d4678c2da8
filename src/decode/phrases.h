/* phrases: which of the ids that must appear are in a sequence.
 *
 * Pure functions of the ids. A phrase is met once its ids occur one after the other; phrases may overlap. Of a phrase
 * that is not met yet, the ids count that the sequence ends with and the phrase begins with, as in Hokamp & Liu (2017,
 * "Lexically Constrained Decoding for Sequence Generation Using Grid Beam Search").
 */
#ifndef VKF_DECODE_PHRASES_H
#define VKF_DECODE_PHRASES_H

#include "decode/generation_config.h"

/* Ids of the phrases that ids [n] have: all of those that are met, and of the others the most that one has begun. */
uint32_t vkf_decode_phrases_met(const vkf_id_lists *phrases, const int32_t *ids, uint32_t n);

/* What vkf_decode_phrases_met() gives for a sequence that has them all. */
uint32_t vkf_decode_phrases_total(const vkf_id_lists *phrases);

/* The id with which phrase i goes on after ids [n]; VKF_NO_TOKEN: it is met. */
int32_t vkf_decode_phrases_next(const vkf_id_lists *phrases, uint32_t i, const int32_t *ids, uint32_t n);

#endif
