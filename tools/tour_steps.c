/* tour_steps: the steps of a topic that need no model.
 *
 *   {"let": NAME, "text": ..., "value": [[...]]}   an input, and what it is
 *   {"op": OP, "in": {INPUT: NAME}, "as": NAME}    an op on the device; "params", "result" (default "out"), "equation";
 *                                                  "refused": a piece of the message with which it must be refused
 *   {"view": KIND, "of": NAME, "as": NAME}         the same numbers placed otherwise (tour_views.c)
 *   {"same": [NAME, NAME]}                         two values agree as far as their errors let them; "bits": true: to
 * the bit; "differ": TEXT: they do not, and the largest difference is this
 *   {"shape": NAME, "is": [...]}                   a value has this shape
 *   {"fill": NAME, "text": ..., "shape": [...], "value": X}   an array of one number
 *   {"count": [[WHAT, FACTOR, ...], ...]}          sum of products
 *
 * Ops and views may have "expect". A text in it is a number as it was printed, "0.244728", off by at most half a unit
 * of its last digit; a number is exact. No step names a tolerance: every value carries the bound of its error.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <vkformer/lab.h>

#include "tour.h"

enum { MAX_INPUTS = 32 };

static void print_shape(const vkf_array *a) {
  putchar('[');
  for (size_t i = 0; i < a->rank; i++) printf("%s%zu", i ? "," : "", a->shape[i]);
  putchar(']');
}

static bool small(const vkf_array *a) {
  return tool_array_elements(a) <= 144;
}

/* A comparison of one value with what it should be. */
typedef struct comparison {
  const vkf_array *got;
  const float *errors;
  size_t n;
  bool passed;
  double worst, allowed; /* the largest of each */
} comparison;

/* Returns a number as it was printed, and half a unit of its last digit. */
static double printed_number(const char *text, double *half) {
  const char *point = strchr(text, '.'), *exponent = strpbrk(text, "eE"),
             *end = exponent ? exponent : text + strlen(text);
  *half = 0.5 * pow(10, (exponent ? atoi(exponent + 1) : 0) - (point ? (double)(end - point - 1) : 0));
  return strtod(text, NULL);
}

static void compare_leaves(const json_t *expect, comparison *c) {
  double half = 0, want = 0;
  if (json_is_array(expect)) {
    for (size_t i = 0; i < json_array_size(expect); i++) compare_leaves(json_array_get(expect, i), c);
    return;
  }
  want = json_is_string(expect) ? printed_number(json_string_value(expect), &half) : json_number_value(expect);
  if (c->n < tool_array_elements(c->got)) {
    double allowed = half + (c->errors ? (double)c->errors[c->n] : 0);
    double error = fabs(tool_array_value(c->got, c->n) - want);
    if (!(error <= allowed)) c->passed = false;
    if (!(error <= c->worst)) c->worst = error;
    c->allowed = fmax(c->allowed, allowed);
  }
  c->n++;
}

