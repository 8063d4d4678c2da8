/* embed: makes a vector of each text by pooling the last states of its tokens as the folder says (embed_config.h).
 *
 * Sums are in double, first in each part and then over the parts of a text, so that batches change nothing.
 */
#include <math.h>
#include <string.h>

#include "task/batches.h"
#include "task/embed_config.h"

typedef struct embedder {
  vkf_session *session;
  vkf_embedding_params params;
  vkf_embed_config config;
  vkf_parts parts;
  uint32_t n_before, n_behind; /* special tokens around a text */
  size_t width;                /* of a token's state */
  double *pooled;              /* [parts][poolings][width]; means are still sums */
  double *joined;              /* [texts][poolings][width] */
} embedder;

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* Counts the special tokens before and behind a text: an empty text has only these. */
static vkf_status count_special(embedder *e) {
  vkf_status st = VKF_OK;
  vkf_text_ids empty, word;
  vkf_text_ids_init(&empty, e->session->env);
  vkf_text_ids_init(&word, e->session->env);
  vkf_text_tokenizer *tokenizer = vkf_engine_tokenizer_lock(&e->session->tokenizer);
  st = vkf_text_tokenizer_encode(tokenizer, "", 0, true, &empty);
  if (!st) st = vkf_text_tokenizer_encode(tokenizer, "a", 1, true, &word);
  vkf_engine_tokenizer_unlock(&e->session->tokenizer);
  VKF_TRY(st);
  const size_t n = VKF_MIN(empty.n, word.n);
  while (e->n_before < n && empty.ids[e->n_before] == word.ids[e->n_before]) e->n_before++;
  e->n_behind = (uint32_t)empty.n - e->n_before;
  const uint32_t n_special = e->n_before + e->n_behind, most = e->config.max_tokens;
  if (most && most <= n_special)
    VKF_FAIL(e->session->env, VKF_ERROR_UNSUPPORTED,
             "expected more than %u tokens a text, of which %u are special ones, found a limit of %u", n_special,
             n_special, most);
done:
  vkf_text_ids_finish(&empty);
  vkf_text_ids_finish(&word);
  return st;
}

/* Drops excess tokens of a part, at the end of its text or (keeps_end) at the beginning. Special tokens stay. */
static void cut(const embedder *e, vkf_part *part) {
  const uint32_t most = e->parts.rules.max_ids;
  if (!most || part->n <= most) return;
  const uint32_t kept = e->parts.rules.keeps_end ? most - e->n_before : e->n_behind; /* ids that move to the front */
  memmove(part->ids + most - kept, part->ids + part->n - kept, kept * sizeof *part->ids);
  part->n = most;
}

