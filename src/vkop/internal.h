/* What the files of vkop share: where weights, states and slots are on the device. */
#ifndef VKF_VKOP_INTERNAL_H
#define VKF_VKOP_INTERNAL_H

#include "vkop/pools.h"
#include "vkop/describe.h"
#include "vkop/vkop.h"

/* Bytes behind every slot and weight that a kernel may read but never uses: uniform loads run a little ahead. */
#define VKF_GUARD_BYTES 256

/* A variant beside the table (vkf_vkop_backend_add). */
typedef struct vkop_extra {
  struct vkop_extra *next;
  vkf_variant row;
  const uint32_t *words; /* NULL: the row's module */
  size_t n_words;
} vkop_extra;

typedef struct vkop_backend {
  vkf_backend base;
  vkf_gpu_device *device;
  vkf_order_class order;
  const vkf_tuned *tuned; /* NULL: none */
  vkop_extra *extras;
  double submit_ns; /* what one submit should take at most, estimated from effort and pace */
  double pace;      /* ns that a unit of effort took in recent runs */
} vkop_backend;

/* Rows [first, first + rows) of a weight, packed as if they were all of it. All shards of a weight have the same number
 * of rows, a multiple of a tile's columns, so that no kernel sees an end within a shard: the last one begins with rows
 * of the one before. */
typedef struct vkop_shard {
  vkop_place place;
  uint32_t first, rows;
} vkop_shard;

struct vkf_weights {
  vkop_backend *backend;
  uint32_t n;
  vkf_weight_info *infos;
  vkf_weight_packing *packings;
  vkop_shard *shards;    /* of all weights; one each, unless a weight is larger than a binding or an allocation */
  uint32_t *first_shard; /* [n + 1] */
  vkop_pools pools;
};

/* What validation and tests fill memory with: NaN. */
#define VKF_POISON UINT32_C(0x7fc00000)

/* Name and memory of pools that may borrow. */
#define VKF_STATE_POOLS "state", VKF_GPU_MEMORY_DEVICE
#define VKF_STEP_POOLS "step", VKF_GPU_MEMORY_UPLOAD
#define VKF_RESULT_POOLS "results", VKF_GPU_MEMORY_READBACK
#define VKF_ACTIVATION_POOLS "activations", VKF_GPU_MEMORY_LARGE

/* Pools from which states and programs borrow. */
struct vkf_memory {
  vkf_env *env;
  vkop_pools states, inputs, results, temps;
};

struct vkf_state {
  vkop_backend *backend;
  vkop_pools pools; /* its own, or borrowed from a vkf_memory */
  uint32_t n;       /* highest state index + 1 */
  vkop_place *places;
};

/* What is recorded and submitted as one: a whole block, a part of one that takes long, or one node (VKF_TIMING_NODES on
 * devices without time stamps). */
typedef struct vkop_segment {
  vkf_gpu_block *gpu;
  double effort; /* of its nodes at grid_dims: vkf_vkop_effort() */
  uint64_t ns;   /* from the submit to the end of the last run, if segments are nodes */
} vkop_segment;

typedef struct vkop_node {
  const vkf_variant *variant;
  const char *variant_name;
  vkf_problem problem;                            /* at capacity */
  bool is_forced;                                 /* the program's options named the variant */
  bool in_place;                                  /* out[0] takes over the bytes of in[0] */
  vkf_dispatch dispatch[VKF_MAX_STAGES];          /* of its first shard */
  const vkop_shard *shards;                       /* of the weight or table that it reads; NULL: it reads none */
  uint32_t n_shards;                              /* at least 1 */
  uint32_t first_grid;                            /* VKF_MAX_STAGES for each of its shards */
  vkop_place scratch;                             /* VKF_SCRATCH_SLOT; 0 bytes: it has none */
  vkf_gpu_pipeline *pipelines[VKF_MAX_STAGES];    /* the device's */
  uint32_t direct[VKF_MAX_STAGES][3];             /* grids that are recorded; 0: read from `grids` */
  uint32_t segment, first_dispatch, n_dispatches; /* where it is recorded */
} vkop_node;

typedef struct vkop_block {
  uint32_t first_segment, n_segments;
} vkop_block;