/* "expect" may have only the first elements of a longer result. */
int tour_expect(tour *t, const json_t *step, const char *name, const vkf_array *got, const float *errors) {
  const json_t *expect = json_object_get(step, "expect");
  comparison c = {.got = got, .errors = errors, .passed = true};
  if (!expect) return TOOL_OK;
  compare_leaves(expect, &c);
  if (c.n > tool_array_elements(got) || c.n == 0)
    tour_check(t, false, "%s: %zu numbers expected, %zu found", name, c.n, tool_array_elements(got));
  else
    tour_check(t, c.passed, "%s is what was worked out by hand (%zu numbers, off by at most %.2g, allowed %.2g)", name,
               c.n, c.worst, c.allowed);
  return TOOL_OK;
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

typedef struct op_inputs {
  vkf_array arrays[2 * MAX_INPUTS];
  char error_names[MAX_INPUTS][64];
  size_t n;
} op_inputs;

static int gather_inputs(tour *t, const json_t *step, op_inputs *in) {
  const char *key;
  json_t *value;
  size_t n_errors = 0;
  in->n = 0;
  json_object_foreach(json_object_get(step, "in"), key, value) {
    const tour_value *v = json_is_string(value) ? tour_find(t, json_string_value(value)) : NULL;
    if (!v || n_errors == MAX_INPUTS) return TOOL_FAILED;
    vkf_array *a = &in->arrays[in->n++];
    *a = v->array;
    a->name = key;
    if (a->dtype != VKF_F32) continue;
    snprintf(in->error_names[n_errors], sizeof in->error_names[0], "%s.error", key);
    in->arrays[in->n] = *a;
    in->arrays[in->n].name = in->error_names[n_errors++];
    in->arrays[in->n++].data = v->errors;
  }
  return TOOL_OK;
}

static int run_on(tour *t, vkf_device *device, const json_t *step, vkf_result **result, vkf_status *status) {
  op_inputs in;
  *status = VKF_OK;
  if (gather_inputs(t, step, &in) != TOOL_OK) return TOOL_FAILED;
  json_t *given = json_object_get(step, "params"), *params = given ? json_copy(given) : json_object();
  json_object_set_new(params, "trace", json_true());
  char *text = json_dumps(params, JSON_COMPACT);
  json_decref(params);
  *status = vkf_device_run_op(device, tour_text(step, "op", ""), text, in.arrays, in.n, NULL, result);
  free(text);
  return TOOL_OK;
}

/* Shows the element at which the device is farthest from exact, with all that is known about it. */
static void compare(tour *t, const char *name, const vkf_array *got, const vkf_array *ref, const vkf_result *result,
                    const char *output) {
  char key[128];
  snprintf(key, sizeof key, "%s.exact", output);
  const vkf_array *exact = vkf_result_find(result, key);
  snprintf(key, sizeof key, "%s.ratio", output);
  const vkf_array *ratios = vkf_result_find(result, key);
  if (!exact || !ratios || !ref) return;
  size_t worst = 0;
  double largest = -1;
  for (size_t i = 0; i < tool_array_elements(got); i++) {
    double error = fabs(tool_array_value(got, i) - tool_array_value(exact, i));
    if (error > largest || isnan(error)) largest = error, worst = i;
  }
  double ratio = tool_array_largest(ratios);
  tour_put(t,
           json_pack("{s:{s:I, s:o, s:o, s:o, s:o}}", "element", "index", (json_int_t)worst, "device",
                     tool_json_real(tool_array_value(got, worst)), "ref", tool_json_real(tool_array_value(ref, worst)),
                     "exact", tool_json_real(tool_array_value(exact, worst)), "ratio", tool_json_real(ratio)));
  tour_check(t, ratio <= 1, "%s, element %zu: device %.9g, scalar path %.9g, exact %.12g; err/bound %.2g", name, worst,
             tool_array_value(got, worst), tool_array_value(ref, worst), tool_array_value(exact, worst), ratio);
}

static void *copy_of(const void *from, size_t n) {
  void *copy = malloc(n * 4 + 4);
  if (copy) memcpy(copy, from, n * 4);
  return copy;
}

/* errors: NULL for integers. */
static int keep_result(tour *t, const char *name, const vkf_array *got, const vkf_array *errors) {
  vkf_array a = *got;
  float *copy = errors ? copy_of(errors->data, tool_array_elements(got)) : NULL;
  a.data = copy_of(got->data, tool_array_elements(got));
  if (a.data && (copy || !errors)) return tour_set(t, name, &a, copy);
  free(a.data);
  free(copy);
  return tool_error("out of memory");
}

static int check_result(tour *t, const json_t *step, const vkf_result *result, const vkf_result *ref) {
  const char *output = tour_text(step, "result", "out"), *name = tour_text(step, "as", output);
  const vkf_array *got = vkf_result_find(result, output);
  char key[128];
  snprintf(key, sizeof key, "%s.error", output);
  const vkf_array *errors = vkf_result_find(result, key);
  if (!got) return tool_error("op %s has no result called %s", tour_text(step, "op", ""), output);
  printf("  %s = %s  ", name, tour_text(step, "equation", tour_text(step, "op", "")));
  print_shape(got);
  putchar('\n');
  tour_show(t, name, tour_text(step, "equation", tour_text(step, "op", "")), NULL, got, NULL);
  if (small(got)) tool_array_print(got);
  if (got->dtype == VKF_F32) compare(t, name, got, vkf_result_find(ref, output), result, output);
  int exit_code = tour_expect(t, step, name, got, errors ? errors->data : NULL);
  return exit_code == TOOL_OK ? keep_result(t, name, got, errors) : exit_code;
}

static int step_op(tour *t, const json_t *step) {
  vkf_result *result = NULL, *ref = NULL;
  vkf_status status;
  const char *refused = tour_text(step, "refused", NULL);
  int exit_code = run_on(t, t->session.device, step, &result, &status);
  if (exit_code != TOOL_OK) return exit_code;
  if (refused) {
    const char *message = vkf_context_message(t->session.context);
    tour_check(t, status != VKF_OK && strstr(message, refused), "refused: %s", status ? message : "it was not");
  } else if (status != VKF_OK) {
    exit_code = tool_session_fail(&t->session, status, tour_text(step, "op", ""));
  } else {
    exit_code = run_on(t, t->ref, step, &ref, &status);
    if (status != VKF_OK) exit_code = tool_session_fail(&t->session, status, "ref");
    if (exit_code == TOOL_OK) exit_code = check_result(t, step, result, ref);
  }
  vkf_result_destroy(&ref);
  vkf_result_destroy(&result);
  return exit_code;
}

/* ---- inputs and checks ------------------------------------------------------------------------------------------- */

/* Computes the errors of rounding the file's numbers to float32. */
static void rounding_errors(const json_t *value, const vkf_array *a, float *errors, size_t *at) {
  if (json_is_array(value)) {
    for (size_t i = 0; i < json_array_size(value); i++) rounding_errors(json_array_get(value, i), a, errors, at);
    return;
  }
  errors[*at] = nextafterf((float)fabs(json_number_value(value) - tool_array_value(a, *at)), INFINITY);
  if (json_number_value(value) == tool_array_value(a, *at)) errors[*at] = 0;
  (*at)++;
}

static void print_input(tour *t, const json_t *step, const char *name, const vkf_array *a) {
  tour_show(t, name, NULL, tour_text(step, "text", NULL), a, NULL);
  printf("  %s  ", name);
  print_shape(a);
  printf("  %s\n", tour_text(step, "text", ""));
}

static int step_let(tour *t, const json_t *step) {
  const char *name = tour_text(step, "let", "");
  vkf_array a;
  size_t at = 0;
  bool integers = json_is_true(json_object_get(step, "integers"));
  int exit_code = tool_array_from_json(json_object_get(step, "value"), name, integers, &a);
  if (exit_code != TOOL_OK) return exit_code;
  print_input(t, step, name, &a);
  if (small(&a)) tool_array_print(&a);
  float *errors = calloc(tool_array_elements(&a) + 1, sizeof *errors);
  if (errors && !integers) rounding_errors(json_object_get(step, "value"), &a, errors, &at);
  if (errors) return tour_set(t, name, &a, errors);
  free(a.data);
  return tool_error("out of memory");
}

/* Makes an array of one number. */
static int step_fill(tour *t, const json_t *step) {
  const json_t *list = json_object_get(step, "shape"), *value = json_object_get(step, "value");
  size_t shape[VKF_MAX_RANK] = {1}, rank = json_array_size(list), n = 1;
  vkf_array a;
  if (rank < 1 || rank > VKF_MAX_RANK) return tool_error("fill: expected a shape");
  for (size_t i = 0; i < rank; i++) n *= shape[i] = (size_t)json_integer_value(json_array_get(list, i));
  if (tour_make(&a, VKF_F32, rank, shape) != TOOL_OK) return TOOL_FAILED;
  float *errors = calloc(n + 1, sizeof *errors);
  for (size_t i = 0, at = 0; errors && i < n; i++, at = i) {
    ((float *)a.data)[i] = (float)json_number_value(value);
    rounding_errors(value, &a, errors, &at);
  }
  print_input(t, step, tour_text(step, "fill", ""), &a);
  if (errors) return tour_set(t, tour_text(step, "fill", ""), &a, errors);
  free(a.data);
  return tool_error("out of memory");
}

/* Compares two values: they agree if they differ by no more than their errors. "differ": they differ by more. */
static int step_same(tour *t, const json_t *step) {
  const json_t *names = json_object_get(step, "same");
  const tour_value *a = tour_find(t, json_string_value(json_array_get(names, 0)));
  const tour_value *b = tour_find(t, json_string_value(json_array_get(names, 1)));
  const char *text = tour_text(step, "text", "the same"), *differ = tour_text(step, "differ", NULL);
  double worst = 0, allowed = 0, half = 0;
  bool bits = json_is_true(json_object_get(step, "bits"));
  if (!a || !b) return TOOL_FAILED;
  bool same = tool_array_elements(&a->array) == tool_array_elements(&b->array);
  if (!same) return tool_error("same: the values have different sizes");
  for (size_t i = 0; i < tool_array_elements(&a->array); i++) {
    double error = fabs(tool_array_value(&a->array, i) - tool_array_value(&b->array, i));
    double meet = bits ? 0 : (double)a->errors[i] + (double)b->errors[i];
    if (!(error <= meet)) same = false;
    if (!(error <= worst)) worst = error;
    allowed = fmax(allowed, meet);
  }
  if (differ) {
    double by = printed_number(differ, &half);
    tour_check(t, !same && fabs(worst - by) <= half + allowed, "%s (off by up to %.6g, expected %s)", text, worst,
               differ);
  } else {
    tour_check(t, same, "%s (off by %.2g, allowed %.2g)", text, worst, allowed);
  }
  return TOOL_OK;
}

static int step_shape(tour *t, const json_t *step) {
  const tour_value *v = tour_find(t, tour_text(step, "shape", ""));
  const json_t *is = json_object_get(step, "is");
  if (!v) return TOOL_FAILED;
  bool same = v->array.rank == json_array_size(is);
  for (size_t i = 0; same && i < v->array.rank; i++)
    same = v->array.shape[i] == (size_t)json_integer_value(json_array_get(is, i));
  tour_check(t, same, "%s has the shape that was expected", tour_text(step, "shape", ""));
  return TOOL_OK;
}

static int step_count(tour *t, const json_t *step) {
  const json_t *list = json_object_get(step, "count");
  json_int_t total = 0, want = json_integer_value(json_object_get(step, "expect"));
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *row = json_array_get(list, i);
    json_int_t product = 1;
    char line[256];
    int n = snprintf(line, sizeof line, "    %-44s", json_string_value(json_array_get(row, 0)));
    for (size_t k = 1; k < json_array_size(row); k++) {
      json_int_t factor = json_integer_value(json_array_get(row, k));
      n += snprintf(line + n, sizeof line - (size_t)n, "%s%" JSON_INTEGER_FORMAT, k > 1 ? " x " : "", factor);
      product *= factor;
    }
    tour_say(t, "%s = %" JSON_INTEGER_FORMAT, line, product);
    total += product;
  }
  tour_check(t, total == want, "%s: %" JSON_INTEGER_FORMAT, tour_text(step, "text", "together"), total);
  return TOOL_OK;
}

int tour_step(tour *t, const json_t *step) {
  static const struct {
    const char *key;
    int (*run)(tour *, const json_t *);
  } kinds[] = {{"let", step_let},   {"op", step_op},       {"view", tour_view},   {"same", step_same},
               {"fill", step_fill}, {"count", step_count}, {"shape", step_shape}, {"model", tour_model_step}};
  const char *say = tour_text(step, "say", NULL);
  if (say) tour_say(t, "  %s", say);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (json_object_get(step, kinds[i].key)) return kinds[i].run(t, step);
  return say ? TOOL_OK : tool_error("topic %s: a step without a kind", t->topic);
}
