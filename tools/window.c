/* window: see window.h. */
#define _POSIX_C_SOURCE 200809L

#include "window.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tool_shard_parse(const tool_args *args, tool_shard *out) {
  int end = 0;
  *out = (tool_shard){1, 1, 1};
  if (!args->shard) return TOOL_OK;
  const bool is_pair = strspn(args->shard, "0123456789/") == strlen(args->shard) &&
                       sscanf(args->shard, "%9zu/%9zu%n", &out->part, &out->of, &end) == 2 && !args->shard[end];
  if (is_pair && out->part >= 1 && out->part <= out->of) return TOOL_OK;
  return tool_usage_error(args->command->name, "--shard: expected I/N with I from 1 to N, found '%s'", args->shard);
}

/* Reads the lines that an earlier run did from the source, and checks that they are the same. */
static int pass_done(tool_window *w) {
  const tool_record *at = &w->sink.at;
  const char *line = NULL;
  size_t size = 0;
  int exit_code = TOOL_OK;
  while (exit_code == TOOL_OK && w->source.n_lines < at->lines) {
    exit_code = tool_source_next(&w->source, &line, &size);
    if (exit_code == TOOL_OK && !line && w->source.ended)
      return tool_error("%s: expected the %llu lines that the run to resume had done, found %zu", w->source.name,
                        at->lines, w->source.n_lines);
    if (!line) tool_source_wait(&w->source);
  }
  if (exit_code != TOOL_OK || w->source.hash == at->source) return exit_code;
  return tool_error(
      "%s: expected the lines of the run to resume, found other ones among the first %llu (hash %016llx, "
      "found %016llx)",
      w->source.name, at->lines, at->source, (unsigned long long)w->source.hash);
}

int tool_window_check_done(tool_window *w) {
  const char *line = NULL;
  size_t size = 0;
  int exit_code = pass_done(w);
  while (exit_code == TOOL_OK && !line && !w->source.ended) {
    exit_code = tool_source_next(&w->source, &line, &size);
    if (!line && !w->source.ended) tool_source_wait(&w->source);
  }
  return exit_code != TOOL_OK || !line
             ? exit_code
             : tool_error("%s: expected the %llu lines of the run to resume, which is done, found more", w->source.name,
                          w->sink.at.lines);
}

int tool_window_init(tool_window *w) {
  w->ring = calloc(w->capacity, sizeof *w->ring);
  w->waiting = calloc(w->capacity, sizeof *w->waiting);
  pthread_mutex_init(&w->lock, NULL);
  pthread_mutex_init(&w->reading, NULL);
  pthread_cond_init(&w->moved, NULL);
  if (!w->ring || !w->waiting) return tool_error("out of memory");
  const int exit_code = pass_done(w);
  w->share_begin = tool_source_share(&w->source);
  return exit_code;
}

static void entry_finish(tool_entry *e) {
  free(e->line);
  free(e->field);
  free(e->skipped);
  free(e->out);
  json_decref(e->json);
  *e = (tool_entry){0};
}

void tool_window_finish(tool_window *w) {
  tool_source_close(&w->source);
  tool_sink_close(&w->sink);
  if (!w->ring && !w->waiting) return;
  for (size_t i = 0; w->ring && i < w->capacity; i++) entry_finish(&w->ring[i]);
  free(w->ring);
  free(w->waiting);
  pthread_cond_destroy(&w->moved);
  pthread_mutex_destroy(&w->reading);
  pthread_mutex_destroy(&w->lock);
}

/* ---- what goes out (the lock is held) ---------------------------------------------------------------------------- */

static void end_with(tool_window *w, int exit_code) {
  w->exit_code = tool_both_exit_codes(w->exit_code, exit_code);
  w->ended = true;
}

static void write_block(tool_window *w) {
  if (!w->n_done || w->sink_failed) return;
  if (!w->sink.path) tool_progress_end(w->session); /* standard output may be the same terminal */
  const int exit_code = tool_sink_write(&w->sink, w->lines, w->hash);
  if (exit_code == TOOL_OK) return;
  w->sink_failed = true;
  end_with(w, exit_code);
}

static void print_progress(tool_window *w) {
  const double now = tool_seconds(), seconds = now - w->start, share = w->share;
  char left[64] = "";
  if (now - w->told < 0.2 || (!w->sink.path && isatty(STDOUT_FILENO))) return;
  w->told = now;
  if (share > w->share_begin && share < 1)
    snprintf(left, sizeof left, ", %.0f %%, %.0f s left", 100 * share,
             seconds * (1 - share) / (share - w->share_begin));
  tool_progress(w->session, "%zu lines, %.1f lines and %.0f tokens a second%s", w->n_done, (double)w->n_done / seconds,
                (double)w->counts.tokens / seconds, left);
}

