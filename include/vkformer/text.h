/* vkformer/text.h: tokenizers, and what people do with texts and images: translate, embed, classify, fill masks,
 * continue prompts. Part of vkformer.h. */
#ifndef VKFORMER_VKFORMER_H
#error "include <vkformer/vkformer.h>, which includes this header"
#endif

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

/* A tokenizer is opened from a folder with tokenizer files (no weights are needed), or belongs to a model.
 *
 * Languages: tokenizers of multilingual models have a token for each language, named as transformers' tokenizers name
 * them ("en_XX", "eng_Latn", "fr"). The source language's token is put where the tokenizer has it. The target language
 * becomes forced_bos_token_id; with Marian its token is put before the text. VKF_ERROR_ARGUMENT: the tokenizer does not
 * have this language (the message lists some that it has), or has no languages. A choice applies to one call. */
typedef struct vkf_tokenizer vkf_tokenizer;
/* VKF_ERROR_UNSUPPORTED: the folder has no tokenizer files, or they ask for something that this library does not do;
 * VKF_ERROR_FILE; VKF_ERROR_FORMAT. vkf_context_message() says what was looked for or found. */
VKF_API vkf_status vkf_tokenizer_open(vkf_context *ctx, const char *folder, vkf_tokenizer **out);
/* Closes a tokenizer that was opened. If it is a model's, only the handle is set to NULL. */
VKF_API void vkf_tokenizer_close(vkf_tokenizer **tokenizer);
/* Returns the model's tokenizer, valid as long as the model is open; NULL: its folder has none, and
 * vkf_context_message() says what was looked for. The functions below accept this NULL and return VKF_ERROR_ARGUMENT,
 * NULL or -1. */
VKF_API vkf_tokenizer *vkf_model_tokenizer(vkf_model *model);
/* Returns the same for a session's thread, valid as long as the session; vkf_session_message() says what failed.
 * Encode, decode and special ids fail once the model is closed, and while another thread runs a call of the session. */
VKF_API vkf_tokenizer *vkf_session_tokenizer(vkf_session *session);

typedef struct vkf_encode_params {
  size_t size;                                   /* sizeof(vkf_encode_params) */
  bool no_special_tokens;                        /* without the tokens that the tokenizer adds around a text */
  const char *source_language, *target_language; /* NULL: as the folder says */
  const char *text_pair; /* NULL, or a second text that belongs to the first: a question and its context, a premise and
                            a hypothesis */
} vkf_encode_params;
#define VKF_ENCODE_PARAMS_INIT .size = sizeof(vkf_encode_params)
VKF_DEFINE_INIT(vkf_encode_params)

/* Encodes a text in UTF-8: array `ids` [n] int32; vkf_result_text(result, i) is the piece of id i as the vocabulary
 * writes it. With a text_pair also `token_type_ids` [n] int32, as the tokenizer assigns them to two texts;
 * VKF_ERROR_UNSUPPORTED: it has no form for two. */
VKF_API vkf_status vkf_tokenizer_encode(vkf_tokenizer *tokenizer, const char *text, const vkf_encode_params *params,
                                        vkf_result **out);

typedef struct vkf_decode_params {
  size_t size;              /* sizeof(vkf_decode_params) */
  bool keep_special_tokens; /* else they are left out */
} vkf_decode_params;
#define VKF_DECODE_PARAMS_INIT .size = sizeof(vkf_decode_params)
VKF_DEFINE_INIT(vkf_decode_params)

/* Decodes ids into a text: vkf_result_text(result, 0). Bytes that are not UTF-8, and zero bytes, which would end a C
 * string, become U+FFFD, as in all texts that a model makes. VKF_ERROR_ARGUMENT: an id is outside the tokenizer's
 * vocabulary, which can be smaller than the model's. */
VKF_API vkf_status vkf_tokenizer_decode(vkf_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                        const vkf_decode_params *params, vkf_result **out);
/* Returns the piece of an id as the vocabulary writes it, valid as long as the tokenizer is open; NULL: there is none.
 */
VKF_API const char *vkf_tokenizer_piece(const vkf_tokenizer *tokenizer, int32_t id);
/* Returns the id of such a piece; -1: there is none. */
VKF_API int32_t vkf_tokenizer_find(const vkf_tokenizer *tokenizer, const char *piece);

