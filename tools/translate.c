/* translate: sentences in, sentences out, one a line and in their order. A blank line stays blank.
 *
 * Every worker takes lines from one window (window.h) as places become free in its session; so a corpus of any size
 * needs the memory of a window.
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alignment.h"
#include "pictures.h"
#include "window.h"

static const char format[] = "vkformer-translate/1";

enum { LEAST_WORK = 32, MAX_END_IDS = 8, WINDOW = 1024 };

typedef struct translation {
  tool_session session;
  tool_crew crew;
  tool_window window;
  const tool_args *args;
  char folder[4096];
  vkf_generate_params params;
  size_t n_best; /* translations of a line */
  int end_ids[MAX_END_IDS];
  size_t n_end_ids;
  tool_pictures pictures; /* of --attention */
  char list_file[4096];   /* --shortlist; "": none */
  size_t n_first, n_best_targets;
  double threshold; /* --alignment, see alignment.h */
  vkf_shortlist *shortlist;
} translation;

/* ---- lines in ---------------------------------------------------------------------------------------------------- */

static int skip(tool_entry *e, const char *why) {
  e->skipped = strdup(why);
  return e->skipped ? TOOL_OK : tool_error("out of memory");
}

/* --column: what is between tabs. --force-decode: what is behind the last one. */
static int prepare_columns(const translation *t, tool_entry *e) {
  const char *at = e->line, *last = strrchr(e->line, '\t');
  const size_t column = t->args->column ? t->args->column : 1;
  for (size_t i = 1; at && i < column; i++) {
    at = strchr(at, '\t');
    at += at != NULL;
  }
  if (!at || (t->args->force_decode && (!last || last < at))) {
    char why[80];
    snprintf(why, sizeof why, "expected %zu columns with tabs between them, found fewer",
             column + (t->args->force_decode > 0));
    return skip(e, why);
  }
  if (t->args->force_decode) e->prefix = last + 1;
  e->text = e->field = strndup(at, strcspn(at, "\t"));
  return e->field ? TOOL_OK : tool_error("out of memory");
}

/* --jsonl: the value of a key, and with --force-decode "prefix", which may be absent or null. */
static int prepare_json(const translation *t, tool_entry *e) {
  char why[160];
  const char *key = t->args->jsonl;
  e->json = json_loads(e->line, JSON_REJECT_DUPLICATES, NULL);
  const json_t *prefix = t->args->force_decode ? json_object_get(e->json, "prefix") : NULL;
  e->text = json_string_value(json_object_get(e->json, key));
  e->prefix = json_string_value(prefix);
  const bool has_wrong_prefix = prefix && !e->prefix && !json_is_null(prefix);
  if (e->text && !has_wrong_prefix) return TOOL_OK;
  const char *found = !e->json                                     ? "no JSON"
                      : !json_is_object(e->json)                   ? "no object"
                      : !e->text && !json_object_get(e->json, key) ? "none"
                                                                   : "another value";
  if (e->text) key = "prefix";
  if (!json_is_object(e->json)) {
    json_decref(e->json);
    e->json = NULL;
  }
  snprintf(why, sizeof why, "expected a JSON object with a string as \"%.60s\", found %s", key, found);
  return skip(e, why);
}

static int prepare(void *user, tool_entry *e) {
  const translation *t = user;
  if (t->args->jsonl) return prepare_json(t, e);
  if (t->args->column || t->args->force_decode) return prepare_columns(t, e);
  e->text = e->line;
  return TOOL_OK;
}

/* ---- lines out --------------------------------------------------------------------------------------------------- */

/* The ids of a row without the start token, up to and with the id that ends it. */
static size_t row_length(const translation *t, const vkf_array *sequences, size_t row) {
  const int32_t *ids = (const int32_t *)sequences->data + row * sequences->shape[1];
  for (size_t i = 1; i < sequences->shape[1]; i++)
    for (size_t e = 0; e < t->n_end_ids; e++)
      if (ids[i] == t->end_ids[e]) return i;
  return sequences->shape[1] - 1;
}

typedef void (*id_fn)(void *user, int32_t id, float score);

