/* zero_shot: classification by candidate labels. An inference model judges each as a hypothesis about the text (Yin et
 * al. 2019, "Benchmarking Zero-shot Text Classification").
 */
#ifndef VKF_TASK_ZERO_SHOT_H
#define VKF_TASK_ZERO_SHOT_H

#include "task/labels.h"

typedef struct vkf_zero_shot {
  vkf_arena arena;
  const char **premises, **hypotheses; /* [texts][candidates] */
  size_t n_texts, n_candidates;
  size_t entailment, contradiction; /* indices of the model's labels */
  bool is_multi;                    /* each candidate is scored alone; else scores of a text sum to one */
} vkf_zero_shot;

/* Makes the pairs of texts [n] with all candidates of `params`. labels: those of the model. VKF_ERROR_UNSUPPORTED: none
 * of them is entailment; VKF_ERROR_ARGUMENT as vkf_session_classify() says. Call finish even if this fails. */
vkf_status vkf_task_zero_shot_init(vkf_zero_shot *z, const vkf_labels *labels, const vkf_classify_params *params,
                                   const char *const *texts, size_t n);
void vkf_task_zero_shot_finish(vkf_zero_shot *z);
/* Computes scores [texts][candidates] of logits [texts][candidates][n_labels]. If a pair has NaN, all scores of its
 * text are NaN. */
void vkf_task_zero_shot_score(const vkf_zero_shot *z, const double *logits, size_t n_labels, double *scores);

#endif
