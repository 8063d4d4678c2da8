/* programs: the plans of an open model, made ready for capacities and kept.
 *
 * A capacity is a set of rounded sizes with one state (the caches) and the programs that share it. Owns all of them.
 * Invariant: the bytes kept stay under a bound; the least recently used capacity goes first, never the one in use.
 */
#ifndef VKF_ENGINE_PROGRAMS_H
#define VKF_ENGINE_PROGRAMS_H

#include "engine/engine.h"

typedef struct vkf_capacity vkf_capacity;

/* Sizes that a run needs at least. T and out belong to a program, not to the capacity. */
typedef struct vkf_need_sizes {
  uint32_t B, S, R, keys;
} vkf_need_sizes;

/* A program and the plan that it runs. */
typedef struct vkf_ready {
  vkf_plan *plan;
  vkf_program *program;
  uint32_t slots[VKF_INPUT_COUNT]; /* of the inputs; VKF_NO_SLOT: the plan does not read it */
} vkf_ready;

/* What an open model keeps. */
typedef struct vkf_programs {
  vkf_env *env;
  vkf_backend *backend;
  vkf_net *net;
  vkf_weights *weights;
  vkf_capacity *capacities; /* most recently used first */
  uint64_t max_bytes;
  bool keep_all; /* every slot of every program stays readable (validation) */
} vkf_programs;

void vkf_engine_programs_init(vkf_programs *programs, vkf_env *env, vkf_backend *backend, vkf_net *net,
                              vkf_weights *weights);
void vkf_engine_programs_finish(vkf_programs *programs);

/* A capacity of at least these sizes, rounded up to a few. Valid until the next call of this function. */
vkf_status vkf_engine_capacity_get(vkf_programs *programs, const vkf_need_sizes *need, vkf_capacity **out);
/* The sizes that it was made for. */
vkf_need_sizes vkf_engine_capacity_sizes(const vkf_capacity *capacity);
/* The program of a request, of which capacity.T and capacity.out are used (rounded up by the caller's needs) and the
 * other sizes are the capacity's. */
vkf_status vkf_engine_program_get(vkf_programs *programs, vkf_capacity *capacity, const vkf_plan_request *request,
                                  const vkf_ready **out);
/* The largest of 1, 2, 4 .. 32, then multiples of 32, that holds n: rows. Lengths: 8, 16, 32, then multiples of 32. */
uint32_t vkf_engine_round_rows(uint32_t n);
uint32_t vkf_engine_round_length(uint32_t n);

/* Writes an input where the plan reads it; nothing where it does not. */
vkf_status vkf_engine_write_input(const vkf_programs *programs, const vkf_ready *ready, vkf_input input,
                                  const vkf_dims *dims, const void *data);
/* Runs all blocks. */
vkf_status vkf_engine_run_ready(const vkf_programs *programs, const vkf_ready *ready, const vkf_dims *dims);
/* What the capacity that was used last holds on the device; 0: none was. */
uint64_t vkf_engine_programs_bytes(const vkf_programs *programs);
/* A line a block at INFO level: how often it was recorded and submitted. */
void vkf_engine_programs_report(const vkf_programs *programs);

#endif
