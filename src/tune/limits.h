/* limits: makes a device look smaller than it is. */
#ifndef VKF_TUNE_LIMITS_H
#define VKF_TUNE_LIMITS_H

#include "base/base.h"
#include "gpu/caps.h"

/* Lowers the facts of a device to what `limits` says, and raises none. limits: a name of the table (limits.c) or a JSON
 * file, an object with any of the keys max_shared_bytes, max_invocations, subgroup_size (0: no subgroup operations),
 * subgroup_min, subgroup_max, max_storage_range_bytes, max_allocation_bytes, max_texel_elements, max_storage_bindings,
 * max_workgroup_count, max_push_bytes, max_loop_turns (whole numbers), is_cpu (false: kernels and storage of a GPU),
 * indexed_registers, matrices_ahead, float16, coopmat, storage16, storage8, int64, buffer_address, integer_dot,
 * timestamps, host_visible (false removes it). If the device supports no subgroup size between subgroup_min and
 * subgroup_max (subgroup_size: both), subgroup operations are removed. VKF_ERROR_FILE; VKF_ERROR_FORMAT for a bad file,
 * and for values below what Vulkan guarantees and shaders need. */
vkf_status vkf_tune_limits_apply(vkf_env *env, const char *limits, vkf_caps *caps);

#endif
