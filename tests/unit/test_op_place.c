/* The memory plan. In random plans, slots that live at the same time must not share a byte, and the scratch memory of a
 * node must not share one with a slot that lives at that node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "op/plan.h"

enum { SLOTS = 60, NODES = 40, MOST = 768000000, PIECE = 5376 }; /* multiples of all alignments */

typedef struct random_plan {
  vkf_plan plan;
  vkf_slot slots[SLOTS];
  vkf_node nodes[NODES];
  vkf_placement placements[SLOTS];
  vkf_placement scratch[NODES];
} random_plan;

static uint32_t pick(uint64_t seed, uint64_t what, uint64_t i, uint32_t n) {
  return (uint32_t)(vkf_rng_u64(seed, what, i) % n);
}

/* Nodes with an output and up to 3 inputs; the ops do not matter to the memory plan. */
static void make_plan(random_plan *p, uint64_t seed) {
  static const uint64_t alignments[] = {0, 1, 4, 48, 256};
  memset(p, 0, sizeof(*p));
  for (uint32_t s = 0; s < SLOTS; s++) {
    p->slots[s] = (vkf_slot){.name = "slot", .rank = 1};
    if (pick(seed, 1, s, 10) == 0) p->slots[s].kind = VKF_SLOT_INPUT;
    if (pick(seed, 2, s, 12) == 0) p->slots[s].output = "output";
    p->placements[s].bytes = pick(seed, 3, s, 8) == 0 ? 0 : 1 + pick(seed, 4, s, 5000);
    p->placements[s].alignment = alignments[pick(seed, 5, s, VKF_COUNT(alignments))];
    p->placements[s].pinned = pick(seed, 6, s, 15) == 0;
  }
  for (uint32_t n = 0; n < NODES; n++) {
    p->scratch[n].bytes = pick(seed, 20, n, 3) == 0 ? 1 + pick(seed, 21, n, 5000) : 0;
    p->scratch[n].alignment = alignments[pick(seed, 22, n, VKF_COUNT(alignments))];
    for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) {
      p->nodes[n].in[i] = i < 3 && pick(seed, 7 + i, n, 2) ? pick(seed, 10 + i, n, SLOTS) : VKF_NO_SLOT;
    }
    p->nodes[n].out[0] = n % SLOTS;
    for (int o = 1; o < VKF_MAX_OUTPUTS; o++) p->nodes[n].out[o] = VKF_NO_SLOT;
  }
  p->plan = (vkf_plan){.slots = p->slots, .n_slots = SLOTS, .nodes = p->nodes, .n_nodes = NODES};
}

static bool touches(const vkf_node *node, uint32_t slot) {
  for (uint32_t i = 0; i < VKF_MAX_INPUTS; i++) {
    if (node->in[i] == slot) return true;
  }
  return node->out[0] == slot || node->out[1] == slot;
}

/* Whether a slot is alive at a node: from the first node that touches it to the last; always, if it is pinned, an
 * output or untouched. */
static bool alive(const random_plan *p, uint32_t slot, uint32_t node, bool keep_all) {
  if (keep_all || p->placements[slot].pinned || p->slots[slot].output) return true;
  bool before = false, after = false, any = false;
  for (uint32_t n = 0; n < NODES; n++) {
    if (!touches(&p->nodes[n], slot)) continue;
    any = true;
    before = before || n <= node;
    after = after || n >= node;
  }
  return !any || (before && after);
}

static bool placed(const random_plan *p, uint32_t slot) {
  return p->slots[slot].kind == VKF_SLOT_TEMP && p->placements[slot].bytes > 0;
}

