/* bench: reads or compiles kernels from files. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* Returns 0 if the program ran and succeeded; 127 if there is none. */
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

/* Compiles GLSL to SPIR-V, with the headers of shaders/ if they are there. */
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
    return tool_usage_error("bench", "--shader: expected a file that ends in .comp or .spv, found %s", path);
  bool is_glsl = strcmp(end, ".comp") == 0;
  struct stat facts;
  if (is_glsl && stat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) /* the compiler would wait for a pipe */
    return tool_error("%s: expected a file, found something else", path);
  if (is_glsl && (fd = mkstemp(target)) < 0) return tool_error("%s: cannot be created: %s", target, strerror(errno));
  if (is_glsl) exit_code = compile(path, target);
  if (exit_code == TOOL_OK) {
    b->shader = (uint32_t *)(void *)tool_read_file(is_glsl ? target : path, &size);
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
