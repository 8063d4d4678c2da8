/* spm: the contents of a SentencePiece model file.
 *
 * The file is one protobuf message, ModelProto of SentencePiece's sentencepiece_model.proto. Only the fields that
 * encoding and decoding need are read. Strings point into the file's bytes, which must outlive the value.
 */
#ifndef VKF_TEXT_SPM_H
#define VKF_TEXT_SPM_H

#include "text/internal.h"

/* SentencePiece.Type */
typedef enum vkf_text_spm_type {
  VKF_TEXT_SPM_NORMAL = 1,
  VKF_TEXT_SPM_UNKNOWN = 2,
  VKF_TEXT_SPM_CONTROL = 3,
  VKF_TEXT_SPM_USER_DEFINED = 4,
  VKF_TEXT_SPM_UNUSED = 5,
  VKF_TEXT_SPM_BYTE = 6
} vkf_text_spm_type;

typedef struct vkf_text_spm_piece {
  vkf_text_string text; /* well-formed UTF-8, not empty, without zero bytes */
  float score;          /* finite */
  vkf_text_spm_type type;
} vkf_text_spm_piece;

typedef struct vkf_text_spm {
  vkf_text_spm_piece *pieces; /* [n_pieces] by id; the arena's */
  size_t n_pieces;
  size_t unk_id; /* of the one piece of type UNKNOWN */
  bool bpe;      /* otherwise unigram */
  bool byte_fallback;
  bool dummy_prefix, remove_extra_spaces, escape_spaces;
  vkf_text_string charsmap;    /* size 0: the text is not changed */
  vkf_text_string unk_surface; /* what the unknown piece is decoded to */
} vkf_text_spm;

/* Reads the bytes of a file. Returns VKF_ERROR_FORMAT if it is damaged, VKF_ERROR_UNSUPPORTED, with the name, for what
 * is not supported: models of words and characters, spaces as suffixes, pieces of type UNUSED, denormalizers. */
vkf_status vkf_text_spm_read(vkf_text_loader *loader, vkf_text_string file, vkf_text_spm *out);

/* Makes the model, with the file's ids. Pieces that text never becomes (control, unknown, bytes) have ids, but are not
 * found. */
vkf_status vkf_text_spm_load_model(vkf_text_loader *loader, const vkf_text_spm *spm, vkf_text_model *model);
/* Makes the one normalizer: the charsmap, spaces, and the space before the text. */
vkf_status vkf_text_spm_load_normalizer(vkf_text_loader *loader, const vkf_text_spm *spm, vkf_text_step **out);
/* Makes the two decoders: bytes to characters, then pieces to text. */
vkf_status vkf_text_spm_load_decoders(vkf_text_loader *loader, const vkf_text_spm *spm, vkf_text_step **out);
/* Makes a decoder that joins pieces as transformers' own classes do, without SentencePiece. */
vkf_status vkf_text_spm_load_join(vkf_text_loader *loader, vkf_text_step **out);

#endif
