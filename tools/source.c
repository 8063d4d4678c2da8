/* source: see source.h. */
#define _POSIX_C_SOURCE 200809L

#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lines.h"

#ifdef VKF_HAS_ZLIB
#include <zlib.h>
#endif
#ifdef VKF_HAS_ZSTD
#include <zstd.h>
#endif

enum { PIECE = 1 << 16, LONGEST_LINE = 64 << 20 };

uint64_t tool_hash(uint64_t hash, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

int tool_hash_file(const char *path, uint64_t *hash) {
  char bytes[PIECE];
  FILE *file = fopen(path, "rb");
  if (!file) return tool_error("%s: cannot be read: %s", path, strerror(errno));
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;) *hash = tool_hash(*hash, bytes, n);
  const bool failed = ferror(file);
  fclose(file);
  return failed ? tool_error("%s: cannot be read: %s", path, strerror(EIO)) : TOOL_OK;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static int read_error(const tool_source *s, const char *why) {
  return tool_error("%s: cannot be read: %s", s->name, why);
}

/* Returns what compressed the file, or NULL. The file must be at its beginning. */
static const char *packing_of(int fd) {
  char first[8] = {0};
  const ssize_t n = pread(fd, first, sizeof first, 0); /* fails on a pipe */
  return n > 0 && lseek(fd, 0, SEEK_CUR) == 0 ? tool_packing(first, (size_t)n) : NULL;
}

static int open_packed(tool_source *s) {
  const char *packing = packing_of(s->fd);
  if (!packing) return TOOL_OK;
#ifdef VKF_HAS_ZLIB
  if (packing[0] == 'g') {
    z_stream *z = s->gz = calloc(1, sizeof *z);
    s->packed = malloc(PIECE);
    return z && s->packed && inflateInit2(z, 15 + 16) == Z_OK ? TOOL_OK : tool_error("out of memory");
  }
#endif
#ifdef VKF_HAS_ZSTD
  if (packing[0] == 'z') {
    s->zstd = ZSTD_createDStream();
    s->packed = malloc(PIECE);
    return s->zstd && s->packed ? TOOL_OK : tool_error("out of memory");
  }
#endif
  return tool_error(
      "%s: expected text, found what %s compressed, which this vkformer cannot decompress: give it what "
      "`%s -dc FILE` prints, as standard input",
      s->name, packing, packing);
}

int tool_source_open(tool_source *s, const char *path, const char *const *texts, size_t n_texts) {
  *s = (tool_source){.fd = -1, .hash = TOOL_HASH_BEGIN, .texts = texts, .n_texts = n_texts};
  const bool is_file = path && strcmp(path, "-") != 0;
  s->name = texts ? "the texts" : is_file ? path : "standard input";
  if (texts) return TOOL_OK;
  s->fd = is_file ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
  if (s->fd < 0 || fstat(s->fd, &s->facts) != 0) return read_error(s, strerror(errno));
  if (S_ISDIR(s->facts.st_mode)) return read_error(s, strerror(EISDIR));
  return open_packed(s);
}

#ifdef VKF_HAS_ZLIB
static const char *unpack_gzip(tool_source *s, char *out, size_t size, size_t *n) {
  z_stream *z = s->gz;
  z->next_in = (unsigned char *)s->packed + s->at_packed;
  z->avail_in = (unsigned)(s->n_packed - s->at_packed);
  z->next_out = (unsigned char *)out;
  z->avail_out = (unsigned)size;
  const int code = inflate(z, Z_NO_FLUSH);
  s->at_packed = s->n_packed - z->avail_in;
  *n = size - z->avail_out;
  if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) return z->msg ? z->msg : "it is damaged";
  s->is_in_frame = code != Z_STREAM_END;
  if (code == Z_STREAM_END) inflateReset(z); /* another member may follow */
  return NULL;
}
#endif

#ifdef VKF_HAS_ZSTD
static const char *unpack_zstd(tool_source *s, char *out, size_t size, size_t *n) {
  ZSTD_outBuffer to = {out, size, 0};
  ZSTD_inBuffer from = {s->packed, s->n_packed, s->at_packed};
  const size_t left = ZSTD_decompressStream(s->zstd, &to, &from); /* of a frame */
  *n = to.pos;
  if (ZSTD_isError(left)) return ZSTD_getErrorName(left);
  s->is_in_frame = left > 0;
  s->at_packed = from.pos;
  return NULL;
}
#endif

