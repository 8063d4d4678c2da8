/* kern: the kernel variants as data, and the pure functions that choose among them.
 *
 * Sees only op and gpu/caps.h, so tests can invent devices. Each row of the one table (variants.c) is a tiling
 * strategy; name, specialization constants, shared bytes, grid and the reason why a variant does not fit are computed
 * from the row. Invariant: picking depends on nothing but its arguments.
 */
#ifndef VKF_KERN_KERN_H
#define VKF_KERN_KERN_H

#include "gpu/caps.h"
#include "op/backend.h"

/* How a [N,K] weight is packed on the device. Chosen once for each weight, at load (vkf_kern_weight_packing). */
typedef enum vkf_weight_layout {
  VKF_LAYOUT_W_ROWS, /* [N][K] */
  VKF_LAYOUT_W_LANE, /* [N/C][K/4][C][4], C columns per group (the device's lane constant), N and K padded with zeros */
  VKF_LAYOUT_W_COLUMNS, /* [N/C][K/P][2][C/2][P], C columns per group, the even ones first, P elements in 32 bits, N and
                           K padded with zeros */
  VKF_LAYOUT_W_COUNT
} vkf_weight_layout;
typedef struct vkf_weight_packing {
  vkf_weight_layout layout;
  uint32_t columns;  /* C; 1 for rows */
  uint32_t k_align;  /* K is padded to a multiple of this (1 for rows) */
  vkf_format format; /* of the elements; scales follow them, one float32 per row of the padded N */
} vkf_weight_packing;

typedef enum vkf_access_kind {
  VKF_ACCESS_STORAGE,
  VKF_ACCESS_ADDRESS,
  VKF_ACCESS_TEXEL,
  VKF_ACCESS_STEP /* in the step buffer, through its binding */
} vkf_access_kind;

/* vkf_order_class (lab.h) says which partial sums make an output element, as a function of K (or of the keys, or of a
 * row's width) alone. ASCENDING: one accumulator, k ascending; rows (norm, log_softmax): VKF_ROW_PARTIALS interleaved
 * accumulators and their tree, for any subgroup size (shaders/lib/partials.glsl). FAST: whatever the variant has. */

/* A list of kernels that may not be picked for a node. */
typedef struct vkf_refusal {
  const struct vkf_variant *variant;
  const struct vkf_refusal *next; /* NULL: the last */
} vkf_refusal;

/* What a node asks of a kernel, at capacity (to pick one) or at actual sizes (to compute its grid). `op` says which
 * member of the union is set. All members but `matmul` and `attention` begin like `rows` and may be read as `rows`. */
typedef struct vkf_problem {
  vkf_op op;
  union {
    struct {
      uint32_t m, n, k;
      bool is_shard; /* the n columns are part of a wider matmul and begin at any column */
      bool is_gated; /* each pair of neighbouring columns becomes one */
    } matmul;
    struct { /* and attention_weights */
      uint32_t batch, queries, keys, key_width, value_width, heads;
      uint32_t kv_heads; /* 0: as many as heads */
    } attention;
    struct {
      uint32_t rows, width;
    } rows;
    struct {
      uint32_t rows, width; /* groups of columns count as rows */
      uint32_t whole_width; /* of all groups of a row, and of columns that are only copied */
    } norm;
    struct {
      uint32_t rows, width, k;
    } top_k;
    struct {
      uint32_t rows, width, row_edits;
    } logit_edit;
    struct {
      uint32_t rows, width; /* of keys, values and turned queries together */
      uint32_t multiple_of; /* widths and first columns are multiples of it: 1 or 2 */
      bool turns;           /* keys and queries are rotated by their positions */
      uint32_t half_width;  /* of heads that are rotated whole, half against half; 0: no such heads */
      uint32_t key_width, value_width;
    } append;
  };
  uint32_t split;             /* k, keys or columns of one partial result, vkf_kern_split() at capacity; 0: all */
  vkf_weight_packing packing; /* of the weight operand; attention, append: its format is that of keys and values */
  vkf_order_class order;      /* what the run asks for */
  bool reproducible;          /* the reproducible mode */
  bool halves_by_hand;        /* f16 is read without the driver's unpacking, which failed its check */
  bool matrices_ahead;        /* see vkf_caps */
  bool wide;                  /* inputs were found that f16 cannot hold */
  /* Kernels picked for this node that the driver could not make, or only with spilled registers. */
  const vkf_refusal *refused;
} vkf_problem;

