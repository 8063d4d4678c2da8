/* translation: parses the input lines of `vkformer translate` and formats its output lines. */
#ifndef VKFORMER_TOOLS_TRANSLATION_H
#define VKFORMER_TOOLS_TRANSLATION_H

#include "window.h"

/* The formats of input and output lines. */
typedef struct tool_translation {
  const tool_args *args;
  size_t n_best;   /* translations of a line */
  bool is_list;    /* write them as a list, even a single one */
  json_t *end_ids; /* the value of eos_token_id: an id or a list of ids; NULL: none */
  int pad_id;
  double threshold; /* --alignment, see alignment.h */
} tool_translation;

/* Reads the keys that decide how results are read: num_return_sequences, eos_token_id and pad_token_id, of the JSON
 * text `config`, else of the model's folder. */
void tool_translation_read_config(tool_translation *t, const char *config, const char *folder);
void tool_translation_finish(tool_translation *t);

/* Finds the line's text and target prefix: e->text and e->prefix, or e->skipped. */
int tool_translation_prepare(const tool_translation *t, tool_entry *e);
/* Formats the line e->out. result NULL: the line was not translated. */
int tool_translation_render(const tool_translation *t, tool_entry *e, const vkf_result *result);

/* Whether there is a translation of rank `best`: a search may find fewer than were asked for. */
bool tool_translation_is_there(const tool_translation *t, const vkf_result *result, size_t best);

/* Returns the number of ids of a row of `sequences`, up to and with the end id, without the start token and pads. */
size_t tool_translation_length(const tool_translation *t, const vkf_array *sequences, size_t row);
/* Returns the number of ids of the first row with the start token, at least 2. */
size_t tool_translation_row(const tool_translation *t, const vkf_array *sequences);

#endif