/* Makes the parts, and adds to the result how many tokens each text has and how many of them are used. */
static vkf_status make_parts(embedder *e, const char *const *texts, size_t n, vkf_result *result) {
  const vkf_part_rules rules = {.long_texts = e->params.long_texts,
                                .skip_refused = e->params.skip_refused,
                                .takes_all = !e->params.ignore_folder_limit && e->config.max_tokens > 0,
                                .prefix = e->config.prompt,
                                .max_ids = e->config.max_tokens};
  void *has, *used;
  VKF_CALL(vkf_task_parts_make(e->session, texts, n, &rules, &e->parts));
  VKF_CALL(count_special(e));
  VKF_CALL(vkf_engine_result_add(result, "n_tokens", VKF_I32, 1, &n, &has));
  VKF_CALL(vkf_engine_result_add(result, "n_used", VKF_I32, 1, &n, &used));
  for (size_t i = 0; i < e->parts.n; i++) {
    vkf_part *part = &e->parts.at[i];
    ((int32_t *)has)[part->text] += (int32_t)part->n;
    cut(e, part);
    ((int32_t *)used)[part->text] += (int32_t)part->n;
  }
  return vkf_task_parts_report(&e->parts, result);
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

/* Joins pooled values of two spans of tokens, a before b. Means are still sums. */
static double join(vkf_pooling pooling, double a, double b) {
  switch (pooling) {
    case VKF_POOLING_MEAN:
    case VKF_POOLING_WEIGHTED_MEAN:
    case VKF_POOLING_MEAN_SQRT_LEN:
      return a + b;
    case VKF_POOLING_MAX:
      return fmax(a, b);
    default:
      return pooling == VKF_POOLING_LAST ? b : a;
  }
}

/* Returns what the pooled sum over n tokens is divided by. */
static double divisor(vkf_pooling pooling, double n) {
  if (pooling == VKF_POOLING_WEIGHTED_MEAN) return n * (n + 1) / 2;
  if (pooling == VKF_POOLING_MEAN_SQRT_LEN) return sqrt(n);
  return pooling == VKF_POOLING_MEAN ? n : 1;
}

/* Returns the number of tokens in earlier parts of the same text. */
static size_t tokens_before(const vkf_parts *parts, size_t part) {
  size_t n = 0;
  for (size_t i = part; i > 0 && parts->at[i - 1].text == parts->at[part].text; i--) n += parts->at[i - 1].n;
  return n;
}

/* Pools the states [n][width] of a part. */
static vkf_status take(void *user, size_t part, const float *states, size_t width) {
  embedder *e = user;
  const size_t before = tokens_before(&e->parts, part);
  double *out = e->pooled + part * e->config.n_poolings * width;
  for (uint32_t p = 0; p < e->config.n_poolings; p++, out += width) {
    const vkf_pooling pooling = e->config.poolings[p];
    for (uint32_t t = 0; t < e->parts.at[part].n; t++) {
      const double weight = pooling == VKF_POOLING_WEIGHTED_MEAN ? (double)(before + t + 1) : 1;
      for (size_t d = 0; d < width; d++) {
        const double x = weight * states[t * width + d];
        out[d] = t == 0 ? x : join(pooling, out[d], x);
      }
    }
  }
  return VKF_OK;
}

/* Sets out [texts][poolings][width] from the vectors of the parts. NaN: the text has no parts. */
static void join_parts(const embedder *e, const int32_t *n_used, double *out) {
  const size_t n_poolings = e->config.n_poolings, size = n_poolings * e->width;
  for (size_t i = 0; i < e->parts.n_texts * size; i++) out[i] = NAN;
  for (size_t i = 0; i < e->parts.n; i++) {
    const size_t text = e->parts.at[i].text;
    const bool is_first = i == 0 || e->parts.at[i - 1].text != text;
    double *to = out + text * size, *from = e->pooled + i * size;
    for (size_t k = 0; k < size; k++)
      to[k] = is_first ? from[k] : join(e->config.poolings[k / e->width], to[k], from[k]);
  }
  for (size_t i = 0; i < e->parts.n_texts * size; i++)
    out[i] /= divisor(e->config.poolings[i / e->width % n_poolings], n_used[i / size]);
}

static void normalize(double *x, size_t n) {
  double length = 0;
  for (size_t d = 0; d < n; d++) length += x[d] * x[d];
  for (size_t d = 0; d < n && length > 0; d++) x[d] /= sqrt(length);
}

/* Runs the dense layers, adds the vectors to the result, and normalizes them if that is asked for. *out: the result's
 * vectors. */
static vkf_status add_vectors(const embedder *e, double *vectors, vkf_result *result, double **out) {
  vkf_status st = VKF_OK;
  const size_t n = e->parts.n_texts;
  double *in = vectors, *next = NULL;
  size_t width = e->config.n_poolings * e->width;
  void *data = NULL;
  for (const vkf_dense *dense = e->config.dense; dense; dense = dense->next) {
    next = vkf_env_alloc(e->session->env, n * dense->n_out, sizeof *next);
    if (!next) VKF_TRY(VKF_ERROR_MEMORY);
    for (size_t i = 0; i < n; i++) vkf_task_dense_run(dense, in + i * width, next + i * dense->n_out);
    if (in != vectors) vkf_env_free(e->session->env, in);
    in = next;
    width = dense->n_out;
  }
  VKF_TRY(vkf_engine_result_add(result, "embeddings", VKF_F64, 2, (size_t[]){n, width}, &data));
  for (size_t i = 0; i < n * width; i++)
    if (!isfinite(in[i]) && !e->parts.skipped[i / width])
      VKF_FAIL(e->session->env, VKF_ERROR_NUMERIC, "vector of text %zu: expected finite numbers, found %g",
               e->parts.rules.first + i / width + 1, in[i]);
  memcpy(data, in, n * width * sizeof *in);
  *out = data;
  for (size_t i = 0; i < n && (e->config.normalize || e->params.normalize); i++) normalize(*out + i * width, width);
done:
  if (in != vectors) vkf_env_free(e->session->env, in);
  return st;
}

static double cosine(const double *a, const double *b, size_t n) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < n; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / sqrt(aa * bb);
}

