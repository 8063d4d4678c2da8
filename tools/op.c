/* op: runs one op, or one block, on the user's arrays. */
#include <math.h>
#include <stdlib.h>
#include <vkformer/lab.h>

#include "program.h"

static const vkf_array *find_part(const vkf_result *result, const vkf_array *of, const char *part) {
  char name[256];
  snprintf(name, sizeof name, "%s.%s", of->name, part);
  return vkf_result_find(result, name);
}

static bool is_part(const char *name) {
  return tool_ends_with(name, ".exact") || tool_ends_with(name, ".bound") || tool_ends_with(name, ".ratio") ||
         tool_ends_with(name, ".error");
}

/* Prints the arrays in the order in which they were computed, each with its err/bound instead of exact values and
 * bounds. TOOL_WRONG if one is over its bound. */
static int print_trace(const vkf_result *result) {
  int exit_code = TOOL_OK;
  for (size_t i = 0; i < vkf_result_count(result); i++) {
    const vkf_array *a = vkf_result_at(result, i);
    if (is_part(a->name)) continue;
    const vkf_array *ratio = find_part(result, a, "ratio"), *error = find_part(result, a, "error");
    printf("%s [", a->name);
    for (size_t d = 0; d < a->rank; d++) printf("%s%zu", d ? "," : "", a->shape[d]);
    printf("]");
    if (ratio) printf("  err/bound %.3g", tool_array_largest(ratio));
    if (error) printf(", the whole chain within %.2g", tool_array_largest(error));
    putchar('\n');
    tool_array_print(a);
    if (ratio && !(tool_array_largest(ratio) <= 1)) {
      fprintf(stderr, "vkformer: %s is over its bound: err/bound %.3g, expected at most 1\n", a->name,
              tool_array_largest(ratio));
      exit_code = TOOL_WRONG;
    }
  }
  return exit_code;
}

/* TOOL_WRONG if a result has a NaN or an infinity. */
static int check_finite(const vkf_result *result) {
  for (size_t i = 0; i < vkf_result_count(result); i++) {
    const vkf_array *a = vkf_result_at(result, i);
    const size_t n = is_part(a->name) ? 0 : tool_array_elements(a);
    for (size_t k = 0; k < n; k++) {
      if (isfinite(tool_array_value(a, k))) continue;
      fprintf(stderr,
              "vkformer: %s: expected finite numbers, found %g as element %zu of %zu; --allow-not-finite allows it\n",
              a->name, tool_array_value(a, k), k, n);
      return TOOL_WRONG;
    }
  }
  return TOOL_OK;
}

static int run_op(const tool_args *args) {
  tool_session session = {0};
  tool_inputs in = {0};
  vkf_result *result = NULL;
  json_t *params = NULL;
  char *text = NULL;
  json_error_t error = {0};
  if (!args->inputs || (!args->outputs && !args->trace))
    return tool_usage_error("op", "expected --inputs FILE, and --outputs FILE or --trace");
  params = json_loads(args->params ? args->params : "{}", JSON_REJECT_DUPLICATES, &error);
  if (!json_is_object(params)) {
    json_decref(params);
    return tool_usage_error("op", "--params: expected a JSON object, found '%s'", args->params);
  }
  if (args->trace) json_object_set_new(params, "trace", json_true());
  text = json_dumps(params, JSON_COMPACT);
  json_decref(params);
  int exit_code = tool_session_open(&session, args, args->device, NULL);
  if (exit_code == TOOL_OK) exit_code = tool_inputs_read(&session, args->inputs, &in);
  if (exit_code == TOOL_OK) {
    vkf_status status =
        vkf_device_run_op(session.device, args->operands[0], text, in.arrays, in.n, args->variant, &result);
    if (status != VKF_OK) exit_code = tool_session_fail(&session, status, args->operands[0]);
  }
  const int finite = exit_code == TOOL_OK && args->allow_not_finite <= 0 ? check_finite(result) : TOOL_OK;
  if (exit_code == TOOL_OK && finite == TOOL_OK && args->outputs)
    exit_code = tool_write_arrays(&session, args->outputs, result);
  if (exit_code == TOOL_OK && args->trace) exit_code = print_trace(result);
  exit_code = tool_both_exit_codes(exit_code, finite);
  free(text);
  vkf_result_destroy(&result);
  tool_inputs_finish(&in);
  return tool_session_close(&session, exit_code);
}

static const tool_option options[] = {
    {"inputs", 'i', TOOL_INPUT, offsetof(tool_args, inputs), "FILE",
     "safetensors, or JSON if the name ends in .json:\n{\"x\": [[1, 2], [3, 4]], ...}"},
    {"outputs", 'o', TOOL_OUTPUT, offsetof(tool_args, outputs), "FILE",
     "safetensors, or JSON if the name ends in .json"},
    {"params", 'p', TOOL_TEXT, offsetof(tool_args, params), "JSON",
     "the op's parameters, such as '{\"heads\": 8, \"causal\": true}'"},
    {"trace", 0, TOOL_FLAG, offsetof(tool_args, trace), NULL,
     "print every intermediate result and its err/bound, and write\nthem, too, with their exact values and bounds"},
    {"allow-not-finite", 0, TOOL_FLAG, offsetof(tool_args, allow_not_finite), NULL,
     "write results even if they have NaN or infinities, which is\notherwise an error"},
    {"variant", 0, TOOL_TEXT, offsetof(tool_args, variant), "NAME", "run this kernel of `vkformer kernels`"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_op = {
    .name = "op",
    .summary = "Run one op or one block on given arrays, step by step",
    .usage = "NAME --inputs FILE --outputs FILE [--trace] | NAME --inputs FILE --trace [OPTION]...",
    .text =
        "NAME: matmul (x, w [out,in], bias, residual), norm, layer_norm (x, weight, bias), softmax (x, mask),\n"
        "log_softmax (x), top_k (x), gate (x), embed (ids, table, positions, position_table),\n"
        "positional_encoding, rope (positions, cos, sin), patches (x),\n"
        "attention, attention_weights (q, k, v, mask, bias),\n"
        "multi_head_attention (x, memory, mask, wq, wk, wv, wo, bq, bk, bv, bo), ffn (x, w1, b1, w2, b2, wg, bg),\n"
        "encoder_block (these and norm1_weight, norm1_bias, ...), decoder_block (self_wq, cross_wq, ...).\n"
        "Weights are [out, in], as PyTorch's linear layers have them: y = x w^T.\n"
        "The header vkformer/lab.h says their shapes and parameters.",
    .examples = "  vkformer op multi_head_attention --inputs in.json --params '{\"heads\": 2}' --trace\n",
    .groups = {&group, TOOL_DEVICE_GROUPS},
    .min_operands = 1,
    .max_operands = 1,
    .operand = "NAME, an op",
    .run = run_op,
};
