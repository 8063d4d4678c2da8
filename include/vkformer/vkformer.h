/* vkformer: Transformer inference on Vulkan compute shaders.
 *
 * Contexts, devices, models, sessions and results. Includes vkformer/run.h (forward passes, generation of ids, loops of
 * your own) and vkformer/text.h (translation and other tasks on texts, tokenizers). Two headers are not included:
 * vkformer/vulkan.h (models on a Vulkan device of your own) and vkformer/lab.h (measuring and checking). A complete
 * small program:
 *
 *     #include <stdio.h>
 *     #include <vkformer/vkformer.h>
 *
 *     int main(void) {
 *         const char *text = "The cat sat on the mat.";
 *         vkf_context *ctx = NULL;
 *         vkf_device *dev = NULL;
 *         vkf_model *model = NULL;
 *         vkf_session *session = NULL;
 *         vkf_result *result = NULL;
 *         vkf_status st = vkf_context_create(NULL, &ctx);
 *         if (!st) st = vkf_device_open(ctx, NULL, &dev);
 *         if (!st) st = vkf_model_open(dev, "models/en-es", &model);
 *         if (!st) st = vkf_session_create(model, NULL, &session);
 *         if (!st) st = vkf_session_translate(session, &text, 1, NULL, &result);
 *         if (!st) puts(vkf_result_text(result, 0));
 *         else fprintf(stderr, "%s\n", session ? vkf_session_message(session) : vkf_context_message(ctx));
 *         vkf_result_destroy(&result);
 *         vkf_session_destroy(&session);
 *         vkf_model_close(&model);
 *         vkf_device_close(&dev);
 *         vkf_context_destroy(&ctx);
 *         return st != VKF_OK;
 *     }
 *
 * Ownership is a tree: context > device > model > session. Close children before their parents. Results outlive their
 * device and model, and so do sessions whose model was closed, but destroy them before the context. Every destroy and
 * close function takes the address of a handle, accepts NULL and sets the handle to NULL.
 *
 * Threads: a model does not change once it is open, and any number of sessions run it, each in a thread of its own. One
 * thread at a time may use a session, and one thread at a time may use a context, its devices and its models; sessions
 * may run in other threads meanwhile, and any thread may create and destroy one. All these threads may call the
 * allocator and the log at the same time. Contexts are independent, with one exception: a context with icd_files sets
 * an environment variable for the Vulkan loader while it lists its devices for the first time, under a lock, and
 * restores it.
 *
 * A callback may use tokenizers, results, files, functions that only return information, and sessions other than its
 * own. Calls that would disturb the running one (opening models, running the same session, running or measuring ops)
 * return VKF_ERROR_ARGUMENT. Closing a model, a short list, a device or the context in a callback does nothing, nor
 * does destroying the callback's own session.
 *
 * Processes: after fork(), the child opens its own contexts, devices and models. It may use its parent's tokenizers and
 * results, and whatever computes on "ref". Calls that need a Vulkan device of the parent return VKF_ERROR_ARGUMENT;
 * closing or destroying such an object does nothing, and its memory is freed when the child ends.
 *
 * Errors: functions that can fail return vkf_status. vkf_session_message() says why a session's last failed call
 * failed, vkf_context_message() does so for all other calls: what was expected, what was found, where.
 *
 * NULL: a pointer may be NULL only where its comment says so. `params` may always be NULL, which means the defaults.
 * Elsewhere NULL is an error: a function that returns no status then does nothing and returns NULL or 0. Pointers in
 * arrays and structs are not checked.
 */
#ifndef VKFORMER_VKFORMER_H
#define VKFORMER_VKFORMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(_WIN32) && defined(VKF_SHARED)
#ifdef VKF_BUILD
#define VKF_API __declspec(dllexport)
#else
#define VKF_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define VKF_API __attribute__((visibility("default")))
#else
#define VKF_API
#endif

#define VKF_VERSION_MAJOR 0
#define VKF_VERSION_MINOR 1
#define VKF_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------------------------------------------------ */

