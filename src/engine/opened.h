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
  char *why;                /* there is none */
  vkf_env env;              /* of `text`; whoever has the lock listens */
  pthread_mutex_t lock;
  bool is_open; /* the lock is there */
} vkf_shared_tokenizer;

/* A tokenizer as one thread sees it. */
struct vkf_tokenizer {
  vkf_env *env;         /* gets the failures */
  vkf_session *session; /* whose thread uses it; NULL: the context's */
  vkf_shared_tokenizer *shared;
  vkf_shared_tokenizer own; /* of one that was opened; else it is a model's, which closes it */
};

/* Not changed while it is open. */
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
  _Atomic uint64_t identity; /* of its files; 0: nobody has asked yet */
  atomic_bool is_closing;    /* no session of it is made any more */
};

/* Runs a model in one thread. The lab makes sessions in memory of its own, which have only the first members. */
struct vkf_session {
  vkf_model *model; /* NULL: it was closed */
  vkf_env *env;     /* `own`; of the lab the context's */
  vkf_plan_cache plan_cache;
  uint64_t kv_cache_bytes; /* of vkf_session_params */

  vkf_env own;
  vkf_context *ctx;
  vkf_gpu_device *gpu;     /* a line to the device; NULL: ref */
  vkf_backend *backend;    /* on it */
  vkf_slots *slots;        /* NULL: there are none */
  vkf_tokenizer tokenizer; /* the model's, for this session's thread */
  pthread_mutex_t busy;    /* held during a call */
  atomic_bool is_closing;  /* its model is being closed: no call begins any more */
  uint64_t created;        /* by vkf_clock_ns() */
  vkf_session *next;       /* of the context */
};

/* A number that models of the same files have, and others do not: see vkf_model_net_identity(). The first call for a
 * model takes that time. Any thread. */
uint64_t vkf_engine_model_identity(const vkf_model *model);

/* Every public call on a session runs between these two. VKF_ERROR_ARGUMENT: inside a callback of the session, while
 * another thread uses it, or after its model was closed; then do not call end. */
vkf_status vkf_engine_session_begin(vkf_session *session, const char *call);
/* Hands *result (NULL, or it may be NULL) over to the caller. Returns `st`. */
vkf_status vkf_engine_session_end(vkf_session *session, vkf_status st, vkf_result **result);
/* The same for a call that only looks and leaves the session's message: NULL inside a callback and while another thread
 * uses the session. A closed model took all that there is to see. End it with vkf_engine_session_end(). */
vkf_session *vkf_engine_session_look(const vkf_session *session);
/* The body of a public function of a session that gives a result: `call` makes it, between begin and end. */
#define VKF_SESSION_RESULT(session, out, call)                                        \
  do {                                                                                \
    if (out) *(out) = NULL;                                                           \
    const vkf_status begun = vkf_engine_session_begin((session), __func__);           \
    if (begun) return begun;                                                          \
    const vkf_status ended = (out) ? (call) : vkf_engine_null((session)->env, "out"); \
    return vkf_engine_session_end((session), ended, (out));                           \
  } while (0)
/* Separates every session of a model from it, after the calls that are running. */
void vkf_engine_sessions_part(vkf_model *model);

/* Opens the tokenizer of a source. A source without one is no error; out->why then says which files were looked for.
 * Close it even after a failure, whose message is in `env`. */
vkf_status vkf_engine_tokenizer_open(vkf_env *env, const vkf_file_source *source, vkf_shared_tokenizer *out);
void vkf_engine_tokenizer_close(vkf_env *env, vkf_shared_tokenizer *tokenizer);
/* Takes the lock; not twice. The tokenizer is there. */
vkf_text_tokenizer *vkf_engine_tokenizer_lock(vkf_tokenizer *tokenizer);
void vkf_engine_tokenizer_unlock(vkf_tokenizer *tokenizer);
/* vkf_text_tokenizer_decode() under the lock. */
vkf_status vkf_engine_decode_ids(vkf_session *session, const int32_t *ids, size_t n, bool skip_special, vkf_text *out);

/* The folder's generation configuration, then the beginning that the target language (NULL: none) asks for, then the
 * caller's keys; later ones win. Checks the languages. Finish `out` even after a failure. */
