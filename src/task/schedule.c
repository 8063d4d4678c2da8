/* schedule: see schedule.h. */
#include "task/schedule.h"

#include "engine/batch_split.h"

/* Most rows (requests times beams) of a step: enough to fill a small GPU, few enough for the caches of CPU drivers. On
 * those, more than MOST_SEATS requests gained nothing. */
enum { STEP_ROWS = 128, MOST_SEATS = 64 };
/* More gain nothing on the scalar path, which takes memory for all seats. */
enum { MOST_SEATS_OF_REF = 8 };

typedef struct queue {
  const vkf_schedule *s;
  vkf_session *session;
  uint32_t n_seats;          /* most requests that run together */
  vkf_generation generation; /* n_seats 0: not made yet */
  vkf_request *requests;     /* [n_seats] */
  bool *runs;                /* [n_seats]: a request runs in the seat */
  uint32_t n_running;
  vkf_request waiting; /* the next one, while has_waiting */
  bool has_waiting, is_stopped;
  uint32_t *seats;          /* [n], room for n_seats: those that get a request now */
  vkf_search_input *inputs; /* [n]: the inputs of these requests */
  uint32_t n;
} queue;

static bool has_encoder(const queue *q) {
  return vkf_model_net_info(q->session->model->net)->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
}

static uint32_t seats_of(const queue *q) {
  return q->generation.batch.n_seats;
}

static bool is_over(const queue *q) {
  return q->s->is_stopped && *q->s->is_stopped;
}

/* Returns the parameters of seats that hold this request. */
static vkf_generation_params need_of(const queue *q, const vkf_request *request) {
  const vkf_search_input *in = &request->input;
  const uint32_t n_prompt = in->prompt ? in->n_prompt : 1;
  return (vkf_generation_params){
      .config = q->s->config,
      .limit = vkf_engine_length_limit(q->session, q->s->config, q->s->translates, q->s->ends_with_positions, n_prompt),
      .n_source = in->source ? in->n_source : n_prompt,
      .top_logprobs = q->s->top_logprobs,
      .shortlist = q->s->shortlist,
      .has_holes = q->s->has_holes,
      .scores = q->s->scores};
}

static bool fits(const queue *q, const vkf_request *request) {
  const vkf_generation_params need = need_of(q, request), *has = &q->generation.params;
  return seats_of(q) && need.limit <= has->limit && need.n_source <= has->n_source;
}

/* Drops a request that failed with `st`; returns `st` if the caller does not accept that. */
static vkf_status refuse(queue *q, const vkf_request *request, vkf_status st, vkf_skip_reason reason) {
  if (!q->s->refuse || q->s->refuse(q->s->user, request, reason)) return st;
  vkf_env_clear(q->session->env);
  return VKF_OK;
}

/* Makes q->n_seats seats. halves: half as many, repeatedly, while there is no memory for them. */
static vkf_status try_seats(queue *q, vkf_generation_params params, bool halves) {
  for (params.n_seats = q->n_seats;; params.n_seats /= 2) {
    vkf_engine_generation_finish(&q->generation);
    const vkf_status st = vkf_engine_generation_init(&q->generation, q->session, &params);
    if (!st) return VKF_OK;
    vkf_engine_generation_finish(&q->generation);
    if (!halves || !vkf_engine_split_helps(q->session, st, params.n_seats)) return st;
  }
}

/* Makes seats for the request that waits: all of them, large enough for the longest that will come, or else as many of
 * its own size as there is memory for. Refuses the request if not even one fits. */
static vkf_status make_seats(queue *q) {
  vkf_env *env = q->session->env;
  vkf_request longest = q->waiting;
  uint32_t *n = has_encoder(q) ? &longest.input.n_source : &longest.input.n_prompt;
  *n = VKF_MAX(*n, q->s->n_longest);
  vkf_generation_params need = need_of(q, &longest);
  if (seats_of(q)) { /* never smaller than before, or two kinds of requests would remake them in turns */
    need.limit = VKF_MAX(need.limit, q->generation.params.limit);
    need.n_source = VKF_MAX(need.n_source, q->generation.params.n_source);
  }
  vkf_status st = try_seats(q, need, false);
  if (!st || !env->too_large) return st;
  vkf_env_clear(env);
  st = try_seats(q, need_of(q, &q->waiting), true);
  if (!st || !env->too_large) return st;
  q->has_waiting = false;
  return refuse(q, &q->waiting, st, VKF_SKIP_MEMORY);
}

