/* The one list of commands, in the order in which `vkformer --help` prints them. */
#ifndef VKFORMER_TOOLS_COMMANDS_H
#define VKFORMER_TOOLS_COMMANDS_H

#include "program.h"

/* clang-format off */
#define TOOL_COMMANDS(X)                                                                                            \
  X(translate) X(run) X(generate) X(fill_mask) X(embed) X(classify) X(attention) X(layers) X(validate) X(devices)    \
  X(info) X(init) X(tokenize) X(kernels) X(tune) X(bench) X(op) X(tour) X(doctor) X(merge) X(score) X(evaluate)      \
  X(positions) X(masks)
/* clang-format on */

#define X(name) extern const tool_command tool_##name;
TOOL_COMMANDS(X)
#undef X

#endif