/* Ids that have a special use; -1: none. */
typedef struct vkf_special_ids {
  size_t size;           /* sizeof(vkf_special_ids) */
  int32_t bos, eos, pad; /* of a model: as its configuration has them, else as its tokenizer has them */
  int32_t mask, unk;     /* of the tokenizer */
  int32_t decoder_start; /* of a model: the first id of a target */
} vkf_special_ids;
#define VKF_SPECIAL_IDS_INIT .size = sizeof(vkf_special_ids)
VKF_DEFINE_INIT(vkf_special_ids)
/* VKF_ERROR_ARGUMENT: tokenizer or out is NULL, or the tokenizer is that of a session whose model was closed or that
 * another thread uses. */
VKF_API vkf_status vkf_tokenizer_get_special_ids(const vkf_tokenizer *tokenizer, vkf_special_ids *out);
/* eos: the first one if there are several. */
VKF_API vkf_status vkf_model_get_special_ids(const vkf_model *model, vkf_special_ids *out);

/* ---- what people do with texts ----------------------------------------------------------------------------------- */

/* The functions of this section take n texts in UTF-8 and return one result for all, in the order of the texts. They
 * run texts of similar lengths together, in batches that fit the device. A text's numbers do not depend on the other
 * texts (on a GPU: with batch_invariant). The folder must have a tokenizer. */

/* Why a text has no result. */
typedef enum vkf_skip_reason {
  VKF_SKIP_NONE = 0,    /* it has one */
  VKF_SKIP_LONG = 1,    /* it has too many tokens */
  VKF_SKIP_INVALID = 2, /* it is not UTF-8, has no token, or has nothing to work on (a mask, for example) */
  VKF_SKIP_MEMORY = 3,  /* its keys and values have no room, even alone: kv_cache_bytes, or what the device has left */
  VKF_SKIP_FAILED = 4   /* the model's scores are not finite, or the options allow no id or no sequence */
} vkf_skip_reason;
/* Returns why text number `text` was skipped in a call with skip_refused. *why (`why` may be NULL) gets a sentence that
 * is valid as long as the result, or NULL if the text was not skipped. */
VKF_API vkf_skip_reason vkf_result_skipped(const vkf_result *result, size_t text, const char **why);

/* Translates each text into s texts (num_return_sequences), the best first, or with do_sample in the order in which
 * they were drawn. vkf_result_text(result, i * s + r) is translation r of texts[i], without white space at its ends; ""
 * if it is absent in a part of the text (its score there is -infinity, see vkf_session_generate()).
 * The parts of a text that was split are joined, with a space where the text had white space. VKF_ERROR_ARGUMENT names
 * a text (counted from 1) that is empty, not UTF-8, or too long if long_texts is VKF_LONG_REFUSE.
 *
 * Arrays with s rows for each part of a text:
 *   sequences   as from vkf_session_generate(); with beams, alternatives or params.scores also sequences_scores and
 *               token_scores
 *   texts       [rows] int32: the number of the text that the row belongs to
 *   alignments  [rows,length,sources] float32, with params.alignments: the weight that each id of `sequences` gives
 *               to each of the first n_sources[row] ids of its part (the end id included): the mean over heads of the
 *               last layer's cross-attention, or over params.align_heads. The weights of an id add up to 1 over a part;
 *               those of the start id and of all after the end are 0. Each part then takes one more forward pass
 * and with a row for each text:
 *   n_tokens    [n] int32
 *   cut         [n] int32: 1 if the text was too long and was split or truncated */
VKF_API vkf_status vkf_session_translate(vkf_session *session, const char *const *texts, size_t n_texts,
                                         const vkf_generate_params *params, vkf_result **out);

/* Finds out from a sample which heads of the cross-attention align. Each text is translated. A token that occurs once
 * in a text and once in its translation is a link; a head follows the link if its largest weight is at the token of the
 * text. Text 0 of the result names the heads whose mean follows most links, at most 8, the best first, as
 * params.align_heads takes them. Arrays: `chosen` [1] float32: the part of the links that their mean follows;
 * `followed` [layers,heads] float32: the part that each head follows; `n_links` [1] int32. VKF_ERROR_ARGUMENT: there is
 * no link. */
VKF_API vkf_status vkf_session_align_heads(vkf_session *session, const char *const *texts, size_t n_texts,
                                           const vkf_generate_params *params, vkf_result **out);

/* A text of a queue. `next` sets the members behind `size`. */
typedef struct vkf_queued_text {
  size_t size;               /* sizeof(vkf_queued_text) of the library */
  const char *text;          /* must be valid until it is done; NULL: there is none now */
  uint64_t line;             /* do_sample: the text draws the random numbers of this line */
  void *tag;                 /* the caller's */
  const char *target_prefix; /* what the translation begins with, see vkf_generate_params; NULL: it may begin with
                                anything. Only for vkf_session_translate_queue(). */
} vkf_queued_text;

