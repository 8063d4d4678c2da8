/* devices: lists the devices that can compute. */
#include <vkformer/lab.h>

#include "program.h"

static void uuid_text(const uint8_t uuid[16], char text[37]) {
  for (int i = 0, at = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
    at += snprintf(text + at, 3, "%02x", uuid[i]);
  }
}

json_t *tool_device_json(size_t index, const vkf_device_info *d) {
  char uuid[37];
  uuid_text(d->uuid, uuid);
  json_t *facts = json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "index", (json_int_t)index,
                            "name", d->name, "driver", d->driver, "alias", d->alias, "kind",
                            vkf_device_kind_name(d->kind), "uuid", uuid, "vendor_id", (json_int_t)d->vendor_id,
                            "device_id", (json_int_t)d->device_id, "driver_version", (json_int_t)d->driver_version,
                            "api_version", (json_int_t)d->api_version, "driver_id", (json_int_t)d->driver_id);
  json_t *limits = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "memory_bytes", (json_int_t)d->memory_bytes,
                             "max_storage_range_bytes", (json_int_t)d->max_storage_range_bytes, "max_allocation_bytes",
                             (json_int_t)d->max_allocation_bytes, "max_shared_bytes", (json_int_t)d->max_shared_bytes,
                             "max_invocations", (json_int_t)d->max_invocations, "max_storage_bindings",
                             (json_int_t)d->max_storage_bindings, "subgroup_size", (json_int_t)d->subgroup_size,
                             "timestamp_ns", tool_json_real((double)d->timestamp_ns));
  json_t *features = json_pack("{s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "float16", d->has_float16, "storage16",
                               d->has_storage16, "int64", d->has_int64, "buffer_address", d->has_buffer_address,
                               "subgroup_shuffle", d->has_subgroup_shuffle, "subgroup_arithmetic",
                               d->has_subgroup_arithmetic, "cooperative_matrix", d->has_cooperative_matrix);
  if (facts) json_object_update(facts, limits);
  if (facts) json_object_set(facts, "has", features);
  json_decref(limits);
  json_decref(features);
  return facts;
}

static void print_device(size_t index, const vkf_device_info *d) {
  char memory[32] = "-";
  if (d->memory_bytes)
    snprintf(memory, sizeof memory, "%.1f GiB", (double)d->memory_bytes / (1024.0 * 1024.0 * 1024.0));
  printf("%5zu  %-12s %-10s %10s  %s (%s)\n", index, d->alias, vkf_device_kind_name(d->kind), memory, d->name,
         d->driver);
}

typedef struct checks {
  json_t *rows; /* NULL: print them */
} checks;

static void on_check(void *user, const vkf_check_info *c) {
  const checks *to = user;
  const char *state = vkf_check_state_name(c->state);
  if (to->rows)
    json_array_append_new(to->rows, json_pack("{s:s, s:s, s:s}", "check", c->name, "state", state, "text", c->text));
  else
    printf("       %-56s %s%s%s\n", c->title, state, *c->text ? ": " : "", c->text);
}

/* Lists a device's checks. Opens the device, which runs checks that have not run before. */
static int list_checks(tool_session *session, size_t index, json_t *rows) {
  char selector[24];
  checks to = {rows};
  snprintf(selector, sizeof selector, "%zu", index);
  vkf_status status = vkf_device_open(session->context, selector, &session->device);
  if (status == VKF_OK) status = vkf_device_run_checks(session->device, on_check, &to);
  vkf_device_close(&session->device);
  return status == VKF_OK ? TOOL_OK : tool_session_fail(session, status, selector);
}

static int run_devices(const tool_args *args) {
  tool_session session;
  size_t n_devices = 0;
  json_t *list = json_array();
  int exit_code = tool_session_open_context(&session, args);
  if (exit_code == TOOL_OK) {
    vkf_status status = vkf_context_list_devices(session.context, &n_devices);
    if (status != VKF_OK) exit_code = tool_session_fail(&session, status, NULL);
  }
  if (exit_code == TOOL_OK && !args->json)
    printf("%5s  %-12s %-10s %10s  %s\n", "index", "alias", "kind", "memory", "name (driver)");
  for (size_t i = 0; i < n_devices && exit_code == TOOL_OK; i++) {
    vkf_device_info info = {VKF_DEVICE_INFO_INIT};
    vkf_status status = vkf_context_device_info(session.context, i, &info);
    if (status != VKF_OK) {
      exit_code = tool_session_fail(&session, status, NULL);
    } else if (args->json) {
      json_t *facts = tool_device_json(i, &info), *checks = args->verbose ? json_array() : NULL;
      if (checks) exit_code = list_checks(&session, i, checks);
      if (checks) json_object_set_new(facts, "checks", checks);
      json_array_append_new(list, facts);
    } else {
      print_device(i, &info);
      if (args->verbose) exit_code = list_checks(&session, i, NULL);
    }
  }
  if (exit_code == TOOL_OK && args->json)
    exit_code = tool_print_json(json_pack("{s:s, s:O}", "format", "vkformer-devices/1", "devices", list));
  json_decref(list);
  return tool_session_close(&session, exit_code);
}

static const tool_option options[] = {
    {"json", 0, TOOL_FLAG, offsetof(tool_args, json), NULL, "print every fact about every device as JSON"},
};
static const tool_option_group group = TOOL_GROUP("Options", options);

const tool_command tool_devices = {
    .name = "devices",
    .summary = "List the devices to compute on",
    .usage = "[OPTION]...",
    .text =
        "--device takes an index, an alias or part of a name from this list. `ref` is the scalar path on\n"
        "the host and needs no Vulkan. -v opens every device and lists the checks of its driver: whether\n"
        "each passed, what it found if it failed, or why it did not run.",
    .examples =
        "  vkformer devices\n"
        "  vkformer devices -v\n",
    .groups = {&group, &tool_driver_options, &tool_common_options},
    .run = run_devices,
    .computes_nothing = true,
};
