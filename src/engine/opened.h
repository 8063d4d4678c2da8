/* An opened model: what run, generate, translate and validate share. */
#ifndef VKF_ENGINE_OPENED_H
#define VKF_ENGINE_OPENED_H

#include "decode/batch.h"
#include "decode/generation_config.h"
#include "decode/logprobs.h"
#include "engine/plan_cache.h"

struct vkf_tokenizer {
  vkf_env *env;
  vkf_text_tokenizer *text;
  bool is_model_s; /* which closes it */
};

struct vkf_model {
  vkf_device *dev;
  vkf_env *env;
  vkf_net *net;
  vkf_weights *weights;
  vkf_format weight_format, cache_format; /* as asked for; VKF_FORMAT_COUNT: as the file has it */
  vkf_text_tokenizer *tokenizer;          /* NULL: the folder has none */
  char *no_tokenizer;                     /* why there is none */
  vkf_tokenizer handle;                   /* of `tokenizer` */
  vkf_generation_config generation;
  vkf_plan_cache plan_cache;
};

/* The tokenizer of a folder; a folder without one is no error, and *why (the caller's) then says what was looked for.
 */
vkf_status vkf_engine_open_tokenizer(vkf_env *env, const char *folder, vkf_text_tokenizer **out, char **why);

/* The folder's generation configuration with the beginning that the target language asks for (NULL: none), and the
 * caller's keys over both. Languages are checked. Finish `out` also after a failure. */
vkf_status vkf_engine_derive_generation(const vkf_model *model, const char *source_language,
                                        const char *target_language, const char *config_json,
                                        vkf_generation_config *out);

/* Ids [B][length] in [0, vocab) and length within the model's positions; `name` for messages. */
vkf_status vkf_engine_check_ids(const vkf_model *model, const char *name, const int32_t *ids, size_t B, size_t length,
                                uint32_t vocab);

/* A batch of source sentences on its way through the encoder. */
typedef struct vkf_encode_input {
  uint32_t B, S;
  const int32_t *ids;   /* [B][S] */
  const int32_t *mask;  /* [B][S] of 0 and 1, NULL: all 1 */
  const int32_t *types; /* [B][S], NULL: all 0 */
  const float *pixels;  /* of images, in the place of ids: [B][channels*height*width] */
} vkf_encode_input;
/* Writes ids or pixels, positions, types and mask and runs the ENCODE program. */
vkf_status vkf_engine_encode(vkf_model *model, const vkf_cached_plan *cached, const vkf_dims *dims,
                             const vkf_encode_input *input);
/* Writes a [rows][length] mask where the plan reads it, at bucket strides; NULL: all 1. */
vkf_status vkf_engine_write_mask(vkf_model *model, const vkf_cached_plan *cached, vkf_input input, const vkf_dims *dims,
                                 uint32_t rows, uint32_t length, const int32_t *mask);
/* Position ids of these tokens. */
vkf_status vkf_engine_write_positions(vkf_model *model, const vkf_cached_plan *cached, const vkf_dims *dims,
                                      const vkf_model_tokens *tokens);

/* generate on ids; the public doors add arrays and texts. */
typedef struct vkf_generate_input {
  vkf_encode_input source; /* the prompt where there is no encoder */
  const int32_t *prefix;   /* [B][n_prefix]: of the target, behind an encoder; NULL: the start id alone */
  uint32_t n_prefix;
  const vkf_generation_config *config;
  const uint64_t *lines;  /* [B]: the number of each row for random numbers; NULL: 0, 1, .. */
  uint32_t top_logprobs;  /* over 0: `logprobs` is filled, see vkf_decode_logprobs_add() */
  vkf_logprobs *logprobs; /* the caller finishes it */
  bool scores;            /* without beams, too */
  bool translate;         /* without a limit in the configuration: up to the model's positions */
  vkf_token_fn on_token;
  void *user;
} vkf_generate_input;

vkf_status vkf_engine_generate(vkf_model *model, const vkf_generate_input *input, vkf_generated *out);

/* What of its outputs a forward pass computes and reads: all of them, the last states alone, the logits alone. */
typedef enum vkf_run_output { VKF_RUN_ALL, VKF_RUN_STATES, VKF_RUN_LOGITS } vkf_run_output;
/* vkf_model_run() without params, for one output: `last_hidden_state` or `logits`. A batch that the device has no
 * memory for is split. */
vkf_status vkf_engine_run_output(vkf_model *model, const vkf_array *inputs, size_t n_inputs, vkf_run_output output,
                                 vkf_result **out);

/* vkf_model_run() and vkf_model_generate(). */
vkf_status vkf_engine_run_arrays(vkf_model *model, const vkf_array *inputs, size_t n_inputs,
                                 const vkf_run_params *params, vkf_result **out);
vkf_status vkf_engine_generate_arrays(vkf_model *model, const vkf_array *inputs, size_t n_inputs,
                                      const vkf_generate_params *params, vkf_result **out);

#endif
