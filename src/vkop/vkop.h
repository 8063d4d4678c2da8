/* vkop: the Vulkan backend. Each node of a plan becomes a dispatch of a kernel variant.
 *
 * Owns packed weights, places of slots, recorded blocks. Refuses to know what a model is.
 * Invariant: a run writes the step buffer and the grids and records nothing, unless the memory that programs share was
 * replaced, or a kernel gave its node to another one.
 */
#ifndef VKF_VKOP_VKOP_H
#define VKF_VKOP_VKOP_H

#include "gpu/gpu.h"
#include "kern/kern.h"

/* The device is the caller's and must outlive the backend. */
vkf_status vkf_vkop_backend_create(vkf_gpu_device *device, bool batch_invariant, vkf_backend **out);
/* What weights and programs that are created from now on go by; outlives the backend or is replaced. NULL: none. */
void vkf_vkop_backend_tune(vkf_backend *backend, const vkf_tuned *tuned);
/* What a node asks of a kernel at these sizes; a weight as plain rows. */
void vkf_vkop_node_problem(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims, vkf_problem *out);

/* One more variant that can be forced on this backend, by its computed name, until the backend goes; the table is
 * looked at first. row: copied. words: the kernel instead of the row's module, the caller's as long as the
 * backend; NULL: the module. */
vkf_status vkf_vkop_backend_add(vkf_backend *backend, const vkf_variant *row, const uint32_t *words, size_t n_words);
/* By computed name, of the table or added; NULL if there is none. */
const vkf_variant *vkf_vkop_find_variant(const vkf_backend *backend, const char *name);

/* Dispatches of a node, one after the other. */
uint32_t vkf_vkop_stages(const vkf_program *program, uint32_t node);
/* Which of them is the variant's own kernel, not one that prepares its inputs or combines its sums. */
uint32_t vkf_vkop_own_stage(const vkf_program *program, uint32_t node);
/* What the driver tells about a stage's kernel of a node of a program that was made with `statistics`; in memory of
 * `arena`. */
vkf_status vkf_vkop_statistics(const vkf_program *program, uint32_t node, uint32_t stage, vkf_arena *arena,
                               vkf_bench_statistic **out, size_t *n);

#endif
