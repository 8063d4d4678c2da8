// Decodes the f16 in the lower 16 bits of a word by integer arithmetic and one exact quotient, because unpackHalf2x16
// may take subnormal numbers as 0.
float half_by_hand(uint word) {
  const uint sign = (word & 0x8000u) << 16, magnitude = word & 0x7fffu;
  uint bits = (magnitude << 13) + (112u << 23);
  if (magnitude >= 0x7c00u) bits = magnitude << 13 | 0x7f800000u;
  if (magnitude < 0x400u) bits = floatBitsToUint(float(magnitude) / 16777216.0);
  return uintBitsToFloat(sign | bits);
}
