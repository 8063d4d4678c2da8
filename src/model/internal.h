/* internal: the block description that every family maps to, and what the files of this room share; not for others.
 *
 * A family is one function vkf_model_map_<name>(): it reads config.json, fills the stacks and the head of the net, and
 * claims every tensor by name. It has no loop over nodes: plan.c and layers.c make these from the description alone.
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

/* A layer norm may have neither scale nor shift. */
typedef struct vkf_model_norm {
  uint32_t weight, bias; /* [D] */
} vkf_model_norm;

typedef struct vkf_model_attention {
  vkf_model_linear q;  /* self-attention: rows of queries, keys and values; cross-attention: queries */
  vkf_model_linear kv; /* cross-attention only: keys and values */
  vkf_model_linear out;
  vkf_model_norm norm;
  uint32_t head_norm; /* scales of the heads of queries and keys, if they are normed: [(H + Hkv) K] */
} vkf_model_attention;

typedef struct vkf_model_layer {
  vkf_model_attention self, cross; /* cross: if the stack has cross-attention */
  vkf_model_linear ffn_in;         /* [F,D]; gated: [2F,D], rows of the gate and of what it multiplies in turns */
  vkf_model_linear ffn_out;
  vkf_model_norm ffn_norm;
  uint32_t window;   /* the most keys that a query attends to; 0: all */
  uint32_t relative; /* this layer's biases of scores by distance: as vkf_model_relative.table */
} vkf_model_layer;

/* A position id is the number of a token among those tokens of its row that count, plus the offset of its stack. */
typedef enum vkf_model_position_ids {
  VKF_POSITION_IDS_ALL,      /* all count, from 0; generation feeds no masked ones */
  VKF_POSITION_IDS_UNMASKED, /* the unmasked ones count, from 0; masked: -1 */
  VKF_POSITION_IDS_NON_PADS  /* those count whose ids are not the offset, which is the pad, from 1; pads: 0 */
} vkf_model_position_ids;

/* Rotary positions (Su et al. 2021). See rotary.c. */
typedef struct vkf_model_rotary {
  uint32_t width;      /* columns of a head that turn; 0: none */
  double *frequencies; /* [width/2] radians a position */
  double factor;       /* that multiplies sines and cosines */
} vkf_model_rotary;

/* Biases of scores by distance (Raffel et al. 2020). */
typedef struct vkf_model_relative {
  uint32_t table;                   /* [n_buckets, H], of all layers; VKF_NO_WEIGHT: each has its own */
  uint32_t n_buckets, max_distance; /* n_buckets 0: none */
} vkf_model_relative;

typedef struct vkf_model_stack {
  const char *name; /* "encoder", "decoder" */
  uint32_t n_layers, vocab, d_ff;
  uint32_t n_stored; /* layers in the files, each used for n_layers / n_stored layers in a row; 0: all are stored */
  uint32_t n_inner;  /* layers in a group (ALBERT): the files store n_stored groups, each of n_inner layers; 0: 1 */
  uint32_t n_heads, n_kv_heads, key_width, value_width;
  float scale;          /* of the scores */
  bool scales_by_layer; /* scores of layer i are divided by i + 1 as well */
  bool causal, has_cross;
  bool qkv_bias, out_bias, ffn_bias;
  float residual_scale; /* of what a sub-layer adds, whose last matrix has no bias then; 0: 1 */
  vkf_activation activation;
  bool is_gated;     /* activation(gate) * in */
  bool norm_first;   /* x + f(norm(x)), else norm(x + f(x)) */
  bool is_parallel;  /* norm_first: x + f(norm(x)) + g(norm'(x)) */
  bool has_one_norm; /* is_parallel: x + f(norm(x)) + g(norm(x)), with the norm of self-attention */
  bool norm_affine;  /* the layers' norms have tensors; the final norm has them if they are stored */
  bool has_final_norm;
  bool has_head_norm; /* queries and keys are normed, head by head */
  vkf_norm_kind norm_kind;
  float norm_eps;
  float norm_plus; /* added to the scales of its norms, as they are in the files */
  float embed_scale;
  vkf_model_position_kind positions;
  vkf_model_position_ids position_ids;
  uint32_t position_offset;
  uint32_t n_positions;           /* rows of the learned table */
  uint32_t table, position_table; /* weights; position_table if positions are learned */
  uint32_t n_types, type_table;   /* 0: no token types */
  vkf_model_norm embed_norm;      /* VKF_NO_WEIGHT: none, here and below */
  bool norms_words;               /* embed_norm is of the scaled rows of ids; positions are added behind it */
  vkf_model_linear embed_in;      /* from the width of the table to D; positions are added where their width fits */
  vkf_model_linear embed_out;     /* from D to the width of the table, after the final norm */
  vkf_model_linear patches;       /* of images, instead of a table: [D, channels*height*width]; no bias */
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
  vkf_model_linear dense; /* VKF_NO_WEIGHT: none; its activation and norm follow */
  vkf_activation activation;
  vkf_model_norm norm;
  const char *dense_output; /* the output of dense, if there are no logits: "pooler_output" */
  vkf_model_linear out;     /* if info.has_head */
  float scale;              /* of the logits before their bias; 0: 1 */
} vkf_model_head;

