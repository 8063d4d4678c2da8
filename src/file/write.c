/* write: see write.h. Owns the temporary file from its creation to its rename or removal. */
#define _POSIX_C_SOURCE 200809L
#include "file/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static vkf_status write_part(vkf_env *env, const char *path, int fd, const vkf_file_part *part) {
  const char *data = part->data;
  size_t left = part->bytes;
  while (left > 0) {
    ssize_t n = write(fd, data, left);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return vkf_env_fail(env, VKF_ERROR_FILE, "%s: cannot be written: %s", path, strerror(errno));
    data += n;
    left -= (size_t)n;
  }
  return VKF_OK;
}

/* A new file beside `path`; its name is left in `temporary`. mkstemp would ignore the user's umask. */
static vkf_status create_temporary(vkf_env *env, const char *path, vkf_text *temporary, int *fd) {
  for (int attempt = 0; attempt < 100; attempt++) {
    temporary->size = 0;
    vkf_text_printf(temporary, "%s.%ld-%llx.tmp", path, (long)getpid(), (unsigned long long)vkf_clock_ns());
    if (vkf_text_status(temporary) != VKF_OK) return VKF_ERROR_MEMORY;
    *fd = open(temporary->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*fd >= 0) return VKF_OK;
    if (errno != EEXIST) break;
  }
  return vkf_env_fail(env, VKF_ERROR_FILE, "%s: cannot be written: a file beside it cannot be created: %s", path,
                      strerror(errno));
}

/* Makes the rename durable. Not every file system can; then the rename is merely atomic. */
static void sync_folder(vkf_env *env, const char *path) {
  const char *slash = strrchr(path, '/');
  vkf_text folder;
  vkf_text_init(&folder, env);
  if (slash == NULL)
    vkf_text_printf(&folder, ".");
  else
    vkf_text_append(&folder, path, (size_t)(slash - path) + 1);
  int fd = folder.failed ? -1 : open(folder.data, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  vkf_text_finish(&folder);
}

vkf_status vkf_file_write(vkf_env *env, const char *path, const vkf_file_part *parts, size_t n_parts) {
  vkf_status st = VKF_OK;
  int fd = -1;
  bool created = false;
  struct stat facts;
  vkf_text temporary;
  vkf_text_init(&temporary, env);
  if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
    VKF_FAIL(env, VKF_ERROR_FILE, "%s: expected a regular file to replace, found something else", path);
  VKF_TRY(create_temporary(env, path, &temporary, &fd));
  created = true;
  for (size_t i = 0; i < n_parts; i++) VKF_TRY(write_part(env, path, fd, &parts[i]));
  if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
    VKF_FAIL(env, VKF_ERROR_FILE, "%s: cannot be written: %s", path, strerror(errno));
  int closed = close(fd);
  fd = -1;
  if (closed != 0) VKF_FAIL(env, VKF_ERROR_FILE, "%s: cannot be written: %s", path, strerror(errno));
  if (rename(temporary.data, path) != 0)
    VKF_FAIL(env, VKF_ERROR_FILE, "%s: cannot be replaced: %s", path, strerror(errno));
  created = false;
  sync_folder(env, path);
done:
  if (fd >= 0) close(fd);
  if (created) unlink(temporary.data);
  vkf_text_finish(&temporary);
  return st;
}
