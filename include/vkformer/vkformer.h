/* vkformer: Transformer inference on Vulkan compute shaders.
 *
 * All that a program needs to run models. Two more headers: with vkformer/vulkan.h models run on a Vulkan device of the
 * caller; vkformer/lab.h measures and checks. A complete small program:
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
 * Ownership is a tree: context > device > model > session. Close children before their parents. Results, and sessions
 * whose model was closed, outlive their device and model, but destroy them before the context. Every destroy and close
 * function takes the address of a handle, accepts NULL and sets the handle to NULL.
 *
 * Threads: a model is not changed once it is open, and any number of sessions run it, each in a thread of its own. Any
 * thread may create and destroy a session. Only one thread at a time may use a session, and only one thread at a time
 * may use a context, its devices and its models (while sessions run in other threads). The allocator is called by all
 * these threads, also at the same time, and so is the log. Contexts are independent. The only global state is in the
 * environment: the Vulkan loader reads additional driver manifests (icd_files) from there. When a context with
 * icd_files lists its devices for the first time, this library sets the variable, under a lock, and restores it.
 *
 * Callbacks: a callback may use tokenizers, results, arrays in files and functions that only return information
 * (vkf_model_get_info(), vkf_context_message() and so on), and other sessions than its own. A call that would disturb
 * the one that the callback belongs to returns VKF_ERROR_ARGUMENT: opening models, running the same session, running or
 * measuring ops. Closing a handle has no effect there, nor has destroying the session of the callback.
 *
 * Errors: functions that can fail return vkf_status. vkf_session_message() says why a session's last failed call
 * failed, vkf_context_message() why any other one did: what was expected, what was found, where.
 *
 * NULL: a pointer may be NULL only where its comment says so; `params` may always be NULL, which means the defaults.
 * Elsewhere NULL is an error; a function that returns no status then does nothing and returns NULL or 0. Pointers in
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
  VKF_ERROR_ARGUMENT =
      1, /* the caller passed something that is not allowed (ids outside the vocabulary, a wrong shape) */
  VKF_ERROR_MEMORY = 2,        /* out of host memory */
  VKF_ERROR_DEVICE_MEMORY = 3, /* out of device memory */
  VKF_ERROR_FILE = 4,          /* a file cannot be opened, read or written */
  VKF_ERROR_FORMAT = 5,        /* a file's content is not what its format says */
  VKF_ERROR_UNSUPPORTED = 6,   /* valid, but this library does not support it; the message names it */
  VKF_ERROR_NO_DEVICE = 7,     /* no Vulkan loader, no device, or none that matches */
  VKF_ERROR_DEVICE = 8,        /* a Vulkan call failed */
  VKF_ERROR_DEVICE_LOST = 9,   /* the device was lost: every call that uses it fails; you may open a new device */
  VKF_ERROR_NUMERIC = 10,      /* a logit or an output is not finite */
  VKF_ERROR_STOPPED = 11       /* a callback asked to stop; the result has what was generated before */
} vkf_status;

/* "0.1.0": the version of the library that is linked. */
VKF_API const char *vkf_version(void);
/* How many cores this process may use; at least 1. On CPU drivers a worker a core, each with a context of its own, is
 * the fastest way through many texts (docs/sessions.md). */
VKF_API uint32_t vkf_core_count(void);
/* A short lower-case name ("out of device memory"); never NULL. */
VKF_API const char *vkf_status_name(vkf_status status);

/* ---- structs that can grow --------------------------------------------------------------------------------------- */

/* Each struct of parameters and each struct of information begins with its size as the caller compiled it, so that
 * later versions of the library can add fields at its end. Zero is the default of every field. In C:
 *
 *     vkf_run_params params = {VKF_RUN_PARAMS_INIT, .attentions = true};
 *
 * and where there are no designated initializers (C++17):
 *
 *     vkf_run_params params;
 *     vkf_run_params_init(&params);
 *     params.attentions = true;
 *
 * The library reads and writes no byte past `size`. Fields that the caller does not have yet are defaults. Fields that
 * this library does not have yet must be 0, else the call returns VKF_ERROR_UNSUPPORTED. A size of 0 is
 * VKF_ERROR_ARGUMENT. Structs that the library hands out (to callbacks, by pointer) say in `size` how many bytes they
 * have. */
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

/* A line without its newline, valid during the call. Called only from threads that called the library. */
typedef void (*vkf_log_fn)(void *user, vkf_log_level level, const char *line);

/* Host memory. `reallocate` frees when `size` is 0, allocates when `old` is NULL; alignment as malloc's. */
typedef struct vkf_allocator {
  void *(*reallocate)(void *user, void *old, size_t size);
  void *user;
} vkf_allocator;

