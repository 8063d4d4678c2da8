/* run: runs one forward pass on given tensors, a text or images. */
#include <stdio.h>
#include <string.h>

#include "program.h"

/* The inputs of the pass, and the owners of their data. */
typedef struct pass_inputs {
  const vkf_array *arrays;
  size_t n;
  tool_inputs file;
  vkf_result *made; /* ids of a text, pixels of images */
  vkf_array text[2];
  int32_t start;
} pass_inputs;

/* Finds the id with which a target begins; family `transformer` uses bos_token_id if it has no other. */
static int find_start(const char *folder, const vkf_model_info *info, int32_t *out) {
  json_t *id = tool_config_value(NULL, folder, "decoder_start_token_id");
  if (!id && strcmp(info->family, "transformer") == 0) id = tool_config_value(NULL, folder, "bos_token_id");
  const bool is_id = json_is_integer(id);
  if (is_id) *out = (int32_t)json_integer_value(id);
  json_decref(id);
  return is_id ? TOOL_OK
               : tool_error("%s: --text: expected decoder_start_token_id in config.json, found none: use --inputs",
                            folder);
}

/* Tokenizes --text and adds, for an encoder-decoder, a target of just the start id, unless the library makes the target
 * from the text. */
static int read_text(tool_session *session, const tool_args *args, pass_inputs *in) {
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_model_get_info(session->model, &info);
  vkf_status status = vkf_tokenizer_encode(vkf_model_tokenizer(session->model), args->prompts.at[0], NULL, &in->made);
  if (status != VKF_OK) return tool_session_fail(session, status, "--text");
  const vkf_array *ids = vkf_result_find(in->made, "ids");
  in->text[0] = (vkf_array){"input_ids", VKF_I32, 2, {1, ids->shape[0]}, ids->data};
  in->text[1] = (vkf_array){"decoder_input_ids", VKF_I32, 2, {1, 1}, &in->start};
  in->arrays = in->text;
  in->n = info.encoder_layers && info.decoder_layers && !info.n_labels ? 2 : 1;
  return in->n == 2 ? find_start(args->operands[0], &info, &in->start) : TOOL_OK;
}

static int read_inputs(tool_session *session, const tool_args *args, pass_inputs *in) {
  if (args->prompts.n) return read_text(session, args, in);
  if (args->inputs) {
    int exit_code = tool_inputs_read(session, args->inputs, &in->file);
    in->arrays = in->file.arrays;
    in->n = in->file.n;
    return exit_code;
  }
  vkf_status status = vkf_session_read_images(session->run, args->images.at, args->images.n, &in->made);
  if (status != VKF_OK) return tool_session_fail(session, status, NULL);
  in->arrays = vkf_result_at(in->made, 0);
  in->n = 1;
  return TOOL_OK;
}

/* Requires exactly one of --inputs, --text and --image, and --outputs. */
static int check_args(const tool_args *args) {
  const int n_kinds = (args->inputs != NULL) + (args->prompts.n > 0) + (args->images.n > 0);
  if (n_kinds == 0) return tool_usage_error("run", "expected --inputs FILE or --text TEXT, found no --inputs");
  if (n_kinds > 1)
    return tool_usage_error("run", "expected one of --inputs, --text and --image, found %s",
                            n_kinds == 3 ? "all" : "both of two");
  if (args->prompts.n > 1)
    return tool_usage_error("run", "--text: expected one text, found %zu: --inputs takes a batch", args->prompts.n);
  return args->outputs ? TOOL_OK : tool_usage_error("run", "expected --outputs FILE, found no --outputs");
}

/* Warns about unused tensors: they may show that the folder is not what its config.json says. */
static void list_unused(const tool_session *session) {
  enum { SHOWN = 3 };
  vkf_model_info info = {VKF_MODEL_INFO_INIT};
  vkf_model_get_info(session->model, &info);
  if (!info.n_unused) return;
  fprintf(stderr, "vkformer: %zu tensor%s not used:", (size_t)info.n_unused, info.n_unused == 1 ? " is" : "s are");
  for (size_t i = 0; i < info.n_unused && i < SHOWN; i++)
    fprintf(stderr, "%s %s", i ? "," : "", vkf_model_unused_tensor(session->model, i));
  fputs(info.n_unused > SHOWN ? ", ...; vkformer info lists them\n" : "\n", stderr);
}

