// Attention of few queries over many keys, for GPUs (after Flash-Decoding: Dao, Haziza, Massa and Sizov 2023). A
// workgroup takes BM rows (the queries of all heads that share a head of keys and values) and SPLIT of their keys. It
// leaves its result in scratch memory, where attention_combine.comp adds up the splits of a row. Head widths are
// multiples of 4. A workgroup is several subgroups, each of one or more clusters of BK lanes. A lane has every BK-th
// group of four columns of a head. The clusters take turns: each takes TN keys, the next cluster the next TN. Each has
// its own maximum, sum and values, which are added up at the end through shared memory, in the order of the clusters.
//
// module attention_split, reads caches, written out
#version 440
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define PARAMS vkf_push_attention
#include "lib/kernel.glsl"
#define KEYS_AND_VALUES_ELSEWHERE
#include "lib/attention.glsl"
#include "lib/keys_values.glsl"
#include "lib/each.glsl"
layout(BINDING(6)) writeonly buffer Partial { float partial[]; };
#include "lib/splits.glsl"

layout(constant_id = VKF_C_WORKGROUP) const uint WORKGROUP = 128;
const uint CLUSTERS = WORKGROUP / BK;
const uint K_CHUNKS = (KEY_WIDTH / 4 + BK - 1) / BK, V_CHUNKS = (VALUE_WIDTH / 4 + BK - 1) / BK;
// Literal sizes: see matmul_shared.comp.
#define MAX_BM 8
#define MAX_TN 4
#define MAX_CHUNKS 4
#if MAX_BM > 8 || MAX_TN > 4 || MAX_CHUNKS > 4
#error "EACH_8 takes 8 rows, EACH_4 four keys and pieces"
#endif
shared vec4 cluster_values[WORKGROUP * MAX_CHUNKS];
shared float cluster_top[CLUSTERS * BM], cluster_total[CLUSTERS * BM];

// A lane's pieces of row i: i MAX_CHUNKS + c. The scores of row i: i MAX_TN + u.
vec4 q[MAX_BM * MAX_CHUNKS], o[MAX_BM * MAX_CHUNKS];
float top[MAX_BM], total[MAX_BM], score[MAX_BM * MAX_TN];
uint rows[MAX_TN]; // of the keys of a step

void load_piece(uint to, uint qi, uint d) {
  q[to] = vec4(0.0);
  if (d < KEY_WIDTH) q[to] = vec4(q_data[qi + d], q_data[qi + d + 1], q_data[qi + d + 2], q_data[qi + d + 3]);
}
void load_row(uint i, Place me, uint lane) {
  const uint qi = at[0].x + row_of(me) * p.q_stride + p.q_column + me.head * KEY_WIDTH;
  top[i] = LOWEST;
  total[i] = 0.0;
#define CLEAR(c) o[i * MAX_CHUNKS + (c)] = vec4(0.0)
#define LOAD_PIECE(c) load_piece(i * MAX_CHUNKS + (c), qi, 4 * ((c) * BK + lane))
  EACH_4(V_CHUNKS, CLEAR)
  EACH_4(K_CHUNKS, LOAD_PIECE)
}

// Adds the products of this lane's columns of key u and of every row.
void add_products(uint i, uint u, uint c, vec4 b) {
  score[i * MAX_TN + u] = products(q[i * MAX_CHUNKS + c], b, score[i * MAX_TN + u]);
}
void score_piece(uint u, uint c, uint piece) {
  vec4 b = vec4(0.0);
  if (piece < KEY_WIDTH / 4) b = LOAD(k4, FIRST(1) + rows[u] * (KEY_WIDTH / 4) + piece);
#define ADD_PRODUCTS(i) add_products(i, u, c, b)
  EACH_8(BM, ADD_PRODUCTS)
}
void score_key(uint u, uint row, uint lane) {
  rows[u] = row;
#define CLEAR_SCORE(i) score[(i) * MAX_TN + u] = 0.0
#define SCORE_PIECE(c) score_piece(u, c, (c) * BK + lane)
  EACH_8(BM, CLEAR_SCORE)
  EACH_4(K_CHUNKS, SCORE_PIECE)
}

