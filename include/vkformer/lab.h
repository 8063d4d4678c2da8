/* vkformer/lab.h: for people who measure, check and extend the library: checks of drivers, single ops, validation,
 * profiles, kernels and their times, folders with random weights.
 *
 * Anything here may change between versions, also between minor ones. A program that only runs models needs vkformer.h
 * alone. Ownership, callbacks and errors are as vkformer.h says. Threads: call these functions while no session of the
 * device runs in another thread. A profile has the runs of sessions that are created after it was begun.
 */
#ifndef VKFORMER_LAB_H
#define VKFORMER_LAB_H

#include <vkformer/vkformer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- checks of a driver ------------------------------------------------------------------------------------------ */

/* The result of a check of the driver. The checks run when a device is opened for the first time and their results can
 * be kept in the cache folder; they take some milliseconds. A feature whose check failed is not used, and a warning
 * says so each time the device is opened. */
typedef enum vkf_check_state {
  VKF_CHECK_ABSENT = 0,   /* the device does not have the feature */
  VKF_CHECK_NOT_DONE = 1, /* the text says why */
  VKF_CHECK_PASSED = 2,
  VKF_CHECK_FAILED = 3 /* the text says what was expected and found */
} vkf_check_state;
/* "not supported", "not checked", "ok", "failed"; NULL: no such value. */
VKF_API const char *vkf_check_state_name(vkf_check_state state);
typedef struct vkf_check_info {
  size_t size;              /* sizeof(vkf_check_info) */
  const char *name, *title; /* "subgroup_shuffle", "subgroup shuffle" */
  vkf_check_state state;
  const char *text; /* "" if there is nothing to say */
} vkf_check_info;
typedef void (*vkf_check_fn)(void *user, const vkf_check_info *check);
/* Runs the checks that have not run yet and calls on_check for each check. The device ref has none. The strings are
 * valid during the call. */
VKF_API vkf_status vkf_device_run_checks(vkf_device *dev, vkf_check_fn on_check, void *user);

/* What the library keeps for a device between runs. */
typedef struct vkf_kept_info {
  size_t size;              /* sizeof(vkf_kept_info) */
  const char *cache_folder; /* of the context; NULL: none */
  bool is_refused;          /* another user could have written the folder, so it is neither read nor written */
  bool can_write;           /* the folder can be written and has room; it is created if it was missing */
  size_t n_times;           /* measured times of kernels of this very device; the short probe's do not count */
} vkf_kept_info;
#define VKF_KEPT_INFO_INIT .size = sizeof(vkf_kept_info)
VKF_DEFINE_INIT(vkf_kept_info)
/* The string is valid as long as the device is open. */
VKF_API vkf_status vkf_device_get_kept_info(const vkf_device *dev, vkf_kept_info *out);

/* Leaves out the checks of all devices that this context opens from now on, and trusts what their drivers say. For
 * development, on drivers whose results do not count, such as one that compiles for a GPU that is not there. A warning
 * says so whenever a device is opened. */
VKF_API void vkf_context_skip_checks(vkf_context *ctx);

/* ---- folders with random weights --------------------------------------------------------------------------------- */

typedef struct vkf_make_params {
  size_t size; /* sizeof(vkf_make_params) */
  uint64_t seed;
  vkf_dtype dtype;             /* VKF_F32, VKF_F16 or VKF_BF16 */
  vkf_progress_fn on_progress; /* called now and then; NULL: none */
  void *user;
} vkf_make_params;
#define VKF_MAKE_PARAMS_INIT .size = sizeof(vkf_make_params)
VKF_DEFINE_INIT(vkf_make_params)

/* Makes a folder with this config.json and random weights, of any supported family and size. Scales of norms are 1,
 * biases 0; all other weights are nearly normal with the configuration's initializer_range (or init_std; else 0.02) as
 * deviation. The same configuration, seed and dtype give the same bytes. `folder` must not exist, or be empty; it
 * appears as a whole or not at all. params: NULL for seed 0 and float32. */
VKF_API vkf_status vkf_model_make_folder(vkf_context *ctx, const char *config_path, const char *folder,
                                         const vkf_make_params *params);

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* Describes the plan of one pass over `batch` rows of `length` tokens in vkf_result_text(result, 0): a line for each
 * block (dispatches, barriers, flops, bytes) and each node (shape, variant). If the model can generate, the plan of a
 * step follows, which runs the last of these tokens in each row. At the end is the memory of the model and these plans,
 * by kind. */
VKF_API vkf_status vkf_model_describe_plan(vkf_model *model, size_t batch, size_t length, vkf_result **out);

