/* plan_cache: see plan_cache.h. */
#include "engine/plan_cache.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BUCKETS = 32 };

typedef struct program_entry {
  struct program_entry *next;
  vkf_plan_request request;
  vkf_cached_plan cached;
} program_entry;

struct vkf_bucket {
  vkf_bucket *next;
  vkf_need_sizes sizes;
  vkf_state *state; /* NULL: the model is an encoder */
  bool is_own;      /* the state has memory of its own */
  program_entry *entries;
};

uint32_t vkf_engine_round_rows(uint32_t n) {
  uint32_t r = 1;
  if (n > 32) return VKF_ROUND_UP(n, 32);
  while (r < n) r *= 2;
  return r;
}

uint32_t vkf_engine_round_length(uint32_t n) {
  return n <= 8 ? 8 : n <= 16 ? 16 : VKF_ROUND_UP(n, 32);
}

void vkf_engine_plan_cache_init(vkf_plan_cache *p, vkf_env *env, vkf_backend *backend, vkf_net *net,
                                vkf_weights *weights) {
  *p = (vkf_plan_cache){.env = env, .backend = backend, .net = net, .weights = weights};
}

static void entry_destroy(vkf_plan_cache *p, program_entry **entry) {
  if (!*entry) return;
  if ((*entry)->cached.program) p->backend->table->program_destroy(&(*entry)->cached.program);
  vkf_model_plan_destroy(&(*entry)->cached.plan);
  vkf_env_free(p->env, *entry);
  *entry = NULL;
}

void vkf_engine_bucket_destroy(vkf_plan_cache *p, vkf_bucket **bucket) {
  vkf_bucket *c = *bucket;
  if (!c) return;
  while (c->entries) {
    program_entry *next = c->entries->next;
    entry_destroy(p, &c->entries);
    c->entries = next;
  }
  if (c->state) p->backend->table->state_destroy(&c->state);
  vkf_env_free(p->env, c);
  *bucket = NULL;
}

void vkf_engine_plan_cache_finish(vkf_plan_cache *p) {
  while (p->buckets) {
    vkf_bucket *next = p->buckets->next;
    vkf_engine_bucket_destroy(p, &p->buckets);
    p->buckets = next;
  }
  if (p->memory) p->backend->table->memory_destroy(&p->memory);
}

vkf_plan_cache_bytes vkf_engine_bucket_bytes(const vkf_plan_cache *p, const vkf_bucket *c) {
  vkf_plan_cache_bytes bytes = {.caches = c->state ? p->backend->table->state_bytes(c->state) : 0};
  for (const program_entry *e = c->entries; e; e = e->next)
    bytes.plans += p->backend->table->program_bytes(e->cached.program);
  return bytes;
}

/* Frees the least recently used buckets, so that there is room for one more. */
static void evict(vkf_plan_cache *p) {
  vkf_bucket **c = &p->buckets;
  for (uint32_t n = 1; *c && n < MOST_BUCKETS; n++) c = &(*c)->next;
  while (*c) {
    vkf_bucket *next = (*c)->next;
    vkf_engine_bucket_destroy(p, c);
    *c = next;
  }
}

/* Returns the bucket's sizes, with T, out and numbers of rows of `wanted`. */
static vkf_sizes plan_sizes(const vkf_bucket *c, vkf_sizes wanted) {
  wanted.T = VKF_MAX(wanted.T, 1);
  wanted.B = c->sizes.B;
  wanted.S = c->sizes.S;
  wanted.R = c->sizes.R;
  wanted.past = c->sizes.keys - wanted.T;
  return wanted;
}

/* Makes the bucket's caches, if the model has a decoder. n_keys: for messages. max_bytes 0: no bound. */
static vkf_status make_state(vkf_plan_cache *p, vkf_bucket *c, uint32_t n_keys, uint64_t max_bytes) {
  vkf_status st = VKF_OK;
  vkf_plan *plan = NULL;
  uint64_t bytes = 0;
  const vkf_plan_request request = {
      .stage = VKF_STAGE_DECODE, .capacity = plan_sizes(c, (vkf_sizes){.T = 1, .out = c->sizes.R}), .mask = true};
  if (vkf_model_net_info(p->net)->architecture == VKF_ARCHITECTURE_ENCODER) goto done;
  VKF_TRY(vkf_model_plan_build(p->net, p->env, &request, &plan));
  for (uint32_t i = 0; i < plan->n_slots; i++)
    if (plan->slots[i].kind == VKF_SLOT_STATE) bytes += vkf_slot_stored_bytes(&plan->slots[i]);
  if (max_bytes && bytes > max_bytes) {
    st = vkf_env_fail_too_large(p->env, VKF_ERROR_DEVICE_MEMORY,
                                "a cache of keys and values for %u slots of %u tokens: needed %llu bytes, given %llu; "
                                "fewer beams or slots, a smaller batch or fewer tokens need less",
                                c->sizes.R, n_keys, (unsigned long long)bytes, (unsigned long long)max_bytes);
    goto done;
  }
  VKF_TRY(p->backend->table->state_create(p->backend, plan, c->is_own ? NULL : p->memory, &c->state));
  if (p->keep_all) VKF_TRY(p->backend->table->state_poison(c->state));
  vkf_env_log(p->env, VKF_LOG_INFO, "keys and values of %u rows of %u tokens: %.3f MB", c->sizes.R, n_keys,
              (double)bytes / 1e6);
done:
  vkf_model_plan_destroy(&plan);
  return st;
}

