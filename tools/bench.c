/* bench: verifies and then times kernels and whole models. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const struct kind {
  const char *name;
  int (*run)(bench *b);
  bool has_kernels; /* among which --variant, --filter, --tile and --shader choose */
} kinds[] = {
#define X(name, has_kernels) {#name, bench_##name, has_kernels},
    BENCH_KINDS(X)
#undef X
};

static const struct kind *find_kind(const char *operand) {
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strcmp(kinds[i].name, operand) == 0) return &kinds[i];
  return NULL;
}

/* Checks a problem before any work is done. */
static int check_operand(const char *operand) {
  if (strchr(operand, ':') || find_kind(operand)) return TOOL_OK;
  char known[256] = "";
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (i > 0) strcat(known, ", ");
    strcat(known, kinds[i].name);
  }
  return tool_usage_error("bench", "expected one of %s, or a problem such as matmul:128,512,512; found '%s'", known,
                          operand);
}

/* Refuses options that choose among kernels if nothing to time has kernels. */
static int check_choice(const tool_args *args) {
  const char *option = args->variant ? "variant" : args->filter ? "filter" : args->tile ? "tile" : NULL;
  if (!option || args->n_operands == 0) return TOOL_OK;
  for (size_t i = 0; i < args->n_operands; i++) {
    const struct kind *kind = find_kind(args->operands[i]);
    if (!kind || kind->has_kernels) return TOOL_OK;
  }
  return tool_usage_error("bench", "--%s: expected an op or a problem such as matmul:128,512,512, found '%s'", option,
                          args->operands[0]);
}

static int check_args(const tool_args *args) {
  int exit_code = TOOL_OK;
  if (args->n_operands == 0 && !(args->html && args->merges.n > 0))
    return tool_usage_error("bench", "expected what to time, found nothing");
  if (args->merges.n > 0 && !args->html)
    return tool_usage_error("bench", "--merge: expected --html FILE as well, the page that its rows are put on");
  if (args->shader && !args->variant)
    return tool_usage_error("bench", "--shader: expected --variant NAME as well, the kernel whose place it takes");
  if (args->norm && strcmp(args->norm, "pre") != 0 && strcmp(args->norm, "post") != 0)
    return tool_usage_error("bench", "--norm: expected post or pre, found '%s'", args->norm);
  for (size_t i = 0; i < args->n_operands && exit_code == TOOL_OK; i++) exit_code = check_operand(args->operands[i]);
  return exit_code == TOOL_OK ? check_choice(args) : exit_code;
}

/* Reads the documents of other runs. */
static int read_merges(bench *b) {
  for (size_t i = 0; i < b->args->merges.n; i++) {
    json_t *one = tool_read_json(b->args->merges.at[i]);
    if (!json_is_array(json_object_get(one, "rows")) && !json_is_array(json_object_get(one, "chips"))) {
      if (one)
        tool_error("%s: expected the output of vkformer bench --json, or of scripts/farm", b->args->merges.at[i]);
      json_decref(one);
      return TOOL_FAILED;
    }
    json_array_append_new(b->merged, one);
  }
  return TOOL_OK;
}

static int run_operand(bench *b, const char *operand) {
  const struct kind *kind = find_kind(operand);
  if (kind && !kind->has_kernels && b->is_check) return TOOL_OK;
  return kind ? kind->run(b) : bench_problem(b, operand);
}

static int run_operands(bench *b, bool is_check) {
  int exit_code = TOOL_OK;
  b->is_check = is_check;
  for (size_t i = 0; i < b->args->n_operands && exit_code == TOOL_OK; i++)
    exit_code = run_operand(b, b->args->operands[i]);
  return exit_code;
}

static int run_kinds(bench *b) {
  int exit_code = b->args->shader ? bench_read_shader(b) : TOOL_OK;
  if (exit_code == TOOL_OK) exit_code = run_operands(b, true);
  return exit_code == TOOL_OK ? run_operands(b, false) : exit_code;
}

