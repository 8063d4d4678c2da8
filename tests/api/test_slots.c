/* Slots: however a sequence is fed, its logits have the bits of one forward pass, also after a slot was truncated,
 * copied, saved or restored. Ids that do not fit and saved slots of other models are refused and change nothing.
 */
#include <math.h>
#include <unistd.h>

#include "engine/slots_internal.h"
#include "gpu/vk.h"
#include "support/driver.h"
#include "support/range.h"
#include "vkop/internal.h"

#define SHIPPED VKF_SOURCE_DIR "/models/en-es"
#define MARIAN VKF_SOURCE_DIR "/tests/golden/marian"
#define LLAMA VKF_SOURCE_DIR "/tests/golden/llama"
enum { N = 23, N_SLOTS = 3 };

typedef struct bench {
  driver *d;
  vkf_model *model;
  vkf_session *session;
  bool has_encoder;
  uint32_t vocab;
  int32_t ids[N], source[4];
  float *expected; /* [N][vocab]: of one forward pass */
} bench;

static void ok(const bench *b, vkf_status status) {
  if (status) fail_msg("%s: %s", vkf_status_name(status), vkf_session_message(b->session));
}

static void refused(const bench *b, vkf_status status, vkf_status wanted, const char *words) {
  if (status != wanted || !strstr(vkf_session_message(b->session), words))
    fail_msg("expected '%s', found %s: %s", words, vkf_status_name(status), vkf_session_message(b->session));
}

static void open_bench(bench *b, driver *d, const char *folder) {
  *b = (bench){.d = d, .source = {5, 6, 7, 1}};
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_result *result = NULL;
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = N_SLOTS, .slot_tokens = N + 9,
                                     .source_tokens = 6};
  driver_ok(d, vkf_model_open(d->device, folder, &b->model));
  driver_ok(d, vkf_model_get_info(b->model, &info));
  driver_ok(d, vkf_session_create(b->model, &params, &b->session));
  /* The test counts submits. On a busy machine a device seems slow, and long runs would be cut into several. */
  if (b->session->gpu) ((vkop_backend *)b->session->backend)->submit_ns = 1e30;
  b->has_encoder = info.architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  for (int i = 0; i < N; i++) b->ids[i] = 3 + i * 7 % 50;
  const vkf_array inputs[] = {
      {"input_ids", VKF_I32, 2, {1, b->has_encoder ? 4 : N}, b->has_encoder ? b->source : b->ids},
      {"decoder_input_ids", VKF_I32, 2, {1, N}, b->ids}};
  ok(b, vkf_session_run(b->session, inputs, b->has_encoder ? 2 : 1, NULL, &result));
  size_t n = 0;
  const float *logits = vkf_result_f32(result, "logits", &n);
  b->vocab = (uint32_t)(n / N);
  b->expected = malloc(n * sizeof(float));
  assert_non_null(b->expected);
  memcpy(b->expected, logits, n * sizeof(float));
  vkf_result_destroy(&result);
}

static void close_bench(bench *b) {
  free(b->expected);
  vkf_session_destroy(&b->session);
  vkf_model_close(&b->model);
}

static void begin(const bench *b, size_t slot) {
  if (b->has_encoder) ok(b, vkf_session_encode(b->session, slot, b->source, 4));
}

/* Checks that the slot's logits are those of ids [first, first + n). */
static void expect(const bench *b, size_t slot, size_t first, size_t n, const char *what) {
  size_t found = 0;
  const float *logits = vkf_session_logits(b->session, slot, &found);
  if (found != n) fail_msg("%s: expected %zu rows of logits, found %zu", what, n, found);
  if (n && memcmp(logits, b->expected + first * b->vocab, n * b->vocab * sizeof(float)) != 0)
    fail_msg("%s: the logits of ids %zu to %zu are others than those of a forward pass", what, first, first + n - 1);
}

/* Feeds ids [first, end) and checks the logits of the last one. */
static void feed(const bench *b, size_t slot, size_t first, size_t end) {
  ok(b, vkf_session_feed(b->session, slot, b->ids + first, end - first, 1));
  ok(b, vkf_session_step(b->session));
  expect(b, slot, end - 1, 1, "fed");
}

static const char *const folders[] = {LLAMA, SHIPPED};

/* On a software driver a GPU's kernels take half a second for each submit with the large vocabulary. */
static bool is_slow(const char *folder) {
  return getenv("VKF_TEST_LIMITS") && strcmp(folder, LLAMA) != 0;
}

