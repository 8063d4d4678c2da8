/* cache: files that this library keeps in the user's cache folder between runs.
 *
 * Owns the choice of the folder, the lock between processes, and the rule of which files are trusted: a file that
 * another user owns or may write is not read. Invariant: a problem with the cache gives a line in the log, never an
 * error.
 */
#ifndef VKF_TUNE_CACHE_H
#define VKF_TUNE_CACHE_H

#include "base/base.h"

/* Chooses the folder and creates nothing. asked: NULL for $VKF_CACHE_DIR, else $XDG_CACHE_HOME/vkformer, else
 * $HOME/.cache/vkformer (Windows: %LOCALAPPDATA%/vkformer/cache); "": none. *out: NULL for none, else memory of
 * `env`. */
vkf_status vkf_tune_cache_folder(vkf_env *env, const char *asked, char **out);

/* Whether the folder exists and cannot be trusted (another user may have written it), with a warning: call it once per
 * device. The functions below check again without a warning. */
bool vkf_tune_cache_refused(vkf_env *env, const char *folder);

/* Reads a whole file. *bytes is NULL if there is none that can be read and trusted; free it with vkf_env_free. */
void vkf_tune_cache_read(vkf_env *env, const char *folder, const char *name, char **bytes, size_t *n_bytes);
/* Makes the folder if it is missing and replaces the file as a whole, for its owner alone. If this fails, returns
 * false, with the reason in the log, and in the message of env if the system refused to write. */
bool vkf_tune_cache_write(vkf_env *env, const char *folder, const char *name, const char *bytes, size_t n_bytes);
/* Makes the folder if it is missing. Returns whether it may be written. */
bool vkf_tune_cache_usable(vkf_env *env, const char *folder);
/* The same, and whether there is room: writes a file and removes it. */
bool vkf_tune_cache_has_room(vkf_env *env, const char *folder);

/* Keeps other processes from writing until unlock: for reading, changing and writing. Waits at most two seconds, then
 * goes on without a lock and returns -1. */
int vkf_tune_cache_lock(vkf_env *env, const char *folder);
void vkf_tune_cache_unlock(int lock);

#endif
