// Attention of few queries over many keys, for GPUs (after Flash-Decoding: Dao, Haziza, Massa and Sizov 2023): a
// workgroup takes BM rows, the queries of all heads that share a head of keys and values, and SPLIT keys of them; what
// it finds goes to scratch memory, where attention_combine.comp adds up the splits of a row.
// A workgroup is several subgroups, each of one or more clusters of BK lanes. A lane has every BK-th four columns of a
// head; a cluster has TN keys at a time, the next cluster the next ones, and its own maximum, sum and values until the
// end, where they are added up through shared memory in the order of the clusters. Head widths are multiples of 4.
//
// module attention_split, reads caches
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define PARAMS vkf_push_attention
#include "lib/kernel.glsl"
#define KEYS_AND_VALUES_ELSEWHERE
#include "lib/attention.glsl"
#include "lib/keys_values.glsl"
layout(BINDING(6)) writeonly buffer Partial { float partial[]; };
#include "lib/splits.glsl"

layout(constant_id = VKF_C_WORKGROUP) const uint WORKGROUP = 128;
const uint CLUSTERS = WORKGROUP / BK;
const uint K_CHUNKS = (KEY_WIDTH / 4 + BK - 1) / BK, V_CHUNKS = (VALUE_WIDTH / 4 + BK - 1) / BK;
// Literal sizes: see matmul_lane.comp.
#define MAX_BM 8
#define MAX_TN 4
#define MAX_CHUNKS 4
shared vec4 cluster_values[WORKGROUP * MAX_CHUNKS];
shared float cluster_top[CLUSTERS * BM], cluster_total[CLUSTERS * BM];