vkf_status vkf_engine_derive_generation(vkf_session *session, const char *source_language, const char *target_language,
                                        const char *config_json, vkf_generation_config *out);

/* Ids [B][length] in [0, vocab) and length within the model's positions; `name` for messages. */
vkf_status vkf_engine_check_ids(const vkf_session *session, const char *name, const int32_t *ids, size_t B,
                                size_t length, uint32_t vocab);
/* The place behind the last end (eos_token_id) among ids [n]; 0: there is none. */
uint32_t vkf_engine_last_end(const vkf_session *session, const int32_t *ids, uint32_t n);

/* A batch of source sentences on its way through the encoder. */
typedef struct vkf_encode_input {
  uint32_t B, S;
  const int32_t *ids;     /* [B][S] */
  const int32_t *mask;    /* [B][S] of 0 and 1, NULL: all 1 */
  const int32_t *types;   /* [B][S], NULL: all 0 */
  const float *pixels;    /* of images, in the place of ids: [B][channels*height*width] */
  const uint32_t *places; /* [B]: for the cross keys of each, which begin there; NULL: 0, 1, .., at their positions */
} vkf_encode_input;
/* A rectangle of target tokens, all of which run at once. */
typedef struct vkf_decode_input {
  uint32_t R, T;
  const int32_t *ids;             /* [R][T] */
  const int32_t *mask;            /* [R][T] of 0 and 1, NULL: all 1 */
  const uint32_t *reads;          /* [R]: the token that the head reads; NULL: it reads all */
  const vkf_encode_input *source; /* of an encoder-decoder: R of them, already encoded, with places NULL */
} vkf_decode_input;
/* The tokens of a rectangle, and which of them there are. */
typedef struct vkf_token_grid {
  uint32_t rows, length;
  const int32_t *mask;   /* [rows][length], NULL: all 1 */
  const uint32_t *reads; /* [rows]: a token that is always there; NULL: none */
  bool reads_first;      /* the first one is */
} vkf_token_grid;
vkf_token_grid vkf_engine_source_grid(const vkf_session *session, const vkf_encode_input *input);
vkf_token_grid vkf_engine_target_grid(const vkf_decode_input *input);
/* Which tokens of a row become rows of a packed batch: from the first to the last that the mask has, at least one, and
 * as far as the token that a head reads. */
typedef struct vkf_token_span {
  uint32_t first, length;
} vkf_token_span;
vkf_token_span vkf_engine_token_span(const vkf_token_grid *grid, uint32_t row);
/* Whether the mask takes out tokens inside these spans, so that the plan needs the mask. */
bool vkf_engine_has_holes(const vkf_token_grid *grid);
/* Writes the spans, and ids or pixels, positions, types and mask of their tokens, and runs the ENCODE program. dims:
 * given for the rectangle B x S; becomes that of the rows. */
vkf_status vkf_engine_encode(vkf_session *session, const vkf_cached_plan *cached, vkf_dims *dims,
                             const vkf_encode_input *input);
/* The same of the DECODE program, without a token before these. The keys of row r go into slot r. */
vkf_status vkf_engine_decode(vkf_session *session, const vkf_cached_plan *cached, vkf_dims *dims,
                             const vkf_decode_input *input);

/* Which outputs a forward pass computes and reads: all, the last states alone, the logits alone, or the attention
 * weights with the last states. */
typedef enum vkf_run_output { VKF_RUN_ALL, VKF_RUN_STATES, VKF_RUN_LOGITS, VKF_RUN_ATTENTIONS } vkf_run_output;
/* vkf_session_run() without params, for such outputs. A batch that the device has no
 * memory for is split. */
vkf_status vkf_engine_run_output(vkf_session *session, const vkf_array *inputs, size_t n_inputs, vkf_run_output output,
                                 vkf_result **out);

/* Where the first of logits [n], rows of the whole vocabulary, is not finite; n: none. Minus infinity where the head's
 * own bias is that (Marian's, for the pad) is no fault: the id never comes. */
size_t vkf_engine_first_not_finite(const vkf_session *session, const float *logits, size_t n);

/* vkf_session_run(). */
vkf_status vkf_engine_run_arrays(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                 const vkf_run_params *params, vkf_result **out);

#endif