struct vkf_program {
  vkop_backend *backend;
  const vkf_plan *plan;
  vkf_weights *weights;
  vkf_state *state;
  vkf_arena arena;
  vkop_place *places;           /* [n_slots] */
  vkf_weight_packing *packings; /* [n_slots] */
  vkop_node *nodes;             /* [n_nodes] */
  vkop_block *blocks;           /* [n_blocks] */
  vkop_segment *segments;       /* of all blocks, in their order */
  uint32_t n_segments;
  uint32_t n_records;                           /* how often all blocks were recorded */
  vkop_pools inputs, constants, temps, results; /* constants are its own, the others may be a vkf_memory's */
  uint64_t n_made;                              /* buffers that the lenders had made when the blocks were recorded */
  vkop_place step;                              /* binding 0: the dims and spans, with which the inputs begin */
  vkf_gpu_buffer *grids;                        /* three uint32 for each stage of each shard of each node */
  uint32_t n_grids;
  vkf_gpu_buffer *flags; /* VKF_FLAG_SLOT: a word for each node, flag_stride bytes apart; NULL: no kernel has one */
  uint64_t flag_stride;
  vkf_dims grid_dims; /* what the grids were computed for */
  bool grids_valid;
  vkf_timing timing;
  bool statistics;
  bool keeps_all; /* results stay in device memory, too, so kernels that are timed write to it */
  bool is_apart;  /* segments are nodes, submitted one by one */
};

/* All pools of a program, its own and borrowed ones, for loops over them. */
#define VKOP_POOLS_OF(p) &(p)->inputs, &(p)->constants, &(p)->temps, &(p)->results

/* Computes the workgroups of a stage of node `node` at these sizes (prepare.c). */
void vkf_vkop_grid(const vkf_program *program, uint32_t node, uint32_t stage, const vkf_dims *dims, uint32_t grid[3]);
/* Describes one dispatch of the node (prepare.c). */
void vkf_vkop_dispatch_of(const vkf_program *program, uint32_t node, uint32_t shard, uint32_t stage, vkf_dispatch *out);
/* The first picks a variant for each node and describes its dispatches. The second, called when their pipelines are
 * made, gives every slot its bytes (prepare.c). */
vkf_status vkf_vkop_prepare(vkf_program *program, const vkf_program_options *options);
vkf_status vkf_vkop_place(vkf_program *program, const vkf_program_options *options);
/* After a run of nodes [first, end): if kernels raised their flags, the first of these nodes gets another kernel, and
 * *again says that the blocks must be recorded and run again (prepare.c). */
vkf_status vkf_vkop_fall_back(vkf_program *program, uint32_t first, uint32_t end, bool *again);
/* Estimates what a node costs, in ns of a slow GPU: 4 GFLOP/s, 1 GB/s, 20 us for a node. The pace of this device is
 * learned from its runs. */
double vkf_vkop_effort(const vkf_program *program, uint32_t node, const vkf_dims *dims);
/* Makes the pipelines of all nodes; picks another variant if the driver cannot make one or spills registers
 * (commands.c). */
vkf_status vkf_vkop_make_pipelines(vkf_program *program);
/* Picks the best variant that the problem has not refused; VKF_ERROR_UNSUPPORTED: there is none (prepare.c). */
vkf_status vkf_vkop_pick(vkf_program *program, uint32_t node);
/* Makes the buffers that the program borrows, which other borrowers may have replaced. Records the blocks if they were
 * not recorded yet, or with other buffers (commands.c). */
vkf_status vkf_vkop_settle(vkf_program *program);
/* Records every block with the pipelines that were made, instead of those recorded before (commands.c). */
vkf_status vkf_vkop_record(vkf_program *program);
void vkf_vkop_record_undo(vkf_program *program);
/* Refuses a slot that one binding or one allocation does not hold (weights.c). */
vkf_status vkf_vkop_fits(vkop_backend *backend, const char *name, uint64_t bytes);
/* weights.c, state.c, transfer.c */
vkf_status vkf_vkop_weights_create(vkf_backend *, const vkf_weight_source *, const char *variant, vkf_weights **);
void vkf_vkop_weights_destroy(vkf_weights **);
uint64_t vkf_vkop_weights_bytes(const vkf_weights *);
vkf_status vkf_vkop_memory_create(vkf_backend *, vkf_memory **);
void vkf_vkop_memory_destroy(vkf_memory **);
void vkf_vkop_memory_bytes(const vkf_memory *, uint64_t *caches, uint64_t *step);
vkf_status vkf_vkop_state_create(vkf_backend *, const vkf_plan *, vkf_memory *, vkf_state **);
void vkf_vkop_state_destroy(vkf_state **);
uint64_t vkf_vkop_state_bytes(const vkf_state *);
vkf_status vkf_vkop_state_poison(vkf_state *);
vkf_status vkf_vkop_write(vkf_program *, uint32_t slot, const vkf_dims *dims, const void *data);
vkf_status vkf_vkop_write_rows(vkf_program *, uint32_t slot, uint32_t n, const void *data);
vkf_status vkf_vkop_read(vkf_program *, uint32_t slot, const vkf_dims *dims, void *data);
vkf_status vkf_vkop_read_one(vkf_program *, uint32_t slot, uint32_t at, const vkf_dims *dims, float *data);
vkf_status vkf_vkop_write_one(vkf_program *, uint32_t slot, uint32_t at, const vkf_dims *dims, const float *data);
vkf_status vkf_vkop_poison(vkf_program *);

#endif
