/* page: a page that comes with vkformer, written out with data in it. It needs no other file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

char *tool_read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  *size = 0;
  for (size_t capacity = 0, n = 1; file && n > 0; *size += n) {
    capacity += capacity + 4096;
    char *grown = realloc(text, capacity + 1);
    if (!grown) break;
    text = grown;
    n = fread(text + *size, 1, capacity - *size, file);
  }
  if (!file || ferror(file) || !text) {
    tool_error("%s: cannot be read: %s", path, strerror(errno));
    free(text);
    text = NULL;
  } else {
    text[*size] = 0;
  }
  if (file) fclose(file);
  return text;
}

/* Inside a script element "</" would end it. */
static void put_json(const char *json, FILE *file) {
  for (; *json; json++) {
    if (json[0] == '<') {
      fputs("\\u003c", file);
    } else {
      fputc(*json, file);
    }
  }
}

int tool_write_page(const char *name, const char *path, json_t *documents) {
  static const char place[] = "id=\"data\">[]";
  char template[4096], part[4096];
  size_t size = 0;
  char *json = json_dumps(documents, JSON_COMPACT), *page = NULL;
  FILE *file = NULL;
  int exit_code = TOOL_FAILED;
  json_decref(documents);
  if (tool_find_shipped(name, "", template, sizeof template) != TOOL_OK) {
    tool_error("expected the page that comes with vkformer, %s, found none", name);
  } else if (json && (page = tool_read_file(template, &size)) != NULL) {
    char *at = strstr(page, place);
    snprintf(part, sizeof part, "%.4000s.part", path);
    if (at && (file = fopen(part, "wb")) != NULL) {
      at += sizeof place - 3; /* before the empty list */
      fwrite(page, 1, (size_t)(at - page), file);
      put_json(json, file);
      fputs(at + 2, file);
      exit_code = fflush(file) == 0 && !ferror(file) ? TOOL_OK : TOOL_FAILED;
      if (fclose(file) != 0 || exit_code != TOOL_OK || rename(part, path) != 0) exit_code = TOOL_FAILED;
    }
    if (exit_code != TOOL_OK) tool_error("%s: cannot be written: %s", path, strerror(errno));
  }
  free(json);
  free(page);
  return exit_code;
}
