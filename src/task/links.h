/* links: finds the cross-attention heads that attend from a token of a translation to the same token of its source.
 *
 * Names, numbers and punctuation are the same in both languages. So a token that occurs once in a source and once in
 * its translation is a link whose two ends are known, and a head that aligns attends from one end to the other. Owns
 * the weights of all links that were added. The result does not depend on their order.
 */
#ifndef VKF_TASK_LINKS_H
#define VKF_TASK_LINKS_H

#include "task/parts.h"
#include "task/sequences.h"

typedef struct vkf_link vkf_link;
typedef struct vkf_links {
  vkf_session *session;
  vkf_arena arena;
  vkf_link *at;
  size_t n, capacity, n_layers, n_heads;
} vkf_links;

/* Returns the weights [n][heads][T][S] of a layer of a pass; NULL: the decoder has no such layer. */
const vkf_array *vkf_task_cross_weights(const vkf_result *pass, size_t layer);

void vkf_task_links_init(vkf_links *links, vkf_session *session);
void vkf_task_links_finish(vkf_links *links);

/* Adds the links of a translation of a source. pass: a forward pass with attentions whose row `row` was fed both. */
vkf_status vkf_task_links_add(vkf_links *links, const vkf_part *source, const vkf_task_sequence *target,
                              const vkf_result *pass, size_t row);

/* Makes the result of vkf_session_align_heads(). VKF_ERROR_ARGUMENT: there are no links. */
vkf_status vkf_task_links_result(const vkf_links *links, size_t n_texts, vkf_result **out);

#endif
