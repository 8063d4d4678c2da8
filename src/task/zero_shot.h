/* zero_shot: candidate labels, each a hypothesis that a model of inference judges (Yin et al. 2019, "Benchmarking
 * Zero-shot Text Classification").
 */
#ifndef VKF_TASK_ZERO_SHOT_H
#define VKF_TASK_ZERO_SHOT_H

#include "task/labels.h"

typedef struct vkf_zero_shot {
  vkf_arena arena;
  const char **premises, **hypotheses; /* [texts][candidates] */
  size_t n_texts, n_candidates;
  size_t entailment, contradiction; /* labels of the model */
  bool is_multi;
} vkf_zero_shot;

/* The pairs of texts [n] with all candidates of `params`. `labels`: those of the model. VKF_ERROR_UNSUPPORTED: none of
 * them is entailment; VKF_ERROR_ARGUMENT as vkf_session_classify() says. Finish it also after a failure. */
vkf_status vkf_task_zero_shot_init(vkf_zero_shot *z, const vkf_labels *labels, const vkf_classify_params *params,
                                   const char *const *texts, size_t n);
void vkf_task_zero_shot_finish(vkf_zero_shot *z);
/* scores [texts][candidates] of logits [texts][candidates][n_labels]. A text of which a pair has NaN has only NaN. */
void vkf_task_zero_shot_score(const vkf_zero_shot *z, const double *logits, size_t n_labels, double *scores);

#endif
