/* folder: see folder.h. */
#define _POSIX_C_SOURCE 200809L
#include "file/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static bool is_dot(const char *name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Refuses a target that exists, unless it is an empty folder: then sets *is_there. */
static vkf_status check_target(vkf_env *env, const char *path, bool *is_there) {
  vkf_status st = VKF_OK;
  DIR *dir = opendir(path);
  *is_there = dir != NULL;
  if (dir == NULL && errno != ENOENT)
    VKF_FAIL(env, VKF_ERROR_FILE, "%s: expected a new or empty folder: %s", path, strerror(errno));
  for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL; entry = readdir(dir))
    if (!is_dot(entry->d_name))
      VKF_FAIL(env, VKF_ERROR_FILE, "%s: expected a new or empty folder, found files in it (%s)", path, entry->d_name);
done:
  if (dir != NULL) closedir(dir);
  return st;
}

vkf_status vkf_file_folder_open(vkf_env *env, const char *path, vkf_file_folder *folder) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  folder->env = env;
  folder->is_created = folder->is_inside = false;
  vkf_text_init(&folder->path, env);
  vkf_text_init(&folder->temporary, env);
  vkf_text_append(&folder->path, path, length);
  VKF_CALL(vkf_text_status(&folder->path));
  VKF_CALL(check_target(env, folder->path.data, &folder->is_inside));
  vkf_text_printf(&folder->temporary, "%s%s.%ld-%llx.tmp", folder->path.data, folder->is_inside ? "/" : "",
                  (long)getpid(), (unsigned long long)vkf_clock_ns());
  VKF_CALL(vkf_text_status(&folder->temporary));
  if (mkdir(folder->temporary.data, 0777) != 0)
    return vkf_env_fail(env, VKF_ERROR_FILE, "%s: cannot be created: %s", folder->path.data, strerror(errno));
  folder->is_created = true;
  return VKF_OK;
}

vkf_status vkf_file_folder_check_room(vkf_file_folder *folder, uint64_t bytes) {
  struct statvfs facts;
  if (statvfs(folder->temporary.data, &facts) != 0) return VKF_OK; /* writing will find out */
  if (bytes / facts.f_frsize < facts.f_bavail) return VKF_OK;
  return vkf_env_fail(folder->env, VKF_ERROR_FILE, "%s: expected room for %llu bytes, found %llu", folder->path.data,
                      (unsigned long long)bytes, (unsigned long long)facts.f_bavail * facts.f_frsize);
}

void vkf_file_folder_join(const vkf_file_folder *folder, const char *name, vkf_text *out) {
  vkf_text_printf(out, "%s/%s", folder->temporary.data, name);
}

/* Calls `call` with each file in the temporary folder. Returns false if it fails for one; errno says why. */
static bool each_file(const vkf_file_folder *folder,
                      bool (*call)(const vkf_file_folder *folder, const char *name, const char *path)) {
  bool is_done = true;
  DIR *dir = folder->is_created ? opendir(folder->temporary.data) : NULL;
  for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL && is_done; entry = readdir(dir)) {
    vkf_text file;
    vkf_text_init(&file, folder->env);
    vkf_file_folder_join(folder, entry->d_name, &file);
    if (!is_dot(entry->d_name)) is_done = !file.failed && call(folder, entry->d_name, file.data);
    vkf_text_finish(&file);
  }
  if (dir != NULL) closedir(dir);
  return is_done;
}

static bool move_up(const vkf_file_folder *folder, const char *name, const char *path) {
  vkf_text to;
  vkf_text_init(&to, folder->env);
  vkf_text_printf(&to, "%s/%s", folder->path.data, name);
  const bool is_moved = !to.failed && rename(path, to.data) == 0;
  vkf_text_finish(&to);
  return is_moved;
}

static bool drop(const vkf_file_folder *folder, const char *name, const char *path) {
  (void)folder, (void)name;
  unlink(path);
  return true;
}

vkf_status vkf_file_folder_commit(vkf_file_folder *folder) {
  const bool is_done =
      folder->is_inside ? each_file(folder, move_up) : rename(folder->temporary.data, folder->path.data) == 0;
  if (!is_done)
    return vkf_env_fail(folder->env, VKF_ERROR_FILE, "%s: cannot be created: %s", folder->path.data, strerror(errno));
  if (folder->is_inside) rmdir(folder->temporary.data);
  folder->is_created = false;
  return VKF_OK;
}

void vkf_file_folder_finish(vkf_file_folder *folder) {
  each_file(folder, drop);
  if (folder->is_created) rmdir(folder->temporary.data);
  vkf_text_finish(&folder->temporary);
  vkf_text_finish(&folder->path);
}
