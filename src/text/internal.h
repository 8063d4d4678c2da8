/* internal: what the files of the room text share.
 *
 * A tokenizer is a few lists of steps, one list per stage. Each stage has a file with a table of the kinds of steps
 * that it knows. Loading looks up a step's type in that table and refuses a type that is not there. Each stage passes a
 * list of pieces to the next.
 */
#ifndef VKF_TEXT_INTERNAL_H
#define VKF_TEXT_INTERNAL_H

#include "text/tokenizer.h"

#include <jansson.h>

/* Borrowed bytes; data may be NULL if size is 0. */
typedef struct vkf_text_string {
  const char *data;
  size_t size;
} vkf_text_string;

bool vkf_text_string_equal(vkf_text_string a, vkf_text_string b);

/* ---- characters (unicode.c); texts are well-formed UTF-8, which tokenizer.c checks ------------------------------- */

/* Returns the character at `at`; *next is the offset behind it. */
uint32_t vkf_text_char_at(vkf_text_string text, size_t at, size_t *next);
/* Returns the offset of the character that ends at `at`, at > 0. */
size_t vkf_text_char_before(vkf_text_string text, size_t at);
size_t vkf_text_char_count(vkf_text_string text);
void vkf_text_append_char(vkf_text *out, uint32_t code);

bool vkf_text_is_white(uint32_t code);           /* property White_Space */
bool vkf_text_is_control(uint32_t code);         /* Cc, Cf, Co, but not tab, line feed and carriage return */
bool vkf_text_is_punctuation(uint32_t code);     /* category P, and ASCII's symbols */
bool vkf_text_is_number(uint32_t code);          /* category N */
bool vkf_text_is_mark(uint32_t code);            /* category M */
bool vkf_text_is_nonspacing_mark(uint32_t code); /* category Mn */
bool vkf_text_is_word(uint32_t code);            /* \w of UTS #18: Alphabetic, M, Nd, Pc, Join_Control */
bool vkf_text_is_ideograph(uint32_t code);       /* the CJK blocks that BERT splits into single characters */

/* Map a byte to its printable character in byte-level vocabularies, as GPT-2 does, and back (-1: none). */
uint32_t vkf_text_byte_to_char(uint8_t byte);
int vkf_text_char_to_byte(uint32_t code);

/* ---- pieces (pieces.c) ------------------------------------------------------------------------------------------- */

typedef struct vkf_text_piece {
  size_t offset, size; /* in the bytes of the list */
  int32_t id;          /* of an added token that was found; -1: text that is still to be encoded */
  bool first;          /* it begins where the whole text begins */
} vkf_text_piece;

/* A growing list of pieces. As with vkf_text, a failed push sets bytes.failed, so callers may check it once. */
typedef struct vkf_text_pieces {
  vkf_text bytes;
  vkf_text_piece *at;
  size_t n, capacity;
} vkf_text_pieces;

void vkf_text_pieces_init(vkf_text_pieces *pieces, vkf_env *env);
void vkf_text_pieces_finish(vkf_text_pieces *pieces);
void vkf_text_pieces_clear(vkf_text_pieces *pieces);
void vkf_text_pieces_push(vkf_text_pieces *pieces, vkf_text_string text, int32_t id, bool first);
vkf_text_string vkf_text_pieces_get(const vkf_text_pieces *pieces, size_t i);

/* ---- ranges and patterns (ranges.c, pattern.c) ------------------------------------------------------------------- */

/* Consecutive ranges that cover a text; each is a match, or the text between two matches. */
typedef struct vkf_text_range {
  size_t start, end;
  bool match;
} vkf_text_range;

typedef struct vkf_text_ranges {
  vkf_env *env;
  vkf_text_range *at;
  size_t n, capacity;
} vkf_text_ranges;

void vkf_text_ranges_init(vkf_text_ranges *ranges, vkf_env *env);
void vkf_text_ranges_finish(vkf_text_ranges *ranges);
vkf_status vkf_text_ranges_push(vkf_text_ranges *ranges, size_t start, size_t end, bool match);
/* Makes each character for which `is` holds one match. */
vkf_status vkf_text_ranges_of_chars(vkf_text_ranges *ranges, vkf_text_string text, bool (*is)(uint32_t code));

