/* vk: Vulkan's types, the function tables, and the structs behind the handles of gpu.h.
 *
 * No other room includes this file. The tables are our own and not volk's: volk.c defines Vulkan's names as global
 * pointers, which serve one device per process and collide in a static link with a host's own volk or loader. Compiles
 * with Vulkan headers from 1.3.239 on. VKF_HAS_COOPMAT is defined if headers and GLSL compiler know cooperative
 * matrices (cmake/shaders.cmake).
 */
#ifndef VKF_GPU_VK_H
#define VKF_GPU_VK_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <pthread.h>
#include <vkformer/vulkan.h>

#include "gpu/forms.h"
#include "gpu/gpu.h"

#ifndef VK_EXT_shader_object /* headers before 1.3.246: no pipeline is a shader object */
VK_DEFINE_NON_DISPATCHABLE_HANDLE(VkShaderEXT)
#endif

/* ---- function tables --------------------------------------------------------------------------------------------- */

#define VKF_VK_INSTANCE_FUNCTIONS(X)           \
  X(DestroyInstance)                           \
  X(EnumeratePhysicalDevices)                  \
  X(EnumerateDeviceExtensionProperties)        \
  X(GetPhysicalDeviceProperties2)              \
  X(GetPhysicalDeviceFeatures2)                \
  X(GetPhysicalDeviceMemoryProperties)         \
  X(GetPhysicalDeviceMemoryProperties2)        \
  X(GetPhysicalDeviceExternalBufferProperties) \
  X(GetPhysicalDeviceQueueFamilyProperties)    \
  X(CreateDevice)                              \
  X(GetDeviceProcAddr)

#define VKF_VK_DEVICE_FUNCTIONS(X) \
  X(DestroyDevice)                 \
  X(GetDeviceQueue)                \
  X(QueueSubmit)                   \
  X(AllocateMemory)                \
  X(FreeMemory)                    \
  X(MapMemory)                     \
  X(CreateBuffer)                  \
  X(DestroyBuffer)                 \
  X(GetBufferMemoryRequirements)   \
  X(BindBufferMemory)              \
  X(CreateBufferView)              \
  X(DestroyBufferView)             \
  X(CreateShaderModule)            \
  X(DestroyShaderModule)           \
  X(CreateDescriptorSetLayout)     \
  X(DestroyDescriptorSetLayout)    \
  X(CreatePipelineLayout)          \
  X(DestroyPipelineLayout)         \
  X(CreateComputePipelines)        \
  X(DestroyPipeline)               \
  X(CreatePipelineCache)           \
  X(DestroyPipelineCache)          \
  X(GetPipelineCacheData)          \
  X(CreateDescriptorPool)          \
  X(DestroyDescriptorPool)         \
  X(AllocateDescriptorSets)        \
  X(UpdateDescriptorSets)          \
  X(CreateCommandPool)             \
  X(DestroyCommandPool)            \
  X(AllocateCommandBuffers)        \
  X(FreeCommandBuffers)            \
  X(BeginCommandBuffer)            \
  X(EndCommandBuffer)              \
  X(CmdBindPipeline)               \
  X(CmdBindDescriptorSets)         \
  X(CmdPushConstants)              \
  X(CmdDispatch)                   \
  X(CmdDispatchIndirect)           \
  X(CmdPipelineBarrier)            \
  X(CmdCopyBuffer)                 \
  X(CmdFillBuffer)                 \
  X(CreateFence)                   \
  X(DestroyFence)                  \
  X(ResetFences)                   \
  X(WaitForFences)                 \
  X(CreateQueryPool)               \
  X(DestroyQueryPool)              \
  X(CmdResetQueryPool)             \
  X(CmdWriteTimestamp)             \
  X(GetQueryPoolResults)

