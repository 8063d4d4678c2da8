/* Ids of the specialization constants, and the numbers that host code and kernels must agree on. Read by C and GLSL.
 *
 * Ids 0 to VKF_C_COMMON-1 come from the row of the variant table and the weight's packing (vkf_kern_constants), the
 * others from the op's recorder. */
#ifndef VKF_SHARED_CONSTANTS_H
#define VKF_SHARED_CONSTANTS_H

#define VKF_C_WORKGROUP 0     /* invocations of a workgroup */
#define VKF_C_SUBGROUP_SIZE 1 /* the subgroup size that the kernel is written for; 0: any */
#define VKF_C_BM 2            /* tile of a workgroup: rows, columns, depth */
#define VKF_C_BN 3
#define VKF_C_BK 4
#define VKF_C_TM 5 /* tile of an invocation, or of a subgroup (vector, coopmat kernels): rows, columns */
#define VKF_C_TN 6
#define VKF_C_W_LAYOUT 7        /* packing of the weight: VKF_W_* */
#define VKF_C_W_COLUMNS 8       /* columns of each of its groups */
#define VKF_C_W_K_ALIGN 9       /* K is padded to a multiple of this */
#define VKF_C_HALVES_BY_HAND 10 /* 1: kernels unpack f16 themselves: the driver's unpacking failed its check */
#define VKF_C_COMMON 11

/* matmul */
#define VKF_C_ACTIVATION 11
#define VKF_C_HAS_BIAS 12
#define VKF_C_HAS_RESIDUAL 13
#define VKF_C_MATRIX_M 14 /* of a cooperative matrix product, in kernels that have them */
#define VKF_C_MATRIX_N 15
#define VKF_C_MATRIX_K 16
#define VKF_C_VEC 17            /* numbers of a row that one load may take: 4 or 1 */
#define VKF_C_SLICES 18         /* slices in shared memory */
#define VKF_C_SPLIT_K 19        /* k of a split */
#define VKF_C_SPLIT_WIDTH 20    /* columns of the dispatch */
#define VKF_C_OUT_PAIRS 21      /* 1: one store may write two neighbouring columns of the result */
#define VKF_C_IS_GATED 22       /* 1: each pair of neighbouring columns becomes one, see vkf_matmul_params */
#define VKF_C_MATRICES_AHEAD 23 /* 1: cooperative matrices are loaded across barriers, see vkf_caps */
/* Columns of a row of x that share a scale if the weight is in q8; limits of the largest magnitude of such a block, in
 * the bits of a float: the exponent of 2^-100, below which the block is zeros, and the least number that int8 cannot
 * hold. */
#define VKF_Q8_BLOCK 32
#define VKF_Q8_LEAST_EXPONENT 27
#define VKF_Q8_REFUSED 0x7f7e0001u
/* embed */
#define VKF_C_HAS_TABLE 11 /* 0: no; 1: yes; VKF_TABLE_BY_ROW: without ids */
#define VKF_C_HAS_POSITIONS 12
#define VKF_C_HAS_TYPES 13
#define VKF_TABLE_BY_ROW 2
/* attention, attention_weights */
#define VKF_C_HEADS 11
#define VKF_C_KV_HEADS 12
#define VKF_C_KEY_WIDTH 13
#define VKF_C_VALUE_WIDTH 14
#define VKF_C_HAS_MASK 15
#define VKF_C_HAS_SCORE_BIAS 16 /* 0: none; 1: one for all heads; 2: one per head */
#define VKF_C_HAS_ANCESTRY 17
#define VKF_C_CAUSAL 18
#define VKF_C_IS_PACKED 19
#define VKF_C_BIAS_BY_DISTANCE 20
#define VKF_C_SOFTCAP 21            /* the bits of a float; 0: none */
#define VKF_C_ATTENTION_MATRIX_M 22 /* of a cooperative matrix product, in kernels that have them */
#define VKF_C_ATTENTION_MATRIX_N 23
#define VKF_C_ATTENTION_MATRIX_K 24
#define VKF_ATTENTION_WIDE 8 /* their operand after the spans: the word of vkf_problem.wide */
/* norm */
#define VKF_C_IS_RMS 11
#define VKF_C_NORM_HAS_RESIDUAL 12
#define VKF_C_NORM_HAS_WEIGHT 13
#define VKF_C_NORM_HAS_BIAS 14
#define VKF_C_NORM_VECTORS 15 /* vectors of a row that an invocation of norm_wide keeps */
/* append */
#define VKF_C_APPEND_HEADS 11
#define VKF_C_APPEND_KEY_WIDTH 12   /* 0: keys are not kept */
#define VKF_C_APPEND_VALUE_WIDTH 13 /* 0: values are not kept */
#define VKF_C_APPEND_IS_PACKED 14
#define VKF_C_APPEND_ROTARY 15 /* columns of a head that are rotated */
#define VKF_C_APPEND_INTERLEAVED 16
/* The span of a sequence in a packed batch. */
#define VKF_SPAN_ROW 0     /* of its first query */
#define VKF_SPAN_QUERIES 1 /* 0: it has none in this run */
#define VKF_SPAN_PAST 2    /* its keys before the first query */
#define VKF_SPAN_KEYS 3    /* keys that its queries may see */
#define VKF_SPAN_SLOT 4    /* of keys, values and mask */
#define VKF_SPAN_FIRST 5   /* its first key in the slot */
#define VKF_SPAN_FIELDS 6
/* top_k */
#define VKF_C_TOP_K_SPLIT 11 /* columns of a part of a row */
/* gate: VKF_C_ACTIVATION */
/* edit */
#define VKF_C_LOGIT_EDIT_IN_PLACE 11
/* rope */
#define VKF_C_ROPE_HEAD_WIDTH 11
#define VKF_C_ROPE_ROTARY 12 /* columns of a head that are rotated */
#define VKF_C_ROPE_INTERLEAVED 13
/* edit: the kinds, as in vkf_logit_edit_kind */
#define VKF_LOGIT_EDIT_KIND_SET 0
#define VKF_LOGIT_EDIT_KIND_ADD 1
#define VKF_LOGIT_EDIT_KIND_PENALTY 2
#define VKF_LOGIT_EDIT_KIND_FILL 3
#define VKF_LOGIT_EDIT_KIND_GROW 4

