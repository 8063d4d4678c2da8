/* map: see map.h. Owns the calls to open, mmap and read. */
#define _DEFAULT_SOURCE /* madvise */
#include "file/map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_READ_BYTES (64 * 1024)

/* Opens a file without waiting for the writer of a pipe: a pipe without a writer reads as empty. */
static vkf_status open_file(vkf_env *env, const char *path, int *fd, struct stat *facts) {
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*fd < 0) return vkf_env_fail(env, VKF_ERROR_FILE, "%s: cannot be opened: %s", path, strerror(errno));
  if (fstat(*fd, facts) != 0)
    return vkf_env_fail(env, VKF_ERROR_FILE, "%s: cannot be examined: %s", path, strerror(errno));
  if (S_ISDIR(facts->st_mode)) return vkf_env_fail(env, VKF_ERROR_FILE, "%s: expected a file, found a folder", path);
  if (!S_ISREG(facts->st_mode) && !S_ISFIFO(facts->st_mode))
    return vkf_env_fail(env, VKF_ERROR_FILE, "%s: expected a file or a pipe, found a device", path);
  if (fcntl(*fd, F_SETFL, 0) != 0)
    return vkf_env_fail(env, VKF_ERROR_FILE, "%s: cannot be read: %s", path, strerror(errno));
  return VKF_OK;
}

/* Reads to the end, whatever size the system promised: for a pipe it is 0. */
static vkf_status read_all(vkf_env *env, const char *path, int fd, size_t promised, vkf_file_map *map) {
  vkf_status st = VKF_OK;
  uint8_t *data = NULL;
  size_t capacity = 0, size = 0;
  for (;;) {
    if (size == capacity) {
      /* One byte more than promised, so that the read that finds the end needs no larger buffer. */
      size_t want = capacity == 0 ? (promised > 0 ? promised + 1 : FIRST_READ_BYTES) : 2 * capacity;
      uint8_t *grown = vkf_env_realloc(env, data, want, 1);
      if (grown == NULL) VKF_TRY(vkf_env_prefix(env, VKF_ERROR_MEMORY, "%s: ", path));
      data = grown;
      capacity = want;
    }
    ssize_t n = read(fd, data + size, capacity - size);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) VKF_FAIL(env, VKF_ERROR_FILE, "%s: cannot be read: %s", path, strerror(errno));
    size += (size_t)n;
  }
  map->data = data;
  map->bytes = size;
  data = NULL;
done:
  vkf_env_free(env, data);
  return st;
}

static vkf_status open_either(vkf_env *env, const char *path, bool may_map, vkf_file_map *map) {
  vkf_status st = VKF_OK;
  struct stat facts;
  int fd = -1;
  memset(map, 0, sizeof(*map));
  map->env = env;
  VKF_TRY(open_file(env, path, &fd, &facts));
  size_t promised =
      S_ISREG(facts.st_mode) && facts.st_size > 0 && (uintmax_t)facts.st_size < SIZE_MAX ? (size_t)facts.st_size : 0;
  if (may_map && promised > 0) {
    void *data = mmap(NULL, promised, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data != MAP_FAILED) {
      map->data = data;
      map->bytes = promised;
      map->owner = VKF_FILE_OF_SYSTEM;
      goto done;
    }
  }
  VKF_TRY(read_all(env, path, fd, promised, map));
  if (map->bytes == 0 && S_ISFIFO(facts.st_mode))
    VKF_FAIL(env, VKF_ERROR_FILE, "%s: expected bytes from a pipe, found no process that writes to it", path);
done:
  if (st != VKF_OK) vkf_file_map_close(map);
  if (fd >= 0) close(fd);
  return st;
}

vkf_status vkf_file_map_open(vkf_env *env, const char *path, vkf_file_map *map) {
  return open_either(env, path, true, map);
}

vkf_status vkf_file_map_read(vkf_env *env, const char *path, vkf_file_map *map) {
  return open_either(env, path, false, map);
}

void vkf_file_map_rest(const vkf_file_map *map) {
  if (map->owner == VKF_FILE_OF_SYSTEM) madvise((void *)(uintptr_t)map->data, map->bytes, MADV_DONTNEED);
}

void vkf_file_map_close(vkf_file_map *map) {
  if (map->data != NULL) {
    /* The casts drop const: this room made the memory. */
    if (map->owner == VKF_FILE_OF_SYSTEM) munmap((void *)(uintptr_t)map->data, map->bytes);
    if (map->owner == VKF_FILE_OF_ENV) vkf_env_free(map->env, (void *)(uintptr_t)map->data);
  }
  memset(map, 0, sizeof(*map));
}
