/* write: see write.h. Owns the temporary file from its creation to its rename or removal. */
#define _POSIX_C_SOURCE 200809L
#include "file/write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what a path means ------------------------------------------------------------------------------------------- */

/* What a path leads to. */
typedef struct place {
  int open_fd; /* the descriptor by which this process has it open already; -1: none */
  bool exists;
  struct stat facts; /* if it exists */
} place;

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Returns the descriptor that a path such as /dev/fd/7 names; -1: none. */
static int named_descriptor(const char *path) {
  static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
  for (size_t i = 0; i < VKF_COUNT(folders); i++) {
    const size_t n = strlen(folders[i]);
    char *end = NULL;
    if (strncmp(path, folders[i], n) != 0 || path[n] < '0' || path[n] > '9') continue;
    const long fd = strtol(path + n, &end, 10);
    if (*end == '\0' && fd <= INT_MAX) return (int)fd;
  }
  return -1;
}

/* Returns the descriptor if this file is standard output or error (for example /dev/stdout), because what was written
 * there before must stay; else -1. */
static int standard_descriptor(const struct stat *facts) {
  struct stat other;
  for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
    if (fstat(fd, &other) == 0 && is_same(facts, &other)) return fd;
  return -1;
}

/* Sets `target` to the path behind all symbolic links at the end of `path`, even if nothing is there yet. */
static vkf_status follow_links(vkf_env *env, const char *path, vkf_text *target) {
  enum { MAX_LINKS = 40 }; /* as many as Linux follows */
  char link[4096];
  vkf_text_append(target, path, strlen(path));
  for (int i = 0; i < MAX_LINKS && !target->failed; i++) {
    const ssize_t n = readlink(target->data, link, sizeof link);
    if (n < 0) return VKF_OK; /* no link */
    if (n == (ssize_t)sizeof link) break;
    const char *slash = strrchr(target->data, '/');
    target->size = link[0] == '/' || slash == NULL ? 0 : (size_t)(slash - target->data) + 1;
    vkf_text_append(target, link, (size_t)n);
  }
  if (target->failed) return VKF_ERROR_MEMORY;
  return vkf_env_fail(env, VKF_ERROR_FILE, "%s: cannot be written: %s", path, strerror(ELOOP));
}

