/* kern: the kernel variants as data, and the pure functions that choose among them.
 *
 * Sees op and gpu/caps.h only, so it is tested with invented devices. One table (variants.c), a row a tiling strategy;
 * name, specialization constants, shared bytes, grid and the reason why a variant does not fit are computed from the
 * row. Invariant: picking depends on nothing but its arguments.
 */
#ifndef VKF_KERN_KERN_H
#define VKF_KERN_KERN_H

#include "gpu/caps.h"
#include "op/backend.h"

/* How a [N,K] weight is packed on the device. Chosen once a weight, at load (vkf_kern_weight_packing). */
typedef enum vkf_weight_layout {
  VKF_LAYOUT_W_ROWS, /* [N][K] */
  VKF_LAYOUT_W_LANE, /* [N/C][K/4][C][4], C columns a group (the device's lane constant), N and K padded with zeros */
  VKF_LAYOUT_W_COLUMNS, /* [N/C][K/P][2][C/2][P], C columns a group, the even ones first, P elements in 32 bits, N and
                           K padded with zeros */
  VKF_LAYOUT_W_COUNT
} vkf_weight_layout;
typedef struct vkf_weight_packing {
  vkf_weight_layout layout;
  uint32_t columns;  /* C; 1 for rows */
  uint32_t k_align;  /* k a pack: K is padded to a multiple of this (1 for rows) */
  vkf_format format; /* of the elements; scales follow them, a float32 a row of the padded N */
} vkf_weight_packing;

typedef enum vkf_access_kind {
  VKF_ACCESS_STORAGE,
  VKF_ACCESS_ADDRESS,
  VKF_ACCESS_TEXEL,
  VKF_ACCESS_STEP /* through the binding of the step buffer, in which it is placed */
} vkf_access_kind;

/* vkf_order_class (lab.h) says which partial sums make an output element, as a function of K (or of the keys, or of a
 * row's width) alone. ASCENDING: one accumulator, k ascending; rows (norm, log_softmax): VKF_ROW_PARTIALS interleaved
 * ones and their tree, whatever the subgroup (shaders/lib/partials.glsl). FAST: whichever the variant has. */

/* A kernel that a node passes over, and those before. */
typedef struct vkf_refusal {
  const struct vkf_variant *variant;
  const struct vkf_refusal *next; /* NULL: the last */
} vkf_refusal;

/* What a node asks of a kernel, at capacity (to pick) or at actual sizes (to compute the grid). `op` says which member
 * of the union is set. Every member but `matmul` and `attention` begins as `rows` does and may be read by that name. */
typedef struct vkf_problem {
  vkf_op op;
  union {
    struct {
      uint32_t m, n, k;
      bool is_shard; /* n columns of a wider matmul, which begin at any column */
      bool is_gated; /* two columns side by side become one */
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
      uint32_t whole_width; /* of all groups of a row, and what passes */
    } norm;
    struct {
      uint32_t rows, width, k;
    } top_k;
    struct {
      uint32_t rows, width, row_edits;
    } logit_edit;
    struct {
      uint32_t rows, width; /* of keys and values together, and of queries that are turned */
      uint32_t multiple_of; /* widths and first columns are multiples of it: 1 or 2 */
      bool turns;           /* keys and queries by their positions */
      uint32_t half_width;  /* of heads that are turned whole, half against half; 0: no such heads */
      uint32_t key_width, value_width;
    } append;
  };
  uint32_t split; /* k (matmul) or keys (attention) of one partial result, vkf_kern_split() at capacity; 0: all */
  vkf_weight_packing packing; /* of the weight operand; attention, append: its format is that of keys and values */
  vkf_order_class order;      /* what the run asks for */
  bool reproducible;          /* the reproducible mode */
  bool halves_by_hand;        /* f16 is read without the driver's unpacking, which failed its check */
  bool matrices_ahead;        /* see vkf_caps */
  bool wide;                  /* inputs were found that f16 cannot hold */
  /* What the driver could not make, or only with spilled registers, when it was picked for this node. */
  const vkf_refusal *refused;
} vkf_problem;

/* Measured times (kern/tuned.h); NULL wherever it is asked for: none. */
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

