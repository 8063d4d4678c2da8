/* translation: texts that are translated together, and what becomes of them.
 *
 * Owns what a call of translate.c knows of its texts; translation_result.c makes results of it.
 */
#ifndef VKF_TASK_TRANSLATION_H
#define VKF_TASK_TRANSLATION_H

#include "task/align.h"
#include "task/schedule.h"

typedef struct vkf_text_group vkf_text_group;
typedef struct vkf_sentence {
  const vkf_part *part;
  vkf_text_group *group;
  vkf_kept *targets;         /* [each]: its translations, with the start token */
  int32_t *prompt;           /* [n_prompt + n_pull], the start token included; NULL: that alone */
  uint32_t n_prompt, n_pull; /* ids that the translation begins with; that pull its beginning */
} vkf_sentence;

/* Texts that have one result. */
struct vkf_text_group {
  vkf_parts parts;
  vkf_sentence *sentences; /* [n], one for each part */
  vkf_kept *targets;       /* [n][each] */
  vkf_sentence **order;    /* [n]: the longest first, [n_begun] of which have begun */
  size_t n, n_begun, n_done;
  /* Of a text that came by the queue, which is a group alone: */
  uint64_t line;
  void *tag;            /* the caller's name for it */
  vkf_text_group *next; /* another such group */
};

typedef struct vkf_translator {
  vkf_session *session;
  vkf_generation_config config;
  vkf_generate_params params;
  vkf_aligner aligner;         /* where translations are aligned */
  vkf_links *links;            /* of vkf_session_align_heads(); NULL: of another call */
  const vkf_text_queue *queue; /* NULL: there is one group */
  vkf_text_group *group;       /* whose sentences are begun; NULL: none is there */
  size_t n_came;               /* texts, up to now */
  size_t each;                 /* translations of a text */
  size_t n_found;              /* translations that a search gives for it */
  vkf_kept *found;             /* [n_found]; the best of them are kept */
  vkf_text_group *groups;      /* of texts that came and are not done */
  bool is_stopped;             /* by a callback */
} vkf_translator;

/* The result of a group whose sentences are all done. */
vkf_status vkf_task_translation_result(const vkf_translator *translator, const vkf_text_group *group, vkf_result **out);

#endif
