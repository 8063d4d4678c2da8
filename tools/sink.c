/* sink: see sink.h. */
#define _POSIX_C_SOURCE 200809L

#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#ifdef VKF_HAS_ZLIB
#include <zlib.h>
#endif
#ifdef VKF_HAS_ZSTD
#include <zstd.h>
#endif

static const char head[] = "vkformer-journal/2";
enum { BLOCK = 1 << 16 };
#define SECONDS 0.2 /* a block is written after this time, however small it is */

/* ---- the journal ------------------------------------------------------------------------------------------------- */

/* Parses one line; false: it is no record. */
static bool read_record(tool_journal *j, const char *line, size_t number) {
  tool_record r = {0};
  int end = 0;
  if (number == 0) {
    const int n = sscanf(line, "vkformer-journal/2 %llx %zu/%zu %zu\n%n", &j->work, &j->shard.part, &j->shard.of,
                         &j->shard.each, &end);
    return n == 4 && end > 0;
  }
  if (sscanf(line, "done %llu %llu %llx %llx\n%n", &r.lines, &r.bytes, &r.source, &r.text, &end) == 4)
    j->is_done = true;
  else if (sscanf(line, "%llu %llu %llx %llx\n%n", &r.lines, &r.bytes, &r.source, &r.text, &end) != 4)
    return false;
  j->last = r;
  return end > 0;
}

int tool_journal_read(const char *path, tool_journal *out) {
  char line[256];
  *out = (tool_journal){.last = {.source = TOOL_HASH_BEGIN, .text = TOOL_HASH_BEGIN}};
  FILE *file = fopen(path, "rb");
  if (!file && errno == ENOENT) return TOOL_OK;
  if (!file) return tool_error("%s: cannot be read: %s", path, strerror(errno));
  bool is_right = true;
  for (size_t n = 0; is_right && fgets(line, sizeof line, file); n++) {
    if (!strchr(line, '\n')) break; /* a kill cut it */
    is_right = !out->is_done && read_record(out, line, n);
    if (is_right) out->size += strlen(line);
  }
  fclose(file);
  return is_right ? TOOL_OK
                  : tool_error("%s: expected a journal of vkformer, found something else or a damaged one", path);
}

static int write_all(const char *path, int fd, const char *bytes, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return tool_error("%s: cannot be written: %s", path, strerror(n < 0 ? errno : ENOSPC));
    bytes += n;
    size -= (size_t)n;
  }
  return TOOL_OK;
}

