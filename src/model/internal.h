/* internal: the block description that every family maps to, and what the files of this room share; not for others.
 *
 * A family is one function vkf_model_map_<name>(): it reads config.json, fills the stacks and the head of the net, and
 * claims every tensor by name. It has no loop over nodes and no numbers of its own: plan.c and layers.c read only this.
 */
#ifndef VKF_MODEL_INTERNAL_H
#define VKF_MODEL_INTERNAL_H

#include "file/json.h"
#include "file/safetensors.h"
#include "model/model.h"

/* ---- the block description --------------------------------------------------------------------------------------- */

#define VKF_NO_WEIGHT UINT32_MAX

/* Indices into the net's weights; VKF_NO_WEIGHT: absent. */
typedef struct vkf_model_linear {
  uint32_t weight, bias; /* [N,K], [N] */
} vkf_model_linear;

/* Layer norms may have neither scale nor shift. */
typedef struct vkf_model_norm {
  uint32_t weight, bias; /* [D] */
} vkf_model_norm;

typedef struct vkf_model_attention {
  vkf_model_linear q;  /* self-attention: rows of queries, keys and values; cross-attention: queries */
  vkf_model_linear kv; /* cross-attention only: keys and values */
  vkf_model_linear out;
  vkf_model_norm norm;
  uint32_t head_norm; /* of the heads of queries and keys, where the stack has them: [(H + Hkv) K] */
} vkf_model_attention;

typedef struct vkf_model_layer {
  vkf_model_attention self, cross; /* cross: where the stack has cross-attention */
  vkf_model_linear ffn_in;         /* [F,D]; gated: the rows of the gate, then those that it is multiplied with */
  vkf_model_linear ffn_out;
  vkf_model_norm ffn_norm;
  uint32_t window;   /* the most keys that a query attends to; 0: all */
  uint32_t relative; /* biases of scores by distance of this layer: as vkf_model_relative.table */
} vkf_model_layer;

/* A position id is the number of a token among these tokens of its row, plus the offset of its stack. */
typedef enum vkf_model_position_ids {
  VKF_POSITION_IDS_ALL,      /* all, from 0; the unmasked ones when a masked prompt is continued */
  VKF_POSITION_IDS_UNMASKED, /* the unmasked ones, from 0; masked: -1 */
  VKF_POSITION_IDS_NON_PADS  /* those whose ids are no pads, from 1; pads: 0 */
} vkf_model_position_ids;

/* Rotary positions (Su et al. 2021). See rotary.c. */
typedef struct vkf_model_rotary {
  uint32_t width;      /* columns of a head that turn; 0: none */
  double *frequencies; /* [width/2] radians a position */
  double factor;       /* of sines and cosines */
} vkf_model_rotary;

/* Biases of scores by distance (Raffel et al. 2020). */
typedef struct vkf_model_relative {
  uint32_t table;                   /* [n_buckets, H], of all layers; VKF_NO_WEIGHT: each has its own */
  uint32_t n_buckets, max_distance; /* n_buckets 0: none */
} vkf_model_relative;

typedef struct vkf_model_stack {
  const char *name; /* "encoder", "decoder" */
  uint32_t n_layers, vocab, d_ff;
  uint32_t n_stored; /* layers in the files, each of which computes n_layers / n_stored in turn; 0: all */
  uint32_t n_inner;  /* layers in a group (ALBERT): the files store n_stored groups, each of n_inner layers; 0: 1 */
  uint32_t n_heads, n_kv_heads, key_width, value_width;
  float scale;          /* of the scores */
  bool scales_by_layer; /* scores of layer i are divided by i + 1 as well */
  bool causal, has_cross;
  bool qkv_bias, out_bias, ffn_bias;
  vkf_activation activation;
  bool is_gated;    /* activation(gate) * in */
  bool norm_first;  /* x + f(norm(x)), else norm(x + f(x)) */
  bool is_parallel; /* norm_first: x + f(norm(x)) + g(norm'(x)) */
  bool norm_affine; /* of the layers' norms; the final norm has its tensors wherever they are stored */
  bool has_final_norm;
  bool has_head_norm; /* queries and keys are normed, head by head */
  vkf_norm_kind norm_kind;
  float norm_eps;
  float norm_plus; /* the scales of its norms are those in the files plus this */
  float embed_scale;
  vkf_model_position_kind positions;
  vkf_model_position_ids position_ids;
  uint32_t position_offset;
  uint32_t n_positions;           /* rows of the learned table */
  uint32_t table, position_table; /* weights; position_table where positions are learned */
  uint32_t n_types, type_table;   /* 0: no token types */
  vkf_model_norm embed_norm;      /* VKF_NO_WEIGHT: none, as with all that follow */
  vkf_model_linear embed_in;      /* from the width of the table to D; positions are added where their width is */
  vkf_model_linear embed_out;     /* from D to the width of the table, after the final norm */
  vkf_model_linear patches;       /* images: [D, channels*height*width], instead of ids; no bias */
  vkf_patches_params patch;
  vkf_model_rotary rotary;
  vkf_model_relative relative;
  vkf_model_layer *layers;
  vkf_model_norm final_norm;
} vkf_model_stack;
/* All weights absent, all numbers 0. */
extern const vkf_model_stack vkf_model_no_stack;

