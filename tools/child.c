/* child: see child.h. */
#define _POSIX_C_SOURCE 200809L

#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* Makes the child's arguments. Leaves out manifests that cannot be read: the parent reports them. */
static char **command_line(const tool_args *args, const tool_child_params *params) {
  char **argv = calloc(12 + 2 * args->icd_files.n, sizeof *argv);
  size_t n = 0;
  if (!argv) return NULL;
  argv[n++] = "vkformer";
  for (size_t i = 0; i < sizeof params->words / sizeof params->words[0] && params->words[i]; i++)
    argv[n++] = (char *)params->words[i];
  if (args->no_wide_vectors) argv[n++] = "--no-wide-vectors";
  if (args->deterministic) argv[n++] = "--deterministic";
  if (args->batch_invariant) argv[n++] = "--batch-invariant";
  if (args->limits) argv[n++] = "--limits";
  if (args->limits) argv[n++] = (char *)args->limits;
  for (size_t i = 0; !params->manifest && i < args->icd_files.n; i++) {
    if (access(args->icd_files.at[i], R_OK) != 0) continue;
    argv[n++] = "--icd";
    argv[n++] = (char *)args->icd_files.at[i];
  }
  return argv;
}

static void run_child(const tool_args *args, const tool_child_params *params, int in, int out) {
  char **argv = command_line(args, params);
  if (params->is_without_cache) setenv("VKF_CACHE_DIR", "", 1);
  if (params->manifest) {
    setenv("VK_DRIVER_FILES", params->manifest, 1);
    setenv("VK_ICD_FILENAMES", params->manifest, 1);
    unsetenv("VK_ADD_DRIVER_FILES");
  }
#ifdef __linux__ /* elsewhere it ends when its input does, unless its kernel hangs */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (argv && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0) execv("/proc/self/exe", argv);
  _exit(127);
}

bool tool_child_start(tool_child *child, const tool_args *args, const tool_child_params *params) {
  enum { CHILD_READS, TO, FROM, CHILD_WRITES, N_ENDS };
  int ends[N_ENDS] = {-1, -1, -1, -1}; /* of two pipes */
  pid_t pid = -1;
  if (pipe(ends) == 0 && pipe(ends + FROM) == 0) {
    fcntl(ends[TO], F_SETFD, FD_CLOEXEC);
    fcntl(ends[FROM], F_SETFD, FD_CLOEXEC);
    fflush(NULL);
    pid = fork();
    if (pid == 0) run_child(args, params, ends[CHILD_READS], ends[CHILD_WRITES]);
  }
  const int cause = errno;
  for (int i = 0; i < N_ENDS; i++)
    if (ends[i] >= 0 && !(pid > 0 && (i == TO || i == FROM))) close(ends[i]);
  *child = (tool_child){.pid = pid > 0 ? pid : 0, .to = ends[TO], .from = ends[FROM]};
  errno = cause;
  return pid > 0;
}

ssize_t tool_child_read(const tool_child *child, double deadline, char *bytes, size_t size) {
  for (;;) {
    const double left = deadline - tool_seconds();
    struct pollfd wait = {.fd = child->from, .events = POLLIN};
    const int ready = left > 0 ? poll(&wait, 1, (int)(left * 1000) + 1) : 0;
    if (ready == 0) return -1;
    const ssize_t n = ready > 0 ? read(child->from, bytes, size) : -1;
    if (n >= 0) return n;
    if (errno != EINTR) return 0;
  }
}

int tool_child_end(tool_child *child, bool kill_it) {
  int status = 0;
  if (child->pid <= 0) return 0;
  close(child->to);
  close(child->from);
  if (kill_it) kill(child->pid, SIGKILL);
  while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
    ;
  child->pid = 0;
  return status;
}
