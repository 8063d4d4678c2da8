/* zero_shot: see zero_shot.h. */
#include "task/zero_shot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Finds the label of entailment: the first whose name begins with "entail", in upper or lower case. */
static vkf_status find_entailment(vkf_zero_shot *z, const vkf_labels *labels) {
  static const char word[] = "entail";
  for (size_t i = 0; i < labels->n && labels->n > 1; i++) {
    char storage[VKF_LABEL_NAME];
    const char *name = NULL;
    VKF_CALL(vkf_task_labels_name(labels, i, storage, &name));
    if (strncasecmp(name, word, strlen(word)) != 0) continue;
    z->entailment = i;
    z->contradiction = i == 0 ? labels->n - 1 : 0;
    return VKF_OK;
  }
  return vkf_env_fail(labels->env, VKF_ERROR_UNSUPPORTED,
                      "candidate labels: expected a model of inference, one of whose labels (id2label of config.json) "
                      "begins with \"%s\", found none",
                      word);
}

/* *out: the pattern ("This example is {}.") with the candidate in place of {}; the arena owns it. */
static vkf_status make_hypothesis(vkf_zero_shot *z, const char *pattern, const char *candidate, const char **out) {
  const char *gap = strstr(pattern, "{}");
  if (!gap)
    return vkf_env_fail(z->arena.env, VKF_ERROR_ARGUMENT, "hypothesis template: expected {} in it, found \"%s\"",
                        pattern);
  if (!candidate || !candidate[0])
    return vkf_env_fail(z->arena.env, VKF_ERROR_ARGUMENT, "candidate labels: expected names, found an empty one");
  const size_t size = strlen(pattern) + strlen(candidate);
  char *text = vkf_arena_alloc(&z->arena, size, 1);
  if (!text) return VKF_ERROR_MEMORY;
  snprintf(text, size, "%.*s%s%s", (int)(gap - pattern), pattern, candidate, gap + 2);
  *out = text;
  return VKF_OK;
}

vkf_status vkf_task_zero_shot_init(vkf_zero_shot *z, const vkf_labels *labels, const vkf_classify_params *params,
                                   const char *const *texts, size_t n) {
  const char *pattern = params->hypothesis_template ? params->hypothesis_template : "This example is {}.";
  const size_t m = params->n_candidate_labels;
  *z = (vkf_zero_shot){.n_texts = n, .n_candidates = m, .is_multi = params->multi_label || m == 1};
  vkf_arena_init(&z->arena, labels->env);
  VKF_CALL(find_entailment(z, labels));
  if (m == 0)
    return vkf_env_fail(labels->env, VKF_ERROR_ARGUMENT, "candidate labels: expected at least one, found none");
  z->premises = vkf_arena_alloc(&z->arena, n, m * sizeof *z->premises);
  z->hypotheses = vkf_arena_alloc(&z->arena, n, m * sizeof *z->hypotheses);
  if (!z->premises || !z->hypotheses) return VKF_ERROR_MEMORY;
  for (size_t j = 0; j < m; j++) VKF_CALL(make_hypothesis(z, pattern, params->candidate_labels[j], &z->hypotheses[j]));
  for (size_t i = 0; i < n; i++)
    if (!texts || !texts[i])
      return vkf_env_fail(labels->env, VKF_ERROR_ARGUMENT, "expected a text as text %zu, found NULL", i + 1);
  for (size_t i = 0; i < n * m; i++) {
    z->premises[i] = texts[i / m];
    z->hypotheses[i] = z->hypotheses[i % m];
  }
  return VKF_OK;
}

void vkf_task_zero_shot_finish(vkf_zero_shot *z) {
  if (z->arena.env) vkf_arena_finish(&z->arena);
}

void vkf_task_zero_shot_score(const vkf_zero_shot *z, const double *logits, size_t n_labels, double *scores) {
  const size_t m = z->n_candidates;
  for (size_t i = 0; i < z->n_texts; i++) {
    const double *of_text = logits + i * m * n_labels;
    double *to = scores + i * m, top = -INFINITY, sum = 0;
    bool has_nan = false;
    for (size_t j = 0; j < m; j++) {
      const double yes = of_text[j * n_labels + z->entailment];
      has_nan |= isnan(yes);
      top = fmax(top, yes);
    }
    for (size_t j = 0; j < m; j++) {
      const double yes = of_text[j * n_labels + z->entailment], no = of_text[j * n_labels + z->contradiction];
      to[j] = z->is_multi ? 1 / (1 + exp(no - yes)) : exp(yes - top);
      sum += to[j];
    }
    for (size_t j = 0; j < m; j++) to[j] = has_nan ? NAN : z->is_multi ? to[j] : to[j] / sum;
  }
}
