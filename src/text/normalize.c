/* normalize: the normalizers, which turn one text into another.
 *
 * Refuses the kinds that are not in KINDS. Each appends its result to `out`.
 */
#include "text/internal.h"

#include <utf8proc.h>

/* ---- Unicode's normal forms -------------------------------------------------------------------------------------- */

static bool is_ascii(vkf_text_string text) {
  for (size_t i = 0; i < text.size; i++) {
    if ((uint8_t)text.data[i] >= 0x80) return false;
  }
  return true;
}

static vkf_status normal_form(vkf_env *env, vkf_text_string text, utf8proc_option_t options, vkf_text *out) {
  if (is_ascii(text)) { /* ASCII is the same in every form */
    vkf_text_append(out, text.data, text.size);
    return vkf_text_status(out);
  }
  vkf_status st = VKF_OK;
  const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text.data;
  utf8proc_int32_t *codes = NULL;
  options |= UTF8PROC_STABLE;
  utf8proc_ssize_t n = utf8proc_decompose(bytes, (utf8proc_ssize_t)text.size, NULL, 0, options);
  if (n > 0) {
    codes = vkf_env_alloc(env, (size_t)n + 1, sizeof(*codes));
    if (codes == NULL) return VKF_ERROR_MEMORY;
    n = utf8proc_decompose(bytes, (utf8proc_ssize_t)text.size, codes, n, options);
  }
  if (n > 0) n = utf8proc_reencode(codes, n, options);
  if (n < 0) VKF_FAIL(env, VKF_ERROR_ARGUMENT, "the text cannot be normalized: %s", utf8proc_errmsg(n));
  vkf_text_append(out, (const char *)codes, (size_t)n);
  VKF_TRY(vkf_text_status(out));
done:
  vkf_env_free(env, codes);
  return st;
}

static vkf_status nfc(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  return normal_form(step->env, text, UTF8PROC_COMPOSE, out);
}

static vkf_status nfd(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  return normal_form(step->env, text, UTF8PROC_DECOMPOSE, out);
}

static vkf_status nfkc(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  return normal_form(step->env, text, UTF8PROC_COMPOSE | UTF8PROC_COMPAT, out);
}

static vkf_status nfkd(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  return normal_form(step->env, text, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, out);
}

/* ---- character by character -------------------------------------------------------------------------------------- */

static void append_lowercase(vkf_text *out, uint32_t code) {
  if (code == 0x130)
    vkf_text_append(out, "i\xCC\x87", 3); /* the only character that becomes two: i and a dot above */
  else
    vkf_text_append_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
}

static vkf_status lowercase(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  (void)step;
  for (size_t at = 0; at < text.size;) append_lowercase(out, vkf_text_char_at(text, at, &at));
  return vkf_text_status(out);
}

static vkf_status strip_accents(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  (void)step;
  for (size_t at = 0; at < text.size;) {
    uint32_t code = vkf_text_char_at(text, at, &at);
    if (!vkf_text_is_mark(code)) vkf_text_append_char(out, code);
  }
  return vkf_text_status(out);
}

