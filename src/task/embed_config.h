/* embed_config: how the vectors of a folder are made, as sentence-transformers has it. */
#ifndef VKF_TASK_EMBED_CONFIG_H
#define VKF_TASK_EMBED_CONFIG_H

#include "task/dense.h"

enum { VKF_EMBED_MAX_POOLINGS = 6 };

typedef struct vkf_embed_config {
  vkf_arena arena;
  vkf_pooling poolings[VKF_EMBED_MAX_POOLINGS]; /* whose vectors stand side by side */
  uint32_t n_poolings;                          /* at least 1 */
  bool normalize;
  vkf_dense *dense;    /* behind the pooling, before vectors are normalized; NULL: none */
  const char *prompt;  /* before each text; NULL: none */
  uint32_t max_tokens; /* of a text; 0: the folder names no limit */
  uint32_t width;      /* of the states, as the folder says; 0: it says nothing */
} vkf_embed_config;

/* Reads the folder's files. asked: the pooling in place of theirs; VKF_POOLING_FOLDER: theirs. cosine: vectors are
 * compared by it. Names what it refuses: VKF_ERROR_UNSUPPORTED: it would change vectors and is not computed,
 * VKF_ERROR_FORMAT: it cannot be. Finish it also after a failure. */
vkf_status vkf_task_embed_config_read(vkf_env *env, const vkf_file_source *source, vkf_pooling asked, bool cosine,
                                      vkf_embed_config *out);
void vkf_task_embed_config_finish(vkf_embed_config *config);

#endif
