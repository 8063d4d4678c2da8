/* info: prints the content of a model folder, the shapes of one pass, and its plan. */
#include <string.h>
#include <vkformer/lab.h>

#include "program.h"

enum { DEFAULT_LENGTH = 16 };

/* Writes 7643136 as "7,643,136" to `text`. */
static const char *grouped(uint64_t number, char text[32]) {
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number), at = 0;
  for (int i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0) text[at++] = ',';
    text[at++] = digits[i];
  }
  text[at] = 0;
  return text;
}

static void print_summary(const char *folder, const vkf_model_info *m, const vkf_device_info *device) {
  char a[32];
  printf("%s\n", folder);
  printf("  family          %s, %s\n", m->family, vkf_architecture_name(m->architecture));
  printf("  layers          ");
  if (m->encoder_layers) printf("%u encoder%s", m->encoder_layers, m->decoder_layers ? ", " : "\n");
  if (m->decoder_layers) printf("%u decoder\n", m->decoder_layers);
  printf("  width           %u, %u heads, feed-forward %u\n", m->d_model, m->n_heads, m->d_ff);
  if (m->image[0])
    printf("  images          %u x %u x %u: channels, height, width\n", m->image[0], m->image[1], m->image[2]);
  else
    printf("  vocabulary      %u\n", m->vocab);
  if (m->max_positions) {
    printf("  positions       %u\n", m->max_positions);
  } else {
    printf("  positions       unlimited\n");
  }
  printf("  parameters      %s\n", grouped(m->n_parameters, a));
  printf("  file            %s bytes\n", grouped(m->file_bytes, a));
  printf("  on the device   %s bytes (%s)\n", grouped(m->device_bytes, a), device->name);
  printf("  stored as       %s weights, %s keys and values\n", vkf_storage_name(m->weights),
         vkf_storage_name(m->kv_cache));
  printf("  tokenizer       %s\n", m->has_tokenizer ? "yes" : "no");
  printf("  generates       %s\n", m->can_generate ? "yes" : "no");
  if (m->n_labels) printf("  labels          %s\n", grouped(m->n_labels, a));
}

/* Prints extents without the zeros at the end. */
static void print_shape(const char *name, size_t n0, size_t n1, size_t n2, size_t n3) {
  printf("  %-28s [%zu,%zu", name, n0, n1);
  if (n2) printf(",%zu", n2);
  if (n3) printf(",%zu", n3);
  puts("]");
}

/* Returns a number of config.json, which the library has accepted: the first key that is there, else `usual`. */
static size_t config_size(const json_t *config, const char *key, const char *other, size_t usual) {
  const json_t *value = json_object_get(config, key);
  if (!json_is_integer(value)) value = json_object_get(config, other);
  return json_is_integer(value) ? (size_t)json_integer_value(value) : usual;
}

static void print_stack(const char *stack, const vkf_model_info *m, const json_t *config, size_t batch, size_t length) {
  size_t width = m->d_model, heads = m->n_heads, kv_heads = config_size(config, "num_key_value_heads", "", heads);
  size_t head_width = config_size(config, "head_dim", "d_kv", heads ? width / heads : 0);
  char name[64];
  snprintf(name, sizeof name, "%s ids", stack);
  print_shape(name, batch, length, 0, 0);
  print_shape("  embedded", batch, length, width, 0);
  if (heads) {
    print_shape(kv_heads == heads ? "  q, k, v by head" : "  q by head", batch, heads, length, head_width);
    if (kv_heads != heads) print_shape("  k, v by head", batch, kv_heads, length, head_width);
    print_shape("  scores (never stored)", batch, heads, length, length);
  }
  if (m->d_ff) print_shape("  feed-forward", batch, length, m->d_ff, 0);
  print_shape("  states", batch, length, width, 0);
}

static void print_shapes(const vkf_model_info *m, const char *folder, size_t batch, size_t length) {
  json_t *config = tool_folder_json(folder, "config.json");
  printf("\nshapes of one pass, %zu row%s of %zu tokens\n", batch, batch == 1 ? "" : "s", length);
  bool both = m->encoder_layers && m->decoder_layers;
  if (m->encoder_layers) print_stack("encoder", m, config, batch, length);
  if (m->decoder_layers) print_stack("decoder", m, config, batch, length);
  if (both) print_shape("  cross scores (as above)", batch, m->n_heads, length, length);
  if (m->vocab && m->decoder_layers) print_shape("logits", batch, length, m->vocab, 0);
  json_decref(config);
}

