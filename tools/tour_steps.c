/* tour_steps: the steps of a topic that need no model.
 *
 *   {"let": NAME, "value": [[...]]}                an input
 *   {"op": OP, "in": {INPUT: NAME}, "as": NAME}    an op on the device; "params", "result" (default "out"), "equation";
 *                                                  "refused": a piece of the message with which it must be refused
 *   {"view": KIND, "of": NAME, "as": NAME}         the same numbers placed otherwise: transpose, rows, columns,
 * reshape, join (of: a list, side by side); or row_sums, row_norms
 *   {"same": [NAME, NAME], "within": X}            two values agree
 *   {"shape": NAME, "is": [...]}                   a value has this shape
 *   {"fill": NAME, "shape": [...], "value": X}     an array of one number
 *   {"count": [[WHAT, FACTOR, ...], ...]}          sum of products
 * Each but `same`, `shape` and `let` takes "expect" and "within"; exact zeros are expected as such with "zeros": true.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

int tour_expect(tour *t, const json_t *step, const char *name, const vkf_array *got) {
  const json_t *expect = json_object_get(step, "expect");
  double within = json_number_value(json_object_get(step, "within")), worst = 0;
  bool zeros = json_is_true(json_object_get(step, "zeros")), passed = true;
  vkf_array want;
  if (!expect) return TOOL_OK;
  if (tool_array_from_json(expect, name, got->dtype == VKF_I32, &want) != TOOL_OK) return TOOL_FAILED;
  size_t n = tool_array_elements(&want); /* the first elements of a longer result may be expected alone */
  if (n > tool_array_elements(got)) {
    tour_check(t, false, "%s: %zu numbers expected, %zu found", name, n, tool_array_elements(got));
    free(want.data);
    return TOOL_OK;
  }
  for (size_t i = 0; i < n; i++) {
    double value = tool_array_value(got, i), error = fabs(value - tool_array_value(&want, i));
    if (!(error <= within) || (zeros && tool_array_value(&want, i) == 0 && value != 0)) passed = false;
    if (!(error <= worst)) worst = error;
  }
  free(want.data);
  tour_check(t, passed, "%s is what was worked out by hand (%zu numbers, off by at most %.2g, allowed %.2g)", name, n,
             worst, within);
  return TOOL_OK;
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

static int gather_inputs(tour *t, const json_t *step, vkf_array *inputs, size_t *n) {
  const char *key;
  json_t *value;
  *n = 0;
  json_object_foreach(json_object_get(step, "in"), key, value) {
    const vkf_array *a = json_is_string(value) ? tour_find(t, json_string_value(value)) : NULL;
    if (!a || *n == MAX_INPUTS) return TOOL_FAILED;
    inputs[*n] = *a;
    inputs[(*n)++].name = key;
  }
  return TOOL_OK;
}

static int run_on(tour *t, vkf_device *device, const json_t *step, bool trace, vkf_result **result,
                  vkf_status *status) {
  vkf_array inputs[MAX_INPUTS];
  size_t n;
  *status = VKF_OK;
  if (gather_inputs(t, step, inputs, &n) != TOOL_OK) return TOOL_FAILED;
  json_t *given = json_object_get(step, "params"), *params = given ? json_copy(given) : json_object();
  if (trace) json_object_set_new(params, "trace", json_true());
  char *text = json_dumps(params, JSON_COMPACT);
  json_decref(params);
  *status = vkf_device_run_op(device, tour_text(step, "op", ""), text, inputs, n, NULL, result);
  free(text);
  return TOOL_OK;
}

/* The element where the device is farthest from exact, with all that is known about it. */
static void compare(tour *t, const char *name, const vkf_array *got, const vkf_array *ref, const vkf_result *result,
                    const char *output) {
  char key[128];
  snprintf(key, sizeof key, "%s.exact", output);
  const vkf_array *exact = vkf_result_find(result, key);
  snprintf(key, sizeof key, "%s.bound", output);
  const vkf_array *bound = vkf_result_find(result, key);
  if (!exact || !bound || !ref) return;
  size_t worst = 0;
  double largest = -1;
  for (size_t i = 0; i < tool_array_elements(got); i++) {
    double error = fabs(tool_array_value(got, i) - tool_array_value(exact, i));
    if (error > largest || isnan(error)) largest = error, worst = i;
  }
  double ratio = tool_worst_ratio(got, exact, bound);
  tour_check(t, ratio <= 1, "%s, element %zu: device %.9g, scalar path %.9g, exact %.12g; err/bound %.2g", name, worst,
             tool_array_value(got, worst), tool_array_value(ref, worst), tool_array_value(exact, worst), ratio);
}

