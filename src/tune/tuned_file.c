/* tuned_file: see tuned_file.h. */
#define _POSIX_C_SOURCE 200809L
#include "tune/tuned_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_memory.h"
#include "file/json.h"
#include "kern/kern.h"

#define FORMAT_NAME "vkformer tuned kernels "
#define FORMAT FORMAT_NAME "1"

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Reads the processor's name from /proc/cpuinfo; "unknown" if there is none. */
static void cpu_model(char *out, size_t size) {
  char line[512];
  FILE *file = fopen("/proc/cpuinfo", "r");
  snprintf(out, size, "unknown");
  while (file && fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (!colon || (strncmp(line, "model name", 10) != 0 && strncmp(line, "CPU part", 8) != 0)) continue;
    snprintf(out, size, "%.*s", (int)strcspn(colon + 1, "\n") - 1, colon + 2);
    break;
  }
  if (file) fclose(file);
}

void vkf_tune_key(const vkf_caps *caps, vkf_tuned_key *out) {
  memset(out, 0, sizeof *out);
  snprintf(out->device, sizeof out->device, "%s", caps->device_name);
  for (size_t i = 0; i < sizeof caps->uuid; i++) snprintf(out->uuid + 2 * i, 3, "%02x", caps->uuid[i]);
  out->vendor_id = caps->vendor_id;
  out->driver_id = caps->driver_id;
  out->driver_version = caps->driver_version;
  out->subgroup_size = caps->subgroup_size;
  out->table = vkf_kern_checksum();
  if (!caps->is_cpu) return;
  cpu_model(out->cpu, sizeof out->cpu);
  out->threads = (uint32_t)VKF_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
  out->vector_bits = caps->vector_bits;
}

vkf_tuned_match vkf_tune_match(const vkf_tuned_key *a, const vkf_tuned_key *b) {
  if (a->table != b->table || a->vendor_id != b->vendor_id || a->driver_id != b->driver_id) return VKF_MATCH_NONE;
  const bool is_cpu = a->cpu[0] != 0, same_name = strcmp(a->device, b->device) == 0;
  if (a->subgroup_size != b->subgroup_size || strcmp(a->cpu, b->cpu) != 0 || a->vector_bits != b->vector_bits ||
      !(is_cpu || same_name))
    return VKF_MATCH_VENDOR;
  return same_name && strcmp(a->uuid, b->uuid) == 0 && a->driver_version == b->driver_version &&
                 a->threads == b->threads
             ? VKF_MATCH_DEVICE
             : VKF_MATCH_ARCHITECTURE;
}

static bool same_key(const vkf_tuned_key *a, const vkf_tuned_key *b) {
  return vkf_tune_match(a, b) == VKF_MATCH_DEVICE;
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

void vkf_tune_file_init(vkf_tuned_file *file, vkf_env *env) {
  *file = (vkf_tuned_file){.env = env};
}

static void finish_section(vkf_env *env, vkf_tuned_section *section) {
  vkf_env_free(env, section->checks);
  vkf_env_free(env, section->entries);
}

void vkf_tune_file_finish(vkf_tuned_file *file) {
  for (size_t i = 0; i < file->n_sections; i++) finish_section(file->env, &file->sections[i]);
  vkf_env_free(file->env, file->sections);
  vkf_tune_file_init(file, file->env);
}

static vkf_tuned_section *get_section(vkf_tuned_file *file, const vkf_tuned_key *key) {
  for (size_t i = 0; i < file->n_sections; i++)
    if (same_key(&file->sections[i].key, key)) return &file->sections[i];
  vkf_tuned_section *grown = vkf_env_realloc(file->env, file->sections, file->n_sections + 1, sizeof *file->sections);
  if (!grown) return NULL;
  file->sections = grown;
  grown[file->n_sections] = (vkf_tuned_section){.key = *key};
  return &grown[file->n_sections++];
}

vkf_status vkf_tune_file_add(vkf_tuned_file *file, const vkf_tuned_key *key, const vkf_tuned_entry *entry) {
  vkf_tuned_section *s = get_section(file, key);
  if (!s) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < s->n_entries; i++) {
    if (strcmp(s->entries[i].problem, entry->problem) != 0 || strcmp(s->entries[i].kernel, entry->kernel) != 0 ||
        s->entries[i].reproducible != entry->reproducible)
      continue;
    if (s->entries[i].probed || !entry->probed) s->entries[i] = *entry;
    return VKF_OK;
  }
  vkf_tuned_entry *grown = vkf_env_realloc(file->env, s->entries, s->n_entries + 1, sizeof *grown);
  if (!grown) return VKF_ERROR_MEMORY;
  s->entries = grown;
  s->entries[s->n_entries++] = *entry;
  return VKF_OK;
}

