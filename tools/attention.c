/* attention: shows which token of a text attends to which, in every layer and head: a page, a picture, or a list. */
#include "attention.h"

#include <stdlib.h>

typedef struct found {
  const tool_attention_map *map;
  size_t head;
  double weight;
  bool is_most; /* no other token gets more */
} found;

static int by_weight(const void *a, const void *b) {
  const double x = ((const found *)a)->weight, y = ((const found *)b)->weight;
  return (x < y) - (x > y);
}

/* Whether no token outside of `to` gets more than `to`. */
static bool gets_most(const tool_attention_map *map, size_t head, tool_span from, tool_span to, double weight) {
  for (size_t s = 0; s < map->columns->n; s++)
    if ((s < to.first || s >= to.first + to.n) && tool_attention_weight(map, head, from, (tool_span){s, 1}) > weight)
      return false;
  return true;
}

/* Prints the attention of --from to --to in every head whose map has both, the strongest first. */
static int print_pair(const tool_args *args, const tool_attention_maps *maps) {
  found *all = calloc(maps->n_heads + 1, sizeof *all);
  size_t n = 0, n_most = 0;
  if (!all) return tool_error("out of memory");
  for (const tool_attention_map *map = maps->at; map < maps->at + maps->n; map++) {
    const tool_span from = tool_find_word(map->rows, args->from), to = tool_find_word(map->columns, args->to);
    for (size_t h = 0; from.n && to.n && h < map->n_heads; h++) {
      if (!tool_attention_has_head(args, h)) continue;
      const double weight = tool_attention_weight(map, h, from, to);
      all[n] = (found){map, h, weight, gets_most(map, h, from, to, weight)};
      n_most += all[n++].is_most;
    }
  }
  qsort(all, n, sizeof *all, by_weight);
  for (size_t i = 0; i < n; i++)
    printf("%-8s layer %-3zu head %-3zu %.4f%s\n", all[i].map->kind, all[i].map->layer, all[i].head, all[i].weight,
           all[i].is_most ? "  no token gets more" : "");
  if (n) printf("\"%s\" looks most at \"%s\" in %zu of %zu heads\n", args->from, args->to, n_most, n);
  free(all);
  return n ? TOOL_OK
           : tool_error("--from, --to: expected two words that are in the same map, found \"%s\" and \"%s\"",
                        args->from, args->to);
}

static int check_args(const tool_args *args) {
  const size_t n_texts = args->n_operands - 1 + args->images.n;
  if (n_texts != 1)
    return tool_usage_error("attention", "expected one text after the model, or one --image, found %zu", n_texts);
  if (args->kind && !tool_attention_is_kind(args->kind))
    return tool_usage_error("attention", "--kind: expected self, encoder, decoder or cross, found '%s'", args->kind);
  if (args->to && !args->from) return tool_usage_error("attention", "--to: expected --from WORD as well");
  if (!args->output && !args->to)
    return tool_usage_error("attention", "expected -o FILE, or --from WORD and --to WORD, found neither");
  if (args->output && !tool_ends_with(args->output, ".html") && !tool_ends_with(args->output, ".svg") &&
      !tool_ends_with(args->output, ".png"))
    return tool_usage_error("attention", "--output: expected a name that ends in .html, .svg or .png, found '%s'",
                            args->output);
  if (args->scores && (!args->output || !tool_ends_with(args->output, ".html")))
    return tool_usage_error("attention", "--scores: expected -o FILE.html as well");
  return TOOL_OK;
}

static int report(tool_session *session, const tool_args *args, const tool_attended *a) {
  tool_attention_maps *maps = malloc(sizeof *maps);
  int exit_code = maps ? tool_attention_choose(a, args, maps) : tool_error("out of memory");
  if (exit_code == TOOL_OK && args->from && !args->to && !tool_find_word(maps->at[0].rows, args->from).n)
    exit_code = tool_error("--from: expected a word of the text, found \"%s\"", args->from);
  if (exit_code == TOOL_OK && args->to) exit_code = print_pair(args, maps);
  free(maps);
  if (exit_code != TOOL_OK || !args->output) return exit_code;
  if (tool_ends_with(args->output, ".svg")) return tool_attention_write_svg(args, a, args->output);
  if (tool_ends_with(args->output, ".png")) return tool_attention_write_png(args, a, args->output);
  json_t *document = tool_attention_document(session, args, a);
  return document ? tool_write_page("tools/attention.html", args->output, json_pack("[o]", document)) : TOOL_FAILED;
}

static int run_attention(const tool_args *args) {
  const vkf_run_params how = {VKF_RUN_PARAMS_INIT, .attentions = true, .projections = args->scores > 0};
  return check_args(args) == TOOL_OK ? tool_attend(args, how, report) : TOOL_USAGE;
}

static const tool_option options[] = {
    {"output", 'o', TOOL_OUTPUT, offsetof(tool_args, output), "FILE",
     "a page to explore (.html), or a picture (.svg: one head with\nits tokens, or several heads as small maps; .png: "
     "only the\ncells)"},
    {"image", 0, TOOL_INPUTS, offsetof(tool_args, images), "FILE", "a PNG or JPEG image instead of the text"},
    {"kind", 0, TOOL_TEXT, offsetof(tool_args, kind), "KIND",
     "show only this kind: encoder, decoder or cross of an\nencoder-decoder; other models have only self"},
    {"layer", 0, TOOL_INDEXES, offsetof(tool_args, layers_at), "L[,L]...", "only these layers, counted from 0"},
    {"head", 0, TOOL_INDEXES, offsetof(tool_args, heads_at), "H[,H]...", "only these heads, counted from 0"},
    {"from", 0, TOOL_TEXT, offsetof(tool_args, from), "WORD",
     "mark the row of this word, or of the token with this number"},
    {"to", 0, TOOL_TEXT, offsetof(tool_args, to), "WORD",
     "print how much the word of --from looks at this word, in every\nhead, the strongest first"},
    {"scores", 0, TOOL_FLAG, offsetof(tool_args, scores), NULL,
     "also put the scores behind the weights on the page: products of\nqueries and keys, before and after scale, bias "
     "and mask; it\nbecomes twice as large"},
    TOOL_SOURCE_LANG,
    TOOL_TARGET_LANG,
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_attention = {
    .name = "attention",
    .summary = "Show which token looks at which, by layer and head",
    .usage = "MODEL TEXT|--image FILE [-o FILE.html|FILE.svg|FILE.png] [OPTION]...",
    .text =
        "An encoder-decoder translates the text first; the page then has the weights within the\n"
        "text, within the translation, and from the translation to the text.",
    .examples =
        "  vkformer attention models/en-es \"The cat sat on the mat because it was tired.\" -o attention.html\n"
        "  vkformer attention models/en-es \"The cat sat on the mat because it was tired.\" --from it --to cat\n",
    .groups = {&group, &tool_generation_options, &tool_model_options, TOOL_DEVICE_GROUPS},
    .min_operands = 1,
    .max_operands = 2,
    .operand = "MODEL, a model folder",
    .takes_model = true,
    .run = run_attention,
};
