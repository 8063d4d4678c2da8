/* beam_tree: draws the beam search of one text: which hypotheses each step kept, ended and dropped. */
#ifndef VKFORMER_TOOLS_BEAM_TREE_H
#define VKFORMER_TOOLS_BEAM_TREE_H

#include "program.h"

typedef struct tool_beam_node tool_beam_node;
typedef struct tool_beam_tree {
  tool_beam_node *nodes; /* [n] */
  size_t n, capacity;
  size_t *steps; /* [n_searches] */
  size_t n_searches;
  int32_t *ids; /* [n_ids]: of the translation, from its start token on */
  size_t n_ids;
} tool_beam_tree;

/* Checks the options beside --beam-tree; TOOL_USAGE after a message. */
int tool_beam_tree_check(const tool_args *args);
/* Adds the candidates of a step, as a vkf_beams_fn; user: a tool_beam_tree, zero at first. */
int tool_beam_tree_add(void *user, size_t row, size_t search, const vkf_beam_candidate *candidates, size_t n);
/* Copies the ids of the translation from the text's result. */
int tool_beam_tree_end(tool_beam_tree *tree, const vkf_result *result);
/* Writes args->beam_tree (path NULL: writes nothing), and finishes the tree. */
int tool_beam_tree_write(tool_beam_tree *tree, tool_session *session, const char *path);

#endif