/* A row of the one table. Zero means "does not apply". */
typedef struct vkf_variant {
  vkf_op op;
  const struct vkf_family *family; /* what its kernels have in common: kern/family.h */
  const char *module;              /* of a shader; with texel access: its "_texel" form */
  const char *combine; /* that of a second dispatch, which reads what the first one left in the node's scratch memory;
                          NULL: there is one dispatch */
  vkf_tile tile;
  uint32_t vec;            /* elements that it reads at once: K, head widths or columns are multiples of it; 0: one */
  vkf_matrix_shape matrix; /* of its cooperative matrix products, which the device must advertise; 0: none */
  uint32_t workgroup;      /* invocations, where neither tile nor subgroup says how many: vkf_kern_workgroup() */
  uint32_t subgroup;       /* the subgroup size that it is written for: required, or it does not fit; 0: any */
  uint32_t needs;          /* vkf_need bits */
  vkf_access_kind access;  /* of its x and w operands */
  vkf_weight_layout weights;
  vkf_order_class order;
  uint32_t formats;      /* bits of vkf_format that it reads beside float32; coopmat and dot read these alone */
  uint32_t max_width;    /* attention: the widest head; top_k: the largest k; 0: any */
  bool not_reproducible; /* unrolled too far for the reproducible mode's arithmetic */
  bool fixed_tile;       /* its tile is a macro of the module, where other kernels of the family take it as constants */
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
  VKF_NEED_GPU = 64,      /* on a CPU driver only where it is forced or no other fits */
  VKF_NEED_SHARED = 128,  /* uses shared memory and barriers */
  VKF_NEED_UNIFORM = 256, /* a CPU driver with scalar loads at uniform addresses: others compile it for minutes */
  VKF_NEED_MATRIX = 512,  /* cooperative matrices of its shape */
  VKF_NEED_DOT = 1024,    /* products of four 8-bit numbers in a word */
  VKF_NEED_MATRIX2 = 2048 /* cooperative matrices of a workgroup, which the driver loads */
};

const vkf_variant *vkf_kern_variants(size_t *n);
/* By computed name ("matmul-lane-m16n4-w8"); NULL if there is none. */
const vkf_variant *vkf_kern_find(const char *name);
/* Writes the name, computed from the row's fields, and returns it. */
const char *vkf_kern_name(const vkf_variant *variant, char *buffer, size_t size);

/* Invocations of a workgroup. */
uint32_t vkf_kern_workgroup(const vkf_variant *variant);
/* A matmul whose weight is in q8, or whose kernel reads x in fewer bits: its first dispatch leaves x, rounded, in the
 * node's scratch memory. */
bool vkf_kern_rounds_x(const vkf_variant *variant, const vkf_problem *problem);
/* Dispatches that it takes one after the other: its own, one before it that rounds x, or one behind it that combines
 * partial results. */
#define VKF_MAX_STAGES 2
uint32_t vkf_kern_stages(const vkf_variant *variant, const vkf_problem *problem);
/* Writes the name of a stage's SPIR-V module that reads the problem's format, and returns it. The module whose loops
 * are written out where the build has one and the device wants it (vkf_caps.indexed_registers). */
const char *vkf_kern_module(const vkf_variant *variant, uint32_t stage, const vkf_problem *problem,
                            const vkf_caps *caps, char *buffer, size_t size);
/* Whether the kernel takes its tile as specialization constants. */
bool vkf_kern_tiles(const vkf_variant *variant);
/* `base` with another tile: "bm=96,tm=8" changes those two. false: the kernel cannot have it, for the reason in `why`.
 */
bool vkf_kern_tile(const vkf_variant *base, const char *tile, vkf_variant *out, char *why, size_t size);

/* Whether there are kernels for subgroups of so many lanes. */
bool vkf_kern_is_written_for(uint32_t subgroup_size);
/* Whether some of them have cooperative matrices of this shape. */
bool vkf_kern_is_written_for_matrix(uint32_t subgroup_size, const vkf_matrix_shape *shape);
/* Whether the device can give a kernel such subgroups. */
bool vkf_kern_has_subgroup(const vkf_caps *caps, uint32_t subgroup_size);

/* NULL if the variant can run the problem on the device, else the reason why not, written into `why`. */
const char *vkf_kern_fit(const vkf_variant *variant, const vkf_problem *problem, const vkf_caps *caps, char *why,
                         size_t size);

/* How a variant that fits ranks among those of its op; the smaller is the better, field by field. */
typedef struct vkf_kern_rank {
  const vkf_variant *variant;
  const struct vkf_tuned_time *time; /* measured for this problem or its neighbour; NULL: it was not */
  bool leads;    /* it was not measured, but the defaults put it before all that were: so it is before them. One that
                    was not measured and does not lead is behind them */
  size_t rule;   /* of the table of defaults */
  double effort; /* work per useful element */
} vkf_kern_rank;

/* False, and why not, if the variant does not fit or is none that runs pick by themselves (kernels for GPUs on a CPU
 * driver). */
bool vkf_kern_rank_of(const vkf_variant *variant, const vkf_problem *problem, const vkf_caps *caps,
                      const vkf_tuned *tuned, vkf_kern_rank *out, char *why, size_t size);
