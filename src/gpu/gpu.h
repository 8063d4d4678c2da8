/* gpu: the only room that calls Vulkan: instance, devices, buffers, pipelines, blocks, submission, hazard check.
 *
 * It does not know what an op or a kernel is. Vulkan's types are in gpu/vk.h, inside this room. Vulkan is called
 * through tables kept by instance and by device: no symbol of Vulkan is linked or defined, and nothing is global, so a
 * host may use a loader or a volk of its own beside this.
 *
 * Invariant: barriers are derived here from the byte ranges that dispatches declare; no other room places one.
 *
 * Ownership: instance > device > buffers, pipelines and blocks; children are destroyed first (pipelines with the
 * device).
 *
 * Threads: everything below one vkf_env is used by one thread at a time. Other threads use a device through lines of
 * their own (vkf_gpu_device_branch()). Lines share the queue, which is locked around a submit, the pipelines, which are
 * made under a lock, and counters. A caller who shares a queue with us must serialise its use (vkformer/vulkan.h).
 */
#ifndef VKF_GPU_GPU_H
#define VKF_GPU_GPU_H

#include <vkformer/lab.h>

#include "base/base.h"
#include "gpu/caps.h"

typedef struct vkf_gpu_instance vkf_gpu_instance;
typedef struct vkf_gpu_device vkf_gpu_device;
typedef struct vkf_gpu_buffer vkf_gpu_buffer;
typedef struct vkf_gpu_pipeline vkf_gpu_pipeline;
typedef struct vkf_gpu_block vkf_gpu_block;
struct vkf_device_handles; /* vkformer/vulkan.h, which needs the Vulkan headers */

/* ---- instance: the loader and the list of devices ---------------------------------------------------------------- */

typedef struct vkf_gpu_instance_params {
  const char *const *icd_files; /* additional driver manifests */
  size_t n_icd_files;
  const char *loader; /* file name of the Vulkan loader; NULL: the platform's own */
  bool validation;    /* the Khronos validation layer; also asked for by VKF_VALIDATION=1 in the environment */
} vkf_gpu_instance_params;

/* Opens the loader and lists the devices with Vulkan 1.1 or newer and a compute queue. VKF_ERROR_NO_DEVICE without a
 * loader (the message names `--device ref`); without a device the list is empty, which is no error. The loader reads
 * additional manifests from the environment variable VK_ADD_DRIVER_FILES (VK_DRIVER_FILES or VK_ICD_FILENAMES if the
 * user has set one), which is changed during this call and restored. */
vkf_status vkf_gpu_instance_create(vkf_env *env, const vkf_gpu_instance_params *params, vkf_gpu_instance **out);
void vkf_gpu_instance_destroy(vkf_gpu_instance **instance);
/* Returns how many devices are listed; 0 for NULL. */
size_t vkf_gpu_instance_count(const vkf_gpu_instance *instance);
/* index < count. The facts are valid as long as the instance. */
const vkf_caps *vkf_gpu_instance_caps(const vkf_gpu_instance *instance, size_t index);

/* ---- device ------------------------------------------------------------------------------------------------------ */

typedef struct vkf_gpu_device_params {
  bool staged;         /* never map device memory: data is copied as on a discrete GPU (for tests) */
  bool hazard_log;     /* log dispatches, barriers, submits and host accesses from the start */
  uint64_t ring_bytes; /* of each half of the upload ring, used if memory is not mapped; 0: 4 MiB */
  uint64_t wait_ns;    /* a submit that takes longer counts as lost; 0: 10 minutes */
  /* Lowers the facts before anything is made from them; NULL: no change. */
  vkf_status (*lower)(void *user, vkf_caps *caps);
  void *user;
} vkf_gpu_device_params;

/* params: NULL for defaults. */
vkf_status vkf_gpu_device_create(vkf_gpu_instance *instance, size_t index, const vkf_gpu_device_params *params,
                                 vkf_gpu_device **out);
/* Adopts a device that the caller made and keeps; uses only what `handles` names as enabled. */
vkf_status vkf_gpu_device_adopt(vkf_env *env, const struct vkf_device_handles *handles,
                                const vkf_gpu_device_params *params, vkf_gpu_device **out);
