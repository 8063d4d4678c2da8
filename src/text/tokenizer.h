/* tokenizer: turns text into token ids and back, as a tokenizer.json describes it.
 *
 * Owns everything that the file says: added tokens, normalizers, pre-tokenizers, the model (BPE, Unigram, WordPiece,
 * word level), post-processors and decoders. Encoding runs them in this order:
 *
 *     text > added tokens cut out > normalizers > normalized added tokens cut out
 *          > pre-tokenizers > model > post-processors
 *
 * Loading refuses, by name, every step and option that is not implemented. `truncation` and `padding` of the file are
 * left to the caller, who batches the texts; only the side that is cut is kept for it. Invariant: decode takes every id
 * that encode returns.
 *
 * Threads: a tokenizer is used by one thread at a time, because it keeps scratch memory between calls.
 */
#ifndef VKF_TEXT_TOKENIZER_H
#define VKF_TEXT_TOKENIZER_H

#include "base/base.h"

typedef struct vkf_text_tokenizer vkf_text_tokenizer;

/* A growing list of token ids. */
typedef struct vkf_text_ids {
  vkf_env *env;
  int32_t *ids;
  size_t n, capacity;
} vkf_text_ids;

void vkf_text_ids_init(vkf_text_ids *ids, vkf_env *env);
void vkf_text_ids_finish(vkf_text_ids *ids);
vkf_status vkf_text_ids_append(vkf_text_ids *ids, const int32_t *more, size_t n);

/* A file's bytes, and its name in messages. data NULL: the folder has no such file. */
typedef struct vkf_text_file {
  const char *data;
  size_t size;
  const char *name;
} vkf_text_file;

/* The files of a model folder that define its tokenizer. */
typedef struct vkf_text_files {
  vkf_text_file tokenizer;        /* tokenizer.json; if there is one, only the next two are read as well */
  vkf_text_file tokenizer_config; /* tokenizer_config.json: class, languages, clean_up_..., truncation_side */
  vkf_text_file config;           /* config.json: tokenizer_class or model_type, if the file above names no class */
  vkf_text_file spm, target_spm;  /* spiece.model, tokenizer.model, ..., or source.spm and target.spm */
  vkf_text_file vocab, merges;    /* vocab.json, merges.txt */
  vkf_text_file words;            /* vocab.txt */
} vkf_text_files;

/* Creates a tokenizer from tokenizer.json, or from the legacy files of the tokenizer_class: byte-level BPE (vocab,
 * merges), WordPiece (words), SentencePiece (spm), Marian (spm, target_spm, vocab), mBART and XLM-R (spm), M2M-100
 * (spm, vocab). If no file names a class or a model_type, a SentencePiece model is read as it is: no tokens are added,
 * and text that looks like one ("</s>") stays text. The files' bytes are not needed afterwards. Returns
 * VKF_ERROR_FORMAT for a bad file, VKF_ERROR_UNSUPPORTED with the name of an unknown step, option or class,
 * VKF_ERROR_FILE if files are missing. */
vkf_status vkf_text_tokenizer_create(vkf_env *env, const vkf_text_files *files, vkf_text_tokenizer **out);
void vkf_text_tokenizer_destroy(vkf_text_tokenizer **tokenizer);

/* Gets the tokenizer for texts in the target language. It is mostly `tokenizer` itself, lives as long and is used by
 * the same thread. Marian's older files have another SentencePiece model for such texts, with the same ids: the first
 * call creates its tokenizer, and may fail as vkf_text_tokenizer_create() does. */
vkf_status vkf_text_tokenizer_of_targets(vkf_text_tokenizer *tokenizer, vkf_text_tokenizer **out);

/* Appends the ids of a text; add_special: with the tokens of the post-processors. Returns VKF_ERROR_ARGUMENT for
 * invalid UTF-8 (the message gives the offset in bytes) and for a word without a token if the model has no unknown
 * token. After an error `out` is as it was. */
vkf_status vkf_text_tokenizer_encode(vkf_text_tokenizer *tokenizer, const char *utf8, size_t size, bool add_special,
                                     vkf_text_ids *out);

/* Appends the ids of a text without special tokens; of a long text those up to the end of the word with which there are
 * `most` or more: the first ones, or the last ones of a tokenizer that cuts on the left. So does the tokenizers library
 * (0.23) before it truncates two texts to a common length. A word is what the pre-tokenizers make, no added token. */