/* ---- the net ----------------------------------------------------------------------------------------------------- */

/* n_rows rows of a tensor, from first_row on; a vector has rows of one number. They are in groups of group_rows rows,
 * and each group begins group_stride rows after the one before. */
typedef struct vkf_model_part {
  const vkf_file_tensor *tensor;
  size_t first_row, n_rows, group_rows, group_stride;
  bool is_transposed; /* stored as [columns, rows] */
} vkf_model_part;

#define VKF_MODEL_MAX_PARTS 3
typedef struct vkf_model_weight {
  vkf_model_part parts[VKF_MODEL_MAX_PARTS]; /* one after the other */
  uint32_t n_parts;
  bool takes_turns; /* row i is row i / n_parts of part i % n_parts; all parts have as many rows */
  float plus;       /* added to each number; only of vectors */
} vkf_model_weight;

struct vkf_net {
  vkf_env *env;
  vkf_arena arena;
  vkf_net_info info;
  const char *config_path;
  uint64_t config_hash; /* of config.json */
  const char *base;     /* prefix that stored names may lack: "model."; set by the family before it claims tensors */
  vkf_file_tensors *tensors;
  bool *used;               /* [tensors]: claimed, or known not to be needed */
  vkf_file_tensor **wanted; /* [n_wanted]: tensors NULL: what a folder that is still to be made needs (make.c) */
  uint32_t n_wanted;
  size_t wanted_capacity;
  vkf_weight_info *infos;
  vkf_model_weight *weights;
  uint32_t n_weights;
  size_t weights_capacity;
  vkf_format cache_format;
  vkf_model_stack encoder, decoder; /* n_layers 0: there is none */
  vkf_model_head head;
  bool is_last_apart;      /* hidden_states.N end before the final norm; last_hidden_state is after it */
  const char *names[2][2]; /* by stage: the name of the last states, their other name (vkf_model_second_name) */
};

/* ---- families ---------------------------------------------------------------------------------------------------- */

/* X(model_type, name of the function that maps it): the one list. */
#define VKF_MODEL_FAMILIES(X)   \
  X("albert", albert)           \
  X("bart", bart)               \
  X("bert", bert)               \
  X("blenderbot", bart)         \
  X("blenderbot-small", bart)   \
  X("camembert", roberta)       \
  X("distilbert", distilbert)   \
  X("electra", electra)         \
  X("gemma", llama)             \
  X("gpt2", gpt2)               \
  X("gpt_neox", gpt_neox)       \
  X("granite", llama)           \
  X("llama", llama)             \
  X("m2m_100", bart)            \
  X("marian", bart)             \
  X("mbart", bart)              \
  X("mistral", llama)           \
  X("mpnet", mpnet)             \
  X("mt5", t5)                  \
  X("mvp", bart)                \
  X("olmo", llama)              \
  X("opt", opt)                 \
  X("pegasus", bart)            \
  X("phi", llama)               \
  X("phi3", llama)              \
  X("plbart", bart)             \
  X("qwen2", llama)             \
  X("qwen3", llama)             \
  X("roberta", roberta)         \
  X("stablelm", llama)          \
  X("starcoder2", llama)        \
  X("t5", t5)                   \
  X("transformer", transformer) \
  X("umt5", t5)                 \
  X("vit", vit)                 \
  X("xlm-roberta", roberta)

