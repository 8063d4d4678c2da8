/* translate: translates lines and prints them in their order. A blank line stays blank.
 *
 * Every worker takes lines from one window (window.h) as places become free in its session, so a corpus of any size
 * needs no more memory than a window.
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alignment.h"
#include "beam_tree.h"
#include "pictures.h"
#include "translation.h"

enum { LEAST_WORK = 32, WINDOW = 1024 };

typedef struct translation {
  tool_session session;
  tool_crew crew;
  tool_window window;
  tool_translation lines; /* their forms */
  char folder[4096];
  char *config; /* JSON; NULL: as in the folder */
  vkf_generate_params params;
  tool_pictures pictures; /* of --attention */
  tool_beam_tree tree;    /* of --beam-tree */
  char list_file[4096];   /* --shortlist; "": none */
  size_t n_first, n_best_targets;
  char heads[256]; /* that --align-heads auto:FILE found */
  vkf_shortlist *shortlist;
} translation;

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static int prepare(void *user, tool_entry *e) {
  return tool_translation_prepare(&((const translation *)user)->lines, e);
}

static vkf_status run(void *user, vkf_session *session, const vkf_text_queue *queue) {
  return vkf_session_translate_queue(session, queue, &((const translation *)user)->params);
}

static int render(void *user, tool_entry *e, const vkf_result *result, size_t *n_tokens) {
  translation *t = user;
  const vkf_array *sequences = result ? vkf_result_find(result, "sequences") : NULL;
  for (size_t row = 0; sequences && row < sequences->shape[0]; row++)
    if (tool_translation_is_there(&t->lines, result, row % t->lines.n_best))
      *n_tokens += tool_translation_length(&t->lines, sequences, row);
  int exit_code = tool_translation_render(&t->lines, e, result);
  if (exit_code == TOOL_OK && t->lines.args->attention && result)
    exit_code = tool_pictures_add(&t->pictures, e->number, e->text, &t->lines, result);
  if (exit_code == TOOL_OK && t->lines.args->beam_tree && result) exit_code = tool_beam_tree_end(&t->tree, result);
  return exit_code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Parses FILE, or FILE,FIRST,BEST. */
static int parse_shortlist(translation *t) {
  const char *text = t->lines.args->shortlist;
  if (!text) return TOOL_OK;
  size_t length = strlen(text), first, best;
  int end = 0;
  t->n_first = t->n_best_targets = 100; /* as Marian's */
  for (const char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
    if (sscanf(comma, ",%9zu,%9zu%n", &first, &best, &end) != 2 || comma[end]) continue;
    t->n_first = first;
    t->n_best_targets = best;
    length = (size_t)(comma - text);
  }
  if (!length || length >= sizeof t->list_file)
    return tool_usage_error("translate", "--shortlist: expected FILE or FILE,FIRST,BEST, found '%s'", text);
  snprintf(t->list_file, sizeof t->list_file, "%.*s", (int)length, text);
  return tool_check_input("shortlist", t->list_file);
}

/* Whether --align-heads is valid: all, auto:FILE, or pairs of a layer and a head. */
static bool are_heads(const char *text) {
  unsigned layer, head;
  if (strcmp(text, "all") == 0 || strncmp(text, "auto:", 5) == 0) return true;
  for (int size = 0;; text += size + 1) {
    if (sscanf(text, "%9u:%9u%n", &layer, &head, &size) != 2 || (text[size] && text[size] != ',')) return false;
    if (!text[size]) return true;
  }
}

static int check(translation *t) {
  const tool_args *args = t->lines.args;
  if (tool_rules_check(args) != TOOL_OK) return TOOL_USAGE;
  if (tool_texts_check(args, (const char *const *)args->operands, args->n_operands) != TOOL_OK) return TOOL_USAGE;
  if (args->inputs && args->n_operands) return tool_usage_error("translate", "expected texts or --input, found both");
  if (args->resume && (!args->output || strcmp(args->output, "-") == 0))
    return tool_usage_error("translate", "--resume: expected --output FILE as well, found none");
  if (args->scores && !args->attention)
    return tool_usage_error("translate", "--scores: expected --attention FILE as well, found none");
  if (args->jsonl && (args->column || args->json))
    return tool_usage_error("translate", "--jsonl: expected no --%s with it, found both",
                            args->column ? "column" : "json");
  if (args->json && args->column)
    return tool_usage_error("translate", "--column: expected no --json with it, found both");
  if (args->beam_tree && tool_beam_tree_check(args) != TOOL_OK) return TOOL_USAGE;
  if (args->attention && strcmp(args->attention, "-") != 0 && !tool_ends_with(args->attention, ".html"))
    return tool_usage_error("translate", "--attention: expected a name that ends in .html, found '%s'",
                            args->attention);
  if (args->alignment && tool_alignment_parse(args->alignment, &t->lines.threshold) != TOOL_OK) return TOOL_USAGE;
  if (args->align_heads && !are_heads(args->align_heads))
    return tool_usage_error("translate", "--align-heads: expected LAYER:HEAD,..., all or auto:FILE, found '%s'",
                            args->align_heads);
  for (size_t i = 0; i < args->force_words.n; i++)
    if (tool_is_blank(args->force_words.at[i]))
      return tool_usage_error("translate", "--force-words: expected words, found none");
  if (args->jsonl && strcmp(args->jsonl, "translation") == 0)
    return tool_usage_error("translate", "--jsonl: expected another key than translation, which gets the translation");
  if (tool_shard_parse(args, &t->window.shard) != TOOL_OK) return TOOL_USAGE;
  return parse_shortlist(t);
}

static int is_of_model(const struct dirent *entry) {
  static const char *const ends[] = {".json", ".safetensors", ".model", ".spm", ".txt"};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
    if (tool_ends_with(entry->d_name, ends[i])) return 1;
  return 0;
}

/* Adds the bytes of a model's files to a hash, which does not depend on the folder's name. */
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

/* Returns the file of --align-heads auto:FILE; NULL: the heads are given. */
static const char *sample_of(const tool_args *args) {
  static const char word[] = "auto:";
  return args->align_heads && !strncmp(args->align_heads, word, strlen(word)) ? args->align_heads + strlen(word) : NULL;
}

/* Finds the heads that align, from the sample. */
static int choose_heads(translation *t) {
  tool_text_list texts = {0};
  vkf_result *found = NULL;
  const char *path = sample_of(t->lines.args);
  int exit_code = tool_text_list_read(&texts, path, 0);
  if (exit_code == TOOL_OK) {
    const vkf_status status =
        vkf_session_align_heads(t->session.run, (const char *const *)texts.at, texts.n, &t->params, &found);
    if (status != VKF_OK) exit_code = tool_session_fail(&t->session, status, NULL);
  }
  if (exit_code == TOOL_OK) {
    snprintf(t->heads, sizeof t->heads, "%s", vkf_result_text(found, 0));
    t->params.align_heads = t->heads;
    fprintf(stderr,
            "vkformer: %s: heads %s look at %.1f %% of the %d tokens that are in a text and in its translation\n", path,
            t->heads, 100 * vkf_result_f32(found, "chosen", NULL)[0], vkf_result_i32(found, "n_links", NULL)[0]);
  }
  vkf_result_destroy(&found);
  tool_text_list_finish(&texts);
  return exit_code;
}

/* Hashes everything that determines the output of a line, so that no run is resumed with other options. */
static int hash_work(const translation *t, unsigned long long *out) {
  const tool_args *a = t->lines.args;
  const char *const all[] = {t->params.config_json,
                             a->long_,
                             a->invalid,
                             a->jsonl,
                             a->weights,
                             a->activations,
                             a->kv_cache,
                             a->source_lang,
                             a->target_lang,
                             a->json ? "json" : "",
                             a->word_scores ? "word-scores" : "",
                             a->force_decode ? "force-decode" : "",
                             a->alignment,
                             a->align_heads,
                             a->replace_unknowns ? "replace-unknowns" : "",
                             a->deterministic ? "deterministic" : "",
                             a->batch_invariant ? "batch-invariant" : ""};
  uint64_t hash = TOOL_HASH_BEGIN;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    const char *text = all[i] ? all[i] : "";
    hash = tool_hash(hash, text, strlen(text) + 1);
  }
  for (size_t i = 0; i < a->force_words.n; i++)
    hash = tool_hash(hash, a->force_words.at[i], strlen(a->force_words.at[i]) + 1);
  hash = tool_hash(hash, &a->column, sizeof a->column);
  const size_t of_list[] = {t->n_first, t->n_best_targets};
  hash = tool_hash(hash, of_list, sizeof of_list);
  int exit_code = hash_model(t->folder, &hash);
  if (exit_code == TOOL_OK && t->list_file[0]) exit_code = tool_hash_file(t->list_file, &hash);
  if (exit_code == TOOL_OK && sample_of(a)) exit_code = tool_hash_file(sample_of(a), &hash);
  *out = hash;
  return exit_code;
}

