/* alignment: which source token each token of a translation attends to, as Marian and Moses write it. */
#ifndef VKFORMER_TOOLS_ALIGNMENT_H
#define VKFORMER_TOOLS_ALIGNMENT_H

#include "program.h"

typedef struct tool_alignment {
  const vkf_result *result; /* of one text that was translated with `alignments` */
  double threshold;         /* weights above it are links; 1: the largest of each token; 0: all weights */
  size_t best, n_best;      /* which translation, and of how many */
} tool_alignment;

/* Parses --alignment: "hard", "soft", or a number between 0 and 1. */
int tool_alignment_parse(const char *text, double *threshold);
/* Prints " 0-0 1-2", source first, in the order of the source; with threshold 0 " 0.9,0.1 0.2,0.8", the weights of each
 * token. Numbers tokens through all parts of a text. */
void tool_alignment_print(const tool_alignment *a, FILE *out);
/* Returns a list of [from, to, weight]. */
json_t *tool_alignment_json(const tool_alignment *a);

#endif