static json_t *info_json(const vkf_model *model, const char *folder, const vkf_model_info *m) {
  json_t *unused = json_array();
  for (size_t i = 0; i < m->n_unused; i++)
    json_array_append_new(unused, json_string(vkf_model_unused_tensor(model, i)));
  return json_pack(
      "{s:s, s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:I,"
      " s:o, s:[I, I, I]}",
      "format", "vkformer-info/1", "folder", tool_json_text(folder, strlen(folder)), "family", m->family,
      "architecture", vkf_architecture_name(m->architecture), "weights", vkf_storage_name(m->weights), "kv_cache",
      vkf_storage_name(m->kv_cache), "d_model", (json_int_t)m->d_model, "n_heads", (json_int_t)m->n_heads, "d_ff",
      (json_int_t)m->d_ff, "vocab", (json_int_t)m->vocab, "encoder_layers", (json_int_t)m->encoder_layers,
      "decoder_layers", (json_int_t)m->decoder_layers, "max_positions", (json_int_t)m->max_positions, "n_parameters",
      (json_int_t)m->n_parameters, "file_bytes", (json_int_t)m->file_bytes, "device_bytes", (json_int_t)m->device_bytes,
      "has_tokenizer", m->has_tokenizer, "can_generate", m->can_generate, "n_labels", (json_int_t)m->n_labels,
      "unused_tensors", unused, "image", (json_int_t)m->image[0], (json_int_t)m->image[1], (json_int_t)m->image[2]);
}

static int print_plan(tool_session *session, size_t batch, size_t length) {
  vkf_result *plan = NULL;
  vkf_status status = vkf_model_describe_plan(session->model, batch, length, &plan);
  if (status != VKF_OK) return tool_session_fail(session, status, NULL);
  const char *text = vkf_result_text(plan, 0);
  size_t n = strlen(text);
  printf("\nplan\n%s%s", text, n > 0 && text[n - 1] == '\n' ? "" : "\n");
  vkf_result_destroy(&plan);
  return TOOL_OK;
}

/* Opens the model, on the scalar path if there is no Vulkan device; the plan is then that of the scalar path. */
static int open_model(tool_session *session, const tool_args *args, const char *folder) {
  size_t n = 0;
  const char *device = args->device;
  int exit_code = tool_session_open_context(session, args);
  const bool has_none = exit_code == TOOL_OK && vkf_context_list_devices(session->context, &n) == VKF_OK && n == 1;
  if (has_none && !tool_device_is_chosen(device)) {
    fprintf(stderr, "vkformer: no Vulkan device was found: the figures are those of --device ref\n");
    device = "ref";
  }
  if (exit_code == TOOL_OK) exit_code = tool_session_open_device(session, device);
  return exit_code == TOOL_OK ? tool_session_open_model(session, folder) : exit_code;
}

static int run_info(const tool_args *args) {
  tool_session session = {0};
  const char *folder = args->operands[0];
  int exit_code = open_model(&session, args, folder);
  if (exit_code == TOOL_OK) {
    size_t batch = args->batch_size ? args->batch_size : 1;
    size_t length = args->length ? args->length : DEFAULT_LENGTH;
    vkf_model_info info = {VKF_MODEL_INFO_INIT};
    vkf_model_get_info(session.model, &info);
    if (args->json) {
      exit_code = tool_print_json(info_json(session.model, folder, &info));
    } else {
      print_summary(folder, &info, vkf_device_get_info(session.device));
      for (size_t i = 0; i < info.n_unused; i++)
        printf("  unused tensor   %s\n", vkf_model_unused_tensor(session.model, i));
      print_shapes(&info, folder, batch, length);
      if (args->plan) exit_code = print_plan(&session, batch, length);
    }
  }
  return tool_session_close(&session, exit_code);
}

static const tool_option options[] = {
    {"plan", 'p', TOOL_FLAG, offsetof(tool_args, plan), NULL,
     "also print a line for each block: dispatches, variants,\nbarriers, flops, bytes"},
    {"batch-size", 'b', TOOL_SIZE, offsetof(tool_args, batch_size), "N", "rows in the pass; default 1"},
    {"length", 'l', TOOL_SIZE, offsetof(tool_args, length), "N", "tokens per row; default 16"},
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL, "print the summary as JSON"},
    TOOL_NO_CHECKS,
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_info = {
    .name = "info",
    .summary = "Describe a model folder: parameters, bytes, shapes, plan",
    .usage = "MODEL [OPTION]...",
    .examples = "  vkformer info models/en-es --plan\n",
    .groups = {&group, &tool_model_options, TOOL_DEVICE_GROUPS},
    .min_operands = 1,
    .max_operands = 1,
    .operand = "MODEL, a model folder",
    .takes_model = true,
    .run = run_info,
    .computes_nothing = true,
};
