/* steps: see steps.h. */
#include "engine/steps.h"

#include <string.h>

#include "engine/batch_split.h"
#include "engine/deal.h"

enum { MOST_ROWS = 512 }; /* ids of a submit, unless there are more slots */

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static vkf_status allocate_beams(vkf_steps *s) {
  const size_t cells = (size_t)s->caps.R * s->caps.keys;
  s->ancestry = vkf_env_alloc(s->session->env, cells, sizeof *s->ancestry);
  s->ancestry_next = vkf_env_alloc(s->session->env, cells, sizeof *s->ancestry);
  return s->ancestry && s->ancestry_next ? VKF_OK : VKF_ERROR_MEMORY;
}

static vkf_status allocate_sources(vkf_steps *s, bool has_holes) {
  vkf_env *env = s->session->env;
  const size_t cells = (size_t)s->caps.B * s->caps.S;
  s->sources = vkf_env_alloc(env, s->caps.B, sizeof *s->sources);
  s->cross_spans = vkf_env_alloc(env, s->caps.R, sizeof *s->cross_spans);
  if (!s->sources || !s->cross_spans) return VKF_ERROR_MEMORY;
  if (!has_holes) return VKF_OK;
  s->request.mask = true;
  s->source_mask = vkf_env_alloc(env, cells, sizeof *s->source_mask);
  return s->source_mask ? VKF_OK : VKF_ERROR_MEMORY;
}

static vkf_status allocate(vkf_steps *s) {
  vkf_env *env = s->session->env;
  const size_t R = s->caps.R;
  s->row_of = vkf_env_alloc(env, R, sizeof *s->row_of);
  s->spans = vkf_env_alloc(env, R, sizeof *s->spans);
  s->edit_offsets = vkf_env_alloc(env, R + 1, sizeof *s->edit_offsets);
  s->ids = vkf_env_alloc(env, s->most_rows, sizeof *s->ids);
  s->positions = vkf_env_alloc(env, s->most_rows, sizeof *s->positions);
  s->out_rows = vkf_env_alloc(env, s->most_rows, sizeof *s->out_rows);
  if (!s->row_of || !s->spans || !s->edit_offsets || !s->ids || !s->positions || !s->out_rows) return VKF_ERROR_MEMORY;
  if (s->short_head) {
    s->places = vkf_env_alloc(env, s->most_rows, sizeof *s->places);
    s->edits = vkf_env_alloc(env, s->request.max_edits, sizeof *s->edits);
    if (!s->places || !s->edits) return VKF_ERROR_MEMORY;
  }
  if (!s->output && !s->request.top_k) return VKF_OK;
  s->values = vkf_env_alloc(env, R * s->width, sizeof *s->values);
  s->top_ids = vkf_env_alloc(env, s->output ? 1 : R * s->width, sizeof *s->top_ids);
  return s->values && s->top_ids ? VKF_OK : VKF_ERROR_MEMORY;
}

/* Returns the most bytes that a cache may take: kv_cache_bytes of the session, else what the device has left, with the
 * caches that it replaces (is_own: none). 0: no bound. */
static uint64_t bound_of(const vkf_session *session, bool is_own) {
  const vkf_gpu_device *gpu = session->model->dev->gpu;
  if (session->kv_cache_bytes || !gpu) return session->kv_cache_bytes;
  const uint64_t left =
      vkf_gpu_device_memory_left(gpu) + (is_own ? 0 : vkf_engine_plan_cache_bytes(&session->plan_cache).caches);
  return VKF_MAX(left, 1);
}