typedef struct vkf_context_params {
  size_t size;    /* sizeof(vkf_context_params) */
  vkf_log_fn log; /* NULL: silent */
  void *log_user;
  vkf_log_level log_level;        /* the least important level that is passed on */
  const vkf_allocator *allocator; /* NULL: malloc */
  const char *const *icd_files;   /* additional Vulkan driver manifests, or NULL */
  size_t n_icd_files;
  /* The folder that keeps measured times of kernels from run to run (from `vkformer tune`, and from a measurement of
   * some milliseconds when a device is opened first and its properties do not decide). NULL: the environment variable
   * VKF_CACHE_DIR, else $XDG_CACHE_HOME/vkformer, else ~/.cache/vkformer. "": no folder. A cache that is damaged,
   * belongs to another user or cannot be written is no error. */
  const char *cache_folder;
  /* The reproducible mode: all devices opened in this context, "ref" included, give the same bits. Sums have one order,
   * multiply-adds are not fused, functions such as exp are this library's own, and results smaller than 2^-100 become
   * 0. Slower. */
  bool deterministic;
  /* Pretend that each device of this context has these limits: "pi", "mali" or "adreno" (classes of small devices), or
   * a JSON file (docs/devices.md). NULL: its own limits. */
  const char *limits;
  /* On a GPU, too, a sentence gives the same bits alone, in any batch and with any padding, on one device; kernels that
   * split their sums are not used then. On software drivers this is always so. vkf_session_run() says what pads before
   * a sentence do. */
  bool batch_invariant;
} vkf_context_params;
#define VKF_CONTEXT_PARAMS_INIT .size = sizeof(vkf_context_params)
VKF_DEFINE_INIT(vkf_context_params)

/* params: NULL for silence and defaults. No Vulkan call is made before a device is listed or opened. */
VKF_API vkf_status vkf_context_create(const vkf_context_params *params, vkf_context **out);
VKF_API void vkf_context_destroy(vkf_context **ctx);
/* The first cause of the last call that failed, sessions' calls apart; "" if none did. Valid until the next call with
 * this context. */
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

/* Lists the Vulkan devices, and ref as the last one. A missing loader or driver is no error: then only ref is listed.
 */
VKF_API vkf_status vkf_context_list_devices(vkf_context *ctx, size_t *count);
/* index < count. */
VKF_API vkf_status vkf_context_device_info(vkf_context *ctx, size_t index, vkf_device_info *out);

/* selector: NULL (the environment variable VKF_DEVICE, else the best GPU, else a software driver), an index of the
 * list, a UUID, "ref", "lavapipe", "swiftshader", "gpu", "cpu", or a case-insensitive part of a device's or driver's
 * name. If two devices match, the error lists them.
 *
 * Mesa's software driver lavapipe uses 256-bit vectors even on processors with AVX-512. For 512 bits, set
 * LP_NATIVE_VECTOR_WIDTH=512 in the environment before you create the first context, and MESA_SHADER_CACHE_DIR to a
 * folder for this width alone, because Mesa 22.3 and 25.0 mix code that they compiled for different widths. The program
 * vkformer does both; the library does not. */
VKF_API vkf_status vkf_device_open(vkf_context *ctx, const char *selector, vkf_device **out);

VKF_API void vkf_device_close(vkf_device **dev);
/* Valid as long as the device is open. */
VKF_API const vkf_device_info *vkf_device_get_info(const vkf_device *dev);
/* Bytes of device memory that this device holds now (0 after every model is closed), and the most that it held. */
VKF_API void vkf_device_memory(const vkf_device *dev, uint64_t *now_bytes, uint64_t *peak_bytes);

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

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
 * result owns the arrays that were read. A file is written as vkf_bytes_write() does it. */
VKF_API vkf_status vkf_arrays_read(vkf_context *ctx, const char *path, vkf_result **out);
VKF_API vkf_status vkf_arrays_write(vkf_context *ctx, const char *path, const vkf_array *arrays, size_t n);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Reads a whole file, as this library reads every file: array `bytes` (uint8) of the result, followed by a zero byte. A
 * folder, a device and a pipe without a writer give VKF_ERROR_FILE; opening never waits. */
VKF_API vkf_status vkf_bytes_read(vkf_context *ctx, const char *path, vkf_result **out);
/* Writes a whole file, as this library writes every file. A regular file is replaced as a whole or left unchanged, and
 * keeps its mode; of a symbolic link, the file that it points to. Devices and pipes are written to, and so are open
 * files (/dev/stdout, /dev/fd/N). VKF_ERROR_FILE: the message says what cannot be written. */
