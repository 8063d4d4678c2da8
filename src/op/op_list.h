/* The one list of ops: X(NAME, name). A row expands to the enum value VKF_OP_NAME, the printed name, the member of
 * vkf_params, and these functions, so an op that lacks one of them does not link:
 *   vkf_op_shape_<name>, vkf_op_cost_<name>, vkf_op_cases_<name>   room op
 *   vkf_ref_<name>                                                 room ref
 *   vkf_vkop_problem_<name>, vkf_vkop_describe_<name>              room vkop
 * A fused form (bias, activation, residual) is a parameter of a row, not a row. */
#ifndef VKF_OP_OP_LIST_H
#define VKF_OP_OP_LIST_H

#define VKF_OP_LIST(X)                                                                                       \
  X(EMBED, embed)                         /* ids > rows of a table, scaled, plus positions */                \
  X(MATMUL, matmul)                       /* x w^T + bias, activation, residual or gates */                  \
  X(ATTENTION, attention)                 /* softmax(cap(q k^T scale) + masks) v, no score matrix */         \
  X(ATTENTION_WEIGHTS, attention_weights) /* the softmax of the same scores, for inspection */               \
  X(NORM, norm)                           /* layer norm or RMS norm of rows */                               \
  X(APPEND, append)                       /* key and value columns of rows > head-major caches */            \
  X(GATHER, gather)                       /* rows by index */                                                \
  X(LOG_SOFTMAX, log_softmax)             /* of rows */                                                      \
  X(LOGIT_EDIT, logit_edit)               /* set, add or scale single logits, fill rows */                   \
  X(TOP_K, top_k)                         /* the k largest of a row with their ids, ties to the lowest id */ \
  X(ROPE, rope)                           /* rotary positions of the heads in rows */                        \
  X(GATE, gate)                           /* act of one half of a row times the other; models use matmul */  \
  X(RELATIVE_BIAS, relative_bias)         /* the additive bias of attention by bucketed distances */         \
  X(PATCHES, patches)                     /* images > rows of patches */

#endif