/* Whether `a` is the better of two variants of one problem; equal ones are in the order of the table. */
bool vkf_kern_is_better(const vkf_kern_rank *a, const vkf_kern_rank *b);
/* Why it has this rank, into `why`. */
const char *vkf_kern_reason(const vkf_kern_rank *rank, char *why, size_t size);

/* Cores of the device, or a guess by its kind where it does not say. */
uint32_t vkf_kern_cores(const vkf_caps *caps);
/* Workgroups of the stage that multiplies, else of the first one; *own: the problem with the split that the kernel
 * would get. */
double vkf_kern_workgroups(const vkf_variant *variant, const vkf_problem *problem, const vkf_caps *caps,
                           vkf_problem *own);
/* A weight as the variant reads it. */
vkf_weight_packing vkf_kern_packing_of(const vkf_variant *variant, vkf_format format);

/* The best variant that fits, NULL if there is none; why: the reason of the choice, or of there being none. */
const vkf_variant *vkf_kern_pick(const vkf_problem *problem, const vkf_caps *caps, const vkf_tuned *tuned, char *why,
                                 size_t size);

/* The packing that a [n,k] weight of this format should have on this device: that of the forced matmul variant, else
 * that whose kernels were fastest where they were measured (for this n and k, else for all), else that of the defaults.
 */
vkf_weight_packing vkf_kern_weight_packing(const vkf_caps *caps, const vkf_tuned *tuned, uint32_t n, uint32_t k,
                                           vkf_format format, const vkf_variant *forced);
#define VKF_MAX_PROBE_CANDIDATES 2
/* The variants, one a packing, whose order the defaults guess and a short measurement should decide, and the problem to
 * measure; returns how many, 0: facts decide on this device. */
uint32_t vkf_kern_probe_candidates(const vkf_caps *caps, vkf_problem *problem,
                                   const vkf_variant *variants[VKF_MAX_PROBE_CANDIDATES]);
/* A number that changes with every row of the table and every word of its shaders: what was tuned for another one is
 * not used. */
uint64_t vkf_kern_checksum(void);
/* Elements of a packed weight [n,k], padding included; where its element (row, column) is among them. */
size_t vkf_kern_packed_elements(const vkf_weight_packing *p, uint32_t n, uint32_t k);
size_t vkf_kern_packed_index(const vkf_weight_packing *p, uint32_t k, uint32_t row, uint32_t column);
/* Bytes of the elements (whole words of 16 bytes), which is where the scales begin; and bytes of all. */
size_t vkf_kern_scales_offset(const vkf_weight_packing *p, uint32_t n, uint32_t k);
size_t vkf_kern_packed_bytes(const vkf_weight_packing *p, uint32_t n, uint32_t k);
/* rows: float32 that the format can hold (`from` is VKF_FORMAT_F32), or elements of the packing's format,
 * which has no scales then. packed: vkf_kern_packed_bytes(). */
void vkf_kern_pack(const vkf_weight_packing *p, uint32_t n, uint32_t k, vkf_format from, const void *rows,
                   void *packed);

/* The order class for a device and run: ascending on CPU drivers. */
vkf_order_class vkf_kern_order(const vkf_caps *caps, bool batch_invariant);

#define VKF_MAX_CONSTANTS 25 /* of the op that has most: VKF_C_* of attention */
/* Specialization constants 0..n-1 that every kernel of this op shares (shaders/shared/constants.h); returns n. */
uint32_t vkf_kern_constants(const vkf_variant *variant, const vkf_problem *problem,
                            uint32_t constants[VKF_MAX_CONSTANTS]);
uint32_t vkf_kern_shared_bytes(const vkf_variant *variant);
/* Numbers that an invocation keeps at once, about. */
uint32_t vkf_kern_registers(const vkf_variant *variant, const vkf_problem *problem);
/* Turns of all loops on the longest path through one invocation of a stage, for drivers that end loops after so many
 * (vkf_caps.max_loop_turns). See family.h for how they are counted. */
uint64_t vkf_kern_loop_turns(const vkf_variant *variant, uint32_t stage, const vkf_problem *problem);
/* How much of the keys (attention) or of k (matmul) one partial result should cover on this device; 0: the variant has
 * none. */
uint32_t vkf_kern_split(const vkf_variant *variant, const vkf_problem *problem, const vkf_caps *caps);
/* What its stages hand on to each other; 0: nothing. */
uint64_t vkf_kern_scratch_bytes(const vkf_variant *variant, const vkf_problem *problem);
/* Workgroups of a stage for the actual problem; an empty problem gives {0,0,0}. */
void vkf_kern_grid(const vkf_variant *variant, uint32_t stage, const vkf_problem *actual, uint32_t grid[3]);
/* How this variant rounds on this device (bounds). */
void vkf_kern_rounding(const vkf_variant *variant, const vkf_problem *problem, vkf_rounding *out);

#endif
