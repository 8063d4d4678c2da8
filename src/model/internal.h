/* internal: the block description that every family maps to, and what the files of this room share; not for others.
 *
 * A family is one function vkf_model_map_<name>(): it reads config.json, fills the stacks and the head of the net, and
 * claims every tensor by name. It has no loop over nodes and no numbers of its own: plan.c and blocks.c read only this.
 */
#ifndef VKF_MODEL_INTERNAL_H
#define VKF_MODEL_INTERNAL_H

#include "file/json.h"
#include "file/safetensors.h"
#include "model/model.h"

/* ---- the block description --------------------------------------------------------------------------------------- */

#define VKF_NO_WEIGHT UINT32_MAX

/* Indices into the net's weights; VKF_NO_WEIGHT: absent. */
typedef struct vkf_model_linear {
  uint32_t weight, bias; /* [N,K], [N] */
} vkf_model_linear;

/* Layer norms may have neither scale nor shift. */
typedef struct vkf_model_norm {
  uint32_t weight, bias; /* [D] */
} vkf_model_norm;

typedef struct vkf_model_attention {
  vkf_model_linear q;  /* self-attention: rows of queries, keys and values; cross-attention: queries */
  vkf_model_linear kv; /* cross-attention only: keys and values */
  vkf_model_linear out;
  vkf_model_norm norm;
} vkf_model_attention;

typedef struct vkf_model_layer {
  vkf_model_attention self, cross; /* cross: where the stack has cross-attention */
  vkf_model_linear ffn_in, ffn_out;
  vkf_model_norm ffn_norm;
} vkf_model_layer;

typedef enum vkf_model_position_kind {
  VKF_POSITION_NONE,
  VKF_POSITION_LEARNED,
  VKF_POSITION_INTERLEAVED, /* sinusoids: even columns sines, odd columns cosines (Vaswani et al. 2017, section 3.5) */
  VKF_POSITION_HALVES       /* the same numbers, all sines first */
} vkf_model_position_kind;

typedef struct vkf_model_stack {
  const char *name; /* "encoder", "decoder" */
  uint32_t n_layers, vocab, d_ff;
  uint32_t n_heads, n_kv_heads, key_width, value_width;
  float scale; /* of the scores */
  bool causal, has_cross;
  bool attention_bias, ffn_bias;
  vkf_activation activation;
  bool norm_first;  /* x + f(norm(x)), else norm(x + f(x)) */
  bool norm_affine; /* of the layers' norms; the final norm has its tensors wherever they are stored */
  bool has_final_norm;
  vkf_norm_kind norm_kind;
  float norm_eps;
  float embed_scale;
  vkf_model_position_kind positions;
  uint32_t n_positions;           /* rows of the learned table */
  uint32_t table, position_table; /* weights; position_table where positions are learned */
  vkf_model_layer *layers;
  vkf_model_norm final_norm;
} vkf_model_stack;

/* ---- the net ----------------------------------------------------------------------------------------------------- */

/* Rows [first_row, first_row + n_rows) of a tensor; a vector counts as n_rows rows of one number. */
typedef struct vkf_model_part {
  const vkf_file_tensor *tensor;
  size_t first_row, n_rows;
} vkf_model_part;

#define VKF_MODEL_MAX_PARTS 3
typedef struct vkf_model_weight {
  vkf_model_part parts[VKF_MODEL_MAX_PARTS]; /* one after the other */
  uint32_t n_parts;
} vkf_model_weight;

struct vkf_net {
  vkf_env *env;
  vkf_arena arena;
  vkf_net_info info;
  const char *config_path;
  vkf_file_tensors *tensors;
  bool *used; /* [tensors] claimed or known to be of no use */
  vkf_weight_info *infos;
  vkf_model_weight *weights;
  uint32_t n_weights, weights_capacity;
  vkf_model_stack encoder, decoder; /* n_layers 0: there is none */
  vkf_model_linear head;            /* where info.has_head */
  const char *names[2][2];          /* by stage: the last states, their other name (vkf_model_second_name) */
};

/* ---- families ---------------------------------------------------------------------------------------------------- */

/* X(model_type): the one list. */
#define VKF_MODEL_FAMILIES(X) \
  X(marian)                   \
  X(transformer)