typedef enum vkf_text_behavior {
  VKF_TEXT_REMOVED,              /* matches are left out */
  VKF_TEXT_ISOLATED,             /* every range is a piece */
  VKF_TEXT_CONTIGUOUS,           /* adjacent ranges of one kind are one piece */
  VKF_TEXT_MERGED_WITH_PREVIOUS, /* a match belongs to the piece before it */
  VKF_TEXT_MERGED_WITH_NEXT
} vkf_text_behavior;

/* Cuts a text into pieces, by the ranges and the behaviour; empty pieces are left out. Changes the ranges. */
void vkf_text_ranges_cut(vkf_text_ranges *ranges, vkf_text_string text, vkf_text_behavior behavior, bool first,
                         vkf_text_pieces *out);

/* What Replace and Split look for: a regular expression, or a literal text; an empty one matches everywhere. */
typedef struct vkf_text_pattern vkf_text_pattern;
vkf_status vkf_text_pattern_create(vkf_env *env, vkf_arena *arena, vkf_text_string text, bool is_regex,
                                   vkf_text_pattern **out);
/* Frees what the regular expression holds; the arena owns the pattern itself. */
void vkf_text_pattern_finish(vkf_text_pattern *pattern);
vkf_status vkf_text_pattern_ranges(vkf_text_pattern *pattern, vkf_text_string text, vkf_text_ranges *out);
/* Appends `text` with every match replaced by `content`. */
vkf_status vkf_text_pattern_replace(vkf_text_pattern *pattern, vkf_text_string text, vkf_text_string content,
                                    vkf_text *out);

/* ---- loading (load.c) -------------------------------------------------------------------------------------------- */

typedef struct vkf_text_pattern_list vkf_text_pattern_list;

/* What loading needs. stage and type name the current step in messages. */
typedef struct vkf_text_loader {
  vkf_env *env;
  vkf_arena *arena;
  vkf_text_pattern_list **patterns; /* of the tokenizer, which frees them */
  const char *stage, *type;
} vkf_text_loader;

struct vkf_text_pattern_list {
  vkf_text_pattern *pattern;
  vkf_text_pattern_list *next;
};

typedef struct vkf_text_step vkf_text_step;
typedef struct vkf_text_charsmap vkf_text_charsmap;

/* Appends the normalized text. */
typedef vkf_status (*vkf_text_normalize_fn)(const vkf_text_step *step, vkf_text_string text, vkf_text *out);
/* Splits a piece and appends its parts. */
typedef vkf_status (*vkf_text_split_fn)(const vkf_text_step *step, vkf_text_string text, bool first,
                                        vkf_text_pieces *out);
/* What a decoder passes to the next: a piece, a part of one, or the end of the text (is_end). */
typedef struct vkf_text_chunk {
  vkf_text_string text; /* valid during the call */
  bool begins, ends;    /* this is the first part of a piece, the last one */
  bool is_end;
} vkf_text_chunk;

/* What a decoder keeps between pieces. */
typedef struct vkf_text_decode_state {
  size_t n;         /* pieces so far; Strip counts something else */
  size_t count;     /* parts emitted of a piece */
  bool flag;        /* for the step's own use */
  vkf_text held;    /* text that later pieces can change */
  vkf_text partial; /* the parts of a piece so far, for steps that need whole pieces */
} vkf_text_decode_state;

/* Where a decoder's chunks go: to the next step, or from the last step to `out`. */
typedef struct vkf_text_sink {
  const vkf_text_tokenizer *tokenizer;
  const vkf_text_step *step;    /* NULL: none is left */
  vkf_text_decode_state *state; /* of this step; those of later steps follow */
  vkf_text *out;
} vkf_text_sink;
vkf_status vkf_text_emit(const vkf_text_sink *sink, const vkf_text_chunk *chunk);
/* Emits a whole piece. */
vkf_status vkf_text_emit_piece(const vkf_text_sink *sink, vkf_text_string text);
/* Emits a part of the one piece that a step makes of the whole text, and the end if is_last. state: the step's. */
vkf_status vkf_text_emit_part(const vkf_text_sink *sink, vkf_text_decode_state *state, vkf_text_string text,
                              bool is_last);

/* Takes a chunk and emits what no later chunk can change. */
typedef vkf_status (*vkf_text_decode_fn)(const vkf_text_step *step, vkf_text_decode_state *state,
                                         const vkf_text_chunk *in, const vkf_text_sink *out);