vkf_status vkf_engine_steps_init(vkf_steps *s, vkf_session *session, const vkf_steps_params *p) {
  const vkf_need_sizes need = {p->n_sources, VKF_MAX(p->source_tokens, 1), p->n_sources * p->each, p->slot_tokens};
  *s = (vkf_steps){.session = session,
                   .is_own = p->is_own,
                   .each = p->each,
                   .short_head = p->short_head,
                   .n_vocab = vkf_model_net_info(session->model->net)->target_vocab,
                   .request = {.stage = VKF_STAGE_DECODE,
                               .ancestry = p->head.ancestry,
                               .log_softmax = p->head.log_softmax,
                               .renormalize = p->head.renormalize,
                               .top_k = p->head.top_k}};
  const uint64_t bound = bound_of(session, p->is_own);
  VKF_CALL(p->is_own ? vkf_engine_bucket_create(&session->plan_cache, &need, bound, &s->bucket)
                     : vkf_engine_bucket_get(&session->plan_cache, &need, bound, &s->bucket));
  s->caps = vkf_engine_bucket_sizes(s->bucket);
  const bool is_gpu = vkf_engine_is_gpu(session->model->dev);
  s->most_rows = VKF_MAX(MOST_ROWS, s->caps.R);
  if (p->edits > UINT32_MAX / 2 / VKF_MAX(s->caps.R, 1))
    return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                        "the configuration needs %u edits of logits a row, more than this engine plans for", p->edits);
  if (p->edits) s->request.row_edits = vkf_engine_round_length(p->edits);
  s->request.max_edits = s->request.row_edits * s->caps.R;
  s->width = p->head.top_k ? p->head.top_k : s->n_vocab;
  if (!p->head.top_k && (p->edits || p->head.log_softmax)) s->output = "scores";
  VKF_CALL(allocate(s));
  if (p->head.ancestry) VKF_CALL(allocate_beams(s));
  if (p->shares_rows && !is_gpu)
    VKF_CALL(vkf_engine_cache_rows_init(&s->cache_rows, session->env, s->caps.R, s->caps.keys));
  if (!p->head.ancestry && !is_gpu) {
    s->dealt = vkf_env_alloc(session->env, s->caps.R, sizeof *s->dealt);
    if (!s->dealt) return VKF_ERROR_MEMORY;
  }
  if (p->source_tokens) VKF_CALL(allocate_sources(s, p->has_holes));
  return VKF_OK;
}

void vkf_engine_steps_finish(vkf_steps *s) {
  if (!s->session) return;
  if (s->is_own) vkf_engine_bucket_destroy(&s->session->plan_cache, &s->bucket);
  void *all[] = {s->sources,     s->source_mask, s->ancestry,  s->ancestry_next, s->row_of,       s->spans,
                 s->cross_spans, s->ids,         s->positions, s->out_rows,      s->edit_offsets, s->values,
                 s->top_ids,     s->rows,        s->places,    s->edits,         s->dealt};
  for (size_t i = 0; i < VKF_COUNT(all); i++) vkf_env_free(s->session->env, all[i]);
  vkf_engine_cache_rows_finish(&s->cache_rows, s->session->env);
  *s = (vkf_steps){0};
}