#define X(name) vkf_status vkf_model_map_##name(vkf_net *net, vkf_file_value config);
VKF_MODEL_FAMILIES(X)
#undef X

/* ---- config.c: keys of config.json ------------------------------------------------------------------------------- */

/* 1 .. 2^24. */
vkf_status vkf_model_get_size(vkf_net *net, vkf_file_value config, const char *key, uint32_t *out);
/* The same; `fallback` where the key is missing or null. */
vkf_status vkf_model_find_size(vkf_net *net, vkf_file_value config, const char *key, uint32_t fallback, uint32_t *out);
/* A token id; `fallback` where the key is missing or null. */
vkf_status vkf_model_find_token(vkf_net *net, vkf_file_value config, const char *key, int32_t fallback, int32_t *out);
/* The name of an activation, as transformers writes it. */
vkf_status vkf_model_find_activation(vkf_net *net, vkf_file_value config, const char *key, const char *fallback,
                                     vkf_activation *out);
/* VKF_ERROR_UNSUPPORTED if the key is there and is not `only`. */
vkf_status vkf_model_only_bool(vkf_net *net, vkf_file_value config, const char *key, bool only);
/* VKF_ERROR_UNSUPPORTED if the key is there and not null. */
vkf_status vkf_model_only_absent(vkf_net *net, vkf_file_value config, const char *key);
/* Head widths D/H and the scale 1/sqrt(D/H) of a stack whose heads share D evenly. */
vkf_status vkf_model_split_heads(vkf_net *net, vkf_model_stack *stack, const char *key);

/* ---- weights.c: tensors by name ---------------------------------------------------------------------------------- */

/* Which tensors a weight is made of. */
typedef struct vkf_model_source {
  const char *tensor;
  uint32_t rows;              /* of the whole tensor */
  uint32_t first_row, n_rows; /* of the part */
  bool is_flat_matrix;        /* a vector that is stored as [1, rows] */
} vkf_model_source;

bool vkf_model_has_tensor(const vkf_net *net, const char *name);
/* The first of the names that is stored; the first of all if none is. */
const char *vkf_model_first_of(const vkf_net *net, const char *const *names, size_t n);
/* Adds a weight. columns 0: a vector, else [rows of all sources, columns]. Checks presence, dtype and shape. */
vkf_status vkf_model_add_weight(vkf_net *net, uint32_t use, uint32_t columns, const vkf_model_source *sources,
                                size_t n_sources, uint32_t *out, const char *fmt, ...) VKF_PRINTF(7, 8);
/* A whole tensor [rows, columns] as one weight. */
vkf_status vkf_model_add_matrix(vkf_net *net, uint32_t use, const char *tensor, uint32_t rows, uint32_t columns,
                                const char *name, uint32_t *out);
/* Tensors that are stored but say nothing new (tied twice): not listed as unused. */
void vkf_model_mark_known(vkf_net *net, const char *name);
/* Fills info.unused. */
vkf_status vkf_model_list_unused(vkf_net *net);
vkf_status vkf_model_load_weight(void *net, uint32_t index, float *dst);

/* ---- stack.c: the layers of a stack by name ---------------------------------------------------------------------- */

/* Stems, to which "weight" and "bias" are appended. */
typedef struct vkf_model_attention_names {
  const char *q, *k, *v; /* three tensors, or */
  const char *packed;    /* one with the rows of all three */
  const char *out, *norm;
} vkf_model_attention_names;

typedef struct vkf_model_stack_names {
  const char *layers; /* "model.encoder.layers.": then the number and a dot, then the stems below */
  vkf_model_attention_names self, cross;
  const char *ffn_in, *ffn_out, *ffn_norm;
  const char *final_norm; /* a whole stem */
} vkf_model_stack_names;

/* Claims the tensors of all layers and of the final norm; the numbers of the stack are set before. */
vkf_status vkf_model_claim_stack(vkf_net *net, vkf_model_stack *stack, const vkf_model_stack_names *names);

/* ---- positions.c ------------------------------------------------------------------------------------------------- */

/* table [n][width]: sinusoids of the positions 0 .. n-1, computed in double. */
void vkf_model_sinusoids(vkf_model_position_kind kind, uint32_t n, uint32_t width, float *table);

#endif
