/* Opened models and their sessions: what run, generate, translate and validate share. */
#ifndef VKF_ENGINE_OPENED_H
#define VKF_ENGINE_OPENED_H

#include <pthread.h>
#include <stdatomic.h>

#include "decode/generation_config.h"
#include "decode/logprobs.h"
#include "engine/plan_cache.h"
#include "engine/slots.h"

/* A tokenizer keeps scratch memory and a choice of languages, so one thread at a time uses it, under its lock. */
typedef struct vkf_shared_tokenizer {
  vkf_text_tokenizer *text; /* NULL: the folder has none */
  char *why;                /* why `text` is NULL */
  vkf_env env;              /* of `text`; failures and log lines go to the thread that has the lock */
  pthread_mutex_t lock;
  bool is_open; /* the lock was made */
} vkf_shared_tokenizer;

/* A tokenizer as one thread sees it. */
struct vkf_tokenizer {
  vkf_env *env;         /* receives the failures */
  vkf_session *session; /* whose thread uses it; NULL: the context's thread does */
  vkf_shared_tokenizer *shared;
  vkf_shared_tokenizer own; /* `shared`, if it was opened alone; else a model owns and closes `shared` */
};

/* Nothing but the atomics changes while it is open. */
struct vkf_model {
  vkf_device *dev;
  vkf_env *env; /* the context's; a session has its own */
  vkf_net *net;
  vkf_weights *weights;
  vkf_format weight_format; /* as asked for; VKF_FORMAT_COUNT: as the file has it */
  vkf_format cache_format;  /* of keys and values */
  vkf_shared_tokenizer tokenizer;
  vkf_tokenizer handle; /* of `tokenizer` for the context's thread */
  vkf_generation_config generation;
  _Atomic uint64_t identity; /* a hash of its files; 0: not computed yet */
  atomic_bool is_closing;    /* no new session is made */
};

/* Runs a model in one thread. The lab and vkf_model_describe_plan() have sessions of their own, in which only members
 * before the blank line count. */
struct vkf_session {
  vkf_model *model; /* NULL: it was closed */
  vkf_env *env;     /* `own`; in the lab's sessions the context's */
  vkf_plan_cache plan_cache;
  uint64_t kv_cache_bytes; /* of vkf_session_params */

  vkf_env own;
  vkf_context *ctx;
  vkf_gpu_device *gpu;     /* a line to the device; NULL: ref */
  vkf_backend *backend;    /* on it */
  vkf_slots *slots;        /* NULL: there are none */
  vkf_tokenizer tokenizer; /* the model's, for this session's thread */
  pthread_mutex_t busy;    /* held during a call */
  atomic_bool is_closing;  /* its model is being closed: new calls are refused */
  uint64_t created;        /* by vkf_clock_ns() */
  vkf_session *next;       /* in the context's list */
};

/* Returns a hash of the model's files, never 0. The first call for a model computes it: see vkf_model_net_identity().
 * Any thread may call it. */
uint64_t vkf_engine_model_identity(const vkf_model *model);

/* Every public call on a session runs between these two. VKF_ERROR_ARGUMENT: inside a callback of the session, while
 * another thread uses it, or after its model was closed; then do not call end. */
vkf_status vkf_engine_session_begin(vkf_session *session, const char *call);
/* Gives *result to the caller (result and *result may be NULL). Returns `st`. */
vkf_status vkf_engine_session_end(vkf_session *session, vkf_status st, vkf_result **result);
/* Begins a call that only reads, and keeps the session's message. Returns NULL inside a callback, or while another
 * thread uses the session. Works after the model was closed, but the slots are gone then. End it with
 * vkf_engine_session_end(). */
vkf_session *vkf_engine_session_look(const vkf_session *session);
/* The body of a public function of a session that returns a result, which `call` makes between begin and end. */
#define VKF_SESSION_RESULT(session, out, call)                                        \
  do {                                                                                \
    if (out) *(out) = NULL;                                                           \
    const vkf_status begun = vkf_engine_session_begin((session), __func__);           \
    if (begun) return begun;                                                          \
    const vkf_status ended = (out) ? (call) : vkf_engine_null((session)->env, "out"); \
    return vkf_engine_session_end((session), ended, (out));                           \
  } while (0)
/* Waits for the calls that are running, and detaches every session from a model that is being closed. */
void vkf_engine_sessions_part(vkf_model *model);

/* Opens the tokenizer of a source. A source without one is no error; out->why then says which files were looked for.
 * Close it even after a failure, whose message is in `env`. */