/* One row of a stage's table. */
typedef struct vkf_text_kind {
  const char *type;
  vkf_status (*load)(vkf_text_loader *loader, const json_t *json, vkf_text_step *step); /* NULL: no options */
  vkf_text_normalize_fn normalize; /* only the stage's function is set; post-processors have none */
  vkf_text_split_fn split;
  vkf_text_decode_fn decode;
  bool takes_parts; /* `decode` takes parts of pieces */
} vkf_text_kind;

typedef enum vkf_text_prepend {
  VKF_TEXT_PREPEND_ALWAYS,
  VKF_TEXT_PREPEND_FIRST,
  VKF_TEXT_PREPEND_NEVER
} vkf_text_prepend;

/* Ids of a template that stand for others. */
#define VKF_TEXT_FIRST (-1)  /* all ids of the text, or of the first of two */
#define VKF_TEXT_NO_ID (-2)  /* none: a language that is not chosen yet */
#define VKF_TEXT_SECOND (-3) /* all ids of the second text */
typedef struct vkf_text_template {
  const int32_t *ids, *types; /* [n]; types as in token_type_ids, NULL: all are 0 */
  size_t n;
} vkf_text_template;

struct vkf_text_step {
  const vkf_text_kind *kind;
  vkf_text_step *next;
  vkf_env *env;
  vkf_text_pattern *pattern; /* of Replace and of steps that split by a pattern; NULL: none */
  /* What Replace and Prepend put in; the character of Metaspace, Strip and CharDelimiterSplit; the prefix of WordPiece;
   * the suffix of BPEDecoder; SentencePiece's space, or its text of an unknown piece. */
  vkf_text_string content;
  union {
    struct {
      bool clean, ideographs, strip_accents, lowercase;
    } bert;
    struct {
      bool left, right;
    } strip;
    struct {
      bool prefix_space, skips_broken;
    } bytes;
    struct {
      vkf_text_prepend prepend;
      bool split;
    } metaspace;
    struct {
      vkf_text_behavior behavior;
      bool invert;
    } split;
    struct {
      size_t start, stop;
    } trim;
    struct {
      bool cleanup;
    } wordpiece;
    struct {
      const vkf_text_charsmap *map;
    } precompiled;
    struct {
      bool dummy_prefix, remove_extra;
      const vkf_text_charsmap *map;   /* NULL: none */
      const vkf_text_string *symbols; /* [n_symbols] the user's, which normalizing does not change */
      size_t n_symbols;
      vkf_text_string unknown; /* the piece that is decoded to `content` */
    } spm;
    struct {
      vkf_text_template single, pair; /* of one text, of two; n 0: it has no form for two */
    } around;                         /* post-processor */
  } u;
};

/* Reads null, one step or a Sequence of steps (nested ones are flattened); *out: the first step, or NULL. */
vkf_status vkf_text_load_steps(vkf_text_loader *loader, const char *stage, const char *sequence_key,
                               const vkf_text_kind *kinds, size_t n_kinds, const json_t *json, vkf_text_step **out);

/* Reads the object in a file; an absent file is an empty object. *out is a new reference or NULL, even on failure. */
vkf_status vkf_text_load_object(vkf_text_loader *loader, const vkf_text_file *file, json_t **out);
/* Read a field of an object. If it is null or absent, they return the fallback, or fail if there is none. */
vkf_status vkf_text_load_string(vkf_text_loader *loader, const json_t *json, const char *key, vkf_text_string *out);
vkf_status vkf_text_load_char(vkf_text_loader *loader, const json_t *json, const char *key, vkf_text_string *out);
vkf_status vkf_text_load_bool(vkf_text_loader *loader, const json_t *json, const char *key, bool fallback, bool *out);
/* Reads one of two words. If it is null or absent, leaves *is_second as it was. */
vkf_status vkf_text_load_choice(vkf_text_loader *loader, const json_t *json, const char *key, const char *const of[2],
                                bool *is_second);
vkf_status vkf_text_load_size(vkf_text_loader *loader, const json_t *json, const char *key, size_t fallback,
                              size_t *out);