#define VKF_VK_MEMBER(name) PFN_vk##name name;
typedef struct vkf_vk_instance {
  VKF_VK_INSTANCE_FUNCTIONS(VKF_VK_MEMBER)
#ifdef VKF_HAS_COOPMAT
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR GetCooperativeMatrixProperties; /* NULL: no driver has it */
#endif
} vkf_vk_instance;
typedef struct vkf_vk_device {
  VKF_VK_DEVICE_FUNCTIONS(VKF_VK_MEMBER)
  /* NULL if the device or the instance does not have them. */
  PFN_vkGetBufferDeviceAddress GetBufferDeviceAddress;
  PFN_vkGetMemoryHostPointerPropertiesEXT GetMemoryHostPointerPropertiesEXT;
  PFN_vkCmdBeginDebugUtilsLabelEXT CmdBeginDebugUtilsLabelEXT;
  PFN_vkCmdEndDebugUtilsLabelEXT CmdEndDebugUtilsLabelEXT;
  PFN_vkGetPipelineExecutablePropertiesKHR GetPipelineExecutablePropertiesKHR;
  PFN_vkGetPipelineExecutableStatisticsKHR GetPipelineExecutableStatisticsKHR;
#ifdef VK_EXT_shader_object
  PFN_vkCreateShadersEXT CreateShadersEXT;
  PFN_vkDestroyShaderEXT DestroyShaderEXT;
  PFN_vkGetShaderBinaryDataEXT GetShaderBinaryDataEXT;
  PFN_vkCmdBindShadersEXT CmdBindShadersEXT;
#endif
} vkf_vk_device;
#undef VKF_VK_MEMBER

/* Fill a table of functions. VKF_ERROR_DEVICE names a function that is missing. */
vkf_status vkf_gpu_table_load_instance(vkf_env *env, PFN_vkGetInstanceProcAddr get, VkInstance handle,
                                       vkf_vk_instance *out);
vkf_status vkf_gpu_table_load_device(vkf_gpu_device *device, bool has_labels);

/* The status of a Vulkan call on a device: VKF_VK(device, CreateFence, device->handle, &info, NULL, &fence). */
#define VKF_VK(device, name, ...) vkf_gpu_device_result((device), (device)->vk.name(__VA_ARGS__), "vk" #name)
/* Returns the status of a result. Records a failure; a lost device stays lost. */
vkf_status vkf_gpu_device_result(vkf_gpu_device *device, VkResult result, const char *what);
const char *vkf_gpu_result_name(VkResult result);
/* Sets pipeline->spills (statistics.c). */
vkf_status vkf_gpu_pipeline_count_spills(vkf_gpu_device *device, vkf_gpu_pipeline *pipeline);
/* VKF_ERROR_DEVICE_LOST if the device is lost. */
vkf_status vkf_gpu_device_alive(vkf_gpu_device *device);

/* ---- loader and instance ----------------------------------------------------------------------------------------- */

typedef struct vkf_gpu_loader {
  void *library;
  PFN_vkGetInstanceProcAddr get_instance_proc_addr;
} vkf_gpu_loader;
/* name: NULL for the platform's own loader. VKF_ERROR_NO_DEVICE if there is none. */
vkf_status vkf_gpu_loader_open(vkf_env *env, const char *name, vkf_gpu_loader *out);
void vkf_gpu_loader_close(vkf_gpu_loader *loader);

/* The environment variable of additional manifests, set between push and pop. */
typedef struct vkf_gpu_manifests {
  const char *variable; /* NULL: nothing was changed */
  char *before;         /* its value before; NULL: it was not set */
} vkf_gpu_manifests;
vkf_status vkf_gpu_manifests_push(vkf_env *env, const char *const *files, size_t n_files, vkf_gpu_manifests *out);
void vkf_gpu_manifests_pop(vkf_env *env, vkf_gpu_manifests *manifests);

typedef struct vkf_gpu_adapter {
  VkPhysicalDevice handle;
  uint32_t queue_family;
  vkf_caps caps;
} vkf_gpu_adapter;

