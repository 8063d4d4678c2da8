/* layers: shows what each layer would predict next if it were the last one (nostalgebraist 2020, "interpreting GPT: the
 * logit lens"), and the norms of the states.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "heatmap.h"

enum { MARGIN = 12, HEADING = 34, LEFT = 76, CELL_WIDTH = 84, CELL_HEIGHT = 24, LABEL = 22, MAX_TOP = 100 };

/* A number, or guesses, for each layer and position; layer 0 is the embeddings. */
typedef struct table {
  const char *kind; /* "encoder", "decoder", or "self" of a model with one stack */
  const tool_tokens *columns;
  size_t n_rows, top; /* top: guesses of a cell; 0: it has a norm */
  double *numbers;    /* [n_rows][n_columns][top], or without [top]: probabilities, or norms */
  int32_t *ids;       /* [n_rows][n_columns][top] */
  tool_tokens words;  /* of the ids */
} table;

static void table_finish(table *t) {
  free(t->numbers);
  free(t->ids);
  tool_tokens_finish(&t->words);
}

/* ---- what is in the cells ---------------------------------------------------------------------------------------- */

/* Returns the states or logits of layer i; NULL: there are no more layers. */
static const vkf_array *find_row(const vkf_result *pass, const char *name, size_t i, const char *last) {
  char numbered[64];
  snprintf(numbered, sizeof numbered, "%s.%zu", name, i);
  const vkf_array *array = vkf_result_find(pass, numbered), *before = NULL;
  if (array || !last || i == 0) return array;
  snprintf(numbered, sizeof numbered, "%s.%zu", name, i - 1);
  before = vkf_result_find(pass, numbered);
  return before ? vkf_result_find(pass, last) : NULL;
}

static bool table_init(table *t, const vkf_result *pass, const char *name, const char *last) {
  const size_t each = t->top ? t->top : 1;
  while (find_row(pass, name, t->n_rows, last)) t->n_rows++;
  t->numbers = calloc(t->n_rows * t->columns->n * each + 1, sizeof *t->numbers);
  t->ids = calloc(t->n_rows * t->columns->n * each + 1, sizeof *t->ids);
  return t->numbers && t->ids;
}

/* Finds the `top` largest of logits [n] and their probabilities; the lower id wins a tie. */
static void best_of(const float *logits, size_t n, size_t top, int32_t *ids, double *probabilities) {
  double sum = 0;
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    size_t to = found < top ? found : top;
    while (to > 0 && logits[i] > logits[ids[to - 1]]) to--;
    if (to >= top) continue;
    memmove(ids + to + 1, ids + to, ((found < top ? found : top - 1) - to) * sizeof *ids);
    ids[to] = (int32_t)i;
    found += found < top;
  }
  for (size_t i = 0; i < n; i++) sum += exp((double)logits[i] - logits[ids[0]]);
  for (size_t i = 0; i < top; i++) probabilities[i] = exp((double)logits[ids[i]] - logits[ids[0]]) / sum;
}

static int make_lens(tool_session *session, const tool_attended *a, size_t top, table *t) {
  const vkf_array *logits = vkf_result_find(a->pass, "logits"); /* none of a head for answers */
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  const vkf_status status = vkf_model_get_info(session->model, &info);
  if (status != VKF_OK) return tool_session_fail(session, status, NULL);
  const size_t n = logits ? logits->shape[2] : 0;
  if (!a->target.n && n != info.vocab)
    return tool_error(
        "--logit-lens: expected a model whose head predicts tokens, found one with a head for labels or answers");
  t->columns = a->target.n ? &a->target : &a->source;
  t->top = top < n ? top : n;
  if (!table_init(t, a->pass, "layer_logits", "logits")) return tool_error("out of memory");
  for (size_t i = 0; i < t->n_rows * t->columns->n; i++) {
    const float *row = find_row(a->pass, "layer_logits", i / t->columns->n, "logits")->data;
    best_of(row + i % t->columns->n * n, n, t->top, t->ids + i * t->top, t->numbers + i * t->top);
  }
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): report() frees the table, which the analyzer does not follow */
  return tool_tokens_of_ids(session, t->ids, t->n_rows * t->columns->n * t->top, &t->words);
}

static int make_norms(const tool_attended *a, const char *name, table *t) {
  if (!table_init(t, a->pass, name, NULL)) return tool_error("out of memory");
  for (size_t i = 0; i < t->n_rows * t->columns->n; i++) {
    const vkf_array *states = find_row(a->pass, name, i / t->columns->n, NULL);
    const float *x = (const float *)states->data + i % t->columns->n * states->shape[2];
    double sum = 0;
    for (size_t k = 0; k < states->shape[2]; k++) sum += (double)x[k] * x[k];
    t->numbers[i] = sqrt(sum);
  }
  return TOOL_OK;
}

/* ---- as text and as JSON ----------------------------------------------------------------------------------------- */

