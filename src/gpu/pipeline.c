/* pipeline: makes pipelines from SPIR-V and specialization constants, several at a time, and keeps them by name.
 *
 * Owns pipelines and layouts, which live as long as the device or until they are trimmed. Refuses what exceeds the
 * device's limits before it asks the driver. Invariant: there is one pipeline for a name, constants and kind of
 * subgroups (and a second one if only a later caller wants statistics), and one layout for kinds of bindings and push
 * bytes. Threads exist only inside vkf_gpu_pipelines_make() and call nothing but the driver; only the caller's thread
 * touches the environment, the lists and the device's state.
 */
#include <string.h>

#include "gpu/vk.h"

static VkDescriptorType descriptor_type(vkf_gpu_binding_kind kind) {
  return kind == VKF_GPU_BINDING_STORAGE ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
}

static vkf_gpu_binding_kind kind_of(const vkf_gpu_pipeline_params *params, uint32_t binding) {
  return params->kinds ? params->kinds[binding] : VKF_GPU_BINDING_STORAGE;
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static bool layout_fits(const vkf_gpu_layout *layout, const vkf_gpu_pipeline_params *params) {
  if (layout->n_bindings != params->n_bindings || layout->push_bytes != params->push_bytes) return false;
  for (uint32_t i = 0; i < params->n_bindings; ++i)
    if (layout->kinds[i] != kind_of(params, i)) return false;
  return true;
}

static void destroy_layout(vkf_gpu_device *device, vkf_gpu_layout *layout) {
  if (!layout) return;
  if (layout->pipeline) device->vk.DestroyPipelineLayout(device->handle, layout->pipeline, NULL);
  if (layout->set) device->vk.DestroyDescriptorSetLayout(device->handle, layout->set, NULL);
  vkf_env_free(device->env, layout);
}

static vkf_status get_layout(vkf_gpu_device *device, const vkf_gpu_pipeline_params *params, vkf_gpu_layout **out) {
  vkf_status st = VKF_OK;
  VkDescriptorSetLayoutBinding bindings[VKF_GPU_MAX_BINDINGS];
  for (vkf_gpu_layout *it = device->root->layouts; it; it = it->next)
    if (layout_fits(it, params)) {
      *out = it;
      return VKF_OK;
    }
  vkf_gpu_layout *layout = vkf_env_alloc(device->env, 1, sizeof(*layout));
  if (!layout) return VKF_ERROR_MEMORY;
  layout->n_bindings = params->n_bindings;
  layout->push_bytes = params->push_bytes;
  for (uint32_t i = 0; i < params->n_bindings; ++i) {
    layout->kinds[i] = kind_of(params, i);
    bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                 .descriptorType = descriptor_type(layout->kinds[i]),
                                                 .descriptorCount = 1,
                                                 .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  }
  VkDescriptorSetLayoutCreateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                         .bindingCount = params->n_bindings,
                                         .pBindings = bindings};
  VKF_TRY(VKF_VK(device, CreateDescriptorSetLayout, device->handle, &set, NULL, &layout->set));
  VkPushConstantRange push = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = params->push_bytes};
  VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                     .setLayoutCount = 1,
                                     .pSetLayouts = &layout->set,
                                     .pushConstantRangeCount = params->push_bytes > 0,
                                     .pPushConstantRanges = &push};
  VKF_TRY(VKF_VK(device, CreatePipelineLayout, device->handle, &info, NULL, &layout->pipeline));
  layout->next = device->root->layouts;
  device->root->layouts = layout;
  *out = layout;
done:
  if (st != VKF_OK) destroy_layout(device, layout);
  return st;
}

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

