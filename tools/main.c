/* vkformer: the program. Finds the command, parses its arguments, runs it.
 *
 * Exit codes are those of exit_codes.h; every one but 0 comes with a sentence on standard error.
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "manual.h"

const char tool_commit[] = VKF_COMMIT;
const bool tool_has_coopmat = VKF_COOPMAT;

#define X(name) &tool_##name,
static const tool_command *const commands[] = {TOOL_COMMANDS(X)};
#undef X
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const tool_command *find(const char *name) {
  for (size_t i = 0; i < N_COMMANDS; i++) {
    if (strcmp(commands[i]->name, name) == 0) return commands[i];
  }
  return NULL;
}

static void print_help(FILE *file) {
  fputs(
      "Usage: vkformer COMMAND [OPTION]... [ARGUMENT]...\n\n"
      "Transformer models on Vulkan compute shaders, on any GPU and on software drivers.\n\n"
      "Commands:\n",
      file);
  for (size_t i = 0; i < N_COMMANDS; i++) fprintf(file, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
  fputs(
      "\nTopics (`vkformer help TOPIC`):\n  models, generation, exit-codes, environment\n"
      "\nIf an option takes a file to write, - means standard output, except if the end of the name decides the\n"
      "format (.svg). Everything else that the command prints then goes to standard error.\n\n"
      "`vkformer COMMAND --help` explains a command; `vkformer --version` prints the version.\n\n"
      "Example:\n"
      "  vkformer translate \"The cat sat on the mat because it was tired.\"\n",
      file);
}

static int refuse(const char *expected, const char *name) {
  tool_nearest nearest;
  tool_nearest_begin(&nearest, name);
  for (size_t i = 0; i < N_COMMANDS; i++) tool_nearest_try(&nearest, commands[i]->name);
  tool_nearest_try(&nearest, "--version");
  tool_nearest_try(&nearest, "--help");
  return tool_usage_error(NULL, "expected %s, found '%s'%s%s%s", expected, name, nearest.name ? ": did you mean '" : "",
                          nearest.name ? nearest.name : "", nearest.name ? "'?" : "");
}

/* Prints the help of a command, else of a topic. */
static int print_help_of(const char *name) {
  char path[4096], file[128];
  size_t size = 0;
  const tool_command *command = find(name);
  if (command) {
    tool_command_help(command, stdout);
    return tool_flush();
  }
  const int n = snprintf(file, sizeof file, "docs/topics/%s.txt", name);
  if (!strchr(name, '/') && n < (int)sizeof file && tool_find_shipped(file, "", path, sizeof path) == TOOL_OK) {
    char *text = tool_read_file(path, &size);
    if (!text) return TOOL_FAILED;
    fputs(text, stdout);
    free(text);
    return tool_flush();
  }
  return refuse("a command, or a topic (models, generation, exit-codes, environment)", name);
}

/* Replaces the name of the shipped model by the path of the installed one if there is no such folder here: all examples
 * call that model by its name in the sources. */
static void find_shipped_model(tool_args *args, char *path, size_t size) {
  static const char shipped[] = "models/en-es";
  const bool is_operand = args->command->takes_model && args->n_operands;
  const char *name = is_operand ? args->operands[0] : args->model;
  if (!name || strncmp(name, shipped, strlen(shipped)) != 0 || access(name, F_OK) == 0) return;
  if (tool_find_shipped(name, "", path, size) != TOOL_OK) return;
  if (is_operand)
    args->operands[0] = path;
  else
    args->model = path;
}

static int run(const tool_command *command, int argc, char **argv) {
  tool_args args;
  char shipped[4096];
  int exit_code = tool_args_parse(command, argc, argv, &args);
  if (exit_code == TOOL_OK) find_shipped_model(&args, shipped, sizeof shipped);
  if (exit_code == TOOL_OK) {
    if (args.help) {
      tool_command_help(command, stdout);
    } else {
      exit_code = tool_session_check_limits(&args);
      if (exit_code == TOOL_OK && args.inputs)
        exit_code = tool_refuse_same_file(command->name, "outputs", args.inputs, args.outputs);
      if (exit_code == TOOL_OK) exit_code = command->run(&args);
    }
  }
  tool_args_finish(&args);
  int flushed = tool_flush();
  return exit_code != TOOL_OK ? exit_code : flushed;
}

/* Opens closed standard streams so that no file gets their numbers, and so that using them fails. */
static void keep_standard_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
  keep_standard_streams();
  /* Then a file that exceeds the shell's size limit is an error like a full disk, and the partial file is removed. */
  signal(SIGXFSZ, SIG_IGN);
  if (argc < 2) {
    print_help(stderr);
    return TOOL_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (strcmp(name, "help") == 0 && argc == 2)) {
    print_help(stdout);
    return tool_flush();
  }
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
    printf("vkformer %s (%s)%s\n", vkf_version(), tool_commit,
           tool_has_coopmat ? "" : ", built without the kernels for matrix cores (matmul_coopmat)");
    return tool_flush();
  }
  if (strcmp(name, "help") == 0) return print_help_of(argv[2]);
  if (strcmp(name, "manual") == 0 && argc == 3) return tool_manual_write(commands, N_COMMANDS, argv[2]);
  const tool_command *command = find(name);
  if (!command) return refuse("a command", name);
  return run(command, argc - 1, argv + 1);
}