/* Measured times (kern/tuned.h). Every function takes NULL for none. */
typedef struct vkf_tuned vkf_tuned;

/* How a kernel divides its work; the family of a row says which member is its own. */
typedef union vkf_tile {
  struct {
    uint32_t bm, bn, bk; /* of a workgroup: rows and columns of the result, k of a step */
    uint32_t tm, tn;     /* of an invocation; of a subgroup in "vector" and "coopmat" kernels */
    uint32_t slices;     /* of x and w in shared memory at once; 0: a kernel that keeps none there */
  } gemm;
  struct {
    uint32_t rows, keys; /* of a workgroup: rows of queries, keys of a step */
    union {
      uint32_t slice;   /* columns of a head in shared memory at once */
      uint32_t cluster; /* lanes that share a key */
    };
    uint32_t lane_rows, lane_keys; /* of an invocation */
  } attention;
  uint32_t constants[5]; /* of any of them: the specialization constants BM, BN, BK, TM and TN */
} vkf_tile;

/* A row of the table. Zero means "does not apply". */
typedef struct vkf_variant {
  vkf_op op;
  const struct vkf_family *family; /* what its kernels have in common: kern/family.h */
  const char *module;              /* name of the shader module; with texel access: its "_texel" form */
  const char *combine; /* module of a second dispatch, which reads what the first one left in the node's scratch memory;
                          NULL: there is none */
  vkf_tile tile;
  uint32_t vec;            /* elements that it reads at once: K, head widths or columns are multiples of it; 0: one */
  vkf_matrix_shape matrix; /* of its cooperative matrix products, which the device must advertise; 0: none */
  uint32_t workgroup;      /* invocations, if neither tile nor subgroup says how many: vkf_kern_workgroup() */
  uint32_t subgroup;       /* the subgroup size that it is written for: required, or it does not fit; 0: any */
  uint32_t needs;          /* vkf_need bits */
  vkf_access_kind access;  /* of its x and w operands */
  vkf_weight_layout weights;
  vkf_order_class order;
  uint32_t formats;      /* bits of vkf_format that it reads besides float32; coopmat and dot read only these */
  uint32_t max_width;    /* attention: the widest head; top_k: the largest k; 0: any */
  bool not_reproducible; /* unrolled too far for the reproducible mode's arithmetic */
  bool fixed_tile;       /* its tile is compiled into the module; other kernels of the family take it as constants */
  bool own;              /* a caller's kernel instead of one of the family */
} vkf_variant;

/* Texel and address access need what their names say, without a bit here. */
enum vkf_need {
  VKF_NEED_SHUFFLE = 1,
  VKF_NEED_BROADCAST = 2,
  VKF_NEED_ARITHMETIC = 4,
  VKF_NEED_ADDRESS = 8,
  VKF_NEED_INT64 = 16,
  VKF_NEED_TEXEL = 32,
  VKF_NEED_GPU = 64,      /* on a CPU driver only if it is forced or no other fits */
  VKF_NEED_SHARED = 128,  /* uses shared memory and barriers */
  VKF_NEED_UNIFORM = 256, /* a CPU driver with scalar loads at uniform addresses: others compile it for minutes */
  VKF_NEED_MATRIX = 512,  /* cooperative matrices of its shape */
  VKF_NEED_DOT = 1024,    /* products of four 8-bit numbers in a word */
  VKF_NEED_MATRIX2 = 2048 /* cooperative matrices of a workgroup, which the driver loads */
};

const vkf_variant *vkf_kern_variants(size_t *n);
/* Finds a row by its computed name ("matmul-lane-m16n4-w8"); NULL: there is none. */
const vkf_variant *vkf_kern_find(const char *name);
/* Computes the name from the row's fields; returns buffer. */
const char *vkf_kern_name(const vkf_variant *variant, char *buffer, size_t size);

