/* bench_verify: compares the results of a kernel's run with the scalar path.
 *
 * Every element of a small result is compared. For a large one the scalar path would take minutes, so it computes rows
 * spread all over it; other rows are only checked for NaN, with which the memory was filled before.
 */
#include <math.h>

#include "lab/bench.h"
#include "ref/walk.h"

/* Returns how many rows are compared: all, or as many as take a moment. */
static uint32_t n_compared(double flops, uint32_t n_rows) {
  const double MOMENT = 1 << 26, LEAST = 8; /* flops, rows */
  return (uint32_t)VKF_MIN(VKF_MAX(MOMENT * n_rows / VKF_MAX(flops, 1.0), LEAST), (double)n_rows);
}

/* Chooses n of n_rows rows, ascending: one from each of n equal parts, among them the first and the last row. The part
 * with `wanted` gives that row. */
static void choose_rows(uint32_t n_rows, uint32_t wanted, uint32_t n, uint32_t *rows) {
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t from = (uint32_t)((uint64_t)i * n_rows / n), end = (uint32_t)((uint64_t)(i + 1) * n_rows / n);
    rows[i] = i == 0 ? 0 : i + 1 == n ? n_rows - 1 : from + (uint32_t)(vkf_hash_step(i, 1) % (end - from));
    if (wanted >= from && wanted < end) rows[i] = wanted;
  }
}

/* Finds a row with a NaN or an infinity: that is poison, because a benchmark's data give neither. UINT32_MAX: all rows
 * were written. Adds the contents of the slots to *hash. */
static uint32_t find_unwritten(const vkf_walk *walk, vkf_dim dim, uint64_t *hash) {
  uint32_t row = UINT32_MAX;
  for (uint32_t s = 0; s < walk->plan->n_slots; s++) {
    const vkf_slot *slot = &walk->plan->slots[s];
    const uint64_t n = vkf_slot_elements(slot);
    if (slot->kind != VKF_SLOT_TEMP) continue;
    *hash = vkf_hash_words(*hash, walk->bases[s], n * vkf_dtype_bytes(slot->dtype));
    const float *at = slot->dtype == VKF_F32 && slot->extent[0].dim == dim ? walk->bases[s] : NULL;
    for (uint64_t i = 0; at && i < n && row == UINT32_MAX; i++)
      if (!isfinite(at[i])) row = (uint32_t)(i / (n / slot->extent[0].cap));
  }
  return row;
}

vkf_status vkf_lab_bench_compare(vkf_backend *backend, const vkf_case_run *run, vkf_program *program,
                                 vkf_lab_seen *seen, vkf_bench_row *row) {
  const bool is_attention = run->plan.nodes[0].op == VKF_OP_ATTENTION;
  const vkf_dim dim = is_attention ? VKF_DIM_RT : VKF_DIM_R;
  const uint32_t n_rows = run->dims.v[dim], n = n_compared(row->flops, n_rows);
  vkf_status st = VKF_OK;
  vkf_walk walk = {0};
  vkf_sizes sizes = run->plan.capacity;
  uint64_t hash = 1;
  *(is_attention ? &sizes.T : &sizes.R) = n;
  const vkf_dims few = vkf_dims_make(&sizes);
  uint32_t *rows = vkf_env_alloc(backend->env, n, sizeof *rows);
  if (!rows) return VKF_ERROR_MEMORY;
  VKF_TRY(vkf_ref_walk_init(&walk, backend->env, backend, &run->plan, program, &run->dims, &run->weights));
  choose_rows(n_rows, find_unwritten(&walk, dim, &hash), n, rows);
  if (seen->any && hash == seen->hash) goto done;
  VKF_TRY(vkf_ref_walk_keep_rows(&walk, dim, rows, &few));
  for (uint32_t i = 0; i < run->plan.n_nodes; i++) {
    vkf_comparison j = {0};
    VKF_TRY(vkf_ref_walk_node(&walk, i, &j));
    if (seen->any && j.ratio <= row->ratio) continue; /* NaN is worse than any */
    *seen = (vkf_lab_seen){.any = true, .hash = hash};
    row->ratio = j.ratio;
    VKF_TRY(vkf_ref_walk_worst(&walk, i, &j, &row->worst));
  }
done:
  vkf_ref_walk_finish(&walk);
  vkf_env_free(backend->env, rows);
  return st;
}