typedef enum vkf_status {
  VKF_OK = 0,
  VKF_ERROR_ARGUMENT = 1,      /* an argument is not allowed (an id outside the vocabulary, a wrong shape) */
  VKF_ERROR_MEMORY = 2,        /* out of host memory */
  VKF_ERROR_DEVICE_MEMORY = 3, /* out of device memory */
  VKF_ERROR_FILE = 4,          /* a file cannot be opened, read or written */
  VKF_ERROR_FORMAT = 5,        /* a file's content is not what its format says */
  VKF_ERROR_UNSUPPORTED = 6,   /* valid, but this library does not support it; the message names it */
  VKF_ERROR_NO_DEVICE = 7,     /* no Vulkan loader, no device, or none that matches */
  VKF_ERROR_DEVICE = 8,        /* a Vulkan call failed */
  VKF_ERROR_DEVICE_LOST = 9,   /* the device was lost: every call that uses it fails; you may open a new device */
  VKF_ERROR_NUMERIC = 10,      /* a logit or an output is not finite */
  VKF_ERROR_STOPPED = 11       /* a callback asked to stop; after on_token or on_text there is a result */
} vkf_status;

/* Returns the version of the linked library: "0.1.0". */
VKF_API const char *vkf_version(void);
/* Returns how many cores this process may use, at least 1. On CPU drivers, many texts run fastest with one worker per
 * core, each with its own context (docs/SPEED.md, "Workers, batches and memory"). */
VKF_API uint32_t vkf_core_count(void);
/* Returns a short lower-case name ("out of device memory"), never NULL. */
VKF_API const char *vkf_status_name(vkf_status status);

/* ---- structs that can grow --------------------------------------------------------------------------------------- */

/* Structs of parameters and of information begin with their size as the caller compiled them, because later versions of
 * the library may add fields. Zero is the default of every field. In C:
 *
 *     vkf_run_params params = {VKF_RUN_PARAMS_INIT, .attentions = true};
 *
 * and in C++17, which has no designated initializers:
 *
 *     vkf_run_params params;
 *     vkf_run_params_init(&params);
 *     params.attentions = true;
 *
 * The library reads and writes no byte past `size`. Fields that it does not know yet must be 0, else the call returns
 * VKF_ERROR_UNSUPPORTED. A size of 0 is VKF_ERROR_ARGUMENT. Structs that the library hands out have their size in
 * `size`. */
#define VKF_DEFINE_INIT(type)               \
  static inline void type##_init(type *s) { \
    memset(s, 0, sizeof *s);                \
    s->size = sizeof *s;                    \
  }

/* ---- context ----------------------------------------------------------------------------------------------------- */

typedef struct vkf_context vkf_context;
typedef struct vkf_device vkf_device;
typedef struct vkf_model vkf_model;
typedef struct vkf_session vkf_session;
typedef struct vkf_result vkf_result;

typedef enum vkf_log_level {
  VKF_LOG_ERROR = 0,
  VKF_LOG_WARNING = 1,
  VKF_LOG_INFO = 2,
  VKF_LOG_DEBUG = 3
} vkf_log_level;

/* Gets a line without its newline, valid during the call. Called only from threads that called the library. */
typedef void (*vkf_log_fn)(void *user, vkf_log_level level, const char *line);

/* Host memory. `reallocate` frees if `size` is 0 and allocates if `old` is NULL; alignment as malloc's. */
typedef struct vkf_allocator {
  void *(*reallocate)(void *user, void *old, size_t size);
  void *user;
} vkf_allocator;

typedef struct vkf_context_params {
  size_t size;    /* sizeof(vkf_context_params) */
  vkf_log_fn log; /* NULL: silent */
  void *log_user;
  vkf_log_level log_level;        /* the least important level that is logged */
  const vkf_allocator *allocator; /* NULL: malloc */
  const char *const *icd_files;   /* additional Vulkan driver manifests, or NULL */
  size_t n_icd_files;
  /* Folder of measured kernel times, results of driver checks, and compiled kernels. NULL: the environment variable
   * VKF_CACHE_DIR, else $XDG_CACHE_HOME/vkformer, else ~/.cache/vkformer. "": no folder. A cache that is damaged,
   * belongs to another user or cannot be written is no error. */
  const char *cache_folder;
  /* The reproducible mode: all devices of this context, "ref" included, give the same bits. Slower (docs/numerics.md).
   */
  bool deterministic;
  /* Pretend that each device of this context has these limits: "least" (what Vulkan 1.1 promises), "pi", "mali",
   * "adreno", "intel", "m1" or "deck" (what their drivers report), or a JSON file (docs/devices.md). NULL: its own
   * limits. */
  const char *limits;
  /* Give a sentence the same bits alone, in any batch and with any padding. Software drivers always do; this makes GPUs
   * do it, too. vkf_session_run() says what pads before a sentence do. */
  bool batch_invariant;
} vkf_context_params;
#define VKF_CONTEXT_PARAMS_INIT .size = sizeof(vkf_context_params)
VKF_DEFINE_INIT(vkf_context_params)

