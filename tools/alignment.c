/* alignment: see alignment.h. */
#include "alignment.h"

#include <stdlib.h>
#include <string.h>

int tool_alignment_parse(const char *text, double *threshold) {
  char *end = NULL;
  *threshold = 1;
  if (strcmp(text, "hard") == 0) return TOOL_OK;
  *threshold = 0;
  if (strcmp(text, "soft") == 0) return TOOL_OK;
  *threshold = strtod(text, &end);
  if (*end || !(*threshold > 0 && *threshold < 1))
    return tool_usage_error("translate", "--alignment: expected hard, soft or a number between 0 and 1, found '%s'",
                            text);
  return TOOL_OK;
}

/* A row: a translation of a part. */
typedef struct part {
  const float *weights; /* [n][stride], without the start token */
  size_t n, n_source, stride;
} part;

/* Finds the rows of a part that belong to tokens: only they have weights; the fill after them has none. */
static part part_of(const tool_alignment *a, const vkf_array *all, size_t row) {
  const size_t length = all->shape[1], stride = all->shape[2];
  part p = {.weights = (const float *)all->data + (row * length + 1) * stride,
            .n_source = (size_t)vkf_result_i32(a->result, "n_sources", NULL)[row],
            .stride = stride};
  for (size_t i = 1, s; i < length; i++, p.n++) {
    for (s = 0; s < stride && p.weights[p.n * stride + s] == 0;) s++;
    if (s == stride) break;
  }
  return p;
}

static bool is_link(const tool_alignment *a, const part *p, size_t from, size_t to) {
  const float *weights = p->weights + to * p->stride;
  if (a->threshold < 1) return weights[from] > a->threshold;
  for (size_t s = 0; s < p->n_source; s++) /* the first one wins a tie */
    if (s < from ? weights[s] >= weights[from] : weights[s] > weights[from]) return false;
  return true;
}

typedef void (*link_fn)(void *user, size_t from, size_t to, float weight);

static void each_link(const tool_alignment *a, link_fn call, void *user) {
  const vkf_array *all = vkf_result_find(a->result, "alignments");
  size_t from = 0, to = 0;
  for (size_t row = a->best; all && row < all->shape[0]; row += a->n_best) {
    const part p = part_of(a, all, row);
    for (size_t s = 0; s < p.n_source; s++)
      for (size_t i = 0; i < p.n; i++)
        if (is_link(a, &p, s, i)) call(user, from + s, to + i, p.weights[i * p.stride + s]);
    from += p.n_source;
    to += p.n;
  }
}

static void print_link(void *file, size_t from, size_t to, float weight) {
  (void)weight;
  fprintf(file, " %zu-%zu", from, to);
}

void tool_alignment_print(const tool_alignment *a, FILE *out) {
  const vkf_array *all = vkf_result_find(a->result, "alignments");
  if (a->threshold > 0) each_link(a, print_link, out);
  for (size_t row = a->best; a->threshold == 0 && all && row < all->shape[0]; row += a->n_best) {
    const part p = part_of(a, all, row);
    for (size_t i = 0; i < p.n; i++)
      for (size_t s = 0; s < p.n_source; s++)
        fprintf(out, "%c%.6g", s ? ',' : ' ', (double)p.weights[i * p.stride + s]);
  }
}

static void add_link(void *list, size_t from, size_t to, float weight) {
  json_array_append_new(list, json_pack("[i, i, o]", (int)from, (int)to, tool_json_float(weight)));
}

json_t *tool_alignment_json(const tool_alignment *a) {
  json_t *list = json_array();
  each_link(a, add_link, list);
  return list;
}
