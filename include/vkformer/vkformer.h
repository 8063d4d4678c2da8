/* vkformer: Transformer inference on Vulkan compute shaders.
 *
 * What a program needs that runs models. vkformer/vulkan.h adopts a Vulkan device of the caller; vkformer/lab.h
 * measures and checks. A complete small program:
 *
 *     #include <stdio.h>
 *     #include <vkformer/vkformer.h>
 *
 *     int main(void) {
 *         const char *text = "The cat sat on the mat.";
 *         vkf_context *ctx = NULL;
 *         vkf_device *dev = NULL;
 *         vkf_model *model = NULL;
 *         vkf_result *result = NULL;
 *         vkf_status st = vkf_context_create(NULL, &ctx);
 *         if (!st) st = vkf_device_open(ctx, NULL, &dev);
 *         if (!st) st = vkf_model_open(dev, "models/en-es", &model);
 *         if (!st) st = vkf_model_translate(model, &text, 1, NULL, &result);
 *         if (!st) puts(vkf_result_text(result, 0));
 *         else fprintf(stderr, "%s\n", vkf_context_message(ctx));
 *         vkf_result_destroy(&result);
 *         vkf_model_close(&model);
 *         vkf_device_close(&dev);
 *         vkf_context_destroy(&ctx);
 *         return st != VKF_OK;
 *     }
 *
 * Ownership is a tree: context > device > model; children go first. Results stand alone (they belong to the
 * context). Every destroy/close takes the address of a handle, accepts NULL and sets the handle to NULL.
 *
 * Threads: one context and everything below it is used by one thread at a time. Contexts are independent of each other:
 * several threads may have one each. There is no global state but this: the Vulkan loader takes additional driver
 * manifests (icd_files) from the environment, so that is where they are, under a lock of this library, while a context
 * with icd_files lists its devices for the first time.
 *
 * Callbacks: inside one, tokenizers, results, arrays in files and what only tells (vkf_model_get_info(),
 * vkf_context_message() and so on) may be used. What would disturb the call that the callback belongs to is refused
 * with VKF_ERROR_ARGUMENT: to open, run or change models, to run or measure ops; and what closes leaves its handle as
 * it is.
 *
 * Errors: functions that can fail return vkf_status. vkf_context_message() is the sentence of the first cause of the
 * last call that failed: what was expected, what was found, where.
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
  VKF_ERROR_UNSUPPORTED = 6,   /* valid, but not supported; the message names it */
  VKF_ERROR_NO_DEVICE = 7,     /* no Vulkan loader, no device, or none that matches */
  VKF_ERROR_DEVICE = 8,        /* a Vulkan call failed */
  VKF_ERROR_DEVICE_LOST =
      9,                  /* the device was lost: everything on it refuses further work, a new device may be opened */
  VKF_ERROR_NUMERIC = 10, /* a logit or an output is not finite */
  VKF_ERROR_STOPPED = 11  /* a callback asked to stop; what was generated until then is in the result */
} vkf_status;

/* "0.1.0": the version of the library that is linked. */
VKF_API const char *vkf_version(void);
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
typedef struct vkf_result vkf_result;

typedef enum vkf_log_level {
  VKF_LOG_ERROR = 0,
  VKF_LOG_WARNING = 1,
  VKF_LOG_INFO = 2,
  VKF_LOG_DEBUG = 3
} vkf_log_level;

/* A line without its newline; valid during the call. May be called from the thread that called the library only. */
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
  /* Where measured times of kernels are kept from run to run (`vkformer tune`, and a measurement of some milliseconds
   * at the first opening of a device whose facts do not decide). NULL: the environment's VKF_CACHE_DIR, else
   * $XDG_CACHE_HOME/vkformer, else ~/.cache/vkformer; "": nowhere. A cache that is damaged, not this user's or not to
   * be written is no error. */
  const char *cache_folder;
  /* The reproducible mode. Devices opened in this context give the same bits, whichever they are, "ref"
   * included: one order of sums, no fused multiply-add, functions of our own, 0 in the place of what is nearer to 0
   * than 2^-100. Slower. */
  bool deterministic;
  /* NULL, or how small a device is to be taken for: "pi", "mali", "adreno" (classes of small devices), or a JSON file
   * with limits; docs/devices.md. Devices opened or adopted in this context plan as such a device would. */
  const char *limits;
  /* On a GPU, too, a sentence gives the same bits alone, in any batch and beside any padding, on one device. It
   * costs the kernels that split their sums. Software drivers do so always. Pads before a sentence are as said of
   * attention_mask at vkf_model_run(). */
  bool batch_invariant;
} vkf_context_params;
#define VKF_CONTEXT_PARAMS_INIT .size = sizeof(vkf_context_params)
VKF_DEFINE_INIT(vkf_context_params)