/* Makes no Vulkan call: the first is made when a device is listed or opened. */
VKF_API vkf_status vkf_context_create(const vkf_context_params *params, vkf_context **out);
VKF_API void vkf_context_destroy(vkf_context **ctx);
/* Returns the first cause of the last failure of any call but a session's; "" if none failed. Valid until the next call
 * with this context. */
VKF_API const char *vkf_context_message(const vkf_context *ctx);

/* ---- devices ----------------------------------------------------------------------------------------------------- */

typedef enum vkf_device_kind {
  VKF_DEVICE_REF = 0, /* the scalar path on the host; needs no Vulkan */
  VKF_DEVICE_CPU = 1, /* a Vulkan driver that computes on the CPU (lavapipe, SwiftShader) */
  VKF_DEVICE_INTEGRATED = 2,
  VKF_DEVICE_DISCRETE = 3,
  VKF_DEVICE_VIRTUAL = 4,
  VKF_DEVICE_OTHER = 5
} vkf_device_kind;
/* "scalar", "software", "integrated", "discrete", "virtual", "other"; NULL: no such value. */
VKF_API const char *vkf_device_kind_name(vkf_device_kind kind);

typedef struct vkf_device_info {
  size_t size; /* sizeof(vkf_device_info) */
  vkf_device_kind kind;
  char name[256];   /* from the driver */
  char driver[256]; /* driver name and information */
  char alias[16];   /* "ref", "lavapipe", "swiftshader", "gpu" or "cpu" */
  uint8_t uuid[16];
  uint32_t vendor_id, device_id, driver_version, api_version, driver_id;
  uint64_t memory_bytes; /* the largest device-local heap; 0 for ref */
  uint64_t max_storage_range_bytes, max_allocation_bytes;
  uint32_t max_shared_bytes, max_invocations, max_storage_bindings;
  uint32_t subgroup_size;
  float timestamp_ns; /* nanoseconds a tick; 0 without timestamps */
  bool has_float16, has_storage16, has_int64, has_buffer_address, has_subgroup_shuffle, has_subgroup_arithmetic,
      has_cooperative_matrix;
} vkf_device_info;
#define VKF_DEVICE_INFO_INIT .size = sizeof(vkf_device_info)
VKF_DEFINE_INIT(vkf_device_info)

/* Counts the Vulkan devices and ref, which is the last of the list. A missing loader or driver is no error. */
VKF_API vkf_status vkf_context_list_devices(vkf_context *ctx, size_t *count);
/* VKF_ERROR_ARGUMENT: index is not below the count. */
VKF_API vkf_status vkf_context_device_info(vkf_context *ctx, size_t index, vkf_device_info *out);

/* Opens a device. selector: NULL (the environment variable VKF_DEVICE, else the best GPU, else a software driver), an
 * index of the list, a UUID, "ref", "lavapipe", "swiftshader", "gpu", "cpu", or a case-insensitive part of a device's
 * or driver's name. If two devices match, the error lists them. On a processor with AVX-512, lavapipe is faster if you
 * set two environment variables before the first context is created: see docs/devices.md ("The vector width of
 * lavapipe"). If lavapipe has a thread on every core and a trial shows a gain, the device adds one of the lowest
 * priority to each core, which keeps the core from sleeping during a run; the environment variable VKF_KEEP_AWAKE=0
 * turns that off. */
VKF_API vkf_status vkf_device_open(vkf_context *ctx, const char *selector, vkf_device **out);

VKF_API void vkf_device_close(vkf_device **dev);
/* Valid as long as the device is open. */
VKF_API const vkf_device_info *vkf_device_get_info(const vkf_device *dev);
/* Returns how many bytes of device memory this device holds now (0 once every model is closed), and its peak. */
VKF_API void vkf_device_memory(const vkf_device *dev, uint64_t *now_bytes, uint64_t *peak_bytes);

