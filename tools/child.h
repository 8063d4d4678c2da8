/* child: this program again, in a process of its own, so that a driver that hangs or crashes does not end this one. */
#ifndef VKFORMER_TOOLS_CHILD_H
#define VKFORMER_TOOLS_CHILD_H

#include <sys/types.h>

#include "program.h"

typedef struct tool_child {
  pid_t pid;    /* 0: none runs */
  int to, from; /* its standard input and output */
} tool_child;

typedef struct tool_child_params {
  const char *words[6];  /* its command and what belongs to that; NULL behind the last */
  const char *manifest;  /* of the only driver that its loader sees; NULL: as the environment and --icd say */
  bool is_without_cache; /* it keeps nothing, and reads nothing that was kept */
} tool_child_params;

/* With the options of args on which devices depend. false: it cannot be started; errno says why. */
bool tool_child_start(tool_child *child, const tool_args *args, const tool_child_params *params);
/* The next bytes that it wrote, at most `size`; 0: there are no more; -1: none came until `deadline` (tool_seconds()).
 */
ssize_t tool_child_read(const tool_child *child, double deadline, char *bytes, size_t size);
/* Waits until it has ended, which the end of its input asks for. What waitpid() says of it; 0 where none runs. */
int tool_child_end(tool_child *child, bool kill_it);

#endif
