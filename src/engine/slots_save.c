/* Saves slots as bytes, restores them, and copies slots; keys and values go through the host.
 *
 * Saved bytes are a header, the ids, the ids of the source, then the slot's rows of every cache as float32, in the byte
 * order of the machine. Refuses bytes that are damaged, of another model, or of another format.
 */
#include <string.h>

#include "engine/opened.h"
#include "engine/slots_internal.h"

static const char MAGIC[8] = {'V', 'K', 'F', 'S', 'L', 'O', 'T', '2'};

typedef struct header {
  char magic[8];
  uint64_t checksum;       /* of all bytes, with 0 in its place */
  uint64_t model;          /* its identity */
  uint32_t weights, cache; /* vkf_storage */
  uint64_t n_ids, n_source, n_numbers;
} header;

/* ---- caches ------------------------------------------------------------------------------------------------------ */

/* Returns the sizes at which the caches of a slot have n keys. */
static vkf_dims dims_of(size_t n, size_t n_source) {
  return vkf_dims_make(&(vkf_sizes){
      .B = 1, .S = (uint32_t)VKF_MAX(n_source, 1), .R = 1, .T = 1, .past = (uint32_t)VKF_MAX(n, 1) - 1, .out = 1});
}

/* Returns whether this slot of the plan is a cache that holds anything if there are so many keys. */
static bool is_kept(const vkf_slot *slot, size_t n, size_t n_source) {
  if (slot->kind != VKF_SLOT_STATE) return false;
  const uint32_t state = slot->index % VKF_STATE_PARTS;
  return state == VKF_STATE_SELF_K || state == VKF_STATE_SELF_V ? n > 0 : n_source > 0;
}

static uint64_t count_numbers(const vkf_cached_plan *cached, const vkf_dims *dims, size_t n, size_t n_source) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < cached->plan->n_slots; i++) {
    const vkf_slot one = vkf_slot_one(&cached->plan->slots[i]);
    if (is_kept(&one, n, n_source)) count += vkf_slot_elements_at(&one, dims);
  }
  return count;
}

/* Reads the caches of slot q into `out`; out NULL: writes `in` to them. */
static vkf_status move_caches(vkf_slots *s, const vkf_sequence *q, const vkf_cached_plan *cached, const vkf_dims *dims,
                              size_t n, size_t n_source, const float *in, float *out) {
  const vkf_backend_table *backend = s->session->plan_cache.backend->table;
  size_t at = 0;
  for (uint32_t i = 0; i < cached->plan->n_slots; i++) {
    const vkf_slot one = vkf_slot_one(&cached->plan->slots[i]);
    if (!is_kept(&one, n, n_source)) continue;
    VKF_CALL(out ? backend->read_one(cached->program, i, q->slot, dims, out + at)
                 : backend->write_one(cached->program, i, q->slot, dims, in + at));
    at += vkf_slot_elements_at(&one, dims);
  }
  return VKF_OK;
}

/* Gives slot q these ids and caches. If the device fails, the slot is empty. */
static vkf_status fill(vkf_slots *s, vkf_sequence *q, const int32_t *ids, size_t n, const int32_t *source,
                       size_t n_source, const float *numbers) {
  const vkf_cached_plan *cached = NULL;
  const vkf_dims dims = dims_of(n, n_source);
  VKF_CALL(vkf_engine_steps_plan(&s->steps, 1, true, &cached));
  q->n = q->n_done = q->n_logits = q->n_read = 0;
  q->n_source = 0;
  VKF_CALL(move_caches(s, q, cached, &dims, n, n_source, numbers, NULL));
  if (n) memmove(q->ids, ids, n * sizeof *ids);
  if (n_source) memmove(q->source, source, n_source * sizeof *source);
  q->n = q->n_done = n;
  q->n_source = (uint32_t)n_source;
  if (n_source) s->steps.sources[q->slot] = (vkf_span){.keys = q->n_source, .slot = q->slot};
  return VKF_OK;
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

static vkf_status copy(vkf_slots *s, vkf_sequence *from, vkf_sequence *to, size_t n) {
  vkf_status st = VKF_OK;
  vkf_env *env = s->session->env;
  const vkf_cached_plan *cached = NULL;
  float *numbers = NULL;
  if (n > from->n_done)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected at most the %zu ids of the slot that have run, found %zu", from->n_done,
             n);
  if (from == to) VKF_FAIL(env, VKF_ERROR_ARGUMENT, "expected two slots to copy between, found one");
  const vkf_dims dims = dims_of(n, from->n_source);
  VKF_TRY(vkf_engine_steps_plan(&s->steps, 1, true, &cached));
  numbers = vkf_env_alloc(env, count_numbers(cached, &dims, n, from->n_source), sizeof *numbers);
  if (!numbers) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(move_caches(s, from, cached, &dims, n, from->n_source, NULL, numbers));
  VKF_TRY(fill(s, to, from->ids, n, from->source, from->n_source, numbers));
done:
  vkf_env_free(env, numbers);
  return st;
}

