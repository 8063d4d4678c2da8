/* evaluate_counts: counts and scores: see evaluate.h. Counts n-grams in sorted lists of the places where they begin. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "task/evaluate.h"

/* Where n-grams begin, and how many elements follow from there, at most VKF_CHRF_ORDER. */
typedef struct place {
  const int32_t *at;
  size_t left;
} place;

/* The words or characters of a text as numbers. */
typedef struct vkf_sequence {
  int32_t *ids;  /* [n] */
  place *places; /* [n], sorted */
  size_t n, ids_capacity, places_capacity;
  int32_t *spare; /* scratch of tokenization */
  size_t spare_capacity;
} vkf_sequence;

typedef struct vkf_word {
  const int32_t *characters; /* [n]; NULL: an empty slot of the table */
  size_t n;
  int32_t id;
} vkf_word;

/* ---- scores ------------------------------------------------------------------------------------------------------ */

vkf_bleu vkf_task_bleu(const vkf_bleu_counts *c) {
  vkf_bleu b = {.penalty = 1};
  double smooth = 1, sum = 0;
  bool matches = false;
  if (c->length < c->reference_length) b.penalty = c->length > 0 ? exp(1 - c->reference_length / c->length) : 0;
  for (int n = 0; n < VKF_BLEU_ORDER; n++) matches |= c->match[n] > 0;
  for (int n = 0; n < VKF_BLEU_ORDER && matches; n++) {
    if (c->total[n] > 0) /* without a match: 1/2 of one, then 1/4, ... */
      b.precisions[n] = c->match[n] > 0 ? 100 * c->match[n] / c->total[n] : 100 / ((smooth *= 2) * c->total[n]);
    sum += b.precisions[n] > 0 ? log(b.precisions[n]) : -9999999999.0;
  }
  b.score = matches ? b.penalty * exp(sum / VKF_BLEU_ORDER) : 0;
  return b;
}

double vkf_task_chrf(const vkf_chrf_counts *c) {
  const double factor = 4; /* weight of recall: beta 2, squared */
  double precision = 0, recall = 0;
  int order = 0;
  for (int n = 0; n < VKF_CHRF_ORDER; n++) {
    if (!(c->of[n].hypothesis > 0 && c->of[n].reference > 0)) continue;
    precision += c->of[n].match / c->of[n].hypothesis;
    recall += c->of[n].match / c->of[n].reference;
    order++;
  }
  if (!(precision + recall > 0)) return 0;
  precision /= order;
  recall /= order;
  return 100 * (1 + factor) * precision * recall / (factor * precision + recall);
}

/* ---- an evaluator ------------------------------------------------------------------------------------------------ */

vkf_status vkf_task_evaluator_init(vkf_evaluator *e, vkf_env *env, size_t n_references) {
  *e = (vkf_evaluator){.env = env, .n = n_references + 1};
  vkf_arena_init(&e->arena, env);
  e->sequences = vkf_env_alloc(env, e->n, sizeof *e->sequences);
  return e->sequences ? VKF_OK : VKF_ERROR_MEMORY;
}

void vkf_task_evaluator_finish(vkf_evaluator *e) {
  for (size_t i = 0; e->sequences && i < e->n; i++) {
    vkf_env_free(e->env, e->sequences[i].ids);
    vkf_env_free(e->env, e->sequences[i].places);
    vkf_env_free(e->env, e->sequences[i].spare);
  }
  vkf_env_free(e->env, e->sequences);
  vkf_env_free(e->env, e->words);
  vkf_arena_finish(&e->arena);
}

/* ---- n-grams ----------------------------------------------------------------------------------------------------- */

static int compare(const place *a, const place *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (a->at[i] != b->at[i]) return a->at[i] < b->at[i] ? -1 : 1;
  return 0;
}

static int by_elements(const void *a, const void *b) {
  const place *x = a, *y = b;
  const int order = compare(x, y, VKF_MIN(x->left, y->left));
  return order ? order : x->left < y->left ? -1 : x->left > y->left;
}

static vkf_status sort(vkf_env *env, vkf_sequence *s) {
  place *places = vkf_env_grow(env, s->places, &s->places_capacity, s->n + 1, sizeof *places);
  if (!places) return VKF_ERROR_MEMORY;
  s->places = places;
  for (size_t i = 0; i < s->n; i++) places[i] = (place){s->ids + i, VKF_MIN(s->n - i, (size_t)VKF_CHRF_ORDER)};
  qsort(places, s->n, sizeof *places, by_elements);
  return VKF_OK;
}

/* Returns the first place of the next group of equal n-grams from *at on, or NULL. Sets *at to the group's end. */
static const place *next_group(const vkf_sequence *s, size_t n, size_t *at, size_t *count) {
  while (*at < s->n && s->places[*at].left < n) ++*at;
  if (*at == s->n) return NULL;
  const place *first = &s->places[*at];
  for (*count = 0; *at < s->n; ++*at) {
    const place *p = &s->places[*at];
    if (p->left < n) continue;
    if (compare(first, p, n) != 0) break;
    ++*count;
  }
  return first;
}

