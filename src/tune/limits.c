/* limits: lowers the facts of a device before it is made, so that no feature or size beyond them is used. The classes
 * of devices have the facts that drivers report for them.
 */
#include "tune/limits.h"

#include <stddef.h>
#include <string.h>

#include "file/json.h"

typedef enum fact_kind { WHOLE32, WHOLE64, FLAG, SUBGROUPS } fact_kind;

/* least: what Vulkan 1.1 guarantees on every device (its table "Required Limits") and shaders need; 1 for limits that
 * only say into how many parts data are split, because plans split data for any such limit. */
static const struct {
  const char *key;
  fact_kind kind;
  size_t offset;
  uint32_t least;
} facts[] = {
#define FACT(kind, member, least) \
  { #member, kind, offsetof(vkf_caps, member), least }
    FACT(WHOLE32, max_shared_bytes, 16384),
    FACT(WHOLE32, max_invocations, 128),
    FACT(SUBGROUPS, subgroup_size, 0),
    FACT(SUBGROUPS, subgroup_min, 0),
    FACT(SUBGROUPS, subgroup_max, 0),
    FACT(WHOLE32, max_texel_elements, 65536),
    FACT(WHOLE32, max_storage_bindings, 4),
    FACT(WHOLE32, max_workgroup_count, 1), /* of the first dimension; the others get no more */
    FACT(WHOLE32, max_push_bytes, 128),
    FACT(WHOLE32, max_loop_turns, 1),
    FACT(FLAG, indexed_registers, 0),
    FACT(FLAG, matrices_ahead, 0),
    FACT(FLAG, is_cpu, 0), /* false: plans and kernels of a GPU */
    FACT(FLAG, float16, 0),
    FACT(FLAG, storage16, 0),
    FACT(FLAG, storage8, 0),
    FACT(FLAG, int64, 0),
    FACT(FLAG, buffer_address, 0),
    FACT(FLAG, integer_dot, 0),
    FACT(FLAG, coopmat, 0),
    FACT(FLAG, timestamps, 0),
    FACT(FLAG, host_visible, 0),
    FACT(WHOLE64, max_allocation_bytes, 1),
    FACT(WHOLE64, max_storage_range_bytes, 1),
#undef FACT
};

/* Classes of devices, in the words of a limits file. What is not named has no limit. From:
 * - least: Vulkan 1.1, "Required Limits" and the features that it leaves to devices; 64 MiB of one allocation.
 * - pi: V3D 7.1 (Raspberry Pi 5) by v3dv: get_features() and get_device_properties() of Mesa 26's v3dv_device.c,
 *   v3d_limits.h and v3dv_limits.h; indexed registers by scripts/farm.
 * - mali: G52 by panvk: the same functions of panvk_vX_physical_device.c for architecture 7, pan_subgroup_size(); 384
 *   invocations are what panfrost_max_thread_count() allows those that keep more than 32 registers, and what Arm's own
 *   driver reports.
 * - adreno: the lesser of 630 and 730, as Turnip of Mesa 26.2.6 reports them to vulkaninfo under mesa-drm-shim.
 * - intel: integrated GPUs of generations 9 to 12 by anv: get_properties() of Mesa 26's anv_physical_device.c (no shim
 *   opens them).
 * - m1, deck: Apple M1 by Honeykrisp and the Steam Deck's chip (Van Gogh, RDNA 2) by RADV, as adreno.
 * None of them has matrix cores for Vulkan; those of Intel's discrete GPUs (generation 12.5 on) are not in this class.
 */
static const struct {
  const char *name, *json;
} classes[] = {
    {"least",
     "{\"max_shared_bytes\": 16384, \"max_invocations\": 128, \"subgroup_size\": 0, \"float16\": false, \"coopmat\": "
     "false, \"int64\": false, \"storage16\": false, \"storage8\": false, \"buffer_address\": false,"
     " \"max_texel_elements\": 65536, \"max_storage_bindings\": 8, \"max_workgroup_count\": 65535, \"max_push_bytes\": "
     "128, \"max_storage_range_bytes\": 134217728, \"max_allocation_bytes\": 67108864}"},
    {"pi",
     "{\"is_cpu\": false, \"coopmat\": false,"
     " \"max_shared_bytes\": 32768, \"max_invocations\": 256, \"subgroup_size\": 16, \"indexed_registers\": false,"
     " \"float16\": false, \"int64\": false, \"max_texel_elements\": 268435456, \"max_storage_bindings\": 8,"
     " \"max_workgroup_count\": 65535, \"max_push_bytes\": 128, \"max_storage_range_bytes\": 1073741824, "
     "\"max_allocation_bytes\": 1073741824}"},
    {"mali",
     "{\"is_cpu\": false, \"coopmat\": false,"
     " \"max_shared_bytes\": 32768, \"max_invocations\": 384, \"subgroup_size\": 8, \"float16\": false,"
     " \"max_workgroup_count\": 65535, \"timestamps\": false, \"max_push_bytes\": 256,"
     " \"max_storage_range_bytes\": 4294967295, \"max_allocation_bytes\": 4294967295}"},
    {"adreno",
     "{\"is_cpu\": false, \"coopmat\": false,"
     " \"max_shared_bytes\": 32768, \"max_invocations\": 2048, \"subgroup_min\": 64, \"subgroup_max\": 128,"
     " \"storage16\": false, \"storage8\": false, \"max_texel_elements\": 134217728, \"max_workgroup_count\": 65535,"
     " \"max_push_bytes\": 256, \"max_storage_range_bytes\": 134217728, \"max_allocation_bytes\": 4294967295}"},
    {"intel",
     "{\"is_cpu\": false, \"coopmat\": false,"
     " \"max_shared_bytes\": 65536, \"max_invocations\": 1024, \"subgroup_min\": 8, \"subgroup_max\": 32,"
     " \"max_texel_elements\": 134217728, \"max_workgroup_count\": 65535, \"max_push_bytes\": 256,"
     " \"max_storage_range_bytes\": 4294967295}"},
    {"m1",
     "{\"is_cpu\": false, \"coopmat\": false,"
     " \"max_shared_bytes\": 32768, \"max_invocations\": 1024, \"subgroup_size\": 32,"
     " \"max_texel_elements\": 268435456, \"max_workgroup_count\": 65535, \"max_push_bytes\": 256,"
     " \"max_storage_range_bytes\": 2147483647}"},
    {"deck",
     "{\"is_cpu\": false, \"coopmat\": false,"
     " \"max_shared_bytes\": 65536, \"max_invocations\": 1024, \"subgroup_min\": 32, \"subgroup_max\": 64,"
     " \"max_texel_elements\": 536870912, \"max_workgroup_count\": 65535, \"max_push_bytes\": 256,"
     " \"max_storage_range_bytes\": 4294967295, \"max_allocation_bytes\": 4294967292}"},
};

/* Keeps the sizes from least to most; all sizes are powers of two. Kernels that are written for one subgroup size run
 * only with that size. */
static void limit_subgroups(vkf_caps *caps, uint32_t least, uint32_t most) {
  uint32_t first = caps->subgroup_min, last = caps->subgroup_max;
  while (first && first < least && first <= last / 2) first *= 2;
  while (last > most && last / 2 >= first) last /= 2;
  const bool is_there = first >= least && last <= most;
  const bool is_ours = caps->subgroup_size_control || (first == caps->subgroup_min && last == caps->subgroup_max);
  if (!is_there || !is_ours) {
    caps->subgroup_ballot = caps->subgroup_shuffle = caps->subgroup_arithmetic = false;
    return;
  }
  caps->subgroup_min = first;
  caps->subgroup_max = last;
  caps->subgroup_size = VKF_MIN(VKF_MAX(caps->subgroup_size, first), last);
}

static vkf_status apply_fact(vkf_env *env, size_t f, vkf_file_value object, vkf_caps *caps) {
  void *fact = (char *)caps + facts[f].offset;
  int64_t number = 0;
  if (facts[f].kind == FLAG) {
    bool on = true;
    VKF_CALL(vkf_file_json_get_bool(object, facts[f].key, &on));
    *(bool *)fact = *(bool *)fact && on;
    return VKF_OK;
  }
  VKF_CALL(vkf_file_json_get_int64(object, facts[f].key, &number));
  if (number < facts[f].least)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "limits: %s: expected at least %u%s, found %lld", facts[f].key,
                        facts[f].least, facts[f].least > 1 ? ", which Vulkan promises" : "", (long long)number);
  if (facts[f].kind == SUBGROUPS) {
    const uint32_t size = (uint32_t)VKF_MIN(number, UINT32_MAX);
    limit_subgroups(caps, facts[f].offset == offsetof(vkf_caps, subgroup_max) ? 0 : size,
                    facts[f].offset == offsetof(vkf_caps, subgroup_min) ? UINT32_MAX : size);
  } else if (facts[f].kind == WHOLE32)
    *(uint32_t *)fact = (uint32_t)VKF_MIN(*(uint32_t *)fact, (uint64_t)number);
  else
    *(uint64_t *)fact = VKF_MIN(*(uint64_t *)fact, (uint64_t)number);
  return VKF_OK;
}

