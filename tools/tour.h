/* tour: what the files of `vkformer tour` share. The cases are data (tour/tour.json): every step there names its
 * equation, its inputs and the expected result; the code of the steps has no expected numbers.
 */
#ifndef VKFORMER_TOOLS_TOUR_H
#define VKFORMER_TOOLS_TOUR_H

#include "program.h"

/* A named array of the current topic, and how far each number may be from the true one: derived bounds, carried from
 * step to step (docs/numerics.md, chains). */
typedef struct tour_value {
  char *name;
  vkf_array array; /* data of its own; name not set */
  float *errors;   /* as many as array has elements; zeros for integers */
  struct tour_value *next;
} tour_value;

typedef struct tour {
  tool_session session;
  vkf_device *ref;  /* the scalar path, beside the device */
  char model[4096]; /* folder of the shipped model; "" before a step needs it */
  const tool_args *args;
  const json_t *topics;
  tour_value *values;
  const char *topic;
  size_t n_checks, n_reproduced;
  json_t *page, *items; /* of --html: the topics so far, and the items of the current one; NULL: no page */
} tour;

/* Runs one step of a topic. TOOL_FAILED after a message if the step cannot be done (its data are wrong, the device
 * fails); a number that is not reproduced is counted and does not fail the step. */
int tour_step(tour *t, const json_t *step);
/* Runs a step with the key "model". */
int tour_model_step(tour *t, const json_t *step);
/* Prints a line and adds it to the page. */
void tour_say(tour *t, const char *fmt, ...) TOOL_PRINTF(2, 3);
/* Adds an array to the page; equation, text and labels may be NULL. Consumes labels. */
void tour_show(tour *t, const char *name, const char *equation, const char *text, const vkf_array *array,
               json_t *labels);
/* Adds any item to the page. Consumes it. */
void tour_put(tour *t, json_t *item);
/* Counts one check and prints its line. */
void tour_check(tour *t, bool passed, const char *fmt, ...) TOOL_PRINTF(3, 4);
/* Finds a value by name; NULL after a message. */
const tour_value *tour_find(const tour *t, const char *name);
/* Stores a value. Takes array->data and errors (NULL: all zero). */
int tour_set(tour *t, const char *name, const vkf_array *array, float *errors);
/* Runs a step with the key "view". */
int tour_view(tour *t, const json_t *step);
/* Makes a new array of float32 or int32, zeroed. */
int tour_make(vkf_array *a, vkf_dtype dtype, size_t rank, const size_t *shape);
/* Compares with the step's "expect", if it has it. errors: of `got`; NULL: none. */
int tour_expect(tour *t, const json_t *step, const char *name, const vkf_array *got, const float *errors);
const char *tour_text(const json_t *step, const char *key, const char *fallback);

#endif