/* Decompresses *n bytes of what was read. Returns why it cannot continue after them, or NULL. */
static const char *unpack(tool_source *s, char *out, size_t size, size_t *n) {
#ifdef VKF_HAS_ZLIB
  if (s->gz) return unpack_gzip(s, out, size, n);
#endif
#ifdef VKF_HAS_ZSTD
  if (s->zstd) return unpack_zstd(s, out, size, n);
#endif
  (void)out, (void)size, (void)n;
  return "it is compressed";
}

/* As read(), but repeats it after a signal. */
static ssize_t read_some(const tool_source *s, char *out, size_t size) {
  ssize_t got;
  do got = read(s->fd, out, size);
  while (got < 0 && errno == EINTR);
  return got;
}

static int read_packed(tool_source *s, char *out, size_t size, size_t *n) {
  for (*n = 0; *n == 0;) {
    if (s->at_packed == s->n_packed) {
      const ssize_t got = read_some(s, s->packed, PIECE);
      if (got < 0) return read_error(s, strerror(errno));
      if (got == 0 && s->is_in_frame) return read_error(s, "unexpected end of file");
      if (got == 0) break;
      s->at_packed = 0;
      s->n_packed = (size_t)got;
    }
    if (!s->damage) s->damage = unpack(s, out, size, n);
    if (s->damage && *n == 0) return read_error(s, s->damage); /* else what came before it is handed out first */
  }
  return TOOL_OK;
}

