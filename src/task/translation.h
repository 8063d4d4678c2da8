/* translation: the state of a call of translate.c, from which translation_result.c makes results. */
#ifndef VKF_TASK_TRANSLATION_H
#define VKF_TASK_TRANSLATION_H

#include "task/align.h"
#include "task/schedule.h"

typedef struct vkf_text_group vkf_text_group;
typedef struct vkf_sentence {
  const vkf_part *part;
  vkf_text_group *group;
  vkf_task_sequence *targets; /* [each]: its translations, start token included */
  int32_t *prompt;            /* [n_prompt + n_pull], start token included; NULL: the start token alone */
  uint32_t n_prompt, n_pull;  /* ids that the target begins with; ids made more likely after these */
} vkf_sentence;

/* Texts that share one result. */
struct vkf_text_group {
  vkf_parts parts;
  vkf_sentence *sentences;    /* [n]: one per part, except those of refused texts */
  vkf_task_sequence *targets; /* [n][each] */
  vkf_sentence **order;       /* [n]: the longest first; the first n_begun have begun */
  size_t n, n_begun, n_done;
  /* For a text from the queue, which is a group of its own: */
  uint64_t line;
  void *tag;            /* the caller's name for the text */
  vkf_text_group *next; /* of the list of such groups */
};

typedef struct vkf_translator {
  vkf_session *session;
  vkf_generation_config config;
  vkf_generate_params params;
  vkf_aligner aligner;         /* all 0: nothing is aligned */
  vkf_links *links;            /* of vkf_session_align_heads(); NULL: any other call */
  const vkf_text_queue *queue; /* NULL: there is one group */
  vkf_text_group *group;       /* its sentences begin next; NULL: none */
  size_t n_came;               /* number of texts up to now */
  size_t each;                 /* translations per sentence in the result */
  size_t n_found;              /* translations per sentence that the search returns */
  vkf_task_sequence *found;    /* [n_found]; the best `each` of them are kept */
  vkf_text_group *groups;      /* list: texts of the queue that are not done */
  bool is_stopped;             /* by a callback */
} vkf_translator;

/* Makes the result of a group whose sentences are all done. */
vkf_status vkf_task_translation_result(const vkf_translator *translator, const vkf_text_group *group, vkf_result **out);

#endif
