/* cache: see cache.h. */
#define _GNU_SOURCE /* flock */
#include "tune/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "file/write.h"

#define MAX_BYTES (64u << 20) /* far more than is ever kept */

static char *join(vkf_env *env, const char *folder, const char *name) {
  vkf_text text;
  vkf_text_init(&text, env);
  vkf_text_printf(&text, "%s/%s", folder, name);
  char *path = text.failed ? NULL : vkf_env_strdup(env, text.data);
  vkf_text_finish(&text);
  return path;
}

vkf_status vkf_tune_cache_folder(vkf_env *env, const char *asked, char **out) {
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *local = getenv("LOCALAPPDATA"); /* Windows */
  *out = NULL;
  if (!asked) asked = getenv("VKF_CACHE_DIR");
  if (asked && !*asked) return VKF_OK;
  if (asked)
    *out = vkf_env_strdup(env, asked);
  else if (xdg && xdg[0] == '/') /* relative paths must be ignored: XDG Base Directory Specification */
    *out = join(env, xdg, "vkformer");
  else if (home && home[0] == '/')
    *out = join(env, home, ".cache/vkformer");
  else if (local && *local)
    *out = join(env, local, "vkformer/cache");
  else
    return VKF_OK;
  return *out ? VKF_OK : VKF_ERROR_MEMORY;
}

/* ---- trust ------------------------------------------------------------------------------------------------------- */

/* Returns why another user may have written the file or folder with these facts; NULL: nobody else may. */
static const char *why_untrusted(const struct stat *facts) {
  if (facts->st_uid != geteuid()) return "it belongs to another user";
  if (facts->st_mode & (S_IWGRP | S_IWOTH)) return "other users may write it";
  return NULL;
}

/* Returns why an existing folder is not used; NULL: it is used, or there is none. */
static const char *distrust_folder(const char *folder) {
  struct stat facts;
  if (stat(folder, &facts) != 0) return NULL;
  return S_ISDIR(facts.st_mode) ? why_untrusted(&facts) : "it is no folder";
}

bool vkf_tune_cache_refused(vkf_env *env, const char *folder) {
  const char *why = distrust_folder(folder);
  if (why) vkf_env_log(env, VKF_LOG_WARNING, "%s: not used as a cache: %s", folder, why);
  return why != NULL;
}

static int open_trusted(vkf_env *env, const char *path, size_t *n_bytes) {
  struct stat facts;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    if (errno != ENOENT) vkf_env_log(env, VKF_LOG_WARNING, "%s: not read: %s", path, strerror(errno));
    return -1;
  }
  const char *why = fstat(fd, &facts) != 0             ? "it cannot be examined"
                    : !S_ISREG(facts.st_mode)          ? "it is no regular file"
                    : facts.st_size > (off_t)MAX_BYTES ? "it is too large"
                                                       : why_untrusted(&facts);
  if (!why) {
    *n_bytes = (size_t)facts.st_size;
    return fd;
  }
  vkf_env_log(env, VKF_LOG_WARNING, "%s: not read: %s", path, why);
  close(fd);
  return -1;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

void vkf_tune_cache_read(vkf_env *env, const char *folder, const char *name, char **bytes, size_t *n_bytes) {
  size_t expected = 0, size = 0;
  ssize_t n = 0;
  *bytes = NULL;
  *n_bytes = 0;
  char *path = distrust_folder(folder) ? NULL : join(env, folder, name);
  int fd = path ? open_trusted(env, path, &expected) : -1;
  char *data = fd >= 0 ? vkf_env_alloc(env, expected + 1, 1) : NULL;
  while (data && size < expected && (n = read(fd, data + size, expected - size)) != 0) {
    if (n > 0) size += (size_t)n;
    if (n < 0 && errno != EINTR) break;
  }
  if (data && n >= 0) {
    *bytes = data;
    *n_bytes = size;
    data = NULL;
  }
  if (fd >= 0) close(fd);
  vkf_env_free(env, data);
  vkf_env_free(env, path);
}

/* Makes the folders above it, too, like `mkdir -p`. */
static bool make_folder(const char *folder, char *path) {
  memcpy(path, folder, strlen(folder) + 1);
  for (char *at = path + 1; *at; at++) {
    if (*at != '/') continue;
    *at = 0;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    *at = '/';
  }
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

bool vkf_tune_cache_usable(vkf_env *env, const char *folder) {
  struct stat facts;
  if (stat(folder, &facts) != 0) {
    char *path = vkf_env_alloc(env, strlen(folder) + 1, 1);
    bool made = path && make_folder(folder, path);
    if (path && !made) vkf_env_log(env, VKF_LOG_INFO, "%s: cannot be created: %s", folder, strerror(errno));
    vkf_env_free(env, path);
    if (!made) return false;
  }
  if (distrust_folder(folder)) return false;
  if (access(folder, W_OK | X_OK) == 0) return true;
  vkf_env_log(env, VKF_LOG_INFO, "%s: cannot be written: %s", folder, strerror(errno));
  return false;
}

/* Refuses to write through a pipe or a link, as reading does. Removes a file of another user first: if root only
 * replaced it, the new file would still belong to that user and would never be read. */
static bool make_replaceable(vkf_env *env, const char *path) {
  struct stat facts;
  if (lstat(path, &facts) != 0) return true;
  if (S_ISREG(facts.st_mode)) return facts.st_uid == geteuid() || unlink(path) == 0;
  vkf_env_log(env, VKF_LOG_WARNING, "%s: not written: it is no regular file", path);
  return false;
}

bool vkf_tune_cache_write(vkf_env *env, const char *folder, const char *name, const char *bytes, size_t n_bytes) {
  char *path = vkf_tune_cache_usable(env, folder) ? join(env, folder, name) : NULL;
  const vkf_file_part part = {bytes, n_bytes};
  if (path && !make_replaceable(env, path)) {
    vkf_env_free(env, path);
    return false;
  }
  bool ok = path && vkf_file_write(env, path, &part, 1) == VKF_OK;
  if (ok && chmod(path, 0600) != 0) ok = false; /* whatever the umask: else it would not be trusted */
  if (path && !ok) vkf_env_log(env, VKF_LOG_INFO, "%s: not kept: %s", path, env->message);
  vkf_env_free(env, path);
  return ok;
}

bool vkf_tune_cache_has_room(vkf_env *env, const char *folder) {
  static const char bytes[64 << 10]; /* about what is kept for a device */
  char *path = join(env, folder, "trial");
  const bool ok = path && vkf_tune_cache_write(env, folder, "trial", bytes, sizeof bytes);
  if (ok) unlink(path);
  vkf_env_free(env, path);
  vkf_env_clear(env);
  return ok;
}

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

int vkf_tune_cache_lock(vkf_env *env, const char *folder) {
  enum { TRIES = 200 };
  const struct timespec pause = {0, 10 * 1000 * 1000};
  char *path = vkf_tune_cache_usable(env, folder) ? join(env, folder, "lock") : NULL;
  int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
  vkf_env_free(env, path);
  for (int i = 0; fd >= 0 && i < TRIES; i++) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    nanosleep(&pause, NULL);
  }
  if (fd >= 0) close(fd);
  return -1;
}

void vkf_tune_cache_unlock(int lock) {
  if (lock >= 0) close(lock);
}