/* Invocations of a workgroup. */
uint32_t vkf_kern_workgroup(const vkf_variant *variant);
/* Whether the first of two dispatches writes x, rounded, to the node's scratch memory: if the weight of a matmul is in
 * q8, or if its kernel reads x in fewer bits. */
bool vkf_kern_rounds_x(const vkf_variant *variant, const vkf_problem *problem);
/* Returns the number of dispatches, one after the other: the kernel's own and at most one more, before it to round x or
 * after it to combine partial results. */
#define VKF_MAX_STAGES 2
uint32_t vkf_kern_stages(const vkf_variant *variant, const vkf_problem *problem);
/* Writes the name of a stage's SPIR-V module for the problem's format, and returns it. Picks the form with loops
 * written out if the build has it and the device needs it (vkf_caps.indexed_registers). */
const char *vkf_kern_module(const vkf_variant *variant, uint32_t stage, const vkf_problem *problem,
                            const vkf_caps *caps, char *buffer, size_t size);
/* Whether the kernel takes its tile as specialization constants. */
bool vkf_kern_tiles(const vkf_variant *variant);
/* Writes `base` with another tile to *out: "bm=96,tm=8" changes those two numbers. Returns false, with the reason in
 * `why`, if the kernel cannot have it.
 */
bool vkf_kern_tile(const vkf_variant *base, const char *tile, vkf_variant *out, char *why, size_t size);

/* Whether there are kernels for subgroups of this size. */
bool vkf_kern_is_written_for(uint32_t subgroup_size);
/* Whether some of them have cooperative matrices of this shape. */
bool vkf_kern_is_written_for_matrix(uint32_t subgroup_size, const vkf_matrix_shape *shape);
/* Whether the device can give a kernel such subgroups. */
bool vkf_kern_has_subgroup(const vkf_caps *caps, uint32_t subgroup_size);

/* Returns NULL if the variant can run the problem on the device, else the reason why not, written into `why`. */
const char *vkf_kern_fit(const vkf_variant *variant, const vkf_problem *problem, const vkf_caps *caps, char *why,
                         size_t size);

/* How a variant that fits ranks among those of its op; vkf_kern_is_better() compares field by field. */
typedef struct vkf_kern_rank {
  const vkf_variant *variant;
  const struct vkf_tuned_time *time; /* measured for this problem or its nearest one; NULL: it was not */
  bool leads;    /* it was not measured, but the defaults rank it before all that were, so it comes before them. Others
                    that were not measured come after them */
  size_t rule;   /* its family's place among the defaults */
  double effort; /* work per useful element */
} vkf_kern_rank;

/* Returns false, with the reason in `why`, if the variant does not fit or is used only when forced (a kernel for GPUs
 * on a CPU driver). */
bool vkf_kern_rank_of(const vkf_variant *variant, const vkf_problem *problem, const vkf_caps *caps,
                      const vkf_tuned *tuned, vkf_kern_rank *out, char *why, size_t size);
/* Whether `a` is better than `b`, for one problem. Ties keep the order of the table. */
bool vkf_kern_is_better(const vkf_kern_rank *a, const vkf_kern_rank *b);
/* Writes why it has this rank into `why`, and returns it. */
const char *vkf_kern_reason(const vkf_kern_rank *rank, char *why, size_t size);

/* Returns the device's cores, or a guess by its kind if it does not report them. */
uint32_t vkf_kern_cores(const vkf_caps *caps);
/* Returns the workgroups of the kernel's own dispatch; *own: the problem with the split that the kernel would get. */
double vkf_kern_workgroups(const vkf_variant *variant, const vkf_problem *problem, const vkf_caps *caps,
                           vkf_problem *own);
/* Returns the packing of weights that the variant reads. */
vkf_weight_packing vkf_kern_packing_of(const vkf_variant *variant, vkf_format format);

