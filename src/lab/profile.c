/* profile: sums the time of every node that a device runs.
 *
 * Owns the sums and, if requested, the single runs. It watches runs through the backend's observer, and changes nothing
 * but that nodes are timed. Invariant: a row has copies of its strings, because plans and programs may be destroyed
 * before it.
 */
#include <pthread.h>
#include <string.h>
#include <vkformer/lab.h>

#include "engine/engine.h"

enum { MAX_EVENTS = 1 << 20, N_HEADS = 1 << 10 };

typedef struct row {
  struct row *next_of_hash, *next; /* next: in the order of the first runs */
  vkf_profile_row sums;
} row;

typedef struct event {
  const row *row;
  double begin_ns, ns, flops, bytes;
} event;

typedef struct vkf_profile {
  vkf_env *env;
  vkf_backend *backend;
  vkf_observer observer;
  pthread_mutex_t lock; /* sessions of several threads may run on the device */
  vkf_arena arena;
  row *heads[N_HEADS], *first, **last;
  bool keep_events;
  event *events;
  size_t n_events, events_capacity;
  uint64_t begin_ns; /* start of the first run: its end minus its time */
} vkf_profile;

/* Finds the row of a node; makes it at the node's first run. */
static vkf_status get_row(vkf_profile *p, const vkf_profile_row *key, row **out) {
  const uint64_t hash =
      vkf_hash_text(vkf_hash_text(vkf_hash_text(VKF_HASH_START, key->block), key->node), key->variant);
  row **head = &p->heads[hash % N_HEADS];
  for (row *r = *head; r; r = r->next_of_hash) {
    if (strcmp(r->sums.block, key->block) || strcmp(r->sums.node, key->node) || strcmp(r->sums.variant, key->variant))
      continue;
    *out = r;
    return VKF_OK;
  }
  row *r = vkf_arena_alloc(&p->arena, 1, sizeof *r);
  if (!r) return VKF_ERROR_MEMORY;
  r->sums = *key;
  r->sums.block = vkf_arena_strdup(&p->arena, key->block);
  r->sums.node = vkf_arena_strdup(&p->arena, key->node);
  r->sums.variant = vkf_arena_strdup(&p->arena, key->variant);
  if (!r->sums.block || !r->sums.node || !r->sums.variant) return VKF_ERROR_MEMORY;
  r->next_of_hash = *head;
  *head = r;
  *p->last = r;
  p->last = &r->next;
  *out = r;
  return VKF_OK;
}

static vkf_status add_event(vkf_profile *p, const event *e) {
  if (!p->keep_events || p->n_events == MAX_EVENTS) return VKF_OK;
  event *events = vkf_env_grow(p->env, p->events, &p->events_capacity, p->n_events + 1, sizeof *events);
  if (!events) return VKF_ERROR_MEMORY;
  p->events = events;
  p->events[p->n_events++] = *e;
  return VKF_OK;
}

static vkf_status add_node(vkf_profile *p, vkf_program *program, const vkf_plan *plan, const vkf_dims *dims,
                           uint32_t block, uint32_t node, double *at_ns) {
  uint64_t ns = 0;
  row *r = NULL;
  vkf_cost cost = vkf_op_cost(plan, &plan->nodes[node], dims);
  const vkf_profile_row key = {.size = sizeof key,
                               .block = plan->blocks[block].name,
                               .node = plan->nodes[node].name,
                               .op = vkf_op_name(plan->nodes[node].op),
                               .variant = p->backend->table->node_variant(program, node, NULL),
                               .clock = p->backend->table->node_time(program, node, &ns)};
  VKF_CALL(get_row(p, &key, &r));
  r->sums.n_runs++;
  r->sums.ns += (double)ns;
  r->sums.flops += cost.flops;
  r->sums.bytes += cost.bytes;
  VKF_CALL(add_event(p, &(event){r, *at_ns, (double)ns, cost.flops, cost.bytes}));
  *at_ns += (double)ns;
  return VKF_OK;
}

static vkf_status add_run(vkf_profile *p, vkf_program *program, const vkf_plan *plan, const vkf_dims *dims,
                          uint32_t first, uint32_t n) {
  uint64_t now = vkf_clock_ns(), sum = 0;
  for (uint32_t b = first; b < first + n; b++)
    for (uint32_t i = 0; i < plan->blocks[b].n_nodes; i++) {
      uint64_t ns = 0;
      p->backend->table->node_time(program, plan->blocks[b].first_node + i, &ns);
      sum += ns;
    }
  if (!p->begin_ns) p->begin_ns = now - VKF_MIN(sum, now);
  double at = (double)(now - p->begin_ns) - (double)sum;
  for (uint32_t b = first; b < first + n; b++)
    for (uint32_t i = 0; i < plan->blocks[b].n_nodes; i++)
      VKF_CALL(add_node(p, program, plan, dims, b, plan->blocks[b].first_node + i, &at));
  return VKF_OK;
}

static vkf_status on_run(void *user, vkf_program *program, const vkf_plan *plan, const vkf_dims *dims, uint32_t first,
                         uint32_t n) {
  vkf_profile *p = user;
  pthread_mutex_lock(&p->lock);
  const vkf_status st = add_run(p, program, plan, dims, first, n);
  pthread_mutex_unlock(&p->lock);
  return st;
}

/* Ends the profile when the device closes. */
static void end(void *user) {
  vkf_profile *p = user;
  p->backend->observer = NULL;
  pthread_mutex_destroy(&p->lock);
  vkf_arena_finish(&p->arena);
  vkf_env_free(p->env, p->events);
  vkf_env_free(p->env, p);
}

/* Returns the device's profile; NULL: it has none. */
static vkf_profile *profile_of(const vkf_device *dev) {
  const vkf_observer *o = dev->backend->observer;
  return o && o->on_run == on_run ? o->user : NULL;
}

vkf_status vkf_device_profile_begin(vkf_device *dev, bool keep_events) {
  if (!dev) return VKF_ERROR_ARGUMENT;
  vkf_env *env = &dev->ctx->env;
  if (vkf_env_refuses(env, "vkf_device_profile_begin")) return VKF_ERROR_ARGUMENT;
  vkf_env_clear(env);
  if (profile_of(dev)) return vkf_env_fail(env, VKF_ERROR_ARGUMENT, "expected a device that is not profiled yet");
  vkf_profile *p = vkf_env_alloc(env, 1, sizeof *p);
  if (!p) return VKF_ERROR_MEMORY;
  p->env = env;
  p->backend = dev->backend;
  p->keep_events = keep_events;
  p->last = &p->first;
  p->observer = (vkf_observer){.on_run = on_run, .end = end, .user = p, .timing = VKF_TIMING_NODES};
  pthread_mutex_init(&p->lock, NULL);
  vkf_arena_init(&p->arena, env);
  dev->backend->observer = &p->observer;
  return VKF_OK;
}

void vkf_device_profile_read(const vkf_device *dev, vkf_profile_fn on_row, vkf_profile_event_fn on_event, void *user) {
  if (!dev || !on_row) return;
  const vkf_profile *p = profile_of(dev);
  if (!p) return;
  for (const row *r = p->first; r; r = r->next) VKF_CALLBACK(p->env, on_row(user, &r->sums));
  for (size_t i = 0; i < p->n_events && on_event; i++) {
    const event *e = &p->events[i];
    const vkf_profile_event told = {sizeof told, &e->row->sums, e->begin_ns, e->ns, e->flops, e->bytes};
    VKF_CALLBACK(p->env, on_event(user, &told));
  }
}
