/* foreign: recognises what is not a model folder in Hugging Face's layout: files and folders of other programs, names
 * of the Hub.
 */
#ifndef VKF_FILE_FOREIGN_H
#define VKF_FILE_FOREIGN_H

#include "base/base.h"

/* Returns VKF_ERROR_FILE if a path is a file, a folder of another program or without config.json, a name of the Hub, or
 * nothing. The message says what it is and, if known, what to do. */
vkf_status vkf_file_foreign_check(vkf_env *env, const char *path);
/* Returns a phrase that says what a file with these first bytes is and what to do; NULL: not known. */
const char *vkf_file_foreign_bytes(const void *data, size_t bytes);

#endif
