/* spm: reads a SentencePiece model file.
 *
 * Protobuf's wire format: a message is fields, each a number << 3 | wire type, then a varint (type 0), 8 bytes (1), a
 * length and that many bytes (2) or 4 bytes (5). Unknown fields are skipped. If a field other than pieces occurs more
 * than once, the last one counts. Refuses files that are cut short, groups, and features that would change the result
 * and are not implemented.
 */
#include "text/spm.h"

#include <math.h>
#include <string.h>

/* ---- the wire format --------------------------------------------------------------------------------------------- */

typedef struct field {
  uint32_t number, wire;
  uint64_t value;        /* wire types 0, 1 and 5 */
  vkf_text_string bytes; /* wire type 2 */
} field;

typedef struct message {
  const uint8_t *at, *end;
  bool damaged;
} message;

static message message_of(vkf_text_string bytes) {
  const uint8_t *data = (const uint8_t *)bytes.data;
  return (message){data, data + bytes.size, false};
}

static uint64_t read_varint(message *m) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
    uint8_t byte = *m->at++;
    value |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  m->damaged = true;
  return 0;
}

static uint64_t read_fixed(message *m, size_t size) {
  uint64_t value = 0;
  if ((size_t)(m->end - m->at) < size) {
    m->damaged = true;
    return 0;
  }
  for (size_t i = 0; i < size; i++) value |= (uint64_t)m->at[i] << 8 * i;
  m->at += size;
  return value;
}

/* Reads the next field; false: the end, or damage. */
static bool next_field(message *m, field *out) {
  if (m->at == m->end || m->damaged) return false;
  uint64_t key = read_varint(m), size = 0;
  if (key >> 3 == 0) m->damaged = true; /* no field has the number 0: a file of zeros ends here */
  *out = (field){.number = (uint32_t)(key >> 3), .wire = key & 7};
  if (out->wire == 0) {
    out->value = read_varint(m);
  } else if (out->wire == 1 || out->wire == 5) {
    out->value = read_fixed(m, out->wire == 1 ? 8 : 4);
  } else if (out->wire == 2) {
    size = read_varint(m);
    if (size > (size_t)(m->end - m->at)) m->damaged = true;
    if (m->damaged) return false;
    out->bytes = (vkf_text_string){(const char *)m->at, (size_t)size};
    m->at += size;
  } else {
    m->damaged = true;
  }
  return !m->damaged;
}

static bool is_field(const field *f, uint32_t number, uint32_t wire) {
  return f->number == number && f->wire == wire;
}

/* ---- the messages ------------------------------------------------------------------------------------------------ */

static vkf_status damaged(vkf_text_loader *loader, const char *what) {
  return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "no SentencePiece model: %s is damaged or cut short", what);
}

static vkf_status unsupported(vkf_text_loader *loader, const char *what) {
  return vkf_text_load_fail(loader, VKF_ERROR_UNSUPPORTED, "%s is not supported", what);
}

static vkf_status read_piece(vkf_text_loader *loader, vkf_text_string bytes, vkf_text_spm *spm) {
  size_t id = spm->n_pieces++;
  vkf_text_spm_piece *piece = &spm->pieces[id];
  message m = message_of(bytes);
  *piece = (vkf_text_spm_piece){.type = VKF_TEXT_SPM_NORMAL};
  for (field f; next_field(&m, &f);) {
    if (is_field(&f, 1, 2)) piece->text = f.bytes;
    if (is_field(&f, 2, 5)) memcpy(&piece->score, &(uint32_t){(uint32_t)f.value}, sizeof(piece->score));
    if (is_field(&f, 3, 0)) piece->type = f.value <= VKF_TEXT_SPM_BYTE ? (vkf_text_spm_type)f.value : 0;
  }
  if (m.damaged) return damaged(loader, "a piece");
  vkf_text_string text = piece->text;
  if (text.size == 0 || memchr(text.data, 0, text.size) != NULL || !vkf_utf8_check(text.data, text.size, NULL))
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "piece %zu should be a text in UTF-8 without zero bytes", id);
  if (!isfinite(piece->score))
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "the score of piece %zu is no number", id);
  if (piece->type == 0) return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "piece %zu has an unknown type", id);
  if (piece->type == VKF_TEXT_SPM_UNUSED) return unsupported(loader, "a piece of type UNUSED");
  return VKF_OK;
}