/* Writes this run's document and those of other runs to one page. */
static int write_page(const bench *b) {
  json_t *documents = json_copy(b->merged);
  if (json_array_size(b->rows) > 0) json_array_append_new(documents, bench_document(b));
  return tool_write_page("bench/explorer.html", b->args->html, documents);
}

static int run_bench(const tool_args *args) {
  if (check_args(args) != TOOL_OK) return TOOL_USAGE;
  bench b = {.args = args, .rows = json_array(), .refused = json_array(), .merged = json_array()};
  const bool is_page_alone = args->n_operands == 0;
  int exit_code = tool_args_check_files(args);
  if (exit_code == TOOL_OK) exit_code = read_merges(&b);
  if (exit_code == TOOL_OK && !is_page_alone)
    exit_code = tool_session_open(&b.session, args, args->device ? args->device : "", NULL);
  if (exit_code == TOOL_OK && !is_page_alone) exit_code = run_kinds(&b);
  if (exit_code == TOOL_OK && args->json && !is_page_alone) exit_code = tool_print_json(bench_document(&b));
  if (exit_code == TOOL_OK && args->html) exit_code = write_page(&b);
  if (exit_code == TOOL_OK && b.wrong) exit_code = TOOL_WRONG;
  json_decref(b.rows);
  json_decref(b.refused);
  json_decref(b.merged);
  free(b.shader);
  return tool_session_close(&b.session, exit_code);
}

