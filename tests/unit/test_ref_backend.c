/* The backend "ref": a decoder's attention over caches, what crosses the seam, and allocations that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ref/ref.h"

enum { R = 2, LENGTH = 6, H = 2, K = 4, D = H * K };

/* ids > embed (3 D wide: q, k, v) > append to the caches > causal attention, for T new tokens. */
typedef struct decoder {
  vkf_plan plan;
  vkf_slot slots[8];
  vkf_node nodes[3];
  vkf_block blocks[2];
} decoder;
enum { IDS, TABLE, QKV, CACHE_K, CACHE_V, OUT };

static void make_decoder(decoder *d, uint32_t tokens) {
  memset(d, 0, sizeof(*d));
  const uint32_t keys = LENGTH + 2;
  vkf_extent rows = {VKF_DIM_RT, R * tokens}, seqs = {VKF_DIM_R, R}, cache = {VKF_DIM_KEYS, keys};
  d->slots[IDS] =
      (vkf_slot){"ids", VKF_SLOT_INPUT, VKF_I32, 1, {rows}, VKF_INPUT_TARGET_IDS, NULL, NULL, VKF_FORMAT_F32};
  d->slots[TABLE] = (vkf_slot){"table", VKF_SLOT_WEIGHT, VKF_F32, 2, {{VKF_DIM_ONE, 9}, {VKF_DIM_ONE, 3 * D}}, 0, NULL,
                               NULL,    VKF_FORMAT_F32};
  d->slots[QKV] =
      (vkf_slot){"qkv", VKF_SLOT_TEMP, VKF_F32, 2, {rows, {VKF_DIM_ONE, 3 * D}}, 0, NULL, NULL, VKF_FORMAT_F32};
  for (uint32_t i = 0; i < 2; i++) {
    d->slots[CACHE_K + i] = (vkf_slot){
        i ? "v" : "k", VKF_SLOT_STATE, VKF_F32,       4, {seqs, {VKF_DIM_ONE, H}, cache, {VKF_DIM_ONE, K}}, i,
        NULL,          NULL,           VKF_FORMAT_F32};
  }
  d->slots[OUT] =
      (vkf_slot){"out", VKF_SLOT_TEMP, VKF_F32, 2, {rows, {VKF_DIM_ONE, D}}, 0, NULL, "out", VKF_FORMAT_F32};
  for (int n = 0; n < 3; n++) {
    for (int i = 0; i < VKF_MAX_INPUTS; i++) d->nodes[n].in[i] = VKF_NO_SLOT;
    for (int o = 1; o < VKF_MAX_OUTPUTS; o++) d->nodes[n].out[o] = VKF_NO_SLOT;
  }
  d->nodes[0].op = VKF_OP_EMBED;
  d->nodes[0].name = "embed";
  d->nodes[0].params.embed = (vkf_embed_params){.rows = VKF_DIM_RT, .width = 3 * D, .n_ids = 9, .scale = 1};
  d->nodes[0].in[VKF_EMBED_IDS] = IDS;
  d->nodes[0].in[VKF_EMBED_TABLE] = TABLE;
  d->nodes[0].out[0] = QKV;
  d->nodes[1].op = VKF_OP_APPEND;
  d->nodes[1].name = "append";
  d->nodes[1].params.append = (vkf_append_params){.seqs = VKF_DIM_R,
                                                  .tokens = VKF_DIM_T,
                                                  .past = VKF_DIM_PAST,
                                                  .n_heads = H,
                                                  .key_width = K,
                                                  .value_width = K,
                                                  .k_column = D,
                                                  .v_column = 2 * D};
  d->nodes[1].in[VKF_APPEND_X] = QKV;
  d->nodes[1].out[VKF_APPEND_K] = CACHE_K;
  d->nodes[1].out[VKF_APPEND_V] = CACHE_V;
  d->nodes[2].op = VKF_OP_ATTENTION;
  d->nodes[2].name = "attention";
  d->nodes[2].params.attention = (vkf_attention_params){.seqs = VKF_DIM_R,
                                                        .queries = VKF_DIM_T,
                                                        .keys = VKF_DIM_KEYS,
                                                        .past = VKF_DIM_PAST,
                                                        .shared = VKF_DIM_ONE,
                                                        .n_heads = H,
                                                        .n_kv_heads = H,
                                                        .key_width = K,
                                                        .value_width = K,
                                                        .causal = true,
                                                        .scale = 0.5f};
  d->nodes[2].in[VKF_ATTENTION_Q] = QKV;
  d->nodes[2].in[VKF_ATTENTION_K] = CACHE_K;
  d->nodes[2].in[VKF_ATTENTION_V] = CACHE_V;
  d->nodes[2].out[0] = OUT;
  d->blocks[0] = (vkf_block){"embed", 0, 1, 0};
  d->blocks[1] = (vkf_block){"decoder.0", 1, 2, 0};
  d->plan = (vkf_plan){d->slots, 6, d->nodes, 3, d->blocks, 2, {.B = R, .R = R, .T = tokens, .past = LENGTH - tokens}};
}