VKF_API vkf_status vkf_bytes_write(vkf_context *ctx, const char *path, const void *data, size_t n);
/* Checks that such a write could begin now, before a long computation. Creates nothing. */
VKF_API vkf_status vkf_bytes_check_write(vkf_context *ctx, const char *path);

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* How numbers are stored. Sums are always float32. */
typedef enum vkf_storage {
  VKF_STORAGE_AUTO = 0,
  VKF_STORAGE_F32 = 1,
  VKF_STORAGE_F16 = 2,
  VKF_STORAGE_BF16 = 3,
  VKF_STORAGE_INT8 = 4 /* with one scale for each row */
} vkf_storage;
/* "auto", "f32", "f16", "bf16", "int8"; NULL: no such value. */
VKF_API const char *vkf_storage_name(vkf_storage storage);

/* Called now and then during a long call. Non-zero stops: the call returns VKF_ERROR_STOPPED and leaves nothing behind.
 */
typedef int (*vkf_progress_fn)(void *user, uint64_t done_bytes, uint64_t all_bytes);

typedef struct vkf_model_params {
  size_t size;          /* sizeof(vkf_model_params) */
  vkf_storage weights;  /* matrices and embeddings; AUTO: f32 on software drivers, elsewhere as in the file, which
                           gives the same bits */
  vkf_storage kv_cache; /* keys and values of decoders: F32 or F16; AUTO: f32 */
  vkf_progress_fn on_progress; /* while weights go to the device, in bytes as stored there; NULL: none */
  void *user;
} vkf_model_params;
#define VKF_MODEL_PARAMS_INIT .size = sizeof(vkf_model_params)
VKF_DEFINE_INIT(vkf_model_params)

/* A folder in Hugging Face layout: config.json, model.safetensors (or shards with an index), and where they are
 * generation_config.json and tokenizer.json (or the legacy files of a tokenizer). Weights are on the device when this
 * returns. */
VKF_API vkf_status vkf_model_open(vkf_device *dev, const char *folder, vkf_model **out);
/* The same with parameters (NULL: the defaults). VKF_ERROR_UNSUPPORTED names a weight that its format cannot hold: over
 * 65504 as f16, not finite as int8. A key or value that a cache in f16 cannot hold becomes NaN; generation finds it in
 * the scores and returns VKF_ERROR_NUMERIC. */
VKF_API vkf_status vkf_model_open_with(vkf_device *dev, const char *folder, const vkf_model_params *params,
                                       vkf_model **out);

/* A file in memory, by its name in a model folder: "config.json", "1_Pooling/config.json". */
typedef struct vkf_memory_file {
  const char *name;
  const void *data; /* not NULL */
  size_t bytes;
} vkf_memory_file;

/* The same from memory: files[n] are those of a model folder. They are not copied: the files and what they point to
 * must stay unchanged until the model is closed. Messages call a file by its name. */
VKF_API vkf_status vkf_model_open_memory(vkf_device *dev, const vkf_memory_file *files, size_t n,
                                         const vkf_model_params *params, vkf_model **out);
/* Parts the model's sessions from it: a call that runs in another thread ends first, later ones return
 * VKF_ERROR_ARGUMENT. */
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
} vkf_model_info;
#define VKF_MODEL_INFO_INIT .size = sizeof(vkf_model_info)
VKF_DEFINE_INIT(vkf_model_info)
/* The strings are valid as long as the model is open. */
VKF_API vkf_status vkf_model_get_info(const vkf_model *model, vkf_model_info *out);
/* The name; i < n_unused. Valid as long as the model is open. */
VKF_API const char *vkf_model_unused_tensor(const vkf_model *model, size_t i);

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

/* A session runs a model in one thread. It has a message of its own, caches of keys and values, plans that were made
 * ready, and the memory of their runs on the host and on the device. Sessions of one model share its weights. What a
 * session computes does not depend on other sessions. */
typedef struct vkf_session_params {
  size_t size;            /* sizeof(vkf_session_params) */
  uint32_t n_slots;       /* sequences for loops of your own, see "steps" */
  uint32_t slot_tokens;   /* ids that each can hold; 0: the model's positions, 2048 where they have no end */
  uint32_t source_tokens; /* ids of each source of an encoder-decoder; 0: the same */
} vkf_session_params;
#define VKF_SESSION_PARAMS_INIT .size = sizeof(vkf_session_params)
VKF_DEFINE_INIT(vkf_session_params)

/* Several threads may call this at once. vkf_context_message() says why it failed. params: NULL for the defaults. */
VKF_API vkf_status vkf_session_create(vkf_model *model, const vkf_session_params *params, vkf_session **out);
VKF_API void vkf_session_destroy(vkf_session **session);
/* The first cause of the session's last call that failed, "" if none did. Valid until the next call with this session.
 * If two threads use a session, the second one's call returns VKF_ERROR_ARGUMENT and changes nothing; that thread gets
 * a message that says so. */
VKF_API const char *vkf_session_message(vkf_session *session);

