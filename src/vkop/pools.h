/* pools: regions of device memory of one kind, in as many allocations as the device asks for.
 *
 * Offsets are of one space that is cut at every multiple of `most`: each piece is an allocation. Pools may borrow: then
 * their regions are in the buffers of other pools, which are as large as the largest borrower needs. Invariant: no
 * region crosses a cut, so a region is in one buffer.
 */
#ifndef VKF_VKOP_POOLS_H
#define VKF_VKOP_POOLS_H

#include "gpu/gpu.h"

/* What regions begin at a multiple of, at least. */
#define VKF_PLACE_ALIGNMENT 256

/* Zeroed is a valid empty one. */
typedef struct vkop_pools {
  struct vkop_pools *lender; /* NULL: the buffers are its own */
  vkf_gpu_device *device;
  const char *name;
  vkf_gpu_memory memory;
  uint64_t most, end;
  uint64_t *used; /* [n]: bytes of each that are regions', from its begin */
  size_t n, capacity;
  vkf_gpu_buffer **buffers; /* [n_buffers]; NULL where a piece has no region */
  size_t n_buffers, buffers_capacity;
  uint64_t n_made; /* buffers so far: what was recorded with earlier ones is to be recorded again */
} vkop_pools;

/* A region. Its buffer may be another one after vkf_vkop_pools_make() of any pools that borrow from the same lender. */
typedef struct vkop_place {
  const vkop_pools *pools; /* that have the buffer */
  size_t piece;
  uint64_t offset, bytes; /* with the guard */
  uint64_t scales_offset; /* of a weight: from `offset`, where the scales of its rows begin */
} vkop_place;

/* What one allocation may have, in whole alignments. */
uint64_t vkf_vkop_pools_limit(const vkf_gpu_device *device);
/* Empty ones. lender: of the same memory and `most`; NULL: the buffers are its own. most: the limit or less, a multiple
 * of VKF_PLACE_ALIGNMENT. name: static. */
void vkf_vkop_pools_init(vkop_pools *pools, vkop_pools *lender, vkf_gpu_device *device, const char *name,
                         vkf_gpu_memory memory, uint64_t most);
void vkf_vkop_pools_finish(vkop_pools *pools);
/* A region behind those that are there; bytes: a multiple of VKF_PLACE_ALIGNMENT, at most `most`. */
vkf_status vkf_vkop_pools_add(vkop_pools *pools, uint64_t bytes, uint64_t *offset);
/* A region where the caller wants it; it crosses no cut. */
vkf_status vkf_vkop_pools_put(vkop_pools *pools, uint64_t offset, uint64_t bytes);
/* All regions are known: the allocations that are not there yet. A buffer of a lender that is too small is replaced,
 * and what was in it is lost; after a failure there is none. */
vkf_status vkf_vkop_pools_make(vkop_pools *pools);
/* Instead of vkf_vkop_pools_make(), for pools of weights with the same regions as `of`: buffers in the same memory.
 * *shared: false, with none made, where that cannot be. */
vkf_status vkf_vkop_pools_share(vkop_pools *pools, const vkop_pools *of, bool *shared);
/* From an offset of this space to a piece and the offset there. */
void vkf_vkop_pools_find(const vkop_pools *pools, vkop_place *place);
vkf_gpu_buffer *vkf_vkop_place_buffer(const vkop_place *place);
vkf_status vkf_vkop_pools_fill(const vkop_pools *pools, uint32_t word);
/* What its own buffers hold; 0 where it borrows. */
uint64_t vkf_vkop_pools_bytes(const vkop_pools *pools);

#endif