static int read_bytes(tool_source *s, char *out, size_t size, size_t *n) {
  if (s->gz || s->zstd) return read_packed(s, out, size, n);
  const ssize_t got = read_some(s, out, size);
  if (got < 0) return read_error(s, strerror(errno));
  *n = (size_t)got;
  const char *packing = s->n_lines == 0 && s->end == 0 ? tool_packing(out, *n) : NULL; /* of a pipe */
  if (!packing) return TOOL_OK;
  return tool_error("%s: expected text, found what %s compressed: put `%s -dc |` before this command", s->name, packing,
                    packing);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static int read_more(tool_source *s) {
  size_t n = 0;
  if (s->begin > 0) {
    memmove(s->data, s->data + s->begin, s->end - s->begin);
    s->end -= s->begin;
    s->scanned -= s->begin;
    s->begin = 0;
  }
  if (s->end > LONGEST_LINE)
    return tool_error("%s: line %zu: expected a line of at most %d MB, found a longer one", s->name, s->n_lines + 1,
                      LONGEST_LINE >> 20);
  if (s->capacity - s->end < PIECE / 2) {
    const size_t capacity = 2 * s->capacity + PIECE;
    char *data = realloc(s->data, capacity);
    if (!data) return tool_error("out of memory");
    s->data = data;
    s->capacity = capacity;
  }
  const int exit_code = read_bytes(s, s->data + s->end, s->capacity - s->end - 1, &n);
  s->end += n;
  s->ended = exit_code == TOOL_OK && n == 0;
  return exit_code;
}

/* Hands out the line that ends at `end`. */
static void give(tool_source *s, size_t end, const char **line, size_t *size) {
  *line = s->data + s->begin;
  *size = end - s->begin;
  s->hash = tool_hash(tool_hash(s->hash, *line, *size), "\n", 1);
  while (*size > 0 && (*line)[*size - 1] == '\r') --*size;
  s->data[s->begin + *size] = 0;
  s->begin = s->scanned = end < s->end ? end + 1 : end;
  s->n_lines++;
}

static bool is_at_hand(const tool_source *s, int milliseconds) {
  struct pollfd wait = {.fd = s->fd, .events = POLLIN}; /* a regular file is always ready */
  return poll(&wait, 1, milliseconds) > 0;
}

bool tool_source_wait(const tool_source *s) {
  return is_at_hand(s, 200);
}

int tool_source_next(tool_source *s, const char **line, size_t *size) {
  *line = NULL;
  if (s->texts) {
    s->ended = s->n_lines == s->n_texts;
    if (s->ended) return TOOL_OK;
    *line = s->texts[s->n_lines++];
    *size = strlen(*line);
    s->hash = tool_hash(s->hash, *line, *size + 1);
    return TOOL_OK;
  }
  for (;;) {
    char *newline = s->data ? memchr(s->data + s->scanned, '\n', s->end - s->scanned) : NULL;
    if (newline || (s->ended && s->end > s->begin)) {
      give(s, newline ? (size_t)(newline - s->data) : s->end, line, size);
      return TOOL_OK;
    }
    if (s->ended || !is_at_hand(s, 0)) return TOOL_OK;
    s->scanned = s->end;
    const int exit_code = read_more(s);
    if (exit_code != TOOL_OK) return exit_code;
  }
}

double tool_source_share(const tool_source *s) {
  if (s->texts) return s->n_texts ? (double)s->n_lines / (double)s->n_texts : 1;
  if (!S_ISREG(s->facts.st_mode) || s->facts.st_size == 0) return -1;
  double at = (double)lseek(s->fd, 0, SEEK_CUR) - (double)(s->n_packed - s->at_packed);
  if (!s->gz && !s->zstd) at -= (double)(s->end - s->begin);
  return at < (double)s->facts.st_size ? at / (double)s->facts.st_size : 1;
}

int tool_source_check(const tool_source *s) {
  struct stat now;
  if (s->texts || !S_ISREG(s->facts.st_mode)) return TOOL_OK;
  if (fstat(s->fd, &now) != 0) return read_error(s, strerror(errno));
  if (now.st_size == s->facts.st_size && now.st_mtim.tv_sec == s->facts.st_mtim.tv_sec &&
      now.st_mtim.tv_nsec == s->facts.st_mtim.tv_nsec)
    return TOOL_OK;
  return tool_error(
      "%s: it was changed while it was read: expected the %lld bytes that it had at the beginning, found "
      "%lld, or others in their place",
      s->name, (long long)s->facts.st_size, (long long)now.st_size);
}

void tool_source_close(tool_source *s) {
#ifdef VKF_HAS_ZSTD
  ZSTD_freeDStream(s->zstd);
#endif
#ifdef VKF_HAS_ZLIB
  if (s->gz) inflateEnd(s->gz);
  free(s->gz);
#endif
  if (s->fd > STDIN_FILENO) close(s->fd);
  free(s->packed);
  free(s->data);
  *s = (tool_source){.fd = -1};
}

/* ---- all of a file ----------------------------------------------------------------------------------------------- */

int tool_text_list_add(tool_text_list *l, const char *text) {
  if (l->n == l->capacity) {
    const size_t capacity = 2 * l->capacity + 1024;
    char **at = realloc(l->at, capacity * sizeof *at);
    if (!at) return tool_error("out of memory");
    l->at = at;
    l->capacity = capacity;
  }
  return tool_copy(text, &l->at[l->n++]);
}

int tool_text_list_read(tool_text_list *l, const char *path, size_t wanted) {
  tool_source source;
  const size_t before = l->n;
  int exit_code = tool_source_open(&source, path, NULL, 0);
  while (exit_code == TOOL_OK && !source.ended) {
    const char *line = NULL;
    size_t size = 0;
    exit_code = tool_source_next(&source, &line, &size);
    if (!line && !source.ended) tool_source_wait(&source);
    if (exit_code != TOOL_OK || !line) continue;
    char reason[80];
    if (source.n_lines == 1) tool_drop_bom(&line, &size);
    exit_code = tool_utf8_reason(line, size, reason, sizeof reason)
                    ? tool_error("%s: line %zu: %s", source.name, source.n_lines, reason)
                    : tool_text_list_add(l, line);
  }
  tool_source_close(&source);
  if (exit_code == TOOL_OK && l->n == before) return tool_error("%s: expected at least one line, found none", path);
  if (exit_code == TOOL_OK && wanted && l->n - before != wanted)
    return tool_error("%s: expected %zu lines, as the first file has, found %zu", path, wanted, l->n - before);
  return exit_code;
}

void tool_text_list_finish(tool_text_list *l) {
  for (size_t i = 0; i < l->n; i++) free(l->at[i]);
  free(l->at);
}
