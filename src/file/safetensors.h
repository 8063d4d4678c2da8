/* safetensors: named arrays in one file or in the shards of a model folder.
 *
 * Format: 8 bytes header length (little-endian), that many bytes of JSON {name: {dtype, shape, data_offsets}}, then the
 * data (github.com/huggingface/safetensors). Everything is validated when the file is opened. Refuses headers over
 * 100 MB, offsets that are outside the data or do not fit the shape, tensors that overlap or leave gaps, duplicate
 * names, tensors that differ between two shards, and an index with a tensor that no shard has. Invariant: a tensor that
 * can be found can be read.
 */
#ifndef VKF_FILE_SAFETENSORS_H
#define VKF_FILE_SAFETENSORS_H

#include "file/source.h"

/* Owned by the vkf_file_tensors that it comes from. */
typedef struct vkf_file_tensor {
  const char *name;
  const char *file; /* path of the file that holds it, for messages */
  vkf_dtype dtype;
  size_t rank;
  size_t shape[VKF_MAX_RANK];
  size_t n_elements;
  const void *data; /* row-major, little-endian; may be unaligned */
  size_t bytes;
} vkf_file_tensor;

typedef struct vkf_file_tensors vkf_file_tensors;

/* Opens a .safetensors file, an .index.json file, or a folder with model.safetensors or model.safetensors.index.json
 * (the first one wins). */
vkf_status vkf_file_tensors_open(vkf_env *env, const char *path, vkf_file_tensors **out);
/* Opens model.safetensors or model.safetensors.index.json of a source. Files in memory must outlive the tensors. */
vkf_status vkf_file_tensors_open_source(vkf_env *env, const vkf_file_source *source, vkf_file_tensors **out);
/* Opens one file of a source by its name there. */
vkf_status vkf_file_tensors_open_file(vkf_env *env, const vkf_file_source *source, const char *file,
                                      vkf_file_tensors **out);
/* Calls vkf_file_map_rest() for its files. */
void vkf_file_tensors_rest(const vkf_file_tensors *tensors);
void vkf_file_tensors_close(vkf_file_tensors **tensors);

size_t vkf_file_tensors_count(const vkf_file_tensors *tensors);
/* Returns a tensor in the order of names (strcmp); index < count. */
const vkf_file_tensor *vkf_file_tensors_at(const vkf_file_tensors *tensors, size_t index);
/* Returns NULL if there is none. */
const vkf_file_tensor *vkf_file_tensors_find(const vkf_file_tensors *tensors, const char *name);
/* Returns VKF_ERROR_FORMAT, with the name and the path, if there is none. */
vkf_status vkf_file_tensors_get(const vkf_file_tensors *tensors, const char *name, const vkf_file_tensor **out);
/* The same; also returns VKF_ERROR_FORMAT, with both shapes, if the tensor has another rank or shape. */
vkf_status vkf_file_tensors_get_shaped(const vkf_file_tensors *tensors, const char *name, size_t rank,
                                       const size_t *shape, const vkf_file_tensor **out);
/* Returns the bytes of all files together. */
uint64_t vkf_file_tensors_file_bytes(const vkf_file_tensors *tensors);

/* Appends a shape as "[2,3]", or "[]" for a scalar. */
void vkf_file_shape_print(vkf_text *out, size_t rank, const size_t *shape);

/* Converts n numbers at any address from F32, F16, BF16 (exact) or F64 (to nearest); returns false for other types. */
bool vkf_file_numbers_to_f32(vkf_dtype dtype, const void *data, size_t n, float *out);

/* Replaces the file at `path` as a whole (file/write.h). Header entries and data are in the order given, without
 * gaps; the data start at a multiple of 8. The same arrays give the same bytes. Returns VKF_ERROR_ARGUMENT for a
 * missing, reserved or repeated name, an unknown dtype, or a rank over VKF_MAX_RANK. */
vkf_status vkf_file_tensors_write(vkf_env *env, const char *path, const vkf_array *arrays, size_t n);

/* Writes n elements of array `index`, from `first` on, to dst. */
typedef vkf_status (*vkf_file_fill_fn)(void *user, size_t index, size_t first, size_t n, void *dst);
/* The same for arrays that are not in memory: ignores their data and calls `fill` for them in order, for up to 1 MiB at
 * a time. If `fill` fails, returns its status. */
vkf_status vkf_file_tensors_write_filled(vkf_env *env, const char *path, const vkf_array *arrays, size_t n,
                                         vkf_file_fill_fn fill, void *user);

#endif
