/* vkformer/lab.h: what those need who measure, check and extend the library: checks of drivers, single ops, validation,
 * profiles, kernels and their times, folders with random weights.
 *
 * Anything here may change between versions, minor ones included; vkformer.h is what a program that only runs models
 * needs. Ownership, threads, callbacks and errors are as vkformer.h says.
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
 * says so at each opening. */
typedef enum vkf_check_state {
  VKF_CHECK_ABSENT = 0,   /* the device does not have the feature */
  VKF_CHECK_NOT_DONE = 1, /* the text says why */
  VKF_CHECK_PASSED = 2,
  VKF_CHECK_FAILED = 3 /* the text says what was expected and found */
} vkf_check_state;
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

/* ---- folders with random weights --------------------------------------------------------------------------------- */

/* Non-zero stops: VKF_ERROR_STOPPED, and nothing is left of the folder. */
typedef int (*vkf_progress_fn)(void *user, uint64_t done_bytes, uint64_t all_bytes);

typedef struct vkf_make_params {
  size_t size; /* sizeof(vkf_make_params) */
  uint64_t seed;
  vkf_dtype dtype;             /* VKF_F32, VKF_F16 or VKF_BF16 */
  vkf_progress_fn on_progress; /* now and then while numbers are written; NULL: none */
  void *user;
} vkf_make_params;
#define VKF_MAKE_PARAMS_INIT .size = sizeof(vkf_make_params)
VKF_DEFINE_INIT(vkf_make_params)

/* A new folder with this config.json and random weights, of any supported family and size. Scales of norms are 1,
 * biases 0, all else is nearly normal with the configuration's initializer_range (or init_std; else 0.02) as deviation.
 * The same configuration, seed and dtype give the same bytes. `folder` must not be there, or be empty; it appears as a
 * whole or not at all. params: NULL for seed 0 and float32. */
VKF_API vkf_status vkf_model_make_folder(vkf_context *ctx, const char *config_path, const char *folder,
                                         const vkf_make_params *params);

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* The plan of one pass over `batch` rows of `length` tokens as text, a line a block: dispatches, variants, barriers,
 * flops, bytes. The text belongs to the result (vkf_result_text(result, 0)). */
VKF_API vkf_status vkf_model_describe_plan(vkf_model *model, size_t batch, size_t length, vkf_result **out);

/* ---- one op ------------------------------------------------------------------------------------------------------ */

/* One op, or one block, on host arrays: a plan of one node or a few, on the path that models take. Arrays are float32;
 * ids, positions and masks int32 (1 keep, 0 take out). Weights are [out,in]. Of x [B,T,D] the batch may be left out.
 *
 *   matmul                x [M,K], w [N,K], bias [N], residual [M,N]; params activation, scale
 *   norm, layer_norm      x [M,N], residual, weight [N], bias [N]; eps (1e-5), rms (norm)
 *   softmax, log_softmax  x [M,N], mask [M,N] (softmax)
 *   top_k                 x [M,N]; k; results out (values) and ids
 *   gate                  x [M,2N]: activation ("swish") of the first half times the second
 *   embed                 ids [M], table [V,D], positions [M], position_table [P,D]; scale
 *   positional_encoding   positions [M]; width, layout ("interleaved", "halves")
 *   rope                  x [M,heads*K], positions [M]; heads, base (10000), pairs ("halves", "interleaved")
 *   patches               x [B,C,H,W]; patch
 *   attention             q [B,T,H,K], k [B,S,G,K], v [B,S,G,V], mask [B,S], bias [1 or H,T,S]; causal, scale
 *   attention_weights     the same without v: the result is [B,H,T,S]
 *   multi_head_attention  x, memory [B,S,M] (absent: x), mask, wq, wk, wv, wo, bq, bk, bv, bo; heads, kv_heads, causal
 *   ffn                   x, w1, b1, w2, b2, wg, bg (with wg: gated); activation ("relu", gated "swish")
 *   encoder_block         those of both, norm1_weight, norm1_bias, norm2_weight, norm2_bias; norm ("post", "pre"), eps,
 *                         rms
 *   decoder_block         the same with self_wq and so on, cross_wq and so on, memory, mask (of the memory), self_mask
 *                         and norm3_weight, norm3_bias
 *
 * Every op has the parameter "trace": true, which adds every intermediate in the order of the plan, and for each float
 * array NAME the arrays NAME.exact, NAME.bound and NAME.ratio (float64): what its inputs give exactly, how far a right
 * kernel may be from it, and err/bound, over 1 where it is wrong; and NAME.error (float32): how far it may be from the
 * exact result of the whole chain. For that an input NAME may come with NAME.error, how far each of its numbers may be
 * from the one that is meant (absent: 0). variant: NULL or a name of the variant table. The result has the array `out`.
 */