/* A function that maps several types is declared more than once. */
#define X(type, name) vkf_status vkf_model_map_##name(vkf_net *net, vkf_file_value config);
VKF_MODEL_FAMILIES(X)
#undef X

/* ---- net.c, make.c: a folder that is still to be made ------------------------------------------------------------ */

/* Maps a configuration without weights: vkf_net.wanted gets the tensors that its family would read. */
vkf_status vkf_model_net_want(vkf_env *env, const char *config_path, vkf_net **out);

/* ---- config.c: keys of config.json ------------------------------------------------------------------------------- */

/* Reads a whole number, 1 .. 2^24. The key must be there. */
vkf_status vkf_model_get_size(vkf_net *net, vkf_file_value config, const char *key, uint32_t *out);
/* Does the same; `fallback` if the key is missing or null. */
vkf_status vkf_model_find_size(vkf_net *net, vkf_file_value config, const char *key, uint32_t fallback, uint32_t *out);
/* Reads a token id; `fallback` if the key is missing or null. */
vkf_status vkf_model_find_token(vkf_net *net, vkf_file_value config, const char *key, int32_t fallback, int32_t *out);
/* Finds an activation by its name in transformers (ACT2FN). False: it is not supported. */
bool vkf_model_activation_of(const char *name, vkf_activation *out);
/* Reads an activation by its name; `fallback` if the key is missing or null. VKF_ERROR_UNSUPPORTED: an unknown name. */
vkf_status vkf_model_find_activation(vkf_net *net, vkf_file_value config, const char *key, const char *fallback,
                                     vkf_activation *out);
/* VKF_ERROR_UNSUPPORTED if the key is there and is not `only`. */
vkf_status vkf_model_only_bool(vkf_net *net, vkf_file_value config, const char *key, bool only);
/* The same for strings. */
vkf_status vkf_model_only_string(vkf_net *net, vkf_file_value config, const char *key, const char *only);
/* Reads a number, least .. most; `fallback` if the key is missing or null. */
vkf_status vkf_model_find_number(vkf_net *net, vkf_file_value config, const char *key, double fallback, double least,
                                 double most, double *out);
/* Does the same for a number from 0 to 1. */
vkf_status vkf_model_find_epsilon(vkf_net *net, vkf_file_value config, const char *key, double fallback, float *out);
/* VKF_ERROR_UNSUPPORTED if the key is there and not null. */
vkf_status vkf_model_only_absent(vkf_net *net, vkf_file_value config, const char *key);
/* Sets head widths D/H and the scale 1/sqrt(D/H). VKF_ERROR_FORMAT names `key`, that of H, if H does not divide D. */
vkf_status vkf_model_split_heads(vkf_net *net, vkf_model_stack *stack, const char *key);
/* Reads a stack's layers by the keys of most families: hidden_size, num_hidden_layers, num_attention_heads,
 * intermediate_size, hidden_act and layer_norm_eps. activation, epsilon: defaults of the last two. */
vkf_status vkf_model_get_layers(vkf_net *net, vkf_file_value config, const char *activation, double epsilon,
                                vkf_model_stack *stack);

/* ---- weights.c: tensors by name ---------------------------------------------------------------------------------- */