/* Makes a line to a device for another thread: buffers, blocks and submits that are made with it belong to it, and
 * failures are recorded in `env`. Its blocks may use buffers of the device. It has the facts that the device has
 * now. */
vkf_status vkf_gpu_device_branch(vkf_gpu_device *device, vkf_env *env, vkf_gpu_device **out);
/* Waits for what is pending. Destroy buffers and blocks first, and the lines of a device. */
void vkf_gpu_device_destroy(vkf_gpu_device **device);
const vkf_caps *vkf_gpu_device_caps(const vkf_gpu_device *device);
/* Replaces the facts by `caps`, without what turned out not to work. No value may be larger than the device's. */
void vkf_gpu_device_lower(vkf_gpu_device *device, const vkf_caps *caps);
vkf_env *vkf_gpu_device_env(vkf_gpu_device *device);
/* Bytes of device memory held now, and the most so far (staging included). */
void vkf_gpu_device_memory(const vkf_gpu_device *device, uint64_t *now_bytes, uint64_t *peak_bytes);
/* Returns the bytes that are left: what a GPU's driver reports (VK_EXT_memory_budget), which counts other programs,
 * too; if it reports nothing or 0, the largest heap minus what is held now. */
uint64_t vkf_gpu_device_memory_left(const vkf_gpu_device *device);
/* Returns the bytes that the staging buffers of this line hold. */
uint64_t vkf_gpu_device_staging(const vkf_gpu_device *device);
/* Gets the number of its pipelines, and the time that making them has taken. */
void vkf_gpu_device_pipelines(const vkf_gpu_device *device, size_t *count, uint64_t *ns);
/* Returns the warnings and errors of the validation layer since the instance was made; 0 if it is not enabled. */
uint64_t vkf_gpu_validation_messages(const vkf_gpu_device *device);
/* Whether the layer is enabled, so that messages are counted. */
bool vkf_gpu_validation_enabled(const vkf_gpu_device *device);

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

typedef enum vkf_gpu_memory {
  VKF_GPU_MEMORY_DEVICE, /* device-local; mapped if caps.host_visible */
  VKF_GPU_MEMORY_LARGE,  /* the same, if most of it is written: in large pages if a CPU driver imports memory of ours */
  VKF_GPU_MEMORY_UPLOAD, /* written by the host, read by kernels and indirect dispatches; always mapped, coherent */
  VKF_GPU_MEMORY_READBACK /* written by kernels, read by the host; always mapped, coherent, cached if possible */
} vkf_gpu_memory;

/* bytes > 0. name: for messages and labels, copied. The contents are undefined. VKF_ERROR_DEVICE_MEMORY says what was
 * asked for and what is held. Usable as storage buffer, texel buffer, source of indirect dispatches and, with
 * caps.buffer_address, by its address. */
vkf_status vkf_gpu_buffer_create(vkf_gpu_device *device, const char *name, vkf_gpu_memory memory, uint64_t bytes,
                                 vkf_gpu_buffer **out);
/* Makes a buffer of weights that shares the memory of `of`, a buffer of another device, which may be closed first. From
 * then on nobody writes to either. If they cannot share, *out is NULL with VKF_OK: both devices must be of CPU drivers
 * that import memory of ours. */
vkf_status vkf_gpu_buffer_share(vkf_gpu_device *device, const vkf_gpu_buffer *of, vkf_gpu_buffer **out);
/* Waits first if a submit is pending. */
void vkf_gpu_buffer_destroy(vkf_gpu_buffer **buffer);
uint64_t vkf_gpu_buffer_bytes(const vkf_gpu_buffer *buffer);
/* Returns what vkf_gpu_device_memory() counts for it, which may be more; 0 for NULL. */
uint64_t vkf_gpu_buffer_held(const vkf_gpu_buffer *buffer);
/* Returns the device address; 0 without caps.buffer_address. */
uint64_t vkf_gpu_buffer_address(const vkf_gpu_buffer *buffer);
/* Returns NULL if it is not mapped. Call vkf_gpu_buffer_touch() before reading or writing through it. */
void *vkf_gpu_buffer_mapped(const vkf_gpu_buffer *buffer);