/* Opens source, sink and window; *is_done: an earlier run did everything. */
static int open_corpus(translation *t, bool *is_done) {
  tool_window *w = &t->window;
  const tool_args *args = t->lines.args;
  w->session = &t->session;
  w->args = args;
  w->noun = args->n_operands ? "text" : "line";
  w->prepare = prepare;
  w->run = run;
  w->render = render;
  w->user = t;
  const size_t together = args->batch_size < VKF_MOST_TOGETHER ? args->batch_size : VKF_MOST_TOGETHER;
  w->capacity = 16 * together > WINDOW ? 16 * together : WINDOW;
  unsigned long long work = 0;
  int exit_code = args->n_operands ? TOOL_OK : tool_refuse_same_file("translate", "output", args->inputs, args->output);
  if (exit_code != TOOL_OK) return exit_code;
  exit_code = tool_source_open(&w->source, args->inputs, args->n_operands ? (const char *const *)args->operands : NULL,
                               args->n_operands);
  if (!args->json && !args->jsonl) w->shard.each = t->lines.n_best;
  if (exit_code == TOOL_OK && args->output) exit_code = hash_work(t, &work);
  if (exit_code == TOOL_OK) exit_code = tool_sink_open(&w->sink, args->output, args->resume, work, w->shard, is_done);
  if (exit_code != TOOL_OK) return exit_code;
  return *is_done ? tool_window_check_done(w) : tool_window_init(w);
}

