/* op: the ops that a Transformer is computed with: their parameters, dimensions, shapes and costs.
 *
 * All backends share these words; this room knows no backend. Pure data and pure functions.
 * Invariant: capacities are fixed when a plan is built, actual sizes (vkf_dims) are known only when it runs.
 */
#ifndef VKF_OP_OP_H
#define VKF_OP_OP_H

#include "base/base.h"
#include "op/op_list.h"

typedef enum vkf_op {
#define X(NAME, name) VKF_OP_##NAME,
  VKF_OP_LIST(X)
#undef X
      VKF_OP_COUNT
} vkf_op;

const char *vkf_op_name(vkf_op op);
/* VKF_OP_COUNT if there is none. */
vkf_op vkf_op_find(const char *name);
static inline bool vkf_op_is_attention(vkf_op op) {
  return op == VKF_OP_ATTENTION || op == VKF_OP_ATTENTION_WEIGHTS;
}

/* ---- dimensions -------------------------------------------------------------------------------------------------- */

/* The sizes that may differ from one run of a plan to the next. The step buffer holds them in this order
 * (shaders/shared/step.h). */
typedef enum vkf_dim {
  VKF_DIM_ONE,   /* 1 */
  VKF_DIM_ZERO,  /* 0 */
  VKF_DIM_B,     /* source sentences */
  VKF_DIM_S,     /* source length; in packed batches the longest */
  VKF_DIM_BS,    /* source rows: B*S, in packed batches fewer */
  VKF_DIM_R,     /* target sequences (B * beams) */
  VKF_DIM_T,     /* target tokens that each sequence has in this run; in packed batches the most of any */
  VKF_DIM_RT,    /* target rows: R*T, in packed batches fewer */
  VKF_DIM_PAST,  /* target tokens in the cache before this run */
  VKF_DIM_KEYS,  /* PAST + T */
  VKF_DIM_BEAMS, /* R / B */
  VKF_DIM_OUT,   /* rows that reach the head */
  VKF_DIM_COUNT
} vkf_dim;
const char *vkf_dim_name(vkf_dim dim); /* "BS"; "1" and "0" for the numbers */

typedef struct vkf_dims {
  uint32_t v[VKF_DIM_COUNT];
} vkf_dims;

/* The sizes that a caller sets; vkf_dims_make() computes the others. The capacity of a plan has this type, too. */
typedef struct vkf_sizes {
  uint32_t B, S, R, T, past, out;
  uint32_t source_rows, target_rows; /* BS and RT of packed batches; 0: B*S and R*T */
} vkf_sizes;
vkf_dims vkf_dims_make(const vkf_sizes *sizes);

/* Returns the dimension of the rows of `seqs` sequences of `tokens`: BS, RT, or seqs if tokens is ONE; ZERO if there is
 * none. */
vkf_dim vkf_op_rows(vkf_dim seqs, vkf_dim tokens);

/* One extent of a shape: a fixed number, or a dimension. */
typedef struct vkf_extent {
  vkf_dim dim;  /* VKF_DIM_ONE: the extent is fixed */
  uint32_t cap; /* the extent at capacity, from which strides are computed */
} vkf_extent;

/* ---- parameters -------------------------------------------------------------------------------------------------- */

#define VKF_MAX_INPUTS 7
#define VKF_MAX_OUTPUTS 3

typedef enum vkf_activation {
  VKF_ACT_NONE,
  VKF_ACT_RELU,
  VKF_ACT_GELU,
  VKF_ACT_GELU_TANH,
  VKF_ACT_SWISH,
  VKF_ACT_TANH,
  VKF_ACT_SIGMOID,
  VKF_ACT_QUICK_GELU, /* x sigmoid(1.702 x) */
  VKF_ACT_RELU2,      /* the square of ReLU */
  VKF_ACT_COUNT
} vkf_activation;
const char *vkf_activation_name(vkf_activation act);

/* out[r] = table[ids[r]] * scale + positions_table[positions[r]] + types_table[types[r]], from left to right, each step
 * rounded. by_row: there are no ids, and the table is rows [rows, width] that were computed, row r for out[r]. */