typedef enum vkf_gpu_mode { VKF_GPU_READ = 1, VKF_GPU_WRITE = 2, VKF_GPU_READ_WRITE = 3 } vkf_gpu_mode;

/* Tells the hazard log that the host is about to read or write [offset, offset + bytes) through the mapped pointer. */
void vkf_gpu_buffer_touch(vkf_gpu_buffer *buffer, uint64_t offset, uint64_t bytes, vkf_gpu_mode mode);
/* Copies between host memory and a buffer of any kind. Wait first for submits that use the range. If the buffer is not
 * mapped, the copy goes through staging and has ended when this returns. */
vkf_status vkf_gpu_buffer_write(vkf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes);
/* As vkf_gpu_buffer_write(), but the copy may run on while the host prepares the next one, until
 * vkf_gpu_upload_finish(). `data` may be changed when this returns. */
vkf_status vkf_gpu_buffer_upload(vkf_gpu_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes);
vkf_status vkf_gpu_upload_finish(vkf_gpu_device *device);
vkf_status vkf_gpu_buffer_read(vkf_gpu_buffer *buffer, uint64_t offset, void *data, uint64_t bytes);
/* offset and bytes are multiples of 4. */
vkf_status vkf_gpu_buffer_fill(vkf_gpu_buffer *buffer, uint64_t offset, uint64_t bytes, uint32_t pattern);

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

typedef enum vkf_gpu_binding_kind {
  VKF_GPU_BINDING_STORAGE,
  VKF_GPU_BINDING_TEXEL_F32X4, /* samplerBuffer over rgba32f */
  VKF_GPU_BINDING_TEXEL_U32X2, /* usamplerBuffer over rg32ui */
  VKF_GPU_BINDING_TEXEL_U32    /* usamplerBuffer over r32ui */
} vkf_gpu_binding_kind;

#define VKF_GPU_MAX_BINDINGS 16

typedef struct vkf_gpu_pipeline_params {
  const char *name;     /* of the SPIR-V module: with constants and subgroup_size the key of the cache */
  const uint32_t *code; /* SPIR-V, entry point "main" */
  size_t code_bytes;
  const uint32_t *constants; /* specialization constants with the ids 0 .. n_constants-1, 4 bytes each */
  uint32_t n_constants;
  uint32_t n_bindings;               /* bindings 0 .. n_bindings-1 of set 0 */
  const vkf_gpu_binding_kind *kinds; /* [n_bindings]; NULL: all are storage buffers */
  uint32_t push_bytes;
  uint32_t subgroup_size; /* for which the code is written; requested if the device supports several; 0: any */
  bool subgroup_full;     /* require full subgroups; the workgroup's x is a multiple of the subgroup size */
  bool statistics;        /* the driver keeps what vkf_gpu_pipeline_statistics() reads, which may cost memory */
} vkf_gpu_pipeline_params;

/* Whether the pipeline must require full subgroups: if a workgroup has several and the device can require them. */
static inline bool vkf_gpu_wants_full(const vkf_caps *caps, uint32_t workgroup, uint32_t subgroup_size) {
  return subgroup_size && subgroup_size < workgroup && caps->subgroup_full;
}

/* Whether the pipeline must request its subgroup size: not if the device has only one. */
static inline bool vkf_gpu_requests_size(const vkf_caps *caps, uint32_t subgroup_size) {
  return subgroup_size && caps->subgroup_min != caps->subgroup_max;
}

/* Makes those of the `n` that do not exist yet, with a thread on each core, because drivers compile here. After a
 * failure (the first one is recorded) some of them may have been made. Pointers in params are needed only during the
 * call. */
vkf_status vkf_gpu_pipelines_make(vkf_gpu_device *device, const vkf_gpu_pipeline_params *params, size_t n);
/* Finds the pipeline with these parameters, or makes it. It belongs to the device. */
vkf_status vkf_gpu_pipeline_get(vkf_gpu_device *device, const vkf_gpu_pipeline_params *params, vkf_gpu_pipeline **out);

