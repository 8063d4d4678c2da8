/* safetensors_index: finds the file that has the tensors, and reads the index of a sharded model.
 *
 * Refuses shard names that lead out of its folder. Subfolders may hold shards.
 */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <sys/stat.h>

#include "file/internal.h"
#include "file/json.h"

#define ONE_FILE "model.safetensors"
#define INDEX_FILE "model.safetensors.index.json"

/* PyTorch's own files. They are not read, because a pickle is a program that runs when it is loaded. */
static const char *const PICKLES[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};

vkf_status vkf_file_place_find(vkf_arena *arena, const vkf_file_source *source, vkf_file_place *out) {
  static const char *const names[] = {ONE_FILE, INDEX_FILE};
  const char *where = source->folder != NULL ? "this folder" : "memory", *name = vkf_file_source_name(source);
  for (size_t i = 0; i < VKF_COUNT(names); i++) {
    *out = (vkf_file_place){names[i], i == 1};
    if (vkf_file_source_has(source, names[i])) return VKF_OK;
  }
  for (size_t i = 0; i < VKF_COUNT(PICKLES); i++)
    if (vkf_file_source_has(source, PICKLES[i]))
      return vkf_env_fail(arena->env, VKF_ERROR_FILE,
                          "%s: expected " ONE_FILE
                          " in %s, found %s, which is not read; "
                          "\"scripts/convert %s\" of the sources makes " ONE_FILE " of it",
                          name, where, PICKLES[i], source->folder != NULL ? name : "FOLDER");
  return vkf_env_fail(arena->env, VKF_ERROR_FILE, "%s: expected " ONE_FILE " or " INDEX_FILE " in %s, found neither",
                      name, where);
}

vkf_status vkf_file_place_of_path(vkf_arena *arena, const char *path, vkf_file_source *source, vkf_file_place *out) {
  struct stat facts;
  const bool is_folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
  const char *slash = strrchr(path, '/');
  const int folder = slash == NULL || is_folder ? 0 : (int)(slash - path) + 1;
  *source = (vkf_file_source){.folder = is_folder     ? vkf_arena_strdup(arena, path)
                                        : folder == 0 ? "./"
                                                      : vkf_arena_printf(arena, "%.*s", folder, path)};
  if (source->folder == NULL) return VKF_ERROR_MEMORY;
  if (is_folder) return vkf_file_place_find(arena, source, out);
  /* A missing file is reported by whoever opens it. */
  *out = (vkf_file_place){vkf_arena_strdup(arena, path + folder), vkf_ends_with(path, ".index.json")};
  return out->file == NULL ? VKF_ERROR_MEMORY : VKF_OK;
}

/* Returns the index of `shard` in index->files, and adds it if it is new; files has room. */
static size_t file_index(vkf_file_index *index, const char *shard) {
  size_t i = 0;
  while (i < index->n_files && strcmp(index->files[i], shard) != 0) i++;
  if (i == index->n_files) index->files[index->n_files++] = shard;
  return i;
}

/* Returns whether a shard's name is none, begins at the root, or has "..". A backslash separates folders on Windows. */
static bool leads_out(const char *shard) {
  if (shard[0] == '\0' || shard[0] == '/' || strchr(shard, '\\') != NULL) return true;
  for (const char *part = shard; part != NULL; part = strchr(part, '/')) {
    part += *part == '/';
    if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) return true;
  }
  return false;
}

vkf_status vkf_file_index_read(vkf_env *env, const vkf_file_source *source, const char *file, vkf_file_index *out) {
  vkf_status st = VKF_OK;
  vkf_file_json *document = NULL;
  vkf_file_value root, map;
  memset(out, 0, sizeof(*out));
  vkf_arena_init(&out->arena, env);
  VKF_TRY(vkf_file_source_json(env, source, file, &document));
  VKF_TRY(vkf_file_json_as_object(vkf_file_json_root(document), &root));
  VKF_TRY(vkf_file_json_get_object(root, "weight_map", &map));
  size_t n = vkf_file_json_count(map);
  out->files = vkf_arena_alloc(&out->arena, n, sizeof(*out->files));
  out->names = vkf_arena_alloc(&out->arena, n, sizeof(*out->names));
  out->file_of = vkf_arena_alloc(&out->arena, n, sizeof(*out->file_of));
  if (out->files == NULL || out->names == NULL || out->file_of == NULL) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t i = 0; i < n; i++) {
    const char *shard;
    out->names[i] = vkf_arena_strdup(&out->arena, vkf_file_json_key(map, i));
    if (out->names[i] == NULL) VKF_TRY(VKF_ERROR_MEMORY);
    VKF_TRY(vkf_file_json_get_string(map, out->names[i], &shard));
    if (leads_out(shard))
      VKF_FAIL(env, VKF_ERROR_FORMAT,
               "%s: tensor \"%s\": expected the name of a file in the same folder or below it, found \"%s\"",
               vkf_file_source_path(source, &out->arena, file), out->names[i], shard);
    shard = vkf_arena_strdup(&out->arena, shard);
    if (shard == NULL) VKF_TRY(VKF_ERROR_MEMORY);
    out->file_of[i] = file_index(out, shard);
  }
  out->n_names = n;
done:
  vkf_file_json_destroy(&document);
  return st;
}

void vkf_file_index_finish(vkf_file_index *index) {
  vkf_arena_finish(&index->arena);
}