/* A tensor, or a part of one, that a weight is made of. */
typedef struct vkf_model_source {
  const char *tensor;
  uint32_t rows;                     /* of the whole tensor */
  uint32_t first_row, n_rows;        /* of the part */
  uint32_t group_rows, group_stride; /* group_rows 0: the rows follow each other; see vkf_model_part */
  bool is_transposed;                /* stored as [columns, rows] */
  size_t stored_rank, stored[4];     /* the stored shape, if its rank is another; stored_rank 0: it is not */
} vkf_model_source;

/* Finds a tensor by its name. If that is not stored: without net->base, or with "gamma" and "beta" for "weight" and
 * "bias". NULL: there is none. */
const vkf_file_tensor *vkf_model_find_tensor(const vkf_net *net, const char *name);
/* Returns whether a tensor is stored. is_usual: the answer for a folder that is still to be made. */
bool vkf_model_has_tensor(const vkf_net *net, const char *name, bool is_usual);
/* Returns the first of the names that is stored; names[0] if none is. */
const char *vkf_model_first_of(const vkf_net *net, const char *const *names, size_t n);
/* Adds a weight. columns 0: a vector, else [rows of all sources, columns]. Checks presence, dtype and shape. fmt: its
 * name. */
vkf_status vkf_model_add_weight(vkf_net *net, uint32_t use, uint32_t columns, const vkf_model_source *sources,
                                size_t n_sources, uint32_t *out, const char *fmt, ...) VKF_PRINTF(7, 8);
/* Adds a whole tensor [rows, columns] as one weight. */
vkf_status vkf_model_add_matrix(vkf_net *net, uint32_t use, const char *tensor, uint32_t rows, uint32_t columns,
                                const char *name, uint32_t *out);
/* Marks a tensor that may be stored but is never read, so that it is not listed as unused. */
void vkf_model_mark_known(vkf_net *net, const char *name);
/* Does the same for a tensor that transformers stores beside what is read: a folder that is still to be made gets it,
 * too. columns 0: a vector. */
vkf_status vkf_model_claim_unread(vkf_net *net, const char *name, uint32_t rows, uint32_t columns);
/* Returns whether both are stored, with different numbers. A head that is called tied but differs from the table is a
 * weight of its own, as in transformers 5, which writes T5 1.1 like that. */
bool vkf_model_differ(const vkf_net *net, const char *one, const char *other);
/* Marks a tensor as known, as vkf_model_mark_known() does; VKF_ERROR_UNSUPPORTED: it is stored and is not a copy of
 * `first`. */
vkf_status vkf_model_mark_same(vkf_net *net, const char *name, const char *first);
/* Adds a linear layer from `columns` to `rows`: stem + "weight" and, if it is stored (or has_bias, in a folder that is
 * still to be made), stem + "bias". */
vkf_status vkf_model_add_linear(vkf_net *net, const char *stem, uint32_t rows, uint32_t columns, bool has_bias,
                                const char *name, vkf_model_linear *out);
/* Adds a layer norm of this width: stem + "weight" and stem + "bias". */
vkf_status vkf_model_add_norm(vkf_net *net, const char *stem, uint32_t width, const char *name, vkf_model_norm *out);
/* Fills info.unused. */
vkf_status vkf_model_list_unused(vkf_net *net);
/* The functions load and copy of vkf_weight_source. */
void vkf_model_load_weight(void *net, uint32_t index, uint32_t first, uint32_t n, float *dst);
bool vkf_model_copy_weight(void *net, uint32_t index, uint32_t first, uint32_t n, void *dst);

/* ---- stack.c: the layers of a stack by name ---------------------------------------------------------------------- */

/* Stems, to which "weight" and "bias" are appended. */
typedef struct vkf_model_attention_names {
  const char *q, *k, *v; /* three tensors, or */
  const char *packed;    /* one with the rows of all three: all queries, then all keys, then all values */
  bool packed_by_head;   /* or head by head: queries, keys and values of the first, then of the second */
  const char *out, *norm;
  const char *q_norm, *k_norm; /* if the stack has norms of heads */
  const char *relative;        /* if each layer has its own biases by distance */
} vkf_model_attention_names;
/* The names of fairseq and of models that follow it: BART, Marian, OPT. */
#define VKF_MODEL_FAIRSEQ_ATTENTION(module)                                                             \
  {                                                                                                     \
    .q = module ".q_proj.", .k = module ".k_proj.", .v = module ".v_proj.", .out = module ".out_proj.", \
    .norm = module "_layer_norm."                                                                       \
  }

