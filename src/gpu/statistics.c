/* Statistics of a pipeline, as the driver that compiled it reports them (VK_KHR_pipeline_executable_properties).
 *
 * Owns nothing. The names under which drivers report spilled registers are known here; all other names and numbers are
 * passed on as they are. Invariant: everything in the list came from the driver; without the extension the list is
 * empty.
 */
#include <string.h>

#include "gpu/vk.h"

static double number(const VkPipelineExecutableStatisticKHR *s) {
  switch (s->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
      return s->value.b32 != 0;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
      return (double)s->value.i64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
      return (double)s->value.u64;
    default:
      return s->value.f64;
  }
}

typedef struct list {
  vkf_env *env;
  vkf_arena *arena;
  vkf_bench_statistic *all; /* in the arena, as are the shorter lists that it replaces */
  size_t n;
} list;

/* Adds the statistics of one of a pipeline's programs. */
static vkf_status add_program(vkf_gpu_device *device, VkPipeline pipeline, uint32_t index, const char *prefix,
                              list *l) {
  vkf_status st = VKF_OK;
  const VkPipelineExecutableInfoKHR info = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline, .executableIndex = index};
  uint32_t n = 0;
  VkPipelineExecutableStatisticKHR *found = NULL;
  VKF_TRY(VKF_VK(device, GetPipelineExecutableStatisticsKHR, device->handle, &info, &n, NULL));
  found = vkf_env_alloc(l->env, n, sizeof *found);
  vkf_bench_statistic *all = vkf_arena_alloc(l->arena, l->n + n, sizeof *all);
  if (!found || !all) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < n; i++) found[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
  VKF_TRY(VKF_VK(device, GetPipelineExecutableStatisticsKHR, device->handle, &info, &n, found));
  for (size_t i = 0; i < l->n; i++) all[i] = l->all[i];
  for (uint32_t i = 0; i < n; i++) {
    found[i].name[sizeof found[i].name - 1] = 0;
    const char *name = vkf_arena_printf(l->arena, "%s%s%s", prefix, *prefix ? ": " : "", found[i].name);
    if (!name) VKF_TRY(VKF_ERROR_MEMORY);
    all[l->n + i] = (vkf_bench_statistic){name, number(&found[i])};
  }
  l->all = all;
  l->n += n;
done:
  vkf_env_free(l->env, found);
  return st;
}

vkf_status vkf_gpu_pipeline_statistics(vkf_gpu_device *device, const vkf_gpu_pipeline *pipeline, vkf_arena *arena,
                                       vkf_bench_statistic **out, size_t *n) {
  vkf_status st = VKF_OK;
  const VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline->handle};
  list l = {.env = device->env, .arena = arena};
  uint32_t n_programs = 0;
  VkPipelineExecutablePropertiesKHR *programs = NULL;
  *out = NULL;
  *n = 0;
  if (!pipeline->statistics || !device->caps.pipeline_statistics) return VKF_OK;
  VKF_TRY(VKF_VK(device, GetPipelineExecutablePropertiesKHR, device->handle, &info, &n_programs, NULL));
  programs = vkf_env_alloc(device->env, n_programs, sizeof *programs);
  if (!programs) VKF_TRY(VKF_ERROR_MEMORY);
  for (uint32_t i = 0; i < n_programs; i++) programs[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
  VKF_TRY(VKF_VK(device, GetPipelineExecutablePropertiesKHR, device->handle, &info, &n_programs, programs));
  for (uint32_t i = 0; i < n_programs; i++) {
    programs[i].name[sizeof programs[i].name - 1] = 0;
    VKF_TRY(add_program(device, pipeline->handle, i, n_programs > 1 ? programs[i].name : "", &l));
  }
  *out = l.all;
  *n = l.n;
done:
  vkf_env_free(device->env, programs);
  return st;
}

vkf_status vkf_gpu_pipeline_count_spills(vkf_gpu_device *device, vkf_gpu_pipeline *pipeline) {
  /* RADV; NVK; Honeykrisp and panvk; ANV and PowerVR; Turnip; v3dv. */
  static const char *const names[] = {"Spilled VGPRs", "Spills to memory", "Spills",
                                      "Spill count",   "STP Count",        "TMU Spills"};
  vkf_status st = VKF_OK;
  vkf_bench_statistic *all = NULL;
  size_t n = 0;
  vkf_arena arena;
  vkf_arena_init(&arena, device->env);
  VKF_TRY(vkf_gpu_pipeline_statistics(device, pipeline, &arena, &all, &n));
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < VKF_COUNT(names); k++)
      if (!strcmp(all[i].name, names[k]) && all[i].value > 0) pipeline->spills += (uint32_t)VKF_MIN(all[i].value, 1e6);
done:
  vkf_arena_finish(&arena);
  return st;
}

uint32_t vkf_gpu_pipeline_spills(const vkf_gpu_pipeline *pipeline) {
  return pipeline->spills;
}