static void load(void *user, uint32_t index, uint32_t first, uint32_t n, float *dst) {
  (void)user;
  for (uint64_t i = 0; i < n * 3 * D; i++) dst[i] = (float)vkf_rng_normal(1, index, first * 3 * D + i);
}

static const vkf_weight_info infos[] = {{"table", 2, {9, 3 * D}, VKF_WEIGHT_TABLE, VKF_FORMAT_F32}};
static const vkf_weight_source source = {.n_weights = 1, .infos = infos, .load = load};
static const int32_t tokens[R][LENGTH] = {{0, 4, 8, 2, 2, 7}, {5, 1, 3, 3, 6, 0}};

/* Decodes all tokens, `step` at a time, into out [R][LENGTH][D]. */
static vkf_status decode(vkf_env *env, uint32_t step, float out[R][LENGTH][D]) {
  decoder d;
  vkf_backend *backend = NULL;
  vkf_weights *weights = NULL;
  vkf_state *cache = NULL;
  vkf_program *program = NULL;
  vkf_status st = VKF_OK;
  make_decoder(&d, step);
  VKF_TRY(vkf_plan_check(env, &d.plan));
  VKF_TRY(vkf_ref_backend_create(env, &backend));
  VKF_TRY(backend->table->weights_create(backend, &source, NULL, &weights));
  VKF_TRY(backend->table->state_create(backend, &d.plan, NULL, &cache));
  VKF_TRY(backend->table->program_create(backend, &d.plan, weights, cache, NULL, &program));
  for (uint32_t past = 0; past < LENGTH; past += step) {
    int32_t ids[R * LENGTH];
    float got[R * LENGTH * D];
    vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = R, .R = R, .T = step, .past = past});
    for (uint32_t i = 0; i < R * step; i++) ids[i] = tokens[i / step][past + i % step];
    VKF_TRY(backend->table->write(program, IDS, &dims, ids));
    VKF_TRY(backend->table->poison(program));
    VKF_TRY(backend->table->run(program, &dims, 0, 2));
    VKF_TRY(backend->table->read(program, OUT, &dims, got));
    for (uint32_t i = 0; i < R * step; i++) {
      memcpy(out[i / step][past + i % step], got + i * D, D * sizeof(float));
    }
  }
done:
  if (backend) {
    backend->table->program_destroy(&program);
    backend->table->state_destroy(&cache);
    backend->table->weights_destroy(&weights);
    backend->table->destroy(&backend);
  }
  return st;
}

/* Cached steps give the same bits as one masked pass over all tokens. */
static void cached_steps_equal_the_full_pass(void **state) {
  (void)state;
  vkf_env env;
  float full[R][LENGTH][D], cached[R][LENGTH][D], pairs[R][LENGTH][D];
  vkf_env_init(&env, NULL);
  assert_int_equal(decode(&env, LENGTH, full), VKF_OK);
  assert_int_equal(decode(&env, 1, cached), VKF_OK);
  assert_int_equal(decode(&env, 2, pairs), VKF_OK);
  assert_memory_equal(full, cached, sizeof(full));
  assert_memory_equal(full, pairs, sizeof(full));
  assert_memory_not_equal(full[0][1], full[0][2], sizeof(full[0][0]));
  assert_int_equal(env.live_bytes, 0);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  vkf_env env;
  float out[R][LENGTH][D];
  vkf_env_init(&env, NULL);
  assert_int_equal(decode(&env, 3, out), VKF_OK);
  uint64_t n = env.n_allocations;
  assert_true(n > 10);
  for (uint64_t at = 1; at <= n; at++) {
    vkf_env_init(&env, NULL);
    env.fail_at = at;
    assert_int_equal(decode(&env, 3, out), VKF_ERROR_MEMORY);
    assert_int_equal(env.live_bytes, 0);
  }
}