/* Asks for the next request, unless one waits, and checks its ids. */
static vkf_status get_next(queue *q) {
  const vkf_net_info *info = vkf_model_net_info(q->session->model->net);
  const vkf_search_input *in = &q->waiting.input;
  if (q->has_waiting || q->is_stopped) return VKF_OK;
  VKF_CALL(q->s->next(q->s->user, &q->waiting, &q->has_waiting));
  if (is_over(q)) q->has_waiting = false;
  if (!q->has_waiting) return VKF_OK;
  if (in->source) VKF_CALL(vkf_engine_check_ids(q->session, "source", in->source, 1, in->n_source, info->vocab));
  if (in->n_pull) VKF_CALL(vkf_engine_check_ids(q->session, "prefix", in->pull, 1, in->n_pull, info->target_vocab));
  if (in->prompt) VKF_CALL(vkf_engine_check_ids(q->session, "prompt", in->prompt, 1, in->n_prompt, info->target_vocab));
  return VKF_OK;
}

/* Copies the sources of the requests that get a seat now into a rectangle. The caller frees *numbers. */
static vkf_status gather_sources(queue *q, vkf_encode_input *out, int32_t **numbers) {
  uint32_t S = 0;
  for (uint32_t i = 0; i < q->n; i++) S = VKF_MAX(S, q->inputs[i].n_source);
  const size_t n = (size_t)q->n * S;
  int32_t *ids = *numbers = vkf_env_alloc(q->session->env, 2 * n, sizeof *ids);
  if (!ids) return VKF_ERROR_MEMORY;
  int32_t *mask = ids + n;
  for (size_t i = 0; i < n; i++) {
    const vkf_search_input *in = &q->inputs[i / S];
    const int32_t *its_mask = q->requests[q->seats[i / S]].source_mask;
    const bool has_id = i % S < in->n_source;
    mask[i] = has_id && (!its_mask || its_mask[i % S]);
    ids[i] = has_id ? in->source[i % S] : 0;
  }
  *out = (vkf_encode_input){.B = q->n, .S = S, .ids = ids, .mask = mask};
  return VKF_OK;
}

/* Returns whether to admit requests now. With an encoder they wait until a quarter of the seats is empty, because one
 * run of the encoder for several requests is more efficient. */
static bool is_worth_it(const queue *q) {
  return !q->n_running || !has_encoder(q) || 4 * (seats_of(q) - q->n_running) >= seats_of(q);
}

/* Gives the empty seats to requests, and makes larger seats if a request needs them and all seats are empty. */
static vkf_status admit(queue *q) {
  vkf_status st = VKF_OK;
  int32_t *numbers = NULL;
  vkf_encode_input source;
  q->n = 0;
  if (!is_worth_it(q)) goto done;
  for (uint32_t seat = 0; seat < seats_of(q) || !q->n_running;) {
    if (q->n_running && q->runs[seat]) {
      seat++;
      continue;
    }
    VKF_TRY(get_next(q));
    if (!q->has_waiting) break;
    if (!fits(q, &q->waiting)) {
      if (q->n_running) break;
      VKF_TRY(make_seats(q));
      continue;
    }
    q->waiting.input.max_length = need_of(q, &q->waiting).limit;
    q->inputs[q->n] = q->waiting.input;
    q->seats[q->n++] = seat;
    q->requests[seat] = q->waiting;
    q->runs[seat] = true;
    q->n_running++;
    q->has_waiting = false;
    seat++;
  }
  if (!q->n) goto done;
  if (has_encoder(q)) VKF_TRY(gather_sources(q, &source, &numbers));
  VKF_TRY(vkf_engine_generation_put(&q->generation, q->n, q->seats, q->inputs, numbers ? &source : NULL));
done:
  vkf_env_free(q->session->env, numbers);
  return st;
}

/* Calls on_beams with the candidates of the last step. */
static void tell_of_beams(queue *q) {
  const vkf_batch *batch = &q->generation.batch;
  for (uint32_t i = 0; q->s->on_beams && batch->each > 1 && i < batch->n_live && !q->is_stopped; i++) {
    const uint32_t seat = batch->live[i] / batch->copies, copy = batch->live[i] % batch->copies;
    if (vkf_decode_batch_failure(batch, seat)) continue;
    const vkf_search *search = &batch->searches[batch->live[i]];
    for (uint32_t g = 0; g < search->n_groups && !q->is_stopped; g++) {
      const vkf_beams *beams = &search->groups[g];
      if (beams->n_candidates)
        q->is_stopped = q->s->on_beams(q->s->user, &q->requests[seat], copy * search->n_groups + g, beams->candidates,
                                       beams->n_candidates) == VKF_ANSWER_STOP;
    }
  }
}