typedef struct vkf_session_info {
  size_t size;          /* sizeof(vkf_session_info) */
  uint64_t run_bytes;   /* on the device, of the caches, intermediate values and results of the last run's sizes */
  uint64_t slots_bytes; /* the same of all slots */
} vkf_session_info;
#define VKF_SESSION_INFO_INIT .size = sizeof(vkf_session_info)
VKF_DEFINE_INIT(vkf_session_info)
VKF_API vkf_status vkf_session_get_info(vkf_session *session, vkf_session_info *out);

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct vkf_run_params {
  size_t size; /* sizeof(vkf_run_params) */
  bool hidden_states, attentions;
  bool allow_not_finite; /* else VKF_ERROR_NUMERIC names the first output that has a NaN or an infinity */
} vkf_run_params;
#define VKF_RUN_PARAMS_INIT .size = sizeof(vkf_run_params)
VKF_DEFINE_INIT(vkf_run_params)

/* One forward pass. inputs: input_ids [B,S], attention_mask [B,S] (1 keep, 0 pad; default all 1), decoder_input_ids
 * [B,T], decoder_attention_mask [B,T], token_type_ids [B,S] (default all 0), as far as the model has them; int32 or
 * int64. Models of images take pixel_values [B,channels,height,width] (float32) alone. Pads behind a sentence change
 * none of its bits. Pads before it change none unless they move its positions: as in transformers, a forward pass
 * counts them as positions in most models; vkf_session_generate() of a decoder is not fed them. An encoder does not
 * compute pads before and behind a sentence: its outputs are zeros there. The result's arrays have the names and shapes
 * of transformers' outputs: logits, pooler_output, encoder_last_hidden_state, encoder_hidden_states.N,
 * decoder_hidden_states.N, encoder_attentions.N, decoder_attentions.N, cross_attentions.N; models with one stack have
 * last_hidden_state, hidden_states.N, attentions.N. params: NULL for last states and logits only. */
VKF_API vkf_status vkf_session_run(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                   const vkf_run_params *params, vkf_result **out);

/* Reads image files (PNG, JPEG) and prepares them as the folder's preprocessor_config.json says, with Pillow's
 * arithmetic: array pixel_values [n,channels,height,width] for vkf_session_run(). For models of images. */
VKF_API vkf_status vkf_session_read_images(vkf_session *session, const char *const *paths, size_t n, vkf_result **out);

/* Called after each step. Greedy search and sampling: row `row` of the result's `sequences` (translate: the text's
 * index) got `token`. Beams: `token` is -1 and `row` has no meaning. Return non-zero to stop: the callback is not
 * called again, and the call returns VKF_ERROR_STOPPED with a result of all rows up to that step. A batch that exceeds
 * the device's limits runs in parts, one after the other. Rows whose part had not begun are missing at the end of the
 * `sequences` of vkf_session_generate(). vkf_session_translate() gives "" for texts whose part or batch had not
 * begun. */
typedef int (*vkf_token_fn)(void *user, size_t row, int32_t token);

/* What to do with a text that has more tokens than the model has positions. */
typedef enum vkf_long_rule {
  VKF_LONG_REFUSE = 0, /* the text is refused */
  VKF_LONG_TRUNCATE =
      1,             /* the words that fit are kept: the first ones, or the last ones of a prompt that is continued */
  VKF_LONG_SPLIT = 2 /* it is split after sentences, else between words, else between characters */
} vkf_long_rule;

/* Why a text has no result. */
typedef enum vkf_skip_reason {
  VKF_SKIP_NONE = 0,   /* it has one */
  VKF_SKIP_LONG = 1,   /* it has too many tokens */
  VKF_SKIP_INVALID = 2 /* it is not UTF-8, has no token, or has nothing to work on (a mask, for example) */
} vkf_skip_reason;
/* For text number `text` of a call with skip_refused. why: NULL, or it gets a sentence, valid as long as the result, or
 * NULL if the text was not skipped. */
VKF_API vkf_skip_reason vkf_result_skipped(const vkf_result *result, size_t text, const char **why);

typedef struct vkf_generate_params {
  size_t size;             /* sizeof(vkf_generate_params) */
  const char *config_json; /* keys of generation_config.json; they override the folder's. NULL: none */
  vkf_token_fn on_token;
  void *user;
  uint64_t first_line;      /* do_sample: row r draws the random numbers of line first_line + r, in any batch */
  const uint64_t *lines;    /* do_sample: the line of each row or text, in place of first_line + r; NULL: those */
  bool scores;              /* `sequences_scores` without beams, too; the host then reads the scores of every step */
  uint32_t top_logprobs;    /* vkf_session_generate() without beams: this many most likely ids of each token; 0: none */
  vkf_long_rule long_texts; /* vkf_session_translate() */
  bool skip_refused;        /* vkf_session_translate(): true skips a text that is refused; false fails the call */
  const char *source_language, *target_language; /* of the texts, see "languages"; NULL: as the folder says */
} vkf_generate_params;
#define VKF_GENERATE_PARAMS_INIT .size = sizeof(vkf_generate_params)
VKF_DEFINE_INIT(vkf_generate_params)

