/* parts: texts as token ids that fit a model.
 *
 * A text is one part, or several where it is too long and is split. Owns the ids, and why a text was refused.
 * Invariant: the parts are in the order of the texts, the parts of one text in their order.
 */
#ifndef VKF_TASK_PARTS_H
#define VKF_TASK_PARTS_H

#include "engine/opened.h"

typedef struct vkf_part {
  size_t text;          /* its index */
  int32_t *ids, *types; /* [n]; types of a pair, else NULL */
  uint32_t n;
  bool spaced;       /* white space was before it in the text */
  bool is_cut;       /* the text is too long: this is not all of it */
  const char *start; /* [size]: where it is in the caller's text */
  size_t size;
} vkf_part;

typedef struct vkf_part_rules {
  vkf_long_rule long_texts;
  size_t first;             /* the number of text 0, for messages: of a queue they are counted on */
  bool skip_refused;        /* else a refused text is VKF_ERROR_ARGUMENT */
  bool keeps_end;           /* truncated texts keep their last words, also where the tokenizer cuts on the left */
  bool refuses_blanks;      /* texts without a word */
  bool are_targets;         /* texts in the language to translate into */
  bool takes_all;           /* any number of tokens: the caller cuts ids */
  const char *const *pairs; /* the second text of each, which is not split; NULL: none */
  const char *prefix;       /* before every part; NULL: none */
  uint32_t max_ids;         /* a part has at most so many; 0: as many as the model has positions */
  const char *source_language, *target_language; /* NULL: as the folder says */
} vkf_part_rules;

typedef struct vkf_parts {
  vkf_session *session;
  vkf_part_rules rules;
  vkf_arena arena;
  vkf_part *at;
  size_t n, capacity;
  size_t n_texts;
  vkf_skip_reason *skipped; /* [n_texts] */
  const char **why;         /* [n_texts]; NULL: not skipped */
} vkf_parts;

/* The parts of texts [n]. Finish them also after a failure. VKF_ERROR_ARGUMENT without texts, or for a NULL among them;
 * VKF_ERROR_UNSUPPORTED without a tokenizer. */
vkf_status vkf_task_parts_make(vkf_session *session, const char *const *texts, size_t n, const vkf_part_rules *rules,
                               vkf_parts *out);
void vkf_task_parts_finish(vkf_parts *parts);
/* Notes that nothing can be done with this text: VKF_OK if it is skipped, else VKF_ERROR_ARGUMENT. */
vkf_status vkf_task_parts_refuse(vkf_parts *parts, size_t text, vkf_skip_reason reason, const char *fmt, ...)
    VKF_PRINTF(4, 5);
/* Hands the reasons to a result. */
vkf_status vkf_task_parts_report(const vkf_parts *parts, vkf_result *result);

/* ---- one part (cut.c) -------------------------------------------------------------------------------------------- */

/* Appends the ids of text[0, n) behind the prefix, with special tokens. */
vkf_status vkf_task_part_ids(const vkf_parts *parts, const char *text, size_t n, vkf_text_ids *out);
/* Appends the ids of two texts that belong together, and their types. max_ids: the longer text, then both are shortened
 * to so many in all, as the "longest_first" of transformers does it; 0: they are not. */
vkf_status vkf_task_pair_ids(vkf_text_tokenizer *tokenizer, const char *const texts[2], bool add_special,
                             size_t max_ids, vkf_text_ids *ids, vkf_text_ids *types);
/* *n: bytes of the first part of `text` that fits. It ends where a sentence does (if `sentences`, and one ends in
 * time), else where a word does, else where a character does; 0: not even a character fits. from_end: bytes of the last
 * part that fits. It begins where a word does, else where a character does. */
vkf_status vkf_task_cut(const vkf_parts *parts, const char *text, bool sentences, bool from_end, size_t *n);

/* White space of ASCII. */
bool vkf_task_is_space(char c);
bool vkf_task_is_blank(const char *text);

#endif
