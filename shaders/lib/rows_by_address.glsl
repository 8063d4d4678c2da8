// Reads rows of k and v, operands 1 and 2, by address, in any FORMAT, four elements at a time.
#include "lib/by_address.glsl"
#include "lib/format.glsl"
FROM_ADDRESS(8) Rows { WORDS_OF_4 v[]; };

Rows rows_at(uint operand, uint element) {
  uint carry, high, low;
  umulExtended(element / PER_WORD, 4, high, low);
  const uint sum = uaddCarry(at[operand].x, low, carry);
  return Rows(uvec2(sum, at[operand].y + high + carry));
}
