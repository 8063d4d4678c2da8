// As attention.comp, the same bits, for GPUs (after FlashAttention 2, Dao 2023): a workgroup takes BM rows, which are
// the queries of all heads that share a head of keys and values, and goes through the keys in tiles of BN.
// VKF_KEY_BLOCK lanes share TM rows: for the scores a lane is a key of each block of the tile, for the values four
// columns of 64. Rows, keys and values are staged in shared memory, head widths in slices of BK (columns behind their
// end are zeros); scores, and in their place weights, go from lane to lane there, too. One lane of each row finds the
// maximum of a block. Tiles behind the last key and before the first one that any query sees are left out; where every
// query sees a whole tile, which is most of them, no weight is tested. VEC4 loads four elements at a time (head widths
// are multiples of 4).
//
// module attention_tiles: VEC4, reads caches
// module attention_tiles_any, reads caches
#version 450
#extension GL_GOOGLE_include_directive : require
#define PARAMS vkf_push_attention
#define OUT 6
#include "lib/kernel.glsl"
#include "lib/store.glsl"
#ifdef VEC4
#define KEYS_AND_VALUES_ELSEWHERE
#endif
#include "lib/attention.glsl"
#include "lib/trim.glsl"

#ifdef VEC4
#include "lib/keys_values.glsl"
#define PIECE(buffer, o, row, width, d4) LOAD(buffer##4, FIRST(o) + (row) * ((width) / 4) + (d4))
#else
#define PIECE(buffer, o, row, width, d4)                                                                          \
  vec4(element_##buffer(row, 4 * (d4)), element_##buffer(row, 4 * (d4) + 1), element_##buffer(row, 4 * (d4) + 2), \
       element_##buffer(row, 4 * (d4) + 3))
float element_k(uint row, uint d) { return d < KEY_WIDTH ? ELEMENT(k_data, 1, row, KEY_WIDTH, d) : 0.0; }
float element_v(uint row, uint d) { return d < VALUE_WIDTH ? ELEMENT(v_data, 2, row, VALUE_WIDTH, d) : 0.0; }
#endif

const uint BLOCKS = BN / VKF_KEY_BLOCK;               // of a tile
const uint SLICE = BK / 4 + 1, SCORES = BN / 4 + 1;   // vec4 of a row; one more than it needs, for the banks
const uint KEY_PIECES = (KEY_WIDTH + 3) / 4, VALUE_PIECES = (VALUE_WIDTH + 3) / 4;
const uint CHUNKS = (VALUE_PIECES + 15) / 16;         // of 64 columns
const bool WHOLE_SLICES = KEY_PIECES % (BK / 4) == 0; // no slice has columns behind the end of a head
// Literal sizes: see matmul_lane.comp.
#define MAX_TM 4
#define MAX_BLOCKS 4
#define MAX_CHUNKS 4
shared vec4 q_slice[BM * SLICE];
shared vec4 kv_slice[BN * SLICE]; // a slice of the keys, then a chunk of the values: BK is at least 64
shared vec4 scores[BM * SCORES];  // then weights; minus infinity, then -1: the query does not see the key
shared float highest[BM * BLOCKS];
shared float factors[BM * BLOCKS]; // of the sums so far, where a block raised the maximum
shared uint is_ragged;             // some query does not see some key of the tile

// Rows r0 .. of the queries, columns 4 d4 .. 4 d4 + BK.
void stage_queries(uint r0, uint n_rows, uint d4) {
  for (uint e = gl_LocalInvocationID.x; e < BM * (BK / 4); e += gl_WorkGroupSize.x) {
    const Place me = row_place(min(r0 + e / (BK / 4), n_rows - 1));
    const uint piece = d4 + e % (BK / 4);
    const uint qi = at[0].x + row_of(me) * p.q_stride + p.q_column + me.head * KEY_WIDTH;
    vec4 x = vec4(0.0);
    if (WHOLE_SLICES || piece < KEY_PIECES) {
      [[unroll]] for (uint c = 0; c < 4; c++)
        if (KEY_WIDTH % 4 == 0 || 4 * piece + c < KEY_WIDTH) x[c] = q_data[qi + 4 * piece + c];
    }
    q_slice[e / (BK / 4) * SLICE + e % (BK / 4)] = x;
  }
}

void stage_keys(Place me, uint s0, uint end, uint d4) {
  for (uint e = gl_LocalInvocationID.x; e < BN * (BK / 4); e += gl_WorkGroupSize.x) {
    const uint piece = d4 + e % (BK / 4), row = key_row(me, min(s0 + e / (BK / 4), end - 1));
    vec4 x = vec4(0.0);
    if (WHOLE_SLICES || piece < KEY_PIECES) x = PIECE(k, 1, row, KEY_WIDTH, piece);
    kv_slice[e / (BK / 4) * SLICE + e % (BK / 4)] = x;
  }
}

void stage_values(Place me, uint s0, uint end, uint chunk) {
  for (uint e = gl_LocalInvocationID.x; e < BN * 16; e += gl_WorkGroupSize.x) {
    const uint piece = chunk * 16 + e % 16, row = key_row(me, min(s0 + e / 16, end - 1));
    vec4 x = vec4(0.0);
    if (VALUE_PIECES % 16 == 0 || piece < VALUE_PIECES) x = PIECE(v, 2, row, VALUE_WIDTH, piece);
    kv_slice[e] = x;
  }
}

void main() {
  const uint own = gl_LocalInvocationID.x, lane = own % VKF_KEY_BLOCK, row0 = own / VKF_KEY_BLOCK * TM;
  // The last rows see the most keys of a causal mask: they begin first.
  const uint r0 = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * BM;
  const Place first = row_place(r0);
  const uint n_rows = first.span.queries * GROUP;
  if (r0 >= n_rows) return;
  const uint last_t = (min(r0 + BM, n_rows) - 1) / GROUP, own_row = row0 + lane % TM;
  uint from = keys_from(first, first.t), end = keys_until(first, last_t);
  if (HAS_MASK != 0) trim(first, from, end);
  vec4 o[MAX_TM * MAX_CHUNKS];
  float top[MAX_TM], own_top = LOWEST, total = 0.0; // of own_row, alike in all lanes that have it
  [[unroll]] for (uint i = 0; i < TM; i++) top[i] = LOWEST;
  [[unroll]] for (uint i = 0; i < TM * CHUNKS; i++) o[i] = vec4(0.0);
  for (uint s0 = from; s0 < end; s0 += BN) {
    float score[MAX_TM * MAX_BLOCKS], factor[MAX_BLOCKS]; // factor: of own_row
    [[unroll]] for (uint i = 0; i < TM * BLOCKS; i++) score[i] = 0.0;
    [[dont_unroll]] for (uint d4 = 0; d4 < KEY_PIECES; d4 += BK / 4) {
      barrier(); // what was in the slices has been used
      if (own == 0) is_ragged = 0;
      if (KEY_PIECES > BK / 4 || s0 == from) stage_queries(r0, n_rows, d4);
      stage_keys(first, s0, end, d4);
      barrier();
      const uint n_pieces = WHOLE_SLICES ? BK / 4 : min(BK / 4, KEY_PIECES - d4);
      for (uint d = 0; d < n_pieces; d++) {
        vec4 b[MAX_BLOCKS];
        [[unroll]] for (uint n = 0; n < BLOCKS; n++) b[n] = kv_slice[(n * VKF_KEY_BLOCK + lane) * SLICE + d];
        [[unroll]] for (uint i = 0; i < TM; i++) {
          const vec4 a = q_slice[(row0 + i) * SLICE + d];
          [[unroll]] for (uint n = 0; n < BLOCKS; n++)
            score[i * BLOCKS + n] =
                mad(a.w, b[n].w, mad(a.z, b[n].z, mad(a.y, b[n].y, mad(a.x, b[n].x, score[i * BLOCKS + n]))));
        }
      }
    }
    [[unroll]] for (uint i = 0; i < TM; i++) {
      const Place me = row_place(min(r0 + row0 + i, n_rows - 1));
      [[unroll]] for (uint n = 0; n < BLOCKS; n++) {
        const uint key = n * VKF_KEY_BLOCK + lane, s = s0 + key;
        float x = UNSEEN;
        if (sees(me, s)) x = scaled(me, s, score[i * BLOCKS + n]);
        if (!is_key(x)) atomicOr(is_ragged, 1);
        score[i * BLOCKS + n] = x;
        scores[(row0 + i) * SCORES + key / 4][key % 4] = x;
      }
    }
    barrier();
    const bool ragged = is_ragged != 0;
    stage_values(first, s0, end, 0);
    for (uint e = lane; e < TM * BLOCKS; e += VKF_KEY_BLOCK) {
      const uint row = row0 + e / BLOCKS, n = e % BLOCKS;
      float risen = LOWEST;
      [[unroll]] for (uint j = 0; j < VKF_KEY_BLOCK / 4; j++) {
        const vec4 x = scores[row * SCORES + n * (VKF_KEY_BLOCK / 4) + j];
        risen = larger(larger(larger(larger(risen, x.x), x.y), x.z), x.w);
      }
      highest[row * BLOCKS + n] = risen;
    }
    barrier();
    [[unroll]] for (uint i = 0; i < TM; i++) {
      [[unroll]] for (uint n = 0; n < BLOCKS; n++) {
        const float risen = larger(top[i], highest[(row0 + i) * BLOCKS + n]), x = score[i * BLOCKS + n];
        const uint key = n * VKF_KEY_BLOCK + lane;
        top[i] = risen;
        scores[(row0 + i) * SCORES + key / 4][key % 4] = is_key(x) ? exp_below(x - risen) : -1.0;
      }
    }
    [[unroll]] for (uint n = 0; n < BLOCKS; n++) {
      const float risen = larger(own_top, highest[own_row * BLOCKS + n]);
      factor[n] = risen == own_top ? 1.0 : exp_below(own_top - risen);
      own_top = risen;
      if (lane < TM) factors[own_row * BLOCKS + n] = factor[n];
    }
    barrier();
    [[unroll]] for (uint n = 0; n < BLOCKS; n++) {
      total = mul(total, factor[n]);
      [[unroll]] for (uint j = 0; j < VKF_KEY_BLOCK; j++) {
        const float weight = scores[own_row * SCORES + (n * VKF_KEY_BLOCK + j) / 4][j % 4];
        total += weight < 0.0 ? 0.0 : weight;
      }
    }
    [[unroll]] for (uint c = 0; c < CHUNKS; c++) {
      if (c > 0) {
        barrier();
        stage_values(first, s0, end, c);
        barrier();
      }
      // No array is indexed by j4: compilers keep this loop, and would make ladders of selects of that.
      [[dont_unroll]] for (uint j4 = 0; j4 < BN / 4; j4++) {
        if (j4 % (VKF_KEY_BLOCK / 4) == 0) {
          const uint n = j4 / (VKF_KEY_BLOCK / 4);
          [[unroll]] for (uint i = 0; i < TM; i++)
            o[i * CHUNKS + c] = mul(o[i * CHUNKS + c], factors[(row0 + i) * BLOCKS + n]);
        }
        vec4 w[MAX_TM];
        [[unroll]] for (uint i = 0; i < TM; i++) w[i] = scores[(row0 + i) * SCORES + j4];
        [[unroll]] for (uint j = 0; j < 4; j++) {
          const vec4 v = kv_slice[(4 * j4 + j) * 16 + lane];
          [[unroll]] for (uint i = 0; i < TM; i++)
            if (!ragged || !(w[i][j] < 0.0)) o[i * CHUNKS + c] = mad(w[i][j], v, o[i * CHUNKS + c]);
        }
      }
    }
  }
  barrier();
  if (lane < TM) highest[own_row] = total;
  barrier();
  [[unroll]] for (uint i = 0; i < TM; i++) {
    const uint r = r0 + row0 + i;
    if (r >= n_rows) continue;
    const Place me = row_place(r);
    const float all = highest[row0 + i]; // 0: no key, and o is 0
    [[unroll]] for (uint c = 0; c < CHUNKS; c++) {
      [[unroll]] for (uint j = 0; j < 4; j++) {
        const uint column = c * 64 + lane * 4 + j;
        if (column < VALUE_WIDTH)
          store(row_of(me), me.head * VALUE_WIDTH + column, HEADS * VALUE_WIDTH,
                quotient(o[i * CHUNKS + c][j], all == 0.0 ? 1.0 : all));
      }
    }
  }
}
