/* page: writes an HTML page that comes with vkformer, with data put into it. The page needs no other file. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include "program.h"

/* Writes JSON inside a script element, which "</" would end. */
static void put_json(const char *json, FILE *file) {
  for (; *json; json++) {
    if (json[0] == '<') {
      fputs("\\u003c", file);
    } else {
      fputc(*json, file);
    }
  }
}

char *tool_read_shipped(const char *name) {
  char path[4096];
  size_t size = 0;
  if (tool_find_shipped(name, "", path, sizeof path) == TOOL_OK) return tool_read_file(path, &size);
  tool_error("expected the file that comes with vkformer, %s, found none", name);
  return NULL;
}

/* Copies *page up to a mark to the file and moves *page past the mark; false: the mark is not there. */
static bool put_until(const char **page, const char *mark, FILE *file) {
  const char *at = strstr(*page, mark);
  if (!at) return false;
  fwrite(*page, 1, (size_t)(at - *page), file);
  *page = at + strlen(mark);
  return true;
}

/* Writes the page with the shared style, the data and the shared script in their places; false: a
 * place is missing, or not all of it was written. */
static bool put_page(const char *page, const char *style, const char *script, const char *json, FILE *file) {
  if (!put_until(&page, "/* page.css */\n", file)) return false;
  fputs(style, file);
  if (!put_until(&page, "<!-- data -->", file)) return false;
  put_json(json, file);
  if (!put_until(&page, "/* page.js */\n", file)) return false;
  fputs(script, file);
  fputs(page, file);
  return fflush(file) == 0 && !ferror(file);
}

int tool_write_page(const char *name, const char *path, json_t *documents) {
  char *json = documents ? json_dumps(documents, JSON_COMPACT | TOOL_JSON_DIGITS) : NULL,
       *page = tool_read_shipped(name), *style = NULL, *script = NULL;
  char *text = NULL;
  size_t size = 0;
  int exit_code = TOOL_FAILED;
  json_decref(documents);
  if (page) style = tool_read_shipped("tools/page.css");
  if (style) script = tool_read_shipped("tools/page.js");
  FILE *file = script ? open_memstream(&text, &size) : NULL;
  bool done = file && json && put_page(page, style, script, json, file);
  if (file && fclose(file) != 0) done = false;
  if (done)
    exit_code = tool_write_file(path, text, size);
  else if (script)
    tool_error("%s: cannot be written: out of memory, or %s has no place for the data", path, name);
  free(text);
  free(json);
  free(script);
  free(style);
  free(page);
  return exit_code;
}
