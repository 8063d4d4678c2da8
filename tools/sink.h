/* sink: writes the lines of a corpus to standard output, or to a file that a later run can continue if this one is
 * killed.
 *
 * Lines are written to the file in blocks. For each block there is a record in the journal beside it (FILE.journal):
 * how many lines of the source are done, how many bytes their results have, and the hash of these lines of the source.
 * A kill can leave part of a block after the last record; a run that resumes drops it. Files that end in .gz and .zst
 * are compressed, each block by itself.
 *
 *     vkformer-journal/2 HASH-OF-THE-WORK I/N LINES-FOR-A-LINE-OF-THE-SOURCE
 *     LINES BYTES HASH-OF-THE-SOURCE HASH-OF-THE-TEXT
 *     ...
 *     done LINES BYTES HASH-OF-THE-SOURCE HASH-OF-THE-FILE'S-TEXT
 */
#ifndef VKFORMER_TOOLS_SINK_H
#define VKFORMER_TOOLS_SINK_H

#include "source.h"

/* The lines of a corpus that are done here: every `of`-th, from `part` on; 1 of 1: all. Each gives `each` lines, or one
 * empty line. */
typedef struct tool_shard {
  size_t part, of, each;
} tool_shard;

/* How far the work had come when a block was written. */
typedef struct tool_record {
  unsigned long long lines, bytes, source;
  unsigned long long text; /* a hash of the text so far */
} tool_record;

typedef struct tool_journal {
  unsigned long long work;
  tool_shard shard;
  tool_record last;
  size_t size; /* up to the end of the last record; 0: there is no journal */
  bool is_done;
} tool_journal;

typedef struct tool_sink {
  const char *path; /* NULL: standard output */
  char journal_path[4200];
  int fd, journal;
  bool waits;     /* nothing was written yet, so an older file is unchanged */
  bool makes[2];  /* this run creates the file, and its journal */
  char head[128]; /* of a new journal */
  char packing;   /* 'g', 'z', or 0 */
  char *text;     /* [size]: of the block */
  size_t size, capacity;
  tool_record at;
  double written; /* when, in seconds */
} tool_sink;

/* Reads FILE.journal. TOOL_FAILED after a message if the file is no journal. */
int tool_journal_read(const char *path, tool_journal *out);

/* path NULL or "-": standard output. An existing file is kept until the first block is written, so a run that fails
 * before it has a result loses nothing and leaves nothing. work: a hash of what is done to the lines. resumes:
 * continues after the last record of the journal, which becomes sink->at; *is_done: nothing is left to do. Close it
 * either way. */
int tool_sink_open(tool_sink *sink, const char *path, bool resumes, unsigned long long work, tool_shard shard,
                   bool *is_done);
int tool_sink_add(tool_sink *sink, const char *text, size_t size);
/* Writes the block, which makes the first `lines` lines of a source done. */
int tool_sink_write(tool_sink *sink, size_t lines, uint64_t source);
/* Whether a block should be written. */
bool tool_sink_is_due(const tool_sink *sink);
/* Ends the file when all lines of the source are done: records that in the journal (keeps_journal) or deletes it. */
int tool_sink_end(tool_sink *sink, size_t lines, uint64_t source, bool keeps_journal);
void tool_sink_close(tool_sink *sink);

#endif