/* ---- arrays and files -------------------------------------------------------------------------------------------- */

typedef enum vkf_dtype {
  VKF_F32 = 0,
  VKF_F16 = 1,
  VKF_BF16 = 2,
  VKF_I32 = 3,
  VKF_I64 = 4,
  VKF_I8 = 5,
  VKF_U8 = 6,
  VKF_BOOL = 7,
  VKF_F64 = 8,
  VKF_I16 = 9,
  VKF_DTYPE_COUNT = 10
} vkf_dtype;
/* "F32", as safetensors writes it; NULL: no such value. */
VKF_API const char *vkf_dtype_name(vkf_dtype dtype);

#define VKF_MAX_RANK 8

/* A dense row-major array. `name` and `data` belong to the creator of the array. */
typedef struct vkf_array {
  const char *name;
  vkf_dtype dtype;
  size_t rank;
  size_t shape[VKF_MAX_RANK];
  void *data;
} vkf_array;

/* Reads or writes named arrays as a safetensors file; vkf_arrays_read() also takes a folder or an index of shards. The
 * result owns the arrays that were read. vkf_bytes_write() says how files are replaced. */
VKF_API vkf_status vkf_arrays_read(vkf_context *ctx, const char *path, vkf_result **out);
VKF_API vkf_status vkf_arrays_write(vkf_context *ctx, const char *path, const vkf_array *arrays, size_t n);

/* Reads a whole file into the array `bytes` (uint8), which is followed by a zero byte. A folder, a device and a pipe
 * without a writer give VKF_ERROR_FILE; opening never waits. */
VKF_API vkf_status vkf_bytes_read(vkf_context *ctx, const char *path, vkf_result **out);
/* Writes a whole file. A regular file, or the one that a symbolic link points to, is replaced as a whole or left
 * unchanged, and keeps its mode. Devices, pipes and open files (/dev/stdout, /dev/fd/N) are written to. */
VKF_API vkf_status vkf_bytes_write(vkf_context *ctx, const char *path, const void *data, size_t n);
/* Checks that such a write could begin now; call it before a long computation. Creates nothing. */
VKF_API vkf_status vkf_bytes_check_write(vkf_context *ctx, const char *path);

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* How numbers are stored. Sums are float32; Q8 sums integers within each block of 32 first. */
typedef enum vkf_storage {
  VKF_STORAGE_AUTO = 0,
  VKF_STORAGE_F32 = 1,
  VKF_STORAGE_F16 = 2,
  VKF_STORAGE_BF16 = 3,
  VKF_STORAGE_INT8 = 4, /* with one scale for each row */
  VKF_STORAGE_Q8 = 5    /* as INT8; matrix products also round their activations to 8 bits, in blocks of 32 of a row */
} vkf_storage;
/* "auto", "f32", "f16", "bf16", "int8", "q8"; NULL: no such value. */
VKF_API const char *vkf_storage_name(vkf_storage storage);

/* Called now and then. Non-zero stops the call, which returns VKF_ERROR_STOPPED and leaves nothing behind. */
typedef int (*vkf_progress_fn)(void *user, uint64_t done_bytes, uint64_t all_bytes);

typedef struct vkf_model_params {
  size_t size;          /* sizeof(vkf_model_params) */
  vkf_storage weights;  /* matrices and embeddings; AUTO: f32 on software drivers, elsewhere as in the file, which
                           gives the same bits in the same kernels */
  vkf_storage kv_cache; /* keys and values, those of encoders too: F32 or F16; AUTO: f16 on a GPU if the matrices
                           have 16 bits or fewer, f32 elsewhere and in the reproducible mode */
  vkf_progress_fn on_progress; /* while weights go to the device, in bytes as stored there; NULL: none */
  void *user;
  const vkf_model *weights_of; /* NULL, or a model of the same files, open on another device; its context may be another
                                  one, and other threads may use it. Software drivers then read its weights and make no
                                  copy. Keep it open while this call runs; you may close it before the new model */
} vkf_model_params;
#define VKF_MODEL_PARAMS_INIT .size = sizeof(vkf_model_params)
VKF_DEFINE_INIT(vkf_model_params)

/* Opens a folder in Hugging Face layout: config.json, model.safetensors (or shards with an index), and, if it has them,
 * generation_config.json and tokenizer.json (or the legacy files of a tokenizer). When this returns, the weights are on
 * the device. */