typedef struct vkf_embed_params {
  vkf_dim rows;
  uint32_t width, n_ids, n_positions, n_types; /* table heights; 0: absent */
  float scale;
  bool by_row; /* n_ids is 0 */
} vkf_embed_params;
enum {
  VKF_EMBED_IDS,
  VKF_EMBED_TABLE,
  VKF_EMBED_POSITIONS,
  VKF_EMBED_POSITION_TABLE,
  VKF_EMBED_TYPES,
  VKF_EMBED_TYPE_TABLE
};

/* out = act(scale x w^T + bias) + residual; x [rows,K] w [N,K] bias [N] residual, out [rows,N].
 * Gated (Shazeer 2020, GLU variants improve Transformer): with y = scale x w^T + bias, out[r][i] = act(y[r][2i]) *
 * y[r][2i+1]. N is even, out [rows,N/2], and there is no residual. */
typedef struct vkf_matmul_params {
  vkf_dim rows;
  uint32_t n, k;
  vkf_activation activation;
  float scale; /* of the sum; 0: 1 */
  bool is_gated;
} vkf_matmul_params;
static inline uint32_t vkf_matmul_width(const vkf_matmul_params *p) {
  return p->is_gated ? p->n / 2 : p->n;
}
enum { VKF_MATMUL_X, VKF_MATMUL_W, VKF_MATMUL_BIAS, VKF_MATMUL_RESIDUAL };

/* Packed batches: sequences of different lengths side by side, without pads. In a rectangle all `seqs` sequences have
 * equally many queries, past tokens and keys. In a packed batch the operand `spans`, int32 [seqs][VKF_SPAN_FIELDS],
 * says for each sequence (VKF_SPAN_* in shaders/shared/constants.h): the first row of its queries, their number (0:
 * none), its past tokens, its keys, the slot of k, v and mask that holds its keys, and its first key in that slot. The
 * dimensions queries and keys are the largest of any sequence. If the sequences are sources (B), keys are packed like
 * rows: k and v are [1][heads][BS][width], the mask is [1][BS]; an append to slots puts them into separate slots. All
 * other keys are in caches at capacity, with a slot for each sequence or, if keys is S, for each source. Spans, their
 * rows and their keys may be in any order, and sequences may share keys.
 */
typedef struct vkf_span {
  uint32_t row, queries, past, keys, slot, first; /* VKF_SPAN_* */
} vkf_span;

/* Scaled dot-product attention (Vaswani et al. 2017, equation 1) over head-major keys and values.
 * q: rows [seqs*queries, >= q_column + H*K], head h at columns q_column + h*K.
 * k [kv seqs][Hkv][keys][K], v [kv seqs][Hkv][keys][V] by capacity strides; query head h uses kv head h / (H/Hkv).
 * mask int32 [mask seqs][keys]: 0 takes a key out. bias float [1 or H][queries][keys], added to the scaled scores; with
 * bias_by_distance [1 or H][bias_before + 1 + bias_after], element s - (past + t) + bias_before, clamped.
 * ancestry int32 [seqs][keys]: the slot that holds key s of sequence r (beams); absent: sequence r / shared.
 * softcap > 0: a scaled score a becomes softcap tanh(a / softcap), before the bias (Gemma Team 2024, Gemma 2).
 * causal: query t sees keys 0 .. past+t; window > 0: only the last `window` of them.
 * A query without any key gives zeros. out: rows [seqs*queries, H*V]. */
typedef struct vkf_attention_params {
  vkf_dim seqs, queries, keys, past; /* past: VKF_DIM_ZERO if there is no cache */
  vkf_dim shared; /* sequences per row of k, v and mask: VKF_DIM_BEAMS in cross-attention, else ONE */
  uint32_t n_heads, n_kv_heads, key_width, value_width;
  uint32_t q_column;
  uint32_t window;
  bool causal;
  bool bias_per_head;
  bool bias_by_distance;
  uint32_t bias_before, bias_after; /* the largest distances before and behind a query that have their own bias */
  bool packed;
  float scale;
  float softcap; /* 0: none */
} vkf_attention_params;
enum {
  VKF_ATTENTION_Q,
  VKF_ATTENTION_K,
  VKF_ATTENTION_V,
  VKF_ATTENTION_MASK,
  VKF_ATTENTION_BIAS,
  VKF_ATTENTION_ANCESTRY,
  VKF_ATTENTION_SPANS
};
/* attention_weights has the same parameters and inputs (v absent); out float [seqs][H][queries][keys], capacity
 * strides. */