/* Callbacks that supply texts and take their results. If one returns non-zero, the call stops: no callback is called
 * again, and texts that are not done get no result. */
typedef struct vkf_text_queue {
  size_t size; /* sizeof(vkf_text_queue) */
  /* Asks for the next text, between steps, as long as there is a free place. busy: other texts are being processed, and
   * wait until this returns. If it gives no text while not busy, the call ends. */
  int (*next)(void *user, bool busy, vkf_queued_text *out);
  /* A text is done, in any order. result: that of vkf_session_translate(), or vkf_session_generate_text(), for this
   * text alone, valid until this returns. */
  int (*done)(void *user, void *tag, const vkf_result *result);
  void *user;
} vkf_text_queue;
#define VKF_TEXT_QUEUE_INIT .size = sizeof(vkf_text_queue)
VKF_DEFINE_INIT(vkf_text_queue)

/* The most texts of a call that run together, however large its batch_size is. */
#define VKF_MOST_TOGETHER 4096

/* Translates texts that arrive while others are being translated. At most params.batch_size texts run together; one
 * that is done makes place for the next. on_token and on_beams get the number of the text in order of arrival, from 0.
 * params.lines is not read. VKF_ERROR_STOPPED: a callback asked to stop. */
VKF_API vkf_status vkf_session_translate_queue(vkf_session *session, const vkf_text_queue *queue,
                                               const vkf_generate_params *params);

/* Computes how probable given translations are for the model. Arrays: `ids` [n,length] int32: the tokens of each target
 * with the end token, then -1; `logprobs` [n,length] float32: the log-probability of each, given the source and the
 * tokens before it; `scores` [n] float64: their sums. config_json: as in vkf_generate_params; NULL: none.
 * VKF_ERROR_UNSUPPORTED: the model is no encoder-decoder, or has languages. VKF_ERROR_ARGUMENT names a text (counted
 * from 1) that is not UTF-8 or too long. */
VKF_API vkf_status vkf_session_score(vkf_session *session, const char *const *sources, const char *const *targets,
                                     size_t n, const char *config_json, vkf_result **out);

typedef struct vkf_evaluate_params {
  size_t size;                 /* sizeof(vkf_evaluate_params) */
  size_t n_samples;            /* samples of the sentences, for intervals (bootstrap); 0: none */
  uint32_t seed;               /* of the samples; sacreBLEU's is 12345 */
  const char *const *baseline; /* [n]: the translations of another system, to test the difference; NULL: none */
} vkf_evaluate_params;
#define VKF_EVALUATE_PARAMS_INIT .size = sizeof(vkf_evaluate_params)
VKF_DEFINE_INIT(vkf_evaluate_params)

/* Compares translations [n] with references [n_references][n], as sacreBLEU 2 does it by default: BLEU (tokenizer 13a,
 * exponential smoothing) and chrF2. Arrays of float64: `bleu` [1], `chrf` [1], `bleu_precisions` [4], `bleu_penalty`
 * [1], `bleu_lengths` [2] (words of the translations, of the references); with n_samples `bleu_interval` and
 * `chrf_interval` [2]: the mean of the samples' scores, and half the width of the interval that has 95 of 100 of them.
 * With a baseline, which needs samples, also the same names prefixed with "baseline_", and `bleu_p` and `chrf_p` [1]:
 * how probable so large a difference is by chance (paired bootstrap). */
VKF_API vkf_status vkf_evaluate(vkf_context *ctx, const char *const *hypotheses, size_t n,
                                const char *const *references, size_t n_references, const vkf_evaluate_params *params,
                                vkf_result **out);

typedef enum vkf_pooling {
  VKF_POOLING_FOLDER = 0, /* as 1_Pooling/config.json says; without that file, the mean */
  VKF_POOLING_MEAN = 1,
  VKF_POOLING_CLS = 2,           /* the state of the first token */
  VKF_POOLING_MAX = 3,           /* the largest number of each dimension */
  VKF_POOLING_LAST = 4,          /* the state of the last token */
  VKF_POOLING_WEIGHTED_MEAN = 5, /* the mean in which the n-th token counts n times (Muennighoff 2022, SGPT) */
  VKF_POOLING_MEAN_SQRT_LEN = 6  /* the sum of n states over the square root of n */
} vkf_pooling;

typedef struct vkf_embedding_params {
  size_t size; /* sizeof(vkf_embedding_params) */
  vkf_pooling pooling;
  bool normalize;  /* to length 1, even if the folder does not say so */
  bool similarity; /* compute `similarity` */
  vkf_long_rule long_texts;
  bool ignore_folder_limit; /* false: a text with more tokens than the folder's max_seq_length is cut there, special
                               tokens kept, as sentence-transformers does; true: long_texts says what becomes of it */
  bool skip_refused;        /* true skips a text that is refused; false fails the call */
} vkf_embedding_params;
#define VKF_EMBEDDING_PARAMS_INIT .size = sizeof(vkf_embedding_params)
VKF_DEFINE_INIT(vkf_embedding_params)

