/* embed_config: how a folder wants vectors to be made, as sentence-transformers does it. */
#ifndef VKF_TASK_EMBED_CONFIG_H
#define VKF_TASK_EMBED_CONFIG_H

#include "task/dense.h"

enum { VKF_EMBED_MAX_POOLINGS = 6 };

typedef struct vkf_embed_config {
  vkf_arena arena;
  vkf_pooling poolings[VKF_EMBED_MAX_POOLINGS]; /* their vectors are concatenated */
  uint32_t n_poolings;                          /* at least 1 */
  bool normalize;
  vkf_dense *dense;    /* between pooling and normalization; NULL: none */
  const char *prompt;  /* put before each text; NULL: none */
  uint32_t max_tokens; /* of a text; 0: the folder gives no limit */
  uint32_t width;      /* of the states, as the folder says; 0: not given */
} vkf_embed_config;

/* Reads the folder's files. asked: replaces their pooling; VKF_POOLING_FOLDER: theirs. cosine: vectors will be compared
 * by cosine. Errors name what is refused. VKF_ERROR_UNSUPPORTED: it would change vectors but is not implemented;
 * VKF_ERROR_FORMAT: it is malformed. Call finish even if this fails. */
vkf_status vkf_task_embed_config_read(vkf_env *env, const vkf_file_source *source, vkf_pooling asked, bool cosine,
                                      vkf_embed_config *out);
void vkf_task_embed_config_finish(vkf_embed_config *config);

#endif