VKF_API vkf_status vkf_model_open(vkf_device *dev, const char *folder, vkf_model **out);
/* The same with parameters. VKF_ERROR_UNSUPPORTED names a weight that its format cannot hold: over 65504 as f16, not
 * finite as int8 or q8. A key or value that a cache in f16 cannot hold becomes NaN; generation finds it in the scores
 * and returns VKF_ERROR_NUMERIC. */
VKF_API vkf_status vkf_model_open_with(vkf_device *dev, const char *folder, const vkf_model_params *params,
                                       vkf_model **out);

/* A file in memory, by its name in a model folder: "config.json", "1_Pooling/config.json". */
typedef struct vkf_memory_file {
  const char *name;
  const void *data; /* not NULL */
  size_t bytes;
} vkf_memory_file;

/* Opens a model from memory. files[n] and what they point to are not copied: keep them unchanged until it is closed. */
VKF_API vkf_status vkf_model_open_memory(vkf_device *dev, const vkf_memory_file *files, size_t n,
                                         const vkf_model_params *params, vkf_model **out);
/* Waits for session calls that run in other threads. Later calls of the model's sessions return VKF_ERROR_ARGUMENT. */
VKF_API void vkf_model_close(vkf_model **model);

typedef enum vkf_architecture {
  VKF_ARCHITECTURE_ENCODER_DECODER = 0,
  VKF_ARCHITECTURE_ENCODER = 1,
  VKF_ARCHITECTURE_DECODER = 2
} vkf_architecture;
/* "encoder-decoder", "encoder", "decoder"; NULL: no such value. */
VKF_API const char *vkf_architecture_name(vkf_architecture architecture);

typedef struct vkf_model_info {
  size_t size;        /* sizeof(vkf_model_info) */
  const char *family; /* "marian", "transformer" */
  vkf_architecture architecture;
  uint32_t d_model, n_heads, d_ff, vocab, encoder_layers, decoder_layers, max_positions; /* 0 positions: unlimited */
  uint64_t n_parameters;                                                                 /* tied tensors once */
  uint64_t file_bytes, device_bytes; /* of the weights, in the files and on the device */
  vkf_storage weights, kv_cache;     /* how they are stored; weights AUTO: each as in its file */
  bool has_tokenizer, can_generate;
  size_t n_unused;   /* tensors of the file that the model does not use */
  uint32_t image[3]; /* channels, height, width of pixel_values; 0: the model takes ids */
  uint64_t n_labels; /* labels that a whole text or image can get; 0: it labels none */
} vkf_model_info;
#define VKF_MODEL_INFO_INIT .size = sizeof(vkf_model_info)
VKF_DEFINE_INIT(vkf_model_info)
/* The strings are valid as long as the model is open. */
VKF_API vkf_status vkf_model_get_info(const vkf_model *model, vkf_model_info *out);
/* Returns the name of unused tensor i < n_unused. Valid as long as the model is open. */
VKF_API const char *vkf_model_unused_tensor(const vkf_model *model, size_t i);

typedef enum vkf_attention_kind {
  VKF_ATTENTION_ENCODER = 0, /* self-attention of the encoder */
  VKF_ATTENTION_DECODER = 1, /* self-attention of the decoder, also in a decoder-only model */
  VKF_ATTENTION_CROSS = 2    /* from the decoder to the encoder's output */
} vkf_attention_kind;

/* How a layer computes attention weights: the softmax of scale * q.k + bias over the keys k that a query q sees. Query
 * head h uses head h / (n_heads / n_kv_heads) of the keys and values. */
typedef struct vkf_attention_info {
  size_t size; /* sizeof(vkf_attention_info) */
  uint32_t n_heads, n_kv_heads, key_width, value_width;
  float scale;
  bool causal;     /* a query sees no key after itself */
  bool has_bias;   /* vkf_run_params.projections returns it */
  uint32_t window; /* keys that a query sees, itself and those before it; 0: all */
} vkf_attention_info;
#define VKF_ATTENTION_INFO_INIT .size = sizeof(vkf_attention_info)
VKF_DEFINE_INIT(vkf_attention_info)
/* VKF_ERROR_ARGUMENT if the model has no such attention or layer. */
VKF_API vkf_status vkf_model_get_attention(const vkf_model *model, vkf_attention_kind kind, size_t layer,
                                           vkf_attention_info *out);

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