vkf_status vkf_engine_steps_need_logits(vkf_steps *s, size_t n) {
  size_t need;
  if (n < 2) return VKF_OK;
  if (!vkf_size_mul(VKF_MIN(n, s->most_rows), s->n_vocab, &need)) need = SIZE_MAX;
  float *grown = vkf_env_grow(s->session->env, s->rows, &s->rows_capacity, need, sizeof *grown);
  if (!grown) return VKF_ERROR_MEMORY;
  s->rows = grown;
  return VKF_OK;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* Rounds n rows of at most `most` up to a power of 2, so that there are few plans. */
static uint32_t round_up(uint32_t n, uint32_t most) {
  uint32_t rounded = 8;
  while (rounded < n && rounded < most) rounded *= 2;
  return VKF_MIN(rounded, most);
}

/* Returns rows [first, first + n), which are not copied. */
static vkf_encode_input rows_of(const vkf_encode_input *in, uint32_t first, uint32_t n) {
  const size_t at = (size_t)first * in->S;
  return (vkf_encode_input){
      .B = n, .S = in->S, .ids = in->ids + at, .mask = in->mask ? in->mask + at : NULL, .places = in->places + first};
}

/* Encodes the sources in two halves, because the device has no room for all of them. */
static vkf_status encode_halves(vkf_steps *s, const vkf_encode_input *in) {
  const uint32_t half = in->B / 2;
  const vkf_encode_input first = rows_of(in, 0, half), second = rows_of(in, half, in->B - half);
  const vkf_status st = vkf_engine_steps_encode(s, &first);
  return st ? st : vkf_engine_steps_encode(s, &second);
}

static vkf_status get_source_plan(vkf_steps *s, uint32_t n_ids, const vkf_cached_plan **out) {
  const uint32_t rows = round_up(n_ids, s->caps.B * s->caps.S);
  const vkf_plan_request request = {.stage = VKF_STAGE_ENCODE,
                                    .capacity = {.T = 1, .source_rows = rows, .out = rows},
                                    .mask = s->source_mask != NULL};
  return vkf_engine_plan_get(&s->session->plan_cache, s->bucket, &request, out);
}

vkf_status vkf_engine_steps_encode(vkf_steps *s, const vkf_encode_input *in) {
  const vkf_cached_plan *cached = NULL;
  vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = in->B, .S = in->S, .R = in->B, .T = 1, .out = in->B * in->S});
  const vkf_status st = get_source_plan(s, in->B * in->S, &cached);
  s->short_plan = NULL;
  if (vkf_engine_split_helps(s->session, st, in->B)) return encode_halves(s, in);
  VKF_CALL(st);
  const vkf_token_grid grid = vkf_engine_source_grid(s->session, in);
  for (uint32_t b = 0; b < in->B; b++) {
    const vkf_token_span span = vkf_engine_token_span(&grid, b);
    s->sources[in->places[b]] = (vkf_span){.keys = span.length, .slot = in->places[b]};
    for (uint32_t t = 0; s->source_mask && t < span.length; t++)
      s->source_mask[(size_t)in->places[b] * s->caps.S + t] =
          !in->mask || in->mask[(size_t)b * in->S + span.first + t] != 0;
  }
  return vkf_engine_encode(s->session, cached, &dims, in);
}

/* ---- one submit -------------------------------------------------------------------------------------------------- */

/* Rows [first, first + n) of a step; of the last row perhaps only its first ids. */
typedef struct submit {
  uint32_t first, n;
  uint32_t n_ids, n_last;           /* of all rows, of the last row */
  uint32_t longest, keys, n_source; /* the most ids of a row, keys of a slot, keys of a source */
  uint32_t n_out;                   /* ids whose scores are wanted */
  bool has_logits;
} submit;

static uint32_t outs_of(const vkf_search_row *row, uint32_t n_ids) {
  const uint32_t others = row->n - row->n_out;
  return n_ids > others ? n_ids - others : 0;
}

/* Returns the first key of a row's sequence in its row of the cache. */
static uint32_t first_key(const vkf_steps *s, const vkf_search_row *row) {
  return s->cache_rows.n ? s->cache_rows.places[row->slot].first : 0;
}

static submit cut(const vkf_steps *s, const vkf_batch_step *step, uint32_t first) {
  submit part = {.first = first, .n_source = 1};
  for (uint32_t r = first; r < step->n_rows && part.n_ids < s->most_rows; r++) {
    const vkf_search_row *row = &step->rows[r];
    part.n_last = VKF_MIN(row->n, s->most_rows - part.n_ids);
    part.n++;
    part.n_ids += part.n_last;
    part.n_out += outs_of(row, part.n_last);
    part.has_logits |= row->logits != NULL;
    part.longest = VKF_MAX(part.longest, part.n_last);
    part.keys = VKF_MAX(part.keys, first_key(s, row) + row->past + part.n_last);
    if (s->sources) part.n_source = VKF_MAX(part.n_source, s->sources[row->slot / s->each].keys);
  }
  return part;
}

