/* labels: see labels.h. */
#include "task/labels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const replaced[] = {"replaced"}; /* the label of a discriminator, which has no name for it */

static vkf_status read_config(vkf_labels *l, const vkf_file_source *source) {
  vkf_file_value list;
  const char *type = NULL, *name = "";
  VKF_CALL(vkf_file_source_json(l->env, source, "config.json", &l->json));
  vkf_file_value root = vkf_file_json_root(l->json);
  VKF_CALL(vkf_file_json_find_array(root, "architectures", &list));
  if (vkf_file_json_count(list) > 0) VKF_CALL(vkf_file_json_as_string(vkf_file_json_at(list, 0), &name));
  VKF_CALL(vkf_file_json_find_string(root, "problem_type", "", &type));
  l->of_tokens = strstr(name, "ForTokenClassification") != NULL;
  if (l->of_tokens) return VKF_OK;
  if (strcmp(type, "regression") == 0)
    l->scores = VKF_LABELS_PLAIN;
  else if (l->n == 1 || strcmp(type, "multi_label_classification") == 0)
    l->scores = VKF_LABELS_SIGMOID;
  return VKF_OK;
}

vkf_status vkf_task_labels_read(vkf_session *session, vkf_labels *out) {
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  *out = (vkf_labels){.env = session->env, .n = info->target_vocab, .is_flat = info->is_flat};
  vkf_status st = VKF_OK;
  if (info->is_flat) {
    out->of_tokens = true;
    out->scores = VKF_LABELS_SIGMOID;
    out->candidates = replaced;
  } else {
    st = read_config(out, &info->source);
  }
  if (st == VKF_OK && (!info->has_head || info->is_pooled == out->of_tokens))
    st = vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED,
                      "%s: expected a model with a classification head, found none", info->name);
  return st;
}

void vkf_task_labels_finish(vkf_labels *l) {
  vkf_file_json_destroy(&l->json);
}

void vkf_task_labels_score(const vkf_labels *l, const float *logits, double *scores) {
  double top = logits[0], sum = 0;
  for (size_t i = 1; i < l->n; i++) top = fmax(top, logits[i]);
  for (size_t i = 0; i < l->n; i++) sum += exp(logits[i] - top);
  for (size_t i = 0; i < l->n; i++)
    scores[i] = l->scores == VKF_LABELS_PLAIN     ? logits[i]
                : l->scores == VKF_LABELS_SIGMOID ? 1 / (1 + exp(-(double)logits[i]))
                                                  : exp(logits[i] - top) / sum;
}

typedef struct labelled {
  double score;
  int32_t label;
} labelled;

static int by_score(const void *a, const void *b) {
  const labelled *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->label < y->label ? -1 : 1;
}

vkf_status vkf_task_labels_best(const vkf_labels *l, const double *scores, size_t k, int32_t *best,
                                double *best_scores) {
  labelled *all = vkf_env_alloc(l->env, l->n, sizeof *all);
  if (!all) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < l->n; i++) all[i] = (labelled){scores[i], (int32_t)i};
  qsort(all, l->n, sizeof *all, by_score);
  for (size_t i = 0; i < k; i++) {
    best[i] = all[i].label;
    best_scores[i] = all[i].score;
  }
  vkf_env_free(l->env, all);
  return VKF_OK;
}

vkf_status vkf_task_labels_name(const vkf_labels *l, size_t i, char storage[VKF_LABEL_NAME], const char **out) {
  char key[VKF_LABEL_NAME];
  snprintf(key, sizeof key, "%zu", i);
  snprintf(storage, VKF_LABEL_NAME, "LABEL_%zu", i);
  *out = l->candidates ? l->candidates[i] : storage;
  if (l->candidates) return VKF_OK;
  vkf_file_value names = vkf_file_json_member(vkf_file_json_root(l->json), "id2label");
  vkf_file_value value = vkf_file_json_member(names, key);
  return vkf_file_json_kind(value) == VKF_FILE_STRING ? vkf_file_json_as_string(value, out) : VKF_OK;
}

vkf_status vkf_task_labels_add(const vkf_labels *l, vkf_result *result) {
  for (size_t i = 0; i < l->n; i++) {
    char storage[VKF_LABEL_NAME];
    const char *name = NULL;
    VKF_CALL(vkf_task_labels_name(l, i, storage, &name));
    VKF_CALL(vkf_engine_result_add_text(result, name));
  }
  return VKF_OK;
}