/* params: NULL for silence and defaults. No Vulkan call is made before a device is listed or opened. */
VKF_API vkf_status vkf_context_create(const vkf_context_params *params, vkf_context **out);
VKF_API void vkf_context_destroy(vkf_context **ctx);
/* The first cause of the last call that failed, "" if none did. Valid until the next call with this context. */
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

typedef struct vkf_device_info {
  size_t size; /* sizeof(vkf_device_info) */
  vkf_device_kind kind;
  char name[256];   /* as the driver gives it */
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

/* The Vulkan devices, then ref as the last. A missing loader or driver is no error here: only ref is listed then. */
VKF_API vkf_status vkf_context_list_devices(vkf_context *ctx, size_t *count);
/* index < count. */
VKF_API vkf_status vkf_context_device_info(vkf_context *ctx, size_t index, vkf_device_info *out);

/* Mesa's software driver lavapipe uses 256-bit vectors even on processors with AVX-512: a host that wants 512 bits
 * there sets LP_NATIVE_VECTOR_WIDTH=512 in the environment before it makes its first context, and
 * MESA_SHADER_CACHE_DIR to a folder for this width alone (Mesa 25.0 mixes what it compiled for different widths),
 * as the program vkformer does; the library never changes the environment.
 *
 * selector: NULL (the environment's VKF_DEVICE, else the best GPU, else a software driver), an index of the list, a
 * UUID, "ref", "lavapipe", "swiftshader", "gpu", "cpu", or a case-insensitive part of a device's or driver's name; two
 * matches are an error that lists them. */
VKF_API vkf_status vkf_device_open(vkf_context *ctx, const char *selector, vkf_device **out);

VKF_API void vkf_device_close(vkf_device **dev);
/* As long as the device is open. */
VKF_API const vkf_device_info *vkf_device_get_info(const vkf_device *dev);
/* Bytes of device memory that this device holds now (0 after every model is closed) and at most. */
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

#define VKF_MAX_RANK 8

/* A dense row-major array. `name` and `data` belong to whoever made the array. */
typedef struct vkf_array {
  const char *name;
  vkf_dtype dtype;
  size_t rank;
  size_t shape[VKF_MAX_RANK];
  void *data;
} vkf_array;

/* Named arrays in a safetensors file, or, to be read, in a folder or index of shards. The arrays read belong to the
 * result. Writing is as for vkf_bytes_write(). */
VKF_API vkf_status vkf_arrays_read(vkf_context *ctx, const char *path, vkf_result **out);
VKF_API vkf_status vkf_arrays_write(vkf_context *ctx, const char *path, const vkf_array *arrays, size_t n);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A whole file, as this library reads every one: the array `bytes` (uint8) of the result, with a zero byte behind it. A
 * folder, a device and a pipe that nobody writes to are VKF_ERROR_FILE; opening never waits. */
VKF_API vkf_status vkf_bytes_read(vkf_context *ctx, const char *path, vkf_result **out);
/* A whole file, as this library writes every one. A regular file is replaced as a whole or left as it was, and keeps
 * its mode; of a symbolic link that is the file behind it. Devices and pipes are written through, and so is what is
 * open as standard output or error (/dev/stdout, /dev/fd/N). VKF_ERROR_FILE says what cannot be written. */
VKF_API vkf_status vkf_bytes_write(vkf_context *ctx, const char *path, const void *data, size_t n);
/* Whether such a write could begin now, for those who compute long before they write; nothing is created. */
VKF_API vkf_status vkf_bytes_check_write(vkf_context *ctx, const char *path);

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* How numbers are stored. Sums are float32 whatever it is. */
typedef enum vkf_storage {
  VKF_STORAGE_AUTO = 0,
  VKF_STORAGE_F32 = 1,
  VKF_STORAGE_F16 = 2,
  VKF_STORAGE_BF16 = 3,
  VKF_STORAGE_INT8 = 4 /* a scale a row */
} vkf_storage;
/* "auto", "f32", "f16", "bf16", "int8"; NULL: no such value. */
VKF_API const char *vkf_storage_name(vkf_storage storage);

typedef struct vkf_model_params {
  size_t size;          /* sizeof(vkf_model_params) */
  vkf_storage weights;  /* matrices and embeddings; AUTO: f32 on software drivers, elsewhere as in the file, which
                           gives the same bits */
  vkf_storage kv_cache; /* keys and values of decoders: F32 or F16; AUTO: f32 */
} vkf_model_params;
#define VKF_MODEL_PARAMS_INIT .size = sizeof(vkf_model_params)
VKF_DEFINE_INIT(vkf_model_params)

/* A folder in Hugging Face layout: config.json, model.safetensors (or shards with an index), and where they are
 * generation_config.json and tokenizer.json (or the legacy files of a tokenizer). Weights are on the device when this
 * returns. */
VKF_API vkf_status vkf_model_open(vkf_device *dev, const char *folder, vkf_model **out);
/* The same with parameters (NULL: the defaults). VKF_ERROR_UNSUPPORTED names a weight that its format cannot hold: over
 * 65504 as f16, not finite as int8. With a cache in f16 a key or value that it cannot hold becomes NaN there, which
 * generating finds in the scores and says. */
VKF_API vkf_status vkf_model_open_with(vkf_device *dev, const char *folder, const vkf_model_params *params,
                                       vkf_model **out);
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
  uint64_t run_bytes; /* on the device, of the caches, intermediate values and results of the last run's sizes */
  vkf_storage weights, kv_cache; /* how they are stored; weights AUTO: each as in its file */
  bool has_tokenizer, can_generate;
  size_t n_unused;   /* tensors of the file that nothing asks for */
  uint32_t image[3]; /* channels, height, width of pixel_values in the place of ids; 0: the model takes ids */
} vkf_model_info;
#define VKF_MODEL_INFO_INIT .size = sizeof(vkf_model_info)
VKF_DEFINE_INIT(vkf_model_info)
/* The strings stay as long as the model is open. */
VKF_API vkf_status vkf_model_get_info(const vkf_model *model, vkf_model_info *out);
/* i < n_unused; as long as the model is open. */
VKF_API const char *vkf_model_unused_tensor(const vkf_model *model, size_t i);

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct vkf_run_params {
  size_t size; /* sizeof(vkf_run_params) */
  bool hidden_states, attentions;
  bool allow_not_finite; /* else VKF_ERROR_NUMERIC names the first output that has a NaN or an infinity */
} vkf_run_params;
#define VKF_RUN_PARAMS_INIT .size = sizeof(vkf_run_params)
VKF_DEFINE_INIT(vkf_run_params)