/* Returns how many ids of row r are in the submit. */
static uint32_t ids_of(const submit *part, const vkf_search_row *row, uint32_t r) {
  return r + 1 < part->n ? row->n : part->n_last;
}

/* A plan for fewer rows needs matmul kernels of smaller tiles. A software driver takes 0.13 s to make three of them
 * (Mesa 26, Zen 5); in that time the cores do 30 GFLOP. A step of one or two rows in tiles of six wastes 10 flop for
 * each parameter, so the smaller plan pays off after about so many parameters. */
#define FEW_ROWS_READ UINT64_C(3000000000)

/* Returns the request of a submit. singles: the rows of its plan if each row has a single id. */
static vkf_plan_request request_of(const vkf_steps *s, const submit *part, uint32_t singles) {
  vkf_plan_request request = s->request;
  const uint32_t R = s->caps.R,
                 rows = VKF_MIN(part->longest == 1 ? singles : round_up(part->n_ids, s->most_rows), s->most_rows);
  request.gather_out = part->n_out != part->n_ids;
  request.capacity = (vkf_sizes){.T = part->longest == 1 ? 1 : VKF_MIN(rows, s->caps.keys),
                                 .target_rows = rows,
                                 .out = request.gather_out && part->n_out <= R ? VKF_MIN(R, rows) : rows};
  request.logits = part->has_logits;
  request.short_head = s->short_head ? s->short_head->width : 0;
  if (!part->n_out) {
    request.logits = request.log_softmax = request.gather_out = false;
    request.max_edits = request.row_edits = request.top_k = request.short_head = 0;
  }
  return request;
}

/* Finds or makes the plan of a submit. Single ids have plans for all slots, for a fourth of them, and so on, for when
 * few are left. On a software driver a step of few rows uses a plan for more rows that has already run, until one of
 * its own pays off. The bits are the same, because kernels of software drivers add up in one order. */
static vkf_status get_plan(vkf_steps *s, const submit *part, const vkf_cached_plan **out) {
  const vkf_model *model = s->session->model;
  vkf_plan_cache *cache = &s->session->plan_cache;
  const bool waits = model->dev->info.kind == VKF_DEVICE_CPU && cache->few_rows_read < FEW_ROWS_READ;
  uint32_t singles = s->caps.R, used = 0;
  for (uint32_t n = singles; part->longest == 1 && n >= part->n_ids; n /= 4) {
    const vkf_plan_request request = request_of(s, part, n);
    if (waits && vkf_engine_plan_has_run(cache, s->bucket, &request)) used = n;
    singles = n;
  }
  if (used > singles) {
    singles = used;
    cache->few_rows_read += vkf_model_net_info(model->net)->n_parameters;
  }
  const vkf_plan_request request = request_of(s, part, singles);
  return vkf_engine_plan_get(cache, s->bucket, &request, out);
}

/* Sets the ids, positions, spans and out_rows of a submit. */
static void describe_rows(vkf_steps *s, const vkf_batch_step *step, const submit *part) {
  uint32_t at = 0, n_out = 0;
  for (uint32_t r = 0; r < part->n; r++) {
    const vkf_search_row *row = &step->rows[part->first + r];
    const uint32_t n = ids_of(part, row, r);
    const vkf_model_tokens tokens = {
        .stage = VKF_STAGE_DECODE, .rows = 1, .length = n, .past = row->past, .ids = row->ids};
    vkf_model_positions(s->session->model->net, &tokens, s->positions + at);
    memcpy(s->ids + at, row->ids, n * sizeof *s->ids);
    s->spans[r] = (vkf_span){.row = at, .queries = n, .past = row->past, .keys = row->past + n, .slot = row->slot};
    if (s->cache_rows.n) s->spans[r].slot = s->cache_rows.places[row->slot].row;
    s->spans[r].first = first_key(s, row);
    if (s->sources) {
      s->cross_spans[r] = s->sources[row->slot / s->each];
      s->cross_spans[r].row = at;
      s->cross_spans[r].queries = n;
    }
    for (uint32_t i = outs_of(row, n); i > 0; i--) s->out_rows[n_out++] = (int32_t)(at + n - i);
    at += n;
  }
}

