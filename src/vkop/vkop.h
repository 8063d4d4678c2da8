/* vkop: the Vulkan backend. Each node of a plan becomes a dispatch of a kernel variant.
 *
 * Owns packed weights, places of slots, recorded blocks. It does not know what a model is.
 * Invariant: a run writes the step buffer and the grids and records nothing, unless the memory that programs share was
 * replaced, or a kernel could not compute its node and another one took over.
 */
#ifndef VKF_VKOP_VKOP_H
#define VKF_VKOP_VKOP_H

#include "gpu/gpu.h"
#include "kern/kern.h"

/* The device is the caller's and must outlive the backend. */
vkf_status vkf_vkop_backend_create(vkf_gpu_device *device, bool batch_invariant, vkf_backend **out);
/* Sets the tuned times for weights and programs that are created from now on; NULL: none. They must outlive the backend
 * or be replaced. */
void vkf_vkop_backend_tune(vkf_backend *backend, const vkf_tuned *tuned);
/* Gives the problem of a node at these sizes, with its weight in plain rows. */
void vkf_vkop_node_problem(const vkf_plan *plan, const vkf_node *node, const vkf_dims *dims, vkf_problem *out);

/* Adds a variant that can be forced on this backend by its computed name; the table is searched first. row: copied.
 * words: the kernel instead of the row's module; they must outlive the backend; NULL: the module. */
vkf_status vkf_vkop_backend_add(vkf_backend *backend, const vkf_variant *row, const uint32_t *words, size_t n_words);
/* Finds a variant by its computed name, in the table or among those added; NULL if there is none. */
const vkf_variant *vkf_vkop_find_variant(const vkf_backend *backend, const char *name);

/* Returns the number of a node's stages: dispatches one after the other, for each shard of its weight. */
uint32_t vkf_vkop_stages(const vkf_program *program, uint32_t node);
/* Returns which of them is the variant's own kernel, not one that prepares its inputs or combines its sums. */
uint32_t vkf_vkop_own_stage(const vkf_program *program, uint32_t node);
/* Gives what the driver reports about the kernel of a node's stage, in memory of `arena`. The program must have been
 * made with `statistics`. */
vkf_status vkf_vkop_statistics(const vkf_program *program, uint32_t node, uint32_t stage, vkf_arena *arena,
                               vkf_bench_statistic **out, size_t *n);

#endif