typedef enum vkf_norm_kind { VKF_NORM_LAYER, VKF_NORM_RMS } vkf_norm_kind;
/* y = x + residual; out = (y - mean) / sqrt(var + eps) * weight + bias (Ba et al. 2016), or with RMS
 * y / sqrt(mean(y^2) + eps) * weight + bias (Zhang and Sennrich 2019).
 * A row has `groups` groups (0: one) of `width` columns, and each is normed by itself; weight and bias are
 * [groups*width], so heads of queries and heads of keys may have different ones (their weights repeated). The `rest`
 * columns behind the groups pass as y. x, residual and out have groups*width + rest columns. */
typedef struct vkf_norm_params {
  vkf_dim rows;
  uint32_t width;
  vkf_norm_kind kind;
  float eps;
  uint32_t groups, rest;
} vkf_norm_params;
enum { VKF_NORM_X, VKF_NORM_RESIDUAL, VKF_NORM_WEIGHT, VKF_NORM_BIAS };

/* Which columns of a head rotary positions turn as a pair, see vkf_rope_params. */
typedef enum vkf_rope_pairs { VKF_ROPE_HALVES, VKF_ROPE_INTERLEAVED } vkf_rope_pairs;

/* Copies from row r = seq*tokens + t the columns from k_column on to k_cache[seq][h][past+t][:] and those from v_column
 * on to v_cache. In packed batches row t of a span becomes key past + t of its slot, counted from the span's first key.
 * rotary > 0: keys are turned by the row's position as vkf_rope_params says, and so are n_q_heads heads of key_width
 * columns from q_column on, which go to q [rows, n_q_heads*key_width]. */
typedef struct vkf_append_params {
  vkf_dim seqs, tokens, past;
  uint32_t n_heads, key_width, value_width, k_column, v_column;
  bool packed;
  bool to_slots; /* of B packed sequences: k and v are [B][heads][S][width] */
  uint32_t n_q_heads, q_column, rotary, n_positions;
  vkf_rope_pairs pairs;
} vkf_append_params;
enum { VKF_APPEND_X, VKF_APPEND_SPANS, VKF_APPEND_POSITIONS, VKF_APPEND_TABLE };
enum { VKF_APPEND_K, VKF_APPEND_V, VKF_APPEND_Q }; /* outputs */

/* out[i] = x[index[i]], i < rows. */
typedef struct vkf_gather_params {
  vkf_dim rows, x_rows;
  uint32_t width;
} vkf_gather_params;
enum { VKF_GATHER_X, VKF_GATHER_INDEX };

typedef struct vkf_log_softmax_params {
  vkf_dim rows;
  uint32_t width;
} vkf_log_softmax_params;
enum { VKF_LOG_SOFTMAX_X };

/* Edits of row r are edits[offsets[r]] .. edits[offsets[r+1]-1], applied in order to a copy of x. An edit is four
 * int32: kind, id, float bits of value, 0. */
typedef enum vkf_logit_edit_kind {
  VKF_LOGIT_EDIT_SET,     /* x[id] = value */
  VKF_LOGIT_EDIT_ADD,     /* x[id] += value */
  VKF_LOGIT_EDIT_PENALTY, /* x[id] = x[id] < 0 ? x[id] * value : x[id] / value */
  VKF_LOGIT_EDIT_FILL,    /* every x = value */
  VKF_LOGIT_EDIT_GROW     /* x[id] += |x[id]| * value */
} vkf_logit_edit_kind;
typedef struct vkf_logit_edit_params {
  vkf_dim rows;
  uint32_t width, max_edits; /* capacity of the list, all rows together */
  uint32_t row_edits;        /* the most edits of one row; 0: max_edits */
} vkf_logit_edit_params;
enum { VKF_LOGIT_EDIT_X, VKF_LOGIT_EDIT_OFFSETS, VKF_LOGIT_EDIT_EDITS };