/* Writes the edits of one submit's rows. The step had n_before rows with scores before them. */
static vkf_status write_edits(vkf_steps *s, const vkf_cached_plan *cached, const vkf_dims *dims,
                              const vkf_batch_step *step, const submit *part, uint32_t n_before) {
  const vkf_plan_cache *p = &s->session->plan_cache;
  if (cached->slots[VKF_INPUT_EDITS] == VKF_NO_SLOT) return VKF_OK;
  const uint32_t first = step->edit_offsets[n_before], n = step->edit_offsets[n_before + part->n_out] - first;
  if (n > s->request.max_edits)
    return vkf_env_fail(s->session->env, VKF_ERROR_ARGUMENT, "a step has %u edits of logits, expected at most %u", n,
                        s->request.max_edits);
  for (uint32_t i = 0; i <= part->n_out; i++) s->edit_offsets[i] = step->edit_offsets[n_before + i] - first;
  VKF_CALL(vkf_engine_write_input(p, cached, VKF_INPUT_EDIT_OFFSETS, dims, s->edit_offsets));
  if (s->short_head) vkf_engine_short_head_edits(s->short_head, step->edits + first, n, s->edits);
  return p->backend->table->write_rows(cached->program, cached->slots[VKF_INPUT_EDITS], n,
                                       s->short_head ? s->edits : step->edits + first);
}

/* Writes the rows of the head, unless the plan's memory has them, and a mask for each id whose scores are wanted. */
static vkf_status write_short_head(vkf_steps *s, const vkf_cached_plan *cached, const vkf_dims *dims,
                                   const vkf_batch_step *step, const submit *part) {
  const vkf_plan_cache *p = &s->session->plan_cache;
  if (!s->short_head || !part->n_out) return VKF_OK;
  uint32_t n = 0;
  for (uint32_t r = 0; r < part->n; r++) {
    const vkf_search_row *row = &step->rows[part->first + r];
    for (uint32_t i = outs_of(row, ids_of(part, row, r)); i > 0; i--) s->places[n++] = row->slot / s->each;
  }
  const float *masks = vkf_engine_short_head_masks(s->short_head, s->places, n);
  if (!masks) return VKF_ERROR_MEMORY;
  if (cached != s->short_plan)
    VKF_CALL(vkf_engine_write_input(p, cached, VKF_INPUT_SHORT_HEAD, dims, s->short_head->rows));
  s->short_plan = cached;
  return vkf_engine_write_input(p, cached, VKF_INPUT_SHORT_MASK, dims, masks);
}

static vkf_status write_inputs(vkf_steps *s, const vkf_cached_plan *cached, const vkf_dims *dims,
                               const vkf_batch_step *step, const submit *part) {
  const vkf_plan_cache *p = &s->session->plan_cache;
  vkf_dims all = *dims; /* the mask is written whole */
  all.v[VKF_DIM_S] = s->caps.S;
  describe_rows(s, step, part);
  if (cached != s->short_plan) s->short_plan = NULL; /* plans take turns with one memory */
  VKF_CALL(write_short_head(s, cached, dims, step, part));
  VKF_CALL(vkf_engine_write_input(p, cached, VKF_INPUT_MASK, &all, s->source_mask));
  VKF_CALL(vkf_engine_write_input(p, cached, VKF_INPUT_TARGET_IDS, dims, s->ids));
  VKF_CALL(vkf_engine_write_input(p, cached, VKF_INPUT_TARGET_POSITIONS, dims, s->positions));
  if (s->dealt) vkf_engine_deal(s->spans, part->n, s->dealt);
  VKF_CALL(vkf_engine_write_input(p, cached, VKF_INPUT_TARGET_SPANS, dims, s->dealt ? s->dealt : s->spans));
  VKF_CALL(vkf_engine_write_input(p, cached, VKF_INPUT_CROSS_SPANS, dims, s->cross_spans));
  if (s->ancestry)
    VKF_CALL(
        vkf_engine_write_input(p, cached, VKF_INPUT_ANCESTRY, dims, s->ancestry + (size_t)part->first * s->caps.keys));
  return vkf_engine_write_input(p, cached, VKF_INPUT_OUT_ROWS, dims, s->out_rows);
}