vkf_status vkf_tune_limits_apply(vkf_env *env, const char *limits, vkf_caps *caps) {
  vkf_status st = VKF_OK;
  vkf_file_json *document = NULL;
  vkf_file_value object;
  const char *json = NULL, *keys[VKF_COUNT(facts)];
  vkf_text names; /* of classes, or of unknown keys */
  vkf_text_init(&names, env);
  for (size_t i = 0; i < VKF_COUNT(classes); i++)
    if (!strcmp(classes[i].name, limits)) json = classes[i].json;
  if (json)
    VKF_TRY(vkf_file_json_parse(env, limits, json, strlen(json), &document));
  else
    st = vkf_file_json_read(env, limits, &document);
  if (st == VKF_ERROR_FILE) {
    vkf_env_clear(env);
    for (size_t i = 0; i < VKF_COUNT(classes); i++) vkf_text_printf(&names, "%s%s", i ? ", " : "", classes[i].name);
    VKF_TRY(vkf_text_status(&names));
    VKF_FAIL(env, VKF_ERROR_FILE, "limits: expected %s or a file, found \"%s\", which cannot be read", names.data,
             limits);
  }
  VKF_TRY(st);
  VKF_TRY(vkf_file_json_as_object(vkf_file_json_root(document), &object));
  for (size_t i = 0; i < VKF_COUNT(facts); i++) keys[i] = facts[i].key;
  if (vkf_file_json_unknown(object, keys, VKF_COUNT(facts), &names) > 0)
    VKF_FAIL(env, VKF_ERROR_FORMAT, "limits %s: expected keys such as max_shared_bytes, found %s", limits, names.data);
  for (size_t i = 0; i < VKF_COUNT(facts); i++)
    if (vkf_file_json_kind(vkf_file_json_member(object, facts[i].key)) != VKF_FILE_ABSENT)
      VKF_TRY(apply_fact(env, i, object, caps));
  if (caps->kind == VKF_DEVICE_CPU && !caps->is_cpu) { /* a GPU from here on: kernels, weights and memory follow it */
    caps->kind = VKF_DEVICE_OTHER;
    caps->uniform_loads = false;
  }
  for (int i = 0; i < 3; i++) {
    caps->max_workgroup_size[i] = VKF_MIN(caps->max_workgroup_size[i], caps->max_invocations);
    caps->max_workgroup_count[i] = VKF_MIN(caps->max_workgroup_count[i], caps->max_workgroup_count[0]);
  }
done:
  vkf_file_json_destroy(&document);
  vkf_text_finish(&names);
  return st;
}