static int copy_value(tour *t, const char *name, const vkf_array *from) {
  vkf_array a = *from;
  size_t bytes = tool_array_elements(from) * 4;
  a.data = malloc(bytes);
  if (!a.data) return tool_error("out of memory");
  memcpy(a.data, from->data, bytes);
  return tour_set(t, name, &a);
}

static int check_result(tour *t, const json_t *step, const vkf_result *result, const vkf_result *ref) {
  const char *output = tour_text(step, "result", "out"), *name = tour_text(step, "as", output);
  const vkf_array *got = vkf_result_find(result, output);
  if (!got) return tool_error("op %s has no result called %s", tour_text(step, "op", ""), output);
  printf("  %s = %s  ", name, tour_text(step, "equation", tour_text(step, "op", "")));
  print_shape(got);
  putchar('\n');
  if (small(got)) tool_array_print(got);
  if (got->dtype == VKF_F32) compare(t, name, got, ref ? vkf_result_find(ref, output) : NULL, result, output);
  int exit_code = tour_expect(t, step, name, got);
  return exit_code == TOOL_OK ? copy_value(t, name, got) : exit_code;
}

static int step_op(tour *t, const json_t *step) {
  vkf_result *result = NULL, *ref = NULL;
  vkf_status status;
  const char *refused = tour_text(step, "refused", NULL);
  bool judged = !json_is_false(json_object_get(step, "judged"));
  int exit_code = run_on(t, t->session.device, step, judged, &result, &status);
  if (exit_code != TOOL_OK) return exit_code;
  if (refused) {
    const char *message = vkf_context_message(t->session.context);
    tour_check(t, status != VKF_OK && strstr(message, refused), "refused: %s", status ? message : "it was not");
  } else if (status != VKF_OK) {
    exit_code = tool_session_fail(&t->session, status, tour_text(step, "op", ""));
  } else {
    if (judged) exit_code = run_on(t, t->ref, step, true, &ref, &status);
    if (status != VKF_OK) exit_code = tool_session_fail(&t->session, status, "ref");
    if (exit_code == TOOL_OK) exit_code = check_result(t, step, result, ref);
  }
  vkf_result_destroy(&ref);
  vkf_result_destroy(&result);
  return exit_code;
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* A new array of float32 or int32; its elements are 4 bytes. */
static int make(vkf_array *a, vkf_dtype dtype, size_t rank, const size_t *shape) {
  *a = (vkf_array){.dtype = dtype, .rank = rank};
  memcpy(a->shape, shape, rank * sizeof *shape);
  a->data = calloc(tool_array_elements(a) + 1, 4);
  return a->data ? TOOL_OK : tool_error("out of memory");
}

static size_t last(const vkf_array *a) {
  return a->shape[a->rank - 1];
}

static size_t number_at(const json_t *list, size_t i) {
  return (size_t)json_integer_value(json_array_get(list, i));
}

static int view_rows(const vkf_array *a, const json_t *list, vkf_array *out) {
  size_t width = last(a), n = json_array_size(list);
  if (make(out, a->dtype, 2, (size_t[]){n, width}) != TOOL_OK) return TOOL_FAILED;
  for (size_t r = 0; r < n; r++) {
    if ((number_at(list, r) + 1) * width > tool_array_elements(a)) return tool_error("rows: there is no such row");
    memcpy((float *)out->data + r * width, (const float *)a->data + number_at(list, r) * width, width * 4);
  }
  return TOOL_OK;
}

static int view_columns(const vkf_array *a, const json_t *range, vkf_array *out) {
  size_t width = last(a), rows = tool_array_elements(a) / width, from = number_at(range, 0), n = number_at(range, 1);
  if (from + n > width) return tool_error("columns: there are no such columns");
  if (make(out, a->dtype, 2, (size_t[]){rows, n}) != TOOL_OK) return TOOL_FAILED;
  for (size_t r = 0; r < rows; r++)
    memcpy((float *)out->data + r * n, (const float *)a->data + r * width + from, n * 4);
  return TOOL_OK;
}

static int view_transpose(const vkf_array *a, vkf_array *out) {
  size_t n = last(a), m = tool_array_elements(a) / n;
  if (make(out, a->dtype, 2, (size_t[]){n, m}) != TOOL_OK) return TOOL_FAILED;
  for (size_t i = 0; i < m * n; i++) memcpy((float *)out->data + i % n * m + i / n, (const float *)a->data + i, 4);
  return TOOL_OK;
}

static int view_reshape(const vkf_array *a, const json_t *list, vkf_array *out) {
  size_t shape[VKF_MAX_RANK] = {1}, n = 1, rank = json_array_size(list);
  if (rank < 1 || rank > VKF_MAX_RANK) return tool_error("reshape: expected 1 to %d extents", VKF_MAX_RANK);
  for (size_t i = 0; i < rank; i++) n *= shape[i] = number_at(list, i);
  if (n != tool_array_elements(a)) return tool_error("reshape: expected %zu elements", tool_array_elements(a));
  if (make(out, a->dtype, rank, shape) != TOOL_OK) return TOOL_FAILED;
  memcpy(out->data, a->data, n * 4);
  return TOOL_OK;
}

/* Side by side. */
static int view_join(tour *t, const json_t *names, vkf_array *out) {
  size_t rows = 0, width = 0, at = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < json_array_size(names); i++) {
      const vkf_array *a = tour_find(t, json_string_value(json_array_get(names, i)));
      if (!a) return TOOL_FAILED;
      size_t w = last(a);
      rows = tool_array_elements(a) / w;
      for (size_t r = 0; pass && r < rows; r++)
        memcpy((float *)out->data + r * width + at, (const float *)a->data + r * w, w * 4);
      pass ? (at += w) : (width += w);
    }
    if (!pass && make(out, VKF_F32, 2, (size_t[]){rows, width}) != TOOL_OK) return TOOL_FAILED;
  }
  return TOOL_OK;
}

