/* forms: kernels in a form that a driver made of their SPIR-V, as bytes that are kept from one device to a later one.
 *
 * Owns the bytes. Ignores bytes of another layout, and truncated forms. Knows nothing of Vulkan: the driver decides
 * whether it accepts a form. Invariant: each key is there once, and the most recently used is first. A list is used by
 * one thread at a time.
 */
#ifndef VKF_GPU_FORMS_H
#define VKF_GPU_FORMS_H

#include "base/base.h"

typedef struct vkf_gpu_form {
  struct vkf_gpu_form *next;
  uint64_t key, n;
  _Alignas(16) unsigned char bytes[]; /* [n] */
} vkf_gpu_form;

typedef struct vkf_gpu_forms {
  vkf_gpu_form *first;
  bool is_open; /* kernels made from now on are kept */
  bool has_new; /* has a form that did not come from bytes */
} vkf_gpu_forms;

/* Opens a list with the forms in bytes that vkf_gpu_forms_take() gave; none if bytes is NULL or damaged. The list was
 * empty; finish it even if this fails. */
vkf_status vkf_gpu_forms_open(vkf_gpu_forms *forms, vkf_env *env, const void *bytes, size_t n);
void vkf_gpu_forms_finish(vkf_gpu_forms *forms, vkf_env *env);
/* Finds a form, which is valid until it is replaced; NULL: there is none. */
const vkf_gpu_form *vkf_gpu_forms_find(vkf_gpu_forms *forms, uint64_t key);
/* Adds a form, or replaces the one with this key. Returns room for its n bytes, to be filled in; NULL: out of
 * memory. */
unsigned char *vkf_gpu_forms_add(vkf_gpu_forms *forms, vkf_env *env, uint64_t key, size_t n);
/* Sets *bytes to all forms, in memory of vkf_env_alloc, without the least recently used beyond 8 MiB; to NULL if none
 * is new. */
vkf_status vkf_gpu_forms_take(const vkf_gpu_forms *forms, vkf_env *env, void **bytes, size_t *n);

#endif