/* ---- one op ------------------------------------------------------------------------------------------------------ */

/* Runs one op, or one block, on host arrays: a plan of one or a few nodes, built and run as a model's. Arrays are
 * float32; ids, positions and masks int32 (1 keep, 0 mask out). Weights are [out,in]. x [B,T,D] may also be [T,D].
 *
 *   matmul                x [M,K], w [N,K], bias [N], residual [M,N]; params activation, scale
 *   norm, layer_norm      x [M,N], residual, weight [N], bias [N]; eps (1e-5), rms (norm)
 *   softmax, log_softmax  x [M,N], mask [M,N] (softmax)
 *   top_k                 x [M,N]; k; results out (values) and ids
 *   gate                  x [M,2N]: activation ("swish") of the first half times the second
 *   embed                 ids [M], table [V,D], positions [M], position_table [P,D]; scale
 *   positional_encoding   positions [M]; width, layout ("interleaved", "halves")
 *   rope                  x [M,heads*K], positions [M]; heads, base (10000), pairs ("halves", "interleaved"); or with
 *                         a table of your own, cos and sin [P,C]: the first 2C columns of each head turn
 *   patches               x [B,C,H,W]; patch
 *   attention             q [B,T,H,K], k [B,S,G,K], v [B,S,G,V], mask [B,S], bias [1 or H,T,S]; causal, window, scale,
 *                         softcap
 *   attention_weights     the same without v: the result is [B,H,T,S]
 *   multi_head_attention  x, memory [B,S,M] (absent: x), mask, wq, wk, wv, wo, bq, bk, bv, bo; heads, kv_heads, causal
 *   ffn                   x, w1, b1, w2, b2, wg, bg (with wg: gated); activation ("relu", gated "swish")
 *   encoder_block         those of both, norm1_weight, norm1_bias, norm2_weight, norm2_bias; norm ("post", "pre"), eps,
 *                         rms
 *   decoder_block         the same with self_wq and so on, cross_wq and so on, memory, mask (of the memory), self_mask
 *                         and norm3_weight, norm3_bias
 *
 * The result has the array `out`. With the parameter "trace": true it also has every intermediate array, in the order
 * of the plan, and for each float array NAME:
 *
 *   NAME.exact  float64: the exact value for the inputs that the device had
 *   NAME.bound  float64: how far from it a right kernel may be
 *   NAME.ratio  float64: err/bound; over 1 is wrong
 *   NAME.error  float32: how far NAME may be from the exact result of the whole chain
 *
 * If you know how far the numbers of an input are from the true ones, pass that as NAME.error, too (default 0).
 *
 * variant: NULL, or a name of the variant table. */
VKF_API vkf_status vkf_device_run_op(vkf_device *dev, const char *op, const char *params_json, const vkf_array *inputs,
                                     size_t n_inputs, const char *variant, vkf_result **out);

/* ---- validation -------------------------------------------------------------------------------------------------- */

/* What a row describes. */
typedef enum vkf_scope {
  VKF_SCOPE_CASE = 0,
  VKF_SCOPE_OP = 1, /* after all its cases */
  VKF_SCOPE_NODE = 2,
  VKF_SCOPE_BLOCK = 3 /* after all its nodes */
} vkf_scope;
/* "case", "op", "node", "block"; NULL: no such value. */
VKF_API const char *vkf_scope_name(vkf_scope scope);

typedef struct vkf_validate_row {
  size_t size; /* sizeof(vkf_validate_row) */
  vkf_scope scope;
  const char *name;     /* the op, or the pass and the block ("singles decoder.0") */
  const char *part;     /* of a case: its name, which says the shape; of a node: its name; else "" */
  const char *op;       /* "" for a block */
  const char *variant;  /* of the kernel; "" on ref, for a block, and for an op whose cases can run different ones */
  vkf_storage format;   /* how a case stores weights, keys and values; AUTO for blocks and nodes */
  uint32_t n_cases;     /* 1, or how many cases or nodes it sums up */
  uint64_t n_elements;  /* compared */
  double seconds;       /* of the runs of cases, as the host sees them, the wait included; 0 for blocks and nodes */
  double ratio;         /* the largest err / bound; over 1 (or NaN) is a fault */
  double drift;         /* of nodes and blocks: largest |device - ref| of the chains / largest |ref|; -1: none */
  const char *left_out; /* of an op: why the variant ran no case (format AUTO: in any format); "": it ran */
} vkf_validate_row;

/* Called for each row when it is ready; may be NULL. The strings are valid during the call. */
typedef void (*vkf_validate_fn)(void *user, const vkf_validate_row *row);