/* values [rows,k] descending, ids [rows,k]; equal values: the lower id first; NaN counts as larger than any number. */
typedef struct vkf_top_k_params {
  vkf_dim rows;
  uint32_t width, k; /* 1 <= k <= width */
} vkf_top_k_params;
enum { VKF_TOP_K_X };
enum { VKF_TOP_K_VALUES, VKF_TOP_K_IDS }; /* outputs */

/* Rotary positions (Su et al. 2021, RoFormer): rows of queries, keys and values with the heads of q and k rotated, all
 * other columns copied. x [rows, >= width] positions int32 [rows] table [n_positions, rotary], out [rows, width].
 * Heads are head_width wide, n_heads from q_column on and n_kv_heads from k_column on (0 heads: none). The first
 * `rotary` columns of a head turn (even, at most head_width): pair i < rotary/2 is columns i and i + rotary/2 (HALVES)
 * or 2i and 2i + 1 (INTERLEAVED). Row p of the table holds the cosine of pair i at 2i and its sine at 2i + 1, in both
 * layouts; the host computes the frequencies, their scaling and an attention factor, which multiplies both numbers. A
 * pair (a, b) becomes (a cos - b sin, b cos + a sin). */
typedef struct vkf_rope_params {
  vkf_dim rows;
  uint32_t width; /* of out */
  uint32_t n_heads, q_column, n_kv_heads, k_column, head_width, rotary;
  uint32_t n_positions;
  vkf_rope_pairs pairs;
} vkf_rope_params;
enum { VKF_ROPE_X, VKF_ROPE_POSITIONS, VKF_ROPE_TABLE };

/* Gated linear unit (Shazeer 2020, GLU variants improve Transformer): out[r][i] = act(x[r][gate_column + i]) *
 * x[r][up_column + i], i < width. x [rows, >= both ends], out [rows, width]. */
typedef struct vkf_gate_params {
  vkf_dim rows;
  uint32_t width, gate_column, up_column;
  vkf_activation activation;
} vkf_gate_params;
enum { VKF_GATE_X };

/* Relative position bias (Raffel et al. 2020, T5), the bias by distance of attention with bias_per_head:
 * out[h][d] = table[buckets[d]][h].
 * table [n_buckets, n_heads] is a weight; buckets int32 [n_distances], computed by the host: the bucket of each
 * distance of a key from its query. out float [n_heads][n_distances]. */
typedef struct vkf_relative_bias_params {
  uint32_t n_heads, n_buckets, n_distances;
} vkf_relative_bias_params;
enum { VKF_RELATIVE_BIAS_TABLE, VKF_RELATIVE_BIAS_BUCKETS };

/* Image patches as rows (Dosovitskiy et al. 2021): x [B, channels*height*width], out [BS, channels*patch_height*
 * patch_width]. Row t of a sequence is patch t - leading, patches in row-major order, its columns in the order of a
 * convolution's weight [channels][patch_height][patch_width]. The `leading` rows before the patches (class tokens) and
 * rows behind the last patch are zeros, so that a matmul without bias gives zeros there; its residual, from an embed,
 * can add class tokens or the convolution's bias, and positions. Pixels that fill no patch are left out. */
typedef struct vkf_patches_params {
  uint32_t channels, height, width, patch_height, patch_width, leading;
} vkf_patches_params;
enum { VKF_PATCHES_X };

typedef union vkf_params {
  vkf_embed_params embed;
  vkf_matmul_params matmul;
  vkf_attention_params attention;
  vkf_attention_params attention_weights;
  vkf_norm_params norm;
  vkf_append_params append;
  vkf_gather_params gather;
  vkf_log_softmax_params log_softmax;
  vkf_logit_edit_params logit_edit;
  vkf_top_k_params top_k;
  vkf_rope_params rope;
  vkf_gate_params gate;
  vkf_relative_bias_params relative_bias;
  vkf_patches_params patches;
} vkf_params;

#endif
