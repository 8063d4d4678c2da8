/* source: reads the lines of a corpus from a file or standard input, which gzip or zstd may have compressed, or from
 * texts of the command line.
 *
 * A file is read piece by piece, so its size does not matter. Standard input and pipes are read as they come. The
 * source keeps a hash of the lines that it gave, by which a later run recognises the corpus.
 */
#ifndef VKFORMER_TOOLS_SOURCE_H
#define VKFORMER_TOOLS_SOURCE_H

#include <stdint.h>
#include <sys/stat.h>

#include "program.h"

typedef struct tool_source {
  const char *name; /* for messages */
  const char *const *texts;
  size_t n_texts;
  int fd;
  void *gz, *zstd; /* decompressors; NULL: not compressed so */
  struct stat facts;
  char *packed; /* [n_packed], of which [at_packed] are decompressed */
  size_t n_packed, at_packed;
  bool is_in_frame;
  const char *damage; /* why decompression cannot continue; NULL: it can */
  char *data;         /* [begin, end): read, and not yet handed out; no newline before `scanned` */
  size_t begin, scanned, end, capacity;
  bool ended;
  size_t n_lines; /* handed out */
  uint64_t hash;  /* of them */
} tool_source;

/* path NULL or "-": standard input. texts [n], if not NULL, replace it. Close the source either way. */
int tool_source_open(tool_source *source, const char *path, const char *const *texts, size_t n_texts);
/* Sets *line to the next line without its end, zero-terminated and valid until the next call; NULL: there is no more
 * (ended), or it has not arrived yet. */
int tool_source_next(tool_source *source, const char **line, size_t *size);
/* Waits a moment for more input. False: none came. */
bool tool_source_wait(const tool_source *source);
/* Returns how much of the file was read, from 0 to 1; -1: its size is not known. */
double tool_source_share(const tool_source *source);
/* Checks that the file did not change since it was opened; TOOL_FAILED after a message. */
int tool_source_check(const tool_source *source);
void tool_source_close(tool_source *source);

/* The lines of files, one file after the other. */
typedef struct tool_text_list {
  char **at; /* [n] */
  size_t n, capacity;
} tool_text_list;
/* Adds the lines of a file, which must have at least one and be UTF-8. wanted: how many it must have; 0: any number. */
int tool_text_list_read(tool_text_list *list, const char *path, size_t wanted);
/* Adds a copy of a text. */
int tool_text_list_add(tool_text_list *list, const char *text);
void tool_text_list_finish(tool_text_list *list);

/* Continues the FNV-1a hash `hash` with more bytes; begin with TOOL_HASH_BEGIN. */
#define TOOL_HASH_BEGIN UINT64_C(0xcbf29ce484222325)
uint64_t tool_hash(uint64_t hash, const void *bytes, size_t size);
/* Adds the bytes of a file to *hash; TOOL_FAILED after a message. */
int tool_hash_file(const char *path, uint64_t *hash);

#endif