vkf_status vkf_session_copy(vkf_session *session, size_t from, size_t to, size_t n) {
  vkf_sequence *source = NULL, *target = NULL;
  VKF_CALL(vkf_engine_slot_begin(session, "vkf_session_copy", from, &source));
  vkf_status st = vkf_engine_slot_get(session, to, &target);
  if (!st) st = copy(session->slots, source, target, n);
  return vkf_engine_session_end(session, st, NULL);
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static uint64_t checksum_of(const char *bytes, size_t n) {
  header h;
  memcpy(&h, bytes, sizeof h);
  h.checksum = 0;
  return vkf_hash_bytes(vkf_hash_bytes(VKF_HASH_START, &h, sizeof h), bytes + sizeof h, n - sizeof h);
}

static vkf_status save(vkf_slots *s, vkf_sequence *q, vkf_result **out) {
  vkf_status st = VKF_OK;
  vkf_session *session = s->session;
  vkf_result *result = NULL;
  const vkf_cached_plan *cached = NULL;
  void *data = NULL;
  header h = {.model = vkf_engine_model_identity(session->model),
              .weights = (uint32_t)vkf_engine_storage_of(session->model->weight_format),
              .cache = (uint32_t)vkf_engine_storage_of(session->model->cache_format),
              .n_ids = q->n,
              .n_source = q->n_source};
  if (q->n_done < q->n)
    VKF_FAIL(session->env, VKF_ERROR_ARGUMENT, "expected a slot whose ids have all run, found %zu of %zu", q->n_done,
             q->n);
  VKF_TRY(vkf_engine_steps_plan(&s->steps, 1, true, &cached));
  const vkf_dims dims = dims_of(q->n, q->n_source);
  h.n_numbers = count_numbers(cached, &dims, q->n, q->n_source);
  memcpy(h.magic, MAGIC, sizeof MAGIC);
  const size_t n = sizeof h + 4 * (q->n + q->n_source + h.n_numbers);
  VKF_TRY(vkf_engine_result_create(session->env, &result));
  VKF_TRY(vkf_engine_result_add(result, "bytes", VKF_U8, 1, &n, &data));
  char *at = data;
  memcpy(at, &h, sizeof h);
  at += sizeof h;
  memcpy(at, q->ids, 4 * q->n);
  at += 4 * q->n;
  memcpy(at, q->source, 4 * (size_t)q->n_source);
  at += 4 * (size_t)q->n_source;
  VKF_TRY(move_caches(s, q, cached, &dims, q->n, q->n_source, NULL, (float *)(void *)at));
  h.checksum = checksum_of(data, n);
  memcpy(data, &h, sizeof h);
done:
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}

vkf_status vkf_session_save(vkf_session *session, size_t slot, vkf_result **out) {
  vkf_sequence *q = NULL;
  if (out) *out = NULL;
  VKF_CALL(vkf_engine_slot_begin(session, "vkf_session_save", slot, &q));
  const vkf_status st = out ? save(session->slots, q, out) : vkf_engine_null(session->env, "out");
  return vkf_engine_session_end(session, st, out);
}

/* ---- restoring --------------------------------------------------------------------------------------------------- */

static vkf_status check_whole(vkf_env *env, const char *bytes, size_t n, header *h) {
  if (!bytes || n < sizeof *h)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "a saved slot: expected at least %zu bytes, found %zu", sizeof *h,
                        bytes ? n : 0);
  memcpy(h, bytes, sizeof *h);
  if (memcmp(h->magic, MAGIC, sizeof MAGIC) != 0)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "a saved slot: expected it to begin with %.8s, found other bytes",
                        MAGIC);
  const uint64_t rest = (n - sizeof *h) / 4;
  if (h->n_ids > rest || h->n_source > rest - h->n_ids || h->n_numbers != rest - h->n_ids - h->n_source || n % 4)
    return vkf_env_fail(
        env, VKF_ERROR_FORMAT, "a saved slot: expected %llu ids, %llu of a source and %llu numbers, found %zu bytes",
        (unsigned long long)h->n_ids, (unsigned long long)h->n_source, (unsigned long long)h->n_numbers, n);
  const uint64_t found = checksum_of(bytes, n);
  if (found != h->checksum)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "a saved slot: expected the checksum %016llx, found %016llx",
                        (unsigned long long)h->checksum, (unsigned long long)found);
  return VKF_OK;
}

