/* tour: the worked examples, properties and concepts of the Transformer, computed on a device and compared.
 *
 * Invariant: the last line is `N of M reproduced` over all devices, and the exit code is 0 only if N equals M.
 */
#include "tour.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *tour_text(const json_t *step, const char *key, const char *fallback) {
  const char *text = json_string_value(json_object_get(step, key));
  return text ? text : fallback;
}

/* ---- what is said: on the terminal, and on the page -------------------------------------------------------------- */

enum { MAX_LINE = 4096, MAX_NUMBERS = 4096 };

void tour_put(tour *t, json_t *item) {
  if (t->items)
    json_array_append_new(t->items, item);
  else
    json_decref(item);
}

void tour_say(tour *t, const char *fmt, ...) {
  char line[MAX_LINE];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  puts(line);
  tour_put(t, json_pack("{s:o}", "text", tool_json_text(line, strlen(line))));
}

void tour_check(tour *t, bool passed, const char *fmt, ...) {
  char line[MAX_LINE];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  t->n_checks++;
  t->n_reproduced += passed;
  tour_put(t, json_pack("{s:b, s:o}", "check", passed, "text", tool_json_text(line, strlen(line))));
  if (!passed || !t->args->brief) printf("    %s %s\n", passed ? "ok   " : "WRONG", line);
}

