/* validate: what validate.c, validate_merge.c and validate_bisect.c share. "devices" is an array of what --json writes
 * for each device. */
#ifndef VKFORMER_TOOLS_VALIDATE_H
#define VKFORMER_TOOLS_VALIDATE_H

#include "program.h"

/* Runs the shipped model on this device in the reproducible mode and puts a digest of the logits' bits into `entry`;
 * null, after a message, if the device has no such mode. */
void validate_digest(const tool_args *args, const char *device, json_t *entry);
/* false, after a message, if two devices of one version of vkformer have different digests. */
bool validate_same_digests(const json_t *devices);
/* Collects the devices of the files args->operands and prints a line for each. TOOL_WRONG if one had failed,
 * TOOL_FAILED after a message. */
int validate_merge(const tool_args *args, json_t *devices);

/* --bisect: finds the first node of the model over its bound, reports it and keeps it in a folder; TOOL_WRONG if there
 * is one. device: a selector. The context must be open (validate_bisect.c). */
int validate_bisect(tool_session *session, const tool_args *args, const char *device);
/* --replay: runs such a folder's node on this device; TOOL_WRONG if it is over its bound. */
int validate_replay(tool_session *session, const tool_args *args, const char *device);

/* Whether the table is printed; it is not if --json goes to standard output. */
bool validate_is_text(const tool_args *args);

#endif