/* Reads all scores of a submit by id. With a short list they are on the device by column. */
static vkf_status read_by_id(vkf_steps *s, const vkf_cached_plan *cached, const vkf_dims *dims, const char *output,
                             float *to) {
  const vkf_backend_table *backend = s->session->plan_cache.backend->table;
  const uint32_t slot = vkf_plan_find_output(cached->plan, output), n = dims->v[VKF_DIM_OUT];
  if (!s->short_head) return backend->read(cached->program, slot, dims, to);
  float *room = vkf_engine_short_head_room(s->short_head, n);
  if (!room) return VKF_ERROR_MEMORY;
  VKF_CALL(backend->read(cached->program, slot, dims, room));
  vkf_engine_short_head_scatter(s->short_head, room, n, to);
  return VKF_OK;
}

/* Reads the logits of a submit to where its rows want them. */
static vkf_status read_logits(vkf_steps *s, const vkf_cached_plan *cached, const vkf_dims *dims,
                              const vkf_batch_step *step, const submit *part) {
  const vkf_search_row *rows = step->rows + part->first;
  float *from = s->rows;
  for (uint32_t r = 0; part->n_out == 1 && r < part->n; r++) /* a single row directly */
    if (outs_of(&rows[r], ids_of(part, &rows[r], r))) from = rows[r].logits;
  if (part->n_out > 1) VKF_CALL(vkf_engine_steps_need_logits(s, part->n_out));
  if (part->n_out > 1) from = s->rows;
  if (!from) return VKF_OK;
  VKF_CALL(read_by_id(s, cached, dims, "logits", from));
  for (uint32_t r = 0; part->n_out > 1 && r < part->n; r++) {
    const size_t n = (size_t)outs_of(&rows[r], ids_of(part, &rows[r], r)) * s->n_vocab;
    if (rows[r].logits) memcpy(rows[r].logits, from, n * sizeof *from);
    from += n;
  }
  return VKF_OK;
}

static vkf_status read_results(vkf_steps *s, const vkf_cached_plan *cached, const vkf_dims *dims,
                               const vkf_batch_step *step, const submit *part, uint32_t n_before) {
  const vkf_backend_table *backend = s->session->plan_cache.backend->table;
  if (!part->n_out) return VKF_OK;
  if (s->values) {
    const size_t at = (size_t)n_before * s->width;
    if (s->output) {
      VKF_CALL(read_by_id(s, cached, dims, s->output, s->values + at));
    } else {
      const vkf_plan *plan = cached->plan;
      VKF_CALL(backend->read(cached->program, vkf_plan_find_output(plan, "top_values"), dims, s->values + at));
      VKF_CALL(backend->read(cached->program, vkf_plan_find_output(plan, "top_ids"), dims, s->top_ids + at));
      if (s->short_head) vkf_engine_short_head_ids(s->short_head, s->top_ids + at, (size_t)part->n_out * s->width);
    }
  }
  if (part->has_logits) VKF_CALL(read_logits(s, cached, dims, step, part));
  return VKF_OK;
}