static vkf_status check(vkf_gpu_device *device, const vkf_gpu_pipeline_params *params) {
  const vkf_caps *caps = &device->caps;
  uint32_t storage = 0, texel = 0;
  VKF_CALL(vkf_gpu_device_alive(device));
  if (params->n_bindings > VKF_GPU_MAX_BINDINGS)
    return vkf_env_fail(device->env, VKF_ERROR_UNSUPPORTED, "%s: expected at most %u bindings, found %u", params->name,
                        (unsigned)VKF_GPU_MAX_BINDINGS, params->n_bindings);
  for (uint32_t i = 0; i < params->n_bindings; ++i) kind_of(params, i) == VKF_GPU_BINDING_STORAGE ? ++storage : ++texel;
  if (storage > caps->max_storage_bindings || texel > caps->max_texel_bindings)
    return vkf_env_fail(device->env, VKF_ERROR_UNSUPPORTED,
                        "%s: expected at most %u storage and %u texel bindings on %s, found %u and %u", params->name,
                        caps->max_storage_bindings, caps->max_texel_bindings, caps->device_name, storage, texel);
  if (params->push_bytes > caps->max_push_bytes || params->push_bytes % 4 != 0)
    return vkf_env_fail(device->env, VKF_ERROR_UNSUPPORTED,
                        "%s: expected push constants of a multiple of 4 and at most %u bytes on %s, found %u",
                        params->name, caps->max_push_bytes, caps->device_name, params->push_bytes);
  bool fixed = caps->subgroup_min == caps->subgroup_max && params->subgroup_size == caps->subgroup_min;
  bool chosen = caps->subgroup_size_control && params->subgroup_size >= caps->subgroup_min &&
                params->subgroup_size <= caps->subgroup_max;
  if (params->subgroup_size != 0 && !fixed && !chosen)
    return vkf_env_fail(
        device->env, VKF_ERROR_UNSUPPORTED, "%s: expected a subgroup size from %u to %u (%s) on %s, found %u",
        params->name, caps->subgroup_min, caps->subgroup_max,
        caps->subgroup_size_control ? "to be chosen" : "not to be chosen", caps->device_name, params->subgroup_size);
  if (params->subgroup_full && !caps->subgroup_full)
    return vkf_env_fail(device->env, VKF_ERROR_UNSUPPORTED, "%s: full subgroups cannot be required on %s", params->name,
                        caps->device_name);
  return VKF_OK;
}

static bool is_same(const vkf_gpu_pipeline *pipeline, const vkf_gpu_pipeline_params *params) {
  return pipeline->n_constants == params->n_constants && pipeline->subgroup_size == params->subgroup_size &&
         pipeline->subgroup_full == params->subgroup_full && (pipeline->statistics || !params->statistics) &&
         strcmp(pipeline->name, params->name) == 0 &&
         (params->n_constants == 0 ||
          memcmp(pipeline->constants, params->constants, params->n_constants * sizeof(uint32_t)) == 0);
}

static void destroy_pipeline(vkf_gpu_device *device, vkf_gpu_pipeline *pipeline) {
  vkf_gpu_shader_destroy(device, pipeline);
  if (pipeline->handle) device->vk.DestroyPipeline(device->handle, pipeline->handle, NULL);
  vkf_env_free(device->env, pipeline->name);
  vkf_env_free(device->env, pipeline->constants);
  vkf_env_free(device->env, pipeline);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* A pipeline to make, and all that a thread may touch. */
typedef struct job {
  const vkf_gpu_pipeline_params *params;
  vkf_gpu_pipeline *pipeline; /* NULL once it is in the device's list */
  VkSpecializationMapEntry *entries;
  uint64_t key;
  const vkf_gpu_form *form; /* it is made from this; NULL: from SPIR-V */
  bool is_done;
  VkResult result;
  const char *what; /* the call that returned `result` */
} job;

typedef struct jobs {
  const vkf_gpu_device *device;
  job *at;
  size_t n;
} jobs;

static void make_shader(const vkf_gpu_device *device, const VkSpecializationInfo *constants, job *j) {
  j->what = "vkCreateShadersEXT";
  j->result = vkf_gpu_shader_create(device, j->params, constants, j->form, j->pipeline);
  if (j->result == VK_SUCCESS || !j->form) return;
  j->form = NULL; /* the driver refused it */
  j->result = vkf_gpu_shader_create(device, j->params, constants, NULL, j->pipeline);
}

static void make(const vkf_gpu_device *device, job *j) {
  const vkf_gpu_pipeline_params *params = j->params;
  j->is_done = true;
  VkShaderModule module = VK_NULL_HANDLE;
  VkSpecializationInfo constants = {.mapEntryCount = params->n_constants,
                                    .pMapEntries = j->entries,
                                    .dataSize = params->n_constants * sizeof(uint32_t),
                                    .pData = params->constants};
  if (device->root->forms) {
    make_shader(device, &constants, j);
    return;
  }
  VkShaderModuleCreateInfo code = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = params->code_bytes, .pCode = params->code};
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .requiredSubgroupSize = params->subgroup_size};
  j->what = "vkCreateShaderModule";
  j->result = device->vk.CreateShaderModule(device->handle, &code, NULL, &module);
  if (j->result != VK_SUCCESS) return;
  VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                .module = module,
                                                .pName = "main",
                                                .pSpecializationInfo = params->n_constants ? &constants : NULL},
                                      .layout = j->pipeline->layout->pipeline};
  if (vkf_gpu_requests_size(&device->caps, params->subgroup_size)) info.stage.pNext = &required;
  if (params->statistics && device->caps.pipeline_statistics)
    info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
  if (params->subgroup_full) info.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  j->what = "vkCreateComputePipelines";
  j->result =
      device->vk.CreateComputePipelines(device->handle, device->pipeline_cache, 1, &info, NULL, &j->pipeline->handle);
  device->vk.DestroyShaderModule(device->handle, module, NULL);
}

