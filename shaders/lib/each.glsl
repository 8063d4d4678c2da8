// EACH_8(n, F): F(0), F(1), ... F(n - 1), for n up to 8, a specialization constant; EACH_2 and EACH_4 likewise. For
// loops that index arrays of registers: Mesa's v3dv puts every array that a loop indexes into memory before it unrolls
// the loop, and one that only literals index stays in registers. F may be a function: what it is called with is known
// once it is inlined. To the others it is what [[unroll]] makes of the loop.
// Not for tiles of matmul and attention: SwiftShader compiles all calls, also those that n leaves out, and takes
// seconds for a kernel of that size (docs/SPEED.md).
#define EACH_2(n, F) \
  if ((n) > 0) F(0); \
  if ((n) > 1) F(1);
#define EACH_4(n, F) \
  EACH_2(n, F) \
  if ((n) > 2) F(2); \
  if ((n) > 3) F(3);
#define EACH_8(n, F) \
  EACH_4(n, F) \
  if ((n) > 4) F(4); \
  if ((n) > 5) F(5); \
  if ((n) > 6) F(6); \
  if ((n) > 7) F(7);