/* Applies SentencePiece's nmt rules: drops some control characters, and replaces other characters by a space. */
static vkf_status nmt(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  (void)step;
  for (size_t at = 0; at < text.size;) {
    uint32_t c = vkf_text_char_at(text, at, &at);
    if ((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
      continue;
    bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    vkf_text_append_char(out, space ? ' ' : c);
  }
  return vkf_text_status(out);
}

static vkf_status byte_level(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  (void)step;
  for (size_t i = 0; i < text.size; i++) vkf_text_append_char(out, vkf_text_byte_to_char((uint8_t)text.data[i]));
  return vkf_text_status(out);
}

/* ---- BERT -------------------------------------------------------------------------------------------------------- */

static vkf_status load_bert(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  VKF_CALL(vkf_text_load_bool(loader, json, "clean_text", true, &step->u.bert.clean));
  VKF_CALL(vkf_text_load_bool(loader, json, "handle_chinese_chars", true, &step->u.bert.ideographs));
  VKF_CALL(vkf_text_load_bool(loader, json, "lowercase", true, &step->u.bert.lowercase));
  /* null: the same as lowercase. */
  return vkf_text_load_bool(loader, json, "strip_accents", step->u.bert.lowercase, &step->u.bert.strip_accents);
}

static vkf_status bert(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  vkf_status st = VKF_OK;
  vkf_text clean, plain;
  vkf_text_init(&clean, step->env);
  vkf_text_init(&plain, step->env);
  for (size_t at = 0; at < text.size;) {
    uint32_t code = vkf_text_char_at(text, at, &at);
    if (step->u.bert.clean) {
      if (code == 0 || code == 0xFFFD || vkf_text_is_control(code)) continue;
      if (vkf_text_is_white(code)) code = ' ';
    }
    bool alone = step->u.bert.ideographs && vkf_text_is_ideograph(code);
    if (alone) vkf_text_append(&clean, " ", 1);
    vkf_text_append_char(&clean, code);
    if (alone) vkf_text_append(&clean, " ", 1);
  }
  VKF_TRY(vkf_text_status(&clean));
  vkf_text_string chars = {clean.data, clean.size};
  if (step->u.bert.strip_accents) {
    VKF_TRY(normal_form(step->env, chars, UTF8PROC_DECOMPOSE, &plain));
    chars = (vkf_text_string){plain.data, plain.size};
  }
  for (size_t at = 0; at < chars.size;) {
    uint32_t code = vkf_text_char_at(chars, at, &at);
    if (step->u.bert.strip_accents && vkf_text_is_nonspacing_mark(code)) continue;
    if (step->u.bert.lowercase)
      append_lowercase(out, code);
    else
      vkf_text_append_char(out, code);
  }
  VKF_TRY(vkf_text_status(out));
done:
  vkf_text_finish(&plain);
  vkf_text_finish(&clean);
  return st;
}

/* ---- with options ------------------------------------------------------------------------------------------------ */

static vkf_status load_strip(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  VKF_CALL(vkf_text_load_bool(loader, json, "strip_left", true, &step->u.strip.left));
  return vkf_text_load_bool(loader, json, "strip_right", true, &step->u.strip.right);
}

static vkf_status strip(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  size_t start = 0, end = text.size, next;
  while (step->u.strip.left && start < end && vkf_text_is_white(vkf_text_char_at(text, start, &next))) start = next;
  while (step->u.strip.right && start < end) {
    size_t before = vkf_text_char_before(text, end);
    if (!vkf_text_is_white(vkf_text_char_at(text, before, &next))) break;
    end = before;
  }
  vkf_text_append(out, text.data + start, end - start);
  return vkf_text_status(out);
}

static vkf_status load_prepend(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  return vkf_text_load_string(loader, json, "prepend", &step->content);
}

static vkf_status prepend(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  if (text.size > 0) vkf_text_append(out, step->content.data, step->content.size);
  vkf_text_append(out, text.data, text.size);
  return vkf_text_status(out);
}

static vkf_status replace(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  return vkf_text_pattern_replace(step->pattern, text, step->content, out);
}

static vkf_status load_precompiled(vkf_text_loader *loader, const json_t *json, vkf_text_step *step) {
  vkf_text_string base64;
  VKF_CALL(vkf_text_load_string(loader, json, "precompiled_charsmap", &base64));
  return vkf_text_charsmap_create(loader, base64, &step->u.precompiled.map);
}

static vkf_status precompiled(const vkf_text_step *step, vkf_text_string text, vkf_text *out) {
  vkf_text_charsmap_apply(step->u.precompiled.map, text, out);
  return vkf_text_status(out);
}

static const vkf_text_kind KINDS[] = {
    {.type = "NFC", .normalize = nfc},
    {.type = "NFD", .normalize = nfd},
    {.type = "NFKC", .normalize = nfkc},
    {.type = "NFKD", .normalize = nfkd},
    {.type = "Nmt", .normalize = nmt},
    {.type = "Lowercase", .normalize = lowercase},
    {.type = "StripAccents", .normalize = strip_accents},
    {.type = "ByteLevel", .normalize = byte_level},
    {.type = "BertNormalizer", .load = load_bert, .normalize = bert},
    {.type = "Strip", .load = load_strip, .normalize = strip},
    {.type = "Prepend", .load = load_prepend, .normalize = prepend},
    {.type = "Replace", .load = vkf_text_load_replace, .normalize = replace},
    {.type = "Precompiled", .load = load_precompiled, .normalize = precompiled},
};

vkf_status vkf_text_load_normalizers(vkf_text_loader *loader, const json_t *json, vkf_text_step **out) {
  return vkf_text_load_steps(loader, "normalizer", "normalizers", KINDS, VKF_COUNT(KINDS), json, out);
}

vkf_status vkf_text_normalize(const vkf_text_step *steps, vkf_env *env, vkf_text_string text, vkf_text *out) {
  vkf_status st = VKF_OK;
  vkf_text buffers[2];
  vkf_text_init(&buffers[0], env);
  vkf_text_init(&buffers[1], env);
  int turn = 0;
  for (; steps != NULL; steps = steps->next, turn ^= 1) {
    buffers[turn].size = 0;
    VKF_TRY(steps->kind->normalize(steps, text, &buffers[turn]));
    text = (vkf_text_string){buffers[turn].data, buffers[turn].size};
  }
  vkf_text_append(out, text.data, text.size);
  VKF_TRY(vkf_text_status(out));
done:
  vkf_text_finish(&buffers[1]);
  vkf_text_finish(&buffers[0]);
  return st;
}
