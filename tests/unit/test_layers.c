/* The rule of the rooms: every #include "..." under src/ is allowed by src/LAYERS, the rule has no cycles, and no file
 * of the library calls a public function. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/headers.h"

#define MAX_ROOMS 32
#define MAX_ALLOWED 32

typedef struct room {
  char name[64];
  char allowed[MAX_ALLOWED][64];
  size_t n_allowed;
} room;

static room rooms[MAX_ROOMS];
static size_t n_rooms;

static const room *find_room(const char *name, size_t length) {
  for (size_t i = 0; i < n_rooms; i++)
    if (strlen(rooms[i].name) == length && memcmp(rooms[i].name, name, length) == 0) return &rooms[i];
  return NULL;
}

static int read_layers(void **state) {
  (void)state;
  char line[1024];
  FILE *f = fopen(VKF_SOURCE_DIR "/src/LAYERS", "r");
  if (f == NULL) return -1;
  n_rooms = 0;
  while (fgets(line, sizeof(line), f) != NULL) {
    if (line[0] == '#') continue;
    char *rest = strchr(line, ':');
    if (rest == NULL || n_rooms == MAX_ROOMS) return -1;
    *rest++ = '\0';
    room *r = &rooms[n_rooms++];
    memset(r, 0, sizeof(*r));
    snprintf(r->name, sizeof(r->name), "%.63s", line);
    char *save = NULL;
    for (char *word = strtok_r(rest, " \n", &save); word != NULL; word = strtok_r(NULL, " \n", &save)) {
      if (r->n_allowed == MAX_ALLOWED) return -1;
      snprintf(r->allowed[r->n_allowed++], sizeof(r->allowed[0]), "%.63s", word);
    }
  }
  fclose(f);
  return 0;
}

/* Returns whether a file of `from` may include "header". */
static bool is_allowed(const room *from, const char *header) {
  const char *slash = strchr(header, '/');
  if (slash == NULL || strstr(header, "..") != NULL) return false;
  size_t length = (size_t)(slash - header);
  if (find_room(header, length) == from) return true;
  for (size_t i = 0; i < from->n_allowed; i++) {
    const char *a = from->allowed[i];
    if (strcmp(a, header) == 0 || (strlen(a) == length && memcmp(a, header, length) == 0)) return true;
  }
  return false;
}

/* Reads the header of a line `#include "header"`. Returns false for any other line. */
static bool parse_include(const char *line, char header[256]) {
  return sscanf(line, " # include \"%255[^\"]\"", header) == 1;
}

static void the_rule_has_no_cycles(void **state) {
  (void)state;
  assert_true(n_rooms >= 10);
  for (size_t i = 0; i < n_rooms; i++)
    for (size_t j = 0; j < rooms[i].n_allowed; j++) {
      const char *a = rooms[i].allowed[j];
      const room *r = find_room(a, strcspn(a, "/"));
      if (r == NULL || r >= &rooms[i])
        fail_msg("src/LAYERS: %s may include %s, which is not below it", rooms[i].name, a);
    }
}

static void the_rule_is_understood(void **state) {
  (void)state;
  const room *base = find_room("base", 4), *kern = find_room("kern", 4), *engine = find_room("engine", 6);
  assert_true(is_allowed(base, "base/base.h"));
  assert_false(is_allowed(base, "op/op.h"));
  assert_true(is_allowed(kern, "gpu/caps.h"));
  assert_false(is_allowed(kern, "gpu/gpu.h"));
  assert_false(is_allowed(kern, "gpu/caps.hh"));
  assert_true(is_allowed(engine, "gpu/gpu.h"));
  assert_false(is_allowed(engine, "gpu.h"));
  assert_false(is_allowed(engine, "gpu/../ref/ref.h"));
  assert_false(is_allowed(engine, "unknown/x.h"));
  char header[256];
  assert_true(parse_include("#include \"op/op.h\"\n", header));
  assert_string_equal(header, "op/op.h");
  assert_true(parse_include("  #  include \"a.h\"", header));
  assert_false(parse_include("#include <stdio.h>\n", header));
  assert_false(parse_include("// text", header));
}

static size_t check_file(const room *r, const char *file) {
  char path[1024], line[4096], header[256];
  size_t n_includes = 0, n_line = 0;
  snprintf(path, sizeof(path), VKF_SOURCE_DIR "/src/%s/%s", r->name, file);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (fgets(line, sizeof(line), f) != NULL) {
    n_line++;
    if (!parse_include(line, header)) continue;
    n_includes++;
    if (!is_allowed(r, header))
      fail_msg("src/%s/%s:%zu: the room %s may not include \"%s\"; src/LAYERS says which it may", r->name, file, n_line,
               r->name, header);
  }
  fclose(f);
  return n_includes;
}

