/* generate: the part that continues texts. */
#ifndef VKFORMER_TOOLS_GENERATE_H
#define VKFORMER_TOOLS_GENERATE_H

#include "program.h"

/* Continues the prompts of the options, or the lines of standard input. config: keys of generation_config.json or NULL.
 */
int tool_generate_text(const tool_args *args, const char *config);

#endif
