// As attention.comp, with the same bits, for GPUs (after FlashAttention 2, Dao 2023). A workgroup takes BM rows: the
// queries of all heads that share a head of keys and values. It goes through the keys in tiles of BN. VKF_KEY_BLOCK
// lanes share TM rows. To compute scores, a lane has one key of each block of the tile; to add up values, it has four
// columns of each 64. Shared memory holds the rows, keys and values, in slices of BK columns of a head (columns after
// the end of a head are zeros). Lanes also exchange scores there, which weights then replace. One lane of each row
// finds the maximum of a block. Tiles after the last key, and those before the first key that any query sees, are
// skipped. If every query sees a whole tile, as in most tiles, no weight is tested.
// VEC4: loads four elements at a time (head widths are multiples of 4).
//
// module attention_tiles: VEC4, reads caches, written out
// module attention_tiles_any, reads caches, written out
#version 440
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
#include "lib/each.glsl"

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
const bool WHOLE_SLICES = KEY_PIECES % (BK / 4) == 0; // no slice has columns after the end of a head
// Literal sizes: see matmul_shared.comp.
#define MAX_TM 4
#define MAX_BLOCKS 4
#define MAX_CHUNKS 4
#if MAX_TM > 4 || MAX_BLOCKS > 4 || MAX_CHUNKS > 4
#error "EACH_4 takes 4"
#endif
shared vec4 q_slice[BM * SLICE];
shared vec4 kv_slice[BN * SLICE]; // a slice of the keys, then a chunk of the values: BK is at least 64
shared vec4 scores[BM * SCORES];  // then weights; minus infinity, then -1: the query does not see the key
shared float highest[BM * BLOCKS];
shared float factors[BM * BLOCKS]; // of the sums so far, where a block raised the maximum
shared uint is_ragged;             // some query does not see some key of the tile

// Loads queries from row r0 on, columns 4 d4 .. 4 d4 + BK.
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

// Row i of this lane, block n of the tile: i MAX_BLOCKS + n. Row i, chunk c of the values: i MAX_CHUNKS + c.
float score[MAX_TM * MAX_BLOCKS], top[MAX_TM];
float own_top, total, factor[MAX_BLOCKS]; // of own_row, the same in all lanes that have it
vec4 o[MAX_TM * MAX_CHUNKS], b[MAX_BLOCKS], w[MAX_TM];

void clear_row(uint i) {
  top[i] = LOWEST;
#define CLEAR(c) o[i * MAX_CHUNKS + (c)] = vec4(0.0)
  EACH_4(CHUNKS, CLEAR)
}
void clear_scores(uint i) {
#define CLEAR_SCORE(n) score[i * MAX_BLOCKS + (n)] = 0.0
  EACH_4(BLOCKS, CLEAR_SCORE)
}

// Adds the products of four columns of a slice.
void add_products(uint e, vec4 a, vec4 key) {
  score[e] = products(a, key, score[e]);
}
void multiply_row(uint i, vec4 a) {
#define ADD_PRODUCTS(n) add_products(i * MAX_BLOCKS + (n), a, b[n])
  EACH_4(BLOCKS, ADD_PRODUCTS)
}

void finish_score(uint e, Place me, uint s, uint to, uint key) {
  float x = UNSEEN;
  if (sees(me, s)) x = scaled(me, s, score[e]);
  if (!is_key(x)) atomicOr(is_ragged, 1);
  score[e] = x;
  scores[to + key / 4][key % 4] = x;
}
void finish_scores(uint i, Place me, uint s0, uint to, uint lane) {
#define FINISH_SCORE(n) \
  finish_score(i * MAX_BLOCKS + (n), me, s0 + (n) * VKF_KEY_BLOCK + lane, to, (n) * VKF_KEY_BLOCK + lane)
  EACH_4(BLOCKS, FINISH_SCORE)
}

// Stores the weight of a key of this lane: exp of its score less the maximum so far.
void weigh(uint i, uint n, uint row, uint key) {
  const float risen = larger(top[i], highest[row * BLOCKS + n]), x = score[i * MAX_BLOCKS + n];
  top[i] = risen;
  scores[row * SCORES + key / 4][key % 4] = is_key(x) ? exp_below(x - risen) : -1.0;
}
void weigh_row(uint i, uint row, uint lane) {
#define WEIGH(n) weigh(i, n, row, (n) * VKF_KEY_BLOCK + lane)
  EACH_4(BLOCKS, WEIGH)
}
void find_factor(uint n, uint own_row, bool leaves_it) {
  const float risen = larger(own_top, highest[own_row * BLOCKS + n]);
  factor[n] = risen == own_top ? 1.0 : exp_below(own_top - risen);
  own_top = risen;
  if (leaves_it) factors[own_row * BLOCKS + n] = factor[n];
}
void add_weights(uint n, uint own_row) {
  total = mul(total, factor[n]);
  [[unroll]] for (uint j = 0; j < VKF_KEY_BLOCK; j++) {
    const float weight = scores[own_row * SCORES + (n * VKF_KEY_BLOCK + j) / 4][j % 4];
    total += weight < 0.0 ? 0.0 : weight;
  }
}

