/* beam_tree: see beam_tree.h. */
#include "beam_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "heatmap.h"
#include "lines.h"

enum { MARGIN = 12, HEADING = 74, STEP = 164, WIDTH = 124, ROW = 32, HEIGHT = 24, MOST_DROPPED = 16 };

struct tool_beam_node {
  vkf_beam_candidate c;
  size_t search, step, row; /* row: in the picture */
  const tool_beam_node *parent;
  bool is_best; /* of the translation */
};

/* ---- gathering --------------------------------------------------------------------------------------------------- */

int tool_beam_tree_check(const tool_args *args) {
  if (args->n_operands != 1)
    return tool_usage_error("translate", "--beam-tree: expected one text, found %zu", args->n_operands);
  if (tool_long_is(args, "split"))
    return tool_usage_error("translate", "--beam-tree: expected no --long split with it, found both");
  return tool_svg_check("translate", "beam-tree", args->beam_tree);
}

/* Makes room for n more nodes, and for this search. */
static bool make_room(tool_beam_tree *t, size_t search, size_t n) {
  if (search >= t->n_searches) {
    size_t *steps = realloc(t->steps, (search + 1) * sizeof *steps);
    if (!steps) return false;
    memset(steps + t->n_searches, 0, (search + 1 - t->n_searches) * sizeof *steps);
    t->steps = steps;
    t->n_searches = search + 1;
  }
  if (t->n + n > t->capacity) {
    tool_beam_node *nodes = realloc(t->nodes, (2 * t->capacity + n) * sizeof *nodes);
    if (!nodes) return false;
    t->nodes = nodes;
    t->capacity = 2 * t->capacity + n;
  }
  return true;
}

/* Places from top to bottom: candidates that continue, those that end, and at most MOST_DROPPED that were dropped. */
int tool_beam_tree_add(void *user, size_t row, size_t search, const vkf_beam_candidate *candidates, size_t n) {
  tool_beam_tree *t = user;
  size_t at = 0, n_dropped = 0;
  (void)row;
  if (!make_room(t, search, n)) return 1;
  for (int kind = 0; kind < 3; kind++)
    for (size_t i = 0; i < n; i++) {
      const vkf_beam_candidate *c = &candidates[i];
      if (kind != (c->becomes >= 0 ? 0 : c->finishes ? 1 : 2) || (kind == 2 && n_dropped++ >= MOST_DROPPED)) continue;
      t->nodes[t->n++] = (tool_beam_node){.c = *c, .search = search, .step = t->steps[search], .row = at++};
    }
  t->steps[search]++;
  return 0;
}

int tool_beam_tree_end(tool_beam_tree *t, const vkf_result *result) {
  const vkf_array *sequences = vkf_result_find(result, "sequences");
  if (!sequences || sequences->shape[0] == 0) return TOOL_OK;
  t->ids = malloc(sequences->shape[1] * sizeof *t->ids);
  if (!t->ids) return tool_error("out of memory");
  t->n_ids = sequences->shape[1];
  memcpy(t->ids, sequences->data, t->n_ids * sizeof *t->ids);
  return TOOL_OK;
}

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

/* Returns the node of the previous step that became this beam. */
static const tool_beam_node *find_parent(const tool_beam_tree *t, const tool_beam_node *of) {
  for (const tool_beam_node *p = t->nodes; p < of; p++)
    if (p->search == of->search && p->step + 1 == of->step && p->c.becomes == (int32_t)of->c.row) return p;
  return NULL;
}

/* Whether the path to this node is in the translation, from its id `first` on. */
static bool has_path(const tool_beam_tree *t, const tool_beam_node *node, size_t first) {
  for (; node; node = node->parent)
    if (first + node->step >= t->n_ids || node->c.id != t->ids[first + node->step]) return false;
  return true;
}

/* Marks the path of the translation: the longest one that is in it, after the start token and the given prefix. */
static void find_best(tool_beam_tree *t) {
  const tool_beam_node *last = NULL;
  for (size_t i = 0; i < t->n; i++) t->nodes[i].parent = find_parent(t, &t->nodes[i]);
  for (size_t first = 1; first < t->n_ids; first++)
    for (size_t i = 0; i < t->n; i++)
      if ((!last || t->nodes[i].step > last->step) && has_path(t, &t->nodes[i], first)) last = &t->nodes[i];
  for (; last; last = last->parent) t->nodes[last - t->nodes].is_best = true;
}

/* ---- the picture ------------------------------------------------------------------------------------------------- */

static double x_of(const tool_beam_node *node) {
  return MARGIN + (double)node->step * STEP;
}

/* tops: the y at which each search begins. */
static double y_of(const tool_beam_node *node, const double *tops) {
  return tops[node->search] + (double)node->row * ROW;
}

static void put_edge(const tool_beam_node *node, const double *tops, FILE *file) {
  const double x = x_of(node), y = y_of(node, tops) + HEIGHT / 2.0;
  if (!node->parent) return;
  const double from = x_of(node->parent) + WIDTH, at = y_of(node->parent, tops) + HEIGHT / 2.0;
  fprintf(file, "<path class=\"edge%s\" d=\"M%.6g %.6g C %.6g %.6g %.6g %.6g %.6g %.6g\"/>\n",
          node->is_best ? " best" : "", from, at, from + 20, at, x - 20, y, x, y);
}