typedef struct vkf_validate_params {
  size_t size;      /* sizeof(vkf_validate_params) */
  vkf_model *model; /* NULL: the ops; else every node of its plans: full passes, and packed steps of prompts,
                       single ids and both, without and with beams */
  bool ops;         /* with a model: validate the ops as well, before it */
  bool quick;       /* one case of odd sizes for each op, in every format, on the kernel that is picked for it */
} vkf_validate_params;
#define VKF_VALIDATE_PARAMS_INIT .size = sizeof(vkf_validate_params)
VKF_DEFINE_INIT(vkf_validate_params)

/* Validates ops (their cases on every variant that fits) and a model's nodes (each with the inputs that the device
 * had). params: NULL for every op. *worst: the largest err/bound. Returns VKF_OK even if a bound is exceeded; check
 * *worst. */
VKF_API vkf_status vkf_device_validate(vkf_device *dev, const vkf_validate_params *params, vkf_validate_fn on_row,
                                       void *user, double *worst);

/* Validates a model's nodes, as vkf_device_validate() does, up to the first one that is over its bound. *fault: that
 * node with the inputs that it had, NULL if there is none. Its text is JSON: "op", "params", "sizes", "capacity",
 * "operands", "variant" and "worst", the element that is farthest over its bound (expected, found, error, bound, and
 * for a matmul its tile). Its arrays are the operands by their names, and for each output NAME the exact value,
 * NAME.exact, and the allowed error, NAME.bound (float64). */
VKF_API vkf_status vkf_model_bisect(vkf_model *model, vkf_validate_fn on_row, void *user, vkf_result **fault);
/* Runs such a node alone, on its variant if that fits this device, else on the one that this device picks. *out
 * describes this run in the same way. VKF_ERROR_FORMAT or VKF_ERROR_ARGUMENT: the description or the arrays are not a
 * node. */
VKF_API vkf_status vkf_device_replay(vkf_device *dev, const char *node_json, const vkf_array *arrays, size_t n_arrays,
                                     vkf_result **out);

typedef enum vkf_stage { VKF_STAGE_ENCODE = 0, VKF_STAGE_DECODE = 1 } vkf_stage;
/* "encode", "decode"; NULL: no such value. */
VKF_API const char *vkf_stage_name(vkf_stage stage);

/* One plan that a call ran. */
typedef struct vkf_pass_info {
  size_t size; /* sizeof(vkf_pass_info) */
  vkf_stage stage;
  uint32_t n_tokens;   /* rows times input tokens */
  double flops, bytes; /* of one run; bytes that must move at least once */
  double ratio;        /* the largest err/bound; over 1 (or NaN) is a fault */
} vkf_pass_info;
typedef void (*vkf_pass_fn)(void *user, const vkf_pass_info *pass);

typedef struct vkf_verify_params {
  size_t size;                         /* sizeof(vkf_verify_params) */
  const vkf_generate_params *generate; /* NULL: vkf_session_run, else vkf_session_generate */
  bool cost_only;                      /* nothing is compared: ratios are 0 */
} vkf_verify_params;
#define VKF_VERIFY_PARAMS_INIT .size = sizeof(vkf_verify_params)
VKF_DEFINE_INIT(vkf_verify_params)

/* Runs the inputs and compares nodes with the scalar path at the sizes of that call: in each plan, the first time that
 * it runs, every node of the first layer of each stack and every node outside the layers. Takes about a second for 10^9
 * flops. */
VKF_API vkf_status vkf_model_verify(vkf_model *model, const vkf_array *inputs, size_t n_inputs,
                                    const vkf_verify_params *params, vkf_pass_fn on_pass, void *user);

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

typedef enum vkf_clock {
  VKF_CLOCK_DEVICE = 0, /* time stamps of the device */
  VKF_CLOCK_SUBMIT = 1, /* the host's clock, from a submit to its fence: nodes are submitted one by one */
  VKF_CLOCK_CALL = 2    /* the host's clock, of a whole call of the library */
} vkf_clock;
/* "device", "submit", "call"; NULL: no such value. */
VKF_API const char *vkf_clock_name(vkf_clock clock);

/* The sum over all runs of a node of a plan. */
typedef struct vkf_profile_row {
  size_t size;                             /* sizeof(vkf_profile_row) */
  const char *block, *node, *op, *variant; /* "encoder.0", "encoder.0.self.qkv", "matmul", "matmul-uniform-m6n2-w8" */
  vkf_clock clock;
  uint64_t n_runs;
  double ns, flops, bytes; /* of all runs */
} vkf_profile_row;
typedef void (*vkf_profile_fn)(void *user, const vkf_profile_row *row);

