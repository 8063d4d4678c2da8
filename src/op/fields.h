/* fields: names the parameters of the ops, so that a node can be written to a file and read again.
 *
 * fields.c has a table for each op, a row for each of its parameters. An op without a table does not compile.
 */
#ifndef VKF_OP_FIELDS_H
#define VKF_OP_FIELDS_H

#include "op/op.h"

typedef enum vkf_field_kind {
  VKF_FIELD_COUNT,  /* uint32_t */
  VKF_FIELD_FLAG,   /* bool */
  VKF_FIELD_NUMBER, /* float */
  /* enums, whose values have words */
  VKF_FIELD_DIM,
  VKF_FIELD_ACTIVATION,
  VKF_FIELD_NORM,
  VKF_FIELD_PAIRS
} vkf_field_kind;

typedef struct vkf_field {
  const char *name; /* of the member: "n_heads" */
  size_t offset;    /* in vkf_params */
  vkf_field_kind kind;
} vkf_field;

/* op < VKF_OP_COUNT. */
const vkf_field *vkf_op_fields(vkf_op op, size_t *n);
/* Returns the word of a value of an enum; NULL if there is none. */
const char *vkf_field_word(vkf_field_kind kind, uint32_t value);

#endif