static void fed_in_any_way(void **state) {
  for (size_t f = 0; f < VKF_COUNT(folders); f++) {
    bench b;
    open_bench(&b, *state, folders[f]);
    for (size_t slot = 0; slot < N_SLOTS; slot++) begin(&b, slot);
    const size_t at_once = is_slow(folders[f]) ? 5 : 1;
    for (size_t i = 0; i < N; i += at_once) feed(&b, 0, i, VKF_MIN(i + at_once, (size_t)N));
    ok(&b, vkf_session_feed(b.session, 1, b.ids, 5, 0)); /* a prompt in pieces, all logits of the last one */
    ok(&b, vkf_session_step(b.session));
    expect(&b, 1, 0, 0, "without logits");
    ok(&b, vkf_session_feed(b.session, 1, b.ids + 5, 2, 1));
    ok(&b, vkf_session_feed(b.session, 1, b.ids + 7, N - 7, N - 7));
    ok(&b, vkf_session_feed(b.session, 2, b.ids, 11, 1)); /* two slots in one step */
    ok(&b, vkf_session_step(b.session));
    expect(&b, 1, 7, N - 7, "in pieces");
    expect(&b, 2, 10, 1, "beside another slot");
    size_t n = 0;
    assert_memory_equal(vkf_session_ids(b.session, 1, &n), b.ids, sizeof b.ids);
    assert_int_equal(n, N);
    ok(&b, vkf_session_step(b.session)); /* nothing to do */
    expect(&b, 2, 10, 1, "after a step without work");
    vkf_session_info info = {VKF_SESSION_INFO_INIT};
    ok(&b, vkf_session_get_info(b.session, &info));
    assert_true(((driver *)*state)->device->gpu == NULL || info.slots_bytes > 0);
    close_bench(&b);
  }
}

/* One step has prompts, parts of prompts and single ids of slots of different lengths. It is one submit, or several
 * if few rows fit into one; these may end among the ids of a slot. On a pretended GPU only the small model runs with
 * submits of one row and of three. */
static void side_by_side(void **state) {
  static const uint32_t most_rows[] = {0, 7, 3, 1}; /* 0: the session's own limit */
  for (size_t i = 0; i < VKF_COUNT(folders) * VKF_COUNT(most_rows); i++) {
    static const size_t ends[][N_SLOTS] = {{5, 0, 11}, {6, 0, 12}, {7, 14, 13}, {19, 15, 14}, {20, N, N}, {N, N, N}};
    bench b;
    size_t first[N_SLOTS] = {0};
    const uint32_t most = most_rows[i / VKF_COUNT(folders)];
    const char *folder = folders[i % VKF_COUNT(folders)];
    if (is_slow(folder) && (most == 1 || most == 3)) continue;
    open_bench(&b, *state, folder);
    if (most) b.session->slots->steps.most_rows = most;
    for (size_t slot = 0; slot < N_SLOTS; slot++) begin(&b, slot);
    if (b.has_encoder) ok(&b, vkf_session_encode(b.session, 1, b.ids + 9, 6)); /* another source than the others' */
    for (size_t step = 0; step < VKF_COUNT(ends); step++) {
      size_t n_ids = 0;
      if (step == 2) begin(&b, 1);
      const size_t wanted = step % 3; /* none, the last one, all */
      for (size_t slot = 0; slot < N_SLOTS; slot++) {
        const size_t n = ends[step][slot] - first[slot];
        n_ids += n;
        if (n) ok(&b, vkf_session_feed(b.session, slot, b.ids + first[slot], n, wanted == 2 ? n : wanted));
      }
      const uint64_t submitted = b.session->gpu ? b.session->gpu->submitted : 0;
      ok(&b, vkf_session_step(b.session));
      if (b.session->gpu) { /* if memory cannot be mapped, up to 2 more submits copy the constants of new plans */
        const uint64_t n = most ? (n_ids + most - 1) / most : 1;
        assert_between(b.session->gpu->submitted - submitted, n,
                       vkf_gpu_device_caps(b.session->gpu)->host_visible ? n : n + 2);
      }
      for (size_t slot = 0; slot < N_SLOTS; slot++) {
        const size_t n = ends[step][slot] - first[slot], n_out = wanted == 2 ? n : wanted;
        if (n) expect(&b, slot, ends[step][slot] - n_out, n_out, "side by side");
        first[slot] = ends[step][slot];
      }
    }
    close_bench(&b);
  }
}

