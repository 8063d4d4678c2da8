/* tuned_file: tuned times and results of checks of devices, as a JSON file.
 *
 *     {
 *       "format": "vkformer tuned kernels 1",
 *       "devices": [
 *         {"device": "llvmpipe (LLVM 22.1.8, 256 bits)", "uuid": "...", "vendor_id": 65541, "driver_id": 13,
 *          "driver_version": 109060102, "subgroup_size": 8, "table": "0123456789abcdef", "cpu": "AMD EPYC",
 *          "threads": 2, "vector_bits": 256,
 *          "checks": [
 *            {"check": "subgroup_shuffle:8", "found": ""}],
 *          "times": [
 *            {"problem": "matmul:32,512,512", "kernel": "matmul-uniform-m6n2-w8", "ns": 812345, "by": "tune"}]}]
 *     }
 *
 * A check is named together with what its result depends on; `found` is "" if it passed. This file does not know which
 * kernels and checks there are. Invariant: one section per key, one time per problem, kernel and mode, one result per
 * check.
 */
#ifndef VKF_TUNE_TUNED_FILE_H
#define VKF_TUNE_TUNED_FILE_H

#include "base/base.h"
#include "gpu/caps.h"

/* What times depend on. For other devices than CPU drivers, cpu is "" and threads and vector_bits are 0; a CPU driver's
 * UUID is the same on every machine. */
typedef struct vkf_tuned_key {
  char device[256], cpu[128];
  char uuid[33];
  uint32_t vendor_id, driver_id, driver_version, subgroup_size, threads, vector_bits;
  uint64_t table; /* vkf_kern_checksum() */
} vkf_tuned_key;

typedef struct vkf_tuned_entry {
  char problem[64], kernel[96];
  uint64_t ns;
  bool probed;       /* by the short probe at device creation; a tuned time replaces it, never the reverse */
  bool reproducible; /* measured in that mode, in which kernels do more */
} vkf_tuned_entry;

typedef struct vkf_tuned_check {
  char check[64], found[200];
} vkf_tuned_check;

typedef struct vkf_tuned_section {
  vkf_tuned_key key;
  vkf_tuned_check *checks;
  size_t n_checks;
  vkf_tuned_entry *entries;
  size_t n_entries;
} vkf_tuned_section;

typedef struct vkf_tuned_file {
  vkf_env *env;
  vkf_tuned_section *sections;
  size_t n_sections;
} vkf_tuned_file;

/* How well times measured under one key apply to another; larger is better. Times of another table of kernels never
 * apply. */
typedef enum vkf_tuned_match {
  VKF_MATCH_NONE,
  VKF_MATCH_VENDOR,       /* the same maker and driver */
  VKF_MATCH_ARCHITECTURE, /* and the same subgroup size, CPU model and vector width, and on GPUs the same name */
  VKF_MATCH_DEVICE        /* the whole key */
} vkf_tuned_match;
vkf_tuned_match vkf_tune_match(const vkf_tuned_key *measured, const vkf_tuned_key *wanted);

/* Computes the key of a device on this machine. */
void vkf_tune_key(const vkf_caps *caps, vkf_tuned_key *out);

void vkf_tune_file_init(vkf_tuned_file *file, vkf_env *env);
void vkf_tune_file_finish(vkf_tuned_file *file);
/* Adds what the JSON has. Errors, after which nothing was added: VKF_ERROR_FORMAT says what is wrong;
 * VKF_ERROR_UNSUPPORTED: a later version wrote it. */
vkf_status vkf_tune_file_parse(vkf_tuned_file *file, const char *source, const char *bytes, size_t n_bytes);
/* Adds one time. Replaces an older one of the same key, problem, kernel and mode, unless only the older one was
 * tuned. */
vkf_status vkf_tune_file_add(vkf_tuned_file *file, const vkf_tuned_key *key, const vkf_tuned_entry *entry);
/* Adds the result of a check and replaces an older one. */
vkf_status vkf_tune_file_check(vkf_tuned_file *file, const vkf_tuned_key *key, const vkf_tuned_check *check);
/* Returns the result of this check on this very device; NULL: there is none. */
const char *vkf_tune_file_found(const vkf_tuned_file *file, const vkf_tuned_key *key, const char *check);
/* Drops the sections of this key's device with another table, whose times would never be used again. */
void vkf_tune_file_prune(vkf_tuned_file *file, const vkf_tuned_key *key);
vkf_status vkf_tune_file_print(const vkf_tuned_file *file, vkf_text *out);

#endif
