/* source: see source.h. */
#define _POSIX_C_SOURCE 200809L
#include "file/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *vkf_file_source_name(const vkf_file_source *source) {
  return source->folder != NULL ? source->folder : "memory";
}

const char *vkf_file_source_path(const vkf_file_source *source, vkf_arena *arena, const char *file) {
  const char *folder = source->folder;
  if (folder == NULL || strcmp(folder, "./") == 0) return vkf_arena_strdup(arena, file);
  const size_t n = strlen(folder);
  return vkf_arena_printf(arena, "%s%s%s", folder, n > 0 && folder[n - 1] == '/' ? "" : "/", file);
}

static const vkf_memory_file *find(const vkf_file_source *source, const char *file) {
  for (size_t i = 0; i < source->n; i++)
    if (strcmp(source->files[i].name, file) == 0) return &source->files[i];
  return NULL;
}

bool vkf_file_source_has(const vkf_file_source *source, const char *file) {
  if (source->folder == NULL) return find(source, file) != NULL;
  char path[4096];
  struct stat facts;
  const int n = snprintf(path, sizeof path, "%s/%s", source->folder, file);
  if (n < 0 || n >= (int)sizeof path) return true; /* opening it says what is wrong */
  return lstat(path, &facts) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

vkf_status vkf_file_source_open(vkf_env *env, const vkf_file_source *source, const char *file, vkf_file_map *map) {
  if (source->folder == NULL) {
    const vkf_memory_file *found = find(source, file);
    memset(map, 0, sizeof *map);
    if (found == NULL)
      return vkf_env_fail(env, VKF_ERROR_FILE, "%s: expected a file of this name in memory, found none among %zu", file,
                          source->n);
    *map = (vkf_file_map){.env = env, .data = found->data, .bytes = found->bytes, .owner = VKF_FILE_OF_CALLER};
    return VKF_OK;
  }
  vkf_arena arena;
  vkf_arena_init(&arena, env);
  const char *path = vkf_file_source_path(source, &arena, file);
  const vkf_status st = path != NULL ? vkf_file_map_open(env, path, map) : VKF_ERROR_MEMORY;
  vkf_arena_finish(&arena);
  return st;
}

vkf_status vkf_file_source_json(vkf_env *env, const vkf_file_source *source, const char *file, vkf_file_json **out) {
  vkf_status st = VKF_OK;
  vkf_file_map map = {0};
  vkf_arena arena;
  *out = NULL;
  vkf_arena_init(&arena, env);
  VKF_TRY(vkf_file_source_open(env, source, file, &map));
  const char *path = vkf_file_source_path(source, &arena, file);
  if (path == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_file_json_parse(env, path, (const char *)map.data, map.bytes, out));
done:
  vkf_file_map_close(&map);
  vkf_arena_finish(&arena);
  return st;
}