static void truncated_and_copied(void **state) {
  for (size_t f = 0; f < VKF_COUNT(folders); f++) {
    bench b;
    static const int32_t other[] = {9, 8, 7, 6, 5, 4};
    open_bench(&b, *state, folders[f]);
    begin(&b, 0);
    feed(&b, 0, 0, 12);
    ok(&b, vkf_session_feed(b.session, 0, other, 6, 1)); /* other ids, truncated below */
    ok(&b, vkf_session_step(b.session));
    ok(&b, vkf_session_feed(b.session, 0, other, 3, 1)); /* not even run */
    ok(&b, vkf_session_truncate(b.session, 0, 12));
    expect(&b, 0, 0, 0, "truncated");
    feed(&b, 0, 12, 17);
    ok(&b, vkf_session_copy(b.session, 0, 2, 9)); /* a prefix, with the source */
    feed(&b, 2, 9, N);
    feed(&b, 0, 17, N); /* the original continues */
    ok(&b, vkf_session_truncate(b.session, 2, 0));
    feed(&b, 2, 0, 3);
    ok(&b, vkf_session_copy(b.session, 0, 2, 0));
    feed(&b, 2, 0, 3);
    close_bench(&b);
  }
}

/* Updates the checksum in the n bytes of a saved slot. */
static void stamp(char *bytes, size_t n) {
  uint64_t checksum = 0;
  memcpy(bytes + 8, &checksum, sizeof checksum);
  checksum = vkf_hash_bytes(vkf_hash_bytes(VKF_HASH_START, bytes, 56), bytes + 56, n - 56);
  memcpy(bytes + 8, &checksum, sizeof checksum);
}

static void saved_and_restored(void **state) {
  for (size_t f = 0; f < VKF_COUNT(folders); f++) {
    bench b;
    vkf_result *saved = NULL, *empty = NULL, *again = NULL;
    vkf_session *other = NULL;
    open_bench(&b, *state, folders[f]);
    begin(&b, 0);
    feed(&b, 0, 0, 13);
    ok(&b, vkf_session_save(b.session, 0, &saved));
    const vkf_array *bytes = vkf_result_find(saved, "bytes");
    ok(&b, vkf_session_save(b.session, 1, &empty));
    ok(&b, vkf_session_restore(b.session, 2, bytes->data, bytes->shape[0]));
    feed(&b, 2, 13, N);
    const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 1, .slot_tokens = N, .source_tokens = 4};
    vkf_session *first = b.session;
    driver_ok(*state, vkf_session_create(b.model, &params, &other)); /* its caches have another size */
    b.session = other;
    ok(&b, vkf_session_restore(b.session, 0, bytes->data, bytes->shape[0]));
    ok(&b, vkf_session_save(b.session, 0, &again));
    const vkf_array *second = vkf_result_find(again, "bytes");
    assert_int_equal(second->shape[0], bytes->shape[0]);
    assert_memory_equal(second->data, bytes->data, bytes->shape[0]);
    feed(&b, 0, 13, N);
    const vkf_array *none = vkf_result_find(empty, "bytes");
    ok(&b, vkf_session_restore(b.session, 0, none->data, none->shape[0]));
    assert_null(vkf_session_ids(b.session, 0, NULL));
    for (size_t at = 56; at <= 56 + 4 * (b.has_encoder ? 13 : 0); at += 4 * 13) { /* its first id, that of its source */
      static const int32_t far = 1 << 30;
      char *changed = bytes->data;
      memcpy(changed + at, &far, sizeof far);
      stamp(changed, bytes->shape[0]);
      refused(&b, vkf_session_restore(b.session, 0, changed, bytes->shape[0]), VKF_ERROR_ARGUMENT,
              at > 56 ? "source[0,0] is 1073741824" : "ids[0,0] is 1073741824");
      memcpy(changed + at, b.ids, sizeof far);
    }
    vkf_session_destroy(&b.session);
    b.session = first;
    vkf_result_destroy(&saved);
    vkf_result_destroy(&empty);
    vkf_result_destroy(&again);
    close_bench(&b);
  }
}

/* A file outlives the session and the model that it was saved from. */
static void saved_in_a_file(void **state) {
  for (size_t f = 0; f < VKF_COUNT(folders); f++) {
    bench b;
    vkf_result *saved = NULL, *read = NULL;
    char path[] = "/tmp/vkf_slot_XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    open_bench(&b, *state, folders[f]);
    begin(&b, 0);
    feed(&b, 0, 0, 13);
    ok(&b, vkf_session_save(b.session, 0, &saved));
    const vkf_array *bytes = vkf_result_find(saved, "bytes");
    driver_ok(b.d, vkf_bytes_write(b.d->context, path, bytes->data, bytes->shape[0]));
    vkf_result_destroy(&saved);
    close_bench(&b);
    open_bench(&b, *state, folders[f]);
    driver_ok(b.d, vkf_bytes_read(b.d->context, path, &read));
    bytes = vkf_result_find(read, "bytes");
    ok(&b, vkf_session_restore(b.session, 1, bytes->data, bytes->shape[0]));
    feed(&b, 1, 13, N);
    vkf_result_destroy(&read);
    close_bench(&b);
    unlink(path);
  }
}

