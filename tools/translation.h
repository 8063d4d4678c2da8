/* translation: what a line of input asks of `vkformer translate`, and the line that is written for it. */
#ifndef VKFORMER_TOOLS_TRANSLATION_H
#define VKFORMER_TOOLS_TRANSLATION_H

#include "window.h"

enum { TOOL_MAX_END_IDS = 8 };

/* The forms of lines in and out. */
typedef struct tool_translation {
  const tool_args *args;
  size_t n_best; /* translations of a line */
  bool is_list;  /* they are written as a list, also a list of one */
  int end_ids[TOOL_MAX_END_IDS];
  size_t n_end_ids;
  int pad_id;
  double threshold; /* --alignment, see alignment.h */
} tool_translation;

/* What the results are read by: num_return_sequences, eos_token_id and pad_token_id, of the JSON text `config` or else
 * of the model's folder. */
void tool_translation_read_config(tool_translation *t, const char *config, const char *folder);

/* The line's text and beginning: e->text and e->prefix, or e->skipped. */
int tool_translation_prepare(const tool_translation *t, tool_entry *e);
/* The line e->out. result NULL: the line was not worked on. */
int tool_translation_render(const tool_translation *t, tool_entry *e, const vkf_result *result);

/* Whether there is a translation of rank `best`: beams may find fewer than are asked for. */
bool tool_translation_is_there(const tool_translation *t, const vkf_result *result, size_t best);

/* The ids of a row of `sequences` without the start token, up to and with the id that ends it, without pads. */
size_t tool_translation_length(const tool_translation *t, const vkf_array *sequences, size_t row);
/* Those of the first row with the start token, at least one behind it. */
size_t tool_translation_row(const tool_translation *t, const vkf_array *sequences);

#endif