/* Computes a vector for each text: the last states of its tokens, pooled as sentence-transformers does it. The folder's
 * modules.json, 1_Pooling/config.json, sentence_bert_config.json and config_sentence_transformers.json decide pooling
 * (several poolings are concatenated), the layers after it (Dense, the last of which then determines the width),
 * normalization, max_seq_length and the default prompt before each text. Arrays: `embeddings` [n,width] float64;
 * `n_tokens` and `n_used` [n] int32: the tokens of each text, and how many of them were pooled; `similarity` [n,n]
 * float64: the cosine of each pair of texts. The parts of a text that was split are pooled as one text. A text that was
 * skipped has NaN and 0. VKF_ERROR_UNSUPPORTED: the model is an encoder-decoder, or the folder's files ask for
 * something that this library does not compute; the message names it. VKF_ERROR_ARGUMENT names a text (counted from 1)
 * that is refused. */
VKF_API vkf_status vkf_session_embed(vkf_session *session, const char *const *texts, size_t n_texts,
                                     const vkf_embedding_params *params, vkf_result **out);

typedef struct vkf_classify_params {
  size_t size;  /* sizeof(vkf_classify_params) */
  size_t top_k; /* this many labels of a text, best first; 0: all */
  vkf_long_rule long_texts;
  bool skip_refused;
  const char *const *text_pairs; /* [n_texts]: the second text of each pair; NULL: there are no pairs */
  /* [n_candidate_labels]: names to choose among, in place of the model's labels; NULL: none */
  const char *const *candidate_labels;
  size_t n_candidate_labels;
  const char *hypothesis_template; /* with {} in the place of the name; NULL: "This example is {}." */
  bool multi_label;                /* any number of the candidates may be true */
} vkf_classify_params;
#define VKF_CLASSIFY_PARAMS_INIT .size = sizeof(vkf_classify_params)
VKF_DEFINE_INIT(vkf_classify_params)

/* Labels texts. A model with a sequence classification head labels whole texts: arrays `labels` [n,k] int32, best
 * first, and `scores` [n,k] float64. vkf_result_text(result, label) is a label's name (id2label of config.json, else
 * "LABEL_0"). Scores are those of transformers' pipelines: the softmax over the labels; the sigmoid of each if
 * problem_type is multi_label_classification or there is only one label; the logits of a regression. The scores of a
 * text that was split are the mean over its parts, weighted by their numbers of tokens. A text that was skipped has
 * labels -1.
 *
 * A model of pairs (inference, ranking) gets two texts at once, as its tokenizer joins them. If a pair is too long,
 * VKF_LONG_TRUNCATE shortens the longer text, then both ("longest_first" of transformers); VKF_LONG_SPLIT is refused.
 * Pairs for a model that labels words are refused, too.
 *
 * With candidate_labels an inference model says which of them fit a text ("zero-shot" of transformers' pipelines; Yin
 * et al. 2019): the text is the premise, the template with a name the hypothesis. The model must have a label whose
 * name begins with "entail". `labels` are indexes of candidates, and vkf_result_text(result, label) is the candidate;
 * `scores` the softmax of entailment over the candidates. With multi_label, or one candidate, they are the softmax of
 * entailment and contradiction (label 0, or the last one if entailment is label 0) of each alone. Texts that are too
 * long are shortened or refused as pairs are. VKF_ERROR_ARGUMENT: an empty candidate, or a template without {}.
 *
 * A model with a token classification head (its class is called ...ForTokenClassification) labels the words of all
 * texts, in order: arrays `texts` [w] int32, the number of the word's text, `labels` [w] and `scores` [w], those of the
 * word's first token. vkf_result_text(result, i) is word i, vkf_result_text(result, w + label) the name of a label. A
 * discriminator (ElectraForPreTraining) does the same with each token in place of a word; its only label is "replaced",
 * and the score is the probability that the token was replaced, the sigmoid of its logit.
 *
 * VKF_ERROR_UNSUPPORTED: the model has no such head. */
VKF_API vkf_status vkf_session_classify(vkf_session *session, const char *const *texts, size_t n_texts,
                                        const vkf_classify_params *params, vkf_result **out);
/* Labels image files (PNG, JPEG) as vkf_session_read_images() reads them. The result is as for whole texts. Fails if
 * one cannot be read. */
