/* vkformer/run.h: forward passes, generation of ids, and loops of your own over slots. Part of vkformer.h. */
#ifndef VKFORMER_VKFORMER_H
#error "include <vkformer/vkformer.h>, which includes this header"
#endif

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct vkf_run_params {
  size_t size; /* sizeof(vkf_run_params) */
  bool hidden_states, attentions;
  bool allow_not_finite; /* false: VKF_ERROR_NUMERIC names the first output that has a NaN or an infinity. A logit that
                            the head's own bias sets to minus infinity, so that the id never comes, is no error */
  bool layer_logits;     /* apply the final norm and the head to the states before each layer (logit lens) */
  bool projections;      /* queries, keys, values and bias of each attention, from which its scores can be computed */
} vkf_run_params;
#define VKF_RUN_PARAMS_INIT .size = sizeof(vkf_run_params)
VKF_DEFINE_INIT(vkf_run_params)

/* Runs one forward pass. params: NULL for last states and logits only.
 *
 * inputs: input_ids [B,S], attention_mask [B,S] (1 keep, 0 pad; default all 1), decoder_input_ids [B,T],
 * decoder_attention_mask [B,T], token_type_ids [B,S] (default all 0), as far as the model has them; int32 or int64.
 * Without decoder_input_ids an encoder-decoder that labels whole texts uses decoder_start_token_id and all input_ids
 * but the last one, as transformers does. Models of images take only pixel_values [B,channels,height,width] (float32).
 *
 * Pads behind a sentence change none of its bits. Pads before it change none unless they move its positions: as in
 * transformers, a forward pass counts them as positions in most models; vkf_session_generate() does not feed them to a
 * decoder. Pads before and behind a sentence are not computed: outputs are zeros there, except at the token that a
 * classification head reads.
 *
 * Most arrays of the result have the names and shapes of transformers' outputs: logits, pooler_output,
 * encoder_last_hidden_state, encoder_hidden_states.N, decoder_hidden_states.N, encoder_attentions.N,
 * decoder_attentions.N, cross_attentions.N; models with one stack have last_hidden_state, hidden_states.N,
 * attentions.N. These are not in transformers:
 *   layer_logits.N         [B,T,vocab]: the logits of hidden_states.N, N below the number of layers; after the last
 *                          layer they are `logits`
 *   encoder_projections.N, decoder_projections.N; of one stack projections.N  [B,S,width]: the heads of queries, of
 *                          keys and of values side by side, as the attention of layer N reads them (with their biases;
 *                          normalized and rotated if the model does that)
 *   cross_queries.N        [B,T,width] and
 *   cross_keys_values.N    [B,S,width]: the same for cross-attention
 *   encoder_position_bias  [B,H,S,S] and
 *   decoder_position_bias  [B,H,T,T]: where scores have a bias by distance (T5); all layers of a stack add it. Where
 *                          each layer has its own (UMT5) they are encoder_position_bias.N, decoder_position_bias.N;
 *                          of an encoder alone (T5EncoderModel) position_bias, position_bias.N
 * vkf_model_get_attention() says how scores are computed from these. */
VKF_API vkf_status vkf_session_run(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                   const vkf_run_params *params, vkf_result **out);

/* Reads image files (PNG, JPEG) and prepares them as the folder's preprocessor_config.json says, with Pillow's
 * arithmetic: array pixel_values [n,channels,height,width] for vkf_session_run(). For models of images. */
VKF_API vkf_status vkf_session_read_images(vkf_session *session, const char *const *paths, size_t n, vkf_result **out);

/* Called after each step. Greedy search and sampling: row `row` of the result's `sequences` (translate: the text's
 * index) got `token`. Beams: `token` is -1 and `row` has no meaning. Return non-zero to stop: the callback is not
 * called again, and the call returns VKF_ERROR_STOPPED with a result of all rows up to that step. Rows that the device
 * has no room for wait until others are done. Rows that had not begun then have only fill in the `sequences` of
 * vkf_session_generate(), and NaN as their score; vkf_session_translate() gives "" for such texts. */
typedef int (*vkf_token_fn)(void *user, size_t row, int32_t token);

