/* map: the bytes of a file, read-only.
 *
 * Maps the file if the system can, else reads it into memory (a pipe, a file system without maps). Refuses folders,
 * devices and pipes without a writer. Invariant: the bytes do not move between open and close. If a file becomes
 * shorter while it is mapped, reading it is a fault: replace the files of a model, do not edit them in place.
 */
#ifndef VKF_FILE_MAP_H
#define VKF_FILE_MAP_H

#include "base/base.h"

typedef enum vkf_file_owner { VKF_FILE_OF_ENV, VKF_FILE_OF_SYSTEM, VKF_FILE_OF_CALLER } vkf_file_owner;

typedef struct vkf_file_map {
  vkf_env *env;
  const uint8_t *data; /* never NULL while open */
  size_t bytes;
  vkf_file_owner owner; /* of data */
} vkf_file_map;

/* Returns VKF_ERROR_FILE, with the path and the system's reason, if the file cannot be opened or read. */
vkf_status vkf_file_map_open(vkf_env *env, const char *path, vkf_file_map *map);
/* The same, but always reads the file into memory. */
vkf_status vkf_file_map_read(vkf_env *env, const char *path, vkf_file_map *map);
/* Drops the mapped pages from this process's memory; the system loads what is read again. */
void vkf_file_map_rest(const vkf_file_map *map);
/* Accepts a map that is all zero bytes, or whose opening failed. */
void vkf_file_map_close(vkf_file_map *map);

#endif