/* One forward pass. inputs: input_ids [B,S], attention_mask [B,S] (1 keep, 0 pad; default all 1), decoder_input_ids
 * [B,T], decoder_attention_mask [B,T], token_type_ids [B,S] (default all 0), each where the model has it; int32 or
 * int64. Pads behind a sentence change none of its bits. Pads before it change none where they do not move its
 * positions: as in transformers, a forward pass counts them in most models, vkf_model_generate() of a decoder does not.
 * Models of images have pixel_values [B,channels,height,width] (float32) alone. The result's arrays are named
 * and shaped as transformers' outputs: logits, pooler_output, encoder_last_hidden_state, encoder_hidden_states.N,
 * decoder_hidden_states.N, encoder_attentions.N, decoder_attentions.N, cross_attentions.N, and last_hidden_state,
 * hidden_states.N, attentions.N where there is one stack. params: NULL for last states and logits only. */
VKF_API vkf_status vkf_model_run(vkf_model *model, const vkf_array *inputs, size_t n_inputs,
                                 const vkf_run_params *params, vkf_result **out);

/* Image files (PNG, JPEG) as the folder's preprocessor_config.json wants them, in the arithmetic of Pillow: the array
 * pixel_values [n,channels,height,width] for vkf_model_run(). For models of images. */
