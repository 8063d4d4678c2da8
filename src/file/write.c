/* write: see write.h. Owns the temporary file from its creation to its rename or removal. */
#define _POSIX_C_SOURCE 200809L
#include "file/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

vkf_status vkf_file_writer_open(vkf_env *env, const char *path, vkf_file_writer *writer) {
  vkf_status st = VKF_OK;
  struct stat facts;
  *writer = (vkf_file_writer){.env = env, .path = path, .fd = -1};
  vkf_text_init(&writer->temporary, env);
  if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
    VKF_FAIL(env, VKF_ERROR_FILE, "%s: expected a regular file to replace, found something else", path);
  VKF_TRY(create_temporary(env, path, &writer->temporary, &writer->fd));
  writer->is_created = true;
done:
  return st;
}

vkf_status vkf_file_writer_append(vkf_file_writer *w, const void *data, size_t bytes) {
  const char *next = data;
  while (bytes > 0) {
    ssize_t n = write(w->fd, next, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return vkf_env_fail(w->env, VKF_ERROR_FILE, "%s: cannot be written: %s", w->path, strerror(errno));
    next += n;
    bytes -= (size_t)n;
  }
  return VKF_OK;
}

vkf_status vkf_file_writer_commit(vkf_file_writer *w) {
  vkf_status st = VKF_OK;
  if (fsync(w->fd) != 0 && errno != EINVAL && errno != ENOTSUP)
    VKF_FAIL(w->env, VKF_ERROR_FILE, "%s: cannot be written: %s", w->path, strerror(errno));
  int closed = close(w->fd);
  w->fd = -1;
  if (closed != 0) VKF_FAIL(w->env, VKF_ERROR_FILE, "%s: cannot be written: %s", w->path, strerror(errno));
  if (rename(w->temporary.data, w->path) != 0)
    VKF_FAIL(w->env, VKF_ERROR_FILE, "%s: cannot be replaced: %s", w->path, strerror(errno));
  w->is_created = false;
  sync_folder(w->env, w->path);
done:
  return st;
}

void vkf_file_writer_finish(vkf_file_writer *w) {
  if (w->fd >= 0) close(w->fd);
  if (w->is_created) unlink(w->temporary.data);
  vkf_text_finish(&w->temporary);
}

vkf_status vkf_file_write(vkf_env *env, const char *path, const vkf_file_part *parts, size_t n_parts) {
  vkf_status st = VKF_OK;
  vkf_file_writer writer;
  VKF_TRY(vkf_file_writer_open(env, path, &writer));
  for (size_t i = 0; i < n_parts; i++) VKF_TRY(vkf_file_writer_append(&writer, parts[i].data, parts[i].bytes));
  VKF_TRY(vkf_file_writer_commit(&writer));
done:
  vkf_file_writer_finish(&writer);
  return st;
}
