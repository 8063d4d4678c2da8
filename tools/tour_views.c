/* tour_views: moves numbers to other places, or reduces each row to one number; treats their errors alike.
 *
 * transpose; rows ("by": which); columns ("by": the first, and how many); reshape ("by": the shape); join ("of": a
 * list, side by side); row_sums, row_norms. A view with "expect" is printed, under its "equation".
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tour.h"

int tour_make(vkf_array *a, vkf_dtype dtype, size_t rank, const size_t *shape) {
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
  if (tour_make(out, a->dtype, 2, (size_t[]){n, width}) != TOOL_OK) return TOOL_FAILED;
  for (size_t r = 0; r < n; r++) {
    if ((number_at(list, r) + 1) * width > tool_array_elements(a)) return tool_error("rows: there is no such row");
    memcpy((float *)out->data + r * width, (const float *)a->data + number_at(list, r) * width, width * 4);
  }
  return TOOL_OK;
}

static int view_columns(const vkf_array *a, const json_t *range, vkf_array *out) {
  size_t width = last(a), rows = tool_array_elements(a) / width, from = number_at(range, 0), n = number_at(range, 1);
  if (from + n > width) return tool_error("columns: there are no such columns");
  if (tour_make(out, a->dtype, 2, (size_t[]){rows, n}) != TOOL_OK) return TOOL_FAILED;
  for (size_t r = 0; r < rows; r++)
    memcpy((float *)out->data + r * n, (const float *)a->data + r * width + from, n * 4);
  return TOOL_OK;
}

static int view_transpose(const vkf_array *a, vkf_array *out) {
  size_t n = last(a), m = tool_array_elements(a) / n;
  if (tour_make(out, a->dtype, 2, (size_t[]){n, m}) != TOOL_OK) return TOOL_FAILED;
  for (size_t i = 0; i < m * n; i++) memcpy((float *)out->data + i % n * m + i / n, (const float *)a->data + i, 4);
  return TOOL_OK;
}

static int view_reshape(const vkf_array *a, const json_t *list, vkf_array *out) {
  size_t shape[VKF_MAX_RANK] = {1}, n = 1, rank = json_array_size(list);
  if (rank < 1 || rank > VKF_MAX_RANK) return tool_error("reshape: expected 1 to %d extents", VKF_MAX_RANK);
  for (size_t i = 0; i < rank; i++) n *= shape[i] = number_at(list, i);
  if (n != tool_array_elements(a)) return tool_error("reshape: expected %zu elements", tool_array_elements(a));
  if (tour_make(out, a->dtype, rank, shape) != TOOL_OK) return TOOL_FAILED;
  memcpy(out->data, a->data, n * 4);
  return TOOL_OK;
}

/* Joins arrays side by side. */
static int view_join(tour *t, const json_t *names, bool errors, vkf_array *out) {
  size_t rows = 0, width = 0, at = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < json_array_size(names); i++) {
      const tour_value *v = tour_find(t, json_string_value(json_array_get(names, i)));
      if (!v) return TOOL_FAILED;
      const float *data = errors ? v->errors : v->array.data;
      size_t w = last(&v->array);
      rows = tool_array_elements(&v->array) / w;
      for (size_t r = 0; pass && r < rows; r++) memcpy((float *)out->data + r * width + at, data + r * w, w * 4);
      pass ? (at += w) : (width += w);
    }
    if (!pass && tour_make(out, VKF_F32, 2, (size_t[]){rows, width}) != TOOL_OK) return TOOL_FAILED;
  }
  return TOOL_OK;
}

/* Computes the sum or the length of each row, in double. The sum of the errors bounds the error of the sum and, by the
 * triangle inequality, their length bounds the error of the length. */
static int view_fold(const vkf_array *a, bool norms, vkf_array *out) {
  size_t width = last(a), rows = tool_array_elements(a) / width;
  if (tour_make(out, VKF_F32, 1, &rows) != TOOL_OK) return TOOL_FAILED;
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

/* Makes the view of the values, or of their errors. */
static int view(tour *t, const json_t *step, bool errors, vkf_array *out) {
  const char *kind = tour_text(step, "view", "");
  const json_t *of = json_object_get(step, "of"), *by = json_object_get(step, "by");
  const tour_value *v = json_is_string(of) ? tour_find(t, json_string_value(of)) : NULL;
  if (strcmp(kind, "join") == 0) return view_join(t, of, errors, out);
  if (!v) return TOOL_FAILED;
  vkf_array a = v->array;
  if (errors) a.data = v->errors;
  if (errors) a.dtype = VKF_F32;
  if (strcmp(kind, "rows") == 0) return view_rows(&a, by, out);
  if (strcmp(kind, "columns") == 0) return view_columns(&a, by, out);
  if (strcmp(kind, "transpose") == 0) return view_transpose(&a, out);
  if (strcmp(kind, "reshape") == 0) return view_reshape(&a, by, out);
  if (strcmp(kind, "row_sums") == 0) return view_fold(&a, false, out);
  if (strcmp(kind, "row_norms") == 0) return view_fold(&a, true, out);
  return tool_error("there is no view called %s", kind);
}

int tour_view(tour *t, const json_t *step) {
  const char *kind = tour_text(step, "view", ""), *name = tour_text(step, "as", kind);
  vkf_array out = {0}, errors = {0};
  int exit_code = view(t, step, false, &out);
  if (exit_code == TOOL_OK) exit_code = view(t, step, true, &errors);
  for (size_t i = 0; exit_code == TOOL_OK && strncmp(kind, "row_", 4) == 0 && i < tool_array_elements(&out); i++) {
    float *e = (float *)errors.data + i; /* the result is rounded once, and so are its errors */
    *e = (float)((double)*e + fabs(tool_array_value(&out, i)) * 0x1p-24) * (1 + 0x1p-20f);
  }
  if (exit_code == TOOL_OK && json_object_get(step, "expect")) {
    printf("  %s = %s\n", name, tour_text(step, "equation", kind));
    tool_array_print(&out);
    tour_show(t, name, tour_text(step, "equation", kind), NULL, &out, NULL);
    exit_code = tour_expect(t, step, name, &out, errors.data);
  }
  if (exit_code == TOOL_OK) return tour_set(t, name, &out, errors.data);
  free(out.data);
  free(errors.data);
  return exit_code;
}
