/* The backend seam: how a plan is made ready and run, on Vulkan (room vkop) or by the scalar path (room ref).
 *
 * The engine knows a backend only by its table of functions. Host data are row-major float32 or int32 arrays, whatever
 * layout the backend uses inside.
 */
#ifndef VKF_OP_BACKEND_H
#define VKF_OP_BACKEND_H

#include <vkformer/lab.h>

#include "op/plan.h"

typedef struct vkf_backend vkf_backend; /* one device */
typedef struct vkf_weights vkf_weights; /* a model's weights on it */
typedef struct vkf_memory vkf_memory;   /* device memory that programs and states use in turn */
typedef struct vkf_state vkf_state;     /* a session's caches on it */
typedef struct vkf_program vkf_program; /* a plan made ready on it */

typedef enum vkf_weight_use {
  VKF_WEIGHT_VECTOR = 0, /* biases, norm scales: used as they are */
  VKF_WEIGHT_MATMUL = 1, /* [N,K]; a backend may repack */
  VKF_WEIGHT_TABLE = 2   /* rows by id; together with MATMUL: tied, stored once */
} vkf_weight_use;

typedef struct vkf_weight_info {
  const char *name;
  uint32_t rank, shape[2]; /* [n] or [N,K] */
  uint32_t use;            /* vkf_weight_use bits */
  vkf_format format;       /* how it is stored on the device */
} vkf_weight_info;

typedef struct vkf_weight_source {
  void *user;
  uint32_t n_weights;
  const vkf_weight_info *infos;
  /* Writes rows [first, first + n) of weight `index` (elements, if its rank is 1) as float32 into dst. Cannot fail.
   * Several threads call it and `copy` at once (vkf_parallel()). vkf_weight_load() gives the numbers as they are
   * stored. */
  void (*load)(void *user, uint32_t index, uint32_t first, uint32_t n, float *dst);
  /* NULL, or: copies the same rows to dst as elements of the format in `infos`. Returns false if the source has them in
   * another format or must assemble them. */
  bool (*copy)(void *user, uint32_t index, uint32_t first, uint32_t n, void *dst);
  /* NULL, or: called on the caller's thread when n more rows of a weight are on the device. A failure ends loading. */
  vkf_status (*loaded)(void *watcher, uint32_t index, uint32_t n);
  void *watcher;
  /* NULL, or: the same weights on another device, of a backend with the same table. They are read there and not loaded,
   * if both devices can share memory and store them alike. */
  const vkf_weights *same;
} vkf_weight_source;

/* Writes weight `index` to dst as float32 rows, rounded to what its format stores. Fails as vkf_format_round() does. */
vkf_status vkf_weight_load(vkf_env *env, const vkf_weight_source *source, uint32_t index, float *dst);

typedef enum vkf_timing { VKF_TIMING_NONE, VKF_TIMING_BLOCKS, VKF_TIMING_NODES } vkf_timing;

typedef struct vkf_program_options {
  vkf_memory *memory; /* holds inputs and results until another program of this memory is written to or run; NULL: the
                         program has memory of its own */
  bool keep_all;      /* every slot stays readable after a run (validation) */
  bool statistics;    /* the driver keeps what it reports about the kernels */
  vkf_timing timing;  /* the least that is timed */
  /* Forces this variant for its op wherever it fits; NULL: none. VKF_ERROR_ARGUMENT if it fits nowhere. */
  const char *variant;
} vkf_program_options;

typedef struct vkf_block_stats {
  const char *name;
  uint32_t n_dispatches, n_barriers, n_records;
  uint32_t n_indirect; /* dispatches whose grid a run may change */
  uint64_t n_submits;
  uint64_t ns; /* device time of the last run; 0: unknown */
} vkf_block_stats;

/* How a node's kernel rounds. The derived bound of the node depends on it. */
typedef struct vkf_rounding {
  double u;                           /* unit roundoff of the accumulator, 2^-24 */
  uint32_t n_partial;                 /* partial sums per element; 1: ascending */
  uint32_t together;                  /* adjacent products that a partial sum takes in its turn; 0: one */
  uint32_t at_once;                   /* of a matmul: products that one step adds in any order; 0: one */
  bool exact_steps;                   /* the sum of a step's products is exact before it is added */
  bool scaled_rows;                   /* a sum is multiplied by the scale of its weight's row in the end */
  bool x_f16;                         /* matmul: x is rounded to f16 first; attention: q, k, v and weights */
  bool scaled_parts;                  /* log_softmax: each part of the sum has its own maximum and is scaled later */
  uint32_t key_block;                 /* keys per step of the online softmax */
  double exp_ulp_base, exp_ulp_slope; /* |error of exp(x)| <= (base + slope |x|) ulp (Vulkan: 3 + 2|x|) */
  double log_abs;                     /* absolute error of log(x) on [0.5, 2] (Vulkan: 2^-21), log_ulp elsewhere (3) */
  double log_ulp;
  double div_ulp;   /* of a/b (Vulkan: 2.5) */
  double rsqrt_ulp; /* of inversesqrt (Vulkan: 2) */
  double tiny;      /* what a result below the normal numbers may lose: 2^-126, in the reproducible mode 2^-100 */
} vkf_rounding;

