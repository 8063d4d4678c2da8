/* deal: see deal.h. */
#include "engine/deal.h"

#include <stdlib.h>
#include <string.h>

/* Orders spans by keys, the most first. Ties: by row. */
static int compare(const void *a, const void *b) {
  const vkf_span *x = a, *y = b;
  if (x->keys != y->keys) return x->keys < y->keys ? 1 : -1;
  return (x->row > y->row) - (x->row < y->row);
}

void vkf_engine_deal(vkf_span *spans, uint32_t n, vkf_span *dealt) {
  enum { LEAST_TURNS = 4, MOST = 4 };
  const uint32_t few = VKF_MIN(VKF_MAX(n / LEAST_TURNS, 1), MOST);
  uint32_t first = 0, end = n;
  qsort(spans, n, sizeof *spans, compare);
  for (bool longest = true; first < end; longest = !longest) {
    const uint32_t count = VKF_MIN(few, end - first);
    memcpy(dealt, spans + (longest ? first : end - count), count * sizeof *dealt);
    dealt += count;
    if (longest)
      first += count;
    else
      end -= count;
  }
}
