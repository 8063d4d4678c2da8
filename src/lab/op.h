/* op: builds the small plans that vkf_device_run_op() runs from a caller's arrays and JSON parameters, with op/build.h.
 *
 * After a first failure every call does nothing and gives VKF_NO_SLOT or NULL. Invariant: the sizes of the plan are its
 * capacity.
 */
#ifndef VKF_LAB_OP_H
#define VKF_LAB_OP_H

#include <vkformer/lab.h>

#include "engine/engine.h"
#include "file/json.h"
#include "op/transformer.h"

enum { VKF_OP_MAX_WEIGHTS = 16, VKF_OP_MAX_PARTS = 3 };

/* Weights stacked in one matrix: n_elements[i] numbers of part[i], up to the first NULL. */
typedef struct vkf_op_weight {
  const float *part[VKF_OP_MAX_PARTS];
  size_t n_elements[VKF_OP_MAX_PARTS];
} vkf_op_weight;

/* An output: `slot` under `name`, in the shape that the caller expects. */
typedef struct vkf_op_output {
  const char *name;
  uint32_t slot;
  size_t rank, shape[4];
} vkf_op_output;

typedef struct vkf_op_build {
  vkf_env *env;
  vkf_build b; /* has the first failure */
  const vkf_array *inputs;
  size_t n_inputs;
  vkf_file_value params;
  bool trace;      /* return intermediates, too */
  bool is_decoder; /* decides the names of a block's nodes (op_blocks.c) */
  bool errors;     /* the inputs are errors of inputs, tables and constants their own rounding errors (op_errors.c) */
  vkf_arena arena;
  vkf_weight_info weights[VKF_OP_MAX_WEIGHTS];
  vkf_op_weight parts[VKF_OP_MAX_WEIGHTS];
  uint32_t n_weights;
  vkf_op_output outputs[VKF_MAX_OUTPUTS];
  size_t n_outputs;
} vkf_op_build;

/* Makes the plan of an op: one block of its name, which `build` fills. Set env, inputs, params and the arena before. */
vkf_status vkf_lab_op_plan(vkf_op_build *o, const char *op, void (*build)(vkf_op_build *));

/* Find an input by name; NULL if it is optional and absent. vkf_lab_op_batch() takes 3 dimensions or 2 (a batch of one)
 * and writes them to `shape` as 3. */
const vkf_array *vkf_lab_op_input(vkf_op_build *o, const char *name, vkf_dtype dtype, size_t rank, bool optional);
const vkf_array *vkf_lab_op_batch(vkf_op_build *o, const char *name, bool optional, size_t shape[3]);
void vkf_lab_op_expect(vkf_op_build *o, const vkf_array *a, size_t rank, const size_t *shape);
/* Returns zeroed memory in the arena; NULL after a failure. */
void *vkf_lab_op_alloc(vkf_op_build *o, size_t n, size_t size);
void vkf_lab_op_fail(vkf_op_build *o, const char *fmt, ...) VKF_PRINTF(2, 3);

/* Read parameters of the op's JSON object. */
double vkf_lab_op_number(vkf_op_build *o, const char *key, double fallback);
uint32_t vkf_lab_op_count(vkf_op_build *o, const char *key, uint32_t fallback);
bool vkf_lab_op_flag(vkf_op_build *o, const char *key);
/* Returns the index of the word in words[n]. */
uint32_t vkf_lab_op_word(vkf_op_build *o, const char *key, const char *const *words, uint32_t n, uint32_t fallback);
vkf_activation vkf_lab_op_activation(vkf_op_build *o, const char *fallback);

/* Make slots. data NULL: VKF_NO_SLOT, an absent input. */
uint32_t vkf_lab_op_constant(vkf_op_build *o, const char *name, vkf_dtype dtype, uint32_t rank,
                             const vkf_extent *extent, const void *data);