/* A candidate of one step of a beam search. */
typedef struct vkf_beam_candidate {
  float score;     /* of the hypothesis with this id: the sum of its log-probabilities */
  uint32_t row;    /* which beam of the step before it continues; 0 in the first step */
  int32_t id;      /* the id that it adds */
  bool ends;       /* an end id, or the length limit */
  float logprob;   /* of id in this step */
  bool finishes;   /* it ends and competes with the finished hypotheses */
  int32_t becomes; /* which beam of this step it is now, 0 the best; -1: it ended or was dropped */
  uint32_t bank;   /* with words that must appear: how many of their ids it has */
} vkf_beam_candidate;

/* Called after each step of a beam search with its candidates [n], the best first. `row` is the input's row, or the
 * text's index. `search` is the number of the alternative (return_alternatives) or of the group of beams, within which
 * beams are counted, else 0. Return non-zero to stop, as for vkf_token_fn. */
typedef int (*vkf_beams_fn)(void *user, size_t row, size_t search, const vkf_beam_candidate *candidates, size_t n);

/* What to do with a text that has more tokens than the model has positions. */
typedef enum vkf_long_rule {
  VKF_LONG_REFUSE = 0,
  /* keep the words that fit: the first ones; the last ones of a prompt that is continued, and of any text if the folder
   * has "truncation_side": "left" */
  VKF_LONG_TRUNCATE = 1,
  VKF_LONG_SPLIT = 2 /* split after sentences, else between words, else between characters */
} vkf_long_rule;

/* A short list: the tokens that a translation may have, given those of its source. It is read from a lexical table in
 * Marian's format: lines "target source probability", with tokens as the tokenizer's vocabulary writes them (a warning
 * counts those that the vocabulary does not have). A source allows the first n_first ids of the vocabulary, the special
 * tokens, the n_best most probable targets of each of its tokens and, where both sides share a vocabulary, its own
 * tokens. Only these rows of the head are computed. The result is as if all other ids were suppressed before the
 * log-softmax, whatever else is in the batch.
 *
 * Sessions of this model, or of another one with the same vocabulary, may use it in any thread. Keep it open during
 * their calls, and close it before the model. Open and close it on the model's thread. VKF_ERROR_UNSUPPORTED: the model
 * has no tokenizer; VKF_ERROR_FILE; VKF_ERROR_FORMAT: vkf_context_message() names the line. */
typedef struct vkf_shortlist vkf_shortlist;
VKF_API vkf_status vkf_shortlist_open(vkf_model *model, const char *path, size_t n_first, size_t n_best,
                                      vkf_shortlist **out);
VKF_API void vkf_shortlist_close(vkf_shortlist **shortlist);

typedef struct vkf_generate_params {
  size_t size;             /* sizeof(vkf_generate_params) */
  const char *config_json; /* keys of generation_config.json; they override the folder's. NULL: none */
  vkf_token_fn on_token;
  void *user;
  uint64_t first_line;      /* do_sample: row r draws the random numbers of line first_line + r, in any batch */
  const uint64_t *lines;    /* do_sample: the line of each row or text; NULL: first_line + r */
  bool scores;              /* `sequences_scores` also without beams; the host then reads the scores of every step */
  uint32_t top_logprobs;    /* vkf_session_generate() without beams: this many most likely ids of each token; 0: none */
  vkf_long_rule long_texts; /* vkf_session_translate() */
  bool skip_refused;        /* vkf_session_translate(): true skips a text that is refused; false fails the call */
  const char *source_language, *target_language; /* of the texts, see "languages"; NULL: as the folder says */
  size_t batch_size; /* rows or texts that run together, at most; 0: 64, fewer with beams. One that is done makes place
                        for the next */
  /* vkf_session_translate(): what the translation of each text begins with, as transformers' decoder_input_ids. If a
   * text is split, this is the beginning of its first part. The translation ends at the model's last position. NULL, or
   * NULL for one of the texts: it may begin with anything */
  const char *const *target_prefixes;
  const vkf_shortlist *shortlist; /* for models with an encoder; NULL: all tokens are allowed */
  bool alignments;                /* vkf_session_translate(): return `alignments` and `n_sources` */
  /* vkf_session_translate(), with beams: words [n_force_words] that appear in every translation, besides those of
   * "force_words_ids". Each is tokenized as the beginning of a target would be, so it begins a word there. */
  const char *const *force_words;
  size_t n_force_words;
  vkf_beams_fn on_beams; /* also gets `user`; NULL: none */
  /* The heads whose mean `alignments` and "coverage_penalty" use: "LAYER:HEAD,LAYER:HEAD" from 0, or "all"; NULL: all
   * heads of the last layer */
  const char *align_heads;
  bool replace_unknowns; /* vkf_session_translate(): write, in the place of an unknown token, the word of the source
                            that has the largest weight in those heads */
} vkf_generate_params;
#define VKF_GENERATE_PARAMS_INIT .size = sizeof(vkf_generate_params)
VKF_DEFINE_INIT(vkf_generate_params)

