/* compiled: the kernels that a driver compiled, in its own form, kept in the cache folder between runs.
 *
 * Owns one file a device and driver, "pipelines-KEY.bin". Refuses an incomplete file: it begins with a length and a
 * hash of the driver's bytes, since drivers do not check them. Invariant: if anything is wrong with the file, kernels
 * are compiled again.
 *
 * Drivers that keep all that they make on disk themselves do not need this; a driver that puts nothing into the cache
 * gets no file. Of lavapipe, which keeps a part, the file has the rest (gpu/shader_objects.c).
 */
#ifndef VKF_TUNE_COMPILED_H
#define VKF_TUNE_COMPILED_H

#include "tune/tuning.h"

/* Pipelines made on t->gpu from now on go through the cache; nothing happens without a cache folder. */
void vkf_tune_compiled_open(vkf_tuning *t);
/* Keeps what the driver has compiled since then, if it differs from what the file had. */
void vkf_tune_compiled_close(vkf_tuning *t);

/* The driver's bytes within a file's; NULL: the file is not whole. */
const void *vkf_tune_compiled_unwrap(const char *file, size_t n_file, size_t *n);
/* The file that holds them, from vkf_env_alloc; NULL without memory. */
char *vkf_tune_compiled_wrap(vkf_env *env, const void *bytes, size_t n, size_t *n_file);

#endif