static vkf_status find_place(vkf_env *env, const char *path, vkf_text *target, place *out) {
  *out = (place){.open_fd = -1};
  if (path[0] == '\0')
    return vkf_env_fail(env, VKF_ERROR_FILE, "expected the name of a file to write, found an empty one");
  out->open_fd = named_descriptor(path);
  out->exists = stat(path, &out->facts) == 0;
  if (out->exists && out->open_fd < 0) out->open_fd = standard_descriptor(&out->facts);
  if (out->open_fd >= 0) return VKF_OK;
  if (out->exists && S_ISDIR(out->facts.st_mode))
    return vkf_env_fail(env, VKF_ERROR_FILE, "%s: cannot be written: %s", path, strerror(EISDIR));
  if (out->exists && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
    return vkf_env_fail(env, VKF_ERROR_FILE, "%s: cannot be written: %s", path, strerror(errno));
  return follow_links(env, path, target);
}

/* Appends the folder of a file, with a slash at its end; "./" if the path names none. */
static void folder_of(const char *path, vkf_text *out) {
  const char *slash = strrchr(path, '/');
  if (slash == NULL)
    vkf_text_append(out, "./", 2);
  else
    vkf_text_append(out, path, (size_t)(slash - path) + 1);
}

vkf_status vkf_file_write_check(vkf_env *env, const char *path) {
  vkf_status st = VKF_OK;
  place where;
  vkf_text target, folder;
  vkf_text_init(&target, env);
  vkf_text_init(&folder, env);
  VKF_TRY(find_place(env, path, &target, &where));
  if (where.open_fd >= 0 || (where.exists && !S_ISREG(where.facts.st_mode))) goto done;
  folder_of(target.data, &folder);
  VKF_TRY(vkf_text_status(&folder));
  if (faccessat(AT_FDCWD, folder.data, W_OK | X_OK, AT_EACCESS) != 0)
    VKF_FAIL(env, VKF_ERROR_FILE, "%s: cannot be written: %s (creating a file next to it)", path, strerror(errno));
done:
  vkf_text_finish(&folder);
  vkf_text_finish(&target);
  return st;
}

/* ---- the writer -------------------------------------------------------------------------------------------------- */

/* Creates a file beside the target and leaves its name in w->temporary. mkstemp() would ignore the user's umask. */
static vkf_status create_temporary(vkf_file_writer *w) {
  for (int attempt = 0; attempt < 100; attempt++) {
    w->temporary.size = 0;
    vkf_text_printf(&w->temporary, "%s.%ld-%llx.tmp", w->target.data, (long)getpid(),
                    (unsigned long long)vkf_clock_ns());
    if (vkf_text_status(&w->temporary) != VKF_OK) return VKF_ERROR_MEMORY;
    w->fd = open(w->temporary.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    w->is_created = w->fd >= 0;
    if (w->is_created) return VKF_OK;
    if (errno != EEXIST) break;
  }
  return vkf_env_fail(w->env, VKF_ERROR_FILE, "%s: cannot be written: %s (creating a file next to it)", w->path,
                      strerror(errno));
}

/* Copies owner, group and mode of the file that will be replaced. Only root may give a file away: if the owner cannot
 * be kept, the mode loses setuid; if the group cannot, setgid and the group's bits. */
static vkf_status keep_mode(const vkf_file_writer *w, const struct stat *old) {
  struct stat now;
  mode_t mode = old->st_mode & 07777;
  if (fstat(w->fd, &now) != 0)
    return vkf_env_fail(w->env, VKF_ERROR_FILE, "%s: cannot be written: %s", w->path, strerror(errno));
  const bool is_owner_kept = now.st_uid == old->st_uid || fchown(w->fd, old->st_uid, (gid_t)-1) == 0;
  const bool is_group_kept = now.st_gid == old->st_gid || fchown(w->fd, (uid_t)-1, old->st_gid) == 0;
  if (!is_owner_kept) mode &= ~(mode_t)S_ISUID;
  if (!is_group_kept) mode &= ~(mode_t)(S_ISGID | S_IRWXG);
  if (fchmod(w->fd, mode) == 0) return VKF_OK;
  return vkf_env_fail(w->env, VKF_ERROR_FILE, "%s: cannot be written: its mode cannot be kept: %s", w->path,
                      strerror(errno));
}

/* Makes the rename durable. Not every file system can; then the rename is merely atomic. */
static void sync_folder(vkf_env *env, const char *path) {
  vkf_text folder;
  vkf_text_init(&folder, env);
  folder_of(path, &folder);
  int fd = folder.failed ? -1 : open(folder.data, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  vkf_text_finish(&folder);
}

vkf_status vkf_file_writer_open(vkf_env *env, const char *path, vkf_file_writer *writer) {
  place where;
  *writer = (vkf_file_writer){.env = env, .path = path, .fd = -1};
  vkf_text_init(&writer->target, env);
  vkf_text_init(&writer->temporary, env);
  VKF_CALL(find_place(env, path, &writer->target, &where));
  if (where.open_fd >= 0 || (where.exists && !S_ISREG(where.facts.st_mode))) {
    writer->fd =
        where.open_fd >= 0 ? fcntl(where.open_fd, F_DUPFD_CLOEXEC, 3) : open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (writer->fd < 0) return vkf_env_fail(env, VKF_ERROR_FILE, "%s: cannot be written: %s", path, strerror(errno));
  } else {
    VKF_CALL(create_temporary(writer));
    if (where.exists) VKF_CALL(keep_mode(writer, &where.facts));
  }
  return VKF_OK;
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
  if (w->is_created && fsync(w->fd) != 0 && errno != EINVAL && errno != ENOTSUP)
    return vkf_env_fail(w->env, VKF_ERROR_FILE, "%s: cannot be written: %s", w->path, strerror(errno));
  int closed = close(w->fd);
  w->fd = -1;
  if (closed != 0) return vkf_env_fail(w->env, VKF_ERROR_FILE, "%s: cannot be written: %s", w->path, strerror(errno));
  if (!w->is_created) return VKF_OK; /* written directly */
  if (rename(w->temporary.data, w->target.data) != 0)
    return vkf_env_fail(w->env, VKF_ERROR_FILE, "%s: cannot be replaced: %s", w->path, strerror(errno));
  w->is_created = false;
  sync_folder(w->env, w->target.data);
  return VKF_OK;
}

void vkf_file_writer_finish(vkf_file_writer *w) {
  if (w->fd >= 0) close(w->fd);
  if (w->is_created) unlink(w->temporary.data);
  vkf_text_finish(&w->temporary);
  vkf_text_finish(&w->target);
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