/* Row by row, in double: the sum or the length of a row. */
static int view_fold(const vkf_array *a, bool norms, vkf_array *out) {
  size_t width = last(a), rows = tool_array_elements(a) / width;
  if (make(out, VKF_F32, 1, &rows) != TOOL_OK) return TOOL_FAILED;
  for (size_t r = 0; r < rows; r++) {
    double sum = 0;
    for (size_t c = 0; c < width; c++) {
      double x = tool_array_value(a, r * width + c);
      sum += norms ? x * x : x;
    }
    ((float *)out->data)[r] = (float)(norms ? sqrt(sum) : sum);
  }
  return TOOL_OK;
}

static int step_view(tour *t, const json_t *step) {
  const char *kind = tour_text(step, "view", ""), *name = tour_text(step, "as", kind);
  const json_t *of = json_object_get(step, "of"), *by = json_object_get(step, "by");
  const vkf_array *a = json_is_string(of) ? tour_find(t, json_string_value(of)) : NULL;
  vkf_array out = {0};
  int exit_code;
  if (json_is_string(of) && !a) return TOOL_FAILED;
  if (!a)
    exit_code = strcmp(kind, "join") == 0 ? view_join(t, of, &out) : TOOL_FAILED;
  else if (strcmp(kind, "rows") == 0)
    exit_code = view_rows(a, by, &out);
  else if (strcmp(kind, "columns") == 0)
    exit_code = view_columns(a, by, &out);
  else if (strcmp(kind, "transpose") == 0)
    exit_code = view_transpose(a, &out);
  else if (strcmp(kind, "reshape") == 0)
    exit_code = view_reshape(a, by, &out);
  else if (strcmp(kind, "row_sums") == 0 || strcmp(kind, "row_norms") == 0)
    exit_code = view_fold(a, strcmp(kind, "row_norms") == 0, &out);
  else
    exit_code = tool_error("there is no view called %s", kind);
  if (exit_code == TOOL_OK && json_object_get(step, "expect")) {
    printf("  %s = %s of %s\n", name, kind, tour_text(step, "of", "several"));
    tool_array_print(&out);
    exit_code = tour_expect(t, step, name, &out);
  }
  if (exit_code == TOOL_OK) return tour_set(t, name, &out);
  free(out.data);
  return exit_code;
}

/* ---- inputs and checks ------------------------------------------------------------------------------------------- */

