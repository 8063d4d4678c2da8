/* compiled: keeps the kernels that a driver compiled, in the driver's form, in the cache folder between runs.
 *
 * Owns one file for each device and driver, "pipelines-KEY.bin". It begins with a length and a hash of the driver's
 * bytes, because drivers do not check them; an incomplete file is refused. Invariant: if anything is wrong with the
 * file, kernels are compiled again.
 *
 * Drivers that keep everything on disk themselves do not need this; a driver that puts nothing into the cache gets no
 * file. lavapipe keeps a part itself; the file has the rest (gpu/shader_objects.c).
 */
#ifndef VKF_TUNE_COMPILED_H
#define VKF_TUNE_COMPILED_H

#include "tune/tuning.h"

/* Opens the driver's cache, with the file if there is one, for pipelines made on t->gpu from now on. Does nothing
 * without a cache folder. */
void vkf_tune_compiled_open(vkf_tuning *t);
/* Writes what the driver has compiled since, if it differs from the file. */
void vkf_tune_compiled_close(vkf_tuning *t);

/* Returns the driver's bytes inside of a file; NULL: the file is damaged. */
const void *vkf_tune_compiled_unwrap(const char *file, size_t n_file, size_t *n);
/* Returns a file with these bytes, from vkf_env_alloc; NULL: out of memory. */
char *vkf_tune_compiled_wrap(vkf_env *env, const void *bytes, size_t n, size_t *n_file);

#endif