vkf_status vkf_tune_file_check(vkf_tuned_file *file, const vkf_tuned_key *key, const vkf_tuned_check *check) {
  vkf_tuned_section *s = get_section(file, key);
  if (!s) return VKF_ERROR_MEMORY;
  for (size_t i = 0; i < s->n_checks; i++) {
    if (strcmp(s->checks[i].check, check->check) != 0) continue;
    s->checks[i] = *check;
    return VKF_OK;
  }
  vkf_tuned_check *grown = vkf_env_realloc(file->env, s->checks, s->n_checks + 1, sizeof *grown);
  if (!grown) return VKF_ERROR_MEMORY;
  s->checks = grown;
  s->checks[s->n_checks++] = *check;
  return VKF_OK;
}

const char *vkf_tune_file_found(const vkf_tuned_file *file, const vkf_tuned_key *key, const char *check) {
  for (size_t s = 0; s < file->n_sections; s++) {
    const vkf_tuned_section *section = &file->sections[s];
    if (!same_key(&section->key, key)) continue;
    for (size_t i = 0; i < section->n_checks; i++)
      if (!strcmp(section->checks[i].check, check)) return section->checks[i].found;
  }
  return NULL;
}

void vkf_tune_file_prune(vkf_tuned_file *file, const vkf_tuned_key *key) {
  size_t kept = 0;
  for (size_t i = 0; i < file->n_sections; i++) {
    vkf_tuned_key now = file->sections[i].key;
    const bool is_older = now.table != key->table;
    now.table = key->table;
    if (is_older && same_key(&now, key))
      finish_section(file->env, &file->sections[i]);
    else
      file->sections[kept++] = file->sections[i];
  }
  file->n_sections = kept;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Refuses a text that is too long: cut off, it might mean something else. */
static vkf_status get_text(vkf_env *env, vkf_file_value object, const char *name, char *out, size_t size) {
  const char *text = NULL;
  VKF_CALL(vkf_file_json_get_string(object, name, &text));
  if (strlen(text) >= size)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: expected at most %zu bytes, found %zu", name, size - 1,
                        strlen(text));
  memcpy(out, text, strlen(text) + 1);
  return VKF_OK;
}

static vkf_status get_number(vkf_file_value object, const char *name, uint32_t *out) {
  int64_t value = 0;
  vkf_status st = vkf_file_json_get_int64(object, name, &value);
  *out = (uint32_t)value;
  return st;
}

static vkf_status read_key(vkf_env *env, vkf_file_value device, vkf_tuned_key *key) {
  char table[17] = "";
  memset(key, 0, sizeof *key);
  VKF_CALL(get_text(env, device, "device", key->device, sizeof key->device));
  VKF_CALL(get_text(env, device, "uuid", key->uuid, sizeof key->uuid));
  VKF_CALL(get_number(device, "vendor_id", &key->vendor_id));
  VKF_CALL(get_number(device, "driver_id", &key->driver_id));
  VKF_CALL(get_number(device, "driver_version", &key->driver_version));
  VKF_CALL(get_number(device, "subgroup_size", &key->subgroup_size));
  VKF_CALL(get_text(env, device, "table", table, sizeof table));
  VKF_CALL(get_text(env, device, "cpu", key->cpu, sizeof key->cpu));
  VKF_CALL(get_number(device, "threads", &key->threads));
  VKF_CALL(get_number(device, "vector_bits", &key->vector_bits));
  key->table = strtoull(table, NULL, 16);
  return VKF_OK;
}

static vkf_status read_entry(vkf_env *env, const char *source, vkf_file_value row, vkf_tuned_entry *entry) {
  int64_t ns = 0;
  char by[8] = "";
  VKF_CALL(get_text(env, row, "problem", entry->problem, sizeof entry->problem));
  VKF_CALL(get_text(env, row, "kernel", entry->kernel, sizeof entry->kernel));
  VKF_CALL(vkf_file_json_get_int64(row, "ns", &ns));
  VKF_CALL(get_text(env, row, "by", by, sizeof by));
  VKF_CALL(vkf_file_json_find_bool(row, "reproducible", false, &entry->reproducible));
  if (ns <= 0)
    return vkf_env_fail(env, VKF_ERROR_FORMAT, "%s: %s: expected a time over 0 ns, found %lld", source, entry->problem,
                        (long long)ns);
  entry->ns = (uint64_t)ns;
  entry->probed = strcmp(by, "probe") == 0;
  return VKF_OK;
}

/* A file that has only times has no checks. */
static vkf_status read_checks(vkf_tuned_file *file, const vkf_tuned_key *key, vkf_file_value device) {
  vkf_tuned_check check;
  vkf_file_value checks;
  if (vkf_file_json_kind(vkf_file_json_member(device, "checks")) == VKF_FILE_ABSENT) return VKF_OK;
  VKF_CALL(vkf_file_json_get_array(device, "checks", &checks));
  for (size_t i = 0; i < vkf_file_json_count(checks); i++) {
    vkf_file_value row = vkf_file_json_at(checks, i);
    VKF_CALL(get_text(file->env, row, "check", check.check, sizeof check.check));
    VKF_CALL(get_text(file->env, row, "found", check.found, sizeof check.found));
    VKF_CALL(vkf_tune_file_check(file, key, &check));
  }
  return VKF_OK;
}

