/* bench: the page of the tile explorer, and kernels that come from files. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* A whole file, with a zero byte behind it, to free(); NULL after a message. */
static char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  *size = 0;
  for (size_t capacity = 0, n = 1; file && n > 0; *size += n) {
    capacity += capacity + 4096;
    char *grown = realloc(text, capacity + 1);
    if (!grown) break;
    text = grown;
    n = fread(text + *size, 1, capacity - *size, file);
  }
  if (!file || ferror(file) || !text) {
    tool_error("%s: cannot be read: %s", path, strerror(errno));
    free(text);
    text = NULL;
  } else {
    text[*size] = 0;
  }
  if (file) fclose(file);
  return text;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* Inside a script element "</" would end it. */
static void put_json(const char *json, FILE *file) {
  for (; *json; json++) {
    if (json[0] == '<') {
      fputs("\\u003c", file);
    } else {
      fputc(*json, file);
    }
  }
}

int bench_write_html(const char *path, json_t *documents) {
  static const char name[] = "bench/explorer.html", place[] = "id=\"data\">[]";
  char template[4096], part[4096];
  size_t size = 0;
  char *json = json_dumps(documents, JSON_COMPACT), *page = NULL;
  FILE *file = NULL;
  int exit_code = TOOL_FAILED;
  json_decref(documents);
  if (tool_find_shipped(name, "", template, sizeof template) != TOOL_OK) {
    tool_error("expected the page that comes with vkformer, %s, found none", name);
  } else if (json && (page = read_file(template, &size)) != NULL) {
    char *at = strstr(page, place);
    snprintf(part, sizeof part, "%.4000s.part", path);
    if (at && (file = fopen(part, "wb")) != NULL) {
      at += sizeof place - 3; /* before the empty list */
      fwrite(page, 1, (size_t)(at - page), file);
      put_json(json, file);
      fputs(at + 2, file);
      exit_code = fflush(file) == 0 && !ferror(file) ? TOOL_OK : TOOL_FAILED;
      if (fclose(file) != 0 || exit_code != TOOL_OK || rename(part, path) != 0) exit_code = TOOL_FAILED;
    }
    if (exit_code != TOOL_OK) tool_error("%s: cannot be written: %s", path, strerror(errno));
  }
  free(json);
  free(page);
  return exit_code;
}

/* ---- kernels from files ------------------------------------------------------------------------------------------ */

/* 0 if the program ran and ended well; 127 if it is not there. */
static int run_program(const char *const *argv) {
  int status = 0;
  pid_t child = fork();
  if (child < 0) return 127;
  if (child == 0) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}

/* GLSL to SPIR-V, with the headers of shaders/ where they are there. */
static int compile(const char *source, const char *target) {
  static const char *const compilers[] = {"glslangValidator", "glslang"};
  char shaders[4096], include[4100];
  const char *argv[] = {NULL, "-V", "--quiet", "--target-env", "vulkan1.1", "-o", target, source, NULL, NULL};
  if (tool_find_shipped("shaders", "/shared/constants.h", shaders, sizeof shaders) == TOOL_OK) {
    snprintf(include, sizeof include, "-I%s", shaders);
    argv[8] = include;
  }
  for (size_t i = 0; i < sizeof compilers / sizeof compilers[0]; i++) {
    argv[0] = compilers[i];
    int result = run_program(argv);
    if (result == 0) return TOOL_OK;
    if (result != 127) return tool_error("%s: %s ended with %d", source, compilers[i], result);
  }
  return tool_error("%s: expected glslangValidator or glslang in the path to compile it with, found neither", source);
}

int bench_read_shader(bench *b) {
  const char *path = b->args->shader;
  const char *end = strrchr(path, '.');
  char target[] = "/tmp/vkformer-shader-XXXXXX";
  size_t size = 0;
  int exit_code = TOOL_OK, fd = -1;
  if (!end || (strcmp(end, ".comp") != 0 && strcmp(end, ".spv") != 0))
    return tool_error("--shader: expected a file that ends in .comp or .spv, found %s", path);
  bool is_glsl = strcmp(end, ".comp") == 0;
  if (is_glsl && (fd = mkstemp(target)) < 0) return tool_error("%s: cannot be created: %s", target, strerror(errno));
  if (is_glsl) exit_code = compile(path, target);
  if (exit_code == TOOL_OK) {
    b->shader = (uint32_t *)(void *)read_file(is_glsl ? target : path, &size);
    b->n_shader_words = size / 4;
    if (!b->shader) exit_code = TOOL_FAILED;
  }
  if (exit_code == TOOL_OK && (size < 20 || size % 4 != 0 || b->shader[0] != 0x07230203u))
    exit_code =
        tool_error("%s: expected SPIR-V of this machine's byte order, found %zu bytes of something else", path, size);
  if (fd >= 0) {
    close(fd);
    remove(target);
  }
  return exit_code;
}