static void check_plan(const random_plan *p, bool keep_all, uint64_t most, uint64_t pool_bytes) {
  for (uint32_t a = 0; a < SLOTS; a++) {
    const vkf_placement *x = &p->placements[a];
    if (!placed(p, a)) continue;
    assert_true(x->offset + x->bytes <= pool_bytes);
    assert_int_equal(x->offset / most, (x->offset + x->bytes - 1) / most);
    assert_int_equal(x->offset % VKF_MAX(x->alignment, 1), 0);
    for (uint32_t b = 0; b < a; b++) {
      const vkf_placement *y = &p->placements[b];
      bool apart = x->offset + x->bytes <= y->offset || y->offset + y->bytes <= x->offset;
      if (apart || !placed(p, b)) continue;
      for (uint32_t n = 0; n < NODES; n++) assert_false(alive(p, a, n, keep_all) && alive(p, b, n, keep_all));
    }
  }
  for (uint32_t n = 0; n < NODES; n++) {
    const vkf_placement *x = &p->scratch[n];
    if (!x->bytes) continue;
    assert_true(x->offset + x->bytes <= pool_bytes);
    assert_int_equal(x->offset % VKF_MAX(x->alignment, 1), 0);
    for (uint32_t s = 0; s < SLOTS; s++) {
      const vkf_placement *y = &p->placements[s];
      bool apart = x->offset + x->bytes <= y->offset || y->offset + y->bytes <= x->offset;
      assert_true(apart || !placed(p, s) || !alive(p, s, n, keep_all));
    }
  }
}

static void lives_never_overlap_in_memory(void **state) {
  (void)state;
  static random_plan p;
  vkf_env env;
  vkf_env_init(&env, NULL);
  for (uint64_t seed = 0; seed < 100; seed++) {
    uint64_t shared_bytes, all_bytes, sum = 0;
    make_plan(&p, seed);
    assert_int_equal(vkf_plan_place(&env, &p.plan, false, MOST, p.placements, p.scratch, &shared_bytes), VKF_OK);
    check_plan(&p, false, MOST, shared_bytes);
    assert_int_equal(vkf_plan_place(&env, &p.plan, true, MOST, p.placements, p.scratch, &all_bytes), VKF_OK);
    check_plan(&p, true, MOST, all_bytes);
    for (uint32_t s = 0; s < SLOTS; s++) sum += placed(&p, s) ? p.placements[s].bytes : 0;
    assert_true(all_bytes >= sum);
    assert_true(shared_bytes < all_bytes);
    assert_int_equal(vkf_plan_place(&env, &p.plan, false, PIECE, p.placements, p.scratch, &shared_bytes), VKF_OK);
    check_plan(&p, false, PIECE, shared_bytes);
    assert_int_equal(vkf_plan_place(&env, &p.plan, true, PIECE, p.placements, p.scratch, &all_bytes), VKF_OK);
    check_plan(&p, true, PIECE, all_bytes);
  }
  assert_int_equal(env.live_bytes, 0);
}

/* Each node reads the result of the one before it. */
enum { CHAIN = 6 };
typedef struct chain {
  vkf_plan plan;
  vkf_slot slots[CHAIN];
  vkf_node nodes[CHAIN];
  vkf_placement placements[CHAIN]; /* of equal sizes */
} chain;

static void make_chain(chain *c) {
  for (uint32_t i = 0; i < CHAIN; i++) {
    c->slots[i] = (vkf_slot){.name = "x", .rank = 1};
    c->placements[i] = (vkf_placement){.bytes = 100, .alignment = 4};
    c->nodes[i] = (vkf_node){.out = {i, VKF_NO_SLOT, VKF_NO_SLOT}};
    for (uint32_t k = 0; k < VKF_MAX_INPUTS; k++) c->nodes[i].in[k] = VKF_NO_SLOT;
    if (i > 0) c->nodes[i].in[0] = i - 1;
  }
  c->plan = (vkf_plan){.slots = c->slots, .n_slots = CHAIN, .nodes = c->nodes, .n_nodes = CHAIN};
}

