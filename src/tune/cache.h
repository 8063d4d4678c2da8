/* cache: files that this library keeps in the user's cache folder between runs.
 *
 * Owns the choice of the folder, the lock between processes, and the rule which files are trusted: a file that another
 * user owns or may write is not read. Invariant: whatever is wrong with a cache is a line in the log and never an
 * error.
 */
#ifndef VKF_TUNE_CACHE_H
#define VKF_TUNE_CACHE_H

#include "base/base.h"

/* asked: NULL for $VKF_CACHE_DIR, else $XDG_CACHE_HOME/vkformer, else $HOME/.cache/vkformer; "": none. *out: NULL for
 * none, else memory of `env`. Nothing is created. */
vkf_status vkf_tune_cache_folder(vkf_env *env, const char *asked, char **out);

/* Whether the folder exists and another user could have written it. If so, it warns; call it once a device. The
 * functions below check again without a warning. */
bool vkf_tune_cache_refused(vkf_env *env, const char *folder);

/* The whole file, *bytes NULL where there is none that can be read and trusted. Free it with vkf_env_free. */
void vkf_tune_cache_read(vkf_env *env, const char *folder, const char *name, char **bytes, size_t *n_bytes);
/* Makes the folder where it is missing and replaces the file as a whole, for its owner alone. False: a line in the log
 * says why not, and the message of env if it is the system that refused to write. */
bool vkf_tune_cache_write(vkf_env *env, const char *folder, const char *name, const char *bytes, size_t n_bytes);
/* Makes the folder if it is missing. Returns whether it may be written. */
bool vkf_tune_cache_usable(vkf_env *env, const char *folder);
/* The same, and whether it has room: a file is written and removed. */
bool vkf_tune_cache_has_room(vkf_env *env, const char *folder);

/* Between lock and unlock no other process writes: for reading, changing and writing. Waits at most two seconds, then
 * goes on without; -1: not locked. */
int vkf_tune_cache_lock(vkf_env *env, const char *folder);
void vkf_tune_cache_unlock(int lock);

#endif