static int step_let(tour *t, const json_t *step) {
  const char *name = tour_text(step, "let", "");
  vkf_array a;
  bool integers = json_is_true(json_object_get(step, "integers"));
  int exit_code = tool_array_from_json(json_object_get(step, "value"), name, integers, &a);
  if (exit_code != TOOL_OK) return exit_code;
  printf("  %s  ", name);
  print_shape(&a);
  putchar('\n');
  if (small(&a)) tool_array_print(&a);
  return tour_set(t, name, &a);
}

/* An array of the same number everywhere. */
static int step_fill(tour *t, const json_t *step) {
  const json_t *list = json_object_get(step, "shape");
  size_t shape[VKF_MAX_RANK] = {1}, rank = json_array_size(list);
  vkf_array a;
  if (rank < 1 || rank > VKF_MAX_RANK) return tool_error("fill: expected a shape");
  for (size_t i = 0; i < rank; i++) shape[i] = number_at(list, i);
  if (make(&a, VKF_F32, rank, shape) != TOOL_OK) return TOOL_FAILED;
  double value = json_number_value(json_object_get(step, "value"));
  for (size_t i = 0; i < tool_array_elements(&a); i++) ((float *)a.data)[i] = (float)value;
  return tour_set(t, tour_text(step, "fill", ""), &a);
}

static int step_same(tour *t, const json_t *step) {
  const json_t *names = json_object_get(step, "same");
  const vkf_array *a = tour_find(t, json_string_value(json_array_get(names, 0)));
  const vkf_array *b = tour_find(t, json_string_value(json_array_get(names, 1)));
  double within = json_number_value(json_object_get(step, "within")), worst = 0;
  bool differ = json_is_true(json_object_get(step, "differ"));
  if (!a || !b) return TOOL_FAILED;
  bool fits = tool_array_elements(a) == tool_array_elements(b);
  for (size_t i = 0; fits && i < tool_array_elements(a); i++) {
    double error = fabs(tool_array_value(a, i) - tool_array_value(b, i));
    if (!(error <= worst)) worst = error;
  }
  tour_check(t, fits && (worst <= within) != differ, "%s (off by %.2g, %s %.2g)", tour_text(step, "text", "the same"),
             worst, differ ? "more than" : "allowed", within);
  return TOOL_OK;
}

static int step_shape(tour *t, const json_t *step) {
  const vkf_array *a = tour_find(t, tour_text(step, "shape", ""));
  const json_t *is = json_object_get(step, "is");
  if (!a) return TOOL_FAILED;
  bool same = a->rank == json_array_size(is);
  for (size_t i = 0; same && i < a->rank; i++) same = a->shape[i] == number_at(is, i);
  tour_check(t, same, "%s has the shape that was expected", tour_text(step, "shape", ""));
  return TOOL_OK;
}

static int step_count(tour *t, const json_t *step) {
  const json_t *list = json_object_get(step, "count");
  json_int_t total = 0, want = json_integer_value(json_object_get(step, "expect"));
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *row = json_array_get(list, i);
    json_int_t product = 1;
    printf("    %-44s", json_string_value(json_array_get(row, 0)));
    for (size_t k = 1; k < json_array_size(row); k++) {
      json_int_t factor = json_integer_value(json_array_get(row, k));
      printf("%s%" JSON_INTEGER_FORMAT, k > 1 ? " x " : "", factor);
      product *= factor;
    }
    printf(" = %" JSON_INTEGER_FORMAT "\n", product);
    total += product;
  }
  tour_check(t, total == want, "%s: %" JSON_INTEGER_FORMAT, tour_text(step, "text", "together"), total);
  return TOOL_OK;
}

int tour_step(tour *t, const json_t *step) {
  static const struct {
    const char *key;
    int (*run)(tour *, const json_t *);
  } kinds[] = {{"let", step_let},   {"op", step_op},       {"view", step_view},   {"same", step_same},
               {"fill", step_fill}, {"count", step_count}, {"shape", step_shape}, {"model", tour_model_step}};
  const char *say = tour_text(step, "say", NULL);
  if (say) printf("  %s\n", say);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (json_object_get(step, kinds[i].key)) return kinds[i].run(t, step);
  return say ? TOOL_OK : tool_error("topic %s: a step without a kind", t->topic);
}