/* Counts n-grams of s that others [n_others] have, each at most as often as the one that has it most often. */
static double matches(const vkf_sequence *s, const vkf_sequence *others, size_t n_others, size_t n) {
  double sum = 0;
  size_t count = 0;
  const place *p;
  for (size_t at = 0; (p = next_group(s, n, &at, &count)) != NULL;) {
    size_t most = 0;
    for (size_t o = 0; o < n_others; o++) {
      size_t low = 0, high = others[o].n, found = 0; /* the first place that is not before p */
      while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const place *q = &others[o].places[middle];
        const int order = compare(q, p, VKF_MIN(q->left, n));
        if (order < 0 || (order == 0 && q->left < n))
          low = middle + 1;
        else
          high = middle;
      }
      const place *q = next_group(&others[o], n, &low, &found);
      if (q && compare(q, p, n) == 0) most = VKF_MAX(most, found);
    }
    sum += (double)VKF_MIN(count, most);
  }
  return sum;
}

static double n_grams(const vkf_sequence *s, size_t n) {
  return s->n >= n ? (double)(s->n - n + 1) : 0;
}

/* ---- texts as numbers -------------------------------------------------------------------------------------------- */

/* White space as in Python's str.split(). */
static bool is_space(int32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static vkf_status reserve(vkf_env *env, vkf_sequence *s, size_t n) {
  int32_t *ids = vkf_env_grow(env, s->ids, &s->ids_capacity, n, sizeof *ids);
  if (!ids) return VKF_ERROR_MEMORY;
  s->ids = ids;
  int32_t *spare = vkf_env_grow(env, s->spare, &s->spare_capacity, n, sizeof *spare);
  if (!spare) return VKF_ERROR_MEMORY;
  s->spare = spare;
  return VKF_OK;
}

/* Reads the characters of a text, with room for spaces around each in every rule of apply(). */
static vkf_status read_text(vkf_env *env, vkf_sequence *s, const char *text) {
  const size_t size = strlen(text);
  utf8proc_int32_t c = 0;
  s->n = 0;
  VKF_CALL(reserve(env, s, 9 * size + 16));
  for (size_t at = 0; at < size;) {
    const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(size - at), &c);
    if (n <= 0)
      return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "expected UTF-8, found the byte 0x%02x after %zu bytes",
                          (unsigned)(unsigned char)text[at], at);
    s->ids[s->n++] = c;
    at += (size_t)n;
  }
  return VKF_OK;
}

/* Replaces each `what` by the character `by`; removes it if that is 0. */
static void replace(vkf_sequence *s, const char *what, int32_t by) {
  const size_t n = strlen(what);
  size_t to = 0;
  for (size_t i = 0; i < s->n;) {
    size_t same = 0;
    while (same < n && i + same < s->n && s->ids[i + same] == what[same]) same++;
    if (same == n) {
      if (by) s->ids[to++] = by;
      i += n;
    } else {
      s->ids[to++] = s->ids[i++];
    }
  }
  s->n = to;
}

