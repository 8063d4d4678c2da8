/* Makes problems of any op from the same few numbers, for tests that go through all kernels. */
#ifndef VKF_TESTS_SUPPORT_PROBLEMS_H
#define VKF_TESTS_SUPPORT_PROBLEMS_H

#include "kern/kern.h"

/* m: rows or queries; n: columns or keys; k: K, head widths, top_k's k, edits. Weights are in rows, in float32. */
static inline vkf_problem problem_of(vkf_op op, uint32_t m, uint32_t n, uint32_t k) {
  vkf_problem p = {.op = op, .packing = {VKF_LAYOUT_W_ROWS, 1, 1, VKF_FORMAT_F32}};
  switch (op) {
    case VKF_OP_MATMUL:
      p.matmul.m = m;
      p.matmul.n = n;
      p.matmul.k = k;
      break;
    case VKF_OP_ATTENTION:
    case VKF_OP_ATTENTION_WEIGHTS:
      p.attention.queries = m;
      p.attention.keys = n;
      p.attention.key_width = p.attention.value_width = k;
      p.attention.batch = 3;
      p.attention.heads = 2;
      break;
    case VKF_OP_NORM:
      p.norm.whole_width = n;
      break;
    case VKF_OP_TOP_K:
      p.top_k.k = k;
      break;
    case VKF_OP_LOGIT_EDIT:
      p.logit_edit.row_edits = k;
      break;
    case VKF_OP_APPEND:
      p.append.multiple_of = 2;
      break;
    default:
      break;
  }
  if (op != VKF_OP_MATMUL && !vkf_op_is_attention(op)) {
    p.rows.rows = m;
    p.rows.width = n;
  }
  return p;
}

/* Returns a format that a kernel reads: float32, else one of its others. */
static inline vkf_format format_of(const vkf_variant *v) {
  return v->matrix.m ? VKF_FORMAT_F16 : v->needs & VKF_NEED_DOT ? VKF_FORMAT_Q8 : VKF_FORMAT_F32;
}

/* Returns the n sizes of a problem, one after the other. */
static inline uint32_t *problem_sizes(vkf_problem *p, size_t *n) {
  *n = p->op == VKF_OP_MATMUL       ? 3
       : vkf_op_is_attention(p->op) ? sizeof p->attention / sizeof(uint32_t)
       : p->op == VKF_OP_NORM || p->op == VKF_OP_TOP_K || p->op == VKF_OP_LOGIT_EDIT ? 3
                                                                                     : 2;
  return &p->rows.rows;
}

#endif
