/* score: log-probabilities of given translations: one forward pass per batch of pairs, which is fed the targets. */
#include "decode/logprobs.h"
#include "task/parts.h"

enum { BATCH_ROWS = 16 };

typedef struct scorer {
  vkf_session *session;
  vkf_parts sources, targets;
  vkf_generation_config config;
  int32_t start; /* the id before every target */
  size_t longest;
  vkf_result *result;
  int32_t *ids;    /* [n][longest] */
  float *logprobs; /* [n][longest] */
  double *sums;    /* [n] */
} scorer;

static vkf_status check(const scorer *s) {
  const vkf_session *session = s->session;
  const vkf_net_info *info = vkf_model_net_info(session->model->net);
  if (info->architecture != VKF_ARCHITECTURE_ENCODER_DECODER || !info->can_generate)
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED,
                        "expected an encoder-decoder with a language model head to score with, found %s (family %s)",
                        vkf_model_architecture_name(info->architecture), info->family);
  if (s->config.forced_bos != VKF_NO_TOKEN)
    return vkf_env_fail(session->env, VKF_ERROR_UNSUPPORTED,
                        "expected a model without languages: how the target of one with languages begins is not known");
  if (s->start == VKF_NO_TOKEN)
    return vkf_env_fail(session->env, VKF_ERROR_ARGUMENT,
                        "generation configuration: expected decoder_start_token_id or bos_token_id, found neither");
  return VKF_OK;
}

/* Scores pairs [first, first + n), n <= BATCH_ROWS. */
static vkf_status score_batch(scorer *s, size_t first, size_t n) {
  vkf_status st = VKF_OK;
  vkf_env *env = s->session->env;
  const vkf_part *sources = &s->sources.at[first], *targets = &s->targets.at[first];
  const vkf_net_info *info = vkf_model_net_info(s->session->model->net);
  const size_t vocab = info->target_vocab;
  size_t S = 1, T = 1;
  vkf_result *result = NULL;
  for (size_t r = 0; r < n; r++) {
    S = VKF_MAX(S, sources[r].n);
    T = VKF_MAX(T, targets[r].n);
  }
  int32_t *numbers = vkf_env_alloc(env, 2 * n * (S + T), sizeof *numbers);
  if (!numbers) VKF_TRY(VKF_ERROR_MEMORY);
  int32_t *ids = numbers, *mask = ids + n * S, *target = mask + n * S, *target_mask = target + n * T;
  for (size_t i = 0; i < n * S; i++) {
    const vkf_part *part = &sources[i / S];
    mask[i] = i % S < part->n;
    ids[i] = mask[i] ? part->ids[i % S] : VKF_MAX(info->pad_id, 0);
  }
  for (size_t i = 0; i < n * T; i++) {
    const vkf_part *part = &targets[i / T];
    target_mask[i] = i % T < part->n;
    target[i] = i % T == 0 ? s->start : part->ids[VKF_MIN(i % T - 1, part->n - 1)];
  }
  const vkf_array inputs[] = {{"input_ids", VKF_I32, 2, {n, S}, ids},
                              {"attention_mask", VKF_I32, 2, {n, S}, mask},
                              {"decoder_input_ids", VKF_I32, 2, {n, T}, target},
                              {"decoder_attention_mask", VKF_I32, 2, {n, T}, target_mask}};
  VKF_TRY(vkf_engine_run_output(s->session, inputs, VKF_COUNT(inputs), VKF_RUN_LOGITS, &result));
  const vkf_array *logits = vkf_engine_array_find(result->arrays, result->n_arrays, "logits");
  for (size_t r = 0; r < n; r++)
    for (size_t t = 0; t < targets[r].n; t++) {
      const float *row = (const float *)logits->data + (r * T + t) * vocab;
      const int32_t id = targets[r].ids[t];
      float top;
      const double all = vkf_decode_log_sum(row, vocab, &top) + (double)top, logprob = row[id] - all;
      s->ids[(first + r) * s->longest + t] = id;
      s->logprobs[(first + r) * s->longest + t] = (float)logprob;
      s->sums[first + r] += logprob;
    }
done:
  vkf_env_free(env, numbers);
  vkf_engine_result_destroy(&result);
  return st;
}

static vkf_status make_parts(scorer *s, const char *const *texts, size_t n, bool are_targets, vkf_parts *out) {
  const vkf_part_rules rules = {.long_texts = VKF_LONG_REFUSE, .are_targets = are_targets};
  const vkf_status st = vkf_task_parts_make(s->session, texts, n, &rules, out);
  if (st) vkf_env_prefix(s->session->env, st, are_targets ? "target " : "source ");
  return st;
}

/* Checks all ids of targets: the last one is not fed, but it is an index into the logits. */
static vkf_status check_targets(const scorer *s) {
  const uint32_t vocab = vkf_model_net_info(s->session->model->net)->target_vocab;
  for (size_t i = 0; i < s->targets.n; i++)
    for (uint32_t t = 0; t < s->targets.at[i].n; t++)
      if (s->targets.at[i].ids[t] < 0 || (uint32_t)s->targets.at[i].ids[t] >= vocab)
        return vkf_env_fail(s->session->env, VKF_ERROR_ARGUMENT,
                            "target text %zu: expected ids below the vocabulary's size %u, found %d", i + 1, vocab,
                            (int)s->targets.at[i].ids[t]);
  return VKF_OK;
}

static vkf_status score(scorer *s, const char *const *sources, const char *const *targets, size_t n,
                        const char *config_json) {
  void *data = NULL;
  VKF_CALL(vkf_engine_derive_generation(s->session, NULL, NULL, config_json, &s->config));
  s->start = vkf_decode_generation_start(&s->config);
  VKF_CALL(check(s));
  VKF_CALL(make_parts(s, sources, n, false, &s->sources));
  VKF_CALL(make_parts(s, targets, n, true, &s->targets));
  VKF_CALL(check_targets(s));
  for (size_t i = 0; i < n; i++) s->longest = VKF_MAX(s->longest, s->targets.at[i].n);
  VKF_CALL(vkf_engine_result_create(s->session->env, &s->result));
  VKF_CALL(vkf_engine_result_add(s->result, "ids", VKF_I32, 2, (size_t[]){n, s->longest}, &data));
  s->ids = data;
  for (size_t i = 0; i < n * s->longest; i++) s->ids[i] = -1;
  VKF_CALL(vkf_engine_result_add(s->result, "logprobs", VKF_F32, 2, (size_t[]){n, s->longest}, &data));
  s->logprobs = data;
  VKF_CALL(vkf_engine_result_add(s->result, "scores", VKF_F64, 1, &n, &data));
  s->sums = data;
  for (size_t first = 0; first < n; first += BATCH_ROWS)
    VKF_CALL(score_batch(s, first, VKF_MIN((size_t)BATCH_ROWS, n - first)));
  return VKF_OK;
}

static vkf_status score_texts(vkf_session *session, const char *const *sources, const char *const *targets, size_t n,
                              const char *config_json, vkf_result **out) {
  scorer s = {.session = session};
  const vkf_status st = score(&s, sources, targets, n, config_json);
  vkf_task_parts_finish(&s.sources);
  vkf_task_parts_finish(&s.targets);
  vkf_decode_generation_finish(&s.config);
  if (st) vkf_engine_result_destroy(&s.result);
  *out = s.result;
  return st;
}

vkf_status vkf_session_score(vkf_session *session, const char *const *sources, const char *const *targets, size_t n,
                             const char *config_json, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, score_texts(session, sources, targets, n, config_json, out));
}