// Adds the weighted value of one key to row i.
void add_value(uint i, uint c, uint j, vec4 v, bool ragged) {
  if (!ragged || !(w[i][j] < 0.0)) o[i * MAX_CHUNKS + c] = mad(w[i][j], v, o[i * MAX_CHUNKS + c]);
}
// Adds all values of the tile, chunk c of their columns.
void add_chunk(uint c, Place first, uint s0, uint end, uint row0, uint lane, bool ragged) {
  if (c > 0) {
    barrier();
    stage_values(first, s0, end, c);
    barrier();
  }
  // No array is indexed by j4: compilers keep this loop, and would turn such an index into a chain of selects.
  [[dont_unroll]] for (uint j4 = 0; j4 < BN / 4; j4++) {
    if (j4 % (VKF_KEY_BLOCK / 4) == 0) {
      const uint n = j4 / (VKF_KEY_BLOCK / 4);
#define RESCALE(i) o[(i) * MAX_CHUNKS + c] = mul(o[(i) * MAX_CHUNKS + c], factors[(row0 + (i)) * BLOCKS + n])
      EACH_4(TM, RESCALE)
    }
#define LOAD_WEIGHTS(i) w[i] = scores[(row0 + (i)) * SCORES + j4]
    EACH_4(TM, LOAD_WEIGHTS)
    [[unroll]] for (uint j = 0; j < 4; j++) {
      const vec4 v = kv_slice[(4 * j4 + j) * 16 + lane];
#define ADD_VALUE(i) add_value(i, c, j, v, ragged)
      EACH_4(TM, ADD_VALUE)
    }
  }
}

void store_chunk(uint i, uint c, Place me, uint column, float all) {
  [[unroll]] for (uint j = 0; j < 4; j++)
    if (column + j < VALUE_WIDTH)
      store(row_of(me), me.head * VALUE_WIDTH + column + j, HEADS * VALUE_WIDTH,
            quotient(o[i * MAX_CHUNKS + c][j], all == 0.0 ? 1.0 : all));
}
void store_row(uint i, uint row0, uint r, uint n_rows, uint lane) {
  if (r >= n_rows) return;
  const Place me = row_place(r);
  const float all = highest[row0 + i]; // 0: no key, and o is 0
#define STORE_CHUNK(c) store_chunk(i, c, me, (c) * 64 + lane * 4, all)
  EACH_4(CHUNKS, STORE_CHUNK)
}

void main() {
  const uint own = gl_LocalInvocationID.x, lane = own % VKF_KEY_BLOCK, row0 = own / VKF_KEY_BLOCK * TM;
  // The last rows begin first, because they see the most keys of a causal mask.
  const uint r0 = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * BM;
  const Place first = row_place(r0);
  const uint n_rows = first.span.queries * GROUP;
  if (r0 >= n_rows) return;
  const uint last_t = (min(r0 + BM, n_rows) - 1) / GROUP, own_row = row0 + lane % TM;
  uint from = keys_from(first, first.t), end = keys_until(first, last_t);
  if (HAS_MASK != 0) trim(first, from, end);
  own_top = LOWEST;
  total = 0.0;
  EACH_4(TM, clear_row)
  for (uint s0 = from; s0 < end; s0 += BN) {
    EACH_4(TM, clear_scores)
    [[dont_unroll]] for (uint d4 = 0; d4 < KEY_PIECES; d4 += BK / 4) {
      barrier(); // what was in the slices has been used
      if (own == 0) is_ragged = 0;
      if (KEY_PIECES > BK / 4 || s0 == from) stage_queries(r0, n_rows, d4);
      stage_keys(first, s0, end, d4);
      barrier();
      const uint n_pieces = WHOLE_SLICES ? BK / 4 : min(BK / 4, KEY_PIECES - d4);
      for (uint d = 0; d < n_pieces; d++) {
#define LOAD_KEY(n) b[n] = kv_slice[((n) * VKF_KEY_BLOCK + lane) * SLICE + d]
#define MULTIPLY_ROW(i) multiply_row(i, q_slice[(row0 + (i)) * SLICE + d])
        EACH_4(BLOCKS, LOAD_KEY)
        EACH_4(TM, MULTIPLY_ROW)
      }
    }
#define FINISH_SCORES(i) \
  finish_scores(i, row_place(min(r0 + row0 + (i), n_rows - 1)), s0, (row0 + (i)) * SCORES, lane)
    EACH_4(TM, FINISH_SCORES)
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
#define WEIGH_ROW(i) weigh_row(i, row0 + (i), lane)
#define FIND_FACTOR(n) find_factor(n, own_row, lane < TM)
#define ADD_WEIGHTS(n) add_weights(n, own_row)
#define ADD_CHUNK(c) add_chunk(c, first, s0, end, row0, lane, ragged)
    EACH_4(TM, WEIGH_ROW)
    EACH_4(BLOCKS, FIND_FACTOR)
    barrier();
    EACH_4(BLOCKS, ADD_WEIGHTS)
    EACH_4(CHUNKS, ADD_CHUNK)
  }
  barrier();
  if (lane < TM) highest[own_row] = total;
  barrier();
#define STORE_ROW(i) store_row(i, row0, r0 + row0 + (i), n_rows, lane)
  EACH_4(TM, STORE_ROW)
}