/* Adds a key to a multiple of 16: else all heads would begin in one set of the processor's cache, and lanes that read
 * several heads would evict each other's lines (Zen 4, 128 heads of 64: 304 keys take 1677 us, 305 take 1237). */
static uint32_t stagger(uint32_t keys) {
  return keys + (keys % 16 == 0);
}

static vkf_need_sizes round_sizes(const vkf_plan_cache *p, const vkf_need_sizes *need) {
  vkf_need_sizes sizes = {vkf_engine_round_rows(need->B), vkf_engine_round_length(need->S), 0,
                          vkf_engine_round_length(need->keys)};
  const uint32_t max = vkf_model_net_info(p->net)->max_positions;
  if (max) { /* at most the model's positions, and the key that stagger() may add */
    sizes.S = VKF_MIN(sizes.S, max);
    sizes.keys = VKF_MIN(sizes.keys, max);
  }
  sizes.keys = stagger(sizes.keys);
  sizes.R = sizes.B * VKF_CEIL_DIV(need->R, VKF_MAX(need->B, 1));
  return sizes;
}

static vkf_status create(vkf_plan_cache *p, const vkf_need_sizes *need, uint64_t max_bytes, bool is_own,
                         vkf_bucket **out) {
  vkf_status st = VKF_OK;
  vkf_bucket *c = vkf_env_alloc(p->env, 1, sizeof *c);
  if (!c) VKF_TRY(VKF_ERROR_MEMORY);
  c->sizes = *need;
  c->sizes.keys = stagger(need->keys);
  c->is_own = is_own;
  if (!p->memory && !p->keep_all) VKF_TRY(p->backend->table->memory_create(p->backend, &p->memory));
  VKF_TRY(make_state(p, c, need->keys, max_bytes));
done:
  if (st) vkf_engine_bucket_destroy(p, &c);
  *out = c;
  return st;
}

vkf_status vkf_engine_bucket_create(vkf_plan_cache *p, const vkf_need_sizes *need, uint64_t max_bytes,
                                    vkf_bucket **out) {
  return create(p, need, max_bytes, true, out);
}

vkf_status vkf_engine_bucket_get(vkf_plan_cache *p, const vkf_need_sizes *need, uint64_t max_bytes, vkf_bucket **out) {
  vkf_bucket *c = NULL;
  const vkf_need_sizes sizes = round_sizes(p, need);
  *out = NULL;
  for (vkf_bucket **at = &p->buckets; *at; at = &(*at)->next) {
    if (memcmp(&(*at)->sizes, &sizes, sizeof sizes)) continue;
    c = *at;
    *at = c->next;
    break;
  }
  if (!c) {
    evict(p);
    VKF_CALL(create(p, &sizes, max_bytes, false, &c));
  }
  c->next = p->buckets;
  p->buckets = c;
  *out = c;
  return VKF_OK;
}

vkf_need_sizes vkf_engine_bucket_sizes(const vkf_bucket *bucket) {
  return bucket->sizes;
}

vkf_sizes vkf_engine_pass_capacity(const vkf_bucket *c, uint32_t length) {
  const uint32_t T = VKF_MIN(vkf_engine_round_length(length), c->sizes.keys);
  return (vkf_sizes){.T = T, .out = c->sizes.R * T};
}

static bool same_request(const vkf_plan_request *a, const vkf_plan_request *b) {
  return a->stage == b->stage && !memcmp(&a->capacity, &b->capacity, sizeof a->capacity) &&
         a->hidden_states == b->hidden_states && a->last_hidden_state == b->last_hidden_state &&
         a->layer_logits == b->layer_logits && a->attentions == b->attentions && a->projections == b->projections &&
         a->mask == b->mask && a->target_mask == b->target_mask && a->ancestry == b->ancestry &&
         a->gather_out == b->gather_out && a->logits == b->logits && a->short_head == b->short_head &&
         a->log_softmax == b->log_softmax && a->max_edits == b->max_edits && a->row_edits == b->row_edits &&
         a->renormalize == b->renormalize && a->top_k == b->top_k;
}