/* Returns the text of a token of tokenizer_config.json, a string or an object with "content"; NULL: it is neither. */
const char *vkf_text_load_token(const json_t *token);
/* Reads {"String": ...} or {"Regex": ...} under "pattern". */
vkf_status vkf_text_load_pattern(vkf_text_loader *loader, const json_t *json, vkf_text_pattern **out);
/* Reads "pattern" and "content" of a step Replace. */
vkf_status vkf_text_load_replace(vkf_text_loader *loader, const json_t *json, vkf_text_step *step);
vkf_status vkf_text_load_regex(vkf_text_loader *loader, vkf_text_string text, vkf_text_pattern **out);
vkf_status vkf_text_load_literal(vkf_text_loader *loader, vkf_text_string text, vkf_text_pattern **out);
vkf_status vkf_text_load_copy(vkf_text_loader *loader, const char *data, size_t size, vkf_text_string *out);
/* Reads the options of Metaspace, which is both a pre-tokenizer and a decoder. */
vkf_status vkf_text_load_metaspace(vkf_text_loader *loader, const json_t *json, vkf_text_step *step);
/* Records a failure whose message begins with `<stage> "<type>": `. Returns `status`. */
vkf_status vkf_text_load_fail(vkf_text_loader *loader, vkf_status status, const char *fmt, ...) VKF_PRINTF(3, 4);

/* ---- the stages -------------------------------------------------------------------------------------------------- */

vkf_status vkf_text_load_normalizers(vkf_text_loader *loader, const json_t *json, vkf_text_step **out);
vkf_status vkf_text_normalize(const vkf_text_step *steps, vkf_env *env, vkf_text_string text, vkf_text *out);

vkf_status vkf_text_charsmap_create(vkf_text_loader *loader, vkf_text_string base64, const vkf_text_charsmap **out);
/* The same from the decoded bytes, which it copies. */
vkf_status vkf_text_charsmap_init(vkf_text_loader *loader, vkf_text_string bytes, const vkf_text_charsmap **out);
/* Finds the longest prefix of `text` that the table has: its size and what replaces it; false: there is none. */
bool vkf_text_charsmap_longest(const vkf_text_charsmap *map, vkf_text_string text, size_t *size, vkf_text_string *out);
void vkf_text_charsmap_apply(const vkf_text_charsmap *map, vkf_text_string text, vkf_text *out);

vkf_status vkf_text_load_pretokenizers(vkf_text_loader *loader, const json_t *json, vkf_text_step **out);
/* Runs all steps over `pieces`, in place. */
vkf_status vkf_text_pretokenize(const vkf_text_step *steps, vkf_text_pieces *pieces);

/* Refuses ids of no token: pieces[id].data is NULL, or id >= n_pieces. */
vkf_status vkf_text_load_postprocessors(vkf_text_loader *loader, const json_t *json, const vkf_text_string *pieces,
                                        size_t n_pieces, vkf_text_step **out);
vkf_status vkf_text_postprocess(const vkf_text_step *steps, const vkf_text_ids *body, vkf_text_ids *out);
/* The same for two texts; `types` gets the type of each id. Returns VKF_ERROR_UNSUPPORTED if a step has no form for two
 * texts. */
vkf_status vkf_text_postprocess_pair(const vkf_text_step *steps, const vkf_text_ids *first, const vkf_text_ids *second,
                                     vkf_text_ids *ids, vkf_text_ids *types);

vkf_status vkf_text_load_decoders(vkf_text_loader *loader, const json_t *json, vkf_text_step **out);
#define VKF_TEXT_CLEAN_UP_RULES 11 /* of decode.c; each has a state */

/* ---- vocabulary (vocab.c) ---------------------------------------------------------------------------------------- */

/* A file with this id or a larger one counts as damaged. */
#define VKF_TEXT_MAX_IDS 4000000

/* Pieces by id, and ids by piece in a hash table with open addressing. All memory is the arena's. */
typedef struct vkf_text_vocab {
  vkf_text_string *pieces; /* [size], zero-terminated each; data NULL: no piece has this id */
  size_t size;             /* the largest id plus one */
  uint32_t *slots;         /* [n_slots] id + 1, 0: free; n_slots is a power of two */
  size_t n_slots;
  size_t longest; /* bytes of the longest piece */
} vkf_text_vocab;

