/* generate: see generate.h. Rows take seats (schedule.h): when one is done, the next row gets its seat. */
#include "task/generate.h"

#include <math.h>

#include "task/generate_inputs.h"
#include "task/schedule.h"
#include "task/sequences.h"

typedef struct generator {
  vkf_session *session;
  vkf_generate_params params;
  vkf_generation_config config;
  vkf_generate_arrays in;
  vkf_arena arena;
  vkf_task_sequence *sequences; /* [rows][each]: results */
  size_t each, n_begun;
  bool has_encoder, is_stopped;
} generator;

static vkf_encode_input source_of(const generator *g) {
  return (vkf_encode_input){
      .B = (uint32_t)g->in.shape[0], .S = (uint32_t)g->in.shape[1], .ids = g->in.ids, .mask = g->in.mask};
}

static uint32_t prompt_of(const generator *g) {
  return (uint32_t)(!g->has_encoder ? g->in.shape[1] : g->in.prefix_ids ? g->in.prefix[1] : 1);
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Refuses rows without a token: nothing could follow. */
static vkf_status check_rows(const generator *g) {
  const size_t S = g->in.shape[1];
  for (size_t r = 0; g->in.mask && r < g->in.shape[0]; r++) {
    bool has_token = false;
    for (size_t i = 0; i < S; i++) has_token |= g->in.mask[r * S + i] != 0;
    if (!has_token)
      return vkf_env_fail(g->session->env, VKF_ERROR_ARGUMENT,
                          "row %zu: expected at least one token, found an attention_mask of zeros, or nothing but pads",
                          r);
  }
  return VKF_OK;
}

static vkf_status check_input(const generator *g) {
  const vkf_net_info *info = vkf_model_net_info(g->session->model->net);
  VKF_CALL(vkf_engine_generation_check(g->session, &g->config));
  VKF_CALL(vkf_engine_check_ids(g->session, "input_ids", g->in.ids, g->in.shape[0], g->in.shape[1],
                                g->has_encoder ? info->vocab : info->target_vocab));
  return check_rows(g);
}

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

static vkf_status next(void *user, vkf_request *out, bool *there) {
  generator *g = user;
  const vkf_generate_params *p = &g->params;
  const size_t row = g->n_begun, at = row * g->in.shape[1];
  const int32_t *mask = g->in.mask ? g->in.mask + at : NULL;
  *there = row < g->in.shape[0];
  if (!*there) return VKF_OK;
  *out = (vkf_request){.user = g->sequences + row * g->each,
                       .number = row,
                       .input = {.n_prompt = prompt_of(g), .line = p->lines ? p->lines[row] : row + p->first_line}};
  if (g->has_encoder) {
    out->input.source = g->in.ids + at;
    out->input.n_source = (uint32_t)g->in.shape[1];
    out->input.prompt = g->in.prefix_ids ? g->in.prefix_ids + row * g->in.prefix[1] : NULL;
    out->source_mask = mask;
  } else {
    out->input.prompt = g->in.ids + at;
    out->input.mask = mask;
  }
  g->n_begun++;
  return VKF_OK;
}

static vkf_answer on_token(void *user, const vkf_request *request, uint32_t copy, int32_t token) {
  generator *g = user;
  const size_t first = g->config.num_beams > 1 ? 0 : vkf_decode_batch_slots(&g->config, (uint32_t)request->number);
  VKF_CALLBACK(g->session->env, g->is_stopped = g->params.on_token(g->params.user, first + copy, token) != 0);
  return g->is_stopped ? VKF_ANSWER_STOP : VKF_ANSWER_CONTINUE;
}

static vkf_answer on_beams(void *user, const vkf_request *request, uint32_t search,
                           const vkf_beam_candidate *candidates, uint32_t n) {
  generator *g = user;
  VKF_CALLBACK(g->session->env,
               g->is_stopped = g->params.on_beams(g->params.user, request->number, search, candidates, n) != 0);
  return g->is_stopped ? VKF_ANSWER_STOP : VKF_ANSWER_CONTINUE;
}

static vkf_status take(void *user, const vkf_request *request, const vkf_generated *results,
                       const vkf_logprobs *logprobs, uint32_t first_row) {
  generator *g = user;
  for (uint32_t r = 0; r < g->each; r++) {
    const vkf_task_sequence_source source = {&g->config, results, logprobs, r, first_row + r, .n_prompt = prompt_of(g)};
    VKF_CALL(vkf_task_sequence_take(&g->arena, &source, (vkf_task_sequence *)request->user + r));
  }
  return VKF_OK;
}

/* Names a row that failed. Rows are counted from 0, as in "input_ids[0,3] is ..."; texts from 1. */
static vkf_status refuse(void *user, const vkf_request *request, vkf_skip_reason reason) {
  const generator *g = user;
  if (reason != VKF_SKIP_FAILED) return VKF_ERROR_ARGUMENT; /* memory: all rows have the same size */
  return vkf_env_prefix(g->session->env, VKF_ERROR_ARGUMENT, "row %zu: ", request->number);
}

static vkf_status run(generator *g) {
  const vkf_encode_input source = source_of(g);
  const vkf_token_grid grid = vkf_engine_source_grid(g->session, &source);
  return vkf_task_schedule_run(&(vkf_schedule){.session = g->session,
                                               .config = &g->config,
                                               .n_requests = source.B,
                                               .batch_size = g->params.batch_size,
                                               .n_longest = source.S,
                                               .top_logprobs = g->params.top_logprobs,
                                               .has_holes = g->has_encoder && vkf_engine_has_holes(&grid),
                                               .shortlist = g->params.shortlist,
                                               .scores = g->params.scores,
                                               .next = next,
                                               .on_token = g->params.on_token ? on_token : NULL,
                                               .on_beams = g->params.on_beams ? on_beams : NULL,
                                               .take = take,
                                               .refuse = refuse,
                                               .user = g});
}

/* ---- the public function ----------------------------------------------------------------------------------------- */

static vkf_status add_results(const generator *g, vkf_result *result) {
  const size_t rows = g->in.shape[0] * g->each;
  const uint32_t n_vocab = vkf_model_net_info(g->session->model->net)->target_vocab;
  for (size_t i = g->n_begun * g->each; i < rows; i++) g->sequences[i].score = NAN;
  return vkf_task_sequences_add(g->sequences, rows, vkf_decode_search_fill(&g->config),
                                vkf_decode_search_scores(&g->config, g->params.scores),
                                VKF_MIN(g->params.top_logprobs, n_vocab), result);
}

vkf_status vkf_task_generate(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                             const vkf_generate_params *params, vkf_result **out) {
  if (n_inputs && !inputs) return vkf_engine_null(session->env, "inputs");
  vkf_status st = VKF_OK;
  generator g = {.session = session};
  *out = NULL;
  vkf_env_clear(session->env);
  VKF_CALL(VKF_PARAMS_READ(session->env, vkf_generate_params, params, &g.params));
  vkf_arena_init(&g.arena, session->env);
  g.has_encoder = vkf_model_net_info(session->model->net)->architecture == VKF_ARCHITECTURE_ENCODER_DECODER;
  VKF_TRY(vkf_engine_derive_generation(session, g.params.source_language, g.params.target_language,
                                       g.params.config_json, &g.config));
  g.each = VKF_MAX(g.config.num_return_sequences, 1);
  VKF_TRY(vkf_task_generate_arrays_init(session, &g.config, inputs, n_inputs, &g.in));
  VKF_TRY(check_input(&g));
  g.sequences = vkf_arena_alloc(&g.arena, g.in.shape[0] * g.each, sizeof *g.sequences);
  if (!g.sequences) VKF_TRY(VKF_ERROR_MEMORY);
  VKF_TRY(run(&g));
  VKF_TRY(vkf_engine_result_create(session->env, out));
  VKF_TRY(add_results(&g, *out));
  if (g.is_stopped) st = vkf_env_fail(session->env, VKF_ERROR_STOPPED, "the token callback asked to stop");
done:
  if (st && st != VKF_ERROR_STOPPED) vkf_engine_result_destroy(out);
  vkf_task_generate_arrays_finish(session->env, &g.in);
  vkf_arena_finish(&g.arena);
  vkf_decode_generation_finish(&g.config);
  return st;
}

vkf_status vkf_session_generate(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                const vkf_generate_params *params, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, vkf_task_generate(session, inputs, n_inputs, params, out));
}