/* probe_loops: turns of its inner loop; its sequence (Numerical Recipes' generator). */
#define VKF_PROBE_INNER_TURNS 256
#define VKF_PROBE_FACTOR 1664525u
#define VKF_PROBE_TERM 1013904223u
/* probe_matrix: subgroups of its workgroup. */
#define VKF_PROBE_MATRIX_SUBGROUPS 2

/* How weights are packed: as vkf_weight_layout. */
#define VKF_W_ROWS 0
#define VKF_W_LANE 1
#define VKF_W_COLUMNS 2

/* As vkf_activation. */
#define VKF_A_NONE 0
#define VKF_A_RELU 1
#define VKF_A_GELU 2
#define VKF_A_GELU_TANH 3
#define VKF_A_SWISH 4
#define VKF_A_TANH 5
#define VKF_A_SIGMOID 6
#define VKF_A_QUICK_GELU 7
#define VKF_A_RELU2 8

#define VKF_ABSENT 0xffffffffu /* there is none */

/* Keys per step of the online softmax in every kernel, from the first key of the mask: part of the order of sums. */
#define VKF_KEY_BLOCK 16
/* Attention weights are multiplied by this before they become f16. */
#define VKF_HALF_WEIGHT 32768.0f
/* The largest head width that attention takes. */
#define VKF_MAX_HEAD_WIDTH 256
/* The largest head width of the kernels that unroll over it. */
#define VKF_MAX_UNIFORM_WIDTH 128
/* What kernels do in one turn of a loop (kern/family.h counts them): elements of a head; scores; edits; columns of
 * a top-k, where an invocation keeps the best of so many pieces of its columns; k of the plainest matmul. */
#define VKF_K_AT_ONCE 8
#define VKF_HEAD_AT_ONCE 16
#define VKF_HEAD_AT_ONCE_VEC4 8 /* of a kernel that loads four at a time */
#define VKF_SCORES_AT_ONCE 4
#define VKF_SCORES_OF_NARROW 16 /* if heads are narrower than VKF_NARROW_HEAD */
#define VKF_NARROW_HEAD 4
#define VKF_EDITS_AT_ONCE 4
#define VKF_COLUMNS_AT_ONCE 8
#define VKF_TOP_K_PIECES_OF_PART 8 /* so that one of a part of 4096 columns is a turn */
#define VKF_TOP_K_PIECES 16
/* Partial sums of a row; norm, log_softmax and top_k kernels with shared memory, but norm_wide, have as many
 * invocations. */
#define VKF_ROW_PARTIALS 64
/* Vectors of a row that an invocation of norm_wide has registers for, and subgroups of a workgroup. */
#define VKF_NORM_MAX_VECTORS 8
#define VKF_NORM_MAX_SUBGROUPS 64
/* Columns of one workgroup if a row of log_softmax is split. */
#define VKF_SOFTMAX_SPLIT 2048
/* Columns that an invocation of its second stage loads before it stores the first of them. */
#define VKF_SOFTMAX_AT_ONCE 8
/* What matmul_shared has registers for: rows or columns of an invocation, loads of a slice. */
#define VKF_SHARED_MAX_TILE 8
#define VKF_SHARED_MAX_LOADS 8
/* The same for matmul_dot, whose loads are words; rows and columns of a subgroup of matmul_vector. */
#define VKF_DOT_MAX_TILE 8
#define VKF_DOT_MAX_LOADS 8
#define VKF_VECTOR_MAX_TM 8
#define VKF_VECTOR_MAX_TN 4
/* The largest k of the top-k kernels that keep a list in every lane. */
#define VKF_MAX_LANES_K 32

#endif