/* Generates ids. inputs: input_ids [B,S] and attention_mask as for vkf_session_run(), with at least one token to keep
 * in each row; for an encoder-decoder also decoder_input_ids [B,T], the beginning of each target, without pads (if no
 * row begins with the start id, it is put before all of them).
 *
 * Arrays of the result:
 *   sequences         [B*num_return_sequences, length] int32
 *   sequences_scores  [rows] float32, with beams or params.scores: the sum of the log-probabilities of a row's
 * generated ids, divided by their number to the power of length_penalty. They are those of transformers'
 *                     compute_transition_scores(normalize_logits=True); with beams those of normalize_logits=False,
 *                     because beam search edits scores after the log-softmax
 *   logprobs          [rows, steps] float32, with top_logprobs N: of the generated tokens
 *   top_ids, top_logprobs  [rows, steps, N], with top_logprobs N; -1 and 0 after a row's end. Log-probabilities are the
 *                     log-softmax of the model's logits, before penalties, temperature and other options
 *
 * Every key of the configuration is applied or refused by name. encoder_repetition_penalty applies to every beam
 * (transformers 5.12 applies it to the first B of B x beams rows). One key is not in transformers: "seed" (default 0).
 * With do_sample the same seed, line and prompt give the same ids. */
VKF_API vkf_status vkf_session_generate(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                        const vkf_generate_params *params, vkf_result **out);

/* Translates texts in UTF-8; the library chooses the batches. vkf_result_text(result, i) is the translation of
 * texts[i], without white space at its ends. The parts of a text that was split are joined, with a space where the text
 * had white space. Arrays, with a row for each part: `sequences`; with beams or params.scores `sequences_scores`;
 * `texts` [rows] int32, the number of the text that the row belongs to. The folder must have a tokenizer.
 * VKF_ERROR_ARGUMENT names a text (counted from 1) that is empty, not UTF-8, or too long if long_texts is
 * VKF_LONG_REFUSE. */
VKF_API vkf_status vkf_session_translate(vkf_session *session, const char *const *texts, size_t n_texts,
                                         const vkf_generate_params *params, vkf_result **out);

/* ---- steps: loops of your own ------------------------------------------------------------------------------------ */

/* A session has n_slots slots (vkf_session_params). Each holds one sequence of a model with a decoder: its ids, and
 * their keys and values on the device. Feed ids, make a step, read logits, choose the next id, feed it:
 *
 *     st = vkf_session_feed(session, 0, prompt, n_prompt, 1);
 *     while (!st && !(st = vkf_session_step(session))) {
 *         const float *logits = vkf_session_logits(session, 0, NULL);    // [vocab]
 *         int32_t id = choose(logits);
 *         if (id == end) break;
 *         st = vkf_session_feed(session, 0, &id, 1, 1);
 *     }
 *
 * The logits of an id have the bits that vkf_session_run() has of the whole sequence, however it was fed, on devices
 * where the order of sums does not depend on sizes (software drivers, and GPUs with batch_invariant). Slots are counted
 * from 0. VKF_ERROR_ARGUMENT: there is no such slot. */

/* An encoder-decoder: runs the encoder on the source [n], and empties the slot. Before the first feed. */
VKF_API vkf_status vkf_session_encode(vkf_session *session, size_t slot, const int32_t *ids, size_t n);
/* Puts ids behind those of the slot; the next step runs them. n_logits: of the last so many of them the step computes
 * logits; 0: it only fills the cache. Nothing is fed if the slot cannot hold all of them (VKF_ERROR_ARGUMENT), or if
 * there is an id outside the vocabulary. Ids that were fed before and have not run lose their logits. */
VKF_API vkf_status vkf_session_feed(vkf_session *session, size_t slot, const int32_t *ids, size_t n, size_t n_logits);
/* Runs all that was fed to all slots, side by side, and returns when it is done. If nothing was fed, it does nothing.
 * After a failure the ids that were fed remain, and another step runs them. VKF_ERROR_NUMERIC: a logit is not
 * finite. */
VKF_API vkf_status vkf_session_step(vkf_session *session);
/* The logits [*n][vocab] of the slot's last step, valid until the next call on this session that is not one of these
 * three; *n (NULL: not wanted) is 0 and the result NULL where there are none. */
VKF_API const float *vkf_session_logits(const vkf_session *session, size_t slot, size_t *n);
/* The ids of a slot, those that were fed and have not run included; valid as the logits. NULL and 0: there are none. */
VKF_API const int32_t *vkf_session_ids(const vkf_session *session, size_t slot, size_t *n);
/* How many ids a slot can hold. */
VKF_API size_t vkf_session_slot_capacity(const vkf_session *session);

