/* family: the descriptor of a kernel family: functions of a row of the table and a problem.
 *
 * A family is defined in family_*.c and declared in variants.c, beside the rows that use it. No other code
 * distinguishes families. A function may be NULL; its comment says what that means.
 */
#ifndef VKF_KERN_FAMILY_H
#define VKF_KERN_FAMILY_H

#include <stdio.h>

#include "kern/kern.h"
#include "shared/constants.h"

/* Devices on which a family is the default, if it fits. */
typedef enum vkf_device_class {
  VKF_FOR_NOBODY, /* never a default: ranks behind all of them, by effort */
  VKF_FOR_ANY,
  VKF_FOR_CPU,
  VKF_FOR_GPU,
  VKF_FOR_GPU_FEW_ROWS, /* problems of at most 8 rows */
  VKF_FOR_UNIFORM_LOADS /* drivers that load once what all lanes share */
} vkf_device_class;

/* Which numbers of a tile a benchmark may set. */
typedef enum vkf_tile_kind {
  VKF_TILE_FIXED,
  VKF_TILE_GEMM,
  VKF_TILE_MATRIX, /* multiples of the matrix shape */
  VKF_TILE_ROWS    /* only tm; bm is the same */
} vkf_tile_kind;

typedef struct vkf_family {
  const char *name; /* as in names of kernels */
  vkf_device_class device;
  uint32_t place;     /* among the defaults of its op, the smaller the better; equal ones compete by their effort */
  const char *reason; /* why it is a default, as `vkformer kernels` prints it */

  /* The family's own conditions; NULL: none. As vkf_kern_fit(). */
  const char *(*fit)(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size);
  /* Invocations of a workgroup, computed from the tile; NULL: the row's `workgroup`, else one subgroup. */
  uint32_t (*workgroup)(const vkf_variant *v);
  uint32_t (*shared_bytes)(const vkf_variant *v);
  /* Registers that an invocation needs, counted from the shader's arrays; NULL: few. */
  uint32_t (*registers)(const vkf_variant *v, const vkf_problem *p);
  /* Sets the workgroups of a stage. On entry g is {p->rows.rows, 1, 1}; NULL: it stays so. */
  void (*grid)(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
  /* For kernels with a second stage: see vkf_kern_split() and vkf_kern_scratch_bytes(). */
  uint32_t (*split)(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps);
  uint64_t (*scratch_bytes)(const vkf_variant *v, const vkf_problem *p);
  /* See vkf_kern_loop_turns(); combine_turns: of the second stage, if there is one. */
  uint64_t (*loop_turns)(const vkf_variant *v, const vkf_problem *p);
  uint64_t (*combine_turns)(const vkf_problem *p);
  /* Changes *out if the family sums or rounds differently; NULL: a sum is one accumulator, and its inputs are not
   * rounded. */
  void (*rounding)(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out);
  /* Work per useful element; NULL: 0 on devices with its subgroup size, 1 on others. */
  double (*effort)(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps);

  vkf_tile_kind tile;
  uint32_t max_tile; /* the largest tm, and tn of a gemm */
  uint32_t probed;   /* its place (1, 2, ...) in vkf_kern_probe_candidates(); 0: it is not a candidate */
  uint32_t n_texels; /* operands that its texel kernels read through texel buffers */
  /* Matmul: the module that first writes x to scratch memory in the family's format, and the bytes of VKF_Q8_BLOCK
   * columns of a row there. NULL: kernels read x itself or, if the weight is in q8, the float32 rows that the module
   * quantise writes. */
  const char *round_x;
  uint32_t rounded_block_bytes;
} vkf_family;

/* ---- counting turns of loops ----------------------------------------------------------------------------------------
 *
 * Counts as gallivm does, which has one counter for all loops of an invocation: a turn is a pass through a loop's end.
 * A loop that tests at its top has one turn more than it does work, an inner loop has its turns in every turn of the
 * outer one, and a loop under a false condition has one. Loops marked [[unroll]] whose bounds are known when the
 * pipeline is made have none: Mesa unrolls those at any cost. Others may be unrolled, too, which only lowers the count.
 * Invariant: no count falls when a size of the problem grows. op.ops and op.turns run kernels at their limit.
 */

/* Returns the count of a loop that tests at its top: n turns, with `inner` turns of other loops in each. */
static inline uint64_t vkf_turns_of(uint64_t n, uint64_t inner) {
  return n * (1 + inner) + 1;
}
/* The same for n things, `at_once` of them per turn. */
static inline uint64_t vkf_turns_by(uint64_t n, uint64_t at_once) {
  return vkf_turns_of(VKF_CEIL_DIV(n, VKF_MAX(at_once, 1)), 0);
}

/* Returns from a function like vkf_kern_fit() with the reason why a kernel does not fit. */
#define VKF_KERN_REFUSE(...)          \
  do {                                \
    snprintf(why, size, __VA_ARGS__); \
    return why;                       \
  } while (0)

/* The effort of a kernel that should never be picked on a device. */
#define VKF_NO_EFFORT 1e30

#endif