/* A saved slot is refused if any byte or the length is changed, or if it belongs to another model or format. */
static void what_does_not_belong(void **state) {
  bench b, of_another;
  vkf_result *saved = NULL;
  vkf_model *half = NULL;
  open_bench(&b, *state, LLAMA);
  open_bench(&of_another, *state, VKF_SOURCE_DIR "/tests/golden/gpt2");
  feed(&b, 0, 0, 3);
  ok(&b, vkf_session_save(b.session, 0, &saved));
  const vkf_array *a = vkf_result_find(saved, "bytes");
  const size_t n = a->shape[0];
  char *bytes = malloc(n + 4);
  assert_non_null(bytes);
  memcpy(bytes, a->data, n);
  for (size_t i = 0; i < n; i += i < 80 ? 1 : n / 50 + 1) {
    bytes[i] ^= 0x40;
    const vkf_status st = vkf_session_restore(b.session, 1, bytes, n);
    if (st != VKF_ERROR_FORMAT) fail_msg("byte %zu: %s", i, vkf_status_name(st));
    bytes[i] ^= 0x40;
  }
  for (size_t length = 0; length < n + 4; length += length < 80 ? 1 : n / 50 + 1)
    if (length != n) refused(&b, vkf_session_restore(b.session, 1, bytes, length), VKF_ERROR_FORMAT, "a saved slot");
  refused(&b, vkf_session_restore(b.session, 1, NULL, 0), VKF_ERROR_FORMAT, "found 0");
  assert_null(vkf_session_ids(b.session, 1, NULL));
  refused(&of_another, vkf_session_restore(of_another.session, 0, bytes, n), VKF_ERROR_ARGUMENT, "one of this model");
  const vkf_model_params f16 = {VKF_MODEL_PARAMS_INIT, .kv_cache = VKF_STORAGE_F16},
                         q8 = {VKF_MODEL_PARAMS_INIT, .weights = VKF_STORAGE_Q8};
  const vkf_session_params one = {VKF_SESSION_PARAMS_INIT, .n_slots = 1, .slot_tokens = 8},
                           tiny = {VKF_SESSION_PARAMS_INIT, .n_slots = 1, .slot_tokens = 2};
  bench c = b;
  const bool is_cpu = !b.d->device->gpu || vkf_gpu_device_caps(b.d->device->gpu)->is_cpu;
  driver_ok(*state, vkf_model_open_with(b.d->device, LLAMA, &f16, &half));
  driver_ok(*state, vkf_session_create(half, &one, &c.session));
  refused(&c, vkf_session_restore(c.session, 0, bytes, n), VKF_ERROR_ARGUMENT,
          is_cpu ? "a cache f16, found f32 and f32" : "a cache f16, found auto and f32");
  vkf_session_destroy(&c.session);
  vkf_model_close(&half);
  driver_ok(*state, vkf_model_open_with(b.d->device, LLAMA, &q8, &half));
  driver_ok(*state, vkf_session_create(half, &one, &c.session));
  refused(&c, vkf_session_restore(c.session, 0, bytes, n), VKF_ERROR_ARGUMENT,
          is_cpu ? "weights q8 and a cache f32, found f32" : "weights q8 and a cache f16, found auto");
  vkf_session_destroy(&c.session);
  vkf_model_close(&half);
  driver_ok(*state, vkf_session_create(b.model, &tiny, &c.session));
  refused(&c, vkf_session_restore(c.session, 0, bytes, n), VKF_ERROR_ARGUMENT, "at most 2 ids");
  vkf_session_destroy(&c.session);
  /* a source id in bytes with a right checksum, although this model has no encoder */
  uint64_t n_ids, n_source = 1;
  memcpy(&n_ids, bytes + 32, sizeof n_ids);
  memmove(bytes + 56 + 4 * n_ids + 4, bytes + 56 + 4 * n_ids, n - 56 - 4 * n_ids);
  memcpy(bytes + 40, &n_source, sizeof n_source);
  stamp(bytes, n + 4);
  refused(&b, vkf_session_restore(b.session, 1, bytes, n + 4), VKF_ERROR_ARGUMENT, "0 of a source, found 3 and 1");
  memcpy(bytes, a->data, n);
  ok(&b, vkf_session_restore(b.session, 1, bytes, n)); /* the bytes are good */
  feed(&b, 1, 3, 9);
  free(bytes);
  vkf_result_destroy(&saved);
  close_bench(&of_another);
  close_bench(&b);
}