/* From the last states to logits. */
typedef struct vkf_model_head {
  enum { VKF_HEAD_READS_ALL, VKF_HEAD_READS_FIRST, VKF_HEAD_READS_LAST } reads; /* tokens of a sequence */
  vkf_model_linear dense; /* VKF_NO_WEIGHT: none; then its activation and norm */
  vkf_activation activation;
  vkf_model_norm norm;
  const char *dense_output; /* an output where there are no logits: "pooler_output" */
  vkf_model_linear out;     /* where info.has_head */
  float scale;              /* of the logits before their bias; 0: 1 */
} vkf_model_head;

/* ---- the net ----------------------------------------------------------------------------------------------------- */

/* n_rows rows of a tensor; a vector counts as rows of one number. They begin at first_row; after each group_rows of
 * them the next ones begin group_stride rows later. */
typedef struct vkf_model_part {
  const vkf_file_tensor *tensor;
  size_t first_row, n_rows, group_rows, group_stride;
  bool is_transposed; /* stored as [columns, rows] */
} vkf_model_part;

#define VKF_MODEL_MAX_PARTS 3
typedef struct vkf_model_weight {
  vkf_model_part parts[VKF_MODEL_MAX_PARTS]; /* one after the other */
  uint32_t n_parts;
  bool takes_turns; /* row i is row i / n_parts of part i % n_parts; the parts have as many rows each */
  float plus;       /* added to each number; of vectors alone */
} vkf_model_weight;

struct vkf_net {
  vkf_env *env;
  vkf_arena arena;
  vkf_net_info info;
  const char *config_path;
  uint64_t config_hash; /* of config.json */
  const char *base;     /* prefix that stored names may lack: "model."; set by the family before it claims tensors */
  vkf_file_tensors *tensors;
  bool *used;               /* [tensors] claimed or known to be of no use */
  vkf_file_tensor **wanted; /* [n_wanted] tensors NULL: a folder that is still to be made, and what it needs (make.c) */
  uint32_t n_wanted;
  size_t wanted_capacity;
  vkf_weight_info *infos;
  vkf_model_weight *weights;
  uint32_t n_weights;
  size_t weights_capacity;
  vkf_format cache_format;
  vkf_model_stack encoder, decoder; /* n_layers 0: there is none */
  vkf_model_head head;
  bool is_last_apart;      /* hidden_states.N end before the final norm, last_hidden_state comes after it */
  const char *names[2][2]; /* by stage: the last states, their other name (vkf_model_second_name) */
};

/* ---- families ---------------------------------------------------------------------------------------------------- */

/* X(model_type, name of the function that maps it): the one list. */
#define VKF_MODEL_FAMILIES(X)   \
  X("albert", albert)           \
  X("bart", bart)               \
  X("bert", bert)               \
  X("blenderbot", bart)         \
  X("camembert", roberta)       \
  X("distilbert", distilbert)   \
  X("gemma", llama)             \
  X("gpt2", gpt2)               \
  X("gpt_neox", gpt_neox)       \
  X("llama", llama)             \
  X("m2m_100", bart)            \
  X("marian", bart)             \
  X("mbart", bart)              \
  X("mistral", llama)           \
  X("mt5", t5)                  \
  X("olmo", llama)              \
  X("opt", opt)                 \
  X("pegasus", bart)            \
  X("phi3", llama)              \
  X("plbart", bart)             \
  X("qwen2", llama)             \
  X("qwen3", llama)             \
  X("roberta", roberta)         \
  X("t5", t5)                   \
  X("transformer", transformer) \
  X("umt5", t5)                 \
  X("vit", vit)                 \
  X("xlm-roberta", roberta)

/* Some map several types: declared more than once. */
#define X(type, name) vkf_status vkf_model_map_##name(vkf_net *net, vkf_file_value config);
VKF_MODEL_FAMILIES(X)
#undef X