struct vkf_gpu_instance {
  vkf_env *env;
  vkf_gpu_loader loader;
  VkInstance handle;
  vkf_vk_instance vk;
  uint32_t api_version; /* the version that the instance was made for */
  bool validation, debug_utils;
  VkDebugUtilsMessengerEXT messenger;
  _Atomic uint64_t n_messages;
  size_t n_adapters;
  vkf_gpu_adapter *adapters;
};

/* Call them around everything that makes a driver compile: making devices and pipelines, the first run of each
 * pipeline. Pass the result of begin to end; true: nothing else in the process compiles meanwhile. lavapipe 26.2.6 sets
 * its vector width to 256 at the beginning of every compilation, and then to LP_NATIVE_VECTOR_WIDTH (22.3.6 does so
 * once in a process). Code that another thread compiles in that moment mixes both widths: it crashes or computes
 * something else, and the driver's cache keeps it. */
bool vkf_gpu_compile_begin(const vkf_caps *caps);
void vkf_gpu_compile_end(bool alone);

/* ---- facts and features ------------------------------------------------------------------------------------------ */

/* The names of extensions that a device offers, or that a caller enabled. */
typedef struct vkf_gpu_extensions {
  size_t n;
  const char **names;
  VkExtensionProperties *properties; /* memory of the names, if they came from the device */
} vkf_gpu_extensions;
bool vkf_gpu_extensions_have(const vkf_gpu_extensions *extensions, const char *name);
vkf_status vkf_gpu_extensions_list(vkf_env *env, const vkf_vk_instance *vk, VkPhysicalDevice handle,
                                   vkf_gpu_extensions *out);
void vkf_gpu_extensions_finish(vkf_env *env, vkf_gpu_extensions *extensions);

/* Features by name, linked to one pNext chain. Only structs that the device knows are linked. */
typedef struct vkf_gpu_features {
  VkPhysicalDeviceFeatures2 core;
  VkPhysicalDevice16BitStorageFeatures storage16;
  VkPhysicalDevice8BitStorageFeatures storage8;
  VkPhysicalDeviceShaderFloat16Int8Features float16;
  VkPhysicalDeviceBufferDeviceAddressFeatures address;
  VkPhysicalDeviceSubgroupSizeControlFeatures size_control;
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model; /* cooperative matrices need it */
  VkPhysicalDeviceShaderIntegerDotProductFeatures integer_dot;
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables;
#ifdef VK_EXT_shader_object
  VkPhysicalDeviceShaderObjectFeaturesEXT shader_object;
#endif
#ifdef VKF_HAS_COOPMAT
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR coopmat;
#endif
#ifdef VKF_HAS_COOPMAT2
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV coopmat2;
#endif
} vkf_gpu_features;
/* Links the features that can be queried with this version and these extensions; all are false. */
void vkf_gpu_features_link(vkf_gpu_features *features, uint32_t api_version, const vkf_gpu_extensions *extensions);
/* Sets the features in caps. Call it after vkf_gpu_caps_fill(). */
void vkf_gpu_features_to_caps(const vkf_gpu_features *features, vkf_caps *caps);
/* Enables what the facts name, and nothing else. */
void vkf_gpu_features_from_caps(vkf_gpu_features *features, const vkf_caps *caps);
/* Sets those of our features that a caller's chain for vkCreateDevice enables. */
void vkf_gpu_features_from_chain(vkf_gpu_features *features, const void *chain);
/* Lists the offered extensions that the features need, unless the version includes them. Returns how many. */
size_t vkf_gpu_features_extensions(const vkf_caps *caps, const vkf_gpu_extensions *offered, const char **names);
#define VKF_GPU_MAX_EXTENSIONS 12

