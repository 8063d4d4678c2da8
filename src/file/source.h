/* source: where the files of a model are: in a folder or in the caller's memory.
 *
 * Every file of a model is read from a source, by its name in the folder ("config.json", "1_Pooling/config.json").
 * Messages name a file by its path, or by its name if it is in memory. A source owns nothing; its strings and files
 * must outlive it.
 */
#ifndef VKF_FILE_SOURCE_H
#define VKF_FILE_SOURCE_H

#include "file/json.h"
#include "file/map.h"

typedef struct vkf_file_source {
  const char *folder; /* NULL: files[n] in memory */
  const vkf_memory_file *files;
  size_t n;
} vkf_file_source;

/* Returns the name of the source for messages. */
const char *vkf_file_source_name(const vkf_file_source *source);
/* Returns the path of a file, or its name if it is in memory, for opening and messages. It is the arena's; NULL: no
 * memory. */
const char *vkf_file_source_path(const vkf_file_source *source, vkf_arena *arena, const char *file);
/* Returns whether the source has a file. True for a link that leads nowhere, too: opening it then says so. */
bool vkf_file_source_has(const vkf_file_source *source, const char *file);
/* Returns VKF_ERROR_FILE if the source does not have it. A file in memory is not copied: it must outlive the map. */
vkf_status vkf_file_source_open(vkf_env *env, const vkf_file_source *source, const char *file, vkf_file_map *map);
/* The same, parsed. */
vkf_status vkf_file_source_json(vkf_env *env, const vkf_file_source *source, const char *file, vkf_file_json **out);

#endif
