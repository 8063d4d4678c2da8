/* charsmap: SentencePiece's precompiled table of replacements, the normalizer "Precompiled".
 *
 * The table is base64 of: the trie's size in bytes (u32, little-endian), the trie as a double array of u32 units (the
 * layout of darts-clone), then the replacements, each ended by a zero byte. A unit holds a label in its low 8 bits
 * (and bit 31), the flag "this node has a value" in bit 8, and the offset to its children from bit 10 on, shifted left
 * by 8 more if bit 9 is set. A value is an offset into the replacements. Refuses a table that is cut short. Every index
 * is checked against the size, so a damaged trie matches less but reads nothing outside.
 */
#include "text/internal.h"

#include <string.h>
#include <utf8proc.h>

struct vkf_text_charsmap {
  const uint8_t *units; /* [n_units * 4], little-endian */
  size_t n_units;
  const char *replacements; /* [n_bytes], the last one is zero */
  size_t n_bytes;
};

static int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

/* Returns the number of bytes, or SIZE_MAX if a character is no digit. out has room for 3/4 of the text. */
static size_t base64_decode(vkf_text_string text, uint8_t *out) {
  size_t n = 0;
  uint32_t bits = 0;
  int n_bits = 0;
  while (text.size > 0 && text.data[text.size - 1] == '=') text.size--;
  for (size_t i = 0; i < text.size; i++) {
    int digit = base64_digit(text.data[i]);
    if (digit < 0) return SIZE_MAX;
    bits = bits << 6 | (uint32_t)digit;
    n_bits += 6;
    if (n_bits >= 8) out[n++] = (uint8_t)(bits >> (n_bits -= 8));
  }
  return n;
}

static uint32_t read_u32(const uint8_t *at) {
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* bytes: [size + 1], the last one zero. */
static vkf_status init_map(vkf_text_loader *loader, const uint8_t *bytes, size_t size, const vkf_text_charsmap **out) {
  size_t trie_bytes = size < 4 ? 0 : read_u32(bytes);
  if (size < 4 || trie_bytes > size - 4 || trie_bytes % 4 != 0 || trie_bytes == 0)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT,
                              "precompiled_charsmap of %zu bytes should hold a trie, and says that it has %zu bytes",
                              size, trie_bytes);
  vkf_text_charsmap *map = vkf_arena_alloc(loader->arena, 1, sizeof(*map));
  if (map == NULL) return VKF_ERROR_MEMORY;
  map->units = bytes + 4;
  map->n_units = trie_bytes / 4;
  map->replacements = (const char *)bytes + 4 + trie_bytes;
  map->n_bytes = size - 4 - trie_bytes + 1;
  *out = map;
  return VKF_OK;
}

vkf_status vkf_text_charsmap_create(vkf_text_loader *loader, vkf_text_string base64, const vkf_text_charsmap **out) {
  uint8_t *bytes = vkf_arena_alloc(loader->arena, base64.size / 4 * 3 + 4, 1); /* a zero byte follows what is decoded */
  if (bytes == NULL) return VKF_ERROR_MEMORY;
  size_t size = base64_decode(base64, bytes);
  if (size == SIZE_MAX) return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "precompiled_charsmap is not base64");
  return init_map(loader, bytes, size, out);
}

vkf_status vkf_text_charsmap_init(vkf_text_loader *loader, vkf_text_string bytes, const vkf_text_charsmap **out) {
  vkf_text_string copy;
  vkf_status st = vkf_text_load_copy(loader, bytes.data, bytes.size, &copy);
  return st == VKF_OK ? init_map(loader, (const uint8_t *)copy.data, copy.size, out) : st;
}

static bool unit_at(const vkf_text_charsmap *map, size_t index, uint32_t *out) {
  if (index >= map->n_units) return false;
  *out = read_u32(map->units + 4 * index);
  return true;
}

static size_t offset_of(uint32_t unit) {
  return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* Finds the shortest or the longest prefix of `text` that the table has: its size and its replacement. */
static bool find_replacement(const vkf_text_charsmap *map, vkf_text_string text, bool longest, size_t *size,
                             vkf_text_string *out) {
  uint32_t unit = 0, leaf = 0;
  size_t at = 0;
  bool found = false;
  if (!unit_at(map, 0, &unit)) return false;
  at ^= offset_of(unit);
  for (size_t i = 0; i < text.size && (longest || !found); i++) {
    uint8_t byte = (uint8_t)text.data[i];
    at ^= byte;
    if (byte == 0 || !unit_at(map, at, &unit) || (unit & (1u << 31 | 0xFFu)) != byte) break;
    at ^= offset_of(unit);
    if ((unit >> 8 & 1) == 0) continue;
    size_t value = unit_at(map, at, &leaf) ? leaf & ~(1u << 31) : map->n_bytes;
    if (value >= map->n_bytes) break;
    const char *replacement = map->replacements + value;
    *out = (vkf_text_string){replacement, strlen(replacement)}; /* the last byte of all is zero */
    *size = i + 1;
    found = true;
  }
  return found;
}

bool vkf_text_charsmap_longest(const vkf_text_charsmap *map, vkf_text_string text, size_t *size, vkf_text_string *out) {
  return find_replacement(map, text, true, size, out);
}

static bool append_replacement(const vkf_text_charsmap *map, vkf_text_string text, vkf_text *out) {
  vkf_text_string replacement;
  size_t size;
  if (!find_replacement(map, text, false, &size, &replacement)) return false;
  vkf_text_append(out, replacement.data, replacement.size);
  return true;
}

/* Looks up each grapheme cluster of up to five bytes as a whole. If it is longer or not in the table, looks up each
 * of its characters. */
void vkf_text_charsmap_apply(const vkf_text_charsmap *map, vkf_text_string text, vkf_text *out) {
  for (size_t start = 0; start < text.size;) {
    size_t end, next;
    utf8proc_int32_t state = 0;
    uint32_t code = vkf_text_char_at(text, start, &end);
    while (end < text.size) {
      uint32_t following = vkf_text_char_at(text, end, &next);
      if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)code, (utf8proc_int32_t)following, &state)) break;
      code = following;
      end = next;
    }
    vkf_text_string cluster = {text.data + start, end - start};
    start = end;
    if (cluster.size < 6 && append_replacement(map, cluster, out)) continue;
    for (size_t at = 0; at < cluster.size; at = next) {
      vkf_text_char_at(cluster, at, &next);
      vkf_text_string one = {cluster.data + at, next - at};
      if (!append_replacement(map, one, out)) vkf_text_append(out, one.data, one.size);
    }
  }
}
