// The number in f16 that the lower 16 bits of a word are, by whole numbers and one exact product, because drivers may
// take subnormal numbers as 0 in unpackHalf2x16.
float half_by_hand(uint word) {
  const uint sign = (word & 0x8000u) << 16, magnitude = word & 0x7fffu;
  uint bits = (magnitude << 13) + (112u << 23);
  if (magnitude >= 0x7c00u) bits = magnitude << 13 | 0x7f800000u;
  if (magnitude < 0x400u) bits = floatBitsToUint(float(magnitude) / 16777216.0);
  return uintBitsToFloat(sign | bits);
}
