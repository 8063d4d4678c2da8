/* pictures: keeps the texts of `translate --attention`: the first ones that were translated in one piece, in the order
 * of their lines, in whatever order they finish.
 */
#ifndef VKFORMER_TOOLS_PICTURES_H
#define VKFORMER_TOOLS_PICTURES_H

#include <pthread.h>

#include "translation.h"

enum { TOOL_MAX_PICTURES = 16 };

typedef struct tool_picture {
  size_t number; /* of its line */
  char *text, *translation;
  int32_t *ids; /* [n]: with the start token */
  size_t n;
} tool_picture;

typedef struct tool_pictures {
  pthread_mutex_t lock;
  tool_picture at[TOOL_MAX_PICTURES + 1]; /* [n], in the order of lines */
  size_t n, n_left_out;
} tool_pictures;

void tool_pictures_init(tool_pictures *pictures);
/* Adds a line if it is one of the first. result: of this line alone; its first translation is shown. On any thread. */
int tool_pictures_add(tool_pictures *pictures, size_t number, const char *text, const tool_translation *lines,
                      const vkf_result *result);
/* Writes the page of args->attention; finishes the pictures. */
int tool_pictures_write(tool_pictures *pictures, tool_session *session, const tool_args *args);

#endif
