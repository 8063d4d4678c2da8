/* What a GPU would take for a matmul with one of its kernels: a model of few numbers, to choose tiles by.
 *
 * Refuses to know names of devices. No GPU was measured: the numbers are what is publicly known of such devices
 * (docs/SPEED.md), and `vkformer tune` puts measured times before all of this. Invariant: a pure function.
 */
#include "kern/kern.h"

/* Cores (a unit with shared memory of its own) of a device that does not say how many it has. */
enum { CORES_OF_CARD = 48, CORES_OF_OTHER = 8 };
/* What a workgroup takes beside its products, in k of them: its start, the first slice that nothing hides, the end. */
#define START 64.0
/* Loads from shared memory and from elsewhere, of a number each, in multiply-adds; cooperative matrices multiply that
 * much faster than they are fed. */
#define SHARED_LOAD 1.0
#define FAR_LOAD 8.0
#define MATRIX_FACTOR 32.0
/* Multiply-adds in the time that a weight takes to come from memory, where few rows share it. */
#define ROWS_A_WEIGHT 8.0

double vkf_kern_gpu_effort(const vkf_variant *v, const vkf_problem *p, const vkf_caps *caps) {
  const double cores = caps->n_cores                       ? caps->n_cores
                       : caps->kind == VKF_DEVICE_DISCRETE ? CORES_OF_CARD
                                                           : CORES_OF_OTHER;
  const double bm = v->tile.bm, bn = v->tile.bn, tm = v->tile.tm, tn = v->tile.tn;
  uint32_t grid[3];
  vkf_kern_grid(v, 0, p, grid);
  const double groups = (double)grid[0] * grid[1] * grid[2];
  const double turns = (double)(uint64_t)((groups + cores - 1) / cores); /* of the core that has most to do */
  if (!v->slices && !v->matrix.m) return turns * bn * (p->k + START) * (1 + bm / ROWS_A_WEIGHT); /* "vector" */
  const double factor = v->matrix.m ? MATRIX_FACTOR : 1;
  const double product = 1 + factor * (SHARED_LOAD * (1 / tm + 1 / tn) + FAR_LOAD * (1 / bm + 1 / bn));
  return turns * bm * bn * product * (p->k + START);
}
