/* shortlist: see shortlist.h. */
#include "decode/shortlist.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
  int32_t source, target;
  float probability;
} pair;

typedef struct reader {
  vkf_env *env;
  const vkf_shortlist_input *in;
  pair *pairs;
  size_t n, capacity;
  size_t line, n_lines, n_unknown,
      first_unknown; /* lines: the current one; that have a pair; with an unknown token; the first of these */
  char unknown[64];
} reader;

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/* Copies the next field of a line that ends at `end`, "" if there is none, and returns where it ends. Cuts a field that
 * is too long, which is no token. */
static const char *next_field(const char *at, const char *end, char *field, size_t size) {
  while (at < end && is_space(*at)) at++;
  const char *begin = at;
  while (at < end && !is_space(*at)) at++;
  const size_t n = VKF_MIN((size_t)(at - begin), size - 1);
  memcpy(field, begin, n);
  field[n] = 0;
  return at;
}

static int32_t find(reader *r, const char *token, uint32_t n_ids, bool *is_known) {
  const int32_t id = r->in->find(r->in->user, token);
  if (id >= 0 && (uint32_t)id < n_ids) return id;
  if (*is_known && r->n_unknown++ == 0) {
    r->first_unknown = r->line;
    snprintf(r->unknown, sizeof r->unknown, "%.*s", (int)sizeof r->unknown - 1, token);
  }
  *is_known = false;
  return VKF_NO_TOKEN;
}

static vkf_status read_line(reader *r, const char *line, const char *end) {
  const char *at = line;
  char target[512], source[512], number[64], rest[8], *number_end;
  at = next_field(at, end, target, sizeof target);
  at = next_field(at, end, source, sizeof source);
  at = next_field(at, end, number, sizeof number);
  next_field(at, end, rest, sizeof rest);
  if (!target[0]) return VKF_OK; /* an empty line */
  const double probability = strtod(number, &number_end);
  if (!number[0] || *number_end || rest[0] || !(probability >= 0) || isinf(probability)) {
    while (line < end && is_space(end[-1])) end--;
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT,
                        "%s, line %zu: expected \"target source probability\" with spaces between them, found \"%.*s\"",
                        r->in->name, r->line, (int)VKF_MIN(end - line, 60), line);
  }
  r->n_lines++;
  if (strcmp(target, "NULL") == 0 || strcmp(source, "NULL") == 0) return VKF_OK; /* a word without a translation */
  bool is_known = true;
  const pair p = {find(r, source, r->in->n_sources, &is_known), find(r, target, r->in->n_targets, &is_known),
                  (float)probability};
  if (!is_known || probability == 0) return VKF_OK; /* Marian, too, leaves out probabilities of 0 */
  pair *grown = vkf_env_grow(r->env, r->pairs, &r->capacity, r->n + 1, sizeof *grown);
  if (!grown) return VKF_ERROR_MEMORY;
  r->pairs = grown;
  r->pairs[r->n++] = p;
  return VKF_OK;
}

static vkf_status read_lines(reader *r) {
  const char *at = r->in->text, *end = at + r->in->size;
  while (at < end) {
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    if (!line_end) line_end = end;
    r->line++;
    VKF_CALL(read_line(r, at, line_end));
    at = line_end + 1;
  }
  if (r->n == 0)
    return vkf_env_fail(r->env, VKF_ERROR_FORMAT,
                        "%s: expected lines \"target source probability\" with tokens of the model's vocabulary, found "
                        "none among %zu lines%s%s%s",
                        r->in->name, r->line, r->n_unknown ? "; no token: \"" : "", r->unknown,
                        r->n_unknown ? "\"" : "");
  if (r->n_unknown)
    vkf_env_log(
        r->env, VKF_LOG_WARNING,
        "%s: %zu of %zu lines name tokens that the model's vocabulary does not have and are left out; the first "
        "is line %zu, \"%s\"",
        r->in->name, r->n_unknown, r->n_lines, r->first_unknown, r->unknown);
  return VKF_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* By source, the most probable target first; ties by the higher target, as in Marian. */
static int compare_pairs(const void *a, const void *b) {
  const pair *x = a, *y = b;
  if (x->source != y->source) return x->source < y->source ? -1 : 1;
  if (x->probability != y->probability) return x->probability > y->probability ? -1 : 1;
  return x->target > y->target ? -1 : x->target < y->target;
}

static vkf_status keep_best(vkf_shortlist *list, reader *r) {
  qsort(r->pairs, r->n, sizeof *r->pairs, compare_pairs);
  list->offsets = vkf_env_alloc(list->env, (size_t)list->n_sources + 1, sizeof *list->offsets);
  list->targets = vkf_env_alloc(list->env, r->n, sizeof *list->targets);
  if (!list->offsets || !list->targets) return VKF_ERROR_MEMORY;
  uint32_t n = 0;
  for (size_t i = 0, of_source = 0; i < r->n; i++) {
    const pair *p = &r->pairs[i];
    of_source = i > 0 && p->source == r->pairs[i - 1].source ? of_source + 1 : 0;
    if (of_source >= r->in->n_best) continue;
    list->targets[n++] = p->target;
    list->offsets[p->source + 1] = n;
  }
  for (uint32_t s = 0; s < list->n_sources; s++) list->offsets[s + 1] = VKF_MAX(list->offsets[s + 1], list->offsets[s]);
  return VKF_OK;
}

vkf_status vkf_decode_shortlist_init(vkf_shortlist *list, vkf_env *env, const vkf_shortlist_input *in) {
  vkf_status st = VKF_OK;
  reader r = {.env = env, .in = in};
  *list = (vkf_shortlist){.env = env,
                          .n_sources = in->n_sources,
                          .n_targets = in->n_targets,
                          .n_first = VKF_MIN(in->n_first, in->n_targets),
                          .is_shared = in->is_shared};
  memcpy(list->special, in->special, sizeof list->special);
  VKF_TRY(read_lines(&r));
  VKF_TRY(keep_best(list, &r));
done:
  vkf_env_free(env, r.pairs);
  return st;
}

void vkf_decode_shortlist_finish(vkf_shortlist *list) {
  if (!list->env) return;
  vkf_env_free(list->env, list->offsets);
  vkf_env_free(list->env, list->targets);
  list->offsets = NULL;
  list->targets = NULL;
}

void vkf_decode_shortlist_allow(const vkf_shortlist *list, const int32_t *source, const int32_t *mask, uint32_t n,
                                uint64_t *allowed) {
  for (uint32_t id = 0; id < list->n_first; id++) vkf_id_set_add(allowed, (int32_t)id);
  for (size_t i = 0; i < VKF_SHORTLIST_SPECIAL; i++)
    if (list->special[i] >= 0 && (uint32_t)list->special[i] < list->n_targets)
      vkf_id_set_add(allowed, list->special[i]);
  for (uint32_t i = 0; i < n; i++) {
    if (mask && !mask[i]) continue;
    if (list->is_shared && (uint32_t)source[i] < list->n_targets) vkf_id_set_add(allowed, source[i]);
    for (uint32_t t = list->offsets[source[i]]; t < list->offsets[source[i] + 1]; t++)
      vkf_id_set_add(allowed, list->targets[t]);
  }
}