static vkf_status read_device(vkf_tuned_file *file, const char *source, vkf_file_value device) {
  vkf_tuned_key key;
  vkf_tuned_entry entry;
  vkf_file_value times;
  VKF_CALL(read_key(file->env, device, &key));
  VKF_CALL(read_checks(file, &key, device));
  VKF_CALL(vkf_file_json_get_array(device, "times", &times));
  for (size_t i = 0; i < vkf_file_json_count(times); i++) {
    VKF_CALL(read_entry(file->env, source, vkf_file_json_at(times, i), &entry));
    VKF_CALL(vkf_tune_file_add(file, &key, &entry));
  }
  return VKF_OK;
}

/* Whether it is the format of a later version. */
static bool is_newer(const char *format) {
  const size_t n = sizeof FORMAT_NAME - 1;
  return strncmp(format, FORMAT_NAME, n) == 0 && strtol(format + n, NULL, 10) > strtol(FORMAT + n, NULL, 10);
}

vkf_status vkf_tune_file_parse(vkf_tuned_file *file, const char *source, const char *bytes, size_t n_bytes) {
  vkf_status st = VKF_OK;
  vkf_file_json *json = NULL;
  vkf_file_value devices;
  const char *format = NULL;
  vkf_tuned_file read;
  vkf_tune_file_init(&read, file->env);
  VKF_TRY(vkf_file_json_parse(file->env, source, bytes, n_bytes, &json));
  VKF_TRY(vkf_file_json_get_string(vkf_file_json_root(json), "format", &format));
  if (strcmp(format, FORMAT) != 0)
    VKF_FAIL(file->env, is_newer(format) ? VKF_ERROR_UNSUPPORTED : VKF_ERROR_FORMAT,
             "%s: expected the format \"%s\", found \"%.60s\"", source, FORMAT, format);
  VKF_TRY(vkf_file_json_get_array(vkf_file_json_root(json), "devices", &devices));
  for (size_t i = 0; i < vkf_file_json_count(devices); i++)
    VKF_TRY(read_device(&read, source, vkf_file_json_at(devices, i)));
  for (size_t s = 0; s < read.n_sections; s++) {
    const vkf_tuned_section *section = &read.sections[s];
    for (size_t i = 0; i < section->n_checks; i++)
      VKF_TRY(vkf_tune_file_check(file, &section->key, &section->checks[i]));
    for (size_t i = 0; i < section->n_entries; i++)
      VKF_TRY(vkf_tune_file_add(file, &section->key, &section->entries[i]));
  }
done:
  vkf_tune_file_finish(&read);
  vkf_file_json_destroy(&json);
  return st;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *section_json(const vkf_tuned_section *s) {
  const vkf_tuned_key *k = &s->key;
  char table[17];
  json_t *checks = json_array(), *times = json_array();
  bool failed = false;
  snprintf(table, sizeof table, "%016llx", (unsigned long long)k->table);
  for (size_t i = 0; i < s->n_checks; i++)
    failed |= json_array_append_new(checks, json_pack("{s:s, s:s}", "check", s->checks[i].check, "found",
                                                      vkf_json_text(s->checks[i].found))) != 0;
  for (size_t i = 0; i < s->n_entries; i++) {
    const vkf_tuned_entry *e = &s->entries[i];
    failed |=
        json_array_append_new(times, json_pack("{s:s, s:s, s:I, s:s, s:o*}", "problem", e->problem, "kernel", e->kernel,
                                               "ns", (json_int_t)e->ns, "by", e->probed ? "probe" : "tune",
                                               "reproducible", e->reproducible ? json_true() : NULL)) != 0;
  }
  json_t *json =
      json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:o, s:o}", "device", vkf_json_text(k->device),
                "uuid", k->uuid, "vendor_id", (json_int_t)k->vendor_id, "driver_id", (json_int_t)k->driver_id,
                "driver_version", (json_int_t)k->driver_version, "subgroup_size", (json_int_t)k->subgroup_size, "table",
                table, "cpu", vkf_json_text(k->cpu), "threads", (json_int_t)k->threads, "vector_bits",
                (json_int_t)k->vector_bits, "checks", checks, "times", times);
  if (!failed) return json;
  json_decref(json);
  return NULL;
}

vkf_status vkf_tune_file_print(const vkf_tuned_file *file, vkf_text *out) {
  json_t *devices = json_array();
  bool failed = false;
  for (size_t i = 0; i < file->n_sections; i++)
    failed |= json_array_append_new(devices, section_json(&file->sections[i])) != 0;
  json_t *json = json_pack("{s:s, s:o}", "format", FORMAT, "devices", devices);
  vkf_json_append(out, json, JSON_INDENT(1));
  vkf_text_printf(out, "\n");
  out->failed |= failed;
  return vkf_text_status(out);
}
