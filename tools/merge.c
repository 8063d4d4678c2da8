/* merge: joins the outputs of all shards of a corpus. First it checks their journals: each shard must be there once,
 * done, of the same corpus and options, and unchanged since.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "sink.h"

typedef struct shard_file {
  const char *path;
  tool_journal journal;
  tool_source lines;
  const char *line; /* the next one, [size]; NULL: there is none */
  size_t size;
} shard_file;

static int by_part(const void *a, const void *b) {
  const shard_file *x = a, *y = b;
  return x->journal.shard.part < y->journal.shard.part ? -1 : x->journal.shard.part > y->journal.shard.part;
}

/* Reads the journal of a part. output: the file to write, which may be neither the part nor its journal. */
static int read_part(shard_file *f, const char *path, const char *output) {
  char journal[4200];
  f->path = path;
  if (snprintf(journal, sizeof journal, "%s.journal", path) >= (int)sizeof journal)
    return tool_error("%s: too long a name", path);
  int exit_code = tool_refuse_same_file("merge", "output", path, output);
  if (exit_code == TOOL_OK) exit_code = tool_refuse_same_file("merge", "output", journal, output);
  if (exit_code == TOOL_OK) exit_code = tool_journal_read(journal, &f->journal);
  if (exit_code != TOOL_OK) return exit_code;
  if (!f->journal.size) return tool_error("%s: expected %s beside it, found none", path, journal);
  return f->journal.is_done
             ? TOOL_OK
             : tool_error(
                   "%s: shard %zu/%zu is not finished: %llu lines of the corpus are done; continue it with --resume",
                   path, f->journal.shard.part, f->journal.shard.of, f->journal.last.lines);
}

/* Checks files [n], sorted by shard: all of one corpus, none missing, none twice. */
static int check(const shard_file *files, size_t n) {
  const tool_journal *first = &files[0].journal;
  size_t next = 1;
  for (size_t i = 0; i < n; i++) {
    const tool_journal *j = &files[i].journal;
    if (j->shard.of != first->shard.of)
      return tool_error("%s: expected a shard of %zu, as %s is, found one of %zu", files[i].path, first->shard.of,
                        files[0].path, j->shard.of);
    if (j->work != first->work)
      return tool_error("%s: expected the model and the options of %s, found others", files[i].path, files[0].path);
    if (j->last.source != first->last.source || j->last.lines != first->last.lines)
      return tool_error("%s: expected the corpus of %s, %llu lines, found another one of %llu", files[i].path,
                        files[0].path, first->last.lines, j->last.lines);
    if (i > 0 && j->shard.part == files[i - 1].journal.shard.part)
      return tool_error("%s: shard %zu/%zu was given twice: %s is the same one", files[i].path, j->shard.part,
                        j->shard.of, files[i - 1].path);
    if (j->shard.part != next) break;
    next++;
  }
  return next > first->shard.of ? TOOL_OK
                                : tool_error("expected shards 1 to %zu, found no shard %zu", first->shard.of, next);
}

static int read_next(shard_file *f) {
  return tool_source_next(&f->lines, &f->line, &f->size);
}

static int open_file(shard_file *f) {
  const int exit_code = tool_source_open(&f->lines, f->path, NULL, 0);
  return exit_code == TOOL_OK ? read_next(f) : exit_code;
}

static int open_lines(shard_file *files, size_t n) {
  int exit_code = TOOL_OK;
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++) exit_code = open_file(&files[i]);
  return exit_code;
}

static int changed(const shard_file *f) {
  return tool_error("%s: it was changed after it was written: expected hash %016llx, found %016llx", f->path,
                    f->journal.last.text, (unsigned long long)f->lines.hash);
}

/* Writes the shard's output for line `number` of the corpus, from 0: a line, or an n-best list, in which each line
 * begins with the number. */
static int put_next(shard_file *f, unsigned long long number, tool_sink *out) {
  char begin[32];
  const size_t n_begin = (size_t)snprintf(begin, sizeof begin, "%llu ||| ", number);
  size_t n = 0;
  int exit_code = f->line ? TOOL_OK : changed(f);
  do {
    if (exit_code == TOOL_OK) exit_code = tool_sink_add(out, f->line, f->size);
    if (exit_code == TOOL_OK) exit_code = tool_sink_add(out, "\n", 1);
    if (exit_code == TOOL_OK) exit_code = read_next(f);
  } while (exit_code == TOOL_OK && ++n < f->journal.shard.each && f->line && !strncmp(f->line, begin, n_begin));
  return exit_code;
}

