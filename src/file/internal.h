/* internal: what safetensors.c and safetensors_index.c share; not for other rooms. */
#ifndef VKF_FILE_INTERNAL_H
#define VKF_FILE_INTERNAL_H

#include "file/source.h"

/* Which file of a source has the tensors. */
typedef struct vkf_file_place {
  const char *file;
  bool is_index;
} vkf_file_place;
vkf_status vkf_file_place_find(vkf_arena *arena, const vkf_file_source *source, vkf_file_place *out);
/* What a path means that may be a folder: its source, in the arena, and the place there. */
vkf_status vkf_file_place_of_path(vkf_arena *arena, const char *path, vkf_file_source *source, vkf_file_place *out);

/* model.safetensors.index.json: which tensor is in which file. */
typedef struct vkf_file_index {
  vkf_arena arena;
  const char **files; /* [n_files] beside the index, each once, in the order of their first mention */
  size_t n_files;
  const char **names; /* [n_names] */
  size_t *file_of;    /* [n_names] index into files */
  size_t n_names;
} vkf_file_index;
/* Finish it also after a failure. */
vkf_status vkf_file_index_read(vkf_env *env, const vkf_file_source *source, const char *file, vkf_file_index *out);
void vkf_file_index_finish(vkf_file_index *index);

#endif