typedef struct vkf_backend_table {
  void (*destroy)(vkf_backend **);
  /* variant: forced for the ops that read the weights, so it may decide how they are packed; NULL: none. */
  vkf_status (*weights_create)(vkf_backend *, const vkf_weight_source *, const char *variant, vkf_weights **);
  void (*weights_destroy)(vkf_weights **);
  uint64_t (*weights_bytes)(const vkf_weights *);
  /* Sets *out to NULL if programs and states of this backend always have their own memory. The memory is as large as
   * its largest user needs; it must outlive its users. */
  vkf_status (*memory_create)(vkf_backend *, vkf_memory **out);
  void (*memory_destroy)(vkf_memory **);
  void (*memory_bytes)(const vkf_memory *, uint64_t *caches, uint64_t *step);
  /* Makes the VKF_SLOT_STATE slots of a plan, each index once; they must have the same extents in every plan that uses
   * the state. With a memory (may be NULL) the contents last until a program of another state of this memory runs. */
  vkf_status (*state_create)(vkf_backend *, const vkf_plan *, vkf_memory *, vkf_state **);
  void (*state_destroy)(vkf_state **);
  uint64_t (*state_bytes)(const vkf_state *); /* of its own */
  vkf_status (*state_poison)(vkf_state *);    /* fills it with NaN (validation) */
  /* The plan, the weights and the state (NULL if the plan has none) must outlive the program. */
  vkf_status (*program_create)(vkf_backend *, const vkf_plan *, vkf_weights *, vkf_state *, const vkf_program_options *,
                               vkf_program **);
  void (*program_destroy)(vkf_program **);
  /* Makes the program ready, as its first write or run would. */
  vkf_status (*program_record)(vkf_program *);
  uint64_t (*program_bytes)(const vkf_program *); /* of its own */
  /* data: dense at the actual sizes `dims` for packed slots, at capacity strides for the others. What `dims` do not
   * cover may keep its old values; in a slot of rank 2 it is not read either, so `data` may end there. */
  vkf_status (*write)(vkf_program *, uint32_t slot, const vkf_dims *dims, const void *data);
  /* Writes the first n rows of a packed slot of rank 2. */
  vkf_status (*write_rows)(vkf_program *, uint32_t slot, uint32_t n, const void *data);
  /* Reads any slot, dense at actual sizes. */
  vkf_status (*read)(vkf_program *, uint32_t slot, const vkf_dims *dims, void *data);
  /* Read and write element `at` of a cache's first extent, dense at the actual sizes of the others. A write leaves
   * anything beyond these sizes. */
  vkf_status (*read_one)(vkf_program *, uint32_t slot, uint32_t at, const vkf_dims *dims, float *data);
  vkf_status (*write_one)(vkf_program *, uint32_t slot, uint32_t at, const vkf_dims *dims, const float *data);
  /* Runs blocks [first, first + n) in order; returns when they are done. */
  vkf_status (*run)(vkf_program *, const vkf_dims *dims, uint32_t first, uint32_t n);
  void (*block_stats)(const vkf_program *, uint32_t block, vkf_block_stats *out);
  /* Returns the name of a node's variant ("ref" in room ref) and, unless rounding is NULL, how it rounds. */
  const char *(*node_variant)(const vkf_program *, uint32_t node, vkf_rounding *rounding);
  /* Sets *ns to the time of a node in its last run, and returns the clock. For programs with VKF_TIMING_NODES, after
   * the node's block has run. */
  vkf_clock (*node_time)(const vkf_program *, uint32_t node, uint64_t *ns);
  /* Fills every temporary with NaN (validation, tests). */
  vkf_status (*poison)(vkf_program *);
} vkf_backend_table;

/* Callbacks that watch every run. If on_run fails, the run fails. */
typedef struct vkf_observer {
  vkf_status (*on_run)(void *user, vkf_program *program, const vkf_plan *plan, const vkf_dims *dims, uint32_t first,
                       uint32_t n); /* blocks [first, first + n) have run */
  void (*end)(void *user);          /* NULL, or called when the backend's device closes while this observer is set */
  void *user;
  vkf_timing timing; /* programs made while it is set time this at least */
} vkf_observer;

struct vkf_backend {
  const vkf_backend_table *table;
  vkf_env *env;
  const vkf_observer *observer; /* NULL: none; whoever sets it restores the one before */
  bool reproducible;            /* the reproducible mode: set before anything is created from the backend */
  vkf_stop_fn should_stop;      /* NULL: runs are never stopped */
  void *stop_user;
};

/* Fails with VKF_ERROR_STOPPED if the host wants the run to stop. Called before what cannot be interrupted: a submit, a
 * node of the scalar path. */
static inline vkf_status vkf_backend_ask(const vkf_backend *b) {
  int stop = 0;
  if (!b->should_stop) return VKF_OK;
  VKF_CALLBACK(b->env, stop = b->should_stop(b->stop_user));
  return stop ? vkf_env_fail(b->env, VKF_ERROR_STOPPED, "the session was asked to stop") : VKF_OK;
}

#endif