/* Keeps the first n ids of a slot; n 0 empties it (an encoder's source stays). What follows is as if no other ids had
 * ever been fed. VKF_ERROR_ARGUMENT: the slot has fewer. */
VKF_API vkf_status vkf_session_truncate(vkf_session *session, size_t slot, size_t n);
/* Gives slot `to` the first n ids of slot `from`, with their keys and values, and its source: a prefix that several
 * sequences share is computed once. All n have run. */
VKF_API vkf_status vkf_session_copy(vkf_session *session, size_t from, size_t to, size_t n);
/* The slot as bytes (array `bytes`, uint8), with a checksum and the model's identity: vkf_bytes_write() keeps them in a
 * file. Every id has run. Restoring takes the bytes into a slot of any session of the same model, of another process,
 * too, that has room for them; its next logits have the same bits as if the ids had been fed where they were saved.
 * VKF_ERROR_FORMAT: the bytes are damaged. VKF_ERROR_ARGUMENT: they are of another model, or of one that is stored in
 * another format, or they do not fit. After an error the slot is as it was. */
VKF_API vkf_status vkf_session_save(vkf_session *session, size_t slot, vkf_result **out);
VKF_API vkf_status vkf_session_restore(vkf_session *session, size_t slot, const void *bytes, size_t n);

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

/* A tokenizer is opened from a folder with tokenizer files (no weights are needed), or belongs to a model.
 *
 * Languages: tokenizers of multilingual models have a token for each language, named as transformers' tokenizers name
 * them ("en_XX", "eng_Latn", "fr"). The source language's token is put where the tokenizer has it. The target language
 * becomes forced_bos_token_id; with Marian its token is put before the text. VKF_ERROR_ARGUMENT for a language that the
 * tokenizer does not have (the message lists some that it has), or for a tokenizer without languages. A choice is for
 * one call. */
typedef struct vkf_tokenizer vkf_tokenizer;
VKF_API vkf_status vkf_tokenizer_open(vkf_context *ctx, const char *folder, vkf_tokenizer **out);
/* Closes a tokenizer that was opened; of a model's it only sets the handle to NULL. */
VKF_API void vkf_tokenizer_close(vkf_tokenizer **tokenizer);
/* The model's, as long as the model is open; NULL: its folder has none, and vkf_context_message() says what was looked
 * for. The functions below take such a NULL: they return VKF_ERROR_ARGUMENT, NULL or -1. */
VKF_API vkf_tokenizer *vkf_model_tokenizer(vkf_model *model);
/* The same for the thread of a session, which is told of failures; as long as the session. After the model was closed
 * its functions fail, too. */
VKF_API vkf_tokenizer *vkf_session_tokenizer(vkf_session *session);

typedef struct vkf_encode_params {
  size_t size;                                   /* sizeof(vkf_encode_params) */
  bool no_special_tokens;                        /* without the tokens that the tokenizer adds around a text */
  const char *source_language, *target_language; /* NULL: as the folder says */
} vkf_encode_params;
#define VKF_ENCODE_PARAMS_INIT .size = sizeof(vkf_encode_params)
VKF_DEFINE_INIT(vkf_encode_params)

/* The ids of a text in UTF-8: array `ids` [n] int32; vkf_result_text(result, i) is the piece of id i as the vocabulary
 * writes it. params: NULL for the defaults. */
VKF_API vkf_status vkf_tokenizer_encode(vkf_tokenizer *tokenizer, const char *text, const vkf_encode_params *params,
                                        vkf_result **out);

typedef struct vkf_decode_params {
  size_t size;              /* sizeof(vkf_decode_params) */
  bool keep_special_tokens; /* else they are left out */
} vkf_decode_params;
#define VKF_DECODE_PARAMS_INIT .size = sizeof(vkf_decode_params)
VKF_DEFINE_INIT(vkf_decode_params)

/* The text of ids: vkf_result_text(result, 0). VKF_ERROR_ARGUMENT for an id outside the tokenizer's vocabulary, which
 * can be smaller than the model's. params: NULL for the defaults. */
VKF_API vkf_status vkf_tokenizer_decode(vkf_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                        const vkf_decode_params *params, vkf_result **out);
/* The piece of an id as the vocabulary writes it, as long as the tokenizer is open; NULL: there is none. */
VKF_API const char *vkf_tokenizer_piece(const vkf_tokenizer *tokenizer, int32_t id);
/* The id of such a piece; -1: there is none. */
VKF_API int32_t vkf_tokenizer_find(const vkf_tokenizer *tokenizer, const char *piece);

