/* write: a file replaced as a whole.
 *
 * Writes a temporary file beside the target, syncs it and renames it. Refuses targets that are no regular files (a
 * rename would replace the device or the pipe). Invariant: whoever opens the path finds the old bytes or the new ones,
 * never a part; after a failure the old file and no temporary file are there.
 */
#ifndef VKF_FILE_WRITE_H
#define VKF_FILE_WRITE_H

#include "base/base.h"

typedef struct vkf_file_part {
  const void *data;
  size_t bytes;
} vkf_file_part;

/* The parts one after the other. VKF_ERROR_FILE, with the path and the system's reason. */
vkf_status vkf_file_write(vkf_env *env, const char *path, const vkf_file_part *parts, size_t n_parts);

/* The same piece by piece, for what is not in memory at once: open, append as often as wanted, commit. Finish it after
 * every open, also after one that failed: what was not committed is removed. `path` lives as long as the writer. */
typedef struct vkf_file_writer {
  vkf_env *env;
  const char *path;
  vkf_text temporary; /* the file beside it */
  int fd;             /* -1: none */
  bool is_created;    /* the temporary file is there */
} vkf_file_writer;
vkf_status vkf_file_writer_open(vkf_env *env, const char *path, vkf_file_writer *writer);
vkf_status vkf_file_writer_append(vkf_file_writer *writer, const void *data, size_t bytes);
vkf_status vkf_file_writer_commit(vkf_file_writer *writer);
void vkf_file_writer_finish(vkf_file_writer *writer);

#endif
