/* plan_cache: the plans of a session with their programs, kept for later runs.
 *
 * A bucket is a set of rounded sizes, with one state (the caches of keys and values) and the programs that share it.
 * Buckets take turns with one memory, as large as the largest needs, for caches, inputs, intermediate values and
 * results. The plan cache owns the memory and all buckets but those of callers. Invariant: what a bucket has in the
 * memory is lost when another one is used. The least recently used bucket is freed first, never the one in use.
 */
#ifndef VKF_ENGINE_PLAN_CACHE_H
#define VKF_ENGINE_PLAN_CACHE_H

#include "engine/engine.h"

typedef struct vkf_bucket vkf_bucket;

/* The least sizes that a run needs. T, out and numbers of rows belong to a plan, not to the bucket. */
typedef struct vkf_need_sizes {
  uint32_t B, S, R, keys;
} vkf_need_sizes;

/* A plan and its program. */
typedef struct vkf_cached_plan {
  vkf_plan *plan;
  vkf_program *program;
  uint32_t slots[VKF_INPUT_COUNT]; /* of the inputs; VKF_NO_SLOT: the plan does not read it */
} vkf_cached_plan;

/* The plans of a session, and what they are made with. */
typedef struct vkf_plan_cache {
  vkf_env *env;
  vkf_backend *backend;
  vkf_net *net;
  vkf_weights *weights;
  vkf_bucket *buckets;    /* most recently used first */
  vkf_memory *memory;     /* NULL: every program has its own */
  uint64_t few_rows_read; /* parameters that steps of few rows have read on larger plans (steps.c) */
  bool keep_all;          /* every slot of every program stays readable, and begins as NaN (validation) */
} vkf_plan_cache;

/* What it holds on the device. */
typedef struct vkf_plan_cache_bytes {
  uint64_t caches, step, plans; /* keys and values; inputs, intermediate values and results; constants and sizes */
} vkf_plan_cache_bytes;

void vkf_engine_plan_cache_init(vkf_plan_cache *cache, vkf_env *env, vkf_backend *backend, vkf_net *net,
                                vkf_weights *weights);
void vkf_engine_plan_cache_finish(vkf_plan_cache *cache);

/* Finds or makes a bucket of at least these sizes, which are rounded so that there are few buckets. Valid until the
 * next call of this function. max_bytes: the most that keys and values of a new one may take; 0: no bound. */
vkf_status vkf_engine_bucket_get(vkf_plan_cache *cache, const vkf_need_sizes *need, uint64_t max_bytes,
                                 vkf_bucket **out);
/* Makes a bucket that the caller owns, of these sizes (keys may be one more, see stagger()). It is not freed for
 * others, and its caches have memory of their own. Destroy it before the plan cache; *bucket may be NULL. */
vkf_status vkf_engine_bucket_create(vkf_plan_cache *cache, const vkf_need_sizes *need, uint64_t max_bytes,
                                    vkf_bucket **out);
void vkf_engine_bucket_destroy(vkf_plan_cache *cache, vkf_bucket **bucket);
/* Returns what it holds on the device, without what is in the shared memory. */
vkf_plan_cache_bytes vkf_engine_bucket_bytes(const vkf_plan_cache *cache, const vkf_bucket *bucket);
/* Returns the sizes that it was made for, as they were rounded. */
vkf_need_sizes vkf_engine_bucket_sizes(const vkf_bucket *bucket);
/* Returns the capacity of a plan that runs all tokens of the target at once, `length` in the longest row. */
vkf_sizes vkf_engine_pass_capacity(const vkf_bucket *bucket, uint32_t length);
/* Finds or makes the plan of a request. Reads T, out, source_rows and target_rows of request->capacity, which the
 * caller has rounded up; the other sizes are the bucket's. */
vkf_status vkf_engine_plan_get(vkf_plan_cache *cache, vkf_bucket *bucket, const vkf_plan_request *request,
                               const vkf_cached_plan **out);
/* Returns whether the bucket has that plan and it has run. */
bool vkf_engine_plan_has_run(const vkf_plan_cache *cache, const vkf_bucket *bucket, const vkf_plan_request *request);
/* Rounds n up: rows to 1, 2, 4 .. 32 or a multiple of 32, lengths to 8, 16 or a multiple of 32. */
uint32_t vkf_engine_round_rows(uint32_t n);
uint32_t vkf_engine_round_length(uint32_t n);

/* Writes an input if the plan reads it. */
vkf_status vkf_engine_write_input(const vkf_plan_cache *cache, const vkf_cached_plan *cached, vkf_input input,
                                  const vkf_dims *dims, const void *data);
/* Runs all blocks. With keep_all, fills all temporaries with NaN before. */
vkf_status vkf_engine_run_plan(const vkf_plan_cache *cache, const vkf_cached_plan *cached, const vkf_dims *dims);
/* Returns the bytes of the memory and of its buckets, without those of callers. */
vkf_plan_cache_bytes vkf_engine_plan_cache_bytes(const vkf_plan_cache *cache);
/* Logs a line for each block at INFO level: how often it was recorded and submitted. */
void vkf_engine_plan_cache_report(const vkf_plan_cache *cache);

#endif