/* ---- net.c, make.c: a folder that is still to be made ------------------------------------------------------------ */

/* A configuration mapped without weights: the families claim what they would read, and vkf_net.wanted has it. */
vkf_status vkf_model_net_want(vkf_env *env, const char *config_path, vkf_net **out);

/* ---- config.c: keys of config.json ------------------------------------------------------------------------------- */

/* 1 .. 2^24. */
vkf_status vkf_model_get_size(vkf_net *net, vkf_file_value config, const char *key, uint32_t *out);
/* The same; `fallback` where the key is missing or null. */
vkf_status vkf_model_find_size(vkf_net *net, vkf_file_value config, const char *key, uint32_t fallback, uint32_t *out);
/* A token id; `fallback` where the key is missing or null. */
vkf_status vkf_model_find_token(vkf_net *net, vkf_file_value config, const char *key, int32_t fallback, int32_t *out);
/* By its name in transformers (ACT2FN); false: there is none of this name here. */
bool vkf_model_activation_of(const char *name, vkf_activation *out);
/* The same of a key, by the name `fallback` where it is missing or null. */
vkf_status vkf_model_find_activation(vkf_net *net, vkf_file_value config, const char *key, const char *fallback,
                                     vkf_activation *out);
/* VKF_ERROR_UNSUPPORTED if the key is there and is not `only`. */
vkf_status vkf_model_only_bool(vkf_net *net, vkf_file_value config, const char *key, bool only);
/* The same for strings. */
vkf_status vkf_model_only_string(vkf_net *net, vkf_file_value config, const char *key, const char *only);
/* least .. most; `fallback` where the key is missing or null. */
vkf_status vkf_model_find_number(vkf_net *net, vkf_file_value config, const char *key, double fallback, double least,
                                 double most, double *out);
/* The same, 0 .. 1. */
vkf_status vkf_model_find_epsilon(vkf_net *net, vkf_file_value config, const char *key, double fallback, float *out);
/* VKF_ERROR_UNSUPPORTED if the key is there and not null. */
vkf_status vkf_model_only_absent(vkf_net *net, vkf_file_value config, const char *key);
/* Head widths D/H and the scale 1/sqrt(D/H) of a stack whose heads share D evenly. */
vkf_status vkf_model_split_heads(vkf_net *net, vkf_model_stack *stack, const char *key);
/* The layers of a stack by the keys of most families: hidden_size, num_hidden_layers, num_attention_heads,
 * intermediate_size, hidden_act and layer_norm_eps, the last two with these defaults. */
vkf_status vkf_model_get_layers(vkf_net *net, vkf_file_value config, const char *activation, double epsilon,
                                vkf_model_stack *stack);

/* ---- weights.c: tensors by name ---------------------------------------------------------------------------------- */

/* Which tensors a weight is made of. */
typedef struct vkf_model_source {
  const char *tensor;
  uint32_t rows;                     /* of the whole tensor */
  uint32_t first_row, n_rows;        /* of the part */
  uint32_t group_rows, group_stride; /* 0: the rows follow each other; see vkf_model_part */
  bool is_transposed;                /* stored as [columns, rows] */
  size_t stored_rank, stored[4];     /* a shape of other rank with the same numbers; 0: as it is */
} vkf_model_source;

/* A tensor is looked for under its name, and where that is not stored: without net->base, with "gamma" and "beta" for
 * "weight" and "bias". NULL: there is none. */
const vkf_file_tensor *vkf_model_find_tensor(const vkf_net *net, const char *name);
/* is_usual: the answer for a folder that is still to be made. */
bool vkf_model_has_tensor(const vkf_net *net, const char *name, bool is_usual);
/* The first of the names that is stored; the first of all if none is. */
const char *vkf_model_first_of(const vkf_net *net, const char *const *names, size_t n);
/* Adds a weight. columns 0: a vector, else [rows of all sources, columns]. Checks presence, dtype and shape. */
vkf_status vkf_model_add_weight(vkf_net *net, uint32_t use, uint32_t columns, const vkf_model_source *sources,
                                size_t n_sources, uint32_t *out, const char *fmt, ...) VKF_PRINTF(7, 8);
/* A whole tensor [rows, columns] as one weight. */
vkf_status vkf_model_add_matrix(vkf_net *net, uint32_t use, const char *tensor, uint32_t rows, uint32_t columns,
                                const char *name, uint32_t *out);
/* Tensors that are stored but never read: not listed as unused. */
void vkf_model_mark_known(vkf_net *net, const char *name);
/* The same of a tensor that transformers stores beside what is read: in a folder that is still to be made it is wanted.
 * columns 0: a vector. */