static vkf_status add_similarity(const embedder *e, const double *vectors, vkf_result *result) {
  const size_t n = e->parts.n_texts,
               width = vkf_engine_array_find(result->arrays, result->n_arrays, "embeddings")->shape[1];
  void *data = NULL;
  vkf_status st = vkf_engine_result_add(result, "similarity", VKF_F64, 2, (size_t[]){n, n}, &data);
  double *out = data;
  for (size_t i = 0; i < n && st == VKF_OK; i++)
    for (size_t j = 0; j < n; j++) out[i * n + j] = cosine(vectors + i * width, vectors + j * width, width);
  return st;
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */

static vkf_status embed(embedder *e, const char *const *texts, size_t n, vkf_result *result) {
  const vkf_net_info *info = vkf_model_net_info(e->session->model->net);
  double *vectors = NULL;
  e->width = info->d_model;
  VKF_CALL(
      vkf_task_embed_config_read(e->session->env, &info->source, e->params.pooling, e->params.similarity, &e->config));
  const size_t size = e->config.n_poolings * e->width; /* numbers that the poolings of a text give */
  if (e->config.dense && e->config.dense->n_in != size)
    return vkf_env_fail(e->session->env, VKF_ERROR_FORMAT,
                        "%s: expected a Dense for %zu numbers, as %s, found one for %u", info->name, size,
                        e->config.n_poolings > 1 ? "the poolings give" : "the model has", e->config.dense->n_in);
  if (e->config.width && e->config.width != info->d_model)
    return vkf_env_fail(e->session->env, VKF_ERROR_UNSUPPORTED,
                        "%s: expected a pooling of %u numbers, as the model has, found %u", info->name, info->d_model,
                        e->config.width);
  VKF_CALL(make_parts(e, texts, n, result));
  e->pooled = vkf_env_alloc(e->session->env, e->parts.n * size, sizeof *e->pooled);
  if (!e->pooled) return VKF_ERROR_MEMORY;
  const vkf_batches batches = {&e->parts, VKF_RUN_STATES, take, e};
  VKF_CALL(vkf_task_batches_run(&batches));
  e->joined = vkf_env_alloc(e->session->env, n * size, sizeof *e->joined);
  if (!e->joined) return VKF_ERROR_MEMORY;
  join_parts(e, vkf_engine_array_find(result->arrays, result->n_arrays, "n_used")->data, e->joined);
  VKF_CALL(add_vectors(e, e->joined, result, &vectors));
  return e->params.similarity ? add_similarity(e, vectors, result) : VKF_OK;
}

static vkf_status embed_texts(vkf_session *session, const char *const *texts, size_t n,
                              const vkf_embedding_params *params, vkf_result **out) {
  vkf_status st = VKF_OK;
  embedder e = {.session = session};
  vkf_result *result = NULL;
  VKF_TRY(VKF_PARAMS_READ(session->env, vkf_embedding_params, params, &e.params));
  VKF_TRY(vkf_engine_result_create(session->env, &result));
  VKF_TRY(embed(&e, texts, n, result));
done:
  vkf_env_free(session->env, e.pooled);
  vkf_env_free(session->env, e.joined);
  vkf_task_parts_finish(&e.parts);
  vkf_task_embed_config_finish(&e.config);
  if (st) vkf_engine_result_destroy(&result);
  *out = result;
  return st;
}

vkf_status vkf_session_embed(vkf_session *session, const char *const *texts, size_t n,
                             const vkf_embedding_params *params, vkf_result **out) {
  VKF_SESSION_RESULT(session, out, embed_texts(session, texts, n, params, out));
}