/* Called now and then while a session computes, on the thread of the session's call, but not while it tokenizes texts
 * or compiles kernels. Non-zero stops the call, which returns VKF_ERROR_STOPPED without a result. Slots keep the ids
 * that they were fed; the next vkf_session_step() runs them. */
typedef int (*vkf_stop_fn)(void *user);

/* A session runs a model in one thread. It owns the caches of keys and values and all other memory of its runs.
 * Sessions of one model share its weights. What a session computes does not depend on other sessions. */
typedef struct vkf_session_params {
  size_t size;             /* sizeof(vkf_session_params) */
  uint32_t n_slots;        /* sequences of loops of your own, see "steps" */
  uint32_t slot_tokens;    /* ids that each can hold; 0: the model's positions, 2048 if unlimited */
  uint32_t source_tokens;  /* ids of each source of an encoder-decoder; 0: the same default */
  uint64_t kv_cache_bytes; /* limit of the device memory for the slots' keys and values, plus up to 256 bytes a tensor
                              for alignment and guards; calls that generate may use as much again. 0: what the device
                              has left. What does not fit waits, or is refused: the message has the bytes that it needs
                              and those that it may have */
  vkf_stop_fn should_stop; /* asked in every call, maybe many times a second. NULL: none */
  void *user;              /* of should_stop */
} vkf_session_params;
#define VKF_SESSION_PARAMS_INIT .size = sizeof(vkf_session_params)
VKF_DEFINE_INIT(vkf_session_params)

/* Several threads may call this at once. vkf_context_message() says why it failed. */
VKF_API vkf_status vkf_session_create(vkf_model *model, const vkf_session_params *params, vkf_session **out);
VKF_API void vkf_session_destroy(vkf_session **session);
/* Returns the first cause of the session's last failure; "" if none of its calls failed. Valid until the next call with
 * this session. If two threads use a session, the second one's call returns VKF_ERROR_ARGUMENT and changes nothing. */
VKF_API const char *vkf_session_message(vkf_session *session);

typedef struct vkf_session_info {
  size_t size;          /* sizeof(vkf_session_info) */
  uint64_t run_bytes;   /* on the device, for all but slots; runs of all sizes share what the largest needs */
  uint64_t slots_bytes; /* on the device, for slots. run_bytes + slots_bytes = cache_bytes + step_bytes + plan_bytes */
  uint64_t cache_bytes; /* keys and values */
  uint64_t step_bytes;  /* inputs, intermediate values and results of a step */
  uint64_t plan_bytes;  /* constants and sizes of plans that are ready */
  uint64_t staging_bytes; /* buffers for copies where device memory is not mapped */
} vkf_session_info;
#define VKF_SESSION_INFO_INIT .size = sizeof(vkf_session_info)
VKF_DEFINE_INIT(vkf_session_info)
/* VKF_ERROR_ARGUMENT, as from every call of a session that is in use or whose model was closed. */
VKF_API vkf_status vkf_session_get_info(vkf_session *session, vkf_session_info *out);

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Arrays and texts are valid until the result is destroyed. */
VKF_API size_t vkf_result_count(const vkf_result *result);                            /* number of arrays */
VKF_API const vkf_array *vkf_result_at(const vkf_result *result, size_t index);       /* NULL past the end */
VKF_API const vkf_array *vkf_result_find(const vkf_result *result, const char *name); /* NULL if there is none */
/* Return the *n elements of an array (n may be NULL); NULL and 0: there is no array of that name, or its type differs.
 */
VKF_API const float *vkf_result_f32(const vkf_result *result, const char *name, size_t *n);
VKF_API const double *vkf_result_f64(const vkf_result *result, const char *name, size_t *n);
VKF_API const int32_t *vkf_result_i32(const vkf_result *result, const char *name, size_t *n);
VKF_API const char *vkf_result_text(const vkf_result *result, size_t index); /* NULL past the end */
VKF_API size_t vkf_result_text_count(const vkf_result *result);
VKF_API void vkf_result_destroy(vkf_result **result);

#include <vkformer/run.h>
#include <vkformer/text.h>

#ifdef __cplusplus
}
#endif
#endif
