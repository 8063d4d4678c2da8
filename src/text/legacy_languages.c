/* legacy_languages: adds the tokens of languages, which the legacy files of multilingual models lack.
 *
 * Their ids follow the vocabulary's, in fairseq's order of the languages: that order is part of the format. Also makes
 * the ids of classes that number the pieces of a SentencePiece model anew.
 */
#include "text/legacy.h"

#include <stdio.h>
#include <string.h>

/* Names with a space behind each. */
static const char MBART[] =
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN ";
static const char MBART50[] =
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN "
    "te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI "; /* after those of MBART */
static const char M2M100[] =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu ";
static const char PLBART[] = "java python en_XX ", PLBART_MULTI[] = "javascript php ruby go "; /* multi: after PLBART */
static const char WMT21[] = "en ha is ja cs ru zh de ";

static vkf_status put(vkf_text_legacy *o, const char *token, size_t id) {
  if (json_object_get(o->vocab, token) != NULL) return VKF_OK; /* the file has it */
  if (json_object_set_new(o->vocab, token, json_integer((json_int_t)id)) != 0) return vkf_text_legacy_no_memory(o);
  return VKF_OK;
}

/* Adds each name, with `around` before and behind it, with ids from *id on. */
static vkf_status put_names(vkf_text_legacy *o, const char *names, const char *around, size_t *id) {
  vkf_status st = VKF_OK;
  char token[32];
  for (size_t n; st == VKF_OK && (n = strcspn(names, " ")) > 0; names += n + 1) {
    snprintf(token, sizeof(token), "%s%.*s%s", around, (int)n, names, around);
    st = put(o, token, (*id)++);
  }
  return st;
}

static vkf_status refuse_codes(vkf_text_legacy *o, const char *codes) {
  return vkf_env_fail(o->loader->env, VKF_ERROR_UNSUPPORTED, "%s: language_codes \"%s\" is not supported",
                      o->files->tokenizer_config.name, codes);
}

static vkf_status number_m2m(vkf_text_legacy *o) {
  const char *codes = json_string_value(json_object_get(o->config, "language_codes"));
  size_t id = json_object_size(o->vocab);
  if (codes != NULL && strcmp(codes, "m2m100") != 0 && strcmp(codes, "wmt21") != 0) return refuse_codes(o, codes);
  return put_names(o, codes != NULL && strcmp(codes, "wmt21") == 0 ? WMT21 : M2M100, "__", &id);
}

/* Adds the languages and the mask; language_codes "multi" has no mask. */
static vkf_status number_plbart(vkf_text_legacy *o, size_t id) {
  const char *codes = json_string_value(json_object_get(o->config, "language_codes"));
  const bool is_multi = codes != NULL && strcmp(codes, "multi") == 0;
  if (codes != NULL && !is_multi && strcmp(codes, "base") != 0) return refuse_codes(o, codes);
  VKF_CALL(put_names(o, PLBART, "__", &id));
  return is_multi ? put_names(o, PLBART_MULTI, "__", &id) : put(o, "<mask>", id);
}

/* Adds the model's pieces from `first` on, with ids that are `offset` more than in the file. */
static vkf_status put_pieces(vkf_text_legacy *o, size_t first, size_t offset) {
  for (size_t i = first; i < o->spm->n_pieces; i++) {
    vkf_text_string piece;
    VKF_CALL(vkf_text_load_copy(o->loader, o->spm->pieces[i].text.data, o->spm->pieces[i].text.size, &piece));
    VKF_CALL(put(o, piece.data, i + offset));
  }
  return VKF_OK;
}

/* The ids are <pad> </s> <mask_1> <mask_2> <unk_2> to <unk_102>, then the pieces that follow <pad> </s> in the file,
 * <unk> first. Only pretraining uses the ids 2 to 104 (Zhang et al. 2020, "PEGASUS"), so they are special. */
