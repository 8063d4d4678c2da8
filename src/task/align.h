/* align: how much each id of a translation attends to each id of its source. */
#ifndef VKF_TASK_ALIGN_H
#define VKF_TASK_ALIGN_H

#include "task/links.h"

typedef struct vkf_align_head {
  uint32_t layer, head;
} vkf_align_head;

/* Averages the weights of the heads in a list, of all heads of the last layer, or of all layers. */
typedef struct vkf_aligner {
  vkf_session session; /* has memory of its own, because its passes run between the steps of another session */
  vkf_align_head *heads;
  size_t n_heads; /* 0: no list */
  bool all_layers;
  vkf_links *links; /* gets the links of every translation; NULL: none are wanted */
} vkf_aligner;

/* heads: "LAYER:HEAD,LAYER:HEAD", counted from 0; or "all"; NULL: the last layer. VKF_ERROR_ARGUMENT: it is none of
 * these; vkf_task_align() refuses layers and heads that do not exist. Call finish even if this fails. */
vkf_status vkf_task_aligner_init(vkf_aligner *out, const vkf_session *session, const char *heads);
void vkf_task_aligner_finish(vkf_aligner *aligner);

/* Sets the alignment of each of the translations [n] of a source by one forward pass that is fed their ids. The arena
 * owns the alignments. */
vkf_status vkf_task_align(vkf_aligner *aligner, vkf_arena *arena, const vkf_part *source, vkf_task_sequence *targets,
                          size_t n);

/* Returns how well a translation covers its source (Wu et al. 2016, "Google's Neural Machine Translation System",
 * equation 14): the sum over source ids of log(min(sum of the weights of all ids of the translation, 1)). */
double vkf_task_coverage(const vkf_task_sequence *target);

#endif