// Adds up the scores of row i over the lanes, then makes weights of them; -1: the row does not see the key.
void finish_score(uint e, Place me, uint s, uint end, inout float risen) {
  float x = score[e];
  [[unroll]] for (uint n = BK / 2; n > 0; n /= 2) x += subgroupShuffleXor(x, n);
  x = s < end && sees(me, s) ? scaled(me, s, x) : UNSEEN;
  if (is_key(x)) risen = larger(risen, x);
  score[e] = x;
}
void weigh_key(uint i, uint e, float risen) {
  const float x = score[e];
  score[e] = is_key(x) ? exp_below(x - risen) : -1.0;
  if (is_key(x)) total[i] += score[e];
}
void weigh_row(uint i, Place me, uint s, uint end) {
  float risen = top[i];
#define FINISH_SCORE(u) finish_score(i * MAX_TN + (u), me, s + (u) * CLUSTERS, end, risen)
  EACH_4(TN, FINISH_SCORE)
  const float factor = risen == top[i] ? 1.0 : exp_below(top[i] - risen);
  top[i] = risen;
  total[i] = mul(total[i], factor);
#define RESCALE(c) o[i * MAX_CHUNKS + (c)] = mul(o[i * MAX_CHUNKS + (c)], factor)
#define WEIGH_KEY(u) weigh_key(i, i * MAX_TN + (u), risen)
  EACH_4(V_CHUNKS, RESCALE)
  EACH_4(TN, WEIGH_KEY)
}

// Adds this piece of the value of key u, weighted, to every row that sees the key.
void add_piece(uint u, uint c, uint piece) {
  vec4 v = vec4(0.0);
  if (piece < VALUE_WIDTH / 4) v = LOAD(v4, FIRST(2) + rows[u] * (VALUE_WIDTH / 4) + piece);
#define ADD_VALUE(i)                     \
  if (!(score[(i) * MAX_TN + u] < 0.0)) \
  o[(i) * MAX_CHUNKS + c] = mad(score[(i) * MAX_TN + u], v, o[(i) * MAX_CHUNKS + c])
  EACH_8(BM, ADD_VALUE)
}
void add_values(uint u, uint lane) {
#define ADD_PIECE(c) add_piece(u, c, (c) * BK + lane)
  EACH_4(V_CHUNKS, ADD_PIECE)
}

void leave_row(uint i, uint to) {
  cluster_top[to] = top[i];
  cluster_total[to] = total[i];
}

// Adds up what the clusters of the workgroup found for row r, which is row i of the workgroup.
void put_together(uint i, uint r, uint n_rows, uint split, uint own) {
  const uint lane = own % BK, cluster = own / BK;
  barrier(); // the values of the row before have been used
#define LEAVE_PIECE(c) cluster_values[(cluster * V_CHUNKS + (c)) * BK + lane] = o[i * MAX_CHUNKS + (c)]
  EACH_4(V_CHUNKS, LEAVE_PIECE)
  barrier();
  if (r >= n_rows) return; // the same for all
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

void main() {
  const uint own = gl_SubgroupID * SUBGROUP_SIZE + gl_SubgroupInvocationID, lane = own % BK, cluster = own / BK;
  const uint n_tiles = (dim[p.queries] * GROUP + BM - 1) / BM;
  const uint r0 = gl_WorkGroupID.x % n_tiles * BM, split = gl_WorkGroupID.x / n_tiles;
  const Place first = row_place(r0);
  const uint n_rows = first.span.queries * GROUP;
  if (r0 >= n_rows) return;
  const uint begin = first_key(first) + split * SPLIT;
  const uint end = min(keys_until(first, (min(r0 + BM, n_rows) - 1) / GROUP), begin + SPLIT);
#define PLACE(i) row_place(min(r0 + (i), n_rows - 1))
#define LOAD_ROW(i) load_row(i, PLACE(i), lane)
  EACH_8(BM, LOAD_ROW)
  // A step of the workgroup is a multiple of a block, so that a step begins at the first keys of a window.
  for (uint s0 = max(keys_from(first, first.t), begin); s0 < end; s0 += CLUSTERS * TN) {
    const uint s = s0 + cluster; // the first of this cluster's keys
#define SCORE_KEY(u) score_key(u, key_row(first, min(s + (u) * CLUSTERS, end - 1)), lane)
#define WEIGH_ROW(i) weigh_row(i, PLACE(i), s, end)
#define ADD_VALUES(u) add_values(u, lane)
    EACH_4(TN, SCORE_KEY)
    EACH_8(BM, WEIGH_ROW)
    EACH_4(TN, ADD_VALUES)
  }
  if (lane == 0) {
#define LEAVE_ROW(i) leave_row(i, cluster * BM + (i))
    EACH_8(BM, LEAVE_ROW)
  }
#define PUT_TOGETHER(i) put_together(i, r0 + (i), n_rows, split, own)
  EACH_8(BM, PUT_TOGETHER)
}