/* Writes all lines, from each shard in turn. */
static int put_together(shard_file *files, size_t n, tool_sink *out) {
  const unsigned long long lines = files[0].journal.last.lines;
  int exit_code = TOOL_OK;
  for (unsigned long long i = 0; i < lines && exit_code == TOOL_OK; i++) {
    exit_code = put_next(&files[i % n], i, out);
    if (exit_code == TOOL_OK && tool_sink_is_due(out)) exit_code = tool_sink_write(out, i + 1, 0);
  }
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++)
    if (files[i].line || files[i].lines.hash != files[i].journal.last.text) return changed(&files[i]);
  return exit_code == TOOL_OK ? tool_sink_write(out, lines, 0) : exit_code;
}

/* Checks that no file has changed since it was written. */
static int look_through(shard_file *files, size_t n) {
  int exit_code = TOOL_OK;
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++) {
    exit_code = open_file(&files[i]);
    while (exit_code == TOOL_OK && files[i].line) exit_code = read_next(&files[i]);
    if (exit_code == TOOL_OK && files[i].lines.hash != files[i].journal.last.text) exit_code = changed(&files[i]);
    tool_source_close(&files[i].lines);
  }
  return exit_code;
}

/* Chooses a name beside the file for writing it; "": it is written directly (standard output, a pipe, a link). */
static int choose_name(const char *path, char *out, size_t size) {
  struct stat facts;
  out[0] = 0;
  if (!path || strcmp(path, "-") == 0 || (lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode))) return TOOL_OK;
  const char *end = tool_ends_with(path, ".gz") ? ".gz" : tool_ends_with(path, ".zst") ? ".zst" : "";
  return (size_t)snprintf(out, size, "%s.merging%s", path, end) < size ? TOOL_OK
                                                                       : tool_error("%s: too long a name", path);
}

/* Writes the file as a whole, or not at all. */
static int write_merged(shard_file *files, size_t n, const char *path) {
  tool_sink out = {.fd = -1};
  char beside[4096], journal[4200];
  bool is_done = false;
  int exit_code = choose_name(path, beside, sizeof beside);
  if (exit_code != TOOL_OK) return exit_code;
  snprintf(journal, sizeof journal, "%s.journal", beside);
  for (size_t i = 0; i < n && exit_code == TOOL_OK && beside[0]; i++)
    exit_code = tool_refuse_same_file("merge", "output", files[i].path, beside);
  if (exit_code != TOOL_OK) return exit_code;
  if (beside[0]) {
    unlink(beside);
    unlink(journal);
  }
  exit_code = tool_sink_open(&out, beside[0] ? beside : path, false, 0, (tool_shard){1, 1, 1}, &is_done);
  if (exit_code == TOOL_OK) exit_code = put_together(files, n, &out);
  if (exit_code == TOOL_OK) exit_code = tool_sink_end(&out, 0, 0, false);
  tool_sink_close(&out);
  if (!beside[0]) return exit_code;
  if (exit_code == TOOL_OK && rename(beside, path) != 0)
    exit_code = tool_error("%s: cannot be written: %s", path, strerror(errno));
  if (exit_code != TOOL_OK) {
    unlink(beside);
    unlink(journal);
    return exit_code;
  }
  snprintf(journal, sizeof journal, "%s.journal", path); /* left if the file was a shard before */
  unlink(journal);
  return TOOL_OK;
}

static int run_merge(const tool_args *args) {
  const size_t n = args->n_operands;
  shard_file *files = calloc(n, sizeof *files);
  int exit_code = files ? TOOL_OK : tool_error("out of memory");
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++)
    exit_code = read_part(&files[i], args->operands[i], args->output);
  if (exit_code == TOOL_OK) qsort(files, n, sizeof *files, by_part);
  if (exit_code == TOOL_OK) exit_code = check(files, n);
  if (exit_code == TOOL_OK) exit_code = look_through(files, n);
  if (exit_code == TOOL_OK) exit_code = open_lines(files, n);
  if (exit_code == TOOL_OK) exit_code = write_merged(files, n, args->output);
  for (size_t i = 0; files && i < n; i++) tool_source_close(&files[i].lines);
  free(files);
  return exit_code;
}

static const tool_option options[] = {
    {"output", 'o', TOOL_NAME, offsetof(tool_args, output), "FILE",
     "write to FILE instead of standard output; compressed if it ends\nin .gz or .zst"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_merge = {
    .name = "merge",
    .summary = "Put the outputs of shards together",
    .usage = "[OPTION]... PART...",
    .text =
        "The parts are what `vkformer translate --shard I/N -o PART` wrote, in any order, with their journals\n"
        "(PART.journal) beside them. The result is the file that one run without --shard writes. If a part is\n"
        "missing, unfinished, given twice, of another corpus or changed, merge names it and writes nothing.",
    .examples = "  vkformer merge spanish.1 spanish.2 spanish.3 spanish.4 -o spanish.txt\n",
    .groups = {&group, &tool_common_options},
    .min_operands = 1,
    .max_operands = (size_t)-1,
    .operand = "PART, an output of `vkformer translate --shard`",
    .run = run_merge,
    .computes_nothing = true,
};
