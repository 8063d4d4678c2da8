/* Push constants: where the operands begin, then the parameters of one op. Read by C and GLSL.
 *
 * Members named after a dimension (rows, queries, ...) are indices into the step buffer; strides and capacities are in
 * elements.
 */
#ifndef VKF_SHARED_PARAMS_H
#define VKF_SHARED_PARAMS_H

#include "shared/types.h"

#define VKF_PUSH_OPERANDS 8

struct vkf_push_embed {
  VKF_UINT rows, width;
  VKF_UINT n_ids, n_positions, n_types; /* heights of the tables */
  VKF_FLOAT scale;
};

struct vkf_push_matmul {
  VKF_UINT rows, n, k;
  VKF_FLOAT scale; /* of the sum */
};

struct vkf_push_attention {
  VKF_UINT rows, queries, keys, past, shared_by;
  VKF_UINT q_stride, q_column;
  VKF_UINT key_capacity; /* of k and v */
  VKF_UINT mask_stride, ancestry_stride;
  VKF_UINT bias_queries, bias_keys; /* capacities of the bias; by distance: largest before a query, number of all */
  VKF_UINT out_queries, out_keys;   /* capacities of the weights; attention: sequences (a dimension), keys of a split */
  VKF_UINT window;
  VKF_FLOAT scale;
};

struct vkf_push_norm {
  VKF_UINT rows, width;
  VKF_FLOAT eps;
  VKF_UINT groups, row_width;
};

struct vkf_push_append {
  VKF_UINT seqs, tokens, past;
  VKF_UINT x_stride, k_column, v_column;
  VKF_UINT k_capacity, v_capacity;
  VKF_UINT q_column, q_width, n_positions; /* of queries that are rotated */
};

struct vkf_push_gather {
  VKF_UINT rows, x_rows, width;
};

struct vkf_push_rows { /* log_softmax */
  VKF_UINT rows, width;
};

struct vkf_push_logit_edit {
  VKF_UINT rows, width, max_edits;
};

struct vkf_push_top_k {
  VKF_UINT rows, width, k;
};

struct vkf_push_rope {
  VKF_UINT rows, width, x_stride;
  VKF_UINT q_column, q_width, k_column, k_width; /* where the heads are: first column and number of columns */
  VKF_UINT n_positions;
};

struct vkf_push_gate {
  VKF_UINT rows, width, x_stride, gate_column, up_column;
};

struct vkf_push_relative_bias {
  VKF_UINT n_heads, n_distances;
};

struct vkf_push_patches {
  VKF_UINT rows, tokens;
  VKF_UINT channels, height, width, patch_height, patch_width, leading;
};

#endif
