// out = act(x w^T + bias) + residual for few rows. A subgroup of SUBGROUP_SIZE computes TM rows of TN columns. Its
// lanes are along k, with four numbers for each lane and load; at the end it adds up its partial sums. A workgroup has
// BN / TN such groups of columns and K_SPLIT subgroups for each. These take turns along k and add up their sums through
// shared memory. Operands: x (rows), w (rows), bias, residual, out. Rows past M and columns past N repeat the last.
// Each weight is read once, and neighbouring lanes read neighbouring weights. TN columns share a load of x, and 8 loads
// of w are under way at once.
//
// module matmul_vector, reads weights, written out
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"
#include "lib/rows.glsl"
#include "lib/each.glsl"

const uint K_SPLIT = BK / (4 * SUBGROUP_SIZE), SUMS = TM * TN, STEPS = 8 / TN;
#define MAX_TM VKF_VECTOR_MAX_TM
#define MAX_TN VKF_VECTOR_MAX_TN
#define MAX_SUMS (MAX_TM * MAX_TN)
#if MAX_TM != 8 || MAX_TN != 4
#error "EACH_8 takes 8 rows, EACH_4 four columns"
#endif
shared float partial[BN / TN * K_SPLIT * SUMS];

float sums[MAX_SUMS]; // of row i and column j: i MAX_TN + j
uint row[MAX_TM], column[MAX_TN];
WORDS_OF_4 words[8 * MAX_TN]; // of step s and column j: s MAX_TN + j
vec4 b[MAX_TN];

void add_row(uint i, uint k, bool inside) {
  const vec4 a = four_of_x(row[i], k, inside);
  [[unroll]] for (uint c = 0; c < 4; c++) {
#define ADD(j) sums[i * MAX_TN + (j)] = mad(a[c], b[j][c], sums[i * MAX_TN + (j)])
    EACH_4(TN, ADD)
  }
}

// load() and add() load and multiply step s, four k from k on. `inside` says that all four are below K.
void load(uint s, uint k, bool inside) {
#define LOAD_COLUMN(j) words[s * MAX_TN + (j)] = four_of_w(column[j], k, inside)
  EACH_4(TN, LOAD_COLUMN)
}
void add(uint s, uint k, bool inside) {
#define UNPACK(j) b[j] = unpack4(words[s * MAX_TN + (j)])
#define ADD_ROW(i) add_row(i, k, inside)
  EACH_4(TN, UNPACK)
  EACH_8(TM, ADD_ROW)
}

void clear_row(uint i) {
#define CLEAR(j) sums[i * MAX_TN + (j)] = 0.0
  EACH_4(TN, CLEAR)
}

// Sum e of a group is that of row e / TN and column e % TN. It goes to lane e of its subgroup and, if columns are
// gated, also to the lane before. The 32 sums of the largest tile are 8 rounds for 4 lanes, and every row has more
// lanes.
float own[8], next[8];
const uint ROUNDS = (SUMS + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE;
void sum_up(uint i, uint j) {
  const uint e = i * TN + j;
  const float total = subgroupAdd(sums[i * MAX_TN + j]);
  if (gl_SubgroupInvocationID == e % SUBGROUP_SIZE) own[e / SUBGROUP_SIZE] = total;
  if (IS_GATED != 0 && gl_SubgroupInvocationID == (e ^ 1) % SUBGROUP_SIZE) next[e / SUBGROUP_SIZE] = total;
}
void sum_row(uint i) {
#define SUM_UP(j) sum_up(i, j)
  EACH_4(TN, SUM_UP)
}

// Adds up sum e of all subgroups that share K; `sum` is this subgroup's.
float all_of(uint e, float sum) {
  [[unroll]] for (uint s = 1; s < K_SPLIT; s++) sum += partial[(gl_SubgroupID + s) * SUMS + e];
  return sum;
}
void finish_own(uint r, uint row0, uint column0, uint M) {
  const uint e = r * SUBGROUP_SIZE + gl_SubgroupInvocationID, to_row = row0 + e / TN, to_column = column0 + e % TN;
  if (e >= SUMS || to_row >= M || to_column >= p.n) return;
  if (IS_GATED == 0) finish(to_row, to_column, all_of(e, own[r]));
  if (IS_GATED != 0 && e % 2 == 0) finish_gated(to_row, to_column, vec2(all_of(e, own[r]), all_of(e + 1, next[r])));
}

void main() {
  const uint M = dim[p.rows], lane = gl_SubgroupInvocationID;
  const uint split = gl_SubgroupID % K_SPLIT, group = gl_SubgroupID / K_SPLIT;
  const uint row0 = gl_WorkGroupID.x * TM, column0 = gl_WorkGroupID.y * BN + group * TN;
#define ROW(i) row[i] = min(row0 + (i), M - 1)
#define COLUMN(j) column[j] = min(column0 + (j), p.n - 1)
  EACH_8(TM, ROW)
  EACH_4(TN, COLUMN)
  EACH_8(TM, clear_row)
  uint k = (split * SUBGROUP_SIZE + lane) * 4;
  for (; k + (STEPS - 1) * BK < p.k; k += STEPS * BK) {
#define LOAD_STEP(s) load(s, k + (s) * BK, true)
#define ADD_STEP(s) add(s, k + (s) * BK, true)
    EACH_8(STEPS, LOAD_STEP)
    EACH_8(STEPS, ADD_STEP)
  }
  for (; k < p.k; k += BK) {
    load(0, k, false);
    add(0, k, false);
  }
  EACH_8(TM, sum_row)
  if (K_SPLIT > 1) {
#define PUT(r) \
  if ((r) * SUBGROUP_SIZE + lane < SUMS) partial[gl_SubgroupID * SUMS + (r) * SUBGROUP_SIZE + lane] = own[r]
    EACH_8(ROUNDS, PUT)
    barrier();
  }
  if (split != 0) return;
#define FINISH(r) finish_own(r, row0, column0, M)
  EACH_8(ROUNDS, FINISH)
}