static void every_include_is_allowed(void **state) {
  (void)state;
  size_t n_includes = 0;
  DIR *src = opendir(VKF_SOURCE_DIR "/src");
  assert_non_null(src);
  for (struct dirent *e = readdir(src); e != NULL; e = readdir(src)) {
    char path[1024];
    if (e->d_name[0] == '.' || strcmp(e->d_name, "LAYERS") == 0) continue;
    const room *r = find_room(e->d_name, strlen(e->d_name));
    if (r == NULL) fail_msg("src/%s is no room of src/LAYERS", e->d_name);
    snprintf(path, sizeof(path), VKF_SOURCE_DIR "/src/%s", r->name);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *file = readdir(folder); file != NULL; file = readdir(folder)) {
      const char *dot = strrchr(file->d_name, '.');
      if (file->d_name[0] == '.' || dot == NULL || (strcmp(dot, ".c") != 0 && strcmp(dot, ".h") != 0)) continue;
      n_includes += check_file(r, file->d_name);
    }
    closedir(folder);
  }
  closedir(src);
  assert_true(n_includes > 20);
}

/* ---- no public function is called ------------------------------------------------------------------------------- */

static char *read_whole(const char *path) {
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_int_equal(fseek(f, 0, SEEK_END), 0);
  const long size = ftell(f);
  assert_true(size >= 0);
  rewind(f);
  char *text = test_calloc((size_t)size + 1, 1);
  assert_int_equal(fread(text, 1, (size_t)size, f), size);
  fclose(f);
  return text;
}

static bool is_name(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Replaces comments by spaces. */
static void blank_comments(char *text) {
  for (char *begin = strstr(text, "/*"); begin != NULL; begin = strstr(begin, "/*")) {
    char *end = strstr(begin, "*/");
    assert_non_null(end);
    for (; begin < end + 2; begin++)
      if (*begin != '\n') *begin = ' ';
  }
}

/* Finds the next name that is followed by "(" from *at on and moves *at after it. Returns false if there is none before
 * `end`. */
static bool next_function(const char **at, const char *end, char name[128]) {
  for (const char *p = strstr(*at, "vkf_"); p != NULL && p < end; p = strstr(p + 1, "vkf_")) {
    const size_t n = strspn(p, "_abcdefghijklmnopqrstuvwxyz0123456789");
    if (p[n] != '(' || is_name(p[-1]) || n >= 128) continue;
    memcpy(name, p, n);
    name[n] = '\0';
    *at = p + n;
    return true;
  }
  return false;
}

#define MAX_PUBLIC 200

static char public_names[MAX_PUBLIC][128];
static size_t n_public;

static void read_public_names(const char *path) {
  char *text = read_whole(path);
  blank_comments(text);
  for (const char *at = strstr(text, "\nVKF_API "); at != NULL; at = strstr(at, "\nVKF_API ")) {
    assert_true(n_public < MAX_PUBLIC);
    if (next_function(&at, strchr(at, ';'), public_names[n_public])) n_public++;
  }
  test_free(text);
}

/* Checks and counts the calls in a file. Calls are indented, definitions are not. */
static size_t check_calls(const char *path) {
  char name[128];
  size_t n_calls = 0;
  char *text = read_whole(path);
  blank_comments(text);
  for (char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
    line += *line == '\n';
    const char *end = line + strcspn(line, "\n"), *at = line;
    for (; *line == ' ' && next_function(&at, end, name); n_calls++)
      for (size_t i = 0; i < n_public; i++)
        if (strcmp(public_names[i], name) == 0)
          fail_msg("%s calls the public function %s; give what it does an internal name", path, name);
  }
  test_free(text);
  return n_calls;
}

static void no_public_function_is_called(void **state) {
  (void)state;
  char path[1024];
  size_t n_calls = 0;
  for (size_t i = 0; i < N_PUBLIC_HEADERS; i++) read_public_names(public_headers[i]);
  assert_true(n_public > 40);
  for (size_t r = 1; r < n_rooms; r++) { /* the first is shared, which is no folder of src/ */
    snprintf(path, sizeof(path), VKF_SOURCE_DIR "/src/%s", rooms[r].name);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *f = readdir(folder); f != NULL; f = readdir(folder)) {
      const char *dot = strrchr(f->d_name, '.');
      if (dot == NULL || strcmp(dot, ".c") != 0) continue;
      snprintf(path, sizeof(path), VKF_SOURCE_DIR "/src/%s/%.200s", rooms[r].name, f->d_name);
      n_calls += check_calls(path);
    }
    closedir(folder);
  }
  assert_true(n_calls > 1000); /* else the files are not read */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_rule_has_no_cycles),
      cmocka_unit_test(the_rule_is_understood),
      cmocka_unit_test(every_include_is_allowed),
      cmocka_unit_test(no_public_function_is_called),
  };
  return cmocka_run_group_tests(tests, read_layers, NULL);
}