/* Destroys all but the first `count` that were made, the last ones first. No block may be left that dispatches one of
 * them. Drivers that compile for the host hold megabytes for each. */
void vkf_gpu_pipelines_trim(vkf_gpu_device *device, size_t count);

/* Opens the driver's cache for pipelines made from now on. It begins with `bytes`, which vkf_gpu_pipeline_cache_take()
 * gave for an earlier device, or empty if bytes is NULL or if another driver or device wrote them. */
vkf_status vkf_gpu_pipeline_cache_open(vkf_gpu_device *device, const void *bytes, size_t n);
/* Gets the bytes of the cache; free them with vkf_env_free. *n is 0 if no cache was opened, and for drivers that put
 * nothing into it: those that keep compiled kernels themselves, and those that keep none. For shader objects it is also
 * 0 if nothing was made that the cache did not have. */
vkf_status vkf_gpu_pipeline_cache_take(vkf_gpu_device *device, void **bytes, size_t *n);
/* Gets the driver's statistics of a pipeline that was made with `statistics`, under the driver's names, in memory of
 * `arena`. If the driver compiled several programs for the pipeline, each name begins with its program's. *n is 0 if
 * caps.pipeline_statistics is false. */
vkf_status vkf_gpu_pipeline_statistics(vkf_gpu_device *device, const vkf_gpu_pipeline *pipeline, vkf_arena *arena,
                                       vkf_bench_statistic **out, size_t *n);
/* Returns how many registers the driver says it spilled, for a pipeline that was made with `statistics`. */
uint32_t vkf_gpu_pipeline_spills(const vkf_gpu_pipeline *pipeline);

/* ---- blocks: recorded once, submitted often ---------------------------------------------------------------------- */

typedef enum vkf_gpu_timing { VKF_GPU_TIMING_NONE, VKF_GPU_TIMING_BLOCK, VKF_GPU_TIMING_DISPATCH } vkf_gpu_timing;

typedef struct vkf_gpu_block_params {
  const char *label;
  vkf_gpu_timing timing;   /* ignored without caps.timestamps */
  uint32_t max_dispatches; /* with VKF_GPU_TIMING_DISPATCH: how many are timed; 0: 256 */
} vkf_gpu_block_params;

/* Bind only the bytes that the dispatch accesses: the validation layer counts a whole binding as accessed and would
 * report hazards between neighbours. */
typedef struct vkf_gpu_binding {
  vkf_gpu_buffer *buffer;
  uint64_t offset, bytes; /* bytes 0: to the end of the buffer */
} vkf_gpu_binding;

/* A byte range [begin, end) of a buffer that a dispatch reads or writes, through a binding or an address. */
typedef struct vkf_gpu_access {
  vkf_gpu_buffer *buffer;
  uint64_t begin, end;
  vkf_gpu_mode mode;
} vkf_gpu_access;

typedef struct vkf_gpu_dispatch {
  const char *label; /* for messages, labels and times; copied */
  vkf_gpu_pipeline *pipeline;
  const vkf_gpu_binding *bindings; /* [n_bindings], as many as the pipeline has */
  uint32_t n_bindings;
  const void *push; /* [push_bytes], as many as the pipeline has */
  uint32_t push_bytes;
  uint32_t grid[3];            /* workgroups, if grid_buffer is NULL */
  vkf_gpu_buffer *grid_buffer; /* else three uint32 at grid_offset (a multiple of 4), read when the block runs */
  uint64_t grid_offset;
  const vkf_gpu_access *accesses; /* every byte that it may read or write; the grid is added by the recorder */
  uint32_t n_accesses;
} vkf_gpu_dispatch;

/* Begins recording. A block's commands start with a barrier against everything that was submitted before. */
vkf_status vkf_gpu_block_begin(vkf_gpu_device *device, const vkf_gpu_block_params *params, vkf_gpu_block **out);
/* Records a dispatch, behind a barrier only if it conflicts with one since the last barrier. Checks the arguments
 * (VKF_ERROR_ARGUMENT names the dispatch). */