static int run_lines(translation *t) {
  tool_window *w = &t->window;
  tool_window_fill(w, true);
  /* one worker for so many lines that are there; all workers if more may come */
  const size_t each = t->params.batch_size ? t->params.batch_size : LEAST_WORK,
               wanted = (w->n_waiting + each - 1) / each,
               jobs = w->ended && wanted < t->crew.most ? wanted : t->crew.most;
  return tool_window_run(w, &t->crew, jobs);
}

/* Finds the model folder and reads the configuration. */
static int read_config(translation *t) {
  const tool_args *args = t->lines.args;
  int exit_code = tool_find_model(args, t->folder, sizeof t->folder);
  if (exit_code == TOOL_OK) exit_code = tool_generation_config(args, &t->config);
  t->params.config_json = t->config;
  if (exit_code != TOOL_OK) return exit_code;
  tool_translation_read_config(&t->lines, t->config, t->folder);
  if (json_object_get(args->config, "prefix_bias_beta") && !args->force_decode)
    fprintf(stderr, "vkformer: --prefix-bias-beta has no effect without --force-decode\n");
  json_t *coverage = tool_config_value(t->config, t->folder, "coverage_penalty");
  if (args->align_heads && !args->alignment && !args->replace_unknowns && !(json_number_value(coverage) > 0))
    fprintf(stderr,
            "vkformer: --align-heads has no effect without --alignment, --replace-unknowns or "
            "--coverage-penalty\n");
  json_decref(coverage);
  if (args->column && t->lines.is_list)
    return tool_usage_error("translate", "--column: expected one translation of a line, found --n-best %zu",
                            t->lines.n_best);
  return tool_check_generation(args, t->config, t->folder);
}

/* Opens the workers and the short list of their model. */
static int open_crew(translation *t) {
  const tool_args *args = t->lines.args;
  const bool is_one = args->n_operands == 1 || args->batch_size == 1;
  const int exit_code =
      tool_crew_open(&t->crew, args, &t->session, t->folder, is_one ? TOOL_ONE_AT_A_TIME : TOOL_MANY_BATCHES);
  if (exit_code != TOOL_OK || !t->list_file[0]) return exit_code;
  const vkf_status status =
      vkf_shortlist_open(t->session.model, t->list_file, t->n_first, t->n_best_targets, &t->shortlist);
  t->params.shortlist = t->shortlist;
  return status == VKF_OK ? TOOL_OK : tool_session_fail(&t->session, status, NULL);
}

