/* unicode: classes of characters and the byte alphabet.
 *
 * Categories come from utf8proc; what utf8proc does not have (White_Space, Alphabetic's symbols, the blocks of
 * ideographs) is listed here. Texts are well-formed UTF-8, which tokenizer.c checks.
 */
#include "text/internal.h"

#include <string.h>
#include <utf8proc.h>

bool vkf_text_string_equal(vkf_text_string a, vkf_text_string b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

uint32_t vkf_text_char_at(vkf_text_string text, size_t at, size_t *next) {
  const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text.data + at;
  utf8proc_int32_t code = *bytes;
  utf8proc_ssize_t n = code < 0x80 ? 1 : utf8proc_iterate(bytes, (utf8proc_ssize_t)(text.size - at), &code);
  *next = at + (n > 0 ? (size_t)n : 1);
  return (uint32_t)code;
}

size_t vkf_text_char_before(vkf_text_string text, size_t at) {
  do at--;
  while (at > 0 && ((uint8_t)text.data[at] & 0xC0) == 0x80);
  return at;
}

size_t vkf_text_char_count(vkf_text_string text) {
  size_t n = 0;
  for (size_t i = 0; i < text.size; i++) n += ((uint8_t)text.data[i] & 0xC0) != 0x80;
  return n;
}

void vkf_text_append_char(vkf_text *out, uint32_t code) {
  utf8proc_uint8_t bytes[4];
  utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)code, bytes);
  vkf_text_append(out, (const char *)bytes, (size_t)n);
}

static utf8proc_category_t category(uint32_t code) {
  return utf8proc_category((utf8proc_int32_t)code);
}

bool vkf_text_is_white(uint32_t code) {
  return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

bool vkf_text_is_control(uint32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  utf8proc_category_t c = category(code);
  return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

bool vkf_text_is_punctuation(uint32_t code) {
  if (code < 0x80)
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
  utf8proc_category_t c = category(code);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool vkf_text_is_number(uint32_t code) {
  utf8proc_category_t c = category(code);
  return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool vkf_text_is_mark(uint32_t code) {
  utf8proc_category_t c = category(code);
  return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}

bool vkf_text_is_nonspacing_mark(uint32_t code) {
  return category(code) == UTF8PROC_CATEGORY_MN;
}

/* Returns whether it is one of the symbols that are Alphabetic: circled, squared and negative letters. */
static bool is_enclosed_letter(uint32_t code) {
  return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

bool vkf_text_is_word(uint32_t code) {
  utf8proc_category_t c = category(code);
  return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) ||
         (c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME) || c == UTF8PROC_CATEGORY_ND ||
         c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D ||
         is_enclosed_letter(code);
}

bool vkf_text_is_ideograph(uint32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

/* Visible Latin-1 characters stay as they are; the 68 other bytes become 256 and up in ascending order: 0..32 (33 of
 * them), 127..160 (34 of them) and 173. */
uint32_t vkf_text_byte_to_char(uint8_t byte) {
  if (byte <= 32) return 256u + byte;
  if (byte >= 127 && byte <= 160) return 256u + 33 + (byte - 127u);
  if (byte == 173) return 256u + 33 + 34;
  return byte;
}

int vkf_text_char_to_byte(uint32_t code) {
  uint32_t byte = code;
  if (code >= 256 && code < 256 + 33) byte = code - 256;
  if (code >= 256 + 33 && code < 256 + 33 + 34) byte = code - (256 + 33) + 127;
  if (code == 256 + 33 + 34) byte = 173;
  return byte < 256 && vkf_text_byte_to_char((uint8_t)byte) == code ? (int)byte : -1;
}
