/* tuned: see tuned.h. The file in the cache folder is read, changed and written under its lock. */
#include "tune/tuned.h"

#include <math.h>
#include <stdio.h>

#include "file/map.h"
#include "file/write.h"
#include "tune/cache.h"
#include "tune/problem.h"
#include "vkop/vkop.h"

#define FILE_NAME "tuned.json"

/* ---- which times count ------------------------------------------------------------------------------------------- */

/* Ranks a source of times: larger is better; 0: not used. Of one source, times of the device's own mode are better. */
static uint32_t rank_source(vkf_tuned_match match, const vkf_tuned_entry *entry, bool reproducible) {
  static const uint32_t tuned[] = {
      [VKF_MATCH_NONE] = 0, [VKF_MATCH_VENDOR] = 2, [VKF_MATCH_ARCHITECTURE] = 6, [VKF_MATCH_DEVICE] = 8};
  if (entry->reproducible && !reproducible) return 0;
  const uint32_t source = !entry->probed ? tuned[match] : match == VKF_MATCH_DEVICE ? 4 : 0;
  return source + (source && entry->reproducible);
}

static const char *source_name(vkf_tuned_match match, bool probed, const char *device, vkf_arena *arena) {
  if (match == VKF_MATCH_DEVICE) return probed ? "this device, by a short probe" : "this device";
  return vkf_arena_printf(arena, "%s, of the same %s", device,
                          match == VKF_MATCH_ARCHITECTURE ? "architecture" : "vendor");
}

/* Converts an entry to a row. Returns false if the entry names a problem or a kernel that this library does not
 * have. */
static bool to_row(vkf_env *env, const vkf_tuned_entry *entry, const vkf_caps *caps, vkf_tuned_time *out) {
  vkf_case c;
  bool ok = vkf_tune_problem_parse(env, entry->problem, &c) == VKF_OK;
  vkf_env_clear(env);
  out->variant = ok ? vkf_kern_find(entry->kernel) : NULL;
  if (!out->variant || out->variant->op != c.op) return false;
  vkf_tune_problem_of(&c, caps, (vkf_tune_mode){0}, NULL, out->variant, &out->problem);
  out->ns = (double)entry->ns;
  return true;
}

vkf_status vkf_tune_resolve(const vkf_tuned_file *file, const vkf_tuned_key *key, const vkf_caps *caps,
                            bool reproducible, vkf_arena *arena, vkf_tuned *out) {
  uint32_t best[VKF_OP_COUNT] = {0}, *worths = NULL;
  size_t n = 0, n_rows = 0;
  *out = (vkf_tuned){0};
  for (size_t s = 0; s < file->n_sections; s++) n += file->sections[s].n_entries;
  vkf_tuned_time *rows = vkf_arena_alloc(arena, VKF_MAX(n, 1), sizeof *rows);
  worths = vkf_arena_alloc(arena, VKF_MAX(n, 1), sizeof *worths);
  if (!rows || !worths) return VKF_ERROR_MEMORY;
  for (size_t s = 0; s < file->n_sections; s++) {
    const vkf_tuned_section *section = &file->sections[s];
    const vkf_tuned_match match = vkf_tune_match(&section->key, key);
    for (size_t i = 0; match && i < section->n_entries; i++) {
      const vkf_tuned_entry *entry = &section->entries[i];
      const uint32_t w = rank_source(match, entry, reproducible);
      vkf_tuned_time *row = &rows[n_rows];
      if (!w || !to_row(file->env, entry, caps, row)) continue;
      row->probed = entry->probed;
      row->from = source_name(match, entry->probed, section->key.device, arena);
      if (!row->from) return VKF_ERROR_MEMORY;
      best[row->problem.op] = VKF_MAX(best[row->problem.op], w);
      worths[n_rows++] = w;
    }
  }
  for (size_t i = 0; i < n_rows; i++) /* for each op, the rows of its best source */
    if (worths[i] == best[rows[i].problem.op]) rows[out->n_times++] = rows[i];
  out->times = rows;
  return VKF_OK;
}