static vkf_status number_pegasus(vkf_text_legacy *o) {
  enum { OFFSET = 103, N_FIRST = 4 };
  static const char *const first[N_FIRST] = {"<pad>", "</s>", "<mask_1>", "<mask_2>"};
  const json_t *offset = json_object_get(o->config, "offset");
  if (offset != NULL && json_integer_value(offset) != OFFSET)
    return vkf_env_fail(o->loader->env, VKF_ERROR_UNSUPPORTED, "%s: offset: expected %d, found %lld",
                        o->files->tokenizer_config.name, OFFSET, (long long)json_integer_value(offset));
  if (o->spm->n_pieces < 3 || o->spm->unk_id != 2)
    return vkf_env_fail(o->loader->env, VKF_ERROR_FORMAT,
                        "%s: expected the pieces <pad>, </s> and <unk> first, found <unk> with the id %zu of %zu",
                        o->files->spm.name, o->spm->unk_id, o->spm->n_pieces);
  for (size_t id = 0; id < OFFSET + 2; id++) {
    char token[32];
    if (id < N_FIRST)
      snprintf(token, sizeof(token), "%s", first[id]);
    else
      snprintf(token, sizeof(token), "<unk_%zu>", id - 2);
    VKF_CALL(put(o, token, id));
    if (id >= 2) VKF_CALL(vkf_text_legacy_add_token(o, token, id, false));
  }
  return put_pieces(o, 2, OFFSET);
}

/* The ids are <s> <pad> </s> <unk>, then the pieces that follow <unk> <s> </s> in the file; their ids are one more than
 * there. */
static vkf_status number_fairseq(vkf_text_legacy *o) {
  static const char *const first[] = {"<s>", "<pad>", "</s>", "<unk>"};
  size_t id = o->spm->n_pieces + 1;
  if (o->spm->n_pieces < 3 || o->spm->unk_id != 0)
    return vkf_env_fail(o->loader->env, VKF_ERROR_FORMAT,
                        "%s: expected the pieces <unk>, <s> and </s> first, found <unk> with the id %zu of %zu",
                        o->files->spm.name, o->spm->unk_id, o->spm->n_pieces);
  for (size_t i = 0; i < VKF_COUNT(first); i++) VKF_CALL(put(o, first[i], i));
  VKF_CALL(put_pieces(o, 3, 1));
  if (strncmp(o->row->class_name, "MBart", 5) == 0) VKF_CALL(put_names(o, MBART, "", &id));
  if (strcmp(o->row->class_name, "MBart50") == 0) VKF_CALL(put_names(o, MBART50, "", &id));
  return strcmp(o->row->class_name, "PLBart") == 0 ? number_plbart(o, id) : put(o, "<mask>", id);
}

vkf_status vkf_text_legacy_number_pieces(vkf_text_legacy *o) {
  if (o->row->form == VKF_LEGACY_M2M) return number_m2m(o);
  if (o->row->form != VKF_LEGACY_FAIRSEQ && o->row->form != VKF_LEGACY_PEGASUS) return VKF_OK;
  o->vocab = json_object();
  if (o->vocab == NULL) return vkf_text_legacy_no_memory(o);
  return o->row->form == VKF_LEGACY_FAIRSEQ ? number_fairseq(o) : number_pegasus(o);
}

vkf_status vkf_text_legacy_add_languages(vkf_text_legacy *o) {
  const char *key;
  json_t *id;
  json_object_foreach(o->vocab, key, id) {
    vkf_text_language_form form = vkf_text_language_form_of((vkf_text_string){key, strlen(key)});
    const bool is_marked = form == VKF_TEXT_LANGUAGE_UNDERSCORES;
    bool is_language = (o->row->form == VKF_LEGACY_MARIAN && form == VKF_TEXT_LANGUAGE_ARROWS) ||
                       (o->row->form == VKF_LEGACY_M2M && is_marked) ||
                       (o->row->form == VKF_LEGACY_FAIRSEQ && (is_marked || form == VKF_TEXT_LANGUAGE_CODE) &&
                        (size_t)json_integer_value(id) > o->spm->n_pieces);
    if (!is_language || !json_is_integer(id)) continue;
    VKF_CALL(vkf_text_legacy_add_token(o, key, (size_t)json_integer_value(id), false));
  }
  return VKF_OK;
}