/* A saved slot can be restored with the same files, also if config.json has other white space, but not with another
 * number in config.json or in the middle of the weights. */
static void other_files_do_not_belong(void **state) {
  static const char theta[] = "{\"rope_theta\": 500.0,";
  bench b;
  vkf_result *saved = NULL, *config = NULL, *weights = NULL;
  open_bench(&b, *state, LLAMA);
  feed(&b, 0, 0, 3);
  ok(&b, vkf_session_save(b.session, 0, &saved));
  const vkf_array *bytes = vkf_result_find(saved, "bytes");
  driver_ok(*state, vkf_bytes_read(b.d->context, LLAMA "/config.json", &config));
  driver_ok(*state, vkf_bytes_read(b.d->context, LLAMA "/model.safetensors", &weights));
  const vkf_array *text = vkf_result_find(config, "bytes"), *numbers = vkf_result_find(weights, "bytes");
  for (int way = 0; way < 3; way++) {
    char *json = calloc(text->shape[0] + sizeof theta, 1), *data = malloc(numbers->shape[0]);
    assert_true(json && data);
    snprintf(json, text->shape[0] + sizeof theta, "%s%.*s", way == 1 ? theta : "  {", (int)text->shape[0] - 1,
             (const char *)text->data + 1);
    memcpy(data, numbers->data, numbers->shape[0]);
    data[numbers->shape[0] / 2] ^= way == 2;
    const vkf_memory_file files[] = {{"config.json", json, strlen(json)},
                                     {"model.safetensors", data, numbers->shape[0]}};
    const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 1, .slot_tokens = 8};
    bench other = b;
    driver_ok(*state, vkf_model_open_memory(b.d->device, files, 2, NULL, &other.model));
    driver_ok(*state, vkf_session_create(other.model, &params, &other.session));
    const vkf_status st = vkf_session_restore(other.session, 0, bytes->data, bytes->shape[0]);
    if (way > 0)
      refused(&other, st, VKF_ERROR_ARGUMENT, "one of this model");
    else
      ok(&other, st);
    vkf_session_destroy(&other.session);
    vkf_model_close(&other.model);
    free(data);
    free(json);
  }
  vkf_result_destroy(&weights);
  vkf_result_destroy(&config);
  vkf_result_destroy(&saved);
  close_bench(&b);
}

/* Returns the numbers of a tensor in the bytes of a safetensors file. */
static float *numbers_of(char *bytes, const char *name) {
  uint64_t header = 0;
  size_t begin = 0;
  memcpy(&header, bytes, sizeof header);
  const char *at = strstr(bytes + sizeof header, name);
  at = at ? strstr(at, "data_offsets") : NULL;
  if (!at || sscanf(at, "data_offsets\":[%zu", &begin) != 1) fail_msg("expected a tensor %s, found none", name);
  return (float *)(void *)(bytes + sizeof header + header + begin);
}

/* A bias of minus infinity means that the id never comes; it is no error. Every other number that is not finite is one.
 */