/* Returns *wanted with the bucket's sizes. */
static vkf_plan_request in_bucket(const vkf_bucket *c, const vkf_plan_request *wanted) {
  vkf_plan_request request = *wanted;
  request.capacity = plan_sizes(c, wanted->capacity);
  return request;
}

static program_entry *find(const vkf_bucket *c, const vkf_plan_request *request) {
  program_entry *e = c->entries;
  while (e && !same_request(&e->request, request)) e = e->next;
  return e;
}

bool vkf_engine_plan_has_run(const vkf_plan_cache *p, const vkf_bucket *c, const vkf_plan_request *wanted) {
  const vkf_plan_request request = in_bucket(c, wanted);
  const program_entry *e = find(c, &request);
  vkf_block_stats s = {0};
  if (e) p->backend->table->block_stats(e->cached.program, 0, &s);
  return s.n_records > 0;
}

vkf_status vkf_engine_plan_get(vkf_plan_cache *p, vkf_bucket *c, const vkf_plan_request *wanted,
                               const vkf_cached_plan **out) {
  vkf_status st = VKF_OK;
  const vkf_plan_request request = in_bucket(c, wanted);
  program_entry *e = find(c, &request);
  const vkf_program_options options = {
      .memory = p->memory,
      .keep_all = p->keep_all,
      .timing = p->env->log_level >= VKF_LOG_DEBUG ? VKF_TIMING_BLOCKS : VKF_TIMING_NONE};
  if (e) {
    *out = &e->cached;
    return VKF_OK;
  }
  e = vkf_env_alloc(p->env, 1, sizeof *e);
  if (!e) VKF_TRY(VKF_ERROR_MEMORY);
  e->request = request;
  VKF_TRY(vkf_model_plan_build(p->net, p->env, &request, &e->cached.plan));
  VKF_TRY(p->backend->table->program_create(p->backend, e->cached.plan, p->weights, c->state, &options,
                                            &e->cached.program));
  for (uint32_t i = 0; i < VKF_INPUT_COUNT; i++)
    e->cached.slots[i] = vkf_plan_find_index(e->cached.plan, VKF_SLOT_INPUT, i);
  e->next = c->entries;
  c->entries = e;
  *out = &e->cached;
  e = NULL;
done:
  if (e) entry_destroy(p, &e);
  return st;
}

vkf_status vkf_engine_write_input(const vkf_plan_cache *p, const vkf_cached_plan *cached, vkf_input input,
                                  const vkf_dims *dims, const void *data) {
  if (cached->slots[input] == VKF_NO_SLOT) return VKF_OK;
  return p->backend->table->write(cached->program, cached->slots[input], dims, data);
}

vkf_status vkf_engine_run_plan(const vkf_plan_cache *p, const vkf_cached_plan *cached, const vkf_dims *dims) {
  if (p->keep_all) VKF_CALL(p->backend->table->poison(cached->program));
  return p->backend->table->run(cached->program, dims, 0, cached->plan->n_blocks);
}

vkf_plan_cache_bytes vkf_engine_plan_cache_bytes(const vkf_plan_cache *p) {
  vkf_plan_cache_bytes all = {0};
  if (p->memory) p->backend->table->memory_bytes(p->memory, &all.caches, &all.step);
  for (const vkf_bucket *c = p->buckets; c; c = c->next) {
    const vkf_plan_cache_bytes own = vkf_engine_bucket_bytes(p, c);
    all.caches += own.caches;
    all.plans += own.plans;
  }
  return all;
}

void vkf_engine_plan_cache_report(const vkf_plan_cache *p) {
  if (p->env->log_level < VKF_LOG_INFO) return;
  for (const vkf_bucket *c = p->buckets; c; c = c->next)
    for (const program_entry *e = c->entries; e; e = e->next)
      for (uint32_t b = 0; b < e->cached.plan->n_blocks; b++) {
        vkf_block_stats s;
        char last[48] = "";
        p->backend->table->block_stats(e->cached.program, b, &s);
        if (!s.n_records) continue; /* it was planned, but never ran */
        if (s.ns) snprintf(last, sizeof last, ", last run %.3f ms", (double)s.ns / 1e6);
        vkf_env_log(p->env, VKF_LOG_INFO,
                    "%s B%u S%u R%u T%u: %s: %u dispatches (%u indirect), %u barriers, recorded %u, submitted %llu%s",
                    e->request.stage == VKF_STAGE_ENCODE ? "encode" : "decode", e->request.capacity.B,
                    e->request.capacity.S, e->request.capacity.R, e->request.capacity.T, s.name, s.n_dispatches,
                    s.n_indirect, s.n_barriers, s.n_records, (unsigned long long)s.n_submits, last);
      }
}