static bool is_digit(int32_t c) {
  return c >= '0' && c <= '9';
}
static bool is_point(int32_t c) {
  return c == '.' || c == ',';
}
static bool is_symbol(int32_t c) { /* neither ' nor , - . */
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

/* Applies rule 1 to 4 of mteval's tokenizer to the text. Rules 2 to 4 match two characters. */
static void apply(vkf_sequence *s, int rule) {
  size_t to = 0;
  int32_t *out = s->spare;
  for (size_t i = 0; i < s->n; i++) {
    const int32_t c = s->ids[i], d = i + 1 < s->n ? s->ids[i + 1] : -1;
    const bool pair =
        i + 1 < s->n && ((rule == 2 && !is_digit(c) && is_point(d)) || (rule == 3 && is_point(c) && !is_digit(d)) ||
                         (rule == 4 && is_digit(c) && d == '-'));
    const bool one = rule == 1 && is_symbol(c);
    if (one || (pair && rule == 3)) out[to++] = ' ';
    out[to++] = c;
    if (one || pair) out[to++] = ' ';
    if (!pair) continue;
    out[to++] = d;
    if (rule != 3) out[to++] = ' ';
    i++;
  }
  s->spare = s->ids;
  s->ids = out;
  const size_t capacity = s->ids_capacity;
  s->ids_capacity = s->spare_capacity;
  s->spare_capacity = capacity;
  s->n = to;
}

static uint64_t hash_of(const int32_t *characters, size_t n) {
  uint64_t hash = VKF_HASH_START;
  for (size_t i = 0; i < n; i++) hash = vkf_hash_step(hash, (uint32_t)characters[i]);
  return hash ^ hash >> 32;
}

static vkf_word *find(vkf_word *words, size_t capacity, const int32_t *characters, size_t n) {
  for (size_t i = hash_of(characters, n);; i++) {
    vkf_word *w = &words[i % capacity];
    if (!w->characters || (w->n == n && memcmp(w->characters, characters, n * sizeof *characters) == 0)) return w;
  }
}

static vkf_status id_of(vkf_evaluator *e, const int32_t *characters, size_t n, int32_t *id) {
  if (2 * (e->n_words + 1) > e->capacity) {
    const size_t capacity = 2 * e->capacity + 1024;
    vkf_word *words = vkf_env_alloc(e->env, capacity, sizeof *words);
    if (!words) return VKF_ERROR_MEMORY;
    for (size_t i = 0; i < e->capacity; i++)
      if (e->words[i].characters) *find(words, capacity, e->words[i].characters, e->words[i].n) = e->words[i];
    vkf_env_free(e->env, e->words);
    e->words = words;
    e->capacity = capacity;
  }
  vkf_word *w = find(e->words, e->capacity, characters, n);
  if (!w->characters) {
    int32_t *copy = vkf_arena_alloc(&e->arena, n, sizeof *copy);
    if (!copy) return VKF_ERROR_MEMORY;
    memcpy(copy, characters, n * sizeof *copy);
    *w = (vkf_word){copy, n, (int32_t)e->n_words++};
  }
  *id = w->id;
  return VKF_OK;
}

/* Splits a text into words as mteval-v13a's tokenizer ("13a") does. */
static vkf_status read_words(vkf_evaluator *e, vkf_sequence *s, const char *text) {
  static const struct {
    const char *what;
    int32_t by;
  } entities[] = {{"<skipped>", 0}, {"&quot;", '"'}, {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}};
  VKF_CALL(read_text(e->env, s, text));
  for (size_t i = 0; i < VKF_COUNT(entities); i++) replace(s, entities[i].what, entities[i].by);
  while (s->n > 0 && is_space(s->ids[s->n - 1])) s->n--;
  memmove(s->ids + 1, s->ids, s->n * sizeof *s->ids);
  s->ids[0] = s->ids[s->n + 1] = ' ';
  s->n += 2;
  for (int rule = 1; rule <= 4; rule++) apply(s, rule);
  size_t n = 0;
  for (size_t i = 0; i < s->n;) {
    size_t end = i;
    while (end < s->n && !is_space(s->ids[end])) end++;
    if (end > i) VKF_CALL(id_of(e, s->ids + i, end - i, &s->ids[n++]));
    i = end + 1;
  }
  s->n = n;
  return sort(e->env, s);
}

static vkf_status read_characters(vkf_evaluator *e, vkf_sequence *s, const char *text) {
  VKF_CALL(read_text(e->env, s, text));
  size_t n = 0;
  for (size_t i = 0; i < s->n; i++)
    if (!is_space(s->ids[i])) s->ids[n++] = s->ids[i];
  s->n = n;
  return sort(e->env, s);
}

/* ---- one sentence ------------------------------------------------------------------------------------------------ */

static void count_bleu(const vkf_evaluator *e, vkf_bleu_counts *out) {
  const vkf_sequence *hypothesis = &e->sequences[0], *references = hypothesis + 1;
  size_t nearest = references[0].n;
  for (size_t r = 1; r + 1 < e->n; r++) {
    const size_t n = references[r].n, other = n > hypothesis->n ? n - hypothesis->n : hypothesis->n - n,
                 now = nearest > hypothesis->n ? nearest - hypothesis->n : hypothesis->n - nearest;
    if (other < now || (other == now && n < nearest)) nearest = n;
  }
  out->length = (double)hypothesis->n;
  out->reference_length = (double)nearest;
  for (size_t n = 1; n <= VKF_BLEU_ORDER; n++) {
    out->total[n - 1] = n_grams(hypothesis, n);
    out->match[n - 1] = matches(hypothesis, references, e->n - 1, n);
  }
}

/* Takes the counts with the reference that gives the best score. */
static void count_chrf(const vkf_evaluator *e, vkf_chrf_counts *out) {
  const vkf_sequence *hypothesis = &e->sequences[0];
  double best = -1;
  for (size_t r = 1; r < e->n; r++) {
    vkf_chrf_counts c = {0};
    for (size_t n = 1; n <= VKF_CHRF_ORDER; n++) {
      c.of[n - 1].reference = n_grams(&e->sequences[r], n);
      c.of[n - 1].hypothesis = c.of[n - 1].reference > 0 ? n_grams(hypothesis, n) : 0;
      c.of[n - 1].match = matches(hypothesis, &e->sequences[r], 1, n);
    }
    const double score = vkf_task_chrf(&c);
    if (score > best) *out = c;
    best = VKF_MAX(best, score);
  }
}

vkf_status vkf_task_evaluator_count(vkf_evaluator *e, const char *const *texts, vkf_bleu_counts *bleu,
                                    vkf_chrf_counts *chrf) {
  for (size_t i = 0; i < e->n; i++) VKF_CALL(read_words(e, &e->sequences[i], texts[i]));
  count_bleu(e, bleu);
  for (size_t i = 0; i < e->n; i++) VKF_CALL(read_characters(e, &e->sequences[i], texts[i]));
  count_chrf(e, chrf);
  return VKF_OK;
}
