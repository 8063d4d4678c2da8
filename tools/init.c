/* init: makes a model folder with random weights. */
#include <string.h>
#include <vkformer/lab.h>

#include "program.h"

/* Accepts the names of --weights and those of transformers. */
static int find_dtype(const char *name, vkf_dtype *out) {
  static const struct {
    const char *name, *other;
    vkf_dtype dtype;
  } rows[] = {{"f32", "float32", VKF_F32}, {"f16", "float16", VKF_F16}, {"bf16", "bfloat16", VKF_BF16}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(name, rows[i].name) != 0 && strcmp(name, rows[i].other) != 0) continue;
    *out = rows[i].dtype;
    return TOOL_OK;
  }
  return tool_usage_error("init", "--dtype: expected f32, f16, bf16, float32, float16 or bfloat16, found '%s'", name);
}

static int run_init(const tool_args *args) {
  tool_session session = {0};
  vkf_make_params params = {VKF_MAKE_PARAMS_INIT, .on_progress = tool_progress_bytes, .user = &session};
  if (!args->output) return tool_usage_error("init", "expected --output DIR, found nothing");
  if (find_dtype(args->dtype ? args->dtype : "f32", &params.dtype) != TOOL_OK) return TOOL_USAGE;
  params.seed = (uint64_t)json_integer_value(json_object_get(args->config, "seed"));
  int exit_code = tool_session_open_context(&session, args);
  if (exit_code == TOOL_OK) {
    vkf_status status = vkf_model_make_folder(session.context, args->operands[0], args->output, &params);
    if (status != VKF_OK) exit_code = tool_session_fail(&session, status, NULL);
  }
  return tool_session_close(&session, exit_code);
}

static const tool_option options[] = {
    {"output", 'o', TOOL_NAME, offsetof(tool_args, output), "DIR", "the folder to make: new, or empty"},
    {"seed", 0, TOOL_KEY_SEED, 0, "N", "seed of the random numbers; default 0. The same seed gives the\nsame bytes"},
    {"dtype", 0, TOOL_TEXT, offsetof(tool_args, dtype), "T",
     "f32 (default), f16 or bf16; also float32, float16 or bfloat16"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_init = {
    .name = "init",
    .summary = "Make a model folder with random weights",
    .usage = "CONFIG.json --output DIR [OPTION]...",
    .text =
        "Makes a model of any supported family and size, for benchmarks, bug reports and studies. The folder has the\n"
        "tensors that the family reads. Scales of norms are 1 and biases 0; other weights are random, with the\n"
        "standard deviation that the configuration gives as initializer_range or init_std.",
    .examples = "  vkformer init models/en-es/config.json -o /tmp/random --seed 7\n  vkformer info /tmp/random\n",
    .groups = {&group, &tool_common_options},
    .min_operands = 1,
    .max_operands = 1,
    .operand = "CONFIG.json, the configuration of the new model",
    .takes_model = true,
    .run = run_init,
};