static void set_params(translation *t) {
  const tool_args *args = t->lines.args;
  t->params.scores = args->json || args->word_scores || t->lines.is_list;
  t->params.alignments = args->alignment != NULL;
  t->params.align_heads = sample_of(args) ? NULL : args->align_heads;
  t->params.replace_unknowns = args->replace_unknowns;
  t->params.long_texts = tool_long_rule(args);
  t->params.skip_refused = true;
  t->params.source_language = args->source_lang;
  t->params.target_language = args->target_lang;
  t->params.batch_size = args->batch_size;
  t->params.force_words = args->force_words.at;
  t->params.n_force_words = args->force_words.n;
}

static int show_step(void *user, size_t text, int32_t token) {
  (void)text;
  tool_window_step(user, token >= 0);
  return 0;
}

/* Translates all lines, then writes the pages of --beam-tree and --attention. */
static int translate(translation *t) {
  const tool_args *args = t->lines.args;
  set_params(t);
  if (args->attention) tool_pictures_init(&t->pictures);
  int exit_code = sample_of(args) ? choose_heads(t) : TOOL_OK;
  if (args->beam_tree) { /* of the text, not of the sample */
    t->params.on_beams = tool_beam_tree_add;
    t->params.user = &t->tree;
  } else if (t->session.terminal) {
    t->params.on_token = show_step;
    t->params.user = &t->window;
  }
  if (exit_code == TOOL_OK) exit_code = run_lines(t);
  exit_code = tool_both_exit_codes(
      exit_code, tool_beam_tree_write(&t->tree, &t->session, exit_code == TOOL_OK ? args->beam_tree : NULL));
  if (args->attention)
    exit_code = tool_both_exit_codes(exit_code, tool_pictures_write(&t->pictures, &t->session, args));
  return exit_code;
}

static int run_translate(const tool_args *args) {
  translation t = {.lines = {.args = args}, .params = {VKF_GENERATE_PARAMS_INIT}};
  bool is_done = false;
  int exit_code = check(&t);
  if (exit_code != TOOL_OK) return exit_code;
  exit_code = read_config(&t);
  if (exit_code == TOOL_OK) exit_code = open_corpus(&t, &is_done);
  if (exit_code == TOOL_OK && !is_done) exit_code = open_crew(&t);
  if (exit_code == TOOL_OK && !is_done) exit_code = translate(&t);
  tool_window_finish(&t.window);
  tool_crew_finish(&t.crew);
  vkf_shortlist_close(&t.shortlist);
  exit_code = tool_session_close(&t.session, exit_code);
  tool_translation_finish(&t.lines);
  free(t.config);
  return exit_code;
}