static vkf_status read_trainer(vkf_text_loader *loader, vkf_text_string bytes, vkf_text_spm *spm) {
  message m = message_of(bytes);
  for (field f; next_field(&m, &f);) {
    if (is_field(&f, 3, 0)) {
      spm->bpe = f.value == 2;
      if (f.value == 3) return unsupported(loader, "model_type \"word\"");
      if (f.value == 4) return unsupported(loader, "model_type \"char\"");
      if (f.value < 1 || f.value > 4) return damaged(loader, "model_type");
    }
    if (is_field(&f, 24, 0) && f.value != 0) return unsupported(loader, "treat_whitespace_as_suffix");
    if (is_field(&f, 35, 0)) spm->byte_fallback = f.value != 0;
    if (is_field(&f, 44, 2)) spm->unk_surface = f.bytes;
  }
  if (!vkf_utf8_check(spm->unk_surface.data, spm->unk_surface.size, NULL)) return damaged(loader, "unk_surface");
  return m.damaged ? damaged(loader, "trainer_spec") : VKF_OK;
}

static vkf_status read_normalizer(vkf_text_loader *loader, vkf_text_string bytes, vkf_text_spm *spm) {
  message m = message_of(bytes);
  for (field f; next_field(&m, &f);) {
    if (is_field(&f, 2, 2)) spm->charsmap = f.bytes;
    if (is_field(&f, 3, 0)) spm->dummy_prefix = f.value != 0;
    if (is_field(&f, 4, 0)) spm->remove_extra_spaces = f.value != 0;
    if (is_field(&f, 5, 0)) spm->escape_spaces = f.value != 0;
  }
  return m.damaged ? damaged(loader, "normalizer_spec") : VKF_OK;
}

static vkf_status check_denormalizer(vkf_text_loader *loader, vkf_text_string bytes) {
  message m = message_of(bytes);
  for (field f; next_field(&m, &f);) {
    if (is_field(&f, 2, 2) && f.bytes.size > 0) return unsupported(loader, "denormalizer_spec");
  }
  return m.damaged ? damaged(loader, "denormalizer_spec") : VKF_OK;
}

/* Finds the unknown piece. Refuses a model that does not have exactly one. */
static vkf_status check_types(vkf_text_loader *loader, vkf_text_spm *spm) {
  size_t n_unknown = 0;
  for (size_t i = 0; i < spm->n_pieces; i++) {
    vkf_text_spm_type type = spm->pieces[i].type;
    if (type == VKF_TEXT_SPM_UNKNOWN) {
      spm->unk_id = i;
      n_unknown++;
    }
  }
  if (n_unknown != 1)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "expected one piece of type UNKNOWN, found %zu", n_unknown);
  return VKF_OK;
}

vkf_status vkf_text_spm_read(vkf_text_loader *loader, vkf_text_string file, vkf_text_spm *out) {
  size_t n = 0;
  *out = (vkf_text_spm){
      .dummy_prefix = true, .remove_extra_spaces = true, .escape_spaces = true, .unk_surface = {" \xE2\x81\x87 ", 5}};
  message m = message_of(file);
  for (field f; next_field(&m, &f);) n += is_field(&f, 1, 2);
  if (m.damaged) return damaged(loader, "the file");
  if (n == 0 || n > VKF_TEXT_MAX_IDS)
    return vkf_text_load_fail(loader, VKF_ERROR_FORMAT, "no SentencePiece model: expected 1 to %d pieces, found %zu",
                              VKF_TEXT_MAX_IDS, n);
  out->pieces = vkf_arena_alloc(loader->arena, n, sizeof(*out->pieces));
  if (out->pieces == NULL) return VKF_ERROR_MEMORY;
  m = message_of(file);
  for (field f; next_field(&m, &f);) {
    if (is_field(&f, 1, 2)) VKF_CALL(read_piece(loader, f.bytes, out));
    if (is_field(&f, 2, 2)) VKF_CALL(read_trainer(loader, f.bytes, out));
    if (is_field(&f, 3, 2)) VKF_CALL(read_normalizer(loader, f.bytes, out));
    if (is_field(&f, 5, 2)) VKF_CALL(check_denormalizer(loader, f.bytes));
  }
  return check_types(loader, out);
}