VKF_API vkf_status vkf_model_read_images(vkf_model *model, const char *const *paths, size_t n, vkf_result **out);

/* After each step: `row` of the result's `sequences` (translate: the text's index) got `token` (greedy, sampling), or
 * the step ended (beams: token -1, and no row that means something). Non-zero stops: nothing more is told, and the call
 * returns VKF_ERROR_STOPPED with a result of all rows up to that step. A batch that exceeds the device's limits runs in
 * parts, one after the other: rows of parts that had not begun then are not in the result of vkf_model_generate(),
 * whose `sequences` are the first rows alone, and are "" in that of vkf_model_translate(), as are texts whose batch had
 * not begun. */
typedef int (*vkf_token_fn)(void *user, size_t row, int32_t token);

/* What becomes of a text that has more tokens than the model has positions. */
typedef enum vkf_long_rule {
  VKF_LONG_REFUSE = 0, /* the text is refused */
  VKF_LONG_TRUNCATE =
      1,             /* the words that fit are kept: the first ones, or the last ones of a prompt that is continued */
  VKF_LONG_SPLIT = 2 /* it is split after sentences, else between words, else between characters */
} vkf_long_rule;

/* Why a result has nothing for a text. */
typedef enum vkf_skip_reason {
  VKF_SKIP_NONE = 0,   /* it has something */
  VKF_SKIP_LONG = 1,   /* too many tokens */
  VKF_SKIP_INVALID = 2 /* no UTF-8, no token, or nothing to be done in it */
} vkf_skip_reason;
/* Of text `text` of a call that had skip_refused. *why (may be NULL): a sentence as long as the result is there, or
 * NULL.
 */
VKF_API vkf_skip_reason vkf_result_skipped(const vkf_result *result, size_t text, const char **why);

typedef struct vkf_generate_params {
  size_t size;             /* sizeof(vkf_generate_params) */
  const char *config_json; /* keys as in generation_config.json, over the folder's own; NULL: none */
  vkf_token_fn on_token;
  void *user;
  uint64_t
      first_line; /* do_sample: row r draws the random numbers of line first_line + r, in whatever batch it stands */
  const uint64_t *lines;    /* do_sample: the line of each row or text, over first_line; NULL: see there */
  bool scores;              /* without beams, too: `sequences_scores`; every step's scores come to the host then */
  uint32_t top_logprobs;    /* vkf_model_generate without beams: of each token this many most likely ids; 0: none */
  vkf_long_rule long_texts; /* vkf_model_translate */
  bool skip_refused;        /* vkf_model_translate: a text that is refused is left out, else the call fails */
} vkf_generate_params;
#define VKF_GENERATE_PARAMS_INIT .size = sizeof(vkf_generate_params)
VKF_DEFINE_INIT(vkf_generate_params)

/* inputs: input_ids [B,S] and attention_mask as above, which keeps a token of each row at least; behind an encoder also
 * decoder_input_ids [B,T], the beginning of each target, without pads: where no row begins with the start id it is put
 * before all of them. Result: `sequences` [B*num_return_sequences, length] int32 and,
 * with beams or params.scores, `sequences_scores`: the sum of the log-probabilities of a row's generated ids, as
 * transformers' compute_transition_scores(normalize_logits=True) has them (with beams normalize_logits=False: edits
 * come after the log-softmax there), over their number to the power of length_penalty; with top_logprobs N also
 * `logprobs` [rows, steps] of the generated tokens, `top_ids` and `top_logprobs` [rows, steps, N] (float32; -1 and 0
 * behind a row's end): the log-softmax of the logits as the model gives them, before penalties, temperature and what
 * else the configuration does to them. Every key of the configuration is applied or refused by name;
 * encoder_repetition_penalty is for every beam (transformers 5.12 gives it to the first B of B x beams rows). One key
 * more than transformers has is "seed" (default 0), from which do_sample draws: the same seed, line and prompt give the
 * same ids.
 */