void tool_window_step(tool_window *w, bool is_token) {
  pthread_mutex_lock(&w->lock);
  const double now = tool_seconds();
  w->n_steps++;
  if (now - w->told >= 1 && w->exit_code == TOOL_OK) {
    w->told = now;
    tool_progress(w->session, "%zu lines, %zu %s, %.0f s", w->n_done, w->n_steps, is_token ? "tokens" : "steps",
                  now - w->start);
  }
  pthread_mutex_unlock(&w->lock);
}

/* Outputs the oldest line, which is done. */
static void put_out(tool_window *w, tool_entry *e) {
  int exit_code = TOOL_OK;
  if (e->fails) {
    tool_progress_end(w->session);
    write_block(w);
    exit_code = tool_error("%s %zu: %s", w->noun, e->number, e->skipped);
  } else {
    w->skips.has_long |= e->is_long;
    if (e->skipped) exit_code = tool_skips_note(&w->skips, w->noun, e->number, e->skipped);
    if (exit_code == TOOL_OK) exit_code = tool_sink_add(&w->sink, e->out, e->n_out);
    w->lines = e->number;
    w->hash = e->source;
    w->n_done++;
  }
  if (exit_code != TOOL_OK) end_with(w, exit_code);
}

static void move_on(tool_window *w) {
  bool has_moved = false;
  while (w->first < w->end && w->exit_code == TOOL_OK) {
    tool_entry *e = &w->ring[w->first % w->capacity];
    if (e->state != TOOL_ENTRY_DONE) break;
    put_out(w, e);
    entry_finish(e);
    w->first++;
    has_moved = true;
  }
  if (tool_sink_is_due(&w->sink)) write_block(w);
  if (has_moved) print_progress(w);
  pthread_cond_broadcast(&w->moved);
}

/* ---- what comes in ----------------------------------------------------------------------------------------------- */

static int by_length(const void *a, const void *b) {
  const tool_entry *x = *(tool_entry *const *)a, *y = *(tool_entry *const *)b;
  const size_t m = strlen(x->text), n = strlen(y->text);
  if (m != n) return m < n ? -1 : 1;
  return x->number > y->number ? -1 : 1; /* lines of one length are taken in their order */
}

static bool is_mine(const tool_window *w, size_t number) {
  return (number - 1) % w->shard.of == w->shard.part - 1;
}

/* Makes an entry of a line of the source. */
static int make_entry(tool_window *w, const char *line, size_t size, tool_entry *e) {
  char reason[80];
  size_t n_tokens = 0;
  *e = (tool_entry){.number = w->source.n_lines, .source = w->source.hash};
  if (e->number == 1 || w->source.texts) tool_drop_bom(&line, &size);
  e->line = tool_utf8_mend(line, size);
  if (!e->line) return tool_error("out of memory");
  if (tool_utf8_reason(line, size, reason, sizeof reason) && !tool_invalid_is(w->args, "replace")) {
    if (tool_copy(reason, &e->skipped) != TOOL_OK) return TOOL_FAILED;
    e->fails = tool_invalid_is(w->args, "fail");
  }
  e->text = e->line;
  int exit_code = e->skipped || !w->prepare ? TOOL_OK : w->prepare(w->user, e);
  if (exit_code == TOOL_OK && e->skipped && !e->fails) e->fails = tool_invalid_is(w->args, "fail");
  const bool works = exit_code == TOOL_OK && !e->skipped && (w->works_blanks || !tool_is_blank(e->text));
  e->state = works ? TOOL_ENTRY_WAITS : TOOL_ENTRY_DONE;
  if (exit_code == TOOL_OK && !works && !e->fails) exit_code = w->render(w->user, e, NULL, &n_tokens);
  return exit_code;
}

/* Puts an entry, or (not is_line) none, into the window. False: no more are to be read. */
static bool add(tool_window *w, const tool_entry *e, bool is_line, int exit_code) {
  pthread_mutex_lock(&w->lock);
  if (exit_code != TOOL_OK) {
    end_with(w, exit_code);
  } else if (is_line) {
    tool_entry *to = &w->ring[w->end++ % w->capacity];
    *to = *e;
    if (e->state == TOOL_ENTRY_WAITS) w->waiting[w->n_waiting++] = to;
    if (e->state == TOOL_ENTRY_DONE && !e->skipped) w->counts.empty++;
    w->ended |= e->fails;
  }
  w->ended |= w->source.ended;
  w->share = tool_source_share(&w->source);
  const bool more = is_line && !w->ended && w->end - w->first < w->capacity;
  if (!more) {
    qsort(w->waiting, w->n_waiting, sizeof(tool_entry *), by_length);
    move_on(w);
  }
  pthread_mutex_unlock(&w->lock);
  return more;
}