vkf_status vkf_model_claim_unread(vkf_net *net, const char *name, uint32_t rows, uint32_t columns);
/* Whether both are stored, with different numbers. A head that is called tied but differs from the table is a weight of
 * its own, as in transformers 5, which writes T5 1.1 like that. */
bool vkf_model_differ(const vkf_net *net, const char *one, const char *other);
/* Marks a tensor as known, as vkf_model_mark_known() does; VKF_ERROR_UNSUPPORTED: it is no copy of `first`. */
vkf_status vkf_model_mark_same(vkf_net *net, const char *name, const char *first);
/* A linear layer from `columns` to `rows`, stem + "weight" and, if it is there (or has_bias, in a folder that is still
 * to be made), stem + "bias". */
vkf_status vkf_model_add_linear(vkf_net *net, const char *stem, uint32_t rows, uint32_t columns, bool has_bias,
                                const char *name, vkf_model_linear *out);
/* A layer norm of this width, stem + "weight" and stem + "bias". */
vkf_status vkf_model_add_norm(vkf_net *net, const char *stem, uint32_t width, const char *name, vkf_model_norm *out);
/* Fills info.unused. */
vkf_status vkf_model_list_unused(vkf_net *net);
/* load and copy of vkf_weight_source. */
void vkf_model_load_weight(void *net, uint32_t index, uint32_t first, uint32_t n, float *dst);
bool vkf_model_copy_weight(void *net, uint32_t index, uint32_t first, uint32_t n, void *dst);

/* ---- stack.c: the layers of a stack by name ---------------------------------------------------------------------- */

/* Stems, to which "weight" and "bias" are appended. */
typedef struct vkf_model_attention_names {
  const char *q, *k, *v; /* three tensors, or */
  const char *packed;    /* one with the rows of all three: all queries, then all keys, then all values */
  bool packed_by_head;   /* or those of the first head, then those of the second */
  const char *out, *norm;
  const char *q_norm, *k_norm; /* where the stack has norms of heads */
  const char *relative;        /* where each layer has biases of its own by distance */
} vkf_model_attention_names;
/* As in models that were fairseq's or follow it: BART, Marian, OPT. */
#define VKF_MODEL_FAIRSEQ_ATTENTION(module)                                                             \
  {                                                                                                     \
    .q = module ".q_proj.", .k = module ".k_proj.", .v = module ".v_proj.", .out = module ".out_proj.", \
    .norm = module "_layer_norm."                                                                       \
  }

typedef struct vkf_model_stack_names {
  const char *layers; /* "model.encoder.layers.": then the number and a dot, then the stems below */
  const char *inner;  /* before the stems, with a number of its own, where a stored layer is several; else NULL */
  vkf_model_attention_names self, cross;
  const char *ffn_gate; /* where the stack is gated; the same as ffn_in: one tensor, whose first half is the gate */
  const char *ffn_in, *ffn_out, *ffn_norm;
  const char *final_norm; /* a whole stem */
  bool is_transposed;     /* matrices of the layers are stored as [K,N] */
} vkf_model_stack_names;

/* A layer of fairseq's models. */
#define VKF_MODEL_FAIRSEQ_LAYER \
  .self = VKF_MODEL_FAIRSEQ_ATTENTION("self_attn"), .ffn_in = "fc1.", .ffn_out = "fc2.", .ffn_norm = "final_layer_norm."

/* Claims the tensors of all layers and of the final norm; the numbers of the stack are set before. */
vkf_status vkf_model_claim_stack(vkf_net *net, vkf_model_stack *stack, const vkf_model_stack_names *names);

/* ---- heads.c, embeddings.c: what is common to families ----------------------------------------------------------- */

/* pad_token_id, bos_token_id and eos_token_id (the first, if it is a list), -1 where they are missing. usual_pad: where
 * that key is missing (null is none): positions of some families depend on it. */
vkf_status vkf_model_find_tokens(vkf_net *net, vkf_file_value config, int32_t usual_pad);
/* Of an encoder-decoder with BART's keys, where the folder does not say. */
typedef struct vkf_model_pair_usual {
  const char *activation;
  bool is_scaled;       /* embeddings are, by sqrt(D) */
  bool has_logits_bias; /* in folders that are still to be made */
  bool has_classes;     /* there is a class ...ForSequenceClassification, whose decoder gets what the encoder does */
  int32_t pad_id;
} vkf_model_pair_usual;
/* Its numbers, tables and head with BART's names: widths, layers and heads of both stacks, embeddings shared or apart,
 * a head that is tied or not, final_logits_bias. The stacks' names are set here. */