VKF_API vkf_status vkf_model_generate(vkf_model *model, const vkf_array *inputs, size_t n_inputs,
                                      const vkf_generate_params *params, vkf_result **out);

/* Texts in UTF-8, in batches of the library's choosing; vkf_result_text(result, i) is the translation of texts[i],
 * without white space at its ends; the parts of a text that was split are joined, with a space where the text had white
 * space. Arrays: `sequences` and, with beams or params.scores, `sequences_scores`, a row for each part; `texts` [rows]
 * int32: the text that each row is of. Needs a tokenizer in the folder. VKF_ERROR_ARGUMENT names a text (from 1) that
 * is empty, or that is refused: no UTF-8, or longer than the model's positions and not to be cut. */
VKF_API vkf_status vkf_model_translate(vkf_model *model, const char *const *texts, size_t n_texts,
                                       const vkf_generate_params *params, vkf_result **out);

/* Multilingual models: the languages of the texts from now on, named as transformers' tokenizers name them ("en_XX",
 * "eng_Latn", "fr"); NULL leaves one as it is. The source language's token is put where the tokenizer has it; the
 * target language becomes forced_bos_token_id, or with Marian the token before the text. VKF_ERROR_ARGUMENT for a
 * language that the tokenizer does not have (the message lists some that it has), or for a tokenizer without languages.
 */
VKF_API vkf_status vkf_model_set_languages(vkf_model *model, const char *source, const char *target);

/* ids of a text with the special tokens that the tokenizer adds: array `ids` [n] int32. */
VKF_API vkf_status vkf_model_tokenize(vkf_model *model, const char *text, vkf_result **out);
/* The piece of an id as the vocabulary writes it, as long as the model is open; NULL: there is none. */
VKF_API const char *vkf_model_piece(const vkf_model *model, int32_t id);
/* Text of ids: vkf_result_text(result, 0); special tokens are left out. VKF_ERROR_ARGUMENT for an id outside the
 * tokenizer's vocabulary, which can be smaller than the model's. */
VKF_API vkf_status vkf_model_detokenize(vkf_model *model, const int32_t *ids, size_t n, vkf_result **out);
/* The same with the special tokens in the text. */
VKF_API vkf_status vkf_model_detokenize_all(vkf_model *model, const int32_t *ids, size_t n, vkf_result **out);

/* The same by a tokenizer alone: a folder with tokenizer files needs no weights. It belongs to the context. */
typedef struct vkf_tokenizer vkf_tokenizer;
VKF_API vkf_status vkf_tokenizer_open(vkf_context *ctx, const char *folder, vkf_tokenizer **out);
VKF_API void vkf_tokenizer_close(vkf_tokenizer **tokenizer);
/* As vkf_model_set_languages(), vkf_model_tokenize() and vkf_model_detokenize(); a target that a model would begin with
 * has no effect here. */
VKF_API vkf_status vkf_tokenizer_set_languages(vkf_tokenizer *tokenizer, const char *source, const char *target);
VKF_API vkf_status vkf_tokenizer_encode(vkf_tokenizer *tokenizer, const char *text, vkf_result **out);
VKF_API vkf_status vkf_tokenizer_decode(vkf_tokenizer *tokenizer, const int32_t *ids, size_t n, vkf_result **out);

/* ---- what people do with texts ----------------------------------------------------------------------------------- */

/* The functions of this section take texts in UTF-8, n of them, and give one result for all. They run texts of similar
 * lengths together, in batches that fit the device; a text's numbers do not depend on the others (on a GPU: with
 * batch_invariant), and results are in the order of the texts. Each takes params of its own (NULL: the defaults). They
 * need a tokenizer in the folder, are called by one thread at a time, as everything of a context, and not inside a
 * callback. */

