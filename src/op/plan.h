/* A plan: nodes (an op, its parameters, its slots) in blocks. Pure data, built for a capacity (op/build.h) and run by a
 * backend, which keeps what it knows of a slot in arrays of its own.
 *
 * Invariant: slots and nodes are checked once, by vkf_plan_check(), before any backend sees them: every input of a node
 * is written before it is read, shapes agree, ranks and widths are those that the op's shape rule gives.
 */
#ifndef VKF_OP_PLAN_H
#define VKF_OP_PLAN_H

#include "op/format.h"
#include "op/op.h"

#define VKF_NO_SLOT UINT32_MAX
#define VKF_MAX_SLOT_RANK 4

typedef enum vkf_slot_kind {
  VKF_SLOT_TEMP,     /* lives from its first to its last node */
  VKF_SLOT_WEIGHT,   /* of the model: `index` into its weights */
  VKF_SLOT_CONSTANT, /* made on the host with the plan: `data`, dense at capacity; a float matrix may be read as rows of
                        any op */
  VKF_SLOT_STATE,    /* outlives a run, shared by the plans of a session: `index` says which */
  VKF_SLOT_INPUT     /* written by the host before a run: `index` is a vkf_input */
} vkf_slot_kind;

typedef enum vkf_input {
  VKF_INPUT_IDS,              /* int32 [BS] */
  VKF_INPUT_POSITIONS,        /* int32 [BS] */
  VKF_INPUT_TYPES,            /* int32 [BS] */
  VKF_INPUT_MASK,             /* int32 [B][S], capacity strides; of the rows of a packed encoder [1][BS] */
  VKF_INPUT_SPANS,            /* int32 [B][VKF_SPAN_FIELDS]: of the source */
  VKF_INPUT_PIXELS,           /* float [B, channels*height*width] */
  VKF_INPUT_CROSS_PLACES,     /* int32 [B][VKF_SPAN_FIELDS]: where in the slots of sources the cross keys go */
  VKF_INPUT_TARGET_IDS,       /* int32 [RT] */
  VKF_INPUT_TARGET_POSITIONS, /* int32 [RT] */
  VKF_INPUT_TARGET_MASK,      /* int32 [R][KEYS], capacity strides */
  VKF_INPUT_ANCESTRY,         /* int32 [R][KEYS], capacity strides */
  VKF_INPUT_OUT_ROWS,         /* int32 [OUT]: which target rows reach the head */
  VKF_INPUT_EDIT_OFFSETS,     /* int32 [capacity of OUT + 1]: a fixed extent */
  VKF_INPUT_EDITS,            /* int32 [max_edits][4], both fixed */
  VKF_INPUT_TARGET_SPANS,     /* int32 [R][VKF_SPAN_FIELDS]: of the target and its cache */
  VKF_INPUT_CROSS_SPANS,      /* int32 [R][VKF_SPAN_FIELDS]: of the target and its cross keys */
  VKF_INPUT_SHORT_HEAD,       /* float [width, K], both fixed: the rows of the head that a short list leaves */
  VKF_INPUT_SHORT_MASK,       /* float [OUT or RT, width]: what is added to their logits, the bias or -infinity */
  VKF_INPUT_COUNT
} vkf_input;

typedef struct vkf_slot {
  const char *name; /* "decoder.0.self.q", unique in the plan */
  vkf_slot_kind kind;
  vkf_dtype dtype; /* VKF_F32 or VKF_I32 */
  uint32_t rank;
  vkf_extent extent[VKF_MAX_SLOT_RANK]; /* rank 2 with a fixed last extent: packed rows [rows, width] */
  uint32_t index;
  const void *data;   /* of a constant: dense at capacity */
  const char *output; /* not NULL: read by the host after the run under this name; never overwritten */
  vkf_format format;  /* how a device stores a weight, or keys and values; the host always has float32 */
} vkf_slot;