/* One run of a node; begin_ns counts from the first run. With time stamps of the device, the nodes of one run follow
 * each other without gaps, and the last one ends when the host saw the run's end. */
typedef struct vkf_profile_event {
  size_t size;                /* sizeof(vkf_profile_event) */
  const vkf_profile_row *row; /* its sums */
  double begin_ns, ns, flops, bytes;
} vkf_profile_event;
typedef void (*vkf_profile_event_fn)(void *user, const vkf_profile_event *event);

/* Times every node that runs on this device from now on. Call it before you open models. keep_events: also record each
 * run of a node, up to 2^20 of them. */
VKF_API vkf_status vkf_device_profile_begin(vkf_device *dev, bool keep_events);
/* Calls on_row for each row so far, in the order of their first runs, then on_event (may be NULL) for each event. Calls
 * nothing if vkf_device_profile_begin() was not called. The strings are valid during the call. */
VKF_API void vkf_device_profile_read(const vkf_device *dev, vkf_profile_fn on_row, vkf_profile_event_fn on_event,
                                     void *user);

/* ---- kernels and their speed ------------------------------------------------------------------------------------- */

/* A problem is a text: "matmul:M,N,K" (and ",FORMAT" of its weights), "attention:QUERIES,KEYS,HEADS,WIDTH" (and
 * ",FORMAT" of its keys and values), "norm:ROWS,WIDTH", "log_softmax:ROWS,WIDTH", "top_k:ROWS,WIDTH,K". */

/* Which partial sums make an output element (docs/architecture.md, "Order classes"). */
typedef enum vkf_order_class { VKF_ORDER_ASCENDING = 0, VKF_ORDER_FAST = 1 } vkf_order_class;
/* "ascending", "fast"; NULL: no such value. */
VKF_API const char *vkf_order_class_name(vkf_order_class order);

typedef struct vkf_kernel_info {
  size_t size;           /* sizeof(vkf_kernel_info) */
  const char *op, *name; /* the name is computed from the row of the variant table */
  const char *reason;    /* why it does not fit the problem on this device; NULL: it fits */
  vkf_order_class order;
  uint32_t workgroup, shared_bytes;
  bool picked;     /* a run takes it if no variant is forced */
  bool candidate;  /* a run may pick it if the weight is packed for it */
  uint32_t rank;   /* among the variants that read the packing of this device's weights; 1: picked, 0: not among them */
  double tuned_ns; /* measured by `vkformer tune` for this problem or its neighbour; 0: not measured */
  const char *why; /* why it has this rank; NULL: it does not fit */
} vkf_kernel_info;
typedef void (*vkf_kernel_fn)(void *user, const vkf_kernel_info *kernel);
/* Lists every kernel variant of the problem's op, in the order of the table. The strings are valid during the call. */
VKF_API vkf_status vkf_device_list_kernels(vkf_device *dev, const char *problem, vkf_kernel_fn on_kernel, void *user);

/* Lists the problems of one pass of the model over `batch` rows of `length` tokens and of the decoding steps after it,
 * greedy and with the folder's number of beams, each once. */
typedef void (*vkf_problem_fn)(void *user, const char *problem);
VKF_API vkf_status vkf_model_list_problems(vkf_model *model, size_t batch, size_t length, vkf_problem_fn on_problem,
                                           void *user);

/* A measured time. The times of a device decide which kernels are picked for models that are opened on it later. */
typedef struct vkf_kernel_time {
  const char *problem, *kernel;
  double ns; /* VKF_UNUSABLE_NS: it was wrong or hung, and any other is better */
} vkf_kernel_time;
#define VKF_UNUSABLE_NS 1e15
/* Keeps verified times of this device. VKF_ERROR_FILE: the cache folder is missing or cannot be written; the device
 * uses the times nevertheless. */
VKF_API vkf_status vkf_device_store_times(vkf_device *dev, const vkf_kernel_time *times, size_t n);
/* Writes the times of this device to a file for other machines. VKF_ERROR_ARGUMENT: there are none. */
VKF_API vkf_status vkf_device_export_times(vkf_device *dev, const char *path);
/* Reads such a file from any device. Times of the same device are used first, then those of its architecture, then
 * those of its vendor. Ignores times of kernels that this library does not have; leaves out times of a library with
 * other kernels, and the log says so. n_times: NULL, or it gets how many times were taken. VKF_ERROR_FILE: the file
 * cannot be read, or nothing can be kept, as above; VKF_ERROR_FORMAT: it is no such file. */
