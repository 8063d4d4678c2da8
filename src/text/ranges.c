/* ranges: divides a text into matches and the text between them, and cuts it there in five ways.
 *
 * Invariant: ranges are consecutive and cover the text; an empty one may be between two others.
 */
#include "text/internal.h"

#include <string.h>

void vkf_text_ranges_init(vkf_text_ranges *ranges, vkf_env *env) {
  memset(ranges, 0, sizeof(*ranges));
  ranges->env = env;
}

void vkf_text_ranges_finish(vkf_text_ranges *ranges) {
  vkf_env_free(ranges->env, ranges->at);
  vkf_text_ranges_init(ranges, ranges->env);
}

vkf_status vkf_text_ranges_push(vkf_text_ranges *ranges, size_t start, size_t end, bool match) {
  vkf_text_range *at = vkf_env_grow(ranges->env, ranges->at, &ranges->capacity, ranges->n + 1, sizeof(*at));
  if (at == NULL) return VKF_ERROR_MEMORY;
  ranges->at = at;
  ranges->at[ranges->n++] = (vkf_text_range){start, end, match};
  return VKF_OK;
}

vkf_status vkf_text_ranges_of_chars(vkf_text_ranges *ranges, vkf_text_string text, bool (*is)(uint32_t code)) {
  size_t between = 0;
  for (size_t at = 0, next; at < text.size; at = next) {
    if (!is(vkf_text_char_at(text, at, &next))) continue;
    if (between < at) VKF_CALL(vkf_text_ranges_push(ranges, between, at, false));
    VKF_CALL(vkf_text_ranges_push(ranges, at, next, true));
    between = next;
  }
  if (between < text.size) VKF_CALL(vkf_text_ranges_push(ranges, between, text.size, false));
  return VKF_OK;
}

/* Joins adjacent ranges as the behaviour says: from the right for MERGED_WITH_NEXT, else from the left. */
static void merge(vkf_text_ranges *ranges, vkf_text_behavior behavior) {
  if (ranges->n == 0) return;
  vkf_text_range *at = ranges->at;
  size_t kept = 0;
  if (behavior == VKF_TEXT_MERGED_WITH_NEXT) {
    bool next_is_match = false;
    kept = ranges->n;
    for (size_t i = ranges->n; i-- > 0;) {
      bool match = at[i].match;
      if (match && !next_is_match && kept < ranges->n)
        at[kept].start = at[i].start;
      else
        at[--kept] = at[i];
      next_is_match = match;
    }
    memmove(at, at + kept, (ranges->n - kept) * sizeof(*at));
    ranges->n -= kept;
    return;
  }
  bool previous_is_match = false;
  for (size_t i = 0; i < ranges->n; i++) {
    bool match = at[i].match, join = false;
    if (kept > 0 && behavior == VKF_TEXT_CONTIGUOUS) join = match == previous_is_match;
    if (kept > 0 && behavior == VKF_TEXT_MERGED_WITH_PREVIOUS) join = match && !previous_is_match;
    if (join)
      at[kept - 1].end = at[i].end;
    else
      at[kept++] = at[i];
    previous_is_match = match;
  }
  ranges->n = kept;
}

void vkf_text_ranges_cut(vkf_text_ranges *ranges, vkf_text_string text, vkf_text_behavior behavior, bool first,
                         vkf_text_pieces *out) {
  if (behavior != VKF_TEXT_REMOVED && behavior != VKF_TEXT_ISOLATED) merge(ranges, behavior);
  for (size_t i = 0; i < ranges->n; i++) {
    vkf_text_range r = ranges->at[i];
    if (r.start == r.end || (behavior == VKF_TEXT_REMOVED && r.match)) continue;
    vkf_text_pieces_push(out, (vkf_text_string){text.data + r.start, r.end - r.start}, -1, first && r.start == 0);
  }
}