vkf_status vkf_gpu_block_dispatch(vkf_gpu_block *block, const vkf_gpu_dispatch *dispatch);
vkf_status vkf_gpu_block_end(vkf_gpu_block *block);
/* Waits first if the block is pending. */
void vkf_gpu_block_destroy(vkf_gpu_block **block);

typedef struct vkf_gpu_block_info {
  uint32_t n_dispatches, n_barriers; /* the barrier at the start is counted */
  uint32_t n_indirect;               /* dispatches whose grid is read from a buffer */
  uint64_t n_submits;
} vkf_gpu_block_info;
void vkf_gpu_block_get_info(const vkf_gpu_block *block, vkf_gpu_block_info *out);
/* Gets the device time of the last run, after it was waited for; 0 if it was not timed. */
vkf_status vkf_gpu_block_time(vkf_gpu_block *block, uint64_t *ns);
/* Gets the time on the device's clock between the ends of the last runs of two blocks. `to` ran later; both were
 * timed. */
vkf_status vkf_gpu_block_time_since(vkf_gpu_block *from, vkf_gpu_block *to, uint64_t *ns);
/* Gets the time of one dispatch (VKF_GPU_TIMING_DISPATCH): from the end of the one before it to its own end. */
vkf_status vkf_gpu_block_dispatch_time(vkf_gpu_block *block, uint32_t index, const char **label, uint64_t *ns);

/* ---- submission -------------------------------------------------------------------------------------------------- */

/* Submits the blocks in this order by one vkQueueSubmit, then a barrier that makes their writes visible to the host.
 * serial (may be NULL): what to wait for. Refuses a block that is pending or twice in the list with
 * VKF_ERROR_ARGUMENT. */
vkf_status vkf_gpu_submit(vkf_gpu_device *device, vkf_gpu_block *const *blocks, size_t n_blocks, uint64_t *serial);
/* Waits until submit `serial` and all before it have ended. After VKF_ERROR_DEVICE_LOST everything but destroying
 * returns that status. */
vkf_status vkf_gpu_wait(vkf_gpu_device *device, uint64_t serial);
vkf_status vkf_gpu_wait_all(vkf_gpu_device *device);

/* ---- hazards ----------------------------------------------------------------------------------------------------- */

/* Two accesses to the same bytes, one of them a write, that nothing orders. */
typedef struct vkf_gpu_hazard {
  bool found;
  char text[512]; /* a sentence with both names, the buffer and the bytes; "" if not found */
} vkf_gpu_hazard;

/* Starts (with an empty log) or ends logging. Only blocks that are recorded while it is on can be submitted while it
 * is. */
void vkf_gpu_hazard_log(vkf_gpu_device *device, bool on);
/* Replays the log: every submit with its blocks, every host access, every wait, in order. The rules are stricter than
 * Vulkan's in one point: a fence orders the host after the device, never one submit after another. */
vkf_status vkf_gpu_hazard_check(vkf_gpu_device *device, vkf_gpu_hazard *out);

/* ---- fault injection (tests) ------------------------------------------------------------------------------------- */

#define VKF_GPU_SKIP_HOST_BARRIER UINT32_MAX

typedef struct vkf_gpu_faults {
  uint64_t fail_allocation;  /* the device allocation with this number from now (from 1) fails; 0: none */
  uint64_t lose_submit;      /* the submit with this number from now loses the device; 0: none */
  uint32_t skip_barrier;     /* the barrier recorded as this number from now is left out; 0: none;
                              * VKF_GPU_SKIP_HOST_BARRIER: submits end without the barrier to the host */
  const char *fail_pipeline; /* pipelines of this name cannot be made; NULL: none */
  /* A buffer ends where a page of so many bytes of its memory ends (as far as its alignment allows), so that a read
   * beyond it leaves that memory; 0: it begins where its memory begins. */
  uint64_t end_at;
} vkf_gpu_faults;
void vkf_gpu_inject(vkf_gpu_device *device, const vkf_gpu_faults *faults);

#endif