/* Returns what the number of a key of config_json must be, in words ("a number over 0"), if `value` is not allowed;
 * NULL: it is, or the key is NULL, unknown or takes no number. Does not check rules between keys. The text is static.
 * Any thread may call this. */
VKF_API const char *vkf_generation_expects(const char *key, double value);

/* Generates ids. inputs: input_ids [B,S] and attention_mask [B,S] (default: 0 for pad_token_id, unless it is one of
 * eos_token_id, too; 1 for all others), with at least one token to keep in each row; for an encoder-decoder also
 * decoder_input_ids [B,T], the beginning of each target, without pads (if no row begins with the start id, it is put
 * before all of them).
 *
 * Rows that the device has no room for wait until others are done. If on_token stops the call, rows that still wait
 * have only fill in `sequences`, and NaN as their score.
 *
 * Arrays of the result:
 *   sequences         [B*num_return_sequences, length] int32
 *   sequences_scores  [rows] float32, with beams, return_alternatives or params.scores: the sum of the
 *                     log-probabilities of a row's generated ids, divided by their number to the power of
 *                     length_penalty. They are those of transformers' compute_transition_scores(normalize_logits=True);
 *                     with beams those of normalize_logits=False, because beam search edits scores after the
 *                     log-softmax. -infinity, with beams or alternatives: the sequence is absent
 *   token_scores      [rows, length] float32, beside sequences_scores: these log-probabilities, of each id of
 *                     `sequences` that was generated; 0 for the others
 *   logprobs          [rows, steps] float32, with top_logprobs N: of the generated tokens
 *   top_ids, top_logprobs  [rows, steps, N], with top_logprobs N; -1 and 0 after a row's end. Log-probabilities are the
 *                     log-softmax of the model's logits, before penalties, temperature and other options
 *
 * An absent sequence has a row, so each input has as many of them, but no new ids, and the score -infinity. The last
 * sequences of beams are absent if fewer fulfil the options, and the last alternatives if fewer may begin; an
 * alternative is also absent if no id may follow at some place. The first sequence of an input never is.
 *
 * Every key of the configuration is applied or refused by name. encoder_repetition_penalty applies to every beam
 * (transformers 5.12 applies it to the first B of B x beams rows). "num_beam_groups", "diversity_penalty" and
 * "force_words_ids" are those of transformers before 5: groups of beams, each of which avoids the ids of earlier groups
 * (scores include the penalties, which are applied after repetition penalties here), and lists of ids, each of which
 * appears in every sequence (grid beam search; no lists of alternatives).
 * Not in transformers are:
 *   "seed" (default 0): with do_sample the same seed, line and prompt give the same ids.
 *   "patience" (default null): a beam search ends when round(num_beams * patience) sequences have ended, whatever
 *     early_stopping says. num_return_sequences may be as large as this number.
 *   "return_alternatives" (default false), as CTranslate2 has it: sequence i of num_return_sequences begins with the
 *     i-th most likely id after the prompt and continues greedily or with beams of its own. The order is that of these
 *     ids; each score is that of all ids of the sequence. The end may be one of these ids, unlike in CTranslate2;
 *     "min_new_tokens" 1 excludes it. If fewer ids may come there, the other sequences are absent.
 *   "min_alternative_expansion_prob" (default 0), as CTranslate2 has it: an alternative is absent if the probability of
 *     its first id, by token_scores, is below this. The first alternative is not, unlike in CTranslate2.
 *   "prefix_bias_beta" (default 0), as CTranslate2 has it, for vkf_session_translate(): target_prefixes are not forced,
 *     but preferred, see vkformer help generation.
 *   "coverage_penalty" (default 0), as CTranslate2 has it, also for translations: hypotheses are ranked by their score
 *     plus coverage_penalty times the sum over the ids of the source of log(min(1, how much the hypothesis looks at the
 *     id)) (Wu et al. 2016, equation 14). */
VKF_API vkf_status vkf_session_generate(vkf_session *session, const vkf_array *inputs, size_t n_inputs,
                                        const vkf_generate_params *params, vkf_result **out);

