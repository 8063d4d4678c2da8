/* alignment: which token of a text each token of its translation looks at, as Marian and Moses write it. */
#ifndef VKFORMER_TOOLS_ALIGNMENT_H
#define VKFORMER_TOOLS_ALIGNMENT_H

#include "program.h"

typedef struct tool_alignment {
  const vkf_result *result; /* of one text that was translated with `alignments` */
  double threshold;         /* each weight above it is a link; 1: the largest of each token; 0: all weights */
  size_t best, n_best;      /* which translation, and of how many */
} tool_alignment;

/* --alignment: "hard", "soft", or a number between 0 and 1. */
int tool_alignment_parse(const char *text, double *threshold);
/* " 0-0 1-2", source first, in the order of the source; with threshold 0 " 0.9,0.1 0.2,0.8", the weights of each token.
 * Tokens of all parts of a text are counted on. */
void tool_alignment_print(const tool_alignment *a, FILE *out);
/* A list of [from, to, weight]. */
json_t *tool_alignment_json(const tool_alignment *a);

#endif