vkf_status vkf_model_claim_pair(vkf_net *net, vkf_file_value config, const vkf_model_pair_usual *usual);
/* The head of such classes. */
vkf_status vkf_model_claim_pair_classes(vkf_net *net, vkf_file_value config);
/* The table of a stack's only embeddings and its head: tied to it, or the tensor `head` (where its numbers differ, or
 * where the folder ties nothing), or, of a decoder, classes of sequences, the tensor score.weight. */
vkf_status vkf_model_claim_language_model(vkf_net *net, vkf_file_value config, vkf_model_stack *stack,
                                          const char *table, uint32_t width, bool is_tied_by_default, const char *head);
/* The head of the first of `architectures`, by the end of its name. */
typedef enum vkf_model_head_kind {
  VKF_HEAD_NONE,                    /* BertModel */
  VKF_HEAD_ENCODER_ALONE,           /* T5EncoderModel: nor a decoder */
  VKF_HEAD_MASKED_LM,               /* BertForMaskedLM, BertForPreTraining */
  VKF_HEAD_CAUSAL_LM,               /* GPT2LMHeadModel, LlamaForCausalLM, T5ForConditionalGeneration */
  VKF_HEAD_SEQUENCE_CLASSIFICATION, /* also of images */
  VKF_HEAD_TOKEN_CLASSIFICATION,
  VKF_HEAD_QUESTION_ANSWERING
} vkf_model_head_kind;
/* kinds: bits 1 << kind that the family has. Without `architectures`: fallback. VKF_ERROR_UNSUPPORTED by name. */
vkf_status vkf_model_find_head(vkf_net *net, vkf_file_value config, uint32_t kinds, vkf_model_head_kind fallback,
                               vkf_model_head_kind *out);
/* The heads of an encoder: stems, or names of tensors where they end in "weight" or "bias". NULL: there is none. */
typedef struct vkf_model_encoder_heads {
  const char *dense, *norm; /* of the masked language model */
  bool dense_has_gelu;      /* behind dense, whatever activation the layers have; else it is theirs */
  const char *table, *bias; /* its projection: stored where it is not tied; the bias */
  const char *bias_again;   /* the name under which the bias may be stored, too: it counts */
  const char *pooler;       /* of the first token, in the base model */
  vkf_activation pooler_activation;
  const char *sequence_dense; /* of the first token, where sequences are classified */
  vkf_activation sequence_activation;
  const char *sequence, *token; /* classifiers */
} vkf_model_encoder_heads;
/* The table of an encoder's words, which may be stored under the head's name alone where the two are tied. */
vkf_status vkf_model_claim_words(vkf_net *net, vkf_file_value config, const char *table, uint32_t width,
                                 const vkf_model_encoder_heads *names);
/* Words, learned positions, token types and their norm, as BERT has them. prefix: of the tensors. */
vkf_status vkf_model_claim_bert_embeddings(vkf_net *net, vkf_file_value config, const char *prefix, uint32_t width,
                                           const vkf_model_encoder_heads *heads, vkf_model_stack *stack);
/* The head that `architectures` names; none in a folder that has the weights of the base model alone. */
vkf_status vkf_model_claim_encoder_head(vkf_net *net, vkf_file_value config, const vkf_model_encoder_heads *names);

/* ---- rotary.c ---------------------------------------------------------------------------------------------------- */

/* What a family has, beside what the folder says. */
typedef struct vkf_model_rotary_rules {
  double theta, part;     /* if the folder does not say; part: of a head that turns */
  bool turns_whole_heads; /* whatever partial_rotary_factor says, as in transformers' LLaMA */
  bool is_phi3; /* longrope alone, also called su and yarn; original positions: 4096 if config.json lacks them */
} vkf_model_rotary_rules;
/* The stack's rotary positions, from rope_parameters (transformers 5), or rope_theta and rope_scaling (4). longrope
 * lowers net->info.max_positions to the original ones. Set the head widths and positions first. */
vkf_status vkf_model_find_rotary(vkf_net *net, vkf_file_value config, const vkf_model_rotary_rules *rules,
                                 vkf_model_stack *stack);
/* table [n][width]: of each position and pair its cosine and sine. */
void vkf_model_rotations(const vkf_model_rotary *rotary, uint32_t n, float *table);
/* out [max_distance + 1], or [2 max_distance + 1] in both directions: buckets of the distances of a key from its query,
 * -max_distance first (Raffel et al. 2020, appendix; the formula of T5's code). */
void vkf_model_buckets(const vkf_model_relative *relative, bool both_directions, int32_t *out);

#endif
