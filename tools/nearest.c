/* nearest: the name that a mistyped one was probably meant to be. */
#include <string.h>

#include "program.h"

enum { MOST = 40 };

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* How many letters to insert, remove, replace or swap with the next one to make b of a. */
static size_t distance(const char *a, const char *b) {
  size_t rows[3][MOST + 1], *before = rows[0], *last = rows[1], *now = rows[2];
  const size_t n = strlen(a), m = strlen(b);
  if (n > MOST || m > MOST) return MOST;
  for (size_t j = 0; j <= m; j++) last[j] = j;
  for (size_t i = 1; i <= n; i++) {
    now[0] = i;
    for (size_t j = 1; j <= m; j++) {
      now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = least(now[j], before[j - 2] + 1);
    }
    size_t *free_row = before;
    before = last;
    last = now;
    now = free_row;
  }
  return last[m];
}

void tool_nearest_begin(tool_nearest *nearest, const char *word) {
  *nearest = (tool_nearest){.word = word, .distance = strlen(word) < 6 ? 1 : strlen(word) / 3};
}

void tool_nearest_try(tool_nearest *nearest, const char *name) {
  const size_t d = distance(nearest->word, name);
  if (d > nearest->distance || (nearest->name && d == nearest->distance)) return;
  nearest->distance = d;
  nearest->name = name;
}
