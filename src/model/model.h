/* model: a model folder as data, and the plans that compute it.
 *
 * Owns the mapping from config.json and tensor names to one block description (src/model/internal.h; a family is a file
 * family_<name>.c) and the builder that turns the description into plans. Knows no device: weights are handed over as
 * float32 rows through vkf_weight_source. Refuses, by name, what it does not compute: unknown families, options that
 * would change results, tensors that are missing or have another dtype or shape.
 * Invariant: an open net can build every plan of its architecture, and every plan has passed vkf_plan_check().
 * Threads: as vkf_env; a built plan does not change and does not refer to its net.
 */
#ifndef VKF_MODEL_MODEL_H
#define VKF_MODEL_MODEL_H

#include <vkformer/lab.h>

#include "file/source.h"
#include "op/backend.h"

typedef struct vkf_net vkf_net;

/* Returns "encoder-decoder", "encoder" or "decoder"; NULL: there is no such architecture. */
const char *vkf_model_architecture_name(vkf_architecture architecture);

/* Strings belong to the net. With two stacks, n_heads and d_ff are the encoder's. */
typedef struct vkf_net_info {
  vkf_file_source source;
  const char *name;   /* of the source, for messages */
  const char *family; /* model_type: "marian", "transformer" */
  vkf_architecture architecture;
  uint32_t d_model, n_heads, d_ff;
  uint32_t vocab;        /* ids of the encoder, or of the only stack */
  uint32_t target_vocab; /* the width of the logits; ids of a decoder */
  uint32_t encoder_layers, decoder_layers;
  uint32_t max_positions;                           /* 0: unlimited */
  int32_t pad_id, bos_id, eos_id, decoder_start_id; /* of config.json; -1: none */
  bool has_head;                                    /* there are logits */
  uint32_t head_weight, head_bias, head_depth;      /* the weights that make them, and the width of the first;
                                                       n_weights or more: there is no bias */
  bool can_generate;                                /* the logits are a causal decoder's, and of tokens */
  bool is_pooled;                                   /* the logits are one row a sequence: [B, V] */
  bool is_span;                                     /* the logits are two a token: an answer's begin and end */
  bool is_flat;                                     /* the logits are one a token: [B,S] */
  bool reads_first;                                 /* a head reads the first token of a sequence, even a pad */
  uint32_t n_types;                                 /* of token_type_ids; 0: there are none */
  uint32_t image[3];                                /* channels, height, width of images instead of ids; 0: none */
  uint64_t n_parameters;                            /* numbers in the tensors that are used, tied ones once */
  uint64_t file_bytes;
  size_t n_unused; /* tensors of the files that nothing uses */
  const char *const *unused;
} vkf_net_info;

/* Opens a model. source: config.json and model.safetensors, or its shards; files in memory must outlive the net. Reads
 * headers, but no weights except tensors that may be tied, to compare them.
 * VKF_ERROR_FILE, VKF_ERROR_FORMAT (missing or wrong keys and tensors), VKF_ERROR_UNSUPPORTED (by name). */
vkf_status vkf_model_net_open(vkf_env *env, const vkf_file_source *source, vkf_net **out);
void vkf_model_net_close(vkf_net **net);
const vkf_net_info *vkf_model_net_info(const vkf_net *net);
/* False: there is no such attention or layer. */
bool vkf_model_net_attention(const vkf_net *net, vkf_attention_kind kind, size_t layer, vkf_attention_info *out);
/* Sets how a device stores the model, before weights and plans are made. weights: the format of matrices of matmuls and
 * of tables of ids; VKF_FORMAT_COUNT: each has the narrowest format that keeps what is in the file. All others are
 * float32. caches: the format of keys and values; VKF_FORMAT_COUNT: f16 if all those matrices have 16 bits or fewer,
 * else float32. Returns that format. */
vkf_format vkf_model_net_store(vkf_net *net, vkf_format weights, vkf_format caches);
/* Describes the weights that plans refer to by index. The source is valid until the net is closed; its load() reads the
 * files. */