static void make_part(void *user, uint32_t thread, size_t i) {
  (void)thread;
  const jobs *all = user;
  if (!all->at[i].is_done) make(all->device, &all->at[i]);
}

static bool reads_texels(const vkf_gpu_pipeline_params *params) {
  for (uint32_t i = 0; i < params->n_bindings; ++i)
    if (kind_of(params, i) != VKF_GPU_BINDING_STORAGE) return true;
  return false;
}

static void make_all(const vkf_gpu_device *device, jobs *all) {
  const bool alone = vkf_gpu_compile_begin(&device->caps);
  for (size_t i = 0; alone && i < all->n; ++i) /* lavapipe may compile its texel fetch here */
    if (reads_texels(all->at[i].params)) make(device, &all->at[i]);
  /* One thread with validation layers, because their messages go to the caller's log. */
  vkf_parallel(all->n, vkf_gpu_validation_enabled(device) ? 1 : vkf_cores(), make_part, all);
  vkf_gpu_compile_end(alone);
}

/* Whether forms are kept for a later device. */
static bool keeps_forms(const vkf_gpu_device *device) {
  return device->root->forms && device->root->forms->is_open;
}

/* Does everything of a job that needs the environment: memory and the layout. */
static vkf_status begin_job(vkf_gpu_device *device, const vkf_gpu_pipeline_params *params, job *j) {
  VKF_CALL(check(device, params));
  j->params = params;
  vkf_gpu_pipeline *pipeline = j->pipeline = vkf_env_alloc(device->env, 1, sizeof(*pipeline));
  if (!pipeline) return VKF_ERROR_MEMORY;
  pipeline->name = vkf_env_strdup(device->env, params->name);
  pipeline->constants = vkf_env_alloc(device->env, params->n_constants, sizeof(uint32_t));
  j->entries = vkf_env_alloc(device->env, params->n_constants, sizeof(*j->entries));
  if (!pipeline->name || !pipeline->constants || !j->entries) return VKF_ERROR_MEMORY;
  for (uint32_t i = 0; i < params->n_constants; ++i)
    j->entries[i] = (VkSpecializationMapEntry){.constantID = i, .offset = i * 4, .size = 4};
  if (params->n_constants > 0) memcpy(pipeline->constants, params->constants, params->n_constants * sizeof(uint32_t));
  pipeline->n_constants = params->n_constants;
  pipeline->subgroup_size = params->subgroup_size;
  pipeline->subgroup_full = params->subgroup_full;
  pipeline->statistics = params->statistics;
  if (keeps_forms(device)) {
    j->key = vkf_gpu_shader_key(device, params);
    j->form = vkf_gpu_forms_find(device->root->forms, j->key);
  }
  return get_layout(device, params, &pipeline->layout);
}

static vkf_gpu_pipeline *find(const vkf_gpu_device *device, const vkf_gpu_pipeline_params *params) {
  vkf_gpu_pipeline *it = device->root->pipelines;
  while (it && !is_same(it, params)) it = it->next;
  return it;
}

