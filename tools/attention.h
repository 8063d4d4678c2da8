/* attention: which token attends to which, as a page, a picture or a list. `attention`, `layers` and `translate
 * --attention` share this. The weights are those of vkf_session_run(); the program only adds them up.
 */
#ifndef VKFORMER_TOOLS_ATTENTION_H
#define VKFORMER_TOOLS_ATTENTION_H

#include "program.h"

/* The tokens of a text as people read them. */
typedef struct tool_tokens {
  char **at;
  bool *special; /* such as </s> */
  size_t n;
} tool_tokens;

/* A text or an image that was run. Zero but for `how` at first. */
typedef struct tool_attended {
  const char *text, *translation;   /* the caller's; translation NULL: none */
  tool_tokens source, target, next; /* next: the token that each position of the target produces */
  size_t patch_rows, patch_columns; /* of an image; 0: it is a text */
  vkf_run_params how;               /* set by the caller: the outputs of the pass */
  vkf_result *pixels, *pass;
} tool_attended;

/* The attention of one layer: weights [heads][rows][columns]. */
typedef struct tool_attention_map {
  const char *kind; /* "encoder", "decoder", "cross", or "self" of a model with one stack */
  size_t layer, n_heads;
  const float *weights;
  const tool_tokens *rows, *columns;
} tool_attention_map;

#define TOOL_MAX_MAPS 512

/* Converts ids to tokens. TOOL_FAILED after a message. Finish `out` either way. */
int tool_tokens_of_ids(tool_session *session, const int32_t *ids, size_t n, tool_tokens *out);
void tool_tokens_finish(tool_tokens *tokens);

/* Runs a command on one text: opens the model (the first operand), runs the text (the next one) or --image, and calls
 * `report`. Returns the command's exit code. */
int tool_attend(const tool_args *args, vkf_run_params how,
                int (*report)(tool_session *session, const tool_args *args, const tool_attended *a));
/* Runs a text with its translation: ids [n] with the start token. */
int tool_attend_translation(tool_session *session, const tool_args *args, const char *text, const char *translation,
                            const int32_t *ids, size_t n, tool_attended *out);
void tool_attended_finish(tool_attended *a);

/* The maps, with their heads, that --kind, --layer and --head choose. tool_attention_choose() returns how many; 0 after
 * a message. */
typedef struct tool_attention_maps {
  tool_attention_map at[TOOL_MAX_MAPS];
  size_t n, n_heads; /* n_heads: of all maps */
} tool_attention_maps;
int tool_attention_choose(const tool_attended *a, const tool_args *args, tool_attention_maps *out);
/* Whether --kind names a kind that exists. */
bool tool_attention_is_kind(const char *name);
bool tool_attention_has_head(const tool_args *args, size_t head);

/* Scales a head down to [n_rows][n_columns], at most its own size: adds the weights of columns that fall together and
 * averages those of rows, so that a row still adds up to 1. To free(); NULL after a message. */
float *tool_attention_sample(const tool_attention_map *map, size_t head, size_t n_rows, size_t n_columns);

/* Gets how the weights of a map are computed. TOOL_FAILED after a message. */
int tool_attention_rule(const tool_session *session, const tool_attention_map *map, vkf_attention_info *out);
/* Returns the scores q.k [rows][columns] of a head of a pass with projections, before scale, bias and mask. To free();
 * NULL after a message. */
float *tool_attention_scores(const tool_attended *a, const tool_attention_map *map, size_t head,
                             const vkf_attention_info *rule);
/* Returns the bias [rows][columns] that is added to the scores of a head of such a pass; the rule must have one. NULL
 * after a message. */
const float *tool_attention_bias(const tool_attended *a, const tool_attention_map *map, size_t head);

/* Tokens [first, first + n) of a word; n 0: it is not there. A word that is a whole number is a position. */
typedef struct tool_span {
  size_t first, n;
} tool_span;
tool_span tool_find_word(const tool_tokens *tokens, const char *word);
/* Returns the attention of `from` to `to`: the mean over the tokens of `from` of the sum over those of `to`. */
double tool_attention_weight(const tool_attention_map *map, size_t head, tool_span from, tool_span to);

/* Returns the data of a text for a page (attention_page.c); NULL after a message. */
json_t *tool_attention_document(const tool_session *session, const tool_args *args, const tool_attended *a);
/* Write the pictures of a text (attention_svg.c). */
int tool_attention_write_svg(const tool_args *args, const tool_attended *a, const char *path);
int tool_attention_write_png(const tool_args *args, const tool_attended *a, const char *path);

#endif
