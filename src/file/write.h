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

#endif
