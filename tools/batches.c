/* batches: see batches.h. */
#include "batches.h"

#include <stdlib.h>
#include <string.h>

/* A text, in the order of batches. */
typedef struct tool_batch_text {
  const char *text;
  size_t length, index; /* in bytes; among the texts of the call */
} tool_batch_text;

/* The longest first; ties keep their order. */
static int by_length(const void *a, const void *b) {
  const tool_batch_text *x = a, *y = b;
  if (x->length != y->length) return x->length < y->length ? 1 : -1;
  return x->index < y->index ? -1 : 1;
}

void tool_batches_finish(tool_batches *b) {
  for (size_t i = 0; i < b->n_results; i++) vkf_result_destroy(&b->results[i]);
  free(b->results);
  free(b->found);
  free(b->sorted);
  b->results = NULL;
  b->found = NULL;
  b->sorted = NULL;
  b->n = b->n_results = 0;
}

/* Runs on any thread: changes only its own result. */
static vkf_status run_batch(void *user, vkf_session *session, size_t i) {
  tool_batches *b = user;
  const size_t first = i * b->each, n = b->n - first < b->each ? b->n - first : b->each;
  const char **texts = malloc(n * sizeof *texts);
  for (size_t j = 0; texts && j < n; j++) texts[j] = b->sorted[first + j].text;
  const vkf_status status = texts ? b->run(b->user, session, texts, n, &b->results[i]) : VKF_ERROR_MEMORY;
  free(texts);
  return status;
}

vkf_status tool_batches_run(tool_batches *b, tool_crew *crew, const char *const *texts, size_t n) {
  tool_batches_finish(b);
  size_t n_batches = b->size ? (n + b->size - 1) / b->size : 1;
  if (n_batches > 1) n_batches = (n_batches + crew->most - 1) / crew->most * crew->most; /* as much for each worker */
  b->each = (n + n_batches - 1) / n_batches;
  b->sorted = calloc(n, sizeof *b->sorted);
  b->found = calloc(n, sizeof *b->found);
  b->results = calloc(n, sizeof *b->results);
  if (!b->sorted || !b->found || !b->results) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; i++)
    b->sorted[i] = (tool_batch_text){.text = texts[i], .length = b->keeps_order ? 0 : strlen(texts[i]), .index = i};
  qsort(b->sorted, n, sizeof *b->sorted, by_length);
  for (size_t i = 0; i < n; i++) b->found[b->sorted[i].index] = i;
  b->n = n;
  b->n_results = (n + b->each - 1) / b->each;
  return tool_crew_run(crew, b->n_results, run_batch, b);
}

const vkf_result *tool_batches_find(const tool_batches *b, size_t i, size_t *row) {
  if (i >= b->n) return NULL; /* the call had no memory */
  const size_t at = b->found[i];
  *row = at % b->each;
  return b->results[at / b->each];
}