static void an_id_may_never_come(void **state) {
  enum { BARRED = 7 };
  static const struct {
    const char *tensor;
    float number;
    const char *says; /* NULL: no error */
  } rows[] = {{"final_logits_bias", -INFINITY, NULL},
              {"final_logits_bias", INFINITY, "logits: expected finite numbers, found inf"},
              {"final_logits_bias", NAN, "logits: expected finite numbers, found nan"},
              {"model.encoder.layers.1.final_layer_norm.bias", INFINITY,
               "encoder_last_hidden_state: expected finite numbers, found inf"}};
  bench b;
  vkf_result *config = NULL, *weights = NULL;
  open_bench(&b, *state, MARIAN);
  driver_ok(*state, vkf_bytes_read(b.d->context, MARIAN "/config.json", &config));
  driver_ok(*state, vkf_bytes_read(b.d->context, MARIAN "/model.safetensors", &weights));
  const vkf_array *text = vkf_result_find(config, "bytes"), *numbers = vkf_result_find(weights, "bytes");
  const vkf_memory_file files[] = {{"config.json", text->data, text->shape[0]},
                                   {"model.safetensors", numbers->data, numbers->shape[0]}};
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 1, .slot_tokens = N, .source_tokens = 6};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {1, 4}, b.source},
                                {"decoder_input_ids", VKF_I32, 2, {1, N}, b.ids}};
    bench other = b;
    vkf_result *result = NULL;
    float *number = numbers_of(numbers->data, rows[i].tensor) + BARRED, before = *number;
    *number = rows[i].number;
    driver_ok(*state, vkf_model_open_memory(b.d->device, files, 2, NULL, &other.model));
    driver_ok(*state, vkf_session_create(other.model, &params, &other.session));
    const vkf_status ran = vkf_session_run(other.session, inputs, 2, NULL, &result);
    if (rows[i].says)
      refused(&other, ran, VKF_ERROR_NUMERIC, rows[i].says);
    else
      ok(&other, ran);
    begin(&other, 0);
    ok(&other, vkf_session_feed(other.session, 0, b.ids, N, N));
    const vkf_status stepped = vkf_session_step(other.session);
    if (i > 0)
      refused(&other, stepped, VKF_ERROR_NUMERIC, "logits of id 0: expected finite numbers");
    else
      ok(&other, stepped);
    for (size_t row = 0; i == 0 && row < N; row++) b.expected[row * b.vocab + BARRED] = -INFINITY;
    if (i == 0) {
      assert_memory_equal(vkf_result_f32(result, "logits", NULL), b.expected, N * b.vocab * sizeof(float));
      expect(&other, 0, 0, N, "with an id that never comes");
    }
    vkf_result_destroy(&result);
    vkf_session_destroy(&other.session);
    vkf_model_close(&other.model);
    *number = before;
  }
  vkf_result_destroy(&weights);
  vkf_result_destroy(&config);
  close_bench(&b);
}

/* A session with more slots than a grid may have workgroups is refused. The scalar path has no grids. */
static void too_many_slots(void **state) {
  driver *d = *state;
  vkf_model *model = NULL;
  vkf_session *session = NULL;
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 70000, .slot_tokens = 1};
  const bool fits = !d->device->gpu || vkf_gpu_device_caps(d->device->gpu)->max_workgroup_count[0] >= params.n_slots;
  driver_ok(d, vkf_model_open(d->device, LLAMA, &model));
  assert_int_equal(vkf_session_create(model, &params, &session), fits ? VKF_OK : VKF_ERROR_UNSUPPORTED);
  if (!fits && !strstr(vkf_context_message(d->context), "70000 slots of 1 tokens: "))
    fail_msg("%s", vkf_context_message(d->context));
  vkf_session_destroy(&session);
  vkf_model_close(&model);
}

static void bad_arguments(void **state) {
  bench b;
  vkf_result *result = NULL;
  vkf_model *encoder = NULL;
  vkf_session *none = NULL;
  static const int32_t far[] = {3, 1 << 30};
  int32_t many[N + 10] = {0};
  open_bench(&b, *state, LLAMA);
  assert_int_equal(vkf_session_slot_capacity(b.session), N + 9);
  refused(&b, vkf_session_feed(b.session, N_SLOTS, b.ids, 1, 1), VKF_ERROR_ARGUMENT, "a slot below 3");
  refused(&b, vkf_session_feed(b.session, 0, b.ids, 0, 0), VKF_ERROR_ARGUMENT, "at least one id");
  refused(&b, vkf_session_feed(b.session, 0, far, 2, 1), VKF_ERROR_ARGUMENT, "an id of the vocabulary");
  refused(&b, vkf_session_feed(b.session, 0, b.ids, 3, 4), VKF_ERROR_ARGUMENT, "at most the 3 ids");
  refused(&b, vkf_session_feed(b.session, 0, many, N + 10, 1), VKF_ERROR_ARGUMENT, "at most 32 more ids");
  refused(&b, vkf_session_truncate(b.session, 0, 1), VKF_ERROR_ARGUMENT, "at most the 0 ids");
  refused(&b, vkf_session_copy(b.session, 0, 0, 0), VKF_ERROR_ARGUMENT, "two slots");
  refused(&b, vkf_session_copy(b.session, 0, 1, 2), VKF_ERROR_ARGUMENT, "at most the 0 ids");
  refused(&b, vkf_session_copy(b.session, 0, 9, 0), VKF_ERROR_ARGUMENT, "a slot below 3");
  refused(&b, vkf_session_encode(b.session, 0, b.ids, 1), VKF_ERROR_UNSUPPORTED, "encoder-decoder");
  ok(&b, vkf_session_feed(b.session, 0, b.ids, 2, 1));
  refused(&b, vkf_session_save(b.session, 0, &result), VKF_ERROR_ARGUMENT, "found 0 of 2");
  ok(&b, vkf_session_step(b.session));
  expect(&b, 0, 1, 1, "after all that was refused");
  refused(&b, vkf_session_feed(b.session, 0, many, N + 8, 1), VKF_ERROR_ARGUMENT, "at most 30 more ids");
  ok(&b, vkf_session_feed(b.session, 0, b.ids, 1, 1));
  refused(&b, vkf_session_save(b.session, 0, &result), VKF_ERROR_ARGUMENT, "found 2 of 3");
  assert_null(vkf_session_logits(b.session, 1, NULL));
  assert_null(vkf_session_logits(b.session, 9, NULL));
  assert_null(vkf_session_logits(NULL, 0, NULL));
  close_bench(&b);
  assert_int_equal(vkf_session_slot_capacity(NULL), 0);

  open_bench(&b, *state, SHIPPED);
  refused(&b, vkf_session_feed(b.session, 0, b.ids, 1, 1), VKF_ERROR_ARGUMENT, "vkf_session_encode before");
  refused(&b, vkf_session_encode(b.session, 0, many, 7), VKF_ERROR_ARGUMENT, "1 to 6 ids of a source, found 7");
  close_bench(&b);

  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 1};
  driver *d = *state;
  driver_ok(d, vkf_model_open(d->device, VKF_SOURCE_DIR "/tests/golden/bert", &encoder));
  assert_int_equal(vkf_session_create(encoder, &params, &none), VKF_ERROR_UNSUPPORTED);
  assert_null(none);
  vkf_model_close(&encoder);
}

