/* phrases: see phrases.h. */
#include "decode/phrases.h"

#include <string.h>

static bool ends_with(const int32_t *ids, uint32_t n, const int32_t *part, uint32_t n_part) {
  return n_part <= n && !memcmp(ids + (n - n_part), part, n_part * sizeof *part);
}

/* Returns how many ids of a phrase a sequence has: all if it is met, else those of its longest prefix that ends it. */
static uint32_t progress(const vkf_id_list *phrase, const int32_t *ids, uint32_t n) {
  uint32_t begun = phrase->n - 1;
  for (uint32_t end = phrase->n; end <= n; end++)
    if (ends_with(ids, end, phrase->ids, phrase->n)) return phrase->n;
  while (!ends_with(ids, n, phrase->ids, begun)) begun--;
  return begun;
}

uint32_t vkf_decode_phrases_met(const vkf_id_lists *phrases, const int32_t *ids, uint32_t n) {
  uint32_t met = 0, begun = 0;
  for (uint32_t i = 0; i < phrases->n; i++) {
    const uint32_t has = progress(&phrases->lists[i], ids, n);
    if (has == phrases->lists[i].n)
      met += has;
    else
      begun = VKF_MAX(begun, has);
  }
  return met + begun;
}

uint32_t vkf_decode_phrases_total(const vkf_id_lists *phrases) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < phrases->n; i++) total += phrases->lists[i].n;
  return total;
}

int32_t vkf_decode_phrases_next(const vkf_id_lists *phrases, uint32_t i, const int32_t *ids, uint32_t n) {
  const uint32_t has = progress(&phrases->lists[i], ids, n);
  return has == phrases->lists[i].n ? VKF_NO_TOKEN : phrases->lists[i].ids[has];
}
