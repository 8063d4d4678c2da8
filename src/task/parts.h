/* parts: turns texts into token ids that fit a model.
 *
 * A text is one part, or several if it is too long and is split. Owns the ids and the reasons why texts were refused.
 * Invariant: parts are in the order of the texts, and the parts of one text in their order.
 */
#ifndef VKF_TASK_PARTS_H
#define VKF_TASK_PARTS_H

#include "engine/opened.h"

typedef struct vkf_part {
  size_t text;          /* index of its text */
  int32_t *ids, *types; /* [n]; types of a pair, else NULL */
  uint32_t n;
  bool spaced;       /* there is white space before it in the text */
  bool is_cut;       /* the text was too long: this is not all of it */
  const char *start; /* [size]: its place in the caller's text */
  size_t size;
} vkf_part;

typedef struct vkf_part_rules {
  vkf_long_rule long_texts;
  size_t first;             /* number of text 0 in messages; a queue counts on over its texts */
  bool skip_refused;        /* skip refused texts; else they are VKF_ERROR_ARGUMENT */
  bool keeps_end;           /* truncation keeps the last words; set also if the tokenizer cuts on the left */
  bool refuses_blanks;      /* refuse texts without a word */
  bool are_targets;         /* the texts are in the target language */
  bool takes_all;           /* allow any number of tokens: the caller truncates ids */
  const char *const *pairs; /* second text of each; pairs are not split; NULL: none */
  const char *prefix;       /* put before every part; NULL: none */
  uint32_t max_ids;         /* most ids of a part; 0: the model's positions */
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

/* Makes the parts of texts [n]. VKF_ERROR_ARGUMENT: no texts, NULL among them, or a text is refused and not skipped;
 * VKF_ERROR_UNSUPPORTED: no tokenizer. Call finish even if this fails. */
vkf_status vkf_task_parts_make(vkf_session *session, const char *const *texts, size_t n, const vkf_part_rules *rules,
                               vkf_parts *out);
void vkf_task_parts_finish(vkf_parts *parts);
/* Refuses a text, with a reason. Returns VKF_OK if the text is skipped, else VKF_ERROR_ARGUMENT. */
vkf_status vkf_task_parts_refuse(vkf_parts *parts, size_t text, vkf_skip_reason reason, const char *fmt, ...)
    VKF_PRINTF(4, 5);
/* Adds the reasons to a result. */
vkf_status vkf_task_parts_report(const vkf_parts *parts, vkf_result *result);

/* ---- one part (cut.c) -------------------------------------------------------------------------------------------- */

/* Appends the ids of the prefix and text[0, n), with special tokens. Needs the tokenizer's lock. */
vkf_status vkf_task_part_ids(const vkf_parts *parts, const char *text, size_t n, vkf_text_ids *out);
/* Appends the ids of a pair of texts, and their types. max_ids: the most ids of the pair; the longer text is truncated
 * first, then both, as "longest_first" of transformers does; 0: no limit. Needs the tokenizer's lock. */
vkf_status vkf_task_pair_ids(vkf_text_tokenizer *tokenizer, const char *const texts[2], bool add_special,
                             size_t max_ids, vkf_text_ids *ids, vkf_text_ids *types);
/* *n: bytes of the longest first part of `text` that fits and ends with a sentence (if `sentences`), else with a word,
 * else with a character; 0: not even a character fits. from_end: bytes of the last part that fits; it begins with a
 * word, else with a character. */
vkf_status vkf_task_cut(const vkf_parts *parts, const char *text, bool sentences, bool from_end, size_t *n);

/* Returns whether c is ASCII white space. */
bool vkf_task_is_space(char c);
/* Returns whether a text has nothing but white space. */
bool vkf_task_is_blank(const char *text);

#endif
