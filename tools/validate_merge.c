/* validate: computes the digest of a device, and joins the results of devices from several files.
 *
 * The digest is FNV-1a in 64 bits over the bytes of the logits, little-endian, of fixed ids.
 */
#include <inttypes.h>
#include <string.h>

#include "source.h"
#include "validate.h"

enum { B = 2, S = 9, T = 7 };

static uint64_t digest_of(const vkf_array *array) {
  uint64_t digest = TOOL_HASH_BEGIN;
  size_t n = tool_array_elements(array);
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, (const float *)array->data + i, sizeof bits);
    for (int b = 0; b < 32; b += 8) digest = tool_hash(digest, &(uint8_t){bits >> b & 255}, 1);
  }
  return digest;
}

void validate_digest(const tool_args *args, const char *device, json_t *entry) {
  tool_args exact = *args;
  tool_session session = {0};
  char folder[4096], text[32];
  int32_t ids[B * S], target_ids[B * T];
  const vkf_array inputs[] = {
      {.name = "input_ids", .dtype = VKF_I32, .rank = 2, .shape = {B, S}, .data = ids},
      {.name = "decoder_input_ids", .dtype = VKF_I32, .rank = 2, .shape = {B, T}, .data = target_ids}};
  vkf_result *result = NULL;
  for (int i = 0; i < B * S; i++) ids[i] = 5 + 37 * i % 200;
  for (int i = 0; i < B * T; i++) target_ids[i] = 5 + 53 * i % 200;
  exact.deterministic = 1;
  exact.model = exact.weights = exact.activations = exact.kv_cache = exact.profile = NULL;
  if (tool_find_model(&exact, folder, sizeof folder) == TOOL_OK &&
      tool_session_open(&session, &exact, device ? device : "", folder) == TOOL_OK) {
    vkf_status status = vkf_session_run(session.run, inputs, 2, NULL, &result);
    const vkf_array *logits = status == VKF_OK ? vkf_result_find(result, "logits") : NULL;
    if (status != VKF_OK) tool_session_fail(&session, status, "digest");
    if (logits) {
      snprintf(text, sizeof text, "%016" PRIx64, digest_of(logits));
      if (validate_is_text(args)) printf("%s: digest %s\n\n", vkf_device_get_info(session.device)->alias, text);
      json_object_set_new(entry, "digest", json_string(text));
    }
    vkf_result_destroy(&result);
  }
  tool_session_close(&session, TOOL_OK);
}

bool validate_is_text(const tool_args *args) {
  return !args->json_file || args->json_file[0];
}

bool validate_same_digests(const json_t *devices) {
  size_t i, k;
  json_t *a, *b;
  json_array_foreach(devices, i, a) {
    json_array_foreach(devices, k, b) {
      if (k <= i || !tool_json_get_text(a, "digest")[0] || !tool_json_get_text(b, "digest")[0]) continue;
      if (strcmp(tool_json_get_text(a, "vkformer"), tool_json_get_text(b, "vkformer")) ||
          !strcmp(tool_json_get_text(a, "digest"), tool_json_get_text(b, "digest")))
        continue;
      tool_error("expected one digest in the reproducible mode, found %s on %s and %s on %s",
                 tool_json_get_text(a, "digest"), tool_json_get_text(a, "device"), tool_json_get_text(b, "digest"),
                 tool_json_get_text(b, "device"));
      return false;
    }
  }
  return true;
}

/* Whether it has the form that report() in validate.c writes. */
static bool is_device(const json_t *entry) {
  size_t i;
  json_t *row;
  const json_t *rows = json_object_get(entry, "rows");
  if (!tool_json_get_text(entry, "device")[0] || !json_is_boolean(json_object_get(entry, "passed")) ||
      !json_is_array(rows))
    return false;
  json_array_foreach(rows, i, row) {
    if (!tool_json_get_text(row, "scope")[0] || !tool_json_get_text(row, "name")[0]) return false;
  }
  return true;
}

int validate_merge(const tool_args *args, json_t *devices) {
  int exit_code = TOOL_OK;
  for (size_t f = 0; f < args->n_operands; f++) {
    size_t i;
    json_t *entry;
    json_t *file = tool_read_json(args->operands[f]);
    json_t *found = json_object_get(file, "devices");
    bool is_right = json_array_size(found) > 0;
    json_array_foreach(found, i, entry) {
      is_right = is_right && is_device(entry);
      if (!is_right) break;
      bool passed = json_is_true(json_object_get(entry, "passed"));
      if (validate_is_text(args))
        printf("%s: %s (%s): digest %s: %s\n", args->operands[f], tool_json_get_text(entry, "device"),
               tool_json_get_text(entry, "driver"),
               tool_json_get_text(entry, "digest")[0] ? tool_json_get_text(entry, "digest") : "none",
               passed ? "passed" : "FAILED");
      if (!passed) exit_code = TOOL_WRONG;
      json_array_append(devices, entry);
    }
    const bool was_read = file != NULL;
    json_decref(file);
    if (!is_right) {
      json_array_clear(devices);
      return was_read ? tool_error("%s: expected a file that vkformer validate --json wrote", args->operands[f])
                      : TOOL_FAILED;
    }
  }
  return exit_code;
}
