/* bpe: byte-pair encoding (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units").
 *
 * A word starts as its characters. Then the adjacent pair with the lowest rank (the leftmost in a tie) becomes one
 * piece, until no pair has a rank. Pairs are in a binary heap; an entry whose pair has changed since is skipped.
 * Refuses dropout, which is for training, and merges that name pieces outside the vocabulary.
 */
#include "text/internal.h"

#include <string.h>

/* ---- merges ------------------------------------------------------------------------------------------------------ */

static uint64_t pair_of(int32_t left, int32_t right) {
  return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
}

static size_t merge_slot(const vkf_text_model *model, uint64_t pair) {
  size_t slot = ((pair * 0x9E3779B97F4A7C15u) >> 32) & (model->n_merge_slots - 1);
  while (model->merges[slot].pair != 0 && model->merges[slot].pair != pair)
    slot = (slot + 1) & (model->n_merge_slots - 1);
  return slot;
}

/* Returns the merge of a pair; NULL: it never merges. */
static const vkf_text_merge *find_merge(const vkf_text_model *model, int32_t left, int32_t right) {
  const vkf_text_merge *merge = &model->merges[merge_slot(model, pair_of(left, right))];
  return merge->pair != 0 ? merge : NULL;
}

/* Reads "left right" or ["left", "right"]. */
static bool read_merge(const json_t *json, vkf_text_string *left, vkf_text_string *right) {
  if (json_is_array(json) && json_array_size(json) == 2) {
    const json_t *a = json_array_get(json, 0), *b = json_array_get(json, 1);
    *left = (vkf_text_string){json_string_value(a), json_string_length(a)};
    *right = (vkf_text_string){json_string_value(b), json_string_length(b)};
    return left->data != NULL && right->data != NULL;
  }
  const char *text = json_string_value(json), *space = text != NULL ? strchr(text, ' ') : NULL;
  if (space == NULL) return false;
  *left = (vkf_text_string){text, (size_t)(space - text)};
  *right = (vkf_text_string){space + 1, json_string_length(json) - left->size - 1};
  return true;
}

vkf_status vkf_text_bpe_add_merge(vkf_text_model *model, vkf_text_loader *loader, size_t rank, vkf_text_string left,
                                  vkf_text_string right) {
  /* The joined piece lacks the prefix that the right piece has within a word. */
  size_t skip = VKF_MIN(model->prefix.size, right.size), size = left.size + right.size - skip;
  char *joined = vkf_text_model_scratch(model, size + 1);
  if (joined == NULL) return VKF_ERROR_MEMORY;
  memcpy(joined, left.data, left.size);
  memcpy(joined + left.size, right.data + skip, right.size - skip);
  int32_t a = vkf_text_vocab_find(&model->vocab, left), b = vkf_text_vocab_find(&model->vocab, right);
  int32_t id = vkf_text_vocab_find(&model->vocab, (vkf_text_string){joined, size});
  if (a < 0 || b < 0 || id < 0)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT,
                              "merge %zu (\"%.*s\" and \"%.*s\") should join pieces of the vocabulary", rank,
                              (int)VKF_MIN(left.size, 100), left.data, (int)VKF_MIN(right.size, 100), right.data);
  uint64_t pair = pair_of(a, b);
  model->merges[merge_slot(model, pair)] = (vkf_text_merge){.pair = pair, .rank = (uint32_t)rank, .id = id};
  return VKF_OK;
}

static vkf_status add_merge(vkf_text_model *model, vkf_text_loader *loader, size_t rank, const json_t *json) {
  vkf_text_string left, right;
  if (!read_merge(json, &left, &right))
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "merge %zu should be two pieces", rank);
  return vkf_text_bpe_add_merge(model, loader, rank, left, right);
}

/* ---- one word ---------------------------------------------------------------------------------------------------- */

/* Symbols are a list linked by index; a symbol that was merged into its left neighbour has id -1. */
typedef struct symbol {
  int32_t id, previous, next;
} symbol;

typedef struct candidate {
  uint32_t rank;
  int32_t at, id; /* index of the left symbol; id that the pair becomes */
} candidate;

typedef struct word_state {
  const vkf_text_model *model;
  symbol *symbols;
  candidate *heap;
  size_t n_symbols, n_heap;
} word_state;