VKF_API vkf_status vkf_session_classify_images(vkf_session *session, const char *const *paths, size_t n_paths,
                                               const vkf_classify_params *params, vkf_result **out);

typedef struct vkf_fill_mask_params {
  size_t size;  /* sizeof(vkf_fill_mask_params) */
  size_t top_k; /* this many candidates of a mask, best first; 0: 5 */
  vkf_long_rule long_texts;
  bool skip_refused;
} vkf_fill_mask_params;
#define VKF_FILL_MASK_PARAMS_INIT .size = sizeof(vkf_fill_mask_params)
VKF_DEFINE_INIT(vkf_fill_mask_params)

/* Fills the masks of texts with a masked language model. Write a mask as the tokenizer does, often `[MASK]`.
 * Each mask is filled alone; the others remain masks. Arrays, for all m masks in the order of the texts: `texts` [m]
 * int32, the number of the mask's text; `positions` [m] int32, its position among the ids of the text's part; `ids`
 * [m,k] int32, best first; `scores` [m,k] float64, their probabilities. For candidate j of mask i let c = i * k + j:
 * vkf_result_text(result, 2 * c) is the token, vkf_result_text(result, 2 * c + 1) the text with it. A text without a
 * mask is refused. */
VKF_API vkf_status vkf_session_fill_mask(vkf_session *session, const char *const *texts, size_t n_texts,
                                         const vkf_fill_mask_params *params, vkf_result **out);

/* Gets the next piece of the text that follows prompt number `prompt`: n_bytes, without a zero at the end. A piece has
 * whole UTF-8 characters that later tokens do not change, and no part of a stop string. Return non-zero to stop: the
 * call returns VKF_ERROR_STOPPED with a result of what was generated before. */
typedef int (*vkf_text_fn)(void *user, size_t prompt, const char *text, size_t n_bytes);

typedef struct vkf_generate_text_params {
  size_t size;              /* sizeof(vkf_generate_text_params) */
  const char *config_json;  /* as in vkf_generate_params */
  const char *const *stops; /* generation of a text ends before the first of these strings; with beams, or several
                               sequences for a prompt, the finished texts are cut there */
  size_t n_stops;
  vkf_text_fn on_text; /* called as texts grow; not with beams or several sequences for a prompt. NULL: none */
  void *user;
  size_t batch_size;        /* prompts that run together, at most; 0: 64, fewer with beams. One that is done makes
                               place for the next */
  const uint64_t *lines;    /* do_sample: prompt i draws the random numbers of line lines[i]; NULL: of line i */
  bool scores;              /* `sequences_scores` also without beams */
  uint32_t top_logprobs;    /* as in vkf_generate_params */
  vkf_long_rule long_texts; /* VKF_LONG_TRUNCATE leaves room for the new tokens, half of the positions at most;
                               VKF_LONG_SPLIT is refused: a part's continuation is not the prompt's */
  bool skip_refused;
  const char *source_language, *target_language; /* of the texts, see "languages"; NULL: as the folder says */
} vkf_generate_text_params;
#define VKF_GENERATE_TEXT_PARAMS_INIT .size = sizeof(vkf_generate_text_params)
VKF_DEFINE_INIT(vkf_generate_text_params)

/* Continues each prompt (an encoder-decoder: answers it) with s sequences (num_return_sequences).
 * vkf_result_text(result, i * s + r) is sequence r of prompt i. Arrays: `sequences` [n*s,length] int32: the generated
 * ids without the prompt, then -1; with beams, alternatives or params.scores `sequences_scores` [n*s], as from
 * vkf_session_generate() (-infinity: the sequence is absent), but NaN if the prompt was skipped or a stop string ended
 * the generation (not with beams or several sequences); with top_logprobs N `logprobs` [n*s,length], `top_ids` and
 * `top_logprobs` [n*s,length,N]. A text ends at the model's last position; a prompt that leaves no room is refused. A
 * prompt's text depends on the configuration, the prompt, and with do_sample on seed and line; it does not depend on
 * the other prompts. */
VKF_API vkf_status vkf_session_generate_text(vkf_session *session, const char *const *prompts, size_t n_prompts,
                                             const vkf_generate_text_params *params, vkf_result **out);

/* Continues prompts that arrive while others are being continued, as vkf_session_translate_queue() does with texts.
 * on_text gets the number of the prompt in order of arrival, from 0. params.lines is not read. VKF_ERROR_UNSUPPORTED: a
 * text came with a target_prefix. */
VKF_API vkf_status vkf_session_generate_text_queue(vkf_session *session, const vkf_text_queue *queue,
                                                   const vkf_generate_text_params *params);