typedef struct vkf_node {
  vkf_op op;
  const char *name; /* "decoder.0.self.qkv" */
  vkf_params params;
  uint32_t in[VKF_MAX_INPUTS]; /* slots, VKF_NO_SLOT: absent */
  uint32_t out[VKF_MAX_OUTPUTS];
} vkf_node;

typedef struct vkf_block {
  const char *name; /* "embed", "encoder.0", "decoder.5", "head" */
  uint32_t first_node, n_nodes;
  uint32_t layer; /* of its stack, from 0; 0 for a block that is no layer */
} vkf_block;

typedef struct vkf_plan {
  const vkf_slot *slots;
  uint32_t n_slots;
  const vkf_node *nodes;
  uint32_t n_nodes;
  const vkf_block *blocks;
  uint32_t n_blocks;
  vkf_sizes capacity;
} vkf_plan;

/* VKF_ERROR_ARGUMENT names the node and what was expected and found. */
vkf_status vkf_plan_check(vkf_env *env, const vkf_plan *plan);
/* Finds the slot that the host reads under this name; VKF_NO_SLOT if there is none. */
uint32_t vkf_plan_find_output(const vkf_plan *plan, const char *output);
/* Finds the slot of a kind with an index (inputs, states, weights); VKF_NO_SLOT if there is none. */
uint32_t vkf_plan_find_index(const vkf_plan *plan, vkf_slot_kind kind, uint32_t index);

/* Return the elements at capacity, the actual ones (extents at `dims`), and one actual extent. */
uint64_t vkf_slot_elements(const vkf_slot *slot);
uint64_t vkf_slot_elements_at(const vkf_slot *slot, const vkf_dims *dims);
uint32_t vkf_slot_extent(const vkf_slot *slot, uint32_t i, const vkf_dims *dims);
/* Returns the slot with a first extent of 1. */
vkf_slot vkf_slot_one(const vkf_slot *slot);
/* Returns the bytes at capacity as a device stores them, each row (last extent) in whole words of 4 bytes; without
 * scales. */
uint64_t vkf_slot_stored_bytes(const vkf_slot *slot);
/* Returns whether strides are the same at capacity and at actual sizes: rank 1, or rank 2 with a fixed width. */
bool vkf_slot_is_packed(const vkf_slot *slot);

/* Cost of a node at actual sizes: flops (2MNK for a matmul), bytes that must move at least once. */
typedef struct vkf_cost {
  double flops, bytes;
} vkf_cost;
vkf_cost vkf_op_cost(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims);

/* ---- memory plan ------------------------------------------------------------------------------------------------- */

/* What a backend needs for a temporary slot, and where the memory plan puts it. */
typedef struct vkf_placement {
  uint64_t bytes, alignment; /* in: 0 bytes: not placed */
  bool pinned;               /* in: shares its bytes with no other slot */
  uint32_t takes_over;       /* in: 1 + the slot, of the same size, whose bytes it reuses; 0: none */
  uint64_t offset;           /* out */
} vkf_placement;

/* Returns the first offset from this one on at which `bytes`, at most `most`, cross no multiple of `most`. */
uint64_t vkf_place_whole(uint64_t offset, uint64_t bytes, uint64_t most);

/* Places the temporaries of a plan in one pool. Slots whose lives overlap never overlap in memory, and none crosses a
 * multiple of `most`, itself a multiple of all alignments, so the pool may be allocated in pieces of `most` bytes.
 * placements [plan->n_slots]. A slot with an output name is pinned. keep_all: every slot is pinned (validation).
 * scratch [plan->n_nodes]: a node's own memory while it runs; only bytes and alignment are read; NULL: none. */
vkf_status vkf_plan_place(vkf_env *env, const vkf_plan *plan, bool keep_all, uint64_t most, vkf_placement *placements,
                          vkf_placement *scratch, uint64_t *pool_bytes);

#endif
