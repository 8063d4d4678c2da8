/* forms: see forms.h. The bytes are a header, then for each form its key, its number of bytes and those bytes. */
#include "gpu/forms.h"

#include <string.h>

#define MAX_BYTES (UINT64_C(8) << 20) /* a model has about fifteen kernels of 50 KB */

static const char magic[8] = "vkforms";

typedef struct entry {
  uint64_t key, n;
} entry;

static vkf_gpu_form *remove_of(vkf_gpu_forms *f, uint64_t key) {
  for (vkf_gpu_form **at = &f->first; *at; at = &(*at)->next) {
    if ((*at)->key != key) continue;
    vkf_gpu_form *found = *at;
    *at = found->next;
    return found;
  }
  return NULL;
}

static vkf_gpu_form *put_first(vkf_gpu_forms *f, vkf_gpu_form *form) {
  form->next = f->first;
  f->first = form;
  return form;
}

vkf_status vkf_gpu_forms_open(vkf_gpu_forms *f, vkf_env *env, const void *bytes, size_t n) {
  const char *at = bytes, *end = at + n;
  vkf_gpu_form **last = &f->first;
  entry e;
  *f = (vkf_gpu_forms){.is_open = true};
  if (!bytes || n < sizeof magic || memcmp(at, magic, sizeof magic) != 0) return VKF_OK;
  for (at += sizeof magic; (size_t)(end - at) >= sizeof e; at += e.n) {
    memcpy(&e, at, sizeof e);
    at += sizeof e;
    if (e.n > (uint64_t)(end - at)) break;
    vkf_gpu_form *form = vkf_env_alloc(env, 1, sizeof *form + e.n);
    if (!form) return VKF_ERROR_MEMORY;
    form->key = e.key;
    form->n = e.n;
    memcpy(form->bytes, at, e.n);
    *last = form;
    last = &form->next;
  }
  return VKF_OK;
}

void vkf_gpu_forms_finish(vkf_gpu_forms *f, vkf_env *env) {
  while (f->first) {
    vkf_gpu_form *next = f->first->next;
    vkf_env_free(env, f->first);
    f->first = next;
  }
}

const vkf_gpu_form *vkf_gpu_forms_find(vkf_gpu_forms *f, uint64_t key) {
  vkf_gpu_form *found = remove_of(f, key);
  return found ? put_first(f, found) : NULL;
}

unsigned char *vkf_gpu_forms_add(vkf_gpu_forms *f, vkf_env *env, uint64_t key, size_t n) {
  vkf_gpu_form *form = vkf_env_alloc(env, 1, sizeof *form + n);
  if (!form) return NULL;
  vkf_env_free(env, remove_of(f, key));
  form->key = key;
  form->n = n;
  f->has_new = true;
  return put_first(f, form)->bytes;
}

vkf_status vkf_gpu_forms_take(const vkf_gpu_forms *f, vkf_env *env, void **bytes, size_t *n) {
  uint64_t all = sizeof magic;
  const vkf_gpu_form *end = f->first;
  *bytes = NULL;
  *n = 0;
  if (!f->has_new) return VKF_OK;
  for (; end && all + sizeof(entry) + end->n <= MAX_BYTES; end = end->next) all += sizeof(entry) + end->n;
  char *at = vkf_env_alloc(env, all, 1);
  if (!at) return VKF_ERROR_MEMORY;
  *bytes = at;
  *n = all;
  memcpy(at, magic, sizeof magic);
  at += sizeof magic;
  for (const vkf_gpu_form *form = f->first; form != end; form = form->next) {
    const entry e = {form->key, form->n};
    memcpy(at, &e, sizeof e);
    memcpy(at + sizeof e, form->bytes, form->n);
    at += sizeof e + form->n;
  }
  return VKF_OK;
}
