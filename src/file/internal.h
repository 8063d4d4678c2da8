/* internal: what safetensors.c and safetensors_index.c share; not for other rooms. */
#ifndef VKF_FILE_INTERNAL_H
#define VKF_FILE_INTERNAL_H

#include "file/source.h"

/* The file of a source that has the tensors or their index. */
typedef struct vkf_file_place {
  const char *file;
  bool is_index;
} vkf_file_place;
vkf_status vkf_file_place_find(vkf_arena *arena, const vkf_file_source *source, vkf_file_place *out);
/* Finds the source of a path to a folder or a file, and the place there. Strings are the arena's. Does not check that a
 * file exists. */
vkf_status vkf_file_place_of_path(vkf_arena *arena, const char *path, vkf_file_source *source, vkf_file_place *out);

/* model.safetensors.index.json: which tensor is in which file. */
typedef struct vkf_file_index {
  vkf_arena arena;
  const char **files; /* [n_files] in the index's folder or below it, each once, in the order of first mention */
  size_t n_files;
  const char **names; /* [n_names] */
  size_t *file_of;    /* [n_names] index into files */
  size_t n_names;
} vkf_file_index;
/* Call finish() even if this fails. */
vkf_status vkf_file_index_read(vkf_env *env, const vkf_file_source *source, const char *file, vkf_file_index *out);
void vkf_file_index_finish(vkf_file_index *index);

#endif