vkf_status vkf_text_vocab_init(vkf_text_vocab *vocab, vkf_text_loader *loader, size_t size, size_t n_pieces);
/* Adds a piece; id < size. Refuses an id that is taken. Of two equal pieces the later one is found. */
vkf_status vkf_text_vocab_add(vkf_text_vocab *vocab, vkf_text_loader *loader, size_t id, const char *data, size_t size);
/* Return the id of a piece; -1: none. hash: vkf_hash_bytes() of it. */
int32_t vkf_text_vocab_find(const vkf_text_vocab *vocab, vkf_text_string piece);
int32_t vkf_text_vocab_find_hashed(const vkf_text_vocab *vocab, vkf_text_string piece, uint64_t hash);

/* ---- models (model.c, bpe.c, unigram.c) -------------------------------------------------------------------------- */

typedef struct vkf_text_merge {
  uint64_t pair; /* left << 32 | right, plus one; 0: free */
  uint32_t rank;
  int32_t id;
} vkf_text_merge;

typedef struct vkf_text_model vkf_text_model;
struct vkf_text_model {
  vkf_env *env;
  vkf_text_vocab vocab;
  /* Appends the ids of one word, which is not empty. */
  vkf_status (*encode)(vkf_text_model *model, vkf_text_string word, vkf_text_ids *out);
  int32_t unk_id; /* -1: none */
  /* Pieces that `vocab` lacks. An unknown run of characters that is one of them gets the id vocab.size + its id here;
   * NULL: there are none. */
  const vkf_text_vocab *surfaces;
  bool unk_missing;      /* the file names an unknown token that the vocabulary does not have */
  int32_t byte_ids[256]; /* of <0x00> ... <0xFF>; -1: none. Only with byte_fallback */
  bool byte_fallback, fuse_unk, ignore_merges;
  vkf_text_string prefix; /* of a piece that continues a word */
  vkf_text_string suffix; /* of a piece that ends a word */
  vkf_text_merge *merges; /* BPE: [n_merge_slots], a power of two, open addressing */
  size_t n_merge_slots;
  const bool *is_whole; /* BPE: [vocab.size], pieces that are cut out of a word before the merges; NULL: none */
  const double *scores; /* Unigram: [vocab.size] */
  double unk_score;
  size_t max_chars; /* WordPiece: a longer word is unknown */
  void *scratch;    /* kept between calls; vkf_text_model_finish frees it */
  size_t scratch_bytes;
};

vkf_status vkf_text_model_load(vkf_text_model *model, vkf_text_loader *loader, const json_t *json);
void vkf_text_model_finish(vkf_text_model *model);
/* Returns at least `bytes` of scratch memory, not zeroed; NULL: recorded. */
void *vkf_text_model_scratch(vkf_text_model *model, size_t bytes);
/* Reads {"piece": id, ...} under "vocab". */
vkf_status vkf_text_model_load_vocab(vkf_text_model *model, vkf_text_loader *loader, const json_t *json);
/* Reads unk_token; null and absent mean none. One that the vocabulary lacks is an error only when it is needed. */
vkf_status vkf_text_model_load_unknown(vkf_text_model *model, vkf_text_loader *loader, const json_t *json);
/* Returns the id of a run of characters that `vocab` lacks; -1: none. */
int32_t vkf_text_model_unknown_id(const vkf_text_model *model, vkf_text_string run);
vkf_status vkf_text_model_append_unknown(vkf_text_model *model, vkf_text_string word, vkf_text_ids *out);
/* Fills byte_ids from the vocabulary. */
void vkf_text_model_find_bytes(vkf_text_model *model);

vkf_status vkf_text_bpe_load(vkf_text_model *model, vkf_text_loader *loader, const json_t *json);
vkf_status vkf_text_unigram_load(vkf_text_model *model, vkf_text_loader *loader, const json_t *json);

/* Set up BPE without a tokenizer.json, once the model has its vocabulary: first init with at least the number of
 * merges, then add them. */
vkf_status vkf_text_bpe_init(vkf_text_model *model, vkf_text_loader *loader, size_t n_merges);
vkf_status vkf_text_bpe_add_merge(vkf_text_model *model, vkf_text_loader *loader, size_t rank, vkf_text_string left,
                                  vkf_text_string right);
/* scores: [vocab.size], the arena's. */
void vkf_text_unigram_init(vkf_text_model *model, const double *scores, double lowest);

/* ---- added tokens (added.c) -------------------------------------------------------------------------------------- */

