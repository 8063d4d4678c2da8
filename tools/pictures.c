/* pictures: see pictures.h. */
#define _POSIX_C_SOURCE 200809L

#include "pictures.h"

#include <stdlib.h>
#include <string.h>

#include "attention.h"

void tool_pictures_init(tool_pictures *p) {
  *p = (tool_pictures){0};
  pthread_mutex_init(&p->lock, NULL);
}

static void picture_finish(tool_picture *p) {
  free(p->text);
  free(p->translation);
  free(p->ids);
}

/* Inserts a picture by line number; the last one of too many is left out. */
static void insert(tool_pictures *p, const tool_picture *picture) {
  size_t at = p->n++;
  for (; at > 0 && p->at[at - 1].number > picture->number; at--) p->at[at] = p->at[at - 1];
  p->at[at] = *picture;
  if (p->n <= TOOL_MAX_PICTURES) return;
  picture_finish(&p->at[--p->n]);
  p->n_left_out++;
}

int tool_pictures_add(tool_pictures *p, size_t number, const char *text, const tool_translation *lines,
                      const vkf_result *result) {
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  if (!sequences || sequences->shape[0] == 0) return TOOL_OK;
  const size_t n = tool_translation_row(lines, sequences);
  tool_picture picture = {.number = number, .n = n, .text = strdup(text), .ids = calloc(n, sizeof(int32_t))};
  picture.translation = strdup(vkf_result_text(result, 0));
  if (picture.ids) memcpy(picture.ids, sequences->data, n * sizeof(int32_t));
  const bool is_there = picture.text && picture.ids && picture.translation,
             is_split = sequences->shape[0] > lines->n_best;
  pthread_mutex_lock(&p->lock);
  if (is_there && !is_split)
    insert(p, &picture);
  else
    p->n_left_out++;
  pthread_mutex_unlock(&p->lock);
  if (!is_there || is_split) picture_finish(&picture);
  return is_there ? TOOL_OK : tool_error("out of memory");
}

int tool_pictures_write(tool_pictures *p, tool_session *session, const tool_args *args) {
  json_t *documents = json_array();
  int exit_code = documents ? TOOL_OK : tool_error("out of memory");
  if (p->n_left_out)
    fprintf(stderr, "vkformer: --attention: the page has the first %d texts that were not split; %zu are left out\n",
            TOOL_MAX_PICTURES, p->n_left_out);
  for (size_t i = 0; i < p->n; i++) {
    const tool_picture *picture = &p->at[i];
    tool_attended a = {.how = {VKF_RUN_PARAMS_INIT, .attentions = true, .projections = args->scores > 0}};
    json_t *document = NULL;
    if (exit_code == TOOL_OK)
      exit_code =
          tool_attend_translation(session, args, picture->text, picture->translation, picture->ids, picture->n, &a);
    if (exit_code == TOOL_OK) document = tool_attention_document(session, args, &a);
    if (exit_code == TOOL_OK && json_array_append_new(documents, document) != 0) exit_code = TOOL_FAILED;
    tool_attended_finish(&a);
    picture_finish(&p->at[i]);
  }
  pthread_mutex_destroy(&p->lock);
  if (exit_code == TOOL_OK) return tool_write_page("tools/attention.html", args->attention, documents);
  json_decref(documents);
  return exit_code;
}
