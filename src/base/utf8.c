/* utf8: checks by utf8proc's rules that a byte string is well-formed UTF-8. */
#include "base/base.h"

#include <utf8proc.h>

bool vkf_utf8_check(const char *bytes, size_t size, size_t *bad) {
  size_t at = 0;
  while (at < size) {
    utf8proc_int32_t code;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)bytes + at, (utf8proc_ssize_t)(size - at), &code);
    if (n <= 0) {
      if (bad != NULL) *bad = at;
      return false;
    }
    at += (size_t)n;
  }
  return true;
}
