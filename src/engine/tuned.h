/* tuned: what is known of a device's kernels by measurement: read when it is opened, changed by tuning and importing.
 *
 * Owns the device's rows. Which of them count is decided here, an op at a time: times of this device, else of its
 * architecture, else the short probe's, else of its vendor; what selection makes of them is kern's affair.
 */
#ifndef VKF_ENGINE_TUNED_H
#define VKF_ENGINE_TUNED_H

#include "engine/engine.h"
#include "engine/tuned_file.h"
#include "kern/tuned.h"

/* dev->gpu and dev->backend are there. A cache that cannot be used is no error. Where facts do not decide between two
 * kernels and nothing was measured yet, both are timed, if the result can be kept. */
vkf_status vkf_engine_tuned_open(vkf_device *dev);
void vkf_engine_tuned_close(vkf_device *dev);
/* NULL: nothing is known. */
const vkf_tuned *vkf_engine_tuned(const vkf_device *dev);

/* The rows of `file` that count for a device with this key, into memory of `arena`. */
vkf_status vkf_engine_tuned_resolve(const vkf_tuned_file *file, const vkf_tuned_key *key, const vkf_caps *caps,
                                    vkf_arena *arena, vkf_tuned *out);

#endif
