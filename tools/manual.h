/* manual: writes man pages and shell completions from the tables of commands and options that --help prints. */
#ifndef VKFORMER_TOOLS_MANUAL_H
#define VKFORMER_TOOLS_MANUAL_H

#include "program.h"

/* Writes FOLDER/man1/vkformer*.1, FOLDER/bash/vkformer, FOLDER/zsh/_vkformer and FOLDER/fish/vkformer.fish. */
int tool_manual_write(const tool_command *const *commands, size_t n, const char *folder);

#endif
