/* Cases: the shapes, data and seeds on which an op is validated, tested, timed and tuned. One registry, many readers.
 *
 * A case is a plan of one node with its data, so that it runs on the production path of any backend.
 */
#ifndef VKF_OP_CASES_H
#define VKF_OP_CASES_H

#include "op/backend.h"

typedef enum vkf_case_data {
  VKF_DATA_NORMAL,   /* mean 0, sigma 1 */
  VKF_DATA_HALVES,   /* multiples of 1/2 in [-4, 4]: exact in any order of summation */
  VKF_DATA_ONE_SIGN, /* in [1/2, 1): roundings align */
  VKF_DATA_OFFSET,   /* activations of mean 10000, sigma 1; the rest as NORMAL */
  VKF_DATA_HUGE,     /* activations of sigma 40000: a tenth is beyond f16; the rest as NORMAL */
  VKF_DATA_HUGE_W,   /* weights of sigma 40000, which f16 cannot hold; the rest as NORMAL */
  VKF_DATA_LARGE,    /* activations of sigma 100: scores of 10000; the rest as NORMAL */
  VKF_DATA_CONSTANT, /* every activation 2.5; the rest as NORMAL */
  VKF_DATA_TIES,     /* 0, 1 or 2: many equal values */
  VKF_DATA_FEW, /* one row, whose columns (keys) 2^n - 1, 2^n and the last count alike and the others next to nothing:
                 * a kernel that leaves one of them out fails at any width */
  VKF_DATA_SPECIAL, /* as NORMAL, but one activation in 16 is NaN, an infinity or -0 */
  VKF_DATA_UNSEEN   /* as NORMAL, but keys that the mask takes out, and their values, are infinite */
} vkf_case_data;

/* A row of src/op/cases_<op>.c. */
typedef struct vkf_case {
  const char *name; /* unique within the op: "m77 n33 k17 gelu residual" */
  vkf_op op;
  vkf_params params;
  vkf_sizes sizes;    /* actual */
  vkf_sizes capacity; /* all 0: the actual sizes */
  uint32_t inputs;    /* bit i: optional input i is present */
  vkf_case_data data;
  vkf_format format; /* of the operands that may be stored in any */
  uint64_t seed;
} vkf_case;

/* All cases of an op. */
typedef struct vkf_cases {
  const vkf_case *at;
  size_t n;
} vkf_cases;
const vkf_case *vkf_op_cases(vkf_op op, size_t *n);
#define X(NAME, name) extern const vkf_cases vkf_op_cases_##name;
VKF_OP_LIST(X)
#undef X

/* The plan and data of a case. Activations and index inputs (ids, mask, edits, ...) are VKF_SLOT_CONSTANT with their
 * data in the slot, weights are VKF_SLOT_WEIGHT, and outputs are VKF_SLOT_TEMP with an output name. Floats between the
 * actual sizes and the capacity are NaN. Every fourth row of a mask has no key; one entry in 16 of an additive bias is
 * minus infinity. */
typedef struct vkf_case_run {
  vkf_plan plan;
  vkf_dims dims;
  vkf_weight_source weights; /* n_weights 0: none */
  vkf_arena arena;
} vkf_case_run;
vkf_status vkf_case_make(vkf_env *env, const vkf_case *c, vkf_case_run *out);
void vkf_case_finish(vkf_case_run *run);

/* Returns a random number below n, always the same for the same seed, stream and i. */
static inline uint32_t vkf_case_below(const vkf_case *c, uint64_t stream, uint64_t i, uint32_t n) {
  return (uint32_t)(vkf_rng_u64(c->seed, stream, i) % n);
}

#endif