typedef enum vkf_pooling {
  VKF_POOLING_FOLDER = 0, /* as 1_Pooling/config.json says; the mean where there is none */
  VKF_POOLING_MEAN = 1,
  VKF_POOLING_CLS = 2, /* the state of the first token */
  VKF_POOLING_MAX = 3, /* the largest number of each dimension */
  VKF_POOLING_LAST = 4 /* the state of the last token */
} vkf_pooling;

typedef struct vkf_embedding_params {
  size_t size; /* sizeof(vkf_embedding_params) */
  vkf_pooling pooling;
  bool normalize;  /* to length 1, also where the folder does not say so */
  bool similarity; /* the result has `similarity` */
  vkf_long_rule long_texts;
  bool ignore_folder_limit; /* false: a text with more tokens than the folder's max_seq_length is cut there, special
                        tokens kept, as sentence-transformers does; true: long_texts decides, at that limit */
  bool skip_refused;        /* a text that is refused is left out of the result; else the call fails */
} vkf_embedding_params;
#define VKF_EMBEDDING_PARAMS_INIT .size = sizeof(vkf_embedding_params)
VKF_DEFINE_INIT(vkf_embedding_params)

/* A vector for each text: the last states of its tokens, pooled as sentence-transformers does it. modules.json,
 * 1_Pooling/config.json, sentence_bert_config.json and config_sentence_transformers.json of the folder are followed:
 * pooling, normalization, max_seq_length, the default prompt before each text. Arrays: `embeddings` [n,width] float64
 * (means are taken in it); `n_tokens` and `n_used` [n] int32: the tokens of each text, and how many of them the vector
 * is made of; `similarity` [n,n] float64: the cosine of each text to every text. The parts of a text that was split are
 * pooled as one text. A text that was skipped has NaN and 0. VKF_ERROR_UNSUPPORTED for an encoder-decoder and, by name,
 * for what the folder's files ask for and is not computed; VKF_ERROR_ARGUMENT names a text (from 1) that is refused. */
VKF_API vkf_status vkf_model_embed(vkf_model *model, const char *const *texts, size_t n_texts,
                                   const vkf_embedding_params *params, vkf_result **out);

typedef struct vkf_classify_params {
  size_t size;  /* sizeof(vkf_classify_params) */
  size_t top_k; /* labels of a text, best first; 0: all */
  vkf_long_rule long_texts;
  bool skip_refused;
} vkf_classify_params;
#define VKF_CLASSIFY_PARAMS_INIT .size = sizeof(vkf_classify_params)
VKF_DEFINE_INIT(vkf_classify_params)

/* Labels of texts, by a model with a head for sequences: arrays `labels` [n,k] int32, best first, and `scores` [n,k]
 * float64; vkf_result_text(result, label) is a label's name (id2label of config.json; "LABEL_0" where it has none).
 * Scores are those of transformers' pipelines: the softmax over the labels; the sigmoid of each where problem_type is
 * multi_label_classification or there is one label; the logits for a regression. The parts of a text that was split are
 * averaged, each with its number of tokens as its weight. A text that was skipped has labels -1.
 *
 * By a model with a head for tokens (its class is called ...ForTokenClassification) the words of all texts, one after
 * the other: arrays `texts` [w] int32, the text that each word is of, `labels` [w] and `scores` [w], as its first token
 * has them. vkf_result_text(result, i) is word i, and vkf_result_text(result, w + label) the name of a label.
 *
 * VKF_ERROR_UNSUPPORTED for a model without such a head. */
VKF_API vkf_status vkf_model_classify(vkf_model *model, const char *const *texts, size_t n_texts,
                                      const vkf_classify_params *params, vkf_result **out);
/* Labels of image files (PNG, JPEG), as vkf_model_read_images() reads them; as of texts by a head for sequences. An
 * image that cannot be read fails the call. */
VKF_API vkf_status vkf_model_classify_images(vkf_model *model, const char *const *paths, size_t n_paths,
                                             const vkf_classify_params *params, vkf_result **out);