static const char *storage_name(uint32_t storage) {
  for (vkf_format f = 0; f < VKF_FORMAT_COUNT; f++)
    if ((uint32_t)vkf_engine_storage_of(f) == storage) return vkf_format_get(f)->name;
  return storage == VKF_STORAGE_AUTO ? "auto" : "no format";
}

/* Checks that a saved slot is of this model, with these formats and sizes. */
static vkf_status check_fits(vkf_slots *s, const header *h) {
  const vkf_session *session = s->session;
  const uint32_t weights = (uint32_t)vkf_engine_storage_of(session->model->weight_format),
                 cache = (uint32_t)vkf_engine_storage_of(session->model->cache_format);
  const vkf_cached_plan *cached = NULL;
  const uint64_t model = vkf_engine_model_identity(session->model);
  if (model != h->model)
    return vkf_env_fail(
        session->env, VKF_ERROR_ARGUMENT, "a saved slot: expected one of this model, %016llx (%s), found %016llx",
        (unsigned long long)model, vkf_model_net_info(session->model->net)->name, (unsigned long long)h->model);
  if (weights != h->weights || cache != h->cache)
    return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                        "a saved slot: expected weights %s and a cache %s, found %s and %s", storage_name(weights),
                        storage_name(cache), storage_name(h->weights), storage_name(h->cache));
  const uint32_t most_source = s->steps.sources ? s->most_source : 0; /* decoders without an encoder have none */
  if (h->n_ids > s->most || h->n_source > most_source)
    return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                        "a saved slot: expected at most %u ids and %u of a source, found %llu and %llu", s->most,
                        most_source, (unsigned long long)h->n_ids, (unsigned long long)h->n_source);
  VKF_CALL(vkf_engine_steps_plan(&s->steps, 1, true, &cached));
  const vkf_dims dims = dims_of(h->n_ids, h->n_source);
  const uint64_t expected = count_numbers(cached, &dims, h->n_ids, h->n_source);
  if (expected != h->n_numbers)
    return vkf_env_fail(session->env, VKF_ERROR_FORMAT, "a saved slot: expected %llu numbers, found %llu",
                        (unsigned long long)expected, (unsigned long long)h->n_numbers);
  return VKF_OK;
}

static vkf_status restore(vkf_slots *s, vkf_sequence *q, const char *bytes, size_t n) {
  vkf_status st = VKF_OK;
  vkf_env *env = s->session->env;
  const vkf_net_info *info = vkf_model_net_info(s->session->model->net);
  header h;
  int32_t *words = NULL; /* all behind the header, aligned */
  VKF_TRY(check_whole(env, bytes, n, &h));
  VKF_TRY(check_fits(s, &h));
  words = vkf_env_alloc(env, n - sizeof h, 1);
  if (!words) VKF_TRY(VKF_ERROR_MEMORY);
  memcpy(words, bytes + sizeof h, n - sizeof h);
  VKF_TRY(vkf_engine_check_ids(s->session, "ids", words, 1, h.n_ids, info->target_vocab));
  VKF_TRY(vkf_engine_check_ids(s->session, "source", words + h.n_ids, 1, h.n_source, info->vocab));
  VKF_TRY(fill(s, q, words, h.n_ids, words + h.n_ids, h.n_source, (const float *)(words + h.n_ids + h.n_source)));
done:
  vkf_env_free(env, words);
  return st;
}

vkf_status vkf_session_restore(vkf_session *session, size_t slot, const void *bytes, size_t n) {
  vkf_sequence *q = NULL;
  VKF_CALL(vkf_engine_slot_begin(session, "vkf_session_restore", slot, &q));
  return vkf_engine_session_end(session, restore(session->slots, q, bytes, n), NULL);
}