typedef struct vkf_model_stack_names {
  const char *layers; /* "model.encoder.layers.": then the number and a dot, then the stems below */
  const char *inner;  /* before the stems, with a number of its own, if what is stored is groups of layers; else NULL */
  vkf_model_attention_names self, cross;
  const char *ffn_gate; /* if the stack is gated; equal to ffn_in: one tensor, whose first half is the gate */
  const char *ffn_in, *ffn_out;
  const char *ffn_norm;   /* unless the stack has one norm a layer */
  const char *final_norm; /* a whole stem */
  bool is_transposed;     /* matrices of the layers are stored as [K,N] */
} vkf_model_stack_names;

/* A layer of fairseq's models. */
#define VKF_MODEL_FAIRSEQ_LAYER \
  .self = VKF_MODEL_FAIRSEQ_ATTENTION("self_attn"), .ffn_in = "fc1.", .ffn_out = "fc2.", .ffn_norm = "final_layer_norm."

/* Claims the tensors of all layers and of the final norm. Set the numbers of the stack first. */
vkf_status vkf_model_claim_stack(vkf_net *net, vkf_model_stack *stack, const vkf_model_stack_names *names);

/* ---- heads.c, embeddings.c: what is common to families ----------------------------------------------------------- */

/* Reads pad_token_id, bos_token_id and eos_token_id (the first, if it is a list); -1 if they are missing. usual_pad:
 * the pad if its key is missing (null: -1), because positions of some families depend on it. */
vkf_status vkf_model_find_tokens(vkf_net *net, vkf_file_value config, int32_t usual_pad);
/* The tensors that an encoder-decoder reads its tables from; several may be one, which is one weight then. */
typedef struct vkf_model_tables {
  const char *encoder, *decoder, *head; /* head: lm_head.weight or one of the others */
} vkf_model_tables;
/* Claims them for both stacks and, if net->info.has_head, as the head. Names are compared by address. */
vkf_status vkf_model_claim_tables(vkf_net *net, const vkf_model_tables *of);
/* Defaults of an encoder-decoder with BART's keys. */
typedef struct vkf_model_pair_usual {
  const char *activation;
  bool is_scaled;       /* embeddings are scaled by sqrt(D) */
  bool has_logits_bias; /* in folders that are still to be made */
  bool has_classes;     /* there is a class ...ForSequenceClassification, whose decoder reads the ids of the encoder */
  int32_t pad_id;
} vkf_model_pair_usual;
/* Reads its numbers and claims its tables and head, with BART's names: widths, layers and heads of both stacks,
 * embeddings shared or apart, a head that is tied or not, final_logits_bias. Sets the stacks' names. */
vkf_status vkf_model_claim_pair(vkf_net *net, vkf_file_value config, const vkf_model_pair_usual *usual);
/* Claims the head of ...ForSequenceClassification. */
vkf_status vkf_model_claim_pair_classes(vkf_net *net, vkf_file_value config);
/* Claims the table of a stack's embeddings and its head: the table, if they are tied, or the tensor `head` (if its
 * numbers differ, or the folder ties nothing), or score.weight, if a decoder classifies sequences. */
vkf_status vkf_model_claim_language_model(vkf_net *net, vkf_file_value config, vkf_model_stack *stack,
                                          const char *table, uint32_t width, bool is_tied_by_default, const char *head);