/* Fills in everything of caps but the features; subgroup_size_control: what the properties allow. */
void vkf_gpu_caps_fill(const vkf_vk_instance *vk, VkPhysicalDevice handle, uint32_t instance_version,
                       const vkf_gpu_extensions *extensions, uint32_t queue_family, vkf_caps *out);
/* Returns a CPU driver's vector width, from its device name; 0: the name does not say. */
uint32_t vkf_gpu_caps_vector_bits(const char *device_name);
/* Memory that is coherent: this room never flushes. */
#define VKF_GPU_MAPPED_FLAGS (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
bool vkf_gpu_memory_is_mapped(VkMemoryPropertyFlags flags);
/* Returns the bytes left for this process in the device-local heap that has the most left. The driver must have
 * VK_EXT_memory_budget. */
uint64_t vkf_gpu_memory_left(const vkf_vk_instance *vk, VkPhysicalDevice handle);
/* Returns the memory type among `allowed` for a use; UINT32_MAX: none. */
uint32_t vkf_gpu_memory_type(const VkPhysicalDeviceMemoryProperties *properties, uint32_t allowed, vkf_device_kind kind,
                             vkf_gpu_memory memory);

/* ---- hazard log -------------------------------------------------------------------------------------------------- */

/* Kinds of accesses. A barrier orders everything before it on the device against the kinds in its mask. */
enum { VKF_GPU_BY_COMPUTE = 1, VKF_GPU_BY_INDIRECT = 2, VKF_GPU_BY_TRANSFER = 4, VKF_GPU_BY_HOST = 8 };

typedef enum vkf_gpu_event_kind {
  VKF_GPU_EVENT_SUBMIT,   /* what follows belongs to the submit `serial` */
  VKF_GPU_EVENT_BARRIER,  /* by: the mask */
  VKF_GPU_EVENT_DISPATCH, /* block, name; the accesses that follow, except those by the host, are its own */
  VKF_GPU_EVENT_ACCESS,   /* by, mode, buffer, begin, end, buffer_name */
  VKF_GPU_EVENT_WAIT      /* the host waited for all submits up to serial */
} vkf_gpu_event_kind;

typedef struct vkf_gpu_event {
  vkf_gpu_event_kind kind;
  uint32_t by;
  vkf_gpu_mode mode;
  uint64_t buffer, begin, end, serial;
  const char *block, *name, *buffer_name; /* NULL or strings of the log */
} vkf_gpu_event;

/* A list of events with the strings they name. */
typedef struct vkf_gpu_log {
  vkf_env *env;
  vkf_arena names;
  vkf_gpu_event *events;
  size_t n, capacity;
  vkf_status status; /* of the first append that failed: then the log is incomplete */
} vkf_gpu_log;
void vkf_gpu_log_init(vkf_gpu_log *log, vkf_env *env);
void vkf_gpu_log_finish(vkf_gpu_log *log);
/* Copies the names of the event. */
void vkf_gpu_log_append(vkf_gpu_log *log, const vkf_gpu_event *event);
void vkf_gpu_log_append_all(vkf_gpu_log *log, const vkf_gpu_log *other);
void vkf_gpu_log_dispatch(vkf_gpu_log *log, const char *block, const char *name);
void vkf_gpu_log_access(vkf_gpu_log *log, uint32_t by, const vkf_gpu_access *access);

/* ---- device ------------------------------------------------------------------------------------------------------ */

#define VKF_GPU_MAX_PENDING 8

typedef struct vkf_gpu_layout {
  uint32_t n_bindings, push_bytes;
  vkf_gpu_binding_kind kinds[VKF_GPU_MAX_BINDINGS];
  VkDescriptorSetLayout set;
  VkPipelineLayout pipeline;
  struct vkf_gpu_layout *next;
} vkf_gpu_layout;