static bool comes_before(candidate a, candidate b) {
  return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void heap_push(word_state *word, int32_t at) {
  const symbol *left = &word->symbols[at];
  if (left->next < 0) return;
  const vkf_text_merge *merge = find_merge(word->model, left->id, word->symbols[left->next].id);
  if (merge == NULL) return;
  candidate c = {merge->rank, at, merge->id};
  size_t i = word->n_heap++;
  for (; i > 0 && comes_before(c, word->heap[(i - 1) / 2]); i = (i - 1) / 2) word->heap[i] = word->heap[(i - 1) / 2];
  word->heap[i] = c;
}

static candidate heap_pop(word_state *word) {
  candidate top = word->heap[0], last = word->heap[--word->n_heap];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < word->n_heap; i = child) {
    if (child + 1 < word->n_heap && comes_before(word->heap[child + 1], word->heap[child])) child++;
    if (!comes_before(word->heap[child], last)) break;
    word->heap[i] = word->heap[child];
  }
  word->heap[i] = last;
  return top;
}

static void add_symbol(word_state *word, int32_t id) {
  int32_t at = (int32_t)word->n_symbols++;
  word->symbols[at] = (symbol){.id = id, .previous = at - 1, .next = -1};
  if (at > 0) word->symbols[at - 1].next = at;
}

static void merge_all(word_state *word) {
  for (size_t i = 0; i + 1 < word->n_symbols; i++) heap_push(word, (int32_t)i);
  while (word->n_heap > 0) {
    candidate c = heap_pop(word);
    symbol *left = &word->symbols[c.at];
    if (left->id < 0 || left->next < 0) continue;
    symbol *right = &word->symbols[left->next];
    const vkf_text_merge *merge = find_merge(word->model, left->id, right->id);
    if (merge == NULL || merge->id != c.id) continue;
    left->id = c.id;
    right->id = -1;
    left->next = right->next;
    if (left->next >= 0) word->symbols[left->next].previous = c.at;
    if (left->previous >= 0) heap_push(word, left->previous);
    heap_push(word, c.at);
  }
}

/* Returns the id of a character, with the prefix unless it begins the word and the suffix if it ends it; -1: none. */
static int32_t char_id(const vkf_text_model *model, vkf_text_string word, size_t at, size_t next, vkf_text *buffer) {
  vkf_text_string piece = {word.data + at, next - at};
  bool prefix = at > 0 && model->prefix.size > 0, suffix = next == word.size && model->suffix.size > 0;
  if (prefix || suffix) {
    buffer->size = 0;
    if (prefix) vkf_text_append(buffer, model->prefix.data, model->prefix.size);
    vkf_text_append(buffer, piece.data, piece.size);
    if (suffix) vkf_text_append(buffer, model->suffix.data, model->suffix.size);
    piece = (vkf_text_string){buffer->data, buffer->size};
  }
  return vkf_text_vocab_find(&model->vocab, piece);
}

/* Returns the longest piece at `at` that is cut out as a whole, and sets *next to its end; -1: there is none. */
static int32_t whole_id(const vkf_text_model *model, vkf_text_string word, size_t at, size_t *next) {
  int32_t longest = -1;
  uint64_t hash = VKF_HASH_START;
  for (size_t n = 1; model->is_whole != NULL && n <= VKF_MIN(model->vocab.longest, word.size - at); n++) {
    hash = vkf_hash_step(hash, (uint8_t)word.data[at + n - 1]);
    int32_t id = vkf_text_vocab_find_hashed(&model->vocab, (vkf_text_string){word.data + at, n}, hash);
    if (id < 0 || !model->is_whole[id]) continue;
    longest = id;
    *next = at + n;
  }
  return longest;
}

/* Adds the bytes of a character that the vocabulary lacks; false: not all of them are pieces. */
static bool add_bytes(word_state *word, vkf_text_string bytes) {
  for (size_t i = 0; i < bytes.size; i++) {
    if (word->model->byte_ids[(uint8_t)bytes.data[i]] < 0) return false;
  }
  for (size_t i = 0; i < bytes.size; i++) add_symbol(word, word->model->byte_ids[(uint8_t)bytes.data[i]]);
  return true;
}

/* Splits a word into the symbols that merging starts from. A character without a piece becomes its bytes, or the
 * unknown token (one for a run of them with fuse_unk), or nothing if there is none, as in the tokenizers library. */