static int write_record(const tool_sink *s, const char *word) {
  char line[160];
  if (s->journal < 0) return TOOL_OK;
  const int n = snprintf(line, sizeof line, "%s%llu %llu %016llx %016llx\n", word, s->at.lines, s->at.bytes,
                         s->at.source, s->at.text);
  return write_all(s->journal_path, s->journal, line, (size_t)n);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int choose_packing(tool_sink *s) {
  s->packing = tool_ends_with(s->path, ".gz") ? 'g' : tool_ends_with(s->path, ".zst") ? 'z' : 0;
#ifndef VKF_HAS_ZLIB
  if (s->packing == 'g') return tool_error("%s: this vkformer was built without zlib and cannot compress it", s->path);
#endif
#ifndef VKF_HAS_ZSTD
  if (s->packing == 'z') return tool_error("%s: this vkformer was built without zstd and cannot compress it", s->path);
#endif
  return TOOL_OK;
}

/* Checks that the file begins with the text of the last record. A kill may have left more after it. */
static int check_text(const tool_sink *s) {
  tool_source written;
  const char *line = "";
  size_t size = 0;
  int exit_code = tool_source_open(&written, s->path, NULL, 0);
  while (exit_code == TOOL_OK && line && written.hash != s->at.text)
    exit_code = tool_source_next(&written, &line, &size);
  if (exit_code == TOOL_OK && written.hash != s->at.text)
    exit_code = tool_error("%s: it was changed after the run to resume wrote it: expected hash %016llx, found %016llx",
                           s->path, s->at.text, (unsigned long long)written.hash);
  tool_source_close(&written);
  return exit_code;
}

/* Continues after the last record. */
static int go_on(tool_sink *s, const tool_journal *j, unsigned long long work, tool_shard shard) {
  struct stat facts;
  if (j->shard.part != shard.part || j->shard.of != shard.of)
    return tool_error("%s: expected --shard %zu/%zu, as in the run to resume, found %zu/%zu", s->path, j->shard.part,
                      j->shard.of, shard.part, shard.of);
  if (j->work != work)
    return tool_error("%s: expected the model and the options of the run to resume, found others", s->path);
  if (fstat(s->fd, &facts) != 0 || (unsigned long long)facts.st_size < j->last.bytes ||
      (j->is_done && (unsigned long long)facts.st_size > j->last.bytes))
    return tool_error("%s: expected the %llu bytes that the run to resume wrote, found %lld", s->path, j->last.bytes,
                      (long long)facts.st_size);
  s->at = j->last;
  return check_text(s);
}

static int open_journal(tool_sink *s, bool resumes, tool_journal *j) {
  if ((size_t)snprintf(s->journal_path, sizeof s->journal_path, "%s.journal", s->path) >= sizeof s->journal_path)
    return tool_error("%s: too long a name", s->path);
  s->journal = open(s->journal_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (s->journal < 0)
    return tool_error("%s: cannot be written: %s", errno == ENOENT ? s->path : s->journal_path, strerror(errno));
  if (flock(s->journal, LOCK_EX | LOCK_NB) != 0)
    return tool_error("%s: another process writes to it: its journal is locked", s->path);
  const int exit_code = tool_journal_read(s->journal_path, j);
  if (exit_code != TOOL_OK) return exit_code;
  if (j->size && !resumes && !j->is_done)
    return tool_error("%s: an earlier run did not finish it: continue with --resume, or remove %s to start again",
                      s->path, s->journal_path);
  return TOOL_OK;
}

static int open_file(tool_sink *s, bool resumes, unsigned long long work, tool_shard shard, bool *is_done) {
  tool_journal j;
  int exit_code = open_journal(s, resumes, &j);
  if (exit_code != TOOL_OK) return exit_code;
  const bool goes_on = j.size && resumes;
  struct stat facts;
  const bool is_there = stat(s->path, &facts) == 0;
  if (!j.size && resumes && is_there && facts.st_size > 0) {
    unlink(s->journal_path);
    return tool_error("%s: expected %s beside it, found none: it is done, or another program wrote it", s->path,
                      s->journal_path);
  }
  s->fd = open(s->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (s->fd < 0) {
    const int cause = errno;
    if (!j.size) unlink(s->journal_path);
    return tool_error("%s: cannot be written: %s", s->path, strerror(cause));
  }
  if (goes_on) exit_code = go_on(s, &j, work, shard);
  if (exit_code != TOOL_OK) return exit_code;
  *is_done = goes_on && j.is_done;
  if (*is_done) return TOOL_OK;
  if (!goes_on) {
    s->waits = true;
    s->makes[0] = !is_there;
    s->makes[1] = !j.size;
    snprintf(s->head, sizeof s->head, "%s %016llx %zu/%zu %zu\n", head, work, shard.part, shard.of, shard.each);
    return TOOL_OK;
  }
  if (ftruncate(s->fd, (off_t)s->at.bytes) != 0)
    return tool_error("%s: cannot be written: %s", s->path, strerror(errno));
  return ftruncate(s->journal, (off_t)j.size) == 0
             ? TOOL_OK
             : tool_error("%s: cannot be written: %s", s->journal_path, strerror(errno));
}

/* Empties an older file and its journal, before the first block. */
static int begin(tool_sink *s) {
  if (!s->waits) return TOOL_OK;
  s->waits = false;
  if (ftruncate(s->fd, 0) != 0) return tool_error("%s: cannot be written: %s", s->path, strerror(errno));
  if (ftruncate(s->journal, 0) != 0) return tool_error("%s: cannot be written: %s", s->journal_path, strerror(errno));
  return write_all(s->journal_path, s->journal, s->head, strlen(s->head));
}

int tool_sink_open(tool_sink *s, const char *path, bool resumes, unsigned long long work, tool_shard shard,
                   bool *is_done) {
  *s = (tool_sink){.fd = -1, .journal = -1, .at = {.source = TOOL_HASH_BEGIN, .text = TOOL_HASH_BEGIN}};
  struct stat facts;
  *is_done = false;
  s->written = tool_seconds();
  if (!path || strcmp(path, "-") == 0) return TOOL_OK;
  s->path = path;
  const int exit_code = choose_packing(s);
  if (exit_code != TOOL_OK || stat(path, &facts) != 0 || S_ISREG(facts.st_mode))
    return exit_code == TOOL_OK ? open_file(s, resumes, work, shard, is_done) : exit_code;
  s->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC); /* a pipe or a device: nothing can be taken back */
  return s->fd >= 0 ? TOOL_OK : tool_error("%s: cannot be written: %s", path, strerror(errno));
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

int tool_sink_add(tool_sink *s, const char *text, size_t size) {
  if (s->size + size > s->capacity) {
    const size_t capacity = 2 * s->capacity + size + BLOCK;
    char *grown = realloc(s->text, capacity);
    if (!grown) return tool_error("out of memory");
    s->text = grown;
    s->capacity = capacity;
  }
  memcpy(s->text + s->size, text, size);
  s->size += size;
  return TOOL_OK;
}

bool tool_sink_is_due(const tool_sink *s) {
  return s->size > 0 && (!s->path || s->size >= BLOCK || tool_seconds() - s->written > SECONDS);
}

/* Compresses the block as a member (or frame) of its own, to free(); NULL: out of memory. */
static char *pack(const tool_sink *s, size_t *size) {
  char *packed = NULL;
#ifdef VKF_HAS_ZLIB
  z_stream z = {0};
  if (s->packing == 'g' &&
      deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK) {
    const size_t most = deflateBound(&z, s->size);
    packed = malloc(most);
    z.next_in = (unsigned char *)s->text;
    z.avail_in = (unsigned)s->size;
    z.next_out = (unsigned char *)packed;
    z.avail_out = (unsigned)most;
    if (packed) deflate(&z, Z_FINISH);
    *size = z.total_out;
    deflateEnd(&z);
  }
#endif
#ifdef VKF_HAS_ZSTD
  if (s->packing == 'z') {
    const size_t most = ZSTD_compressBound(s->size);
    packed = malloc(most);
    if (packed) *size = ZSTD_compress(packed, most, s->text, s->size, ZSTD_CLEVEL_DEFAULT);
    if (packed && ZSTD_isError(*size)) { /* out of memory for its tables */
      free(packed);
      packed = NULL;
    }
  }
#endif
  return packed;
}

static int write_block(tool_sink *s) {
  size_t size = s->size;
  char *packed = s->packing ? pack(s, &size) : NULL;
  if (s->packing && !packed) return tool_error("out of memory");
  const int exit_code = write_all(s->path, s->fd, packed ? packed : s->text, size);
  free(packed);
  if (exit_code == TOOL_OK)
    s->at.bytes += size;
  else if (s->journal >= 0 && ftruncate(s->fd, (off_t)s->at.bytes) != 0)
    tool_error("%s: its last line may be cut; --resume repairs it", s->path);
  return exit_code;
}

int tool_sink_write(tool_sink *s, size_t lines, uint64_t source) {
  int exit_code = TOOL_OK;
  s->written = tool_seconds();
  if (!s->path) {
    fwrite(s->text, 1, s->size, stdout);
    s->size = 0;
    return tool_flush();
  }
  exit_code = begin(s);
  if (exit_code == TOOL_OK && s->size > 0) exit_code = write_block(s);
  if (exit_code != TOOL_OK) return exit_code;
  s->at.text = tool_hash(s->at.text, s->text, s->size);
  s->at.lines = lines;
  s->at.source = source;
  s->size = 0;
  return write_record(s, "");
}

int tool_sink_end(tool_sink *s, size_t lines, uint64_t source, bool keeps_journal) {
  if (!s->path || s->journal < 0) return TOOL_OK;
  int exit_code = begin(s);
  if (exit_code == TOOL_OK && s->packing && s->at.bytes == 0) exit_code = write_block(s); /* even if it is empty */
  if (exit_code != TOOL_OK) return exit_code;
  s->at.lines = lines;
  s->at.source = source;
  if (keeps_journal) return write_record(s, "done ");
  return unlink(s->journal_path) == 0 ? TOOL_OK
                                      : tool_error("%s: cannot be removed: %s", s->journal_path, strerror(errno));
}

void tool_sink_close(tool_sink *s) {
  if (s->waits && s->makes[0]) unlink(s->path);
  if (s->waits && s->makes[1]) unlink(s->journal_path);
  if (s->path && s->fd >= 0) close(s->fd);
  if (s->path && s->journal >= 0) close(s->journal);
  free(s->text);
  *s = (tool_sink){.fd = -1, .journal = -1};
}