/* The ids of a translation of a line, those of all parts, with their scores (0: there are none). */
static void each_id(const translation *t, const vkf_result *result, size_t best, id_fn call, void *user) {
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  const float *scores = vkf_result_f32(result, "token_scores", NULL);
  for (size_t row = best; sequences && row < sequences->shape[0]; row += t->n_best) {
    const size_t at = row * sequences->shape[1], n = row_length(t, sequences, row);
    for (size_t i = 1; i <= n; i++) call(user, ((const int32_t *)sequences->data)[at + i], scores ? scores[at + i] : 0);
  }
}

static void add_id(void *list, int32_t id, float score) {
  (void)score;
  json_array_append_new(list, json_integer(id));
}

static void add_score(void *list, int32_t id, float score) {
  (void)id;
  json_array_append_new(list, tool_json_real(score));
}

static void print_score(void *file, int32_t id, float score) {
  (void)id;
  fprintf(file, " %.6g", (double)score);
}

/* What a line gave: its ids, those of all parts, and its score, null if it has several parts. */
static void add_numbers(const translation *t, const vkf_result *result, size_t best, json_t *to) {
  json_t *ids = json_array(), *score = json_null();
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  const float *scores = vkf_result_f32(result, "sequences_scores", NULL);
  const size_t rows = sequences ? sequences->shape[0] : 0;
  each_id(t, result, best, add_id, ids);
  if (scores && rows == t->n_best) score = tool_json_real(scores[best]);
  json_object_set_new(to, "ids", ids);
  json_object_set_new(to, "score", score);
}

static int set_json(tool_entry *e, json_t *json) {
  char *text = json ? json_dumps(json, JSON_COMPACT | TOOL_JSON_DIGITS) : NULL;
  json_decref(json);
  if (!text) return tool_error("out of memory");
  e->n_out = strlen(text) + 1;
  text[e->n_out - 1] = '\n'; /* in the place of the zero byte */
  e->out = text;
  return TOOL_OK;
}

/* result NULL: the line was not worked on. */
static int render_json(const translation *t, tool_entry *e, const vkf_result *result) {
  const bool is_list = t->n_best > 1;
  json_t *json = e->json          ? json_incref(e->json)
                 : t->args->jsonl ? json_pack("{s:s}", "line", e->line)
                                  : json_pack("{s:s, s:s}", "format", format, "source", e->text ? e->text : e->line);
  if (e->skipped) {
    json_object_set_new(json, "skipped", json_string(e->skipped));
    return set_json(e, json);
  }
  json_t *list = is_list ? json_array() : NULL;
  for (size_t i = 0; i < t->n_best && (result || !is_list); i++) {
    json_t *to = is_list ? json_object() : json;
    json_object_set_new(to, "translation", json_string(result ? vkf_result_text(result, i) : ""));
    if (t->args->json) add_numbers(t, result, i, to);
    if (t->args->word_scores) {
      json_t *scores = json_array();
      each_id(t, result, i, add_score, scores);
      json_object_set_new(to, "word_scores", scores);
    }
    if (t->args->alignment)
      json_object_set_new(to, "alignment", tool_alignment_json(&(tool_alignment){result, t->threshold, i, t->n_best}));
    if (is_list) json_array_append_new(list, to);
  }
  if (is_list) json_object_set_new(json, "translations", list);
  return set_json(e, json);
}

/* A translation is one line, whatever is in it. */
static void add_text(const translation *t, FILE *out, const char *text) {
  for (; *text; text++) fputc(*text == '\n' || *text == '\r' || (t->args->column && *text == '\t') ? ' ' : *text, out);
}

/* A translation, and behind it what Marian writes for --alignment and --word-scores. */
static void add_translation(const translation *t, FILE *out, size_t best, const vkf_result *result) {
  add_text(t, out, vkf_result_text(result, best));
  if (t->args->alignment) {
    fputs(" |||", out);
    tool_alignment_print(&(tool_alignment){result, t->threshold, best, t->n_best}, out);
  }
  if (!t->args->word_scores) return;
  fputs(" ||| WordScores=", out);
  each_id(t, result, best, print_score, out);
}