typedef struct vkf_text_added_token {
  vkf_text_string content, pattern; /* as written; as looked for: normalized if `normalized` */
  int32_t id;
  bool special, single_word, lstrip, rstrip, normalized;
} vkf_text_added_token;

/* Tokens sorted by first byte, then from long to short. */
typedef struct vkf_text_added_set {
  const vkf_text_added_token **tokens;
  size_t start[257]; /* of each first byte */
} vkf_text_added_set;

typedef struct vkf_text_added {
  vkf_text_added_token *tokens;
  size_t n;
  vkf_text_added_set raw, normalized;
} vkf_text_added;

vkf_status vkf_text_added_load(vkf_text_added *added, vkf_text_loader *loader, const json_t *json,
                               const vkf_text_vocab *vocab, const vkf_text_step *normalizers);
/* Cuts the tokens of a set out of a text: appends them as pieces with ids, between pieces of text. */
void vkf_text_added_cut(const vkf_text_added_set *set, vkf_text_string text, bool first, vkf_text_pieces *out);

/* ---- languages (languages.c) ------------------------------------------------------------------------------------- */

/* How the token of a language is written. */
typedef enum vkf_text_language_form {
  VKF_TEXT_LANGUAGE_NONE,        /* no language */
  VKF_TEXT_LANGUAGE_CODE,        /* en_XX, eng_Latn */
  VKF_TEXT_LANGUAGE_UNDERSCORES, /* __en__ */
  VKF_TEXT_LANGUAGE_ARROWS       /* >>en<< */
} vkf_text_language_form;
vkf_text_language_form vkf_text_language_form_of(vkf_text_string token);

typedef struct vkf_text_languages {
  vkf_text_language_form form;
  int32_t *source; /* where a template of the post-processors has the source language; NULL: nowhere */
  int32_t before;  /* the id put before every text with special tokens: the target language; 0: none */
} vkf_text_languages;

/* Returns tokenizer_class of tokenizer_config.json, else of config.json; NULL: none. */
const char *vkf_text_class_name(const json_t *tokenizer_config, const json_t *config);
/* Returns whether a class is the wanted one: "BertTokenizer" and "BertTokenizerFast" are of the class "Bert". */
bool vkf_text_is_class(const char *name, const char *wanted);

/* ---- the tokenizer (tokenizer.c, legacy.c) ----------------------------------------------------------------------- */

struct vkf_text_tokenizer {
  vkf_env *env;
  vkf_arena arena;
  vkf_text_pattern_list *patterns;
  vkf_text_model model;
  const int32_t *remap; /* [model.vocab.size + names.size] the token of each of the model's ids; NULL: the same id */
  vkf_text_vocab names; /* the tokens: the model's vocabulary, or what `remap` leads to */
  vkf_text_added added;
  vkf_text_step *normalizers, *pretokenizers, *postprocessors, *decoders;
  vkf_text_languages languages;
  vkf_text_files target_files; /* copies of the files of of_targets; spm.data NULL: this one is used for targets, too */
  vkf_text_tokenizer *of_targets; /* NULL: not made yet */
  vkf_text_special uses;          /* special tokens by their use */
  vkf_text_string *pieces;        /* [n_pieces] by id, the model's and the added ones; data NULL: none */
  bool *special;                  /* [n_pieces] */
  size_t n_pieces;
  bool cleans_up; /* clean_up_tokenization_spaces, after the decoders */
  bool cuts_left;
};

/* Loads all stages from the content of a tokenizer.json. */
vkf_status vkf_text_tokenizer_load(vkf_text_tokenizer *tokenizer, vkf_text_loader *loader, const json_t *json);
/* Loads added_tokens, pre_tokenizer and post_processor. Needs names and normalizers. */
vkf_status vkf_text_tokenizer_load_tokens(vkf_text_tokenizer *tokenizer, vkf_text_loader *loader, const json_t *json);
/* Loads everything from the legacy files of `files`. */
vkf_status vkf_text_tokenizer_load_legacy(vkf_text_tokenizer *tokenizer, vkf_text_loader *loader,
                                          const vkf_text_files *files);
/* Loads the languages and the special tokens by use of a tokenizer that is otherwise complete. */
vkf_status vkf_text_languages_load(vkf_text_tokenizer *tokenizer, vkf_text_loader *loader, const vkf_text_files *files);

#endif