void main() {
  const uint own = gl_SubgroupID * SUBGROUP_SIZE + gl_SubgroupInvocationID, lane = own % BK, cluster = own / BK;
  const uint n_tiles = (dim[p.queries] * GROUP + BM - 1) / BM;
  const uint r0 = gl_WorkGroupID.x % n_tiles * BM, split = gl_WorkGroupID.x / n_tiles;
  const Place first = row_place(r0);
  const uint n_rows = first.span.queries * GROUP;
  if (r0 >= n_rows) return;
  const uint begin = first_key(first) + split * SPLIT;
  const uint end = min(keys_until(first, (min(r0 + BM, n_rows) - 1) / GROUP), begin + SPLIT);
  vec4 q[MAX_BM * MAX_CHUNKS], o[MAX_BM * MAX_CHUNKS];
  float top[MAX_BM], total[MAX_BM];
  [[unroll]] for (uint i = 0; i < BM; i++) {
    const Place me = row_place(min(r0 + i, n_rows - 1));
    const uint qi = at[0].x + row_of(me) * p.q_stride + p.q_column + me.head * KEY_WIDTH;
    top[i] = LOWEST;
    total[i] = 0.0;
    [[unroll]] for (uint c = 0; c < V_CHUNKS; c++) o[i * MAX_CHUNKS + c] = vec4(0.0);
    [[unroll]] for (uint c = 0; c < K_CHUNKS; c++) {
      const uint d = 4 * (c * BK + lane);
      q[i * MAX_CHUNKS + c] = vec4(0.0);
      if (d < KEY_WIDTH)
        q[i * MAX_CHUNKS + c] = vec4(q_data[qi + d], q_data[qi + d + 1], q_data[qi + d + 2], q_data[qi + d + 3]);
    }
  }
  // A step of the workgroup is a multiple of a block, so that a window's first keys begin one.
  for (uint s0 = max(keys_from(first, first.t), begin); s0 < end; s0 += CLUSTERS * TN) {
    uint rows[MAX_TN];
    float score[MAX_BM * MAX_TN];
    [[unroll]] for (uint u = 0; u < TN; u++) {
      rows[u] = key_row(first, min(s0 + u * CLUSTERS + cluster, end - 1));
      [[unroll]] for (uint i = 0; i < BM; i++) score[i * MAX_TN + u] = 0.0;
      [[unroll]] for (uint c = 0; c < K_CHUNKS; c++) {
        const uint piece = c * BK + lane;
        vec4 b = vec4(0.0);
        if (piece < KEY_WIDTH / 4) b = LOAD(k4, FIRST(1) + rows[u] * (KEY_WIDTH / 4) + piece);
        [[unroll]] for (uint i = 0; i < BM; i++) {
          const vec4 a = q[i * MAX_CHUNKS + c];
          score[i * MAX_TN + u] = mad(a.w, b.w, mad(a.z, b.z, mad(a.y, b.y, mad(a.x, b.x, score[i * MAX_TN + u]))));
        }
      }
    }
    [[unroll]] for (uint i = 0; i < BM; i++) {
      const Place me = row_place(min(r0 + i, n_rows - 1));
      float risen = top[i];
      [[unroll]] for (uint u = 0; u < TN; u++) {
        const uint s = s0 + u * CLUSTERS + cluster;
        float x = score[i * MAX_TN + u];
        [[unroll]] for (uint n = BK / 2; n > 0; n /= 2) x += subgroupShuffleXor(x, n);
        x = s < end && sees(me, s) ? scaled(me, s, x) : UNSEEN;
        if (is_key(x)) risen = larger(risen, x);
        score[i * MAX_TN + u] = x;
      }
      const float factor = risen == top[i] ? 1.0 : exp_below(top[i] - risen);
      top[i] = risen;
      total[i] = mul(total[i], factor);
      [[unroll]] for (uint c = 0; c < V_CHUNKS; c++) o[i * MAX_CHUNKS + c] = mul(o[i * MAX_CHUNKS + c], factor);
      [[unroll]] for (uint u = 0; u < TN; u++) {
        const float x = score[i * MAX_TN + u];
        score[i * MAX_TN + u] = is_key(x) ? exp_below(x - risen) : -1.0;
        if (is_key(x)) total[i] += score[i * MAX_TN + u];
      }
    }
    [[unroll]] for (uint u = 0; u < TN; u++) {
      [[unroll]] for (uint c = 0; c < V_CHUNKS; c++) {
        const uint piece = c * BK + lane;
        vec4 v = vec4(0.0);
        if (piece < VALUE_WIDTH / 4) v = LOAD(v4, FIRST(2) + rows[u] * (VALUE_WIDTH / 4) + piece);
        [[unroll]] for (uint i = 0; i < BM; i++)
          if (!(score[i * MAX_TN + u] < 0.0))
            o[i * MAX_CHUNKS + c] = mad(score[i * MAX_TN + u], v, o[i * MAX_CHUNKS + c]);
      }
    }
  }
  [[unroll]] for (uint i = 0; i < BM; i++) {
    if (lane == 0) {
      cluster_top[cluster * BM + i] = top[i];
      cluster_total[cluster * BM + i] = total[i];
    }
  }
  [[unroll]] for (uint i = 0; i < BM; i++) {
    const uint r = r0 + i;
    barrier(); // the values of the row before have been used
    [[unroll]] for (uint c = 0; c < V_CHUNKS; c++)
      cluster_values[(cluster * V_CHUNKS + c) * BK + lane] = o[i * MAX_CHUNKS + c];
    barrier();
    if (r >= n_rows) continue; // the same for all
    const Place me = row_place(r);
    const uint item = row_of(me) * HEADS + me.head;
    float risen = LOWEST, sum = 0.0;
    for (uint m = 0; m < CLUSTERS; m++) risen = larger(risen, cluster_top[m * BM + i]);
    for (uint m = 0; m < CLUSTERS; m++)
      sum = mad(cluster_total[m * BM + i], exp_below(cluster_top[m * BM + i] - risen), sum);
    if (own == 0) {
      partial[partial_top(item, split)] = risen;
      partial[partial_top(item, split) + 1] = sum;
    }
    for (uint d = own; d < VALUE_WIDTH / 4; d += WORKGROUP) {
      vec4 y = vec4(0.0);
      for (uint m = 0; m < CLUSTERS; m++)
        y = mad(exp_below(cluster_top[m * BM + i] - risen), cluster_values[m * V_CHUNKS * BK + d], y);
      [[unroll]] for (uint c = 0; c < 4; c++) partial[partial_values(item, split) + 4 * d + c] = y[c];
    }
  }
}