/* The head of the first of `architectures`, by the end of its name. */
typedef enum vkf_model_head_kind {
  VKF_HEAD_NONE,                    /* BertModel */
  VKF_HEAD_ENCODER_ALONE,           /* T5EncoderModel: no decoder either */
  VKF_HEAD_MASKED_LM,               /* BertForMaskedLM, BertForPreTraining */
  VKF_HEAD_CAUSAL_LM,               /* GPT2LMHeadModel, LlamaForCausalLM, T5ForConditionalGeneration */
  VKF_HEAD_SEQUENCE_CLASSIFICATION, /* also of images */
  VKF_HEAD_TOKEN_CLASSIFICATION,
  VKF_HEAD_REPLACED_TOKENS, /* ElectraForPreTraining */
  VKF_HEAD_QUESTION_ANSWERING
} vkf_model_head_kind;
/* Finds the kind of head of a folder. kinds: bits 1 << kind that the family has. fallback: the kind without
 * `architectures`. VKF_ERROR_UNSUPPORTED names the class. */
vkf_status vkf_model_find_head(vkf_net *net, vkf_file_value config, uint32_t kinds, vkf_model_head_kind fallback,
                               vkf_model_head_kind *out);
/* The heads of an encoder: stems, or names of tensors if they end in "weight" or "bias". NULL: there is none. */
typedef struct vkf_model_encoder_heads {
  const char *dense, *norm; /* of the masked language model */
  bool dense_has_gelu;      /* gelu follows dense, whatever the layers have; else their activation does */
  const char *table, *bias; /* its projection, stored if it is not tied, and the bias of that */
  const char *bias_again;   /* another name of the bias: if it is stored, it is the one that is read */
  const char *pooler;       /* of the first token, in the base model */
  vkf_activation pooler_activation;
  const char *sequence_dense; /* of the first token, to classify sequences */
  vkf_activation sequence_activation;
  const char *sequence, *token; /* classifiers */
  const char *replaced_dense;   /* before the one that tells replaced tokens; the activation of the layers follows */
  const char *replaced;
} vkf_model_encoder_heads;
/* Claims the table of an encoder's words, which may be stored under the head's name alone if the two are tied. */
vkf_status vkf_model_claim_words(vkf_net *net, vkf_file_value config, const char *table, uint32_t width,
                                 const vkf_model_encoder_heads *names);
/* Claims words, learned positions, token types (if it has any) and their norm, as BERT has them. prefix: of the
 * tensors. */
vkf_status vkf_model_claim_bert_embeddings(vkf_net *net, vkf_file_value config, const char *prefix, uint32_t width,
                                           bool has_types, const vkf_model_encoder_heads *heads,
                                           vkf_model_stack *stack);
/* Claims the head that `architectures` names; none if the folder has only the weights of the base model. */
vkf_status vkf_model_claim_encoder_head(vkf_net *net, vkf_file_value config, const vkf_model_encoder_heads *names);

/* ---- rotary.c ---------------------------------------------------------------------------------------------------- */

/* The rules of a family, beside what the folder says. */
typedef struct vkf_model_rotary_rules {
  double theta, part;     /* defaults; part: of a head that turns */
  bool turns_whole_heads; /* whatever partial_rotary_factor says, as in transformers' LLaMA */
  bool is_phi3;     /* longrope only, also called su and yarn; original positions: 4096 if config.json lacks them */
  bool turns_pairs; /* an odd number of columns is refused, as by transformers' Phi and StableLM */
} vkf_model_rotary_rules;
/* Reads the stack's rotary positions from rope_parameters (transformers 5), or rope_theta and rope_scaling (4).
 * longrope lowers net->info.max_positions to the original positions. Set max_positions and the head widths first. */
vkf_status vkf_model_find_rotary(vkf_net *net, vkf_file_value config, const vkf_model_rotary_rules *rules,
                                 vkf_model_stack *stack);
/* Fills table [n][width] with the cosine and sine of each position and pair. */
void vkf_model_rotations(const vkf_model_rotary *rotary, uint32_t n, float *table);
/* Fills out [max_distance + 1], or [2 max_distance + 1] in both directions, with the buckets of the distances of a key
 * from its query, -max_distance first (Raffel et al. 2020, appendix; the formula of T5's code). */
void vkf_model_buckets(const vkf_model_relative *relative, bool both_directions, int32_t *out);

#endif