VKF_API vkf_status vkf_device_run_op(vkf_device *dev, const char *op, const char *params_json, const vkf_array *inputs,
                                     size_t n_inputs, const char *variant, vkf_result **out);

/* ---- validation -------------------------------------------------------------------------------------------------- */

typedef enum vkf_scope { /* what a row is about */
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
  const char *name;    /* the op, or the pass and the block ("step decoder.0") */
  const char *part;    /* of a case: its name, which tells the shape; of a node: its name; else "" */
  const char *op;      /* "" for a block */
  const char *variant; /* of the kernel; "" on ref, for a block, and for an op whose cases each have their own */
  vkf_storage format;  /* how a case stores weights, keys and values; AUTO for blocks and nodes */
  uint32_t n_cases;    /* 1, or how many cases or nodes it sums up */
  uint64_t n_elements; /* judged */
  double seconds;      /* of the runs of cases, as the host sees them, the wait included; 0 for blocks and nodes */
  double ratio;        /* the largest err / bound; over 1 (or NaN) is a fault */
  double drift;        /* of nodes and blocks: the device's chain from ref's, over the largest magnitude; -1: none */
} vkf_validate_row;

/* Called for each row as it is ready; the strings are valid during the call. */
typedef void (*vkf_validate_fn)(void *user, const vkf_validate_row *row);

typedef struct vkf_validate_params {
  size_t size;      /* sizeof(vkf_validate_params) */
  vkf_model *model; /* NULL: the ops; else every node of its plans, full pass and cached step */
  bool ops;         /* with a model: the ops as well, before it */
  bool quick;       /* of the ops one case of odd sizes each, in every format, on the kernel that is chosen for it */
} vkf_validate_params;
#define VKF_VALIDATE_PARAMS_INIT .size = sizeof(vkf_validate_params)
VKF_DEFINE_INIT(vkf_validate_params)

/* Ops over their cases and every fitting variant, and a model's nodes, each fed the inputs that the device had. params:
 * NULL for every op. worst: the largest err/bound. Exit status OK also when something is over its bound: judge by
 * *worst. */
VKF_API vkf_status vkf_device_validate(vkf_device *dev, const vkf_validate_params *params, vkf_validate_fn on_row,
                                       void *user, double *worst);

/* The walk of vkf_device_validate() through a model's nodes, up to the first one that is over its bound. *fault: that
 * node with the inputs that it had, NULL if there is none. Its text is JSON: "op", "params", "sizes", "capacity",
 * "operands", "variant" and "worst", the element that is farthest over its bound (expected, found, error, bound, and of
 * a matmul its tile). Its arrays are the operands by their names, and for each output NAME what it should have been,
 * NAME.exact, and how far off it may be, NAME.bound (float64). */
VKF_API vkf_status vkf_model_bisect(vkf_model *model, vkf_validate_fn on_row, void *user, vkf_result **fault);
/* Runs such a node alone, on its variant where that fits this device, else on the one that is chosen here; *out is the
 * same description of this run. VKF_ERROR_FORMAT or VKF_ERROR_ARGUMENT for a description or arrays that are no node. */
VKF_API vkf_status vkf_device_replay(vkf_device *dev, const char *node_json, const vkf_array *arrays, size_t n_arrays,
                                     vkf_result **out);

typedef enum vkf_stage { VKF_STAGE_ENCODE = 0, VKF_STAGE_DECODE = 1 } vkf_stage;
/* "encode", "decode"; NULL: no such value. */
VKF_API const char *vkf_stage_name(vkf_stage stage);

/* One plan that a call ran. */
typedef struct vkf_pass_info {
  size_t size; /* sizeof(vkf_pass_info) */
  vkf_stage stage;
  uint32_t n_tokens;   /* rows times tokens that went in */
  double flops, bytes; /* of one run: as the field counts them; what must move at least once */
  double ratio;        /* the largest err/bound; over 1 (or NaN) is a fault */
} vkf_pass_info;
typedef void (*vkf_pass_fn)(void *user, const vkf_pass_info *pass);

