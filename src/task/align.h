/* align: how much each id of a translation looks at each id of its source. */
#ifndef VKF_TASK_ALIGN_H
#define VKF_TASK_ALIGN_H

#include "task/links.h"

typedef struct vkf_align_head {
  uint32_t layer, head;
} vkf_align_head;

/* Whose weights are averaged: a list, or every head of the last layer, or of all layers. */
typedef struct vkf_aligner {
  vkf_session session; /* its passes come between the steps of another one, so they have memory of their own */
  vkf_align_head *heads;
  size_t n_heads; /* 0: no list */
  bool all_layers;
  vkf_links *links; /* told of every translation; NULL: nobody is */
} vkf_aligner;

/* heads: "LAYER:HEAD,LAYER:HEAD", from 0; "all"; NULL: the last layer. Call finish in every case. VKF_ERROR_ARGUMENT
 * where it is none of these; vkf_task_align() finds layers and heads that are not there. */
vkf_status vkf_task_aligner_init(vkf_aligner *out, const vkf_session *session, const char *heads);
void vkf_task_aligner_finish(vkf_aligner *aligner);

/* Sets the alignment of each of the translations [n] of a source: one forward pass, in which their ids are fed. */
vkf_status vkf_task_align(vkf_aligner *aligner, vkf_arena *arena, const vkf_part *source, vkf_kept *targets, size_t n);

/* What the ids of the source have been looked at, as Wu et al. (2016, "Google's Neural Machine Translation System",
 * equation 14) count it: the sum over them of the logarithm of min(weight of all ids of the translation, 1). */
double vkf_task_coverage(const vkf_kept *target);

#endif
