/* foreign: says what a path is if it is no model folder in Hugging Face's layout: a file of another program, a name of
 * the Hub.
 */
#ifndef VKF_FILE_FOREIGN_H
#define VKF_FILE_FOREIGN_H

#include "base/base.h"

/* VKF_ERROR_FILE says what the path is and what to do, where that is known: a file, a folder of another program, a
 * name of the Hub. */
vkf_status vkf_file_foreign_check(vkf_env *env, const char *path);
/* What a file is by its first bytes, and what to do; NULL: not known. */
const char *vkf_file_foreign_bytes(const void *data, size_t bytes);

#endif