/* Two places are enough for a chain. */
static void a_chain_needs_two_places(void **state) {
  (void)state;
  vkf_env env;
  chain c;
  uint64_t bytes;
  vkf_env_init(&env, NULL);
  make_chain(&c);
  assert_int_equal(vkf_plan_place(&env, &c.plan, false, MOST, c.placements, NULL, &bytes), VKF_OK);
  assert_int_equal(bytes, 200);
  vkf_placement scratch[CHAIN] = {[2] = {.bytes = 70}, [4] = {.bytes = 70}}; /* two nodes get the same bytes */
  assert_int_equal(vkf_plan_place(&env, &c.plan, false, MOST, c.placements, scratch, &bytes), VKF_OK);
  assert_int_equal(bytes, 270);
  assert_int_equal(scratch[2].offset, scratch[4].offset);
  c.slots[0].output = "kept";
  assert_int_equal(vkf_plan_place(&env, &c.plan, false, MOST, c.placements, NULL, &bytes), VKF_OK);
  assert_int_equal(bytes, 300);
}

/* Slots 2 and 3 take over the bytes of the slot before them. They need none of their own, and slots 1 to 3 live as one,
 * from the first node of slot 1 to the last of slot 3. */
static void a_slot_takes_over_another(void **state) {
  (void)state;
  vkf_env env;
  chain c;
  uint64_t bytes;
  vkf_env_init(&env, NULL);
  make_chain(&c);
  c.placements[2].takes_over = 1 + 1;
  c.placements[3].takes_over = 1 + 2;
  c.nodes[5].in[1] = 3; /* so that slots 4 and 5 cannot have these bytes */
  assert_int_equal(vkf_plan_place(&env, &c.plan, false, MOST, c.placements, NULL, &bytes), VKF_OK);
  assert_int_equal(c.placements[2].offset, c.placements[1].offset);
  assert_int_equal(c.placements[3].offset, c.placements[1].offset);
  assert_true(c.placements[0].offset != c.placements[1].offset);
  assert_true(c.placements[4].offset != c.placements[1].offset);
  assert_true(c.placements[5].offset != c.placements[1].offset);
  assert_int_equal(bytes, 300);
}

/* Bytes that fill the rest of an allocation exactly stay there; with one byte more they go to the next. */
static void what_fits_exactly_stays(void **state) {
  (void)state;
  static const struct {
    uint64_t offset, bytes, expected;
  } rows[] = {{0, 100, 0}, {60, 40, 60}, {60, 41, 100}, {160, 40, 160}, {160, 41, 200}, {100, 100, 100}, {99, 1, 99}};
  for (size_t i = 0; i < VKF_COUNT(rows); i++)
    assert_int_equal(vkf_place_whole(rows[i].offset, rows[i].bytes, 100), rows[i].expected);
}

/* A slot of 2^62 bytes is refused, so that offsets stay far from 2^64. */
static void too_much_is_refused(void **state) {
  (void)state;
  static random_plan p;
  vkf_env env;
  uint64_t bytes;
  vkf_env_init(&env, NULL);
  for (uint64_t more = 0; more < 2; more++) {
    make_plan(&p, 1);
    for (uint32_t s = 0; s < SLOTS; s++) p.placements[s].bytes = 0;
    p.placements[SLOTS - 1] = (vkf_placement){.bytes = UINT64_MAX / 4 + more};
    p.slots[SLOTS - 1].kind = VKF_SLOT_TEMP;
    const vkf_status st = vkf_plan_place(&env, &p.plan, false, UINT64_MAX / 4 + 1, p.placements, NULL, &bytes);
    assert_int_equal(st, more ? VKF_ERROR_DEVICE_MEMORY : VKF_OK);
    if (more) assert_non_null(strstr(env.message, "slot slot: the activations need more than 2^62 bytes"));
  }
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  static random_plan p;
  uint64_t bytes;
  make_plan(&p, 1);
  for (uint64_t at = 1; at <= 2; at++) {
    vkf_env env;
    vkf_env_init(&env, NULL);
    env.fail_at = at;
    assert_int_equal(vkf_plan_place(&env, &p.plan, false, MOST, p.placements, p.scratch, &bytes), VKF_ERROR_MEMORY);
    assert_int_equal(env.live_bytes, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lives_never_overlap_in_memory), cmocka_unit_test(a_chain_needs_two_places),
      cmocka_unit_test(a_slot_takes_over_another),     cmocka_unit_test(what_fits_exactly_stays),
      cmocka_unit_test(too_much_is_refused),           cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
