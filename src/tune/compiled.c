/* compiled: see compiled.h. */
#include "tune/compiled.h"

#include <stdio.h>
#include <string.h>

#include "tune/cache.h"

#define MAX_BYTES (32u << 20) /* a file that grows beyond this is started again */

/* Before the driver's bytes, and in this machine's byte order, as they are. */
typedef struct prefix {
  char magic[16];
  uint64_t n, hash;
} prefix;
static const char magic[16] = "vkf pipelines 1";

const void *vkf_tune_compiled_unwrap(const char *file, size_t n_file, size_t *n) {
  prefix p;
  *n = 0;
  if (n_file < sizeof p) return NULL;
  memcpy(&p, file, sizeof p);
  if (memcmp(p.magic, magic, sizeof magic) != 0 || p.n != n_file - sizeof p) return NULL;
  if (vkf_hash_bytes(VKF_HASH_START, file + sizeof p, n_file - sizeof p) != p.hash) return NULL;
  *n = n_file - sizeof p;
  return file + sizeof p;
}

char *vkf_tune_compiled_wrap(vkf_env *env, const void *bytes, size_t n, size_t *n_file) {
  prefix p = {.n = n, .hash = vkf_hash_bytes(VKF_HASH_START, bytes, n)};
  char *file = vkf_env_alloc(env, sizeof p + n, 1);
  if (!file) return NULL;
  memcpy(p.magic, magic, sizeof magic);
  memcpy(file, &p, sizeof p);
  memcpy(file + sizeof p, bytes, n);
  *n_file = sizeof p + n;
  return file;
}

/* Names one file for each cache header and driver version; the header need not have the version. */
static void name_of(const vkf_caps *caps, char name[64]) {
  uint64_t key = vkf_hash_bytes(VKF_HASH_START, caps->pipeline_cache_uuid, sizeof caps->pipeline_cache_uuid);
  key = vkf_hash_step(vkf_hash_step(key, caps->vendor_id), caps->device_id);
  key = vkf_hash_step(vkf_hash_step(key, caps->driver_id), caps->driver_version);
  snprintf(name, 64, "pipelines-%016llx.bin", (unsigned long long)key);
}

void vkf_tune_compiled_open(vkf_tuning *t) {
  vkf_env *env = t->env;
  const vkf_caps *caps = vkf_gpu_device_caps(t->gpu);
  char name[64], *file = NULL;
  size_t n_file = 0, n = 0;
  if (!t->cache_folder) return;
  name_of(caps, name);
  vkf_tune_cache_read(env, t->cache_folder, name, &file, &n_file);
  const void *bytes = file ? vkf_tune_compiled_unwrap(file, n_file, &n) : NULL;
  if (file && !bytes) vkf_env_log(env, VKF_LOG_WARNING, "%s/%s: not used: it is damaged", t->cache_folder, name);
  if (n > MAX_BYTES) n = 0;
  /* Pipelines can be made without a cache. */
  if (vkf_gpu_pipeline_cache_open(t->gpu, bytes, n)) vkf_env_clear(env);
  t->compiled_hash = n ? vkf_hash_bytes(VKF_HASH_START, bytes, n) : 0;
  vkf_env_free(env, file);
}

void vkf_tune_compiled_close(vkf_tuning *t) {
  vkf_env *env = t->env;
  void *bytes = NULL;
  char name[64], *file = NULL;
  size_t n = 0, n_file = 0;
  /* After a failure the caller still reads its message. */
  if (!t->cache_folder || env->first != VKF_OK) return;
  if (vkf_gpu_pipeline_cache_take(t->gpu, &bytes, &n) == VKF_OK && n > 0 && n <= MAX_BYTES &&
      vkf_hash_bytes(VKF_HASH_START, bytes, n) != t->compiled_hash)
    file = vkf_tune_compiled_wrap(env, bytes, n, &n_file);
  name_of(vkf_gpu_device_caps(t->gpu), name);
  if (file) vkf_tune_cache_write(env, t->cache_folder, name, file, n_file);
  vkf_env_clear(env);
  vkf_env_free(env, file);
  vkf_env_free(env, bytes);
}