/* Advances the rows of a submit that has run. */
static void move_on(vkf_steps *s, const vkf_batch_step *step, const submit *part) {
  for (uint32_t r = 0; r < part->n; r++) {
    vkf_search_row *row = &step->rows[part->first + r];
    const uint32_t n = ids_of(part, row, r), n_out = outs_of(row, n);
    row->past += n;
    row->ids += n;
    row->n -= n;
    row->n_out -= n_out;
    if (row->logits) row->logits += (size_t)n_out * s->n_vocab;
  }
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

/* Sets the ancestry: each row r continues the row of slot order[r] in the last step, or forks from that slot, whose row
 * begins in this step. */
static void reorder(vkf_steps *s, const vkf_batch_step *step) {
  const size_t stride = s->caps.keys;
  for (uint32_t r = 0; r < step->n_rows; r++) {
    const vkf_search_row *row = &step->rows[r];
    int32_t *to = s->ancestry_next + r * stride;
    if (!row->is_fork) memcpy(to, s->ancestry + s->row_of[step->order[r]] * stride, row->past * sizeof *to);
    for (uint32_t t = 0; row->is_fork && t < row->past; t++) to[t] = (int32_t)step->order[r];
    for (uint32_t t = 0; t < row->n; t++) to[row->past + t] = (int32_t)row->slot;
  }
  int32_t *swap = s->ancestry;
  s->ancestry = s->ancestry_next;
  s->ancestry_next = swap;
  for (uint32_t r = 0; r < step->n_rows; r++) s->row_of[step->rows[r].slot] = r;
}

/* Finds the next submit and its plan, with fewer ids if the device has no room for so many. */
static vkf_status prepare(vkf_steps *s, const vkf_batch_step *step, uint32_t first, submit *part,
                          const vkf_cached_plan **cached) {
  for (;;) {
    *part = cut(s, step, first);
    const vkf_status st = get_plan(s, part, cached);
    if (!st || !vkf_engine_split_helps(s->session, st, part->n_ids)) return st;
    s->most_rows = VKF_CEIL_DIV(part->n_ids, 2);
  }
}

vkf_status vkf_engine_steps_run(vkf_steps *s, const vkf_batch_step *step) {
  for (uint32_t r = 0; s->short_head && r < step->n_rows; r++) s->places[r] = step->rows[r].slot / s->each;
  if (s->short_head && s->short_head->is_stale) s->short_plan = NULL;
  if (s->short_head) VKF_CALL(vkf_engine_short_head_ready(s->short_head, s->places, step->n_rows));
  if (s->cache_rows.n) vkf_engine_cache_rows_place(&s->cache_rows);
  if (s->ancestry) reorder(s, step);
  for (uint32_t r = 0, n_out = 0; r < step->n_rows;) {
    submit part;
    const vkf_cached_plan *cached = NULL;
    VKF_CALL(prepare(s, step, r, &part, &cached));
    const vkf_dims dims = vkf_dims_make(&(vkf_sizes){.B = s->caps.B,
                                                     .S = part.n_source,
                                                     .R = part.n,
                                                     .T = part.longest,
                                                     .past = part.keys - part.longest,
                                                     .out = part.n_out,
                                                     .target_rows = part.n_ids});
    VKF_CALL(write_inputs(s, cached, &dims, step, &part));
    VKF_CALL(write_edits(s, cached, &dims, step, &part, n_out));
    VKF_CALL(vkf_engine_run_plan(&s->session->plan_cache, cached, &dims));
    VKF_CALL(read_results(s, cached, &dims, step, &part, n_out));
    move_on(s, step, &part);
    n_out += part.n_out;
    while (r < step->n_rows && !step->rows[r].n) r++;
  }
  return VKF_OK;
}

vkf_status vkf_engine_steps_plan(vkf_steps *s, uint32_t n, bool has_logits, const vkf_cached_plan **out) {
  return get_plan(s, &(submit){.n_ids = n, .longest = 1, .n_out = n, .has_logits = has_logits}, out);
}

vkf_status vkf_engine_steps_try(vkf_steps *s, uint32_t n, bool has_logits) {
  const vkf_cached_plan *cached = NULL;
  if (s->sources) VKF_CALL(get_source_plan(s, s->caps.S, &cached));
  return vkf_engine_steps_plan(s, n, has_logits, &cached);
}
