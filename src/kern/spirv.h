/* spirv: the compiled shaders, embedded in the library.
 *
 * The build writes the table: a row for each module of the shaders (cmake/shaders.cmake). The data are constant and
 * live as long as the program. A module is missing if the shader compiler does not know a feature that it needs.
 */
#ifndef VKF_KERN_SPIRV_H
#define VKF_KERN_SPIRV_H

#include <stddef.h>
#include <stdint.h>

struct vkf_kern_spirv {
  const char *name;      /* of the module */
  const uint32_t *words; /* SPIR-V in the host's byte order */
  size_t n_words;
};

/* vkf_kern_spirv_count rows, then one whose name is NULL. */
extern const struct vkf_kern_spirv vkf_kern_spirv_table[];
extern const size_t vkf_kern_spirv_count;

/* Finds a module by name in a table such as that one; NULL: it has none. */
const struct vkf_kern_spirv *vkf_kern_spirv_find(const struct vkf_kern_spirv *table, const char *name);

#endif