/* A step of one id allocates nothing and is one submit. */
static void a_step_allocates_nothing(void **state) {
  bench b;
  open_bench(&b, *state, LLAMA);
  feed(&b, 0, 0, 5);
  feed(&b, 0, 5, 6); /* the plan of one id */
  for (size_t i = 6; i < 12 && b.session->gpu; i++) {
    const uint64_t allocations = b.d->context->env.n_allocations, submitted = b.session->gpu->submitted;
    feed(&b, 0, i, i + 1);
    assert_int_equal(b.d->context->env.n_allocations, allocations);
    assert_int_equal(b.session->gpu->submitted, submitted + 1);
  }
  close_bench(&b);
}

/* Runs a step with one id in each of the slots [first, n_slots). */
static void step_all(const bench *b, size_t first, size_t n_slots) {
  for (size_t slot = first; slot < n_slots; slot++) ok(b, vkf_session_feed(b->session, slot, b->ids, 1, 1));
  ok(b, vkf_session_step(b->session));
}

/* A CPU driver runs few rows in a larger plan until a plan of their own pays. It makes that plan at once if no plan for
 * more rows has run. */
static void few_rows_take_a_larger_plan(void **state) {
  enum { SLOTS = 8 };
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = SLOTS, .slot_tokens = N + 9};
  bench b;
  open_bench(&b, *state, LLAMA);
  const bool waits = b.d->device->info.kind == VKF_DEVICE_CPU;
  const uint64_t n_parameters = vkf_model_net_info(b.model->net)->n_parameters;
  vkf_session *small = b.session;
  b.session = NULL;

  driver_ok(*state, vkf_session_create(b.model, &params, &b.session));
  const uint64_t *first = &b.session->plan_cache.few_rows_read;
  feed(&b, 0, 0, 1); /* makes a plan of its own */
  step_all(&b, 1, SLOTS);
  feed(&b, 0, 1, 2); /* still uses that plan */
  assert_int_equal(*first, 0);
  vkf_session_destroy(&b.session);

  driver_ok(*state, vkf_session_create(b.model, &params, &b.session));
  uint64_t *read = &b.session->plan_cache.few_rows_read;
  step_all(&b, 0, SLOTS);
  for (size_t i = 1; i < 4; i++) {
    feed(&b, 0, i, i + 1);
    assert_int_equal(*read, waits ? i * n_parameters : 0);
  }
  if (waits) *read = UINT64_MAX / 2;
  feed(&b, 0, 4, 5);
  assert_int_equal(*read, waits ? UINT64_MAX / 2 : 0);
  *read = 0;
  feed(&b, 0, 5, 6); /* uses the plan that has run */
  assert_int_equal(*read, 0);
  vkf_session_destroy(&b.session);
  b.session = small;
  close_bench(&b);
}