/* Calls on_beams and on_token for the last step, and stops what they ask to stop. */
static void tell(queue *q) {
  vkf_batch *batch = &q->generation.batch;
  const uint32_t n = batch->each > 1 ? VKF_MIN(batch->n_live, 1) : batch->n_live;
  tell_of_beams(q);
  for (uint32_t i = 0; q->s->on_token && i < n && !q->is_stopped; i++) {
    const uint32_t seat = batch->live[i] / batch->copies, copy = batch->live[i] % batch->copies;
    const bool is_absent = batch->each == 1 && batch->got[i] == VKF_NO_TOKEN; /* with beams no search has a new id */
    if (is_absent || vkf_decode_batch_failure(batch, seat)) continue;
    const vkf_answer answer = q->s->on_token(q->s->user, &q->requests[seat], copy, batch->got[i]);
    if (answer == VKF_ANSWER_END) vkf_decode_batch_stop_seat(batch, seat);
    q->is_stopped = answer == VKF_ANSWER_STOP;
  }
  if (q->is_stopped) vkf_decode_batch_stop(batch);
}

static vkf_status take_results(queue *q, uint32_t seat) {
  const vkf_batch *batch = &q->generation.batch;
  vkf_generated results = {0};
  vkf_status st = vkf_decode_batch_result(batch, seat, 1, &results);
  if (!st) st = q->s->take(q->s->user, &q->requests[seat], &results, &q->generation.logprobs, seat * batch->copies);
  vkf_decode_generated_finish(&results);
  return st;
}

/* Takes the results of the seats that are done. */
static vkf_status take(queue *q) {
  vkf_status st = VKF_OK;
  const vkf_batch *batch = &q->generation.batch;
  for (uint32_t seat = 0; seat < batch->n_seats && !st && !is_over(q); seat++) {
    if (!q->runs[seat] || !vkf_decode_batch_seat_is_done(batch, seat)) continue;
    q->runs[seat] = false;
    q->n_running--;
    st = vkf_engine_generation_failure(&q->generation, seat);
    st = st ? refuse(q, &q->requests[seat], st, VKF_SKIP_FAILED) : take_results(q, seat);
  }
  return st;
}

static uint32_t count_seats(const vkf_schedule *s) {
  const uint32_t fits = VKF_MIN(VKF_MAX(STEP_ROWS / vkf_decode_batch_slots(s->config, 1), 1), MOST_SEATS);
  const size_t most = VKF_MIN(s->batch_size ? s->batch_size : fits, VKF_MOST_TOGETHER);
  const size_t come = s->n_requests ? s->n_requests : s->session->gpu ? most : MOST_SEATS_OF_REF;
  return (uint32_t)VKF_MIN(most, come);
}

vkf_status vkf_task_schedule_run(const vkf_schedule *s) {
  vkf_status st = VKF_OK;
  vkf_env *env = s->session->env;
  queue q = {.s = s, .session = s->session, .n_seats = count_seats(s)};
  q.requests = vkf_env_alloc(env, q.n_seats, sizeof *q.requests);
  q.runs = vkf_env_alloc(env, q.n_seats, sizeof *q.runs);
  q.seats = vkf_env_alloc(env, q.n_seats, sizeof *q.seats);
  q.inputs = vkf_env_alloc(env, q.n_seats, sizeof *q.inputs);
  if (!q.requests || !q.runs || !q.seats || !q.inputs) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(vkf_engine_generation_check(s->session, s->config));
  if ((s->config->prefix_bias_beta > 0 || s->config->coverage_penalty > 0) && !s->translates)
    VKF_FAIL(
        env, VKF_ERROR_UNSUPPORTED,
        "\"prefix_bias_beta\" and \"coverage_penalty\": expected texts to translate, which have beginnings that can "
        "pull, and sources");
  for (;;) {
    VKF_TRY(admit(&q));
    if (!q.n_running || is_over(&q)) break;
    VKF_TRY(vkf_engine_generation_step(&q.generation));
    tell(&q);
    VKF_TRY(take(&q));
    if (is_over(&q)) break;
  }
done:
  vkf_engine_generation_finish(&q.generation);
  vkf_env_free(env, q.inputs);
  vkf_env_free(env, q.seats);
  vkf_env_free(env, q.runs);
  vkf_env_free(env, q.requests);
  return st;
}