/* Takes the lock. */
static bool is_over(tool_window *w) {
  pthread_mutex_lock(&w->lock);
  const bool found = w->exit_code != TOOL_OK;
  pthread_mutex_unlock(&w->lock);
  return found;
}

/* Ends reading after a failure of the source. Takes the lock. */
static void break_off(tool_window *w, int exit_code) {
  pthread_mutex_lock(&w->lock);
  w->broken = exit_code;
  w->ended = true;
  pthread_mutex_unlock(&w->lock);
}

/* Reads the lines that are available, as far as there is room; waits for one if `waits`. */
static void read_lines(tool_window *w, bool waits) {
  for (bool more = true; more;) {
    tool_entry e = {0};
    const char *line = NULL;
    size_t size = 0;
    int exit_code = tool_source_next(&w->source, &line, &size);
    if (exit_code != TOOL_OK) {
      break_off(w, exit_code);
      add(w, &e, false, TOOL_OK);
      return;
    }
    if (line && !is_mine(w, w->source.n_lines)) continue;
    if (line) exit_code = make_entry(w, line, size, &e);
    if (exit_code != TOOL_OK) entry_finish(&e);
    more = add(w, &e, line && exit_code == TOOL_OK, exit_code);
    waits &= !line && exit_code == TOOL_OK && !w->source.ended;
    if (!waits) continue;
    tool_source_wait(&w->source);
    more = !is_over(w);
  }
}

/* ---- lines and workers ------------------------------------------------------------------------------------------- */

static bool has_room(const tool_window *w) {
  return !w->ended && w->end - w->first < w->capacity;
}

/* Whether more lines should be read now. They are read before all that wait are taken, so that there are long and short
 * ones to choose from. */
static bool wants_lines(const tool_window *w) {
  return has_room(w) && 2 * w->n_waiting < w->capacity;
}

void tool_window_fill(tool_window *w, bool waits) {
  if (has_room(w)) read_lines(w, waits && w->n_waiting == 0);
}

/* Removes the next entry from those that wait. */
static tool_entry *take_waiting(tool_window *w) {
  tool_entry **at = &w->waiting[w->mixes_lengths && w->n_taken++ % 2 ? 0 : w->n_waiting - 1], *e = *at;
  w->n_waiting--;
  memmove(at, at + 1, (size_t)(&w->waiting[w->n_waiting] - at) * sizeof *at);
  return e;
}

/* Takes an entry; NULL: there is none now. busy: does not wait for one. */
static tool_entry *take(tool_window *w, bool busy) {
  tool_entry *e = NULL;
  pthread_mutex_lock(&w->lock);
  while (w->exit_code == TOOL_OK) {
    if (wants_lines(w)) {
      const bool waits = !busy && w->n_waiting == 0;
      pthread_mutex_unlock(&w->lock);
      const bool reads = waits ? pthread_mutex_lock(&w->reading) == 0 : pthread_mutex_trylock(&w->reading) == 0;
      pthread_mutex_lock(&w->lock);
      const bool still = wants_lines(w), idle = !busy && w->n_waiting == 0; /* another worker may have read meanwhile */
      pthread_mutex_unlock(&w->lock);
      if (reads && still) read_lines(w, idle);
      if (reads) pthread_mutex_unlock(&w->reading);
      pthread_mutex_lock(&w->lock);
    }
    if (w->n_waiting > 0) e = take_waiting(w);
    if (e || busy || w->ended) break;
    if (w->end - w->first == w->capacity) pthread_cond_wait(&w->moved, &w->lock);
  }
  if (w->exit_code != TOOL_OK) e = NULL;
  if (e) {
    e->state = TOOL_ENTRY_RUNS;
    e->worker = pthread_self();
  }
  pthread_mutex_unlock(&w->lock);
  return e;
}

/* Marks an entry as done: out and n_out are set, or, with an exit_code, setting them failed after a message. */
static void put_back(tool_window *w, tool_entry *e, size_t n_tokens, bool is_cut, int exit_code) {
  pthread_mutex_lock(&w->lock);
  if (exit_code != TOOL_OK) end_with(w, exit_code);
  e->state = TOOL_ENTRY_DONE;
  w->counts.tokens += n_tokens;
  w->counts.cut += is_cut;
  move_on(w);
  pthread_mutex_unlock(&w->lock);
}

