/* labels: what config.json says of the labels of a classifier, and the scores that logits are. */
#ifndef VKF_TASK_LABELS_H
#define VKF_TASK_LABELS_H

#include "engine/opened.h"
#include "file/json.h"

enum { VKF_LABEL_NAME = 32 };

typedef struct vkf_labels {
  vkf_env *env;
  vkf_file_json *json;
  bool of_tokens; /* a label for each token */
  enum { VKF_LABELS_SOFTMAX, VKF_LABELS_SIGMOID, VKF_LABELS_PLAIN } scores;
  size_t n;
  const char *const *candidates; /* [n]: their names, the caller's; NULL: config.json has them */
} vkf_labels;

/* VKF_ERROR_UNSUPPORTED for a model without a head of labels. Finish it also after a failure. */
vkf_status vkf_task_labels_read(vkf_session *session, vkf_labels *out);
void vkf_task_labels_finish(vkf_labels *labels);
/* scores [n] of logits [n]. */
void vkf_task_labels_score(const vkf_labels *labels, const float *logits, double *scores);
/* The k best of scores [n], best first; of equal ones the first. */
vkf_status vkf_task_labels_best(const vkf_labels *labels, const double *scores, size_t k, int32_t *best,
                                double *best_scores);
/* The name that config.json gives, or else LABEL_i in `storage`. */
vkf_status vkf_task_labels_name(const vkf_labels *labels, size_t i, char storage[VKF_LABEL_NAME], const char **out);
/* All names, as texts of a result. */
vkf_status vkf_task_labels_add(const vkf_labels *labels, vkf_result *result);

#endif