vkf_status vkf_tune_use(vkf_tuning *t) {
  vkf_vkop_backend_tune(t->backend, NULL);
  vkf_arena_finish(&t->arena);
  vkf_arena_init(&t->arena, t->env);
  VKF_CALL(vkf_tune_resolve(&t->file, &t->key, vkf_gpu_device_caps(t->gpu), t->reproducible, &t->arena, &t->rows));
  vkf_vkop_backend_tune(t->backend, &t->rows);
  return VKF_OK;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Adds what the cache holds to the device's rows. */
static void read_cache(vkf_tuning *t) {
  vkf_env *env = t->env;
  char *bytes = NULL;
  size_t n_bytes = 0;
  if (!t->cache_folder) return;
  vkf_tune_cache_read(env, t->cache_folder, FILE_NAME, &bytes, &n_bytes);
  const vkf_status st = bytes ? vkf_tune_file_parse(&t->file, FILE_NAME, bytes, n_bytes) : VKF_OK;
  t->is_newer = st == VKF_ERROR_UNSUPPORTED;
  if (st && !t->has_warned)
    vkf_env_log(env, VKF_LOG_WARNING, "%s: tuned times are not used%s: %s", t->cache_folder,
                t->is_newer ? ", and none are kept" : "", env->message);
  t->has_warned |= st != VKF_OK;
  if (st) vkf_env_clear(env);
  vkf_env_free(env, bytes);
}

/* Returns whether the file was written. */
static bool write_cache(vkf_tuning *t) {
  vkf_env *env = t->env;
  bool is_kept = false;
  vkf_text text;
  vkf_text_init(&text, env);
  vkf_tune_file_prune(&t->file, &t->key);
  if (vkf_tune_file_print(&t->file, &text) == VKF_OK)
    is_kept = vkf_tune_cache_write(env, t->cache_folder, FILE_NAME, text.data, text.size);
  snprintf(t->unkept, sizeof t->unkept, "%.255s", is_kept ? "" : env->message);
  vkf_env_clear(env);
  vkf_text_finish(&text);
  return is_kept;
}

/* Times and findings of one device. */
typedef struct news {
  const vkf_tuned_key *key;
  const vkf_tuned_entry *entries;
  const vkf_tuned_check *checks;
  size_t n_entries, n_checks;
} news;

/* Adds them to what the cache has now, which another process may have changed, and writes both. *is_kept (is_kept may
 * be NULL): whether the cache was written. */
static vkf_status store(vkf_tuning *t, const news *n, bool *is_kept) {
  vkf_status st = VKF_OK;
  bool is_written = false;
  const char *folder = t->cache_folder;
  vkf_tuned_file *file = &t->file;
  int lock = folder ? vkf_tune_cache_lock(t->env, folder) : -1;
  read_cache(t);
  for (size_t i = 0; i < n->n_checks; i++) VKF_TRY(vkf_tune_file_check(file, n->key, &n->checks[i]));
  for (size_t i = 0; i < n->n_entries; i++) VKF_TRY(vkf_tune_file_add(file, n->key, &n->entries[i]));
  if (folder && !t->is_newer) is_written = write_cache(t);
done:
  if (is_kept) *is_kept = is_written;
  vkf_tune_cache_unlock(lock);
  return st;
}

static vkf_status fail_unkept(const vkf_tuning *t) {
  return vkf_env_fail(t->env, VKF_ERROR_FILE,
                      "expected a cache folder that measured times can be kept in, found %s%s%s%s",
                      t->cache_folder     ? t->cache_folder
                      : t->refused_folder ? t->refused_folder
                                          : "none",
                      t->is_newer         ? ", whose tuned.json is of a later version"
                      : t->cache_folder   ? ", which cannot be written"
                      : t->refused_folder ? ", which is no folder of this user alone"
                                          : "",
                      t->unkept[0] ? ": " : "", t->unkept);
}

/* ---- doors ------------------------------------------------------------------------------------------------------- */

void vkf_tune_open(vkf_tuning *t) {
  vkf_arena_init(&t->arena, t->env);
  vkf_tune_file_init(&t->file, t->env);
  vkf_tune_key(vkf_gpu_device_caps(t->gpu), &t->key);
  read_cache(t);
}

void vkf_tune_close(vkf_tuning *t) {
  if (!t->arena.env) return;
  vkf_tune_file_finish(&t->file);
  vkf_arena_finish(&t->arena);
}

vkf_status vkf_tune_keep_times(vkf_tuning *t, const vkf_tuned_entry *entries, size_t n) {
  return store(t, &(news){.key = &t->key, .entries = entries, .n_entries = n}, NULL);
}

vkf_status vkf_tune_keep_checks(vkf_tuning *t, const vkf_tuned_check *checks, size_t n) {
  return store(t, &(news){.key = &t->key, .checks = checks, .n_checks = n}, NULL);
}

const char *vkf_tune_found(const vkf_tuning *t, const char *check) {
  return vkf_tune_file_found(&t->file, &t->key, check);
}

vkf_status vkf_tune_store(vkf_tuning *t, const vkf_kernel_time *times, size_t n) {
  vkf_status st = VKF_OK;
  vkf_env *env = t->env;
  vkf_tuned_entry *entries = NULL;
  vkf_case c;
  bool is_kept = false;
  entries = vkf_env_alloc(env, n, sizeof *entries);
  if (!entries) VKF_TRY(VKF_ERROR_MEMORY);
  for (size_t i = 0; i < n; i++) {
    VKF_TRY(vkf_tune_problem_parse(env, times[i].problem, &c));
    const vkf_variant *variant = times[i].kernel ? vkf_kern_find(times[i].kernel) : NULL;
    if (!variant || variant->op != c.op || !(times[i].ns >= 1) || !isfinite(times[i].ns))
      VKF_FAIL(env, VKF_ERROR_ARGUMENT, "%s: expected a kernel of its op and at least 1 ns, found %s and %g",
               times[i].problem, times[i].kernel ? times[i].kernel : "NULL", times[i].ns);
    snprintf(entries[i].problem, sizeof entries[i].problem, "%s", times[i].problem);
    snprintf(entries[i].kernel, sizeof entries[i].kernel, "%s", times[i].kernel);
    entries[i].ns = (uint64_t)times[i].ns;
    entries[i].reproducible = t->reproducible;
  }
  VKF_TRY(store(t, &(news){.key = &t->key, .entries = entries, .n_entries = n}, &is_kept));
  VKF_TRY(vkf_tune_use(t));
  if (!is_kept) VKF_TRY(fail_unkept(t));
done:
  vkf_env_free(env, entries);
  return st;
}

vkf_status vkf_tune_export(vkf_tuning *t, const char *path) {
  vkf_status st = VKF_OK;
  vkf_env *env = t->env;
  vkf_tuned_file one;
  vkf_text text;
  bool is_tuned = false; /* times of the probe need no export */
  vkf_text_init(&text, env);
  vkf_tune_file_init(&one, env);
  for (size_t s = 0; s < t->file.n_sections; s++) {
    const vkf_tuned_section *section = &t->file.sections[s];
    if (vkf_tune_match(&section->key, &t->key) != VKF_MATCH_DEVICE) continue;
    for (size_t i = 0; i < section->n_entries; i++) {
      is_tuned |= !section->entries[i].probed;
      VKF_TRY(vkf_tune_file_add(&one, &section->key, &section->entries[i]));
    }
  }
  if (!is_tuned)
    VKF_FAIL(env, VKF_ERROR_ARGUMENT, "%s: nothing was measured on %s yet (vkformer tune)", path, t->key.device);
  VKF_TRY(vkf_tune_file_print(&one, &text));
  VKF_TRY(vkf_file_write(env, path, &(vkf_file_part){text.data, text.size}, 1));
done:
  vkf_tune_file_finish(&one);
  vkf_text_finish(&text);
  return st;
}

vkf_status vkf_tune_import(vkf_tuning *t, const char *path, size_t *n_times) {
  vkf_status st = VKF_OK;
  vkf_env *env = t->env;
  vkf_file_map map = {0};
  vkf_tuned_file given;
  size_t n = 0;
  vkf_tune_file_init(&given, env);
  bool are_kept = true, is_kept = true;
  VKF_TRY(vkf_file_map_read(env, path, &map));
  VKF_TRY(vkf_tune_file_parse(&given, path, (const char *)map.data, map.bytes));
  for (size_t s = 0; s < given.n_sections; s++) {
    if (given.sections[s].key.table != t->key.table) {
      vkf_env_log(env, VKF_LOG_WARNING,
                  "%s: times of %s are left out: they belong to other kernels than this library's", path,
                  given.sections[s].key.device);
      continue;
    }
    VKF_TRY(store(t,
                  &(news){.key = &given.sections[s].key,
                          .entries = given.sections[s].entries,
                          .n_entries = given.sections[s].n_entries},
                  &is_kept));
    are_kept &= is_kept;
    n += given.sections[s].n_entries;
  }
  VKF_TRY(vkf_tune_use(t));
  if (!are_kept) VKF_TRY(fail_unkept(t));
done:
  if (n_times) *n_times = n;
  vkf_tune_file_finish(&given);
  vkf_file_map_close(&map);
  return st;
}