static bool is_wanted(const vkf_gpu_device *device, const jobs *all, const vkf_gpu_pipeline_params *params) {
  for (size_t i = 0; i < all->n; ++i)
    if (is_same(all->at[i].pipeline, params)) return false;
  return !find(device, params);
}

/* Adds what a job has made to the device, or records its failure. */
static vkf_status end_job(vkf_gpu_device *device, job *j) {
  const char *failing = device->root->faults.fail_pipeline;
  if (failing && !strcmp(failing, j->params->name)) j->result = VK_ERROR_UNKNOWN;
  const vkf_status st = vkf_gpu_device_result(device, j->result, j->what);
  if (st != VKF_OK) return vkf_env_prefix(device->env, st, "pipeline %s: ", j->params->name);
  if (keeps_forms(device) && !j->form) VKF_CALL(vkf_gpu_shader_keep(device, j->key, j->pipeline));
  VKF_CALL(vkf_gpu_pipeline_count_spills(device, j->pipeline));
  device->root->n_pipelines++;
  j->pipeline->next = device->root->pipelines;
  device->root->pipelines = j->pipeline;
  j->pipeline = NULL;
  return VKF_OK;
}

/* Makes those that do not exist. The caller holds the lock, also while drivers compile, because another thread that
 * waits for it often wants the same pipelines. */
static vkf_status make_wanted(vkf_gpu_device *device, const vkf_gpu_pipeline_params *params, size_t n) {
  vkf_status st = VKF_OK;
  jobs all = {.device = device, .at = vkf_env_alloc(device->env, n, sizeof(job))};
  if (!all.at) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < n; ++i) {
    if (!is_wanted(device, &all, &params[i])) continue;
    all.n++;
    VKF_TRY(begin_job(device, &params[i], &all.at[all.n - 1]));
  }
  if (all.n == 0) goto done;
  uint64_t begin = vkf_clock_ns();
  make_all(device, &all);
  device->root->pipelines_ns += vkf_clock_ns() - begin;
  for (size_t i = 0; i < all.n; ++i) VKF_TRY(end_job(device, &all.at[i]));
done:
  for (size_t i = 0; i < all.n; ++i) {
    vkf_env_free(device->env, all.at[i].entries);
    if (all.at[i].pipeline) destroy_pipeline(device, all.at[i].pipeline);
  }
  vkf_env_free(device->env, all.at);
  return st;
}

vkf_status vkf_gpu_pipelines_make(vkf_gpu_device *device, const vkf_gpu_pipeline_params *params, size_t n) {
  pthread_mutex_lock(&device->root->pipelines_lock);
  const vkf_status st = make_wanted(device, params, n);
  pthread_mutex_unlock(&device->root->pipelines_lock);
  return st;
}

vkf_status vkf_gpu_pipeline_get(vkf_gpu_device *device, const vkf_gpu_pipeline_params *params, vkf_gpu_pipeline **out) {
  vkf_status st = VKF_OK;
  pthread_mutex_lock(&device->root->pipelines_lock);
  *out = find(device, params);
  if (!*out) {
    VKF_TRY(make_wanted(device, params, 1));
    *out = find(device, params);
  }
done:
  pthread_mutex_unlock(&device->root->pipelines_lock);
  return st;
}

void vkf_gpu_pipelines_trim(vkf_gpu_device *device, size_t count) {
  if (device->n_pipelines > count) vkf_gpu_queue_drain(device);
  for (; device->n_pipelines > count; device->n_pipelines--) {
    vkf_gpu_pipeline *last = device->pipelines;
    device->pipelines = last->next;
    destroy_pipeline(device, last);
  }
}

void vkf_gpu_pipelines_finish(vkf_gpu_device *device) {
  vkf_gpu_pipelines_trim(device, 0);
  for (vkf_gpu_layout *it = device->layouts, *next; it; it = next) {
    next = it->next;
    destroy_layout(device, it);
  }
  if (device->forms) vkf_gpu_forms_finish(device->forms, device->env);
  vkf_env_free(device->env, device->forms);
  device->forms = NULL;
  if (device->pipeline_cache) device->vk.DestroyPipelineCache(device->handle, device->pipeline_cache, NULL);
  device->layouts = NULL;
  device->pipeline_cache = VK_NULL_HANDLE;
}