vkf_status vkf_engine_tokenizer_open(vkf_env *env, const vkf_file_source *source, vkf_shared_tokenizer *out);
void vkf_engine_tokenizer_close(vkf_env *env, vkf_shared_tokenizer *tokenizer);
/* Takes the lock, which is not recursive, and returns the tokenizer, which must exist. */
vkf_text_tokenizer *vkf_engine_tokenizer_lock(vkf_tokenizer *tokenizer);
void vkf_engine_tokenizer_unlock(vkf_tokenizer *tokenizer);
/* vkf_text_tokenizer_decode() under the lock. */
vkf_status vkf_engine_decode_ids(vkf_session *session, const int32_t *ids, size_t n, bool skip_special, vkf_text *out);

/* Makes a call's generation configuration: the folder's, then the forced_bos of the target language (NULL: none), then
 * the caller's keys; later ones win. Checks both languages. Finish `out` even after a failure. */
vkf_status vkf_engine_derive_generation(vkf_session *session, const char *source_language, const char *target_language,
                                        const char *config_json, vkf_generation_config *out);

/* Checks that ids [B][length] are in [0, vocab) and that length is within the model's positions. name: for messages. */
vkf_status vkf_engine_check_ids(const vkf_session *session, const char *name, const int32_t *ids, size_t B,
                                size_t length, uint32_t vocab);
/* Returns one more than the index of the last eos_token_id in ids [n]; 0: there is none. */
uint32_t vkf_engine_last_end(const vkf_session *session, const int32_t *ids, uint32_t n);

/* A batch of source sentences to encode. */
typedef struct vkf_encode_input {
  uint32_t B, S;
  const int32_t *ids;     /* [B][S] */
  const int32_t *mask;    /* [B][S] of 0 and 1, NULL: all 1 */
  const int32_t *types;   /* [B][S], NULL: all 0 */
  const float *pixels;    /* images instead of ids: [B][channels*height*width] */
  const uint32_t *places; /* [B]: slots for their cross keys, from key 0; NULL: slot b, at the tokens' positions */
} vkf_encode_input;
/* A rectangle of target tokens that run in one pass. */
typedef struct vkf_decode_input {
  uint32_t R, T;
  const int32_t *ids;             /* [R][T] */
  const int32_t *mask;            /* [R][T] of 0 and 1, NULL: all 1 */
  const uint32_t *reads;          /* [R]: the token that the head reads; NULL: it reads all */
  const vkf_encode_input *source; /* of an encoder-decoder: R of them, already encoded, with places NULL */
} vkf_decode_input;
/* The tokens of a rectangle, and which of them exist. */
typedef struct vkf_token_grid {
  uint32_t rows, length;
  const int32_t *mask;   /* [rows][length], NULL: all 1 */
  const uint32_t *reads; /* [rows]: a token that exists even if masked; NULL: none */
  bool reads_first;      /* the first token exists even if masked */
} vkf_token_grid;
vkf_token_grid vkf_engine_source_grid(const vkf_session *session, const vkf_encode_input *input);
vkf_token_grid vkf_engine_target_grid(const vkf_decode_input *input);
/* The tokens of a row that become rows of a packed batch: from the first to the last unmasked one, at least one token,
 * extended to the token that a head reads. */
typedef struct vkf_token_span {
  uint32_t first, length;
} vkf_token_span;
vkf_token_span vkf_engine_token_span(const vkf_token_grid *grid, uint32_t row);
/* Returns whether tokens inside these spans are masked, so that the plan needs the mask. */
bool vkf_engine_has_holes(const vkf_token_grid *grid);
/* Writes the spans and their tokens' ids or pixels, positions, types and mask, then runs the ENCODE program. dims: of
 * the rectangle B x S; BS and OUT become the number of packed rows. */
vkf_status vkf_engine_encode(vkf_session *session, const vkf_cached_plan *cached, vkf_dims *dims,
                             const vkf_encode_input *input);
/* Does the same for the DECODE program (dims RT and OUT), with no cached tokens before these. The keys of row r go into
 * slot r. */
vkf_status vkf_engine_decode(vkf_session *session, const vkf_cached_plan *cached, vkf_dims *dims,
                             const vkf_decode_input *input);

/* The outputs that a forward pass computes and reads: all, only the last states, only the logits, or the attention
 * weights and the last states. */
typedef enum vkf_run_output { VKF_RUN_ALL, VKF_RUN_STATES, VKF_RUN_LOGITS, VKF_RUN_ATTENTIONS } vkf_run_output;
/* Runs vkf_session_run() without params for these outputs. Splits a batch that the device has no memory for. */
vkf_status vkf_engine_run_output(vkf_session *session, const vkf_array *inputs, size_t n_inputs, vkf_run_output output,
                                 vkf_result **out);

/* Returns the index of the first of logits [n], rows of the whole vocabulary, that is not finite; n: none. Minus
 * infinity is allowed where the head's own bias is that (Marian's, for the pad): such an id is never chosen. */
size_t vkf_engine_first_not_finite(const vkf_session *session, const float *logits, size_t n);

/* The body of vkf_session_run(). */
vkf_status vkf_engine_run_arrays(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                 const vkf_run_params *params, vkf_result **out);

#endif