/* Returns true if a cache with so many bytes for each sequence in each layer is in large pages. */
static bool is_in_large_pages(const bench *b, const vkf_plan *plan, uint64_t bytes) {
  vkf_plan longer = *plan;
  vkf_state *state = NULL;
  vkf_slot *slots = malloc(plan->n_slots * sizeof *slots);
  assert_non_null(slots);
  memcpy(slots, plan->slots, plan->n_slots * sizeof *slots);
  longer.slots = slots;
  for (vkf_slot *slot = slots; slot < slots + plan->n_slots; slot++) {
    if (slot->kind != VKF_SLOT_STATE) continue;
    const uint64_t each = vkf_slot_stored_bytes(slot) / slot->extent[0].cap / slot->extent[1].cap;
    slot->extent[1].cap = (uint32_t)VKF_CEIL_DIV(bytes, each);
  }
  ok(b, b->session->backend->table->state_create(b->session->backend, &longer, NULL, &state));
  const bool is_large = state->pools.memory == VKF_GPU_MEMORY_LARGE;
  b->session->backend->table->state_destroy(&state);
  free(slots);
  return is_large;
}

static void long_caches_are_in_large_pages(void **state) {
  bench b;
  const vkf_cached_plan *cached;
  open_bench(&b, *state, LLAMA);
  if (b.session->gpu) {
    ok(&b, vkf_engine_steps_plan(&b.session->slots->steps, 1, true, &cached));
    assert_false(is_in_large_pages(&b, cached->plan, 512 << 10));
    assert_true(is_in_large_pages(&b, cached->plan, 1 << 20));
  }
  close_bench(&b);
}

/* A second turn computes only its own ids, not those of the first turn again. */
static void a_second_turn_runs_its_own_ids(void **state) {
  if (getenv("VKF_TEST_LIMITS")) skip(); /* would test the same, and a GPU's kernels take seconds to compile */
  enum { FIRST = 240, SECOND = 4 };
  bench b;
  int32_t ids[FIRST + SECOND];
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 2, .slot_tokens = FIRST + SECOND};
  open_bench(&b, *state, VKF_SOURCE_DIR "/tests/golden/llama3-rope");
  vkf_session *small = b.session;
  for (int i = 0; i < FIRST + SECOND; i++) ids[i] = 3 + i * 7 % 50;
  b.session = NULL;
  driver_ok(*state, vkf_session_create(b.model, &params, &b.session));
  /* The least processor time, because other processes may use the machine; without making plans. */
  clock_t took[2] = {0, 0};
  if (vkf_session_slot_capacity(b.session) < FIRST + SECOND) fail_msg("expected a model of %d positions", FIRST);
  for (int run = 0; run < 4; run++) {
    ok(&b, vkf_session_feed(b.session, 0, ids, FIRST, 1));
    ok(&b, vkf_session_step(b.session));
    for (size_t way = 0; way < 2; way++) {
      const clock_t begin = clock();
      ok(&b, vkf_session_feed(b.session, way, way ? ids : ids + FIRST, way ? FIRST + SECOND : SECOND, 1));
      ok(&b, vkf_session_step(b.session));
      const clock_t now = clock() - begin;
      if (run > 0) took[way] = run == 1 ? now : VKF_MIN(took[way], now);
    }
    assert_memory_equal(vkf_session_logits(b.session, 0, NULL), vkf_session_logits(b.session, 1, NULL),
                        b.vocab * sizeof(float));
    for (size_t slot = 0; slot < 2; slot++) ok(&b, vkf_session_truncate(b.session, slot, 0));
  }
  print_message("  processor time to the first token of a second turn: %.2f ms; feeding all again: %.2f ms\n",
                (double)took[0] * 1e3 / CLOCKS_PER_SEC, (double)took[1] * 1e3 / CLOCKS_PER_SEC);
  if (!driver_is_gpu()) assert_true(took[0] * 2 < took[1]); /* on a GPU both take only the time to submit */
  vkf_session_destroy(&b.session);
  b.session = small;
  close_bench(&b);
}

DRIVER_MAIN(DRIVER_TEST(fed_in_any_way), DRIVER_TEST(side_by_side), DRIVER_TEST(truncated_and_copied),
            DRIVER_TEST(saved_and_restored), DRIVER_TEST(saved_in_a_file), DRIVER_TEST(what_does_not_belong),
            DRIVER_TEST(other_files_do_not_belong), DRIVER_TEST(an_id_may_never_come), DRIVER_TEST(too_many_slots),
            DRIVER_TEST(bad_arguments), DRIVER_TEST(a_step_allocates_nothing), DRIVER_TEST(few_rows_take_a_larger_plan),
            DRIVER_TEST(long_caches_are_in_large_pages), DRIVER_TEST_PLAIN(a_second_turn_runs_its_own_ids))