/* Ids with a use of their own; -1: none. */
typedef struct vkf_special_ids {
  size_t size;           /* sizeof(vkf_special_ids) */
  int32_t bos, eos, pad; /* of a model as its configuration has them, else as its tokenizer */
  int32_t mask, unk;     /* of the tokenizer */
  int32_t decoder_start; /* of a model: where a target begins */
} vkf_special_ids;
#define VKF_SPECIAL_IDS_INIT .size = sizeof(vkf_special_ids)
VKF_DEFINE_INIT(vkf_special_ids)
VKF_API vkf_status vkf_tokenizer_get_special_ids(const vkf_tokenizer *tokenizer, vkf_special_ids *out);
/* eos: the first one where there are several. */
VKF_API vkf_status vkf_model_get_special_ids(const vkf_model *model, vkf_special_ids *out);

/* ---- what people do with texts ----------------------------------------------------------------------------------- */

/* The functions of this section take n texts in UTF-8 and return one result for all, in the order of the texts. They
 * run texts of similar lengths together, in batches that fit the device. A text's numbers do not depend on the other
 * texts (on a GPU: with batch_invariant). params NULL: the defaults. The folder must have a tokenizer. */

typedef enum vkf_pooling {
  VKF_POOLING_FOLDER = 0, /* as 1_Pooling/config.json says; without that file, the mean */
  VKF_POOLING_MEAN = 1,
  VKF_POOLING_CLS = 2, /* the state of the first token */
  VKF_POOLING_MAX = 3, /* the largest number of each dimension */
  VKF_POOLING_LAST = 4 /* the state of the last token */
} vkf_pooling;

typedef struct vkf_embedding_params {
  size_t size; /* sizeof(vkf_embedding_params) */
  vkf_pooling pooling;
  bool normalize;  /* to length 1, even if the folder does not say so */
  bool similarity; /* compute `similarity` */
  vkf_long_rule long_texts;
  bool ignore_folder_limit; /* false: a text with more tokens than the folder's max_seq_length is cut there, special
                        tokens kept, as sentence-transformers does; true: long_texts decides, at that limit */
  bool skip_refused;        /* true skips a text that is refused; false fails the call */
} vkf_embedding_params;
#define VKF_EMBEDDING_PARAMS_INIT .size = sizeof(vkf_embedding_params)
VKF_DEFINE_INIT(vkf_embedding_params)

/* Computes a vector for each text: the last states of its tokens, pooled as sentence-transformers does it. The folder's
 * modules.json, 1_Pooling/config.json, sentence_bert_config.json and config_sentence_transformers.json decide pooling,
 * normalization, max_seq_length and the default prompt before each text. Arrays: `embeddings` [n,width] float64;
 * `n_tokens` and `n_used` [n] int32: the tokens of each text, and how many of them were pooled; `similarity` [n,n]
 * float64: the cosine of each pair of texts. The parts of a text that was split are pooled as one text. A text that was
 * skipped has NaN and 0. VKF_ERROR_UNSUPPORTED: the model is an encoder-decoder, or the folder's files ask for
 * something that this library does not compute; the message names it. VKF_ERROR_ARGUMENT names a text (counted from 1)
 * that is refused. */
VKF_API vkf_status vkf_session_embed(vkf_session *session, const char *const *texts, size_t n_texts,
                                     const vkf_embedding_params *params, vkf_result **out);

typedef struct vkf_classify_params {
  size_t size;  /* sizeof(vkf_classify_params) */
  size_t top_k; /* this many labels of a text, best first; 0: all */
  vkf_long_rule long_texts;
  bool skip_refused;
} vkf_classify_params;
#define VKF_CLASSIFY_PARAMS_INIT .size = sizeof(vkf_classify_params)
VKF_DEFINE_INIT(vkf_classify_params)

/* Labels texts. A model with a head for sequences labels whole texts: arrays `labels` [n,k] int32, best first, and
 * `scores` [n,k] float64. vkf_result_text(result, label) is a label's name (id2label of config.json, else "LABEL_0").
 * Scores are those of transformers' pipelines: the softmax over the labels; the sigmoid of each if problem_type is
 * multi_label_classification or there is only one label; the logits of a regression. The scores of a text that was
 * split are the mean over its parts, weighted by their numbers of tokens. A text that was skipped has labels -1.
 *
 * A model with a head for tokens (its class is called ...ForTokenClassification) labels the words of all texts, in
 * order: arrays `texts` [w] int32, the number of the word's text, `labels` [w] and `scores` [w], those of the word's
 * first token. vkf_result_text(result, i) is word i, vkf_result_text(result, w + label) the name of a label.
 *
 * VKF_ERROR_UNSUPPORTED: the model has no such head. */
VKF_API vkf_status vkf_session_classify(vkf_session *session, const char *const *texts, size_t n_texts,
                                        const vkf_classify_params *params, vkf_result **out);
/* Labels image files (PNG, JPEG) that vkf_session_read_images() can read. The result is that of whole texts. If an
 * image cannot be read, the call fails. */
VKF_API vkf_status vkf_session_classify_images(vkf_session *session, const char *const *paths, size_t n_paths,
                                               const vkf_classify_params *params, vkf_result **out);