/* As Moses and Marian write lists of the best. */
static void add_best(const translation *t, FILE *out, size_t number, const vkf_result *result) {
  const float *scores = vkf_result_f32(result, "sequences_scores", NULL);
  for (size_t i = 0; i < t->n_best; i++) {
    const double score = scores ? scores[i] : 0;
    fprintf(out, "%zu ||| ", number - 1);
    add_translation(t, out, i, result);
    fprintf(out, " ||| F0= %.6g ||| %.6g\n", score, score);
  }
}

static int render(void *user, tool_entry *e, const vkf_result *result) {
  const translation *t = user;
  if (t->args->json || t->args->jsonl) return render_json(t, e, result);
  FILE *out = open_memstream(&e->out, &e->n_out);
  if (!out) return tool_error("out of memory");
  if (t->args->column) fprintf(out, "%s\t", e->line);
  if (result && t->n_best > 1)
    add_best(t, out, e->number, result);
  else if (result)
    add_translation(t, out, 0, result);
  if (!result || t->n_best == 1) fputc('\n', out);
  return fclose(out) == 0 ? TOOL_OK : tool_error("out of memory");
}

static int render_idle(void *user, tool_entry *e) {
  return render(user, e, NULL);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static int next(void *user, bool busy, vkf_queued_text *out) {
  translation *t = user;
  tool_entry *e = tool_window_take(&t->window, busy);
  if (!e) return tool_window_is_over(&t->window);
  out->text = e->text;
  out->target_prefix = e->prefix;
  out->line = e->number - 1;
  out->tag = e;
  return 0;
}

static int done(void *user, void *tag, const vkf_result *result) {
  translation *t = user;
  tool_entry *e = tag;
  const char *why = NULL;
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  const vkf_skip_reason reason = vkf_result_skipped(result, 0, &why);
  const int32_t *cut = vkf_result_i32(result, "cut", NULL);
  size_t n_tokens = 0;
  int exit_code = TOOL_OK;
  for (size_t row = 0; sequences && row < sequences->shape[0]; row++) n_tokens += row_length(t, sequences, row);
  if (reason != VKF_SKIP_NONE) {
    e->fails = reason == VKF_SKIP_LONG ? tool_long_is(t->args, "fail") : tool_invalid_is(t->args, "fail");
    exit_code = skip(e, why);
  }
  if (exit_code == TOOL_OK && !e->fails) exit_code = render(t, e, e->skipped ? NULL : result);
  if (exit_code == TOOL_OK && t->args->attention && !e->skipped)
    exit_code = tool_pictures_add(&t->pictures, e->number, e->text, result);
  tool_window_done(&t->window, e, n_tokens, cut && cut[0], exit_code);
  return tool_window_is_over(&t->window);
}

/* What one worker does until no line is left. */
static vkf_status work(void *user, vkf_session *session, size_t i) {
  translation *t = user;
  const vkf_text_queue queue = {VKF_TEXT_QUEUE_INIT, .next = next, .done = done, .user = t};
  (void)i;
  const vkf_status status = vkf_session_translate_queue(session, &queue, &t->params);
  if (status == VKF_ERROR_STOPPED) return VKF_OK; /* the window says why */
  if (status != VKF_OK) tool_window_return(&t->window);
  return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* What the results are read by: num_return_sequences, and eos_token_id, a number or a list of them. */
static void read_config(translation *t) {
  json_t *best = tool_config_value(t->params.config_json, t->folder, "num_return_sequences");
  t->n_best = json_is_integer(best) && json_integer_value(best) > 1 ? (size_t)json_integer_value(best) : 1;
  json_decref(best);
  json_t *ids = tool_config_value(t->params.config_json, t->folder, "eos_token_id");
  if (json_is_integer(ids)) t->end_ids[t->n_end_ids++] = (int)json_integer_value(ids);
  for (size_t i = 0; i < json_array_size(ids) && i < MAX_END_IDS; i++)
    t->end_ids[t->n_end_ids++] = (int)json_integer_value(json_array_get(ids, i));
  json_decref(ids);
}

/* FILE, or FILE,FIRST,BEST. */
static int parse_shortlist(translation *t) {
  const char *text = t->args->shortlist;
  int length = 0, end = 0;
  if (!text) return TOOL_OK;
  t->n_first = t->n_best_targets = 100; /* as Marian's */
  for (const char *comma = strchr(text, ','); comma && !end; comma = strchr(comma + 1, ',')) {
    sscanf(comma, ",%9zu,%9zu%n", &t->n_first, &t->n_best_targets, &end);
    if (end > 0 && comma[end]) end = 0;
    if (end > 0) length = (int)(comma - text);
  }
  if (!end) {
    t->n_first = t->n_best_targets = 100;
    length = (int)strlen(text);
  }
  if (!length || (size_t)length >= sizeof t->list_file)
    return tool_usage_error("translate", "--shortlist: expected FILE or FILE,FIRST,BEST, found '%s'", text);
  snprintf(t->list_file, sizeof t->list_file, "%.*s", length, text);
  return tool_check_input("shortlist", t->list_file);
}

static int check(translation *t) {
  const tool_args *args = t->args;
  if (tool_rules_check(args) != TOOL_OK) return TOOL_USAGE;
  if (tool_texts_check(args, (const char *const *)args->operands, args->n_operands) != TOOL_OK) return TOOL_USAGE;
  if (args->inputs && args->n_operands) return tool_usage_error("translate", "expected texts or --input, found both");
  if (args->resume && (!args->output || strcmp(args->output, "-") == 0))
    return tool_usage_error("translate", "--resume: expected --output FILE as well, found none");
  if (args->jsonl && (args->column || args->json))
    return tool_usage_error("translate", "--jsonl: expected no --%s with it, found both",
                            args->column ? "column" : "json");
  if (args->json && args->column)
    return tool_usage_error("translate", "--column: expected no --json with it, found both");
  if (parse_shortlist(t) != TOOL_OK) return TOOL_USAGE;
  if (args->alignment && tool_alignment_parse(args->alignment, &t->threshold) != TOOL_OK) return TOOL_USAGE;
  return tool_shard_parse(args, &t->window.shard);
}

static int is_of_model(const struct dirent *entry) {
  static const char *const ends[] = {".json", ".safetensors", ".model", ".spm", ".txt"};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
    if (tool_ends_with(entry->d_name, ends[i])) return 1;
  return 0;
}

/* Adds the bytes of a model's files to a hash, whatever folder they are in. */
static int hash_model(const char *folder, uint64_t *hash) {
  struct dirent **entries = NULL;
  char path[sizeof((translation *)0)->folder + sizeof entries[0]->d_name];
  const int n = scandir(folder, &entries, is_of_model, alphasort);
  if (n < 0) return tool_error("%s: cannot be read: %s", folder, strerror(errno));
  int exit_code = TOOL_OK;
  for (int i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    if (exit_code == TOOL_OK) exit_code = tool_hash_file(path, hash);
    free(entries[i]);
  }
  free(entries);
  return exit_code;
}

/* A hash of all that decides what becomes of a line, so that a run is not resumed as another one. */
static int hash_work(const translation *t, unsigned long long *out) {
  const tool_args *a = t->args;
  const char *const all[] = {t->params.config_json,
                             a->long_,
                             a->invalid,
                             a->jsonl,
                             a->weights,
                             a->kv_cache,
                             a->source_lang,
                             a->target_lang,
                             a->json ? "json" : "",
                             a->word_scores ? "word-scores" : "",
                             a->force_decode ? "force-decode" : "",
                             a->alignment,
                             a->deterministic ? "deterministic" : ""};
  uint64_t hash = TOOL_HASH_BEGIN;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    const char *text = all[i] ? all[i] : "";
    hash = tool_hash(hash, text, strlen(text) + 1);
  }
  hash = tool_hash(hash, &a->column, sizeof a->column);
  const size_t of_list[] = {t->n_first, t->n_best_targets};
  hash = tool_hash(hash, of_list, sizeof of_list);
  int exit_code = hash_model(t->folder, &hash);
  if (exit_code == TOOL_OK && t->list_file[0]) exit_code = tool_hash_file(t->list_file, &hash);
  *out = hash;
  return exit_code;
}

/* Source, sink and window; *is_done: an earlier run did all. */
static int open_corpus(translation *t, bool *is_done) {
  tool_window *w = &t->window;
  const tool_args *args = t->args;
  w->session = &t->session;
  w->args = args;
  w->noun = args->n_operands ? "text" : "line";
  w->prepare = prepare;
  w->render = render_idle;
  w->user = t;
  w->capacity = 16 * args->batch_size > WINDOW ? 16 * args->batch_size : WINDOW;
  unsigned long long work = 0;
  int exit_code = tool_source_open(&w->source, args->inputs,
                                   args->n_operands ? (const char *const *)args->operands : NULL, args->n_operands);
  if (!args->json && !args->jsonl) w->shard.each = t->n_best;
  if (exit_code == TOOL_OK && args->output) exit_code = hash_work(t, &work);
  if (exit_code == TOOL_OK) exit_code = tool_sink_open(&w->sink, args->output, args->resume, work, w->shard, is_done);
  if (exit_code == TOOL_OK && !*is_done) exit_code = tool_window_init(w);
  return exit_code;
}

static int run_lines(translation *t) {
  tool_window *w = &t->window;
  tool_window_fill(w);
  /* A worker more for so many lines that are there, unless more may come. */
  const size_t each = t->params.batch_size ? t->params.batch_size : LEAST_WORK,
               wanted = (w->n_waiting + each - 1) / each,
               jobs = w->ended && wanted < t->crew.most ? wanted : t->crew.most;
  const vkf_status status = tool_crew_run(&t->crew, jobs, work, t);
  return tool_window_end(w, status == VKF_OK ? TOOL_OK : tool_session_fail(&t->session, status, NULL));
}

static int run_translate(const tool_args *args) {
  translation t = {.args = args, .params = {VKF_GENERATE_PARAMS_INIT}};
  char *config = NULL;
  bool is_done = false;
  if (check(&t) != TOOL_OK) return TOOL_USAGE;
  int exit_code = tool_find_model(args, t.folder, sizeof t.folder);
  if (exit_code == TOOL_OK) exit_code = tool_generation_config(args, &config);
  t.params.config_json = config;
  if (exit_code == TOOL_OK) {
    read_config(&t);
    exit_code = open_corpus(&t, &is_done);
  }
  const bool is_one = args->n_operands == 1 || args->batch_size == 1;
  if (exit_code == TOOL_OK && !is_done) exit_code = tool_crew_open(&t.crew, args, &t.session, t.folder, !is_one);
  if (exit_code == TOOL_OK && !is_done && t.list_file[0]) {
    const vkf_status status =
        vkf_shortlist_open(t.session.model, t.list_file, t.n_first, t.n_best_targets, &t.shortlist);
    t.params.shortlist = t.shortlist;
    if (status != VKF_OK) exit_code = tool_session_fail(&t.session, status, NULL);
  }
  if (exit_code == TOOL_OK && !is_done) {
    t.params.scores = args->json || args->word_scores || t.n_best > 1;
    t.params.alignments = args->alignment != NULL;
    t.params.long_texts = tool_long_rule(args);
    t.params.skip_refused = true;
    t.params.source_language = args->source_lang;
    t.params.target_language = args->target_lang;
    t.params.batch_size = args->batch_size;
    tool_warn_sampling(args, config, t.folder);
    if (args->attention) tool_pictures_init(&t.pictures);
    exit_code = run_lines(&t);
    if (args->attention)
      exit_code = tool_both_exit_codes(exit_code, tool_pictures_write(&t.pictures, &t.session, args));
  }
  tool_window_finish(&t.window);
  tool_crew_finish(&t.crew);
  vkf_shortlist_close(&t.shortlist);
  exit_code = tool_session_close(&t.session, exit_code);
  free(config);
  return exit_code;
}

static const tool_option options[] = {
    {"model", 'm', TOOL_NAME, offsetof(tool_args, model), "DIR", "a model folder; default: the English-Spanish model"},
    {"batch-size", 'b', TOOL_SIZE, offsetof(tool_args, batch_size), "N",
     "lines translated together, at most; default 64, fewer with\nbeams. One that is done makes place for the next"},
    TOOL_SOURCE_LANG,
    TOOL_TARGET_LANG,
    {"n-best", 0, TOOL_KEY_WHOLE, 0, "N",
     "the N best of the beams, or N that are drawn, for each text,\nas Moses writes them: line ||| translation ||| F0= "
     "score |||\nscore; lines are counted from 0"},
    {"normalize", 0, TOOL_KEY_NUMBER, 0, "X", "what Marian calls --length-penalty"},
    {"force-decode", 0, TOOL_FLAG, offsetof(tool_args, force_decode), NULL,
     "each line has a last column, behind a tab, with the beginning\nof its translation, or \"prefix\" in --jsonl; "
     "empty: "
     "any"},
    {"prefix-bias-beta", 0, TOOL_KEY_NUMBER, 0, "X",
     "with --force-decode the beginning pulls in place of being\nforced: while a translation follows it, its next "
     "token "
     "has\n(1 - X) p + X in place of p, others (1 - X) p; 0 to below 1"},
    {"shortlist", 0, TOOL_TEXT, offsetof(tool_args, shortlist), "FILE[,FIRST,BEST]",
     "only the FIRST first tokens of the vocabulary and the BEST\ntargets of each token of a text (100 and 100), from "
     "lines\n\"target source probability\", as Marian reads them"},
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL,
     "a JSON line for each text: source, translation, ids, score;\nwith --n-best translations, a list of the last "
     "three"},
    {"word-scores", 0, TOOL_FLAG, offsetof(tool_args, word_scores), NULL,
     "also the log-probability of each token, the end included, 0\nwhere it is forced: ||| WordScores= X..., in JSON "
     "a list"},
    {"alignment", 0, TOOL_TEXT, offsetof(tool_args, alignment), "WAY",
     "also which token of the text each token looks at most, ends\nincluded: hard, ||| 0-0 1-2 ...; a number from 0 to "
     "1, all\nwith more weight; soft, all weights. In JSON a list of\n[from, to, weight]; soft: of all weights"},
    {"attention", 0, TOOL_OUTPUT, offsetof(tool_args, attention), "FILE",
     "write a page that shows which token looks at which"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

static const tool_option corpus_options[] = {
    {"input", 'i', TOOL_INPUT, offsetof(tool_args, inputs), "FILE",
     "lines, also compressed by gzip or zstd, instead of standard\ninput"},
    {"output", 'o', TOOL_NAME, offsetof(tool_args, output), "FILE",
     "instead of standard output; compressed if it ends in .gz or\n.zst. FILE.journal is beside it while it grows"},
    {"resume", 0, TOOL_FLAG, offsetof(tool_args, resume), NULL,
     "go on with an --output whose run was ended, without loss or\nrepetition; begin it where there is none yet"},
    {"column", 0, TOOL_SIZE, offsetof(tool_args, column), "N",
     "lines are columns with tabs between them: translate column N,\nfrom 1, and put the translation behind the last"},
    {"jsonl", 0, TOOL_TEXT, offsetof(tool_args, jsonl), "KEY",
     "lines are JSON objects: translate the text at KEY, and add\nit as \"translation\""},
    {"shard", 0, TOOL_TEXT, offsetof(tool_args, shard), "I/N",
     "only line I of every N, from 1; `vkformer merge` puts the\noutputs of all N together"},
};
static const tool_option_group corpus_group = TOOL_GROUP("Corpora", corpus_options);

const tool_command tool_translate = {
    .name = "translate",
    .summary = "Translate texts, or the lines of a file or standard input",
    .usage = "[OPTION]... [TEXT]...",
    .text =
        "One line is printed for each text; an empty line stays empty, and a text that is skipped gives one. If "
        "--long\n"
        "splits a text, its parts are joined with a space where the text had white space.",
    .examples =
        "  vkformer translate \"The cat sat on the mat because it was tired.\"\n"
        "  vkformer translate --num-beams 1 --device lavapipe < english.txt > spanish.txt\n"
        "  vkformer translate -i english.txt.gz -o spanish.txt.gz --long split --resume\n",
    .groups = {&group, &corpus_group, &tool_line_options, &tool_crew_options, &tool_generation_options,
               &tool_model_options, &tool_common_options},
    .max_operands = (size_t)-1,
    .run = run_translate,
};
