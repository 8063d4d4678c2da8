/* place: the memory plan of the temporaries.
 *
 * Greedy by size, first fit: the largest slot first, each at the lowest aligned offset that is free during its whole
 * life (Pisarchyk and Lee, Efficient memory management for deep neural net inference, 2020). A node's scratch memory
 * lives while the node runs, so it gets bytes that no slot of that node has. Invariant: two slots with overlapping
 * lives never share a byte, unless one takes over the bytes of the other, and no slot crosses a multiple of `most`.
 */
#include "op/plan.h"

#include <stdlib.h>

typedef struct life {
  uint32_t slot;        /* n_slots + node: that node's scratch */
  uint32_t first, last; /* nodes, both included */
  uint64_t bytes, offset;
} life;

static int larger_first(const void *a, const void *b) {
  const life *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->slot < y->slot ? -1 : 1;
}

static int lower_first(const void *a, const void *b) {
  const life *const *x = a, *const *y = b;
  return (*x)->offset < (*y)->offset ? -1 : (*x)->offset > (*y)->offset;
}

static void extend(life *l, uint32_t node) {
  if (node < l->first) l->first = node;
  if (node > l->last) l->last = node;
}

/* Finds the life of each slot; lives [n_slots]. A slot that no node touches lives for the whole plan, which is safe. */
static void find_lives(const vkf_plan *plan, bool keep_all, const vkf_placement *placements, life *lives) {
  for (uint32_t s = 0; s < plan->n_slots; s++) lives[s] = (life){.slot = s, .first = UINT32_MAX};
  for (uint32_t n = 0; n < plan->n_nodes; n++) {
    const vkf_node *node = &plan->nodes[n];
    for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) {
      if (node->in[i] != VKF_NO_SLOT) extend(&lives[node->in[i]], n);
    }
    for (uint32_t o = 0; o < VKF_MAX_OUTPUTS; o++) {
      if (node->out[o] != VKF_NO_SLOT) extend(&lives[node->out[o]], n);
    }
  }
  for (uint32_t s = plan->n_slots; s-- > 0;) { /* later slots first: a slot may take over one that did so itself */
    if (!placements[s].takes_over) continue;
    life *before = &lives[placements[s].takes_over - 1];
    extend(before, lives[s].first);
    extend(before, lives[s].last);
  }
  for (uint32_t s = 0; s < plan->n_slots; s++) {
    bool pinned = keep_all || placements[s].pinned || plan->slots[s].output;
    if (pinned || lives[s].first == UINT32_MAX) {
      lives[s].first = 0;
      lives[s].last = UINT32_MAX;
    }
  }
}

uint64_t vkf_place_whole(uint64_t offset, uint64_t bytes, uint64_t most) {
  return bytes > most - offset % most ? VKF_ROUND_UP(offset, most) : offset;
}

/* Places `l` among the n placed ones; busy [n] is scratch. False: offsets overflow. */
static bool place_one(life *l, uint64_t alignment, uint64_t most, life *placed, uint32_t n, const life **busy) {
  uint32_t n_busy = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (placed[i].first <= l->last && l->first <= placed[i].last) busy[n_busy++] = &placed[i];
  }
  qsort(busy, n_busy, sizeof(*busy), lower_first);
  l->offset = 0;
  for (uint32_t i = 0; i < n_busy; i++) {
    if (busy[i]->offset >= l->offset && busy[i]->offset - l->offset >= l->bytes) break;
    uint64_t end = busy[i]->offset + busy[i]->bytes;
    if (end > l->offset) l->offset = vkf_place_whole(VKF_ROUND_UP(end, alignment), l->bytes, most);
  }
  return l->offset <= UINT64_MAX / 4 && l->bytes <= UINT64_MAX / 4;
}

vkf_status vkf_plan_place(vkf_env *env, const vkf_plan *plan, bool keep_all, uint64_t most, vkf_placement *placements,
                          vkf_placement *scratch, uint64_t *pool_bytes) {
  vkf_status st = VKF_OK;
  uint32_t n = 0;
  *pool_bytes = 0;
  const uint32_t n_scratch = scratch ? plan->n_nodes : 0;
  life *lives = vkf_env_alloc(env, (size_t)plan->n_slots + n_scratch, sizeof(*lives));
  const life **busy = vkf_env_alloc(env, (size_t)plan->n_slots + n_scratch, sizeof(*busy));
  if (!lives || !busy) {
    st = VKF_ERROR_MEMORY;
    goto done;
  }
  find_lives(plan, keep_all, placements, lives);
  for (uint32_t s = 0; s < plan->n_slots; s++) {
    placements[s].offset = 0;
    if (plan->slots[s].kind != VKF_SLOT_TEMP || placements[s].bytes == 0 || placements[s].takes_over) continue;
    lives[n] = lives[s];
    lives[n++].bytes = placements[s].bytes;
  }
  for (uint32_t i = 0; i < n_scratch; i++) {
    scratch[i].offset = 0;
    if (scratch[i].bytes) lives[n++] = (life){plan->n_slots + i, i, i, scratch[i].bytes, 0};
  }
  qsort(lives, n, sizeof(*lives), larger_first);
  for (uint32_t i = 0; i < n; i++) {
    const bool is_slot = lives[i].slot < plan->n_slots;
    const uint32_t node = is_slot ? 0 : lives[i].slot - plan->n_slots;
    vkf_placement *p = is_slot ? &placements[lives[i].slot] : &scratch[node];
    if (!place_one(&lives[i], VKF_MAX(p->alignment, 1), most, lives, i, busy))
      VKF_FAIL(env, VKF_ERROR_DEVICE_MEMORY, "%s %s: the activations need more than 2^62 bytes",
               is_slot ? "slot" : "scratch of", is_slot ? plan->slots[lives[i].slot].name : plan->nodes[node].name);
    p->offset = lives[i].offset;
    *pool_bytes = VKF_MAX(*pool_bytes, p->offset + p->bytes);
  }
  for (uint32_t s = 0; s < plan->n_slots; s++)
    if (placements[s].takes_over) placements[s].offset = placements[placements[s].takes_over - 1].offset;
done:
  vkf_env_free(env, busy);
  vkf_env_free(env, lives);
  return st;
}
