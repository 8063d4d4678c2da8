/* forms: kernels in a form that a driver made of their SPIR-V, as bytes, kept from one device to a later one.
 *
 * Owns the bytes. Refuses a file of another layout or one that says more than it has. Knows nothing of Vulkan: whether
 * the driver takes a form is the driver's to say. Invariant: a key is there once, and the most recently used is first.
 * One thread at a time uses a list.
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
  bool is_open; /* what is made from now on is kept */
  bool has_new; /* a form that did not come from bytes */
} vkf_gpu_forms;

/* The forms of bytes that vkf_gpu_forms_take() gave; none if bytes is NULL or damaged. Of an empty list; finish it in
 * every case. */
vkf_status vkf_gpu_forms_open(vkf_gpu_forms *forms, vkf_env *env, const void *bytes, size_t n);
void vkf_gpu_forms_finish(vkf_gpu_forms *forms, vkf_env *env);
/* NULL: there is none. It is valid until it is replaced. */
const vkf_gpu_form *vkf_gpu_forms_find(vkf_gpu_forms *forms, uint64_t key);
/* Room for the n bytes of a form, to be filled in; replaces one with the same key. NULL without memory. */
unsigned char *vkf_gpu_forms_add(vkf_gpu_forms *forms, vkf_env *env, uint64_t key, size_t n);
/* All, as bytes from vkf_env_alloc, but the least recently used of those that take more than 8 MiB. *bytes NULL: there
 * is no new one. */
vkf_status vkf_gpu_forms_take(const vkf_gpu_forms *forms, vkf_env *env, void **bytes, size_t *n);

#endif
