/* generate: continues prompts by greedy search, beam search or sampling: texts, or ids in files. */
#include <stdlib.h>

#include "generate.h"
#include "lines.h"

enum { MAX_TOP = 1000 }; /* of --top-logprobs */

static int on_token(void *user, size_t row, int32_t token) {
  tool_session *session = user;
  (void)token;
  if (row == 0) tool_progress(session, "step %zu", ++session->n_steps);
  return 0;
}

static int generate_ids(const tool_args *args, const char *config) {
  tool_session session = {0};
  tool_inputs in = {0};
  vkf_result *result = NULL;
  int exit_code = tool_session_open(&session, args, args->device, args->operands[0]);
  if (exit_code == TOOL_OK) exit_code = tool_inputs_read(&session, args->inputs, &in);
  if (exit_code == TOOL_OK) {
    vkf_generate_params params = {VKF_GENERATE_PARAMS_INIT,
                                  .config_json = config,
                                  .on_token = session.terminal ? on_token : NULL,
                                  .user = &session,
                                  .batch_size = args->batch_size,
                                  .top_logprobs = (uint32_t)args->top,
                                  .source_language = args->source_lang,
                                  .target_language = args->target_lang};
    vkf_status status = vkf_session_generate(session.run, in.arrays, in.n, &params, &result);
    if (status != VKF_OK) exit_code = tool_session_fail(&session, status, args->inputs);
  }
  if (exit_code == TOOL_OK) exit_code = tool_write_arrays(&session, args->outputs, result);
  tool_inputs_finish(&in);
  vkf_result_destroy(&result);
  return tool_session_close(&session, exit_code);
}

/* Returns a given option that only works with texts; NULL: there is none. */
static const char *option_of_texts(const tool_args *args) {
  return args->stops.n   ? "--stop"
         : args->json    ? "--json"
         : args->workers ? "--workers"
         : args->long_   ? "--long"
         : args->invalid ? "--invalid"
                         : NULL;
}

/* Turns the texts after MODEL into prompts. */
static int take_texts(tool_args *args) {
  if (args->n_operands < 2) return TOOL_OK;
  if (args->prompts.n)
    return tool_usage_error("generate", "expected prompts as arguments or by --prompt, found both ('%s')",
                            args->operands[1]);
  args->prompts = (tool_texts){(const char **)args->operands + 1, args->n_operands - 1};
  return TOOL_OK;
}

static int run_generate(const tool_args *given) {
  char *config = NULL;
  tool_args own = *given, *args = &own;
  if (take_texts(args) != TOOL_OK) return TOOL_USAGE;
  bool files = args->inputs || args->outputs;
  if (files && (!args->inputs || !args->outputs || args->prompts.n > 0))
    return tool_usage_error("generate", "expected --inputs FILE and --outputs FILE, found %s",
                            !args->inputs    ? "no --inputs"
                            : !args->outputs ? "no --outputs"
                                             : "prompts as well");
  if (files && option_of_texts(args))
    return tool_usage_error("generate", "expected no %s with --inputs and --outputs, which are ids",
                            option_of_texts(args));
  for (size_t i = 0; i < args->stops.n; i++)
    if (!args->stops.at[i][0]) return tool_usage_error("generate", "--stop: expected a text, found an empty one");
  if (args->top && !files && !args->json)
    return tool_usage_error("generate", "--top-logprobs: expected --json or --outputs as well, found neither");
  if (args->top > MAX_TOP)
    return tool_usage_error("generate", "--top-logprobs: expected at most %d, found %zu", MAX_TOP, args->top);
  int exit_code = tool_generation_config(args, &config);
  if (exit_code == TOOL_OK) exit_code = tool_check_generation(args, config, args->operands[0]);
  if (exit_code == TOOL_OK) exit_code = files ? generate_ids(args, config) : tool_generate_text(args, config);
  free(config);
  return exit_code;
}

static const tool_option options[] = {
    {"prompt", 'p', TOOL_TEXTS, offsetof(tool_args, prompts), "TEXT",
     "a prompt, instead of TEXT; repeatable. Without prompts and\n--inputs, each line of standard input is one"},
    {"stop", 0, TOOL_TEXTS, offsetof(tool_args, stops), "TEXT", "end before this text; repeatable"},
    TOOL_SOURCE_LANG,
    TOOL_TARGET_LANG,
    {"batch-size", 'b', TOOL_SIZE, offsetof(tool_args, batch_size), "N",
     "generate from at most N prompts together; default 64, fewer\nwith beams. When one is done, the next takes its "
     "place. The\ntexts do not depend on N. On a terminal, and in a pipe unless\nthe prompts come from a file, the "
     "default is 1 and the text is\nshown as it grows, but not with --json, --workers over 1, beams\nor several "
     "sequences"},
    {"top-logprobs", 0, TOOL_SIZE, offsetof(tool_args, top), "N",
     "with --json or --outputs, without beams: also give the N most\nlikely tokens of each step (at most 1000), by "
     "log-softmax of the\nlogits before penalties, temperature and other options"},
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL,
     "print a JSON line for each text: prompt, text, ids, score. The\nscore is the sum of the ids' log-probabilities, "
     "divided by their\nnumber to the power of length_penalty; null if --stop ended the\ntext while it grew (not with "
     "beams)"},
    {"inputs", 'i', TOOL_INPUT, offsetof(tool_args, inputs), "FILE",
     "safetensors, or JSON if the name ends in .json: input_ids,\nattention_mask and, for an encoder-decoder, "
     "decoder_input_ids,\nthe beginning of each target; int32 or int64"},
    {"outputs", 'o', TOOL_OUTPUT, offsetof(tool_args, outputs), "FILE",
     "safetensors, or JSON if the name ends in .json: sequences and,\nwith beams, sequences_scores; written as a whole "
     "or not at all"},
    {"num-return-sequences", 0, TOOL_KEY_WHOLE, 0, "N", "generate N sequences for each prompt"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_generate = {
    .name = "generate",
    .summary = "Generate what follows a prompt",
    .usage = "MODEL [OPTION]... [TEXT]...\n   or: vkformer generate MODEL --inputs FILE --outputs FILE [OPTION]...",
    .text =
        "Greedy and beam search give the results of transformers' generate for the same configuration; with\n"
        "--do-sample the text depends only on seed, line and prompt. A skipped prompt gives an empty line. If a\n"
        "prompt is too long for a model that has only a decoder, --long truncate keeps its last words, which the\n"
        "text continues; --long split is refused.",
    .examples =
        "  vkformer generate gpt2 \"Once upon a time\" --do-sample --top-p 0.9 --seed 1\n"
        "  vkformer generate models/en-es --inputs in.safetensors --outputs out.safetensors --num-beams 4\n",
    .groups = {&group, &tool_line_options, &tool_crew_options, &tool_generation_options, &tool_model_options,
               TOOL_DEVICE_GROUPS},
    .min_operands = 1,
    .max_operands = (size_t)-1,
    .operand = "MODEL, a model folder",
    .takes_model = true,
    .run = run_generate,
};
