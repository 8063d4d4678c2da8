/* nearest: finds the name that was probably meant by a mistyped one, or by one of another program. */
#include <string.h>

#include "program.h"

enum { MOST = 40 };

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Returns how many letters to insert, remove, replace or swap with the next one to turn a into b. */
static size_t distance(const char *a, const char *b) {
  size_t rows[3][MOST + 1], *before = rows[0], *last = rows[1], *now = rows[2];
  const size_t n = strlen(a), m = strlen(b);
  if (n > MOST || m > MOST) return MOST;
  for (size_t j = 0; j <= m; j++) last[j] = j;
  for (size_t i = 1; i <= n; i++) {
    now[0] = i;
    for (size_t j = 1; j <= m; j++) {
      now[j] = smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = smaller(now[j], before[j - 2] + 1);
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

/* Whether a and b differ only in the sign between words, '_' or '-'. */
static bool is_same_name(const char *a, const char *b) {
  for (; *a && (*a == *b || (*a == '_' && *b == '-')); a++) b++;
  return *a == *b;
}

/* Whether another program calls the option `name` by this word. */
static bool is_name_elsewhere(const char *word, const char *name) {
  static const char *const names[][2] = {
      {"beam-size", "num-beams"}, /* Marian, CTranslate2 */
      {"beams", "num-beams"},
      {"beam", "num-beams"}, /* fairseq */
      {"mini-batch", "batch-size"},
      {"max-batch-size", "batch-size"},
      {"max-length", "max-new-tokens"},
      {"max-decoding-length", "max-new-tokens"},
      {"n-predict", "max-new-tokens"}, /* llama.cpp */
      {"predict", "max-new-tokens"},
      {"min-length", "min-new-tokens"},
      {"min-decoding-length", "min-new-tokens"},
      {"num-hypotheses", "n-best"},
      {"num-hypotheses", "num-return-sequences"},
      {"nbest", "n-best"},
      {"lenpen", "length-penalty"},
      {"repeat-penalty", "repetition-penalty"},
      {"sampling", "do-sample"},
      {"output-sampling", "do-sample"},
      {"temp", "temperature"},
      {"sampling-temperature", "temperature"},
      {"sampling-topk", "top-k"},
      {"sampling-topp", "top-p"},
      {"target-prefix", "force-decode"},
      {"vmap", "shortlist"},
      {"src-lang", "source-lang"},
      {"tgt-lang", "target-lang"},
      {"model-dir", "model"},
      {"models", "model"},
      {"cache-type-k", "kv-cache"},
      {"compute-type", "weights"},
      {"torch-dtype", "weights"},
      {"inter-threads", "workers"},
      {"intra-threads", "driver-threads"},
      {"cpu-threads", "workers"},
      {"threads", "driver-threads"},
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (is_same_name(word, names[i][0]) && strcmp(name, names[i][1]) == 0) return true;
  return false;
}

void tool_nearest_try(tool_nearest *nearest, const char *name) {
  const size_t d = is_name_elsewhere(nearest->word, name) ? 0 : distance(nearest->word, name);
  if (d > nearest->distance || (nearest->name && d == nearest->distance)) return;
  nearest->distance = d;
  nearest->name = name;
}
