/* folder: a new folder that appears as a whole.
 *
 * Files are written into a temporary folder beside the target, which is then renamed. Refuses a target that exists,
 * unless it is an empty folder. Such a one stays, since it may be a mount or where a shell is: the temporary folder is
 * in it, and in the end its files move up. Invariant: whoever opens the path finds nothing, an empty folder, or all
 * files, but for the moment of that move; after a failure no temporary folder is left.
 */
#ifndef VKF_FILE_FOLDER_H
#define VKF_FILE_FOLDER_H

#include "base/base.h"

typedef struct vkf_file_folder {
  vkf_env *env;
  vkf_text path, temporary; /* without a slash at the end */
  bool is_created;          /* the temporary folder is there */
  bool is_inside;           /* it is in the target */
} vkf_file_folder;

/* VKF_ERROR_FILE. Finish it also after a failure. */
vkf_status vkf_file_folder_open(vkf_env *env, const char *path, vkf_file_folder *folder);
/* VKF_ERROR_FILE if the file system says that it has no room for so many bytes. */
vkf_status vkf_file_folder_reserve(vkf_file_folder *folder, uint64_t bytes);
/* The path of a file in the temporary folder, appended to `out`. */
void vkf_file_folder_join(const vkf_file_folder *folder, const char *name, vkf_text *out);
vkf_status vkf_file_folder_commit(vkf_file_folder *folder);
/* Removes the temporary folder and its files where they were not committed. */
void vkf_file_folder_finish(vkf_file_folder *folder);

#endif
