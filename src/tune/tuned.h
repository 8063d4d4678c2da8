/* tuned: the measured times of a device's kernels. Read when the device is opened, changed by tuning and importing.
 *
 * Owns the device's rows. For each op, this file decides which rows count: times of this device, else of its
 * architecture, else of the short probe, else of its vendor. The room kern selects by them.
 */
#ifndef VKF_TUNE_TUNED_H
#define VKF_TUNE_TUNED_H

#include <vkformer/lab.h>

#include "tune/tuning.h"

/* Reads the cache. Set env, cache_folder and gpu (with the facts of the driver) before, and the rest to zero. An
 * unusable cache is no error. */
void vkf_tune_open(vkf_tuning *t);
void vkf_tune_close(vkf_tuning *t);
/* Makes the backend use the times that are known now. */
vkf_status vkf_tune_use(vkf_tuning *t);
/* Adds times of this device, to the cache as well if there is one. */
vkf_status vkf_tune_keep_times(vkf_tuning *t, const vkf_tuned_entry *entries, size_t n);
vkf_status vkf_tune_keep_checks(vkf_tuning *t, const vkf_tuned_check *checks, size_t n);
/* Returns the result of a check, which is valid until something is kept; NULL: there is none. */
const char *vkf_tune_found(const vkf_tuning *t, const char *check);

/* vkf_device_store_times(), vkf_device_export_times() and vkf_device_import_times() of a device that has kernels. */
vkf_status vkf_tune_store(vkf_tuning *t, const vkf_kernel_time *times, size_t n);
vkf_status vkf_tune_export(vkf_tuning *t, const char *path);
vkf_status vkf_tune_import(vkf_tuning *t, const char *path, size_t *n_times);

/* Sets the rows of `file` that count for a device with this key, in memory of `arena`. Rows of the reproducible mode
 * count in that mode alone, and there before others of the same source. */
vkf_status vkf_tune_resolve(const vkf_tuned_file *file, const vkf_tuned_key *key, const vkf_caps *caps,
                            bool reproducible, vkf_arena *arena, vkf_tuned *out);

#endif