uint32_t vkf_lab_op_rows(vkf_op_build *o, const char *name, bool optional, vkf_dim dim, size_t rows, size_t width);
/* A vector of n numbers, and several vectors end to end (zeros for absent ones). Both are optional. */
uint32_t vkf_lab_op_vector(vkf_op_build *o, const char *name, size_t n);
uint32_t vkf_lab_op_vectors(vkf_op_build *o, const char *const *names, const size_t *n, size_t n_parts);
/* Weights [n[i], width], stacked, as `use`. */
uint32_t vkf_lab_op_weight(vkf_op_build *o, const char *const *names, const size_t *n, size_t n_parts, size_t width,
                           uint32_t use);
/* A weight [rows, width]. The caller must set its numbers: o->parts at the slot's index. */
uint32_t vkf_lab_op_weight_slot(vkf_op_build *o, const char *name, size_t rows, size_t width, uint32_t use);
/* Returns the rows of a required weight [rows, width]; 0 after a failure. */
size_t vkf_lab_op_weight_rows(vkf_op_build *o, const char *name, size_t width);

/* Adds a node whose outputs are new temporaries called name and second. Returns the first, which the second
 * follows. */
uint32_t vkf_lab_op_node(vkf_op_build *o, vkf_op op, const char *name, const char *second, const vkf_params *params,
                         const uint32_t *in, size_t n_in);
/* Reads the parameters "rms" and "eps" of a norm. */
void vkf_lab_op_norm_kind(vkf_op_build *o, vkf_norm_kind *kind, float *eps);
/* Adds a norm with these parameters. */
uint32_t vkf_lab_op_norm_node(vkf_op_build *o, const char *name, vkf_dim rows, size_t width, const uint32_t *in,
                              size_t n_in);
/* The inputs of a node, as its last two arguments. */
#define VKF_OP_IN(...) (uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
void vkf_lab_op_output(vkf_op_build *o, const char *name, uint32_t slot, size_t rank, const size_t *shape);
/* Returns prefix + name, kept in the arena. */
const char *vkf_lab_op_name(vkf_op_build *o, const char *prefix, const char *name);

/* op_errors.c: carries error bounds along the plan of a traced run.
 *
 * `plan` is built like o by the same function of the table, but from the errors of the inputs: NAME.error, or zeros. */
typedef struct vkf_op_errors {
  vkf_op_build *plan;
  float **slots; /* [n_slots] at capacity; NULL: int32 */
} vkf_op_errors;

vkf_status vkf_lab_op_errors_init(vkf_op_errors *e, const vkf_op_build *o, const char *op,
                                  void (*build)(vkf_op_build *));
void vkf_lab_op_errors_finish(vkf_op_errors *e);
/* Computes the errors of output `out` of node `index` from those of the node's inputs and from the bounds of the output
 * (at capacity). Call it for the outputs of a node in ascending order. bases: the values of all slots, at capacity. */
vkf_status vkf_lab_op_errors_node(vkf_op_errors *e, uint32_t index, const vkf_dims *dims, void *const *bases,
                                  uint32_t out, const double *bound);
void vkf_lab_op_load(void *build, uint32_t index, uint32_t first, uint32_t n, float *dst);

static inline vkf_extent vkf_lab_op_fixed(size_t n) {
  return (vkf_extent){VKF_DIM_ONE, (uint32_t)n};
}

/* The functions of the table in op.c, from op_rows.c, op_attention.c and op_blocks.c. */
void vkf_lab_op_matmul(vkf_op_build *o);
void vkf_lab_op_norm(vkf_op_build *o);
void vkf_lab_op_log_softmax(vkf_op_build *o);
void vkf_lab_op_top_k(vkf_op_build *o);
void vkf_lab_op_gate(vkf_op_build *o);
void vkf_lab_op_embed(vkf_op_build *o);
void vkf_lab_op_positional_encoding(vkf_op_build *o);
void vkf_lab_op_rope(vkf_op_build *o);
void vkf_lab_op_patches(vkf_op_build *o);
void vkf_lab_op_softmax(vkf_op_build *o);
void vkf_lab_op_attention(vkf_op_build *o);
void vkf_lab_op_attention_weights(vkf_op_build *o);
void vkf_lab_op_multi_head_attention(vkf_op_build *o);
void vkf_lab_op_ffn(vkf_op_build *o);
void vkf_lab_op_encoder_block(vkf_op_build *o);
void vkf_lab_op_decoder_block(vkf_op_build *o);

#endif