void vkf_model_net_weights(vkf_net *net, vkf_weight_source *out);
/* Gives up the memory in which the files of weights are mapped, until they are read again. */
void vkf_model_net_rest(const vkf_net *net);
/* Returns a hash of config.json and of all tensors, whose bytes it reads: about 0.1 s a GB, if they are in memory. */
uint64_t vkf_model_net_identity(const vkf_net *net);

/* ---- folders of random weights (make.c) -------------------------------------------------------------------------- */

/* Makes a folder with this config.json, byte for byte, and model.safetensors with the tensors that its family claims,
 * of random numbers: vectors are ones, biases zeros, all else is nearly normal with the config's initializer_range (or
 * init_std; else 0.02) as deviation. The same configuration, seed and dtype give the same bytes. The folder appears as
 * a whole or not at all; one that exists must be empty. VKF_ERROR_ARGUMENT for a dtype that is not F32, F16 or BF16,
 * VKF_ERROR_STOPPED if on_progress asks for it. */
vkf_status vkf_model_folder_make(vkf_env *env, const char *config_path, const char *folder,
                                 const vkf_make_params *params);

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* ENCODE: source ids to the encoder's last states, in the dimensions B and S. Blocks "embed", "encoder.0" ...,
 *   "encoder.norm" (if there is a final norm), then "cross" (encoder-decoders: the cross keys and values of every
 *   decoder layer into the state) or "head" (encoders with a head, over all BS rows or the first of each sequence).
 *   Batches are packed (op.h). Inputs SPANS, CROSS_PLACES (with "cross"), IDS or PIXELS, POSITIONS and TYPES (if there
 *   are any), OUT_ROWS (if the head reads first rows), MASK (if requested: needed only if it has holes between tokens).
 * DECODE: target ids to logits or candidates, in the dimensions R, T, PAST (and B, S for the cross keys). Blocks
 *   "embed", "decoder.0" ..., "head" (those that apply of final norm, gather, logits, log-softmax, edits, top-k).
 *   A full pass is PAST 0 and T the length; a cached step is T 1. Batches are packed here, too.
 *   Inputs TARGET_SPANS, CROSS_SPANS, TARGET_IDS, TARGET_POSITIONS; if requested TARGET_MASK (needed only if it has
 *   holes between tokens), ANCESTRY, MASK (of the source, for cross-attention), OUT_ROWS, SHORT_HEAD, SHORT_MASK,
 *   EDIT_OFFSETS, EDITS. */

/* The `index` of a VKF_SLOT_STATE: the caches of a decoder layer, named "state.decoder.<layer>.self.k" and so on.
 * self: [R][kv heads][past+T][width], cross: [B][kv heads][S][width], extents at capacity: all plans that share a state
 * must be built with the same B, S, R and past+T. */
typedef enum vkf_state_part {
  VKF_STATE_SELF_K,
  VKF_STATE_SELF_V,
  VKF_STATE_CROSS_K,
  VKF_STATE_CROSS_V,
  VKF_STATE_PARTS
} vkf_state_part;
#define VKF_STATE_INDEX(layer, part) ((layer)*VKF_STATE_PARTS + (part))

/* Output names as transformers has them:
 *   encoder-decoder, ENCODE   encoder_last_hidden_state, encoder_hidden_states.N, encoder_attentions.N
 *   encoder-decoder, DECODE   decoder_hidden_states.N, decoder_attentions.N, cross_attentions.N
 *   the same without a head   last_hidden_state as well
 *   one stack                 last_hidden_state, hidden_states.N, attentions.N
 * hidden_states.0 are the embeddings, the last ones are those after the final norm (of ViT before it). A slot has one
 * name: the last of hidden_states.N is not repeated if it is the last_hidden_state (vkf_model_second_name() gives its
 * other name). States are packed rows [rows, D]; attentions are [sequences][H][queries][keys]. Projections, which
 * transformers does not output, are packed rows: encoder_projections.N, decoder_projections.N, of one stack
 * projections.N: the heads of queries, of keys and of values side by side, as the attention of layer N reads them;
 * cross_queries.N of DECODE, and cross_keys_values.N of ENCODE. With them, of a stack whose scores have a bias,
 * encoder_position_bias, decoder_position_bias or position_bias [H][distances], from the farthest key before a query
 * on; with .N where each layer has its own. */