/* Prints control characters as \xNN. */
static void print_token(const char *token) {
  putchar('"');
  for (; *token; token++)
    printf((unsigned char)*token < ' ' || *token == 127 ? "\\x%02x" : "%c", (unsigned char)*token);
  putchar('"');
}

static void print_table(const table *t) {
  const size_t n = t->columns->n;
  printf("%s, %zu positions\n", t->kind, n);
  for (size_t c = 0; c < n; c++) {
    printf("%zu ", c);
    print_token(t->columns->at[c]);
    putchar('\n');
    for (size_t r = 0; r < t->n_rows; r++) {
      printf("  layer %-3zu", r);
      if (!t->top) printf(" %.6g", t->numbers[r * n + c]);
      for (size_t k = (r * n + c) * t->top; k < (r * n + c + 1) * t->top; k++) {
        printf("  %.4f ", t->numbers[k]);
        print_token(t->words.at[k]);
      }
      putchar('\n');
    }
  }
}

static json_t *guesses_json(const table *t, size_t cell) {
  json_t *list = json_array();
  for (size_t k = cell * t->top; k < (cell + 1) * t->top; k++)
    json_array_append_new(list, json_pack("{s:i, s:s, s:o}", "id", (int)t->ids[k], "token", t->words.at[k],
                                          "probability", tool_json_real(t->numbers[k])));
  return list;
}

static json_t *table_json(const table *t) {
  const size_t n = t->columns->n;
  json_t *tokens = json_array(), *layers = json_array();
  for (size_t c = 0; c < n; c++) json_array_append_new(tokens, json_string(t->columns->at[c]));
  for (size_t r = 0; r < t->n_rows; r++) {
    json_t *row = json_array();
    for (size_t c = 0; c < n; c++)
      json_array_append_new(row, t->top ? guesses_json(t, r * n + c) : tool_json_real(t->numbers[r * n + c]));
    json_array_append_new(layers, row);
  }
  return json_pack("{s:s, s:o, s:o}", "stack", t->kind, "tokens", tokens, t->top ? "guesses" : "norms", layers);
}

/* ---- as a picture ------------------------------------------------------------------------------------------------ */

/* Writes the text that is shown when the pointer is on a cell. */
static void put_title(const table *t, size_t r, size_t c, FILE *file) {
  const size_t i = r * t->columns->n + c;
  fprintf(file, "layer %zu, position %zu \"", r, c);
  tool_svg_text(t->columns->at[c], file);
  fputs("\": ", file);
  if (!t->top) fprintf(file, "norm %.6g", t->numbers[i]);
  for (size_t k = i * t->top; k < (i + 1) * t->top; k++) {
    fputs(k > i * t->top ? ", \"" : "\"", file);
    tool_svg_text(t->words.at[k], file);
    fprintf(file, "\" %.1f %%", 100 * t->numbers[k]);
  }
}

static void put_cell(const table *t, size_t r, size_t c, double most, double top, FILE *file) {
  const size_t i = r * t->columns->n + c;
  char number[32];
  snprintf(number, sizeof number, "%.3g", t->numbers[i]);
  const tool_svg_cell cell = {.x = LEFT + (double)c * CELL_WIDTH,
                              .y = top + (double)r * CELL_HEIGHT,
                              .w = CELL_WIDTH - 2,
                              .h = CELL_HEIGHT - 2,
                              .strength = t->numbers[t->top ? i * t->top : i] / most,
                              .text = t->top ? t->words.at[i * t->top] : number,
                              .row = r,
                              .column = c};
  tool_svg_begin_cell(&cell, file);
  put_title(t, r, c, file);
  tool_svg_end_cell(&cell, file);
}

/* Draws a table below *top, and moves *top to where the next one may begin. */
static void put_table(const table *t, double *top, FILE *file) {
  const size_t n = t->columns->n;
  double most = t->top ? 1 : 1e-30;
  for (size_t i = 0; !t->top && i < t->n_rows * n; i++) most = fmax(most, t->numbers[i]);
  fprintf(file, "<text class=\"title\" x=\"%d\" y=\"%.5g\">%s: %s</text>\n", MARGIN, *top + 22, t->kind,
          t->top ? "what each layer would say" : "length of the states");
  for (size_t c = 0; c < n; c++) {
    fprintf(file, "<text class=\"word\" x=\"%.6g\" y=\"%.5g\">", LEFT + ((double)c + 0.5) * CELL_WIDTH,
            *top + HEADING + 14);
    tool_svg_short(t->columns->at[c], CELL_WIDTH / 7, file);
    fputs("</text>\n", file);
  }
  *top += HEADING + LABEL;
  for (size_t r = 0; r < t->n_rows; r++) {
    fprintf(file, "<text class=\"soft\" x=\"%d\" y=\"%.5g\">layer %zu</text>\n", MARGIN,
            *top + ((double)r + 0.65) * CELL_HEIGHT, r);
    for (size_t c = 0; c < n; c++) put_cell(t, r, c, most, *top, file);
  }
  *top += (double)t->n_rows * CELL_HEIGHT + MARGIN;
}

