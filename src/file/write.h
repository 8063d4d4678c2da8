/* write: the only way in which this project writes files.
 *
 * A regular file is replaced as a whole: the bytes go to a temporary file beside it, with its mode, which is synced
 * and renamed. Symbolic links stay; the file that they lead to is replaced. Anything else (a device, a pipe) is
 * written directly, and so is what this process has open already (/dev/stdout, /dev/fd/N). Refuses folders and files
 * that the user may not write. Invariant: whoever opens a regular file finds the old bytes or the new ones, never a
 * part; after a failure the old file is there and no temporary file.
 */
#ifndef VKF_FILE_WRITE_H
#define VKF_FILE_WRITE_H

#include "base/base.h"

typedef struct vkf_file_part {
  const void *data;
  size_t bytes;
} vkf_file_part;

/* The parts one after the other. VKF_ERROR_FILE, with the path and the system's reason. It waits for the reader of a
 * pipe. */
vkf_status vkf_file_write(vkf_env *env, const char *path, const vkf_file_part *parts, size_t n_parts);
/* Whether vkf_file_write() could begin now; nothing is created. VKF_ERROR_FILE says why not. */
vkf_status vkf_file_write_check(vkf_env *env, const char *path);

/* The same piece by piece, for what is not in memory at once: open, append as often as wanted, commit. Finish it after
 * every open, also after one that failed: what was not committed is removed. `path` lives as long as the writer. */
typedef struct vkf_file_writer {
  vkf_env *env;
  const char *path;
  vkf_text target;    /* the file behind all links */
  vkf_text temporary; /* the file beside that; not used where the target is written through */
  int fd;             /* -1: none */
  bool is_created;    /* the temporary file is there */
} vkf_file_writer;
vkf_status vkf_file_writer_open(vkf_env *env, const char *path, vkf_file_writer *writer);
vkf_status vkf_file_writer_append(vkf_file_writer *writer, const void *data, size_t bytes);
vkf_status vkf_file_writer_commit(vkf_file_writer *writer);
void vkf_file_writer_finish(vkf_file_writer *writer);

#endif