typedef struct vkf_judge_params {
  size_t size;                         /* sizeof(vkf_judge_params) */
  const vkf_generate_params *generate; /* NULL: vkf_model_run, else vkf_model_generate */
  bool cost_only;                      /* nothing is judged: ratios are 0 */
} vkf_judge_params;
#define VKF_JUDGE_PARAMS_INIT .size = sizeof(vkf_judge_params)
VKF_DEFINE_INIT(vkf_judge_params)

/* Runs the inputs and judges them at the very sizes of that call: in each plan, the first time that it runs, every node
 * of the first layer of each stack and of what stands before and after the layers. About a second for 10^9 flops. */
VKF_API vkf_status vkf_model_judge(vkf_model *model, const vkf_array *inputs, size_t n_inputs,
                                   const vkf_judge_params *params, vkf_pass_fn on_pass, void *user);

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

typedef enum vkf_clock {
  VKF_CLOCK_DEVICE = 0, /* time stamps of the device */
  VKF_CLOCK_SUBMIT = 1, /* the host's, from a submit to its fence: nodes are submitted one by one */
  VKF_CLOCK_CALL = 2    /* the host's, of a whole call of the library */
} vkf_clock;
/* "device", "submit", "call"; NULL: no such value. */
VKF_API const char *vkf_clock_name(vkf_clock clock);

/* A node of a plan, all its runs together. */
typedef struct vkf_profile_row {
  size_t size;                             /* sizeof(vkf_profile_row) */
  const char *block, *node, *op, *variant; /* "encoder.0", "encoder.0.self.qkv", "matmul", "matmul-uniform-m6n2-w8" */
  vkf_clock clock;
  uint64_t n_runs;
  double ns, flops, bytes; /* of all runs */
} vkf_profile_row;
typedef void (*vkf_profile_fn)(void *user, const vkf_profile_row *row);

/* One run of a node, where it lies in time: from the first run on; by device time stamps nodes of one run follow each
 * other, and their run ends when the host has seen its end. */
typedef struct vkf_profile_event {
  size_t size;                /* sizeof(vkf_profile_event) */
  const vkf_profile_row *row; /* its sums */
  double begin_ns, ns, flops, bytes;
} vkf_profile_event;
typedef void (*vkf_profile_event_fn)(void *user, const vkf_profile_event *event);

/* Times every node that runs on this device from now on; call it before models are opened. keep_events: also each run
 * of a node, up to 2^20 of them. */
VKF_API vkf_status vkf_device_profile_begin(vkf_device *dev, bool keep_events);
/* The rows so far, in the order of their first runs, then the events (on_event NULL: not these). Nothing without
 * vkf_device_profile_begin(). The strings are valid during the call. */
VKF_API void vkf_device_profile_read(const vkf_device *dev, vkf_profile_fn on_row, vkf_profile_event_fn on_event,
                                     void *user);

/* ---- kernels and their speed ------------------------------------------------------------------------------------- */

/* A problem is a text: "matmul:M,N,K" (and ",FORMAT" of its weights), "attention:QUERIES,KEYS,HEADS,WIDTH",
 * "norm:ROWS,WIDTH", "log_softmax:ROWS,WIDTH", "top_k:ROWS,WIDTH,K". */

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
  bool picked;     /* what a run takes when nothing is forced */
  bool candidate;  /* a run may take it without being forced to, if the weight is packed for it */
  uint32_t rank;   /* among those that read the packing that the device's weights have; 1: picked, 0: not among them */
  double tuned_ns; /* measured by `vkformer tune` for this problem or its neighbour; 0: not measured */
  const char *why; /* why it stands there; NULL: it does not fit */
} vkf_kernel_info;
typedef void (*vkf_kernel_fn)(void *user, const vkf_kernel_info *kernel);
/* Every kernel variant of the problem's op, in the order of the table. The strings are valid during the call. */
VKF_API vkf_status vkf_device_list_kernels(vkf_device *dev, const char *problem, vkf_kernel_fn on_kernel, void *user);

/* The problems of one pass of the model over `batch` rows of `length` tokens and of the steps that decode from it,
 * greedily and with the folder's number of beams, each once. */