static int write_picture(const table *tables, size_t n, const char *path) {
  size_t columns = 0;
  double top = 0;
  tool_svg svg = {0};
  const int exit_code = tool_svg_begin(&svg);
  for (size_t i = 0; i < n && exit_code == TOOL_OK; i++) {
    put_table(&tables[i], &top, svg.file);
    columns = tables[i].columns->n > columns ? tables[i].columns->n : columns;
  }
  return tool_svg_end(&svg, exit_code, path, fmax(LEFT + (double)columns * CELL_WIDTH + MARGIN, 360), top);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int make_tables(tool_session *session, const tool_args *args, const tool_attended *a, table *tables, size_t *n) {
  static const struct {
    const char *kind, *name;
  } stacks[] = {{"encoder", "encoder_hidden_states"}, {"decoder", "decoder_hidden_states"}, {"self", "hidden_states"}};
  int exit_code = TOOL_OK;
  if (args->logit_lens) {
    tables[0].kind = a->target.n ? "decoder" : "self";
    *n = 1;
    return make_lens(session, a, args->top ? args->top : 3, &tables[0]);
  }
  for (size_t i = 0; i < 3 && exit_code == TOOL_OK; i++) {
    if (!find_row(a->pass, stacks[i].name, 0, NULL)) continue;
    tables[*n].kind = stacks[i].kind;
    tables[*n].columns = i == 1 ? &a->target : &a->source;
    exit_code = make_norms(a, stacks[i].name, &tables[(*n)++]);
  }
  return exit_code;
}

static int report(tool_session *session, const tool_args *args, const tool_attended *a) {
  table tables[2] = {0};
  size_t n = 0;
  int exit_code = make_tables(session, args, a, tables, &n);
  if (exit_code == TOOL_OK && args->output) exit_code = write_picture(tables, n, args->output);
  if (exit_code == TOOL_OK && args->json) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, table_json(&tables[i]));
    exit_code = tool_print_json(json_pack("{s:s, s:o}", "format", "vkformer-layers/1", "stacks", list));
  } else if (exit_code == TOOL_OK && !args->output) {
    for (size_t i = 0; i < n; i++) print_table(&tables[i]);
  }
  for (size_t i = 0; i < 2; i++) table_finish(&tables[i]);
  return exit_code;
}

static int run_layers(const tool_args *args) {
  const vkf_run_params how = {VKF_RUN_PARAMS_INIT, .hidden_states = !args->logit_lens,
                              .layer_logits = args->logit_lens};
  if (!args->logit_lens == !args->growth)
    return tool_usage_error("layers", "expected --logit-lens or --growth, found %s", args->growth ? "both" : "neither");
  if (args->top && args->growth) return tool_usage_error("layers", "--top: expected --logit-lens, found --growth");
  if (args->top > MAX_TOP)
    return tool_usage_error("layers", "--top: expected at most %d, found %zu", MAX_TOP, args->top);
  if (args->output && tool_svg_check("layers", "output", args->output) != TOOL_OK) return TOOL_USAGE;
  return tool_attend(args, how, report);
}

static const tool_option options[] = {
    {"logit-lens", 0, TOOL_FLAG, offsetof(tool_args, logit_lens), NULL,
     "show what the model would say next if each layer were its last:\nits final norm and head on the states after "
     "that layer"},
    {"growth", 0, TOOL_FLAG, offsetof(tool_args, growth), NULL,
     "show the length (Euclidean norm) of the states after each layer"},
    {"top", 0, TOOL_SIZE, offsetof(tool_args, top), "N", "with --logit-lens: tokens to show for each layer; default 3"},
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL, "print JSON"},
    {"output", 'o', TOOL_OUTPUT, offsetof(tool_args, output), "FILE",
     "draw a picture (.svg), or the same on a page (.html)"},
    TOOL_SOURCE_LANG,
    TOOL_TARGET_LANG,
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_layers = {
    .name = "layers",
    .summary = "Show what each layer would say, or how its states grow",
    .usage = "MODEL TEXT --logit-lens|--growth [-o FILE.html|FILE.svg] [OPTION]...",
    .text =
        "Layer 0 is the embeddings. With --logit-lens the last layer is what the model itself says; with --growth it\n"
        "is measured after the final norm, if the model has one. An encoder-decoder translates the text first; its\n"
        "decoder is shown, and with --growth also its encoder.",
    .examples =
        "  vkformer layers models/en-es \"The cat sat on the mat.\" --logit-lens\n"
        "  vkformer layers models/en-es \"The cat sat on the mat.\" --growth -o growth.html\n",
    .groups = {&group, &tool_generation_options, &tool_model_options, TOOL_DEVICE_GROUPS},
    .min_operands = 2,
    .max_operands = 2,
    .operand = "MODEL and TEXT",
    .takes_model = true,
    .run = run_layers,
};