/* Returns the best variant that fits, or NULL; why: the reason for either. */
const vkf_variant *vkf_kern_pick(const vkf_problem *problem, const vkf_caps *caps, const vkf_tuned *tuned, char *why,
                                 size_t size);

/* Returns the packing that a [n,k] weight of this format should have on this device: that of the forced matmul variant
 * if it fits, else the one whose kernels were measured as fastest (for this n and k, else over all), else that of the
 * defaults.
 */
vkf_weight_packing vkf_kern_weight_packing(const vkf_caps *caps, const vkf_tuned *tuned, uint32_t n, uint32_t k,
                                           vkf_format format, const vkf_variant *forced);
#define VKF_MAX_PROBE_CANDIDATES 2
/* Sets the variants, one for each packing, whose order the defaults only guess, and the problem with which a short
 * measurement should decide it. Returns how many; 0: the device's facts decide. */
uint32_t vkf_kern_probe_candidates(const vkf_caps *caps, vkf_problem *problem,
                                   const vkf_variant *variants[VKF_MAX_PROBE_CANDIDATES]);
/* Returns a hash of the table's names and of every word of the shaders. Times that were tuned under another hash are
 * not used. */
uint64_t vkf_kern_checksum(void);
/* Return the elements of a packed weight [n,k], padding included; the index of its element (row, column). */
size_t vkf_kern_packed_elements(const vkf_weight_packing *p, uint32_t n, uint32_t k);
size_t vkf_kern_packed_index(const vkf_weight_packing *p, uint32_t k, uint32_t row, uint32_t column);
/* Return the bytes of the elements (whole words of 16 bytes), after which the scales begin; the bytes of both. */
size_t vkf_kern_scales_offset(const vkf_weight_packing *p, uint32_t n, uint32_t k);
size_t vkf_kern_packed_bytes(const vkf_weight_packing *p, uint32_t n, uint32_t k);
/* Packs a weight. rows: float32 that the format can hold (`from` is VKF_FORMAT_F32), or elements of the packing's
 * format, which has no scales then. packed: vkf_kern_packed_bytes(). */
void vkf_kern_pack(const vkf_weight_packing *p, uint32_t n, uint32_t k, vkf_format from, const void *rows,
                   void *packed);

/* Returns the order class for a device and run: ascending on CPU drivers and if batch_invariant. */
vkf_order_class vkf_kern_order(const vkf_caps *caps, bool batch_invariant);

#define VKF_MAX_CONSTANTS 25 /* of the op that has the most: VKF_C_* of attention */
/* Sets specialization constants 0..n-1, which every kernel has (shaders/shared/constants.h); returns n. */
uint32_t vkf_kern_constants(const vkf_variant *variant, const vkf_problem *problem,
                            uint32_t constants[VKF_MAX_CONSTANTS]);
uint32_t vkf_kern_shared_bytes(const vkf_variant *variant);
/* Returns about how many registers an invocation needs; 0: few. */
uint32_t vkf_kern_registers(const vkf_variant *variant, const vkf_problem *problem);
/* Returns the turns of all loops on the longest path through one invocation of a stage, for drivers that end loops
 * after so many (vkf_caps.max_loop_turns). See family.h for how they are counted. */
uint64_t vkf_kern_loop_turns(const vkf_variant *variant, uint32_t stage, const vkf_problem *problem);
/* Returns how many k (matmul), keys (attention) or columns (log_softmax, top_k) one partial result should cover on this
 * device; 0: the variant has none. */
uint32_t vkf_kern_split(const vkf_variant *variant, const vkf_problem *problem, const vkf_caps *caps);
/* Returns the bytes of scratch memory between its stages; 0: none. */
uint64_t vkf_kern_scratch_bytes(const vkf_variant *variant, const vkf_problem *problem);
/* Sets the workgroups of a stage for the actual problem; an empty problem gives {0,0,0}. */
void vkf_kern_grid(const vkf_variant *variant, uint32_t stage, const vkf_problem *actual, uint32_t grid[3]);
/* Sets how this variant rounds, for the bounds. */
void vkf_kern_rounding(const vkf_variant *variant, const vkf_problem *problem, vkf_rounding *out);

#endif