static vkf_status start_word(word_state *word, vkf_text_string text) {
  const vkf_text_model *model = word->model;
  vkf_status st = VKF_OK;
  bool unknown = false; /* an unknown token is pending, and more may join it */
  size_t from = 0;      /* where it begins */
  vkf_text buffer;
  vkf_text_init(&buffer, model->env);
  for (size_t at = 0, next; at < text.size; at = next) {
    vkf_text_char_at(text, at, &next);
    int32_t id = whole_id(model, text, at, &next);
    if (id < 0) id = char_id(model, text, at, next, &buffer);
    VKF_TRY(vkf_text_status(&buffer));
    if (id >= 0) {
      if (unknown) add_symbol(word, vkf_text_model_unknown_id(model, (vkf_text_string){text.data + from, at - from}));
      unknown = false;
      add_symbol(word, id);
      continue;
    }
    if (model->byte_fallback && add_bytes(word, (vkf_text_string){text.data + at, next - at})) continue;
    if (model->unk_missing)
      VKF_FAIL(model->env, VKF_ERROR_ARGUMENT,
               "the vocabulary has no token for \"%.*s\", and not the unknown token either", (int)(next - at),
               text.data + at);
    if (model->unk_id < 0) continue;
    if (unknown && !model->fuse_unk) add_symbol(word, model->unk_id);
    if (!unknown) from = at;
    unknown = true;
  }
  if (unknown)
    add_symbol(word, vkf_text_model_unknown_id(model, (vkf_text_string){text.data + from, text.size - from}));
done:
  vkf_text_finish(&buffer);
  return st;
}

static vkf_status bpe_encode(vkf_text_model *model, vkf_text_string text, vkf_text_ids *out) {
  if (model->ignore_merges) {
    int32_t id = vkf_text_vocab_find(&model->vocab, text);
    if (id >= 0) return vkf_text_ids_append(out, &id, 1);
  }
  /* There is at most one symbol per byte; each symbol adds one candidate at first, and each merge two more. */
  size_t bytes;
  if (!vkf_size_mul(text.size, sizeof(symbol) + 3 * sizeof(candidate), &bytes)) bytes = SIZE_MAX;
  word_state word = {.model = model, .symbols = vkf_text_model_scratch(model, bytes)};
  if (word.symbols == NULL) return VKF_ERROR_MEMORY;
  word.heap = (candidate *)(word.symbols + text.size);
  VKF_CALL(start_word(&word, text));
  merge_all(&word);
  for (size_t i = 0; i < word.n_symbols; i++)
    if (word.symbols[i].id >= 0) VKF_CALL(vkf_text_ids_append(out, &word.symbols[i].id, 1));
  return VKF_OK;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static vkf_status load_optional_string(vkf_text_loader *loader, const json_t *json, const char *key,
                                       vkf_text_string *out) {
  const json_t *field = json_object_get(json, key);
  if (field == NULL || json_is_null(field)) return VKF_OK;
  return vkf_text_load_string(loader, json, key, out);
}

vkf_status vkf_text_bpe_init(vkf_text_model *model, vkf_text_loader *loader, size_t n_merges) {
  model->encode = bpe_encode;
  model->n_merge_slots = 16;
  while (model->n_merge_slots < 2 * n_merges) model->n_merge_slots *= 2;
  model->merges = vkf_arena_alloc(loader->arena, model->n_merge_slots, sizeof(*model->merges));
  return model->merges == NULL ? VKF_ERROR_MEMORY : VKF_OK;
}

vkf_status vkf_text_bpe_load(vkf_text_model *model, vkf_text_loader *loader, const json_t *json) {
  const json_t *merges = json_object_get(json, "merges");
  if (json_number_value(json_object_get(json, "dropout")) > 0)
    return vkf_text_load_fail(loader, VKF_ERROR_UNSUPPORTED, "dropout is not supported");
  if (!json_is_array(merges)) return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "\"merges\" should be a list");
  VKF_CALL(vkf_text_model_load_vocab(model, loader, json));
  VKF_CALL(vkf_text_model_load_unknown(model, loader, json));
  VKF_CALL(vkf_text_load_bool(loader, json, "byte_fallback", false, &model->byte_fallback));
  VKF_CALL(vkf_text_load_bool(loader, json, "fuse_unk", false, &model->fuse_unk));
  VKF_CALL(vkf_text_load_bool(loader, json, "ignore_merges", false, &model->ignore_merges));
  VKF_CALL(load_optional_string(loader, json, "continuing_subword_prefix", &model->prefix));
  VKF_CALL(load_optional_string(loader, json, "end_of_word_suffix", &model->suffix));
  if (model->byte_fallback) vkf_text_model_find_bytes(model);
  VKF_CALL(vkf_text_bpe_init(model, loader, json_array_size(merges)));
  for (size_t i = 0; i < json_array_size(merges); i++) VKF_CALL(add_merge(model, loader, i, json_array_get(merges, i)));
  return VKF_OK;
}
