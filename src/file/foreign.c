/* foreign: see foreign.h. */
#define _POSIX_C_SOURCE 200809L
#include "file/foreign.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define GGUF "a GGUF file of llama.cpp: use the folder of safetensors that it was converted from"

/* Files by which folders of other programs are recognised, and what to do with these folders. */
static const struct {
  const char *file, *what;
} KNOWN[] = {
    {"adapter_config.json", "a LoRA adapter of PEFT: merge it into its base model (merge_and_unload) and save that"},
    {"model.bin", "a model of CTranslate2: use the folder on the Hub that it was converted from"},
    {"model.npz", "a model of Marian: transformers' convert_marian_to_pytorch.py makes a Hugging Face folder of it"},
    {"tf_model.h5", "weights of TensorFlow: load them with from_tf=True in transformers 4 and save_pretrained()"},
    {"saved_model.pb", "a model of TensorFlow: use its folder of safetensors on the Hub"},
    {"flax_model.msgpack", "weights of Flax: load them with from_flax=True in transformers 4 and save_pretrained()"},
    {"model.onnx", "a model of ONNX: use the folder of safetensors that it was exported from"},
    {"onnx/model.onnx", "a model of ONNX: use the folder of safetensors that it was exported from"},
    {"weights.npz", "weights of MLX: use the folder of safetensors that they were converted from"},
};

static bool is_there(const char *folder, const char *file) {
  char path[4096];
  struct stat facts;
  int n = snprintf(path, sizeof path, "%s/%s", folder, file);
  return n > 0 && n < (int)sizeof path && stat(path, &facts) == 0;
}

static const char *known_folder(const char *folder) {
  for (size_t i = 0; i < VKF_COUNT(KNOWN); i++)
    if (is_there(folder, KNOWN[i].file)) return KNOWN[i].what;
  return NULL;
}

/* Returns whether a folder has a file whose name ends in .gguf; llama.cpp prescribes no name. */
static bool has_gguf(const char *folder) {
  bool found = false;
  DIR *dir = opendir(folder);
  for (const struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL && !found; entry = readdir(dir))
    found = vkf_ends_with(entry->d_name, ".gguf");
  if (dir != NULL) closedir(dir);
  return found;
}

const char *vkf_file_foreign_bytes(const void *data, size_t bytes) {
  static const struct {
    const char *begin, *what;
    size_t n;
  } rows[] = {
      {"GGUF", GGUF, 4},
      {"version https://git-lfs", "a pointer of git-LFS, not the file itself: fetch it by \"git lfs pull\"", 23},
      {"PK\003\004", "a pickle of PyTorch or an archive: scripts/convert makes a safetensors file of pytorch_model.bin",
       4},
  };
  for (size_t i = 0; i < VKF_COUNT(rows); i++)
    if (bytes >= rows[i].n && memcmp(data, rows[i].begin, rows[i].n) == 0) return rows[i].what;
  return vkf_packed(data, bytes);
}

/* Returns whether a path has the form "org/model" and nothing of that name exists here. */
static bool is_hub_name(const char *path) {
  struct stat facts;
  const char *slash = strchr(path, '/');
  return slash != NULL && slash != path && slash[1] && !strchr(slash + 1, '/') && path[0] != '.' &&
         stat(path, &facts) != 0;
}

vkf_status vkf_file_foreign_check(vkf_env *env, const char *path) {
  struct stat facts;
  char begin[32] = "";
  if (is_hub_name(path))
    return vkf_env_fail(
        env, VKF_ERROR_FILE,
        "%s: expected a model folder, found no file or folder of that name; if it is a model of the Hub, "
        "\"hf download %s --local-dir FOLDER\" downloads it",
        path, path);
  if (stat(path, &facts) != 0 && errno == ENOENT)
    return vkf_env_fail(
        env, VKF_ERROR_FILE,
        "%s: expected a model folder, found no file or folder of that name; `vkformer help models` says "
        "how to get one",
        path);
  if (stat(path, &facts) != 0 || (!S_ISDIR(facts.st_mode) && !S_ISREG(facts.st_mode))) return VKF_OK;
  if (S_ISDIR(facts.st_mode)) {
    const char *what = is_there(path, "model.safetensors") ? NULL : known_folder(path);
    if (is_there(path, "pytorch_model.bin") || is_there(path, "model.safetensors.index.json")) what = NULL;
    const bool has_config = is_there(path, "config.json");
    if (what == NULL && !has_config && has_gguf(path)) what = GGUF;
    if (what == NULL && !has_config)
      return vkf_env_fail(env, VKF_ERROR_FILE, "%s: expected a model folder, found a folder without config.json", path);
    if (what == NULL) return VKF_OK;
    return vkf_env_fail(env, VKF_ERROR_FILE, "%s: expected a model folder, found %s", path, what);
  }
  FILE *file = fopen(path, "rb");
  size_t n = file != NULL ? fread(begin, 1, sizeof begin, file) : 0;
  if (file != NULL) fclose(file);
  const char *what = vkf_file_foreign_bytes(begin, n);
  return vkf_env_fail(env, VKF_ERROR_FILE, "%s: expected a model folder, found %s", path,
                      what != NULL ? what : "a file");
}
