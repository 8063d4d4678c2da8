/* caps: facts about a device, without any Vulkan type: what kernel selection and planning may know.
 *
 * Owns nothing. The room gpu fills it from a physical device; tests of other rooms invent such structs by hand.
 * Invariant: a fact says what may be used. A feature that the device has but that is not enabled on it is false here.
 */
#ifndef VKF_GPU_CAPS_H
#define VKF_GPU_CAPS_H

#include <stdbool.h>
#include <stdint.h>

#include <vkformer/vkformer.h>

/* Values of vkf_caps.driver_id that other rooms use (VkDriverId, an enumeration that only grows). */
#define VKF_DRIVER_ID_SWIFTSHADER 10
#define VKF_DRIVER_ID_LAVAPIPE 13
#define VKF_DRIVER_ID_V3DV 19

/* A cooperative matrix product: [m,k] times [k,n]. */
typedef struct vkf_matrix_shape {
  uint32_t m, n, k;
} vkf_matrix_shape;
#define VKF_MAX_MATRIX_SHAPES 8

typedef struct vkf_caps {
  /* Identity. */
  vkf_device_kind kind;
  bool is_cpu; /* kind == VKF_DEVICE_CPU */
  char device_name[256], driver_name[256], driver_info[256];
  uint8_t uuid[16], pipeline_cache_uuid[16]; /* the second changes when the driver compiles kernels differently */
  uint32_t vendor_id, device_id, driver_id, driver_version, api_version; /* as Vulkan encodes them */
  /* Vector width of a CPU driver, from a name such as "llvmpipe (LLVM 15.0.6, 256 bits)"; 0: unknown. */
  uint32_t vector_bits;

  /* A CPU driver that uses one scalar load if all lanes load from the same address. */
  bool uniform_loads;

  /* Arrays that a loop indexes stay in registers. If they do not, kernels are made with their loops written out. */
  bool indexed_registers;

  /* Kernels load cooperative matrices while others are multiplied, across barriers. NVIDIA's GPUs gain; AMD's compiler
   * copies each such matrix, number by number. */
  bool matrices_ahead;

  /* Memory. */
  uint64_t memory_bytes;             /* the largest device-local heap; on software drivers the host's memory */
  uint64_t max_allocation_bytes;     /* of one buffer */
  uint64_t max_storage_range_bytes;  /* of one storage binding */
  uint32_t storage_offset_alignment; /* of a storage binding's offset, bytes */
  uint32_t texel_offset_alignment;   /* of a texel binding's offset, bytes */
  uint32_t max_texel_elements;       /* of one texel binding */
  bool host_visible;                 /* device memory is mapped: weights are written without a copy */

  /* One dispatch. */
  uint32_t max_shared_bytes;
  uint32_t max_invocations;
  uint32_t max_workgroup_size[3];
  uint32_t max_workgroup_count[3];
  uint32_t max_storage_bindings; /* per pipeline */
  uint32_t max_texel_bindings;   /* per pipeline */
  uint32_t max_push_bytes;
  /* Turns of all loops of an invocation together (kern/family.h), after which the driver silently ends every loop;
   * UINT32_MAX: no limit is known. */
  uint32_t max_loop_turns;
  /* Registers of 32 bits that an invocation has besides those for addresses; 0: unknown. */
  uint32_t n_registers;
  /* The same for all lanes of a subgroup together, if lanes of a larger subgroup have fewer; 0: they have as many. */
  uint32_t subgroup_registers;
  /* Parts with shared memory of their own: multiprocessors, compute units, shader cores; 0: unknown. */
  uint32_t n_cores;

  /* Subgroups in compute. Without size control a kernel may only rely on subgroup_size if subgroup_min == subgroup_max.
   */
  uint32_t subgroup_size;              /* the driver's default */
  uint32_t subgroup_min, subgroup_max; /* both are subgroup_size if the driver does not say */
  bool subgroup_size_control;          /* a pipeline may require a size in [subgroup_min, subgroup_max] */
  bool subgroup_full;                  /* a pipeline may require full subgroups */
  bool subgroup_ballot, subgroup_shuffle, subgroup_arithmetic;

  /* Features. */
  bool float16, int8, int16, int64; /* arithmetic */
  bool storage16, storage8;         /* 16-bit and 8-bit members of storage buffers */
  bool buffer_address;              /* buffer references */
  bool integer_dot;                 /* products of four 8-bit numbers in a word, added up */
  bool integer_dot_fast;            /* the device has an instruction for them */
  bool coopmat;  /* cooperative matrices of a subgroup, f16 times f16 added up in float32, in the shapes below */
  bool coopmat2; /* and matrices of a whole workgroup, loaded by the driver (VK_NV_cooperative_matrix2) */
  bool coopmat_left_out; /* the device has such matrices, but this build cannot use any */
  uint32_t n_matrix_shapes;
  vkf_matrix_shape matrix_shapes[VKF_MAX_MATRIX_SHAPES];
  bool timestamps;
  float timestamp_ns; /* nanoseconds per tick; 0 without timestamps */
  uint32_t timestamp_bits;
  bool shader_objects;      /* a CPU driver that exports and imports kernels in its compiled form */
  bool pipeline_statistics; /* the driver reports registers, spills and instructions of a kernel */

  uint32_t failed_checks; /* bits, 1 << vkf_check (kern/checks.h); the facts that they check are false or 0 */
} vkf_caps;

#endif