/* Returns what this thread took and did not finish, for other workers. */
static void return_lines(tool_window *w) {
  pthread_mutex_lock(&w->lock);
  for (size_t i = w->first; i < w->end; i++) {
    tool_entry *e = &w->ring[i % w->capacity];
    if (e->state != TOOL_ENTRY_RUNS || !pthread_equal(e->worker, pthread_self())) continue;
    e->state = TOOL_ENTRY_WAITS;
    w->waiting[w->n_waiting++] = e;
  }
  qsort(w->waiting, w->n_waiting, sizeof(tool_entry *), by_length);
  pthread_cond_broadcast(&w->moved);
  pthread_mutex_unlock(&w->lock);
}

static int next_text(void *user, bool busy, vkf_queued_text *out) {
  tool_window *w = user;
  tool_entry *e = take(w, busy);
  if (!e) return is_over(w);
  out->text = e->text;
  out->target_prefix = e->prefix;
  out->line = e->number - 1;
  out->tag = e;
  return 0;
}

/* Sets e->skipped, fails and is_long if the library skipped the text. TOOL_OK, or out of memory. */
static int note_skip(const tool_window *w, tool_entry *e, const vkf_result *result) {
  const char *why = NULL;
  const vkf_skip_reason reason = vkf_result_skipped(result, 0, &why);
  if (reason == VKF_SKIP_NONE) return TOOL_OK;
  e->fails = tool_skip_fails(w->args, reason);
  e->is_long = reason == VKF_SKIP_LONG;
  return tool_copy(why, &e->skipped);
}

static int text_done(void *user, void *tag, const vkf_result *result) {
  tool_window *w = user;
  tool_entry *e = tag;
  const int32_t *cut = vkf_result_i32(result, "cut", NULL);
  size_t n_tokens = 0;
  int exit_code = note_skip(w, e, result);
  if (exit_code == TOOL_OK && !e->fails) exit_code = w->render(w->user, e, e->skipped ? NULL : result, &n_tokens);
  put_back(w, e, n_tokens, cut && cut[0], exit_code);
  return is_over(w);
}

/* Runs one worker until no line is left. */
static vkf_status do_lines(void *user, vkf_session *session, size_t i) {
  tool_window *w = user;
  const vkf_text_queue queue = {VKF_TEXT_QUEUE_INIT, .next = next_text, .done = text_done, .user = w};
  (void)i;
  const vkf_status status = w->run(w->user, session, &queue);
  if (status == VKF_ERROR_STOPPED) return VKF_OK; /* the window says why */
  if (status != VKF_OK) return_lines(w);
  return status;
}

/* Whether all lines of the source were done. */
static bool is_done(const tool_window *w) {
  return w->exit_code == TOOL_OK && w->broken == TOOL_OK && w->source.ended && w->first == w->end;
}

static int end_window(tool_window *w, int exit_code) {
  const tool_counts *c = &w->counts;
  tool_progress_end(w->session);
  write_block(w);
  exit_code = tool_both_exit_codes(exit_code, tool_both_exit_codes(w->exit_code, w->broken));
  if (exit_code == TOOL_OK && is_done(w)) {
    exit_code = tool_source_check(&w->source);
    if (exit_code == TOOL_OK)
      exit_code = tool_sink_end(&w->sink, w->source.n_lines, w->source.hash, w->args->shard != NULL);
  }
  if (w->sink.path && w->sink.journal >= 0) {
    fprintf(stderr, "vkformer: %zu line%s", w->n_done, w->n_done == 1 ? "" : "s");
    if (c->empty) fprintf(stderr, ", %zu of them empty", c->empty);
    if (c->cut)
      fprintf(stderr, ", %zu too long and %s", c->cut, tool_long_is(w->args, "split") ? "split" : "truncated");
    if (w->skips.n) fprintf(stderr, ", %zu skipped", w->skips.n);
    fputc('\n', stderr);
  }
  return tool_both_exit_codes(exit_code, tool_skips_report(&w->skips, w->session, w->noun, w->n_done));
}

int tool_window_run(tool_window *w, tool_crew *crew, size_t n_workers) {
  w->start = w->told = tool_seconds(); /* the model is open */
  const vkf_status status = tool_crew_run(crew, n_workers, do_lines, w);
  if (status == VKF_OK || !is_done(w))
    return end_window(w, status == VKF_OK ? TOOL_OK : tool_session_fail(w->session, status, NULL));
  tool_progress_end(w->session);
  fprintf(stderr, "vkformer: worker 1 ended, and the others did its work: %s\n", tool_session_message(w->session));
  return end_window(w, TOOL_OK);
}
