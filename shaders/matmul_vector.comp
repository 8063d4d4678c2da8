// out = act(x w^T + bias) + residual for few rows: a subgroup of SUBGROUP_SIZE computes TM rows of TN columns, its
// lanes along k, four numbers a lane and load, and adds its partial sums up in the end. A workgroup has BN / TN such
// groups of columns, K_SPLIT subgroups for each: they take turns along k, and what they found goes through shared
// memory. Operands: x (rows), w (rows), bias, residual, out. Rows past M and columns past N repeat the last. A weight
// is read once, and by neighbours side by side; TN columns share a load of x, and 8 loads of w are on their way at
// once.
//
// module matmul_vector, reads weights
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#define PARAMS vkf_push_matmul
#define OUT 4
#include "lib/kernel.glsl"
#include "lib/epilogue.glsl"
#include "lib/rows.glsl"

const uint K_SPLIT = BK / (4 * SUBGROUP_SIZE), SUMS = TM * TN, STEPS = 8 / TN;
#define MAX_TM VKF_VECTOR_MAX_TM
#define MAX_TN VKF_VECTOR_MAX_TN
#define MAX_SUMS (MAX_TM * MAX_TN)
shared float partial[BN / TN * K_SPLIT * SUMS];

float sums[MAX_SUMS];
uint row[MAX_TM], column[MAX_TN];

// The products of four k from k on; inside: of K, all of them.
void add(uint k, WORDS_OF_4 words[MAX_TN], bool inside) {
  vec4 b[MAX_TN];
  [[unroll]] for (uint j = 0; j < TN; j++) b[j] = unpack4(words[j]);
  [[unroll]] for (uint i = 0; i < TM; i++) {
    const vec4 a = four_of_x(row[i], k, inside);
    [[unroll]] for (uint c = 0; c < 4; c++) {
      [[unroll]] for (uint j = 0; j < TN; j++) sums[i * TN + j] = mad(a[c], b[j][c], sums[i * TN + j]);
    }
  }
}

void main() {
  const uint M = dim[p.rows], lane = gl_SubgroupInvocationID;
  const uint split = gl_SubgroupID % K_SPLIT, group = gl_SubgroupID / K_SPLIT;
  const uint row0 = gl_WorkGroupID.x * TM, column0 = gl_WorkGroupID.y * BN + group * TN;
  [[unroll]] for (uint i = 0; i < TM; i++) row[i] = min(row0 + i, M - 1);
  [[unroll]] for (uint j = 0; j < TN; j++) column[j] = min(column0 + j, p.n - 1);
  [[unroll]] for (uint i = 0; i < SUMS; i++) sums[i] = 0.0;
  uint k = (split * SUBGROUP_SIZE + lane) * 4;
  for (; k + (STEPS - 1) * BK < p.k; k += STEPS * BK) {
    WORDS_OF_4 words[8][MAX_TN];
    [[unroll]] for (uint s = 0; s < STEPS; s++) {
      [[unroll]] for (uint j = 0; j < TN; j++) words[s][j] = four_of_w(column[j], k + s * BK, true);
    }
    [[unroll]] for (uint s = 0; s < STEPS; s++) add(k + s * BK, words[s], true);
  }
  for (; k < p.k; k += BK) {
    WORDS_OF_4 words[MAX_TN];
    [[unroll]] for (uint j = 0; j < TN; j++) words[j] = four_of_w(column[j], k, false);
    add(k, words, false);
  }
  // Sum e of a group goes to lane e of its subgroup.
  float own[MAX_SUMS];
  [[unroll]] for (uint e = 0; e < SUMS; e++) {
    const float total = subgroupAdd(sums[e]);
    if (lane == e % SUBGROUP_SIZE) own[e / SUBGROUP_SIZE] = total;
  }
  if (K_SPLIT > 1) {
    [[unroll]] for (uint r = 0; r < (SUMS + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE; r++)
      if (r * SUBGROUP_SIZE + lane < SUMS) partial[gl_SubgroupID * SUMS + r * SUBGROUP_SIZE + lane] = own[r];
    barrier();
  }
  if (split != 0) return;
  [[unroll]] for (uint r = 0; r < (SUMS + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE; r++) {
    const uint e = r * SUBGROUP_SIZE + lane, to_row = row0 + e / TN, to_column = column0 + e % TN;
    float sum = own[r];
    if (e < SUMS && to_row < M && to_column < p.n) {
      [[unroll]] for (uint s = 1; s < K_SPLIT; s++) sum += partial[(gl_SubgroupID + s) * SUMS + e];
      finish(to_row, to_column, sum);
    }
  }
}