/* Caches have capacity strides: write() takes them at capacity, read() gives the actual sizes without gaps. */
static void what_crosses_the_seam(void **state) {
  (void)state;
  vkf_env env;
  decoder d;
  vkf_backend *backend;
  vkf_weights *weights;
  vkf_state *cache, *empty = NULL;
  vkf_program *program, *refused;
  float written[R][H][LENGTH + 2][K], read[R * H * 3 * K];
  vkf_env_init(&env, NULL);
  make_decoder(&d, 1);
  assert_int_equal(vkf_ref_backend_create(&env, &backend), VKF_OK);
  const vkf_backend_table *t = backend->table;
  assert_int_equal(t->weights_create(backend, &source, NULL, &weights), VKF_OK);
  assert_int_equal(t->weights_bytes(weights), 9 * 3 * D * 4);
  assert_int_equal(t->state_create(backend, &d.plan, NULL, &cache), VKF_OK);
  assert_int_equal(t->program_create(backend, &d.plan, weights, cache, NULL, &program), VKF_OK);
  for (size_t i = 0; i < sizeof(written) / 4; i++) (&written[0][0][0][0])[i] = (float)i;
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = R, .R = R, .T = 1, .past = 2});
  assert_int_equal(t->write(program, CACHE_K, &dims, written), VKF_OK);
  assert_int_equal(t->read(program, CACHE_K, &dims, read), VKF_OK);
  for (int i = 0; i < R * H * 3 * K; i++) {
    assert_true(read[i] == written[i / (H * 3 * K)][i / (3 * K) % H][i / K % 3][i % K]);
  }
  vkf_block_stats stats;
  t->block_stats(program, 1, &stats);
  assert_string_equal(stats.name, "decoder.0");
  assert_int_equal(stats.n_dispatches, 2);
  assert_int_equal(t->write(program, TABLE, &dims, written), VKF_ERROR_ARGUMENT);
  assert_string_equal(env.message, "slot table cannot be written");
  vkf_env_clear(&env);
  vkf_dims far = vkf_dims_make(&(vkf_sizes){.B = R, .R = R, .T = 1, .past = 9});
  assert_int_equal(t->run(program, &far, 0, 2), VKF_ERROR_ARGUMENT);
  assert_string_equal(env.message, "node append, slot k: extent 2 is 10, over its capacity of 8");
  vkf_env_clear(&env);
  assert_int_equal(t->program_create(backend, &d.plan, weights, empty, NULL, &refused), VKF_ERROR_ARGUMENT);
  assert_string_equal(env.message, "slot k: the state has no cache 0");
  assert_null(refused);
  vkf_env_clear(&env);
  const vkf_program_options forced = {.variant = "matmul-lane"};
  assert_int_equal(t->program_create(backend, &d.plan, weights, cache, &forced, &refused), VKF_ERROR_ARGUMENT);
  assert_string_equal(env.message, "the scalar path has the one variant \"ref\", found \"matmul-lane\"");
  t->program_destroy(&program);
  t->state_destroy(&cache);
  t->weights_destroy(&weights);
  t->destroy(&backend);
  assert_int_equal(env.live_bytes, 0);
}

/* write() reads at capacity strides, but nothing beyond the actual sizes: the caller's data may end there. */
static void data_may_end_with_the_sizes(void **state) {
  (void)state;
  enum { ROWS = 3, WIDTH = 8 };
  vkf_env env;
  decoder d;
  vkf_backend *backend = NULL;
  vkf_state *cache = NULL;
  vkf_weights *weights = NULL;
  vkf_program *program = NULL;
  int32_t zeros[ROWS * WIDTH] = {0}, data[ROWS * WIDTH], got[ROWS * WIDTH];
  const vkf_dims all = vkf_dims_make(&(vkf_sizes){.B = R, .R = ROWS, .T = 1, .past = WIDTH - 1}),
                 few = vkf_dims_make(&(vkf_sizes){.B = R, .R = 2, .T = 1, .past = 4}); /* 2 rows of 5 keys */
  vkf_env_init(&env, NULL);
  make_decoder(&d, 1);
  d.slots[6] = (vkf_slot){.name = "mask",
                          .kind = VKF_SLOT_INPUT,
                          .dtype = VKF_I32,
                          .rank = 2,
                          .extent = {{VKF_DIM_R, ROWS}, {VKF_DIM_KEYS, WIDTH}},
                          .index = VKF_INPUT_MASK};
  d.plan.n_slots = 7;
  assert_int_equal(vkf_ref_backend_create(&env, &backend), VKF_OK);
  assert_int_equal(backend->table->weights_create(backend, &source, NULL, &weights), VKF_OK);
  assert_int_equal(backend->table->state_create(backend, &d.plan, NULL, &cache), VKF_OK);
  assert_int_equal(backend->table->program_create(backend, &d.plan, weights, cache, NULL, &program), VKF_OK);
  for (int i = 0; i < ROWS * WIDTH; i++) data[i] = i + 1;
  assert_int_equal(backend->table->write(program, 6, &all, zeros), VKF_OK);
  assert_int_equal(backend->table->write(program, 6, &few, data), VKF_OK);
  assert_int_equal(backend->table->read(program, 6, &all, got), VKF_OK);
  for (int i = 0; i < ROWS * WIDTH; i++) assert_int_equal(got[i], i / WIDTH < 2 && i % WIDTH < 5 ? i + 1 : 0);
  backend->table->program_destroy(&program);
  backend->table->state_destroy(&cache);
  backend->table->weights_destroy(&weights);
  backend->table->destroy(&backend);
  assert_int_equal(env.live_bytes, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cached_steps_equal_the_full_pass),
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(what_crosses_the_seam),
      cmocka_unit_test(data_may_end_with_the_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
