/* child: runs this program in a child process, so that a driver that hangs or crashes does not end the parent. */
#ifndef VKFORMER_TOOLS_CHILD_H
#define VKFORMER_TOOLS_CHILD_H

#include <sys/types.h>

#include "program.h"

typedef struct tool_child {
  pid_t pid;    /* 0: none runs */
  int to, from; /* its standard input and output */
} tool_child;

typedef struct tool_child_params {
  const char *words[6];  /* its command and the arguments of that; NULL after the last */
  const char *manifest;  /* of the only driver that its loader sees; NULL: those of the environment and --icd */
  bool is_without_cache; /* it neither reads nor writes the cache */
} tool_child_params;

/* Starts a child with those options of args that affect devices. false: it cannot be started; errno says why. */
bool tool_child_start(tool_child *child, const tool_args *args, const tool_child_params *params);
/* Reads up to `size` bytes of its output; 0: there are no more; -1: none came before `deadline` (as tool_seconds()).
 */
ssize_t tool_child_read(const tool_child *child, double deadline, char *bytes, size_t size);
/* Closes its input, which asks it to end, and waits until it has. Returns the status of waitpid(); 0: none runs. */
int tool_child_end(tool_child *child, bool kill_it);

#endif