static const tool_option options[] = {
    {"variant", 0, TOOL_TEXT, offsetof(tool_args, variant), "NAME[,NAME]",
     "time only these kernels; default: every kernel that fits"},
    {"filter", 0, TOOL_TEXT, offsetof(tool_args, filter), "TEXT", "time only kernels with TEXT in their names"},
    {"tile", 0, TOOL_TEXT, offsetof(tool_args, tile), "bm=N,tm=N",
     "also time the kernels with this tile, set by specialization\nconstants. If no kernel can have it, it is refused "
     "with the\nreason. Several: 'TILE;TILE'"},
    {"shader", 0, TOOL_INPUT, offsetof(tool_args, shader), "FILE",
     "time your own kernel (.comp or .spv) in the place of --variant\nNAME, and NAME itself (docs/own-kernels.md); "
     ".comp needs\nglslangValidator"},
    {"cold", 0, TOOL_FLAG, offsetof(tool_args, cold), NULL,
     "use copies of the operands in turn, 256 MiB in all, so that\nno cache holds them"},
    {"sweep", 0, TOOL_FLAG, offsetof(tool_args, sweep), NULL, "also time many tiles of matmul, and 1 to 128 rows"},
    {"seconds", 0, TOOL_SECONDS, offsetof(tool_args, seconds), "X",
     "time each row for X seconds; default 0.5 for kernels, 2 for\nmodels"},
    {"no-roofs", 0, TOOL_FLAG, offsetof(tool_args, no_roofs), NULL,
     "do not measure the roofs: saves a second, but shows no shares"},
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL, "print JSON"},
    {"html", 0, TOOL_OUTPUT, offsetof(tool_args, html), "FILE", "write a page to explore the rows"},
    {"merge", 0, TOOL_INPUTS, offsetof(tool_args, merges), "FILE",
     "also put the rows of this JSON file on the page, or what\nscripts/farm --json wrote; repeatable"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

static const tool_option sizes[] = {
    {"m", 0, TOOL_SIZES, offsetof(tool_args, m), "N[,N]",
     "rows of matmul, norm, softmax, top_k and ffn, queries of\nattention; default 128 (norm 1024, top_k 1)"},
    {"n", 0, TOOL_SIZES, offsetof(tool_args, n), "N[,N]",
     "columns or width, keys of attention; default 512 (softmax and\ntop_k 4096, attention 128)"},
    {"k", 0, TOOL_SIZES, offsetof(tool_args, k), "N[,N]",
     "depth of matmul, k of top_k, width of an attention head;\ndefault 512 (top_k 8, attention 64)"},
    {"model", 0, TOOL_NAME, offsetof(tool_args, model), "DIR", "a model folder, instead of the sizes below"},
    {"layers", 0, TOOL_SIZE, offsetof(tool_args, layers), "N", "layers; default 6 for an encoder, 8 for a decoder"},
    {"d-model", 0, TOOL_SIZE, offsetof(tool_args, d_model), "N", "width; default 512"},
    {"heads", 0, TOOL_SIZE, offsetof(tool_args, heads), "N", "attention heads; default 8"},
    {"d-ff", 0, TOOL_SIZE, offsetof(tool_args, d_ff), "N",
     "width of the feed-forward network; default 2048 for an encoder,\n1408 for a decoder"},
    {"vocab", 0, TOOL_SIZE, offsetof(tool_args, vocab), "N", "size of the vocabulary; default 4096"},
    {"norm", 0, TOOL_TEXT, offsetof(tool_args, norm), "WHERE", "norms of the encoder's layers: post (default) or pre"},
    {"activation", 0, TOOL_TEXT, offsetof(tool_args, activation), "NAME",
     "activation of the encoder's layers, as in config.json; default\ngelu"},
    {"batch", 0, TOOL_SIZES, offsetof(tool_args, batches), "N[,N]", "sequences; default 1"},
    {"length", 0, TOOL_SIZES, offsetof(tool_args, lengths), "N[,N]", "tokens of a sequence or prompt; default 128"},
    {"stdin", 0, TOOL_FLAG, offsetof(tool_args, stdin_), NULL, "translate: take the sentences from standard input"},
    {"tokens", 0, TOOL_SIZE, offsetof(tool_args, top), "N", "decoder: generate N tokens; default 32"},
};
static const tool_option_group size_group = TOOL_GROUP("Sizes", sizes);

const tool_command tool_bench = {
    .name = "bench",
    .summary = "Time kernels and models, each verified first",
    .usage = "KIND|PROBLEM... [OPTION]...",
    .text =
        "KIND is matmul, softmax, attention, norm, top_k or ffn: every kernel that fits, for all given sizes;\n"
        "encoder or decoder: a model with random weights and the sizes below; translate: the sentences of\n"
        "golden.jsonl; peak or overhead: what the device can do, and what its steps cost. `vkformer kernels --help`\n"
        "says how to write a PROBLEM.\n"
        "\n"
        "Kernels take turns run by run, so a change of the machine's speed affects all of them alike; quote\n"
        "medians. Kernels over their error bound are reported and not timed. For encoder and decoder, the first\n"
        "layer and all nodes outside the layers are verified, with at most 128 tokens. The rows of decoder are the\n"
        "prompt (until the first token) and a step.\n"
        "\n"
        "`clock` says how a row was timed: by the device's time stamps, from submit to fence, or as a call of the\n"
        "library. `roof` is the share of what the device was measured to allow: multiply-adds (m), those of matrix\n"
        "cores (x), caches (c) if operands are under 32 MiB and not --cold, else memory (M).",
    .examples =
        "  vkformer bench matmul --m 1,128,1024 --n 2048 --k 512 --device lavapipe\n"
        "  vkformer bench attention:128,128,8,64 norm:1024,512 --json\n"
        "  vkformer bench matmul --variant matmul-shared-64x64x16-m4n4 --tile bm=32,bn=64\n"
        "  vkformer bench matmul --sweep --html tiles.html --merge gpu.json\n"
        "  vkformer bench encoder --layers 6 --d-model 512 --d-ff 2048 --batch 1,8 --length 128\n",
    .groups = {&group, &size_group, &tool_model_options, TOOL_DEVICE_GROUPS},
    .min_operands = 0,
    .max_operands = 64,
    .operand = "what to time",
    .run = run_bench,
};