void tour_show(tour *t, const char *name, const char *equation, const char *text, const vkf_array *array,
               json_t *labels) {
  json_t *shape = json_array(), *numbers = json_array();
  const size_t n = tool_array_elements(array);
  for (size_t i = 0; i < array->rank; i++) json_array_append_new(shape, json_integer((json_int_t)array->shape[i]));
  for (size_t i = 0; t->items && i < n && i < MAX_NUMBERS; i++) {
    const double value = tool_array_value(array, i);
    json_array_append_new(numbers,
                          array->dtype == VKF_I32 ? json_integer((json_int_t)value) : tool_json_float((float)value));
  }
  json_t *item = json_pack("{s:s, s:s*, s:s*, s:{s:o, s:o}, s:o*}", "name", name, "equation", equation, "text", text,
                           "array", "shape", shape, "numbers", numbers, "labels", labels);
  if (n > MAX_NUMBERS) json_object_set_new(json_object_get(item, "array"), "cut", json_integer((json_int_t)n));
  tour_put(t, item);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

const tour_value *tour_find(const tour *t, const char *name) {
  for (const tour_value *v = t->values; v; v = v->next)
    if (strcmp(v->name, name) == 0) return v;
  tool_error("topic %s: expected a value called %s, found none", t->topic, name);
  return NULL;
}

int tour_set(tour *t, const char *name, const vkf_array *array, float *errors) {
  tour_value *v = calloc(1, sizeof *v);
  char *copy = malloc(strlen(name) + 1);
  if (!errors) errors = calloc(tool_array_elements(array) + 1, sizeof *errors);
  if (!v || !copy || !errors) {
    free(v);
    free(copy);
    free(errors);
    free(array->data);
    return tool_error("out of memory");
  }
  strcpy(copy, name);
  *v = (tour_value){copy, *array, errors, t->values}; /* the newest value of a name is found first */
  t->values = v;
  return TOOL_OK;
}

static void clear(tour *t) {
  for (tour_value *v = t->values, *next; v; v = next) {
    next = v->next;
    free(v->array.data);
    free(v->errors);
    free(v->name);
    free(v);
  }
  t->values = NULL;
}

/* ---- topics ------------------------------------------------------------------------------------------------------ */

static json_t *load(const tool_args *args) {
  char path[4096];
  if (args->file) {
    snprintf(path, sizeof path, "%s", args->file);
  } else if (tool_find_shipped("tour/tour.json", "", path, sizeof path) != TOOL_OK) {
    tool_error("expected tour/tour.json next to the program or in %s, found none: name it with --file FILE",
               VKF_DATA_DIR);
    return NULL;
  }
  json_t *file = tool_read_json(path);
  if (file && !json_is_array(json_object_get(file, "topics"))) {
    tool_error("%s: expected an object with the list topics", path);
    json_decref(file);
    file = NULL;
  }
  return file;
}

static bool is_chosen(const tool_args *args, const char *name) {
  for (size_t i = 0; i < args->n_operands; i++)
    if (strcmp(args->operands[i], name) == 0) return true;
  return args->n_operands == 0;
}

static int check_topics(const tool_args *args, const json_t *topics) {
  for (size_t o = 0; o < args->n_operands; o++) {
    bool found = false;
    tool_nearest nearest;
    tool_nearest_begin(&nearest, args->operands[o]);
    for (size_t i = 0; i < json_array_size(topics); i++) {
      const char *name = tour_text(json_array_get(topics, i), "name", "");
      found |= strcmp(name, args->operands[o]) == 0;
      tool_nearest_try(&nearest, name);
    }
    if (!found)
      return tool_usage_error("tour", "expected a topic of `vkformer tour --list`, found '%s'%s%s%s", args->operands[o],
                              nearest.name ? ": did you mean '" : "", nearest.name ? nearest.name : "",
                              nearest.name ? "'?" : "");
  }
  return TOOL_OK;
}

static int run_topic(tour *t, const json_t *topic) {
  int exit_code = TOOL_OK;
  const json_t *steps = json_object_get(topic, "steps");
  t->topic = tour_text(topic, "name", "?");
  printf("\n== %s: %s\n   %s\n", t->topic, tour_text(topic, "title", ""), tour_text(topic, "text", ""));
  if (t->page) {
    t->items = json_array();
    json_array_append_new(
        t->page,
        json_pack("{s:s, s:s, s:s, s:s, s:o}", "device", vkf_device_get_info(t->session.device)->name, "name", t->topic,
                  "title", tour_text(topic, "title", ""), "text", tour_text(topic, "text", ""), "items", t->items));
  }
  for (size_t i = 0; exit_code == TOOL_OK && i < json_array_size(steps); i++) {
    exit_code = tour_step(t, json_array_get(steps, i));
    if (exit_code != TOOL_OK) tool_error("topic %s: step %zu cannot be done", t->topic, i + 1);
  }
  clear(t);
  fflush(stdout);
  return exit_code;
}

/* Tours one device. A step that cannot be done counts as a failed check, and the next topic follows. */
static int tour_device(void *user, tool_session *session, const char *device) {
  tour *t = user;
  int exit_code = tool_session_open_device(session, device);
  vkf_status status = exit_code == TOOL_OK ? vkf_device_open(session->context, "ref", &t->ref) : VKF_OK;
  if (status != VKF_OK) exit_code = tool_session_fail(session, status, NULL);
  if (exit_code == TOOL_OK) {
    const vkf_device_info *info = vkf_device_get_info(session->device);
    printf("Computed on %s (%s)\n", info->name, info->driver);
    for (size_t i = 0; i < json_array_size(t->topics); i++) {
      const json_t *topic = json_array_get(t->topics, i);
      if (!is_chosen(t->args, tour_text(topic, "name", ""))) continue;
      if (run_topic(t, topic) != TOOL_OK) t->n_checks++;
    }
  }
  vkf_device_close(&t->ref);
  return tool_session_close_device(session, exit_code);
}

static int run_tour(const tool_args *args) {
  tour t = {.args = args, .page = args->html ? json_array() : NULL};
  json_t *file = load(args);
  if (!file) return TOOL_FAILED;
  const json_t *topics = json_object_get(file, "topics");
  int exit_code = check_topics(args, topics);
  if (exit_code == TOOL_OK && args->list) {
    for (size_t i = 0; i < json_array_size(topics); i++) {
      const json_t *topic = json_array_get(topics, i);
      printf("%-14s %s\n", tour_text(topic, "name", ""), tour_text(topic, "title", ""));
    }
  } else if (exit_code == TOOL_OK) {
    exit_code = tool_session_open_context(&t.session, args);
    t.topics = topics;
    if (exit_code == TOOL_OK) exit_code = tool_session_each_device(&t.session, args->device, tour_device, &t);
    if (exit_code == TOOL_OK || t.n_checks > 0) printf("\n%zu of %zu reproduced\n", t.n_reproduced, t.n_checks);
    if (t.page) exit_code = tool_both_exit_codes(exit_code, tool_write_page("tools/tour.html", args->html, t.page));
    t.page = NULL;
    if (t.n_reproduced != t.n_checks || (exit_code == TOOL_OK && t.n_checks == 0)) exit_code = TOOL_WRONG;
    exit_code = tool_session_close(&t.session, exit_code);
  }
  json_decref(t.page);
  json_decref(file);
  return exit_code;
}

static const tool_option options[] = {
    {"brief", 'b', TOOL_FLAG, offsetof(tool_args, brief), NULL,
     "do not print checks that pass; they are still made and counted"},
    {"list", 'l', TOOL_FLAG, offsetof(tool_args, list), NULL, "list the topics"},
    {"model", 'm', TOOL_NAME, offsetof(tool_args, model), "DIR",
     "use this model instead of the one that comes with vkformer"},
    {"file", 0, TOOL_INPUT, offsetof(tool_args, file), "FILE",
     "use these cases instead of those that come with vkformer"},
    {"html", 0, TOOL_OUTPUT, offsetof(tool_args, html), "FILE", "write a page with every step and its numbers"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_tour = {
    .name = "tour",
    .summary = "Walk through the Transformer: every worked example, computed and compared",
    .usage = "[TOPIC]... [OPTION]...",
    .text =
        "Weights are [out, in], as PyTorch's linear layers have them and as `vkformer op` takes them.\n"
        "Each step prints its equation, the device's result, the scalar path's, the exact one and err/bound.\n"
        "The last line is `N of N reproduced`; the exit code is 1 if the two numbers differ.",
    .examples =
        "  vkformer tour softmax scores --device lavapipe\n"
        "  vkformer tour --device all\n"
        "  vkformer tour --html tour.html\n",
    .groups = {&group, TOOL_DEVICE_GROUPS},
    .max_operands = 64,
    .operand = "64 topics",
    .run = run_tour,
};