/* Writes the words up to the node, and what became of it. */
static void put_title(const tool_beam_node *node, tool_session *session, int32_t *ids, FILE *file) {
  vkf_result *decoded = NULL;
  for (const tool_beam_node *p = node; p; p = p->parent) ids[p->step] = p->c.id;
  const vkf_decode_params params = {VKF_DECODE_PARAMS_INIT, .keep_special_tokens = true};
  if (vkf_tokenizer_decode(vkf_session_tokenizer(session->run), ids, node->step + 1, &params, &decoded) == VKF_OK) {
    fputc('"', file);
    tool_svg_text(vkf_result_text(decoded, 0) + strspn(vkf_result_text(decoded, 0), " "), file);
    fputs("\", ", file);
  }
  vkf_result_destroy(&decoded);
  fprintf(file, "step %zu: log-probability %.4f, in all %.4f: ", node->step + 1, node->c.logprob, node->c.score);
  if (node->c.becomes >= 0)
    fprintf(file, "goes on as beam %d", (int)node->c.becomes + 1);
  else
    fputs(node->c.finishes ? "finished" : "dropped", file);
  if (node->is_best) fputs("; in the translation", file);
}

static void put_node(const tool_beam_node *node, const double *tops, const char *word, tool_session *session,
                     int32_t *ids, FILE *file) {
  char label[300];
  const bool dropped = node->c.becomes < 0 && !node->c.finishes;
  snprintf(label, sizeof label, "%.2f %s", node->c.logprob, word);
  const tool_svg_cell cell = {.x = x_of(node),
                              .y = y_of(node, tops),
                              .w = WIDTH,
                              .h = HEIGHT,
                              .strength = dropped ? 0 : exp(node->c.logprob),
                              .kind = node->is_best      ? "best"
                                      : dropped          ? "dropped"
                                      : node->c.finishes ? "finished"
                                                         : NULL,
                              .text = label,
                              .row = node->search * 1000 + node->row,
                              .column = node->step};
  tool_svg_begin_cell(&cell, file);
  put_title(node, session, ids, file);
  tool_svg_end_cell(&cell, file);
}

static int put_tree(tool_beam_tree *t, tool_session *session, const double *tops, FILE *file) {
  tool_tokens words = {0};
  int32_t *ids = calloc(t->n + 1, sizeof *ids);
  int exit_code = ids ? TOOL_OK : tool_error("out of memory");
  for (size_t i = 0; ids && i < t->n; i++) ids[i] = t->nodes[i].c.id;
  if (ids) exit_code = tool_tokens_of_ids(session, ids, t->n, &words);
  fprintf(file,
          "<text class=\"title\" x=\"%d\" y=\"22\">beam search</text>\n"
          "<text class=\"soft\" x=\"%d\" y=\"42\">the number: log-probability; green: the translation;</text>\n"
          "<text class=\"soft\" x=\"%d\" y=\"58\">thick: finished; dashed: dropped</text>\n",
          MARGIN, MARGIN, MARGIN);
  for (size_t i = 0; i < t->n; i++) put_edge(&t->nodes[i], tops, file);
  for (size_t i = 0; i < t->n && exit_code == TOOL_OK; i++)
    put_node(&t->nodes[i], tops, words.at[i], session, ids, file);
  tool_tokens_finish(&words);
  free(ids);
  return exit_code;
}

static int write_tree(tool_beam_tree *t, tool_session *session, const char *path) {
  tool_svg svg = {0};
  size_t most = 0;
  if (!t->n)
    return tool_error("--beam-tree: expected a search with at least 2 beams, found %s",
                      t->n_ids ? "one without beams" : "none");
  double *tops = calloc(t->n_searches + 1, sizeof *tops), bottom = HEADING;
  int exit_code = tops ? tool_svg_begin(&svg) : tool_error("out of memory");
  for (size_t s = 0; exit_code == TOOL_OK && s < t->n_searches; s++) {
    tops[s] = bottom;
    for (size_t i = 0; i < t->n; i++)
      if (t->nodes[i].search == s) bottom = fmax(bottom, tops[s] + (double)(t->nodes[i].row + 1) * ROW);
    most = t->steps[s] > most ? t->steps[s] : most;
    bottom += MARGIN;
  }
  find_best(t);
  if (exit_code == TOOL_OK) exit_code = put_tree(t, session, tops, svg.file);
  exit_code = tool_svg_end(&svg, exit_code, path, fmax((double)most * STEP + MARGIN, 340), bottom);
  free(tops);
  return exit_code;
}

int tool_beam_tree_write(tool_beam_tree *t, tool_session *session, const char *path) {
  const int exit_code = path ? write_tree(t, session, path) : TOOL_OK;
  free(t->nodes);
  free(t->steps);
  free(t->ids);
  *t = (tool_beam_tree){0};
  return exit_code;
}
