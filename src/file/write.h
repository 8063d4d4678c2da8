/* write: writes all files of this project.
 *
 * A regular file is replaced as a whole: the bytes go to a temporary file beside it, with the same mode, which is then
 * synced and renamed. Symbolic links stay; the file that they lead to is replaced. Anything else (a device, a pipe) is
 * written directly, and so is what this process has open already (/dev/stdout, /dev/fd/N). Refuses folders and files
 * that the user may not write. Invariant: whoever opens a regular file finds the old bytes or the new ones, never a
 * part; after a failure the old file is unchanged and no temporary file is left.
 */
#ifndef VKF_FILE_WRITE_H
#define VKF_FILE_WRITE_H

#include "base/base.h"

typedef struct vkf_file_part {
  const void *data;
  size_t bytes;
} vkf_file_part;

/* Writes the parts one after the other. Returns VKF_ERROR_FILE, with the path and the system's reason, if it cannot.
 * Waits for the reader of a pipe. */
vkf_status vkf_file_write(vkf_env *env, const char *path, const vkf_file_part *parts, size_t n_parts);
/* Checks that vkf_file_write() could begin now; creates nothing. Returns VKF_ERROR_FILE, with the reason, if not. */
vkf_status vkf_file_write_check(vkf_env *env, const char *path);

/* Writes piece by piece what is not in memory at once: open, append as often as needed, commit. Call finish() after
 * every open, even a failed one: it removes what was not committed. `path` must live as long as the writer. */
typedef struct vkf_file_writer {
  vkf_env *env;
  const char *path;
  vkf_text target;    /* the file behind all links */
  vkf_text temporary; /* the file beside that; not used if the target is written directly */
  int fd;             /* -1: none */
  bool is_created;    /* the temporary file exists */
} vkf_file_writer;
vkf_status vkf_file_writer_open(vkf_env *env, const char *path, vkf_file_writer *writer);
vkf_status vkf_file_writer_append(vkf_file_writer *writer, const void *data, size_t bytes);
vkf_status vkf_file_writer_commit(vkf_file_writer *writer);
void vkf_file_writer_finish(vkf_file_writer *writer);

#endif