struct vkf_gpu_pipeline {
  char *name;
  uint32_t *constants;
  uint32_t n_constants, subgroup_size;
  bool subgroup_full, statistics;
  uint32_t spills; /* vkf_gpu_pipeline_spills() */
  vkf_gpu_layout *layout;
  VkPipeline handle;
  VkShaderEXT shader;   /* in place of the handle; VK_NULL_HANDLE: none */
  _Atomic bool has_run; /* lavapipe compiles when a pipeline first runs */
  struct vkf_gpu_pipeline *next;
};

/* Two halves of host memory that transfers pass through when a buffer is not mapped. */
typedef struct vkf_gpu_staging {
  vkf_gpu_buffer *upload, *readback; /* made when first needed, destroyed with the last buffer */
  VkCommandBuffer commands[2];
  uint64_t half_bytes, serials[2]; /* of the last upload from each half, which may still run */
  uint32_t next;                   /* the half that the next upload takes */
} vkf_gpu_staging;

/* A device, or a line to one (vkf_gpu_device_branch()). Lines use the members after `Of the root alone` of their
 * device. */
struct vkf_gpu_device {
  vkf_env *env;
  vkf_gpu_device *root;       /* the device; a device points to itself */
  vkf_gpu_instance *instance; /* NULL: adopted */
  vkf_vk_device vk;
  PFN_vkGetDeviceProcAddr get_device_proc_addr;
  VkDevice handle;
  bool owned;                 /* made here, to be destroyed here */
  bool has_large_pages;       /* the driver imports memory of ours */
  VkPhysicalDevice budget_of; /* whose driver says how much memory is left (VK_EXT_memory_budget); NULL: none does */
  VkQueue queue;
  uint32_t queue_family;
  void (*lock_queue)(void *), (*unlock_queue)(void *); /* of a caller who uses the queue, too; NULL: none does */
  void *queue_user;
  VkPhysicalDeviceMemoryProperties memory_properties;
  vkf_caps caps;
  uint64_t wait_ns;
  VkPipelineCache pipeline_cache; /* VK_NULL_HANDLE: none */

  uint32_t n_buffers; /* those of staging included */
  vkf_gpu_staging staging;

  VkCommandPool commands;
  VkCommandBuffer host_barrier;        /* the last commands of every submit */
  VkFence fences[VKF_GPU_MAX_PENDING]; /* of submit s: s % VKF_GPU_MAX_PENDING */
  bool can_submit;                     /* fences and the barrier are there */
  uint64_t submitted, completed;       /* serials; completed: waited for */
  VkCommandBuffer *submit_list;        /* of vkf_gpu_submit(), kept so that a step allocates nothing */
  size_t submit_capacity;

  bool logging;
  vkf_gpu_log log;

  /* Of the root alone. */
  pthread_mutex_t queue_lock; /* around each submit */
  struct vkf_gpu_awake *awake;
  _Atomic bool lost;
  _Atomic uint64_t now_bytes, peak_bytes;
  _Atomic uint64_t last_buffer_id; /* ids are never used again */
  vkf_gpu_faults faults;           /* counted down */
  pthread_mutex_t pipelines_lock;  /* for the next five */
  vkf_gpu_forms *forms;            /* pipelines are shader objects; NULL: they are not */
  vkf_gpu_layout *layouts;
  vkf_gpu_pipeline *pipelines;
  size_t n_pipelines;
  uint64_t pipelines_ns;
};

struct vkf_gpu_buffer {
  vkf_gpu_device *device;
  char *name;
  uint64_t id, bytes, allocated_bytes, address;
  VkBuffer handle;
  VkDeviceMemory memory;
  void *mapped;
  bool is_counted;     /* allocated_bytes are counted in the device's bytes */
  void *host;          /* memory of our own, NULL: the driver's */
  uint64_t host_bytes; /* bytes of it */
};