typedef struct vkf_plan_request {
  vkf_stage stage;
  vkf_sizes capacity;     /* past: cached positions beyond T, so that a cache holds past + T; out: rows of the head */
  bool hidden_states;     /* output them, and last_hidden_state if the table above has it */
  bool last_hidden_state; /* output it alone; nothing in DECODE of an encoder-decoder with a head */
  bool layer_logits;      /* output "layer_logits.N" [rows, V]: what final norm and head make of hidden_states.N; of the
                             last layer that are the logits */
  bool attentions;        /* output them */
  bool projections;       /* output the queries, keys, values and bias of each attention */
  bool mask;              /* padding mask of the source: VKF_INPUT_MASK */
  bool target_mask;       /* padding mask of the target keys: VKF_INPUT_TARGET_MASK */
  bool ancestry;          /* beams: VKF_INPUT_ANCESTRY */
  bool gather_out;        /* the head sees the rows VKF_INPUT_OUT_ROWS; else all rows, and VKF_DIM_OUT must equal
                             their number */
  uint32_t short_head;    /* 0: the head has all its rows; else so many of them, VKF_INPUT_SHORT_HEAD and _MASK: V is
                             this number, and ids are columns */
  bool logits;            /* output "logits" [rows, V], as they leave the head, before the steps below */
  bool log_softmax;
  uint32_t max_edits; /* 0: no edits; they come after the log-softmax */
  uint32_t row_edits; /* the most of these for one row; 0: all */
  bool renormalize;   /* a log-softmax of what the edits leave */
  uint32_t top_k;     /* 0: none; else outputs "top_values" [rows, top_k] and "top_ids". At most target_vocab. If 0 and
                         there are edits or a log-softmax, their result is the output "scores" [rows, V] */
} vkf_plan_request;

/* Builds a plan. VKF_ERROR_ARGUMENT for a stage that the architecture does not have, or for sizes of 0. env: of the
 * plan; several threads may build plans of one net at once. */
vkf_status vkf_model_plan_build(const vkf_net *net, vkf_env *env, const vkf_plan_request *request, vkf_plan **out);
void vkf_model_plan_destroy(vkf_plan **plan);
/* Returns the other name of an output: "encoder_hidden_states.6" of "encoder_last_hidden_state". NULL: none. */
const char *vkf_model_second_name(const vkf_net *net, const char *output);

/* What position ids depend on: [rows][length] tokens that follow `past` cached ones. */
typedef struct vkf_model_tokens {
  vkf_stage stage;
  uint32_t rows, length, past;
  const int32_t *ids;  /* [rows][length] */
  const int32_t *mask; /* [rows][mask_stride >= past + length], 0: no token; NULL: all are */
  size_t mask_stride;
} vkf_model_tokens;
/* Writes the position ids of the tokens into out [rows][length]. */
void vkf_model_positions(const vkf_net *net, const vkf_model_tokens *tokens, int32_t *out);

typedef enum vkf_model_position_kind {
  VKF_POSITION_NONE,
  VKF_POSITION_LEARNED,
  VKF_POSITION_INTERLEAVED, /* sinusoids: even columns sines, odd columns cosines (Vaswani et al. 2017, section 3.5) */
  VKF_POSITION_HALVES,      /* the same numbers, all sines first */
  VKF_POSITION_STRETCHED,   /* halves with the exponents i / (D/2 - 1), so that the last one is 1 (tensor2tensor) */
  VKF_POSITION_ROTARY       /* queries and keys are turned; nothing is added */
} vkf_model_position_kind;

/* Fills table [n][width] with the sinusoids of the positions 0 .. n-1, computed in double. */
void vkf_model_sinusoids(vkf_model_position_kind kind, uint32_t n, uint32_t width, float *table);

#endif