VKF_API vkf_status vkf_device_import_times(vkf_device *dev, const char *path, size_t *n_times);

typedef struct vkf_bench_params {
  size_t size;         /* sizeof(vkf_bench_params) */
  const char *variant; /* NULL: every variant that fits; else names separated by commas, timed in turns */
  double seconds;      /* time each variant for this long; 0: 0.5 */
  const char *filter;  /* NULL, or a part of the names of the variants */
  const char *tile; /* NULL, or tiles "bm=64,tm=4;bm=128" that replace each variant's own; nothing is compiled again */
  const uint32_t *shader; /* NULL, or SPIR-V that is timed beside `variant` (one name) and must have the same bindings,
                             push constants, specialization constants, layouts and grid (docs/own-kernels.md) */
  size_t n_shader_words;
  const char *shader_name;
  bool cold;         /* use copies of the operands in turn, 256 MiB in all, so that no cache holds them */
  double give_up_ns; /* over 0: a variant whose first run takes longer is not run again; that run is its time */
} vkf_bench_params;
#define VKF_BENCH_PARAMS_INIT .size = sizeof(vkf_bench_params)
VKF_DEFINE_INIT(vkf_bench_params)

/* A number that the driver reports about a kernel that it compiled, under the driver's name: registers, spills,
 * instructions. */
typedef struct vkf_bench_statistic {
  const char *name;
  double value;
} vkf_bench_statistic;

/* A kernel that the driver compiled. A variant with two stages has a row for each. */
typedef struct vkf_compiled_kernel {
  size_t size;         /* sizeof(vkf_compiled_kernel) */
  const char *problem; /* or the name of a case */
  const char *op, *variant;
  uint32_t stage;
  vkf_storage format; /* of weights, keys and values */
  bool picked;        /* a run takes it if no variant is forced */
  uint32_t workgroup, shared_bytes;
  const char *failure; /* NULL, or why the driver cannot make it */
  const vkf_bench_statistic *statistics;
  size_t n_statistics;
} vkf_compiled_kernel;
typedef void (*vkf_compiled_fn)(void *user, const vkf_compiled_kernel *kernel);
/* Compiles every variant that fits the problem and runs none. problem NULL: one case of each op whose problems cannot
 * be written as a text, in every format that its kernels read. The strings are valid during the call. */
VKF_API vkf_status vkf_device_compile(vkf_device *dev, const char *problem, vkf_compiled_fn on_kernel, void *user);

/* An element of a result, and what it should be. */
typedef struct vkf_bench_element {
  const char *output;             /* NULL: no element was compared */
  uint32_t rank, at[4], shape[4]; /* its position in a result of this shape */
  double expected, found, bound;  /* of |found - expected| */
} vkf_bench_element;

typedef struct vkf_bench_row {
  size_t size; /* sizeof(vkf_bench_row) */
  const char *problem, *variant;
  vkf_clock clock;
  uint32_t n_runs;
  double min_ns, median_ns, p90_ns;
  double flops, bytes; /* of one run; a multiplication and an addition are 2 flops */
  double ratio;        /* err/bound before timing, or after it if that is worse; rows over 1 have no times: n_runs 0 */
  uint32_t workgroup, shared_bytes;
  const vkf_bench_statistic *statistics; /* of its first kernel; none if the driver lacks
                                            VK_KHR_pipeline_executable_properties */
  size_t n_statistics;
  vkf_bench_element worst; /* whose err/bound is `ratio` */
  const char *base, *tile; /* the row of the table and the tile of vkf_bench_params that made `variant`; tile NULL: it
                              is that row, or the caller's kernel with that row's tile */
  const char *refused;     /* NULL, or why no kernel can have the tile `tile`; then only `problem` is set besides */
} vkf_bench_row;
typedef void (*vkf_bench_fn)(void *user, const vkf_bench_row *row);
/* Verifies each variant against its bound, times the right ones in turns, run by run, and verifies the results of the
 * last runs. Of a large result it compares rows spread all over it. Accepts three more problems: "peak" (multiply-adds
 * in registers, copies of memory), "overhead" (submits, dispatches) and "ffn:M,D,F" (the two matmuls from x [M,D] to
 * GELU [M,F] to [M,D]). on_row NULL: only checks that `problem` is a problem, and that the parameters leave kernels of
 * its op. */
VKF_API vkf_status vkf_device_bench(vkf_device *dev, const char *problem, const vkf_bench_params *params,
                                    vkf_bench_fn on_row, void *user);

#ifdef __cplusplus
}
#endif
#endif