vkf_status vkf_text_tokenizer_encode_most(vkf_text_tokenizer *tokenizer, const char *utf8, size_t size, size_t most,
                                          vkf_text_ids *out);

/* Appends the ids of two texts that belong together (text_pair of transformers), and the type of each id
 * (token_type_ids). first, second: without special tokens. Returns VKF_ERROR_UNSUPPORTED if the tokenizer has no form
 * for two texts. After an error do not use `ids` and `types`. */
vkf_status vkf_text_tokenizer_join(const vkf_text_tokenizer *tokenizer, const vkf_text_ids *first,
                                   const vkf_text_ids *second, bool add_special, vkf_text_ids *ids,
                                   vkf_text_ids *types);

/* Appends the text of ids; skip_special: without the special tokens. Bytes that are no UTF-8, and zero bytes, which
 * would end a C string, become U+FFFD. An id outside the vocabulary has no text: a model may have more ids than its
 * tokenizer. After an error `out` is as it was, or `failed`. */
vkf_status vkf_text_tokenizer_decode(vkf_text_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip_special,
                                     vkf_text *out);

/* Decodes ids one at a time. */
typedef struct vkf_text_stream vkf_text_stream;
vkf_status vkf_text_stream_create(vkf_text_tokenizer *tokenizer, bool skip_special, vkf_text_stream **out);
void vkf_text_stream_destroy(vkf_text_stream **stream); /* *stream may be NULL */
/* Adds an id and appends the text that no later id can change, in whole characters. The time does not grow with the
 * text. All that was appended and then the rest make the text of vkf_text_tokenizer_decode(). After an error the stream
 * can only be destroyed. */
vkf_status vkf_text_stream_add(vkf_text_stream *stream, int32_t id, vkf_text *out);
/* Adds a piece that is in no vocabulary. */
vkf_status vkf_text_stream_add_word(vkf_text_stream *stream, const char *utf8, size_t size, vkf_text *out);
/* Appends the rest, as if the text ended here; more ids may follow. */
vkf_status vkf_text_stream_rest(vkf_text_stream *stream, vkf_text *out);

/* Returns the id of a piece as the vocabulary writes it, or -1. */
int32_t vkf_text_tokenizer_find(const vkf_text_tokenizer *tokenizer, const char *piece);
/* Returns whether an id is a special token, which skip_special leaves out. */
bool vkf_text_tokenizer_is_special(const vkf_text_tokenizer *tokenizer, int32_t id);
/* Returns whether texts that are too long lose their first tokens (truncation_side "left", or a truncation to the left
 * in tokenizer.json), not their last ones. */
bool vkf_text_tokenizer_cuts_left(const vkf_text_tokenizer *tokenizer);
/* Returns whether the pieces that begin words are marked, by byte-level BPE's space or by U+2581. */
bool vkf_text_tokenizer_marks_words(const vkf_text_tokenizer *tokenizer);
/* Returns the piece of an id, which lives as long as the tokenizer; NULL: none. */
const char *vkf_text_tokenizer_piece(const vkf_text_tokenizer *tokenizer, int32_t id);

/* The languages before vkf_text_languages_use(). */
typedef struct vkf_text_languages_before {
  int32_t source, before;
} vkf_text_languages_before;
/* Sets the source and target languages of a multilingual tokenizer for the texts of one call, by their names in
 * transformers' tokenizers ("en_XX", "eng_Latn", "fr"); NULL: as it is. *begin: the id with which translations begin
 * (forced_bos_token_id), or -1: there is no target, or its token is put before each source text (Marian). Returns
 * VKF_ERROR_ARGUMENT for a language that the tokenizer lacks; the message lists some that it has. After an error
 * nothing is changed; else call vkf_text_languages_restore() after the texts. */
vkf_status vkf_text_languages_use(vkf_text_tokenizer *tokenizer, const char *source, const char *target,
                                  vkf_text_languages_before *before, int32_t *begin);
void vkf_text_languages_restore(vkf_text_tokenizer *tokenizer, const vkf_text_languages_before *before);

/* Special tokens by their use; -1: none. tokenizer_config.json names them. If it does not, the mask is [MASK] or
 * <mask>, and the unknown token is the model's. */
typedef struct vkf_text_special {
  int32_t bos, eos, pad, mask, unk;
} vkf_text_special;
vkf_text_special vkf_text_tokenizer_special(const vkf_text_tokenizer *tokenizer);

#endif
