// Rotary positions (Su et al. 2021): turns a column of a head of x by the cosine and sine of its pair, which the table
// has from `angles` on. The including file has x[], table[], and ROTARY and INTERLEAVED as constants.
float turned(uint column, uint in_head, uint angles) {
  const uint half_width = ROTARY / 2;
  float y = x[column];
  if (in_head < ROTARY) {
    const bool second = INTERLEAVED != 0 ? in_head % 2 != 0 : in_head >= half_width;
    const uint pair = INTERLEAVED != 0 ? in_head / 2 : in_head % half_width, step = INTERLEAVED != 0 ? 1 : half_width;
    const float cosine = table[angles + 2 * pair], sine = table[angles + 2 * pair + 1];
    const float other = mul(x[second ? column - step : column + step], sine);
    y = mad(y, cosine, second ? other : -other);
  }
  return y;
}