static const tool_option options[] = {
    {"model", 'm', TOOL_NAME, offsetof(tool_args, model), "DIR", "a model folder; default: the English-Spanish model"},
    {"batch-size", 'b', TOOL_SIZE, offsetof(tool_args, batch_size), "N",
     "translate at most N lines together; default 64, fewer with\nbeams. When one is done, the next takes its place"},
    TOOL_SOURCE_LANG,
    TOOL_TARGET_LANG,
    {"n-best", 0, TOOL_KEY_WHOLE, 0, "N",
     "print the N best beams of each text (with --do-sample N samples)\nas Moses does: line ||| translation ||| F0= "
     "sum of\nlog-probabilities ||| score; lines are counted from 0. Fewer if\nthe options allow no more"},
    {"normalize", 0, TOOL_KEY_NUMBER, 0, "X", "Marian's name for --length-penalty"},
    {"force-decode", 0, TOOL_FLAG, offsetof(tool_args, force_decode), NULL,
     "each line has one more column, after a tab: the beginning of its\ntranslation (with --jsonl it is at the key "
     "\"prefix\"); empty: none"},
    {"prefix-bias-beta", 0, TOOL_KEY_NUMBER, 0, "X",
     "with --force-decode: prefer the beginning, do not force it.\nWhile a translation follows it, its next token has "
     "the\nprobability (1 - X) p + X, others (1 - X) p; X: 0 to below 1"},
    {"force-words", 0, TOOL_TEXTS, offsetof(tool_args, force_words), "TEXT",
     "with beams: words that every translation must have; repeatable"},
    {"shortlist", 0, TOOL_TEXT, offsetof(tool_args, shortlist), "FILE[,FIRST,BEST]",
     "choose among few tokens: the first FIRST of the vocabulary\n(default 100) and, for each token of a text, its "
     "BEST targets\n(default 100) in FILE, which has lines \"target source\nprobability\" as in Marian"},
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL,
     "print a JSON line for each text: source, translation, ids,\nscore; with --n-best the last three in a list, "
     "translations"},
    {"word-scores", 0, TOOL_FLAG, offsetof(tool_args, word_scores), NULL,
     "also print the log-probability of each token and of the end, or\n0 if it was forced: ||| WordScores= X..., in "
     "JSON a list"},
    {"alignment", 0, TOOL_TEXT, offsetof(tool_args, alignment), "WAY",
     "also print which token of the text each token (and the end)\nlooks at: ||| 0-0 1-2. WAY is hard: the one with "
     "the most\nweight; a number between 0 and 1: all with more weight; soft:\nall weights. In JSON a list of [from, "
     "to, weight]; soft: of all\nweights"},
    {"replace-unknowns", 0, TOOL_FLAG, offsetof(tool_args, replace_unknowns), NULL,
     "replace an unknown token with the word of the text that it\nlooks at most"},
    {"align-heads", 0, TOOL_TEXT, offsetof(tool_args, align_heads), "HEADS",
     "which heads are averaged to find what a token looks at:\nLAYER:HEAD,..., counted from 0; all; or auto:FILE: "
     "those that\nfind most tokens which a text of FILE and its translation share.\nDefault: all of the last layer"},
    {"attention", 0, TOOL_OUTPUT, offsetof(tool_args, attention), "FILE",
     "write a page (.html) that shows which token looks at which"},
    {"scores", 0, TOOL_FLAG, offsetof(tool_args, scores), NULL,
     "also put the scores behind the weights on the --attention page"},
    {"beam-tree", 0, TOOL_OUTPUT, offsetof(tool_args, beam_tree), "FILE",
     "draw the beam search of one text as a tree (.svg, .html): what\neach step kept, finished and dropped"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

static const tool_option corpus_options[] = {
    TOOL_LINES_INPUT_OPTION,
    {"output", 'o', TOOL_NAME, offsetof(tool_args, output), "FILE",
     "write to FILE instead of standard output; compressed if it ends\nin .gz or .zst. FILE.journal is beside it while "
     "it grows"},
    {"resume", 0, TOOL_FLAG, offsetof(tool_args, resume), NULL,
     "continue an --output that was interrupted, without loss or\nrepetition; start it if there is none. A finished "
     "one is an\nerror, but with --shard it is left as it is"},
    {"column", 0, TOOL_SIZE, offsetof(tool_args, column), "N",
     "lines have columns with tabs between them: translate column N,\ncounted from 1, and add the translation as the "
     "last column"},
    {"jsonl", 0, TOOL_TEXT, offsetof(tool_args, jsonl), "KEY",
     "lines are JSON objects: translate the text at KEY, and add the\ntranslation as \"translation\""},
    {"shard", 0, TOOL_TEXT, offsetof(tool_args, shard), "I/N",
     "translate only line I of every N, counted from 1; `vkformer\nmerge` puts the outputs of all N together"},
};
static const tool_option_group corpus_group = TOOL_GROUP("Corpora", corpus_options);

const tool_command tool_translate = {
    .name = "translate",
    .summary = "Translate texts, or the lines of a file or standard input",
    .usage = "[OPTION]... [TEXT]...",
    .text =
        "Prints one line for each text, even if it is skipped. An empty line stays empty; with --column and --jsonl\n"
        "it is skipped. If --long splits a text, the translations of its parts are joined, with a space where the\n"
        "text had white space.",
    .examples =
        "  vkformer translate \"The cat sat on the mat because it was tired.\"\n"
        "  vkformer translate --num-beams 1 --device lavapipe < english.txt > spanish.txt\n"
        "  vkformer translate -i english.txt.gz -o spanish.txt.gz --long split --resume\n",
    .groups = {&group, &corpus_group, &tool_line_options, &tool_crew_options, &tool_generation_options,
               &tool_model_options, TOOL_DEVICE_GROUPS},
    .max_operands = (size_t)-1,
    .run = run_translate,
};