static int run_run(const tool_args *args) {
  tool_session session = {0};
  pass_inputs in = {0};
  vkf_result *result = NULL;
  if (check_args(args) != TOOL_OK) return TOOL_USAGE;
  int exit_code = tool_session_open(&session, args, args->device, args->operands[0]);
  if (exit_code == TOOL_OK) list_unused(&session);
  if (exit_code == TOOL_OK) exit_code = read_inputs(&session, args, &in);
  if (exit_code == TOOL_OK) {
    vkf_run_params params = {VKF_RUN_PARAMS_INIT, .hidden_states = args->hidden_states > 0,
                             .attentions = args->attentions > 0, .projections = args->projections > 0,
                             .allow_not_finite = args->allow_not_finite > 0};
    vkf_status status = vkf_session_run(session.run, in.arrays, in.n, &params, &result);
    if (status != VKF_OK) exit_code = tool_session_fail(&session, status, args->inputs);
  }
  if (exit_code == TOOL_OK) exit_code = tool_write_arrays(&session, args->outputs, result);
  tool_inputs_finish(&in.file);
  vkf_result_destroy(&result);
  vkf_result_destroy(&in.made);
  return tool_session_close(&session, exit_code);
}

static const tool_option options[] = {
    {"inputs", 'i', TOOL_INPUT, offsetof(tool_args, inputs), "FILE",
     "safetensors, or JSON if the name ends in .json: input_ids,\nattention_mask, decoder_input_ids, "
     "decoder_attention_mask,\ntoken_type_ids (int32 or int64), or for a model of images\npixel_values (float32)"},
    {"text", 0, TOOL_TEXTS, offsetof(tool_args, prompts), "TEXT",
     "a text instead of input_ids, tokenized by the folder's\ntokenizer. The decoder_input_ids of an encoder-decoder "
     "are then\ndecoder_start_token_id alone: the pass predicts the first token\nof the answer"},
    {"image", 0, TOOL_INPUTS, offsetof(tool_args, images), "FILE",
     "a PNG or JPEG image instead of pixel_values, prepared as the\nfolder's preprocessor_config.json says; "
     "repeatable"},
    {"outputs", 'o', TOOL_OUTPUT, offsetof(tool_args, outputs), "FILE",
     "safetensors, or JSON if the name ends in .json; written as a\nwhole or not at all"},
    {"output-hidden-states", 0, TOOL_FLAG, offsetof(tool_args, hidden_states), NULL,
     "also write the states after each layer"},
    {"output-attentions", 0, TOOL_FLAG, offsetof(tool_args, attentions), NULL, "also write the attention weights"},
    {"output-projections", 0, TOOL_FLAG, offsetof(tool_args, projections), NULL,
     "also write the queries, keys and values of each attention, and\nthe bias of its scores"},
    {"allow-not-finite", 0, TOOL_FLAG, offsetof(tool_args, allow_not_finite), NULL,
     "write outputs even if they have NaN or infinities, which is\notherwise an error"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_run = {
    .name = "run",
    .summary = "Run one forward pass on given tensors, a text or images",
    .usage = "MODEL --inputs FILE|--text TEXT|--image FILE --outputs FILE [OPTION]...",
    .text =
        "Outputs have the names, shapes and meaning that transformers gives them: logits,\n"
        "encoder_last_hidden_state, decoder_hidden_states.N, cross_attentions.N and so on.",
    .examples =
        "  vkformer run models/en-es --inputs in.safetensors --outputs out.safetensors\n"
        "  vkformer run models/en-es --text \"The cat sat on the mat.\" --output-attentions --outputs out.json\n",
    .groups = {&group, &tool_model_options, TOOL_DEVICE_GROUPS},
    .min_operands = 1,
    .max_operands = 1,
    .operand = "MODEL, a model folder",
    .takes_model = true,
    .run = run_run,
};