typedef void (*vkf_problem_fn)(void *user, const char *problem);
VKF_API vkf_status vkf_model_list_problems(vkf_model *model, size_t batch, size_t length, vkf_problem_fn on_problem,
                                           void *user);

/* Measured times decide which kernels models take that are opened on the device from then on. */
typedef struct vkf_kernel_time {
  const char *problem, *kernel;
  double ns;
} vkf_kernel_time;
/* Keeps verified times of this device. VKF_ERROR_FILE: not in the cache folder, which is missing or cannot be written;
 * the device has them all the same. */
VKF_API vkf_status vkf_device_store_times(vkf_device *dev, const vkf_kernel_time *times, size_t n);
/* What is known of this device, as a file for other machines; VKF_ERROR_ARGUMENT if nothing is. */
VKF_API vkf_status vkf_device_export_times(vkf_device *dev, const char *path);
/* Takes in such a file, of whatever device: its own times count first, then those of its architecture, then those of
 * its vendor. Times of other kernels than this library's are left out. *n_times (may be NULL): how many were taken in.
 */
VKF_API vkf_status vkf_device_import_times(vkf_device *dev, const char *path, size_t *n_times);

typedef struct vkf_bench_params {
  size_t size;         /* sizeof(vkf_bench_params) */
  const char *variant; /* NULL: every one that fits; else names separated by commas, timed in turns */
  double seconds;      /* of timing a variant; 0: 0.5 */
  const char *filter;  /* NULL, or a part of the names of the variants */
  const char
      *tile; /* NULL, or tiles "bm=64,tm=4;bm=128" in the place of each variant's own, without compiling it again */
  const uint32_t *shader; /* NULL, or SPIR-V that is timed beside `variant`, one name, whose place it takes: the same
                             bindings, push constants, specialization constants, layouts, grid (docs/own-kernels.md) */
  size_t n_shader_words;
  const char *shader_name;
  bool cold;         /* copies of the operands in turn, 256 MiB together, so that no cache holds them */
  double give_up_ns; /* over 0: a variant whose first run takes longer is not run again, and that run is its time */
} vkf_bench_params;
#define VKF_BENCH_PARAMS_INIT .size = sizeof(vkf_bench_params)
VKF_DEFINE_INIT(vkf_bench_params)

/* What the driver tells about the kernel that it compiled, under its own name: registers, spills, instructions. */
typedef struct vkf_bench_statistic {
  const char *name;
  double value;
} vkf_bench_statistic;

/* An element of a result beside what it should be. */
typedef struct vkf_bench_element {
  const char *output;             /* NULL: no element was judged */
  uint32_t rank, at[4], shape[4]; /* where it is, in a result of this shape */
  double expected, found, bound;  /* of |found - expected| */
} vkf_bench_element;

typedef struct vkf_bench_row {
  size_t size; /* sizeof(vkf_bench_row) */
  const char *problem, *variant;
  vkf_clock clock;
  uint32_t n_runs;
  double min_ns, median_ns, p90_ns;
  double flops, bytes; /* of one run, as the field counts them */
  double ratio;        /* err/bound, measured before timing; rows over 1 are not timed: n_runs 0 */
  uint32_t workgroup, shared_bytes;
  const vkf_bench_statistic *statistics; /* of its first kernel; none where the driver has not
                                            VK_KHR_pipeline_executable_properties */
  size_t n_statistics;
  vkf_bench_element worst; /* whose err/bound is `ratio` */
  const char *base, *tile; /* the row of the table and the tile of vkf_bench_params that made `variant`; tile NULL: it
                              is that row, or the caller's kernel with that row's tile */
  const char *refused;     /* NULL, or why no kernel can have the tile `tile`: nothing else is set but `problem` */
} vkf_bench_row;
typedef void (*vkf_bench_fn)(void *user, const vkf_bench_row *row);
/* Verifies each variant against its bound, refuses to time a wrong one, then times all in turns, run by run. Two more
 * problems are "peak" (multiply-adds in registers, copies of memory) and "overhead" (submits, dispatches); "ffn:M,D,F"
 * are the two matmuls x [M,D] to GELU [M,F] to [M,D]. on_row NULL: only looks whether it is a problem. */
VKF_API vkf_status vkf_device_bench(vkf_device *dev, const char *problem, const vkf_bench_params *params,
                                    vkf_bench_fn on_row, void *user);

#ifdef __cplusplus
}
#endif
#endif
