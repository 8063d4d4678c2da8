/* older: what the files that read tokenizers without a tokenizer.json share. */
#ifndef VKF_TEXT_OLDER_H
#define VKF_TEXT_OLDER_H

#include "text/spm.h"

/* The special tokens that a tokenizer_config.json names. */
enum {
  VKF_OLDER_UNK,
  VKF_OLDER_BOS,
  VKF_OLDER_EOS,
  VKF_OLDER_SEP,
  VKF_OLDER_PAD,
  VKF_OLDER_CLS,
  VKF_OLDER_MASK,
  VKF_OLDER_N_SPECIAL
};

typedef enum vkf_text_older_form {
  VKF_OLDER_BYTE_BPE,
  VKF_OLDER_WORDPIECE,
  VKF_OLDER_SENTENCEPIECE,
  VKF_OLDER_MARIAN,  /* source.spm and target.spm, ids in vocab.json */
  VKF_OLDER_M2M,     /* one SentencePiece model, ids in vocab.json, then languages */
  VKF_OLDER_FAIRSEQ, /* one SentencePiece model, ids in fairseq's order, then languages and the mask */
} vkf_text_older_form;

/* A class of tokenizers. */
typedef struct vkf_text_older_class {
  const char *class_name, *model_type; /* the class without "Tokenizer" and "Fast" */
  vkf_text_older_form form;
  const char *tokens[VKF_OLDER_N_SPECIAL]; /* where tokenizer_config.json does not say */
  int before, after;                       /* what stands around a text, -1: nothing */
} vkf_text_older_class;

/* What is known while a folder is read. */
typedef struct vkf_text_older {
  vkf_text_loader *loader;
  const vkf_text_files *files;
  json_t *config;                  /* tokenizer_config.json, or an empty object */
  json_t *vocab;                   /* piece to id; NULL: `spm` has the ids */
  vkf_text_spm *spm;               /* NULL: none */
  json_t *added, *post;            /* for the tokenizer.json */
  size_t next_id;                  /* behind the vocabulary and what was added */
  const vkf_text_older_class *row; /* NULL: a SentencePiece model of no known class */
} vkf_text_older;

/* older.c */
vkf_status vkf_text_older_no_memory(vkf_text_older *o);

/* older_tokens.c */
/* The id of a piece of the vocabulary; false: there is none. */
bool vkf_text_older_find_id(const vkf_text_older *o, const char *token, size_t *id);
/* NULL: none. */
const char *vkf_text_older_special_token(const vkf_text_older *o, int which);
/* Fills o->added. */
vkf_status vkf_text_older_add_tokens(vkf_text_older *o);
/* Makes o->post, which puts the class's tokens around a text. */
vkf_status vkf_text_older_make_postprocessor(vkf_text_older *o);

/* A token of this id, unless it is there already. */
vkf_status vkf_text_older_add_token(vkf_text_older *o, const char *token, size_t id, bool lstrip);

/* older_languages.c */
/* M2M and FAIRSEQ: puts the tokens of the class's languages into o->vocab, as the class numbers them. FAIRSEQ: makes
 * o->vocab first. */
vkf_status vkf_text_older_number_pieces(vkf_text_older *o);
/* Adds the languages that are in o->vocab to o->added. */
vkf_status vkf_text_older_add_languages(vkf_text_older *o);

/* older_json.c: byte-level BPE and WordPiece. */
vkf_status vkf_text_older_load_json(vkf_text_tokenizer *tokenizer, vkf_text_older *o);
/* older_spm.c: everything with a SentencePiece model. */
vkf_status vkf_text_older_load_spm(vkf_text_tokenizer *tokenizer, vkf_text_older *o);

#endif
