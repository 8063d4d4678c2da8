/* labels: the labels of a classifier, as config.json describes them, and the scores of its logits. */
#ifndef VKF_TASK_LABELS_H
#define VKF_TASK_LABELS_H

#include "engine/opened.h"
#include "file/json.h"

enum { VKF_LABEL_NAME = 32 };

typedef struct vkf_labels {
  vkf_env *env;
  vkf_file_json *json;
  bool of_tokens; /* each token has a label */
  bool is_flat;   /* and it is one number: whether the token was replaced */
  enum { VKF_LABELS_SOFTMAX, VKF_LABELS_SIGMOID, VKF_LABELS_PLAIN } scores;
  size_t n;
  const char *const *candidates; /* [n]: names given by the caller; NULL: those of config.json */
} vkf_labels;

/* VKF_ERROR_UNSUPPORTED: the model has no classification head. Call finish even if this fails. */
vkf_status vkf_task_labels_read(vkf_session *session, vkf_labels *out);
void vkf_task_labels_finish(vkf_labels *labels);
/* Computes scores [n] of logits [n]. */
void vkf_task_labels_score(const vkf_labels *labels, const float *logits, double *scores);
/* Finds the k best of scores [n], best first, ties by the lower label. */
vkf_status vkf_task_labels_best(const vkf_labels *labels, const double *scores, size_t k, int32_t *best,
                                double *best_scores);
/* Finds the name of label i; without one, writes LABEL_i to `storage`. */
vkf_status vkf_task_labels_name(const vkf_labels *labels, size_t i, char storage[VKF_LABEL_NAME], const char **out);
/* Adds all names to a result as texts. */
vkf_status vkf_task_labels_add(const vkf_labels *labels, vkf_result *result);

#endif
