/* family: what the kernels of one shader family have in common: functions of a row of the table and a problem.
 *
 * One file a family, family_<name>.c, or a few lines in family_rows.c for kernels that give a row of the result to a
 * workgroup. variants.c declares the families where it has their rows. No other code of the library tells families
 * apart. A NULL function means what its comment says.
 */
#ifndef VKF_KERN_FAMILY_H
#define VKF_KERN_FAMILY_H

#include <stdio.h>

#include "kern/kern.h"
#include "shared/constants.h"

/* Devices that a family is the default on, if it fits. */
typedef enum vkf_device_class {
  VKF_FOR_NOBODY, /* it ranks behind all defaults, the least work first */
  VKF_FOR_ANY,
  VKF_FOR_CPU,
  VKF_FOR_GPU,
  VKF_FOR_GPU_FEW_ROWS, /* of matmuls with at most 8 rows */
  VKF_FOR_UNIFORM_LOADS /* drivers that load what all lanes ask for once */
} vkf_device_class;

/* Which numbers of a tile may be set by the caller of a benchmark. */
typedef enum vkf_tile_kind {
  VKF_TILE_FIXED,
  VKF_TILE_GEMM,
  VKF_TILE_MATRIX, /* of whole matrices */
  VKF_TILE_ROWS    /* tm alone, and bm with it */
} vkf_tile_kind;

typedef struct vkf_family {
  const char *name; /* as in names of kernels */
  vkf_device_class device;
  uint32_t place;     /* among the defaults of its op, the smaller the better; equal ones compete by their effort */
  const char *reason; /* why it is a default, as `vkformer kernels` prints it */

  /* The family's own conditions; NULL: none. As vkf_kern_fit(). */
  const char *(*fit)(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps, char *why, size_t size);
  /* Invocations, where the tile says how many; NULL: as the row says, or one subgroup. */
  uint32_t (*workgroup)(const vkf_variant *v);
  uint32_t (*shared_bytes)(const vkf_variant *v);
  /* Numbers that an invocation keeps at once, counted as the shader's arrays; NULL: few. */
  uint32_t (*registers)(const vkf_variant *v, const vkf_problem *p);
  /* Workgroups of a stage; g is {p->rows.rows, 1, 1} before. NULL: that. */
  void (*grid)(const vkf_variant *v, uint32_t stage, const vkf_problem *p, uint32_t g[3]);
  /* Of kernels with a second stage, see vkf_kern_split() and vkf_kern_scratch_bytes(). */
  uint32_t (*split)(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps);
  uint64_t (*scratch_bytes)(const vkf_variant *v, const vkf_problem *p);
  /* See vkf_kern_loop_turns(); combine_turns: of the second stage, where there is one. */
  uint64_t (*loop_turns)(const vkf_variant *v, const vkf_problem *p);
  uint64_t (*combine_turns)(const vkf_problem *p);
  /* Changes in *out what its sums do otherwise; NULL: a sum is one accumulator, and nothing is rounded before. */
  void (*rounding)(const vkf_variant *v, const vkf_problem *p, vkf_rounding *out);
  /* Work per useful element; NULL: 0 on devices with its subgroup size, 1 on others. */
  double (*effort)(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps);

  vkf_tile_kind tile;
  uint32_t max_tile; /* the largest tm, and tn of a gemm */
  uint32_t probed;   /* 1, 2, ...: its place among the candidates of vkf_kern_probe_candidates(); 0: it is none */
  uint32_t n_texels; /* operands that its texel kernels read through texel buffers */
  /* Of matmuls: the module that leaves x in scratch memory first, as the family's kernels read it, and the bytes that
   * VKF_Q8_BLOCK columns of a row take there. NULL: x is read as it is, or, where the weight is in q8, as rows of
   * float32 from the module quantise. */
  const char *round_x;
  uint32_t rounded_block_bytes;
} vkf_family;

/* ---- counting turns of loops ----------------------------------------------------------------------------------------
 *
 * Counted as gallivm does, which has one counter for all loops of an invocation: a turn is a pass through a loop's end.
 * A loop that tests at its top has one more than it does work, inner loops have theirs in every turn of the outer one,
 * and a loop behind a condition that does not hold is passed once. Loops marked [[unroll]] whose bounds are known when
 * the pipeline is made have none: Mesa unrolls those whatever they cost. Others may be unrolled, too, which only makes
 * it fewer. Invariant: no count falls when a size of the problem grows. op.ops and op.turns run kernels at their limit.
 */

/* A loop that tests at its top, of n turns with `inner` turns of other loops in each. */
static inline uint64_t vkf_turns_of(uint64_t n, uint64_t inner) {
  return n * (1 + inner) + 1;
}
/* Of n things, `at_once` a turn. */
static inline uint64_t vkf_turns_by(uint64_t n, uint64_t at_once) {
  return vkf_turns_of(VKF_CEIL_DIV(n, VKF_MAX(at_once, 1)), 0);
}

/* Ends a function of the kind of vkf_kern_fit() with the reason why a kernel does not fit. */
#define VKF_KERN_REFUSE(...)          \
  do {                                \
    snprintf(why, size, __VA_ARGS__); \
    return why;                       \
  } while (0)

/* The effort of kernels that are never the choice on a device. */
#define VKF_NO_EFFORT 1e30

#endif
