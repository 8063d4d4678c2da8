/* folder: writes a new folder as a whole.
 *
 * Files are written into a temporary folder beside the target, which is then renamed. Refuses a target that exists,
 * unless it is an empty folder. An empty folder stays, because it may be a mount or a shell's current folder: the
 * temporary folder is made inside it, and commit moves its files up. Invariant: whoever opens the path finds nothing,
 * an empty folder or all files, except during that move; after a failure no temporary folder is left.
 */
#ifndef VKF_FILE_FOLDER_H
#define VKF_FILE_FOLDER_H

#include "base/base.h"

typedef struct vkf_file_folder {
  vkf_env *env;
  vkf_text path, temporary; /* without a slash at the end */
  bool is_created;          /* the temporary folder exists */
  bool is_inside;           /* it is inside the target */
} vkf_file_folder;

/* Creates the temporary folder. Returns VKF_ERROR_FILE if it cannot. Call finish() even if this fails. */
vkf_status vkf_file_folder_open(vkf_env *env, const char *path, vkf_file_folder *folder);
/* Returns VKF_ERROR_FILE if the file system says that it has no room for so many bytes. */
vkf_status vkf_file_folder_check_room(vkf_file_folder *folder, uint64_t bytes);
/* Appends the path of a file in the temporary folder to `out`. */
void vkf_file_folder_join(const vkf_file_folder *folder, const char *name, vkf_text *out);
vkf_status vkf_file_folder_commit(vkf_file_folder *folder);
/* Removes the temporary folder and its files unless they were committed. */
void vkf_file_folder_finish(vkf_file_folder *folder);

#endif