/* Returns what every buffer may be used for. */
static inline VkBufferUsageFlags vkf_gpu_buffer_usage(const vkf_caps *caps) {
  return VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
         VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
         (caps->buffer_address ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0);
}
/* Whether large_pages.c is for this kind of device. */
bool vkf_gpu_large_pages_wanted(const vkf_caps *caps);
/* Whether, in addition, its driver imports memory of ours for buffers. The device has VK_EXT_external_memory_host. */
bool vkf_gpu_large_pages_can(const vkf_vk_instance *vk, VkPhysicalDevice handle, const vkf_caps *caps);
/* Gives memory of ours to a buffer that has no handle yet, if it may have it. false: it gets the driver's memory. */
bool vkf_gpu_large_pages_map(vkf_gpu_buffer *buffer, vkf_gpu_memory memory);
/* Gives a buffer the same memory as another buffer, of any device. false: they cannot share. */
bool vkf_gpu_large_pages_join(vkf_gpu_buffer *buffer, const vkf_gpu_buffer *of);
/* Makes the driver's memory object of it, binds it to the handle and maps it. false: the driver refuses. */
bool vkf_gpu_large_pages_bind(vkf_gpu_buffer *buffer);
/* Frees memory of ours with its last buffer. Call it after the driver's memory object was freed. */
void vkf_gpu_large_pages_free(vkf_gpu_buffer *buffer);

/* ---- awake.c: cores that do not sleep while a CPU driver computes ------------------------------------------------ */

/* The longest time of one wait for a fence, after which the time limit is checked again. The cores stay awake as long
 * after each submit, and after each such wait. */
#define VKF_GPU_WAIT_SLICE_NS (UINT64_C(1000) * 1000 * 1000)

typedef struct vkf_gpu_awake vkf_gpu_awake;
/* *out NULL: it is not wanted on this device; the other calls then do nothing. VKF_KEEP_AWAKE in the environment: 0
 * never, 1 from the start, else if a trial shows that it helps. */
vkf_status vkf_gpu_awake_create(vkf_env *env, const vkf_caps *caps, vkf_gpu_awake **out);
/* For any thread. Call submit() before a submit, wait() after each slice while the host waits, and done() when a
 * submit was waited for or failed. Once in a device's life done() tries whether this helps, which takes some 15 ms.
 * env: the calling thread's. */
void vkf_gpu_awake_submit(vkf_gpu_awake *awake);
void vkf_gpu_awake_wait(vkf_gpu_awake *awake);
void vkf_gpu_awake_done(vkf_gpu_awake *awake, vkf_env *env);
void vkf_gpu_awake_destroy(vkf_gpu_awake **awake);
/* The trial of done(): keeps the threads if round_ns() is less with them, else ends them. */
void vkf_gpu_awake_decide(vkf_gpu_awake *awake, vkf_env *env, uint64_t (*round_ns)(void));
/* lockstep.c: returns the median time of rounds in which a thread on each of the caller's cores computes, up to 0.2 ms,
 * and waits for the others. */
uint64_t vkf_gpu_lockstep_ns(void);

/* ---- a block's descriptor sets ----------------------------------------------------------------------------------- */

typedef struct vkf_gpu_set_pool {
  VkDescriptorPool handle;
  uint32_t sets; /* left; there are enough descriptors for all of them, whatever the kinds of their bindings */
  struct vkf_gpu_set_pool *next;
} vkf_gpu_set_pool;

typedef struct vkf_gpu_sets {
  vkf_gpu_set_pool *pools; /* the newest first; only that one is used */
  uint32_t n_pools;
  VkBufferView *views;
  size_t n_views, view_capacity;
} vkf_gpu_sets;

/* What a texel binding reads. kind: not VKF_GPU_BINDING_STORAGE. */
typedef struct vkf_gpu_texel {
  VkFormat format;
  uint32_t bytes;
} vkf_gpu_texel;
vkf_gpu_texel vkf_gpu_texel_get(vkf_gpu_binding_kind kind);

/* Makes a descriptor set for the bindings of a dispatch that was checked; VK_NULL_HANDLE if it has none.
 */