/* ---- steps: loops of your own ------------------------------------------------------------------------------------ */

/* A session has n_slots slots (vkf_session_params). Each holds one sequence of a model with a decoder: its ids, and
 * their keys and values on the device. Feed ids, make a step, read logits, choose the next id, feed it:
 *
 *     st = vkf_session_feed(session, 0, prompt, n_prompt, 1);
 *     while (!st && !(st = vkf_session_step(session))) {
 *         const float *logits = vkf_session_logits(session, 0, NULL);    // [vocab]
 *         int32_t id = choose(logits);
 *         if (id == end) break;
 *         st = vkf_session_feed(session, 0, &id, 1, 1);
 *     }
 *
 * However a sequence is fed, its logits have the same bits as those of vkf_session_run() of the whole sequence, on
 * devices where the order of sums does not depend on sizes (software drivers, and GPUs with batch_invariant). Ids after
 * a pad id of M2M-100 are an exception: its positions skip pads, but a step counts all ids that were fed before it, as
 * transformers does. Slots are counted from 0. VKF_ERROR_ARGUMENT: there is no such slot. */

/* Empties the slot and runs the encoder on the source [n]. For encoder-decoders, before the first feed. */
VKF_API vkf_status vkf_session_encode(vkf_session *session, size_t slot, const int32_t *ids, size_t n);
/* Appends ids to the slot. The next step runs them and computes the logits of the last n_logits of them; 0: it only
 * fills the cache. Nothing is fed if the slot cannot hold all of them (VKF_ERROR_ARGUMENT), or if there is an id
 * outside the vocabulary. Ids that were fed before and have not run lose their logits. */
VKF_API vkf_status vkf_session_feed(vkf_session *session, size_t slot, const int32_t *ids, size_t n, size_t n_logits);
/* Runs all ids that were fed to all slots, side by side, and returns when they are done. Does nothing if nothing was
 * fed. After a failure the ids that were fed remain, and another step runs them. VKF_ERROR_NUMERIC: a logit is not
 * finite, and the head's own bias is not the cause. */
VKF_API vkf_status vkf_session_step(vkf_session *session);
/* Returns the logits [*n][vocab] of the slot's last step, valid until the next call on this session other than
 * vkf_session_logits(), _ids() and _slot_capacity(). n may be NULL. NULL and 0: there are none, or another call on this
 * session is running; then vkf_session_message() of this thread says so. */
VKF_API const float *vkf_session_logits(const vkf_session *session, size_t slot, size_t *n);
/* Returns the ids of a slot, also those that have not run yet. Valid as the logits; NULL and 0 for the same reasons. */
VKF_API const int32_t *vkf_session_ids(const vkf_session *session, size_t slot, size_t *n);
/* Returns how many ids a slot can hold; 0: there are no slots, or another call on this session is running. */
VKF_API size_t vkf_session_slot_capacity(const vkf_session *session);

/* Keeps the first n ids of a slot; n 0 empties it (an encoder's source stays). What follows is as if no other ids had
 * ever been fed. VKF_ERROR_ARGUMENT: the slot has fewer. */
VKF_API vkf_status vkf_session_truncate(vkf_session *session, size_t slot, size_t n);
/* Copies the first n ids of slot `from`, with their keys and values, and its source to slot `to`, so that a prefix that
 * several sequences share is computed once. All n must have run. If memory or the device fails, `to` is empty. */
VKF_API vkf_status vkf_session_copy(vkf_session *session, size_t from, size_t to, size_t n);
/* Saves a slot as bytes (array `bytes`, uint8), with a checksum and the model's identity; vkf_bytes_write() writes them
 * to a file. All ids of the slot must have run. The bytes can be restored into a slot of any session of the same model
 * that has room for them, also in another process. The next logits have the same bits as where the slot was saved, if
 * both devices compute the same bits (devices of two kinds do with `deterministic`). VKF_ERROR_FORMAT: the bytes are
 * damaged. VKF_ERROR_ARGUMENT: they are of other files (config.json or weights), or of a model that is stored in
 * another format, or they do not fit. After these errors the slot is as it was; if memory or the device fails, it is
 * empty. The first of these calls for a model reads its files once more. */
VKF_API vkf_status vkf_session_save(vkf_session *session, size_t slot, vkf_result **out);
VKF_API vkf_status vkf_session_restore(vkf_session *session, size_t slot, const void *bytes, size_t n);
