/* pools: regions of device memory of one kind, in as many allocations as the device's limit makes necessary.
 *
 * Offsets belong to one space that is cut at every multiple of `most`; each piece is an allocation. Pools may borrow:
 * then their regions are in the buffers of other pools, which are as large as the largest borrower needs. Invariant: no
 * region crosses a cut, so a region is in one buffer.
 */
#ifndef VKF_VKOP_POOLS_H
#define VKF_VKOP_POOLS_H

#include "gpu/gpu.h"

/* The least alignment of a region. */
#define VKF_PLACE_ALIGNMENT 256

/* A zeroed struct is valid and empty. */
typedef struct vkop_pools {
  struct vkop_pools *lender; /* NULL: the buffers are its own */
  vkf_gpu_device *device;
  const char *name;
  vkf_gpu_memory memory;
  uint64_t most, end;
  uint64_t *used; /* [n]: bytes of each piece up to the end of its last region */
  size_t n, capacity;
  vkf_gpu_buffer **buffers; /* [n_buffers]; NULL where a piece has no region */
  size_t n_buffers, buffers_capacity;
  uint64_t n_made; /* buffers made so far; what was recorded with earlier ones must be recorded again */
} vkop_pools;

/* A region. vkf_vkop_pools_make() for any borrower of the same lender may replace its buffer. */
typedef struct vkop_place {
  const vkop_pools *pools; /* which own the buffer */
  size_t piece;
  uint64_t offset, bytes; /* with the guard */
  uint64_t scales_offset; /* of a weight: where the scales of its rows begin, counted from `offset` */
} vkop_place;

/* Returns how many bytes one allocation may have, a multiple of VKF_PLACE_ALIGNMENT. */
uint64_t vkf_vkop_pools_limit(const vkf_gpu_device *device);
/* Makes empty pools. lender: pools of the same memory and `most`; NULL: the buffers are their own. most: the limit or
 * less, a multiple of VKF_PLACE_ALIGNMENT. name: static. */
void vkf_vkop_pools_init(vkop_pools *pools, vkop_pools *lender, vkf_gpu_device *device, const char *name,
                         vkf_gpu_memory memory, uint64_t most);
void vkf_vkop_pools_finish(vkop_pools *pools);
/* Adds a region behind the others; bytes: a multiple of VKF_PLACE_ALIGNMENT, at most `most`. */
vkf_status vkf_vkop_pools_add(vkop_pools *pools, uint64_t bytes, uint64_t *offset);
/* Adds a region at this offset; it must cross no cut. */
vkf_status vkf_vkop_pools_put(vkop_pools *pools, uint64_t offset, uint64_t bytes);
/* Makes the buffers that are missing, when all regions are known. Replaces a lender's buffer that is too small: what
 * was in it is lost, and after a failure there is none. */
vkf_status vkf_vkop_pools_make(vkop_pools *pools);
/* Instead of vkf_vkop_pools_make(), for pools of weights with the same regions as `of`: makes buffers in the same
 * memory. *shared: false if that is impossible; then none is made. */
vkf_status vkf_vkop_pools_share(vkop_pools *pools, const vkop_pools *of, bool *shared);
/* Turns place->offset, an offset of this space, into a piece and the offset in it. */
void vkf_vkop_pools_find(const vkop_pools *pools, vkop_place *place);
vkf_gpu_buffer *vkf_vkop_place_buffer(const vkop_place *place);
vkf_status vkf_vkop_pools_fill(const vkop_pools *pools, uint32_t word);
/* Returns the bytes of its own buffers; 0 if it borrows. */
uint64_t vkf_vkop_pools_bytes(const vkop_pools *pools);

#endif