typedef struct vkf_fill_mask_params {
  size_t size;  /* sizeof(vkf_fill_mask_params) */
  size_t top_k; /* this many candidates of a mask, best first; 0: 5 */
  vkf_long_rule long_texts;
  bool skip_refused;
} vkf_fill_mask_params;
#define VKF_FILL_MASK_PARAMS_INIT .size = sizeof(vkf_fill_mask_params)
VKF_DEFINE_INIT(vkf_fill_mask_params)

/* Fills the masks of texts with a masked language model. Write a mask as the tokenizer does ([MASK] or <mask>). Each
 * mask is filled alone; the others remain masks. Arrays, for all m masks in the order of the texts: `texts` [m] int32,
 * the number of the mask's text; `positions` [m] int32, its position among the ids of the text's part; `ids` [m,k]
 * int32, best first; `scores` [m,k] float64, their probabilities. For candidate j of mask i let c = i * k + j:
 * vkf_result_text(result, 2 * c) is the token, vkf_result_text(result, 2 * c + 1) the text with it. A text without a
 * mask is refused. */
VKF_API vkf_status vkf_session_fill_mask(vkf_session *session, const char *const *texts, size_t n_texts,
                                         const vkf_fill_mask_params *params, vkf_result **out);

/* Gets the next piece of the text that follows prompt number `prompt`: n_bytes, without a zero at the end. A piece has
 * whole UTF-8 characters that later tokens do not change, and no part of a stop string. Return non-zero to stop: the
 * call returns VKF_ERROR_STOPPED with a result of what was generated before. */
typedef int (*vkf_text_fn)(void *user, size_t prompt, const char *text, size_t n_bytes);

typedef struct vkf_generate_text_params {
  size_t size;              /* sizeof(vkf_generate_text_params) */
  const char *config_json;  /* as in vkf_generate_params */
  const char *const *stops; /* generation of a text ends before the first of these strings; with beams, or several
                               sequences for a prompt, the finished texts are cut there */
  size_t n_stops;
  vkf_text_fn on_text; /* called as texts grow; not with beams or several sequences for a prompt. NULL: none */
  void *user;
  size_t batch_size;        /* prompts of equal length (in tokens) that run together; 0: 32 */
  const uint64_t *lines;    /* do_sample: prompt i draws the random numbers of line lines[i]; NULL: of line i */
  bool scores;              /* `sequences_scores` without beams, too */
  uint32_t top_logprobs;    /* as in vkf_generate_params */
  vkf_long_rule long_texts; /* VKF_LONG_SPLIT is refused: a part's continuation is not the prompt's */
  bool skip_refused;
  const char *source_language, *target_language; /* of the texts, see "languages"; NULL: as the folder says */
} vkf_generate_text_params;
#define VKF_GENERATE_TEXT_PARAMS_INIT .size = sizeof(vkf_generate_text_params)
VKF_DEFINE_INIT(vkf_generate_text_params)

/* Continues each prompt (an encoder-decoder: answers it) with s sequences (num_return_sequences).
 * vkf_result_text(result, i * s + r) is sequence r of prompt i. Arrays: `sequences` [n*s,length] int32: the generated
 * ids without the prompt, then -1; with beams or params.scores `sequences_scores` [n*s], as from
 * vkf_session_generate(), NaN if a stop string cut the text; with top_logprobs N `logprobs` [n*s,length], `top_ids` and
 * `top_logprobs` [n*s,length,N]. A prompt's text depends on the configuration, the prompt, and with do_sample on seed
 * and line; it does not depend on the other prompts. */
VKF_API vkf_status vkf_session_generate_text(vkf_session *session, const char *const *prompts, size_t n_prompts,
                                             const vkf_generate_text_params *params, vkf_result **out);

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Arrays and texts are valid until the result is destroyed. */
VKF_API size_t vkf_result_count(const vkf_result *result);                            /* number of arrays */
VKF_API const vkf_array *vkf_result_at(const vkf_result *result, size_t index);       /* NULL past the end */
VKF_API const vkf_array *vkf_result_find(const vkf_result *result, const char *name); /* NULL if there is none */
/* The elements of an array, *n of them (n may be NULL); NULL and 0: there is no array of that name, or of another type.
 */
VKF_API const float *vkf_result_f32(const vkf_result *result, const char *name, size_t *n);
VKF_API const double *vkf_result_f64(const vkf_result *result, const char *name, size_t *n);
VKF_API const int32_t *vkf_result_i32(const vkf_result *result, const char *name, size_t *n);
VKF_API const char *vkf_result_text(const vkf_result *result, size_t index); /* NULL past the end */
VKF_API size_t vkf_result_text_count(const vkf_result *result);
VKF_API void vkf_result_destroy(vkf_result **result);

#ifdef __cplusplus
}
#endif
#endif