vkf_status vkf_gpu_sets_make(vkf_gpu_device *device, vkf_gpu_sets *sets, const vkf_gpu_dispatch *dispatch,
                             VkDescriptorSet *out);
void vkf_gpu_sets_finish(vkf_gpu_device *device, vkf_gpu_sets *sets);

/* Whether the header says that this driver wrote these bytes, for this device. */
bool vkf_gpu_pipeline_cache_fits(const vkf_caps *caps, const void *bytes, size_t n);

/* ---- shader_objects.c: pipelines that are shader objects --------------------------------------------------------- */

/* Returns the key of its form. */
uint64_t vkf_gpu_shader_key(const vkf_gpu_device *device, const vkf_gpu_pipeline_params *params);
/* Sets pipeline->shader; the pipeline has its layout. form: NULL to make it from the SPIR-V of the parameters. Calls
 * nothing but the driver. */
VkResult vkf_gpu_shader_create(const vkf_gpu_device *device, const vkf_gpu_pipeline_params *params,
                               const VkSpecializationInfo *constants, const vkf_gpu_form *form,
                               vkf_gpu_pipeline *pipeline);
/* Adds its form to those of the device. */
vkf_status vkf_gpu_shader_keep(vkf_gpu_device *device, uint64_t key, const vkf_gpu_pipeline *pipeline);
void vkf_gpu_shader_bind(const vkf_gpu_device *device, VkCommandBuffer commands, const vkf_gpu_pipeline *pipeline);
void vkf_gpu_shader_destroy(const vkf_gpu_device *device, vkf_gpu_pipeline *pipeline);

/* Destroys the staging buffers (buffer.c). */
void vkf_gpu_staging_release(vkf_gpu_device *device);
/* Copy to and from a buffer that is mapped, within its range. */
void vkf_gpu_buffer_put(vkf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes);
void vkf_gpu_buffer_take(vkf_gpu_buffer *buffer, uint64_t offset, void *data, uint64_t bytes);
/* The upload returns when its last copies have begun, the others when theirs have ended. */
vkf_status vkf_gpu_staging_upload(vkf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes);
vkf_status vkf_gpu_staging_read(vkf_gpu_buffer *buffer, uint64_t offset, void *data, uint64_t bytes);
vkf_status vkf_gpu_staging_fill(vkf_gpu_buffer *buffer, uint64_t offset, uint64_t bytes, uint32_t pattern);

/* The events of a submit are between begin and end. Both do nothing unless the log is on. */
void vkf_gpu_submit_log_begin(vkf_gpu_device *device);
void vkf_gpu_submit_log_end(vkf_gpu_device *device);
/* Submits commands[n] and the barrier to the host; `commands` has room for n + 1. */
vkf_status vkf_gpu_submit_commands(vkf_gpu_device *device, VkCommandBuffer *commands, uint32_t n, uint64_t *serial);
/* Records a barrier of everything before it against `by`, and its event in `log` (NULL: none), unless fault injection
 * leaves it out. */
void vkf_gpu_record_barrier(vkf_gpu_device *device, VkCommandBuffer commands, uint32_t by, vkf_gpu_log *log);

vkf_status vkf_gpu_commands_create(vkf_gpu_device *device, VkCommandBuffer *out);
/* flags: VkCommandBufferUsageFlags. */
vkf_status vkf_gpu_commands_begin(vkf_gpu_device *device, VkCommandBuffer commands, uint32_t flags);
/* Waits for what runs, on a lost device as well, before its resources are destroyed. */
void vkf_gpu_queue_drain(vkf_gpu_device *device);
/* Makes the command pool of a device that is being made. */
vkf_status vkf_gpu_queue_init(vkf_gpu_device *device);
void vkf_gpu_queue_finish(vkf_gpu_device *device);
void vkf_gpu_pipelines_finish(vkf_gpu_device *device);

#endif
