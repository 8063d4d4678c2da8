/* legacy: shared by the files that load tokenizers without a tokenizer.json. */
#ifndef VKF_TEXT_LEGACY_H
#define VKF_TEXT_LEGACY_H

#include "text/spm.h"

/* The special tokens that a tokenizer_config.json names. */
enum {
  VKF_LEGACY_UNK,
  VKF_LEGACY_BOS,
  VKF_LEGACY_EOS,
  VKF_LEGACY_SEP,
  VKF_LEGACY_PAD,
  VKF_LEGACY_CLS,
  VKF_LEGACY_MASK,
  VKF_LEGACY_N_SPECIAL
};

typedef enum vkf_text_legacy_form {
  VKF_LEGACY_BYTE_BPE,
  VKF_LEGACY_WORDPIECE,
  VKF_LEGACY_MARKED, /* vocab.json and merges.txt of the small Blenderbot */
  VKF_LEGACY_SENTENCEPIECE,
  VKF_LEGACY_MARIAN,  /* source.spm and target.spm, ids in vocab.json */
  VKF_LEGACY_M2M,     /* one SentencePiece model, ids in vocab.json, then languages */
  VKF_LEGACY_BYTES,   /* no file: a piece for each byte, behind three special tokens */
  VKF_LEGACY_PEGASUS, /* one SentencePiece model, 103 ids before its pieces */
  VKF_LEGACY_FAIRSEQ, /* one SentencePiece model, ids in fairseq's order, then languages and the mask */
} vkf_text_legacy_form;

/* A class of tokenizers. */
typedef struct vkf_text_legacy_class {
  const char *class_name, *model_type; /* the class without "Tokenizer" and "Fast" */
  vkf_text_legacy_form form;
  const char *tokens[VKF_LEGACY_N_SPECIAL]; /* if tokenizer_config.json does not say */
  int before, after;                        /* the special tokens around a text; -1: none */
} vkf_text_legacy_class;

/* The state while a folder is read. */
typedef struct vkf_text_legacy {
  vkf_text_loader *loader;
  const vkf_text_files *files;
  json_t *config;                   /* tokenizer_config.json, or an empty object */
  json_t *vocab;                    /* piece to id; NULL: `spm` has the ids */
  vkf_text_spm *spm;                /* NULL: none */
  json_t *added, *post;             /* for the tokenizer.json that is made */
  size_t next_id;                   /* the first id behind the vocabulary and the added tokens */
  const vkf_text_legacy_class *row; /* NULL: a SentencePiece model whose class no file names */
} vkf_text_legacy;

/* legacy_tokens.c */
/* Records VKF_ERROR_MEMORY and returns it. */
vkf_status vkf_text_legacy_no_memory(vkf_text_legacy *o);
/* Finds the id of a piece of the vocabulary; false: there is none. */
bool vkf_text_legacy_find_id(const vkf_text_legacy *o, const char *token, size_t *id);
/* Returns the text of a special token; NULL: none. */
const char *vkf_text_legacy_special_token(const vkf_text_legacy *o, int which);
/* Fills o->added. */
vkf_status vkf_text_legacy_add_tokens(vkf_text_legacy *o);
/* Makes o->post, which puts the class's tokens around a text. */
vkf_status vkf_text_legacy_make_postprocessor(vkf_text_legacy *o);

/* Adds a token of this id to o->added, unless the same text is there already. */
vkf_status vkf_text_legacy_add_token(vkf_text_legacy *o, const char *token, size_t id, bool lstrip);

/* legacy_languages.c */
/* M2M and FAIRSEQ: puts the tokens of the class's languages into o->vocab, as the class numbers them. FAIRSEQ and
 * PEGASUS: makes o->vocab first. */
vkf_status vkf_text_legacy_number_pieces(vkf_text_legacy *o);
/* Adds the languages that are in o->vocab to o->added. */
vkf_status vkf_text_legacy_add_languages(vkf_text_legacy *o);

/* legacy_json.c: byte-level BPE, WordPiece and bytes. */
vkf_status vkf_text_legacy_load_json(vkf_text_tokenizer *tokenizer, vkf_text_legacy *o);
/* Appends the merges of merges.txt. */
vkf_status vkf_text_legacy_read_merges(vkf_text_legacy *o, json_t *merges);
/* legacy_marked.c: BPE whose pieces are marked if the word goes on. */
vkf_status vkf_text_legacy_load_marked(vkf_text_tokenizer *tokenizer, vkf_text_legacy *o);
/* legacy_spm.c: everything with a SentencePiece model. */
vkf_status vkf_text_legacy_load_spm(vkf_text_tokenizer *tokenizer, vkf_text_legacy *o);

#endif