typedef struct vkf_fill_mask_params {
  size_t size;  /* sizeof(vkf_fill_mask_params) */
  size_t top_k; /* candidates of a mask, best first; 0: 5 */
  vkf_long_rule long_texts;
  bool skip_refused;
} vkf_fill_mask_params;
#define VKF_FILL_MASK_PARAMS_INIT .size = sizeof(vkf_fill_mask_params)
VKF_DEFINE_INIT(vkf_fill_mask_params)

/* What a masked language model puts in the place of each mask, which is written as the tokenizer writes it ([MASK] or
 * <mask>). Each mask is filled alone, the others stay. Arrays, of all m masks in the order of the texts: `texts` [m]
 * int32, the text of each mask; `positions` [m] int32, its place among the ids of the text's part; `ids` [m,k] int32,
 * best first; `scores` [m,k] float64, their probabilities. Of candidate c = i * k + j vkf_result_text(result, 2 * c) is
 * the token and vkf_result_text(result, 2 * c + 1) the text with it. A text without a mask is refused. */
VKF_API vkf_status vkf_model_fill_mask(vkf_model *model, const char *const *texts, size_t n_texts,
                                       const vkf_fill_mask_params *params, vkf_result **out);

/* A piece of the text that follows prompt `prompt`: whole UTF-8 characters, which nothing that follows changes, and no
 * part of a stop string; n_bytes of it, not ended by a zero. Non-zero stops: VKF_ERROR_STOPPED, with a result of what
 * there is until then. */
typedef int (*vkf_text_fn)(void *user, size_t prompt, const char *text, size_t n_bytes);

typedef struct vkf_generate_text_params {
  size_t size;              /* sizeof(vkf_generate_text_params) */
  const char *config_json;  /* as in vkf_generate_params */
  const char *const *stops; /* a text ends before the first of these strings, and its generation with it; with beams
                               and with several sequences a prompt texts are cut there afterwards */
  size_t n_stops;
  vkf_text_fn on_text; /* while texts grow; not with beams and not with several sequences a prompt. NULL: none */
  void *user;
  size_t batch_size;        /* prompts of equal length (in tokens) that run together; 0: 32 */
  const uint64_t *lines;    /* do_sample: prompt i draws the random numbers of line lines[i]; NULL: of line i */
  bool scores;              /* without beams, too: `sequences_scores` */
  uint32_t top_logprobs;    /* as in vkf_generate_params */
  vkf_long_rule long_texts; /* VKF_LONG_SPLIT is refused: what follows a part is not what follows the prompt */
  bool skip_refused;
} vkf_generate_text_params;
#define VKF_GENERATE_TEXT_PARAMS_INIT .size = sizeof(vkf_generate_text_params)
VKF_DEFINE_INIT(vkf_generate_text_params)

/* What follows each prompt, or what an encoder-decoder makes of it, in s sequences a prompt (num_return_sequences):
 * vkf_result_text(result, i * s + r) is sequence r of prompt i. Arrays: `sequences` [n*s,length] int32: the generated
 * ids alone, with -1 behind them; with beams or params.scores `sequences_scores` [n*s] as vkf_model_generate() gives
 * them, NaN where a stop string cut the text; with top_logprobs N `logprobs` [n*s,length], `top_ids` and `top_logprobs`
 * [n*s,length,N]. A prompt's text depends on the configuration, on the prompt, and with do_sample on seed and line; not
 * on the prompts beside it. */
VKF_API vkf_status vkf_model_generate_text(vkf_model *model, const char *const *prompts, size_t n_prompts,
                                           const vkf_generate_text_params *params, vkf_result **out);

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Arrays and texts are there until the result is destroyed. */
VKF_API size_t vkf_result_count(const vkf_result *result);                            /* number of arrays */
VKF_API const vkf_array *vkf_result_at(const vkf_result *result, size_t index);       /* NULL past the end */
VKF_API const vkf_array *vkf_result_find(const vkf_result *result, const char *name); /* NULL if there is none */
VKF_API const char *vkf_result_text(const vkf_result *result, size_t index);          /* NULL past the end */
VKF_API size_t vkf_result_text_count(const vkf_result *result);
VKF_API void vkf_result_destroy(vkf_result **result);

#ifdef __cplusplus
}
#endif
#endif
