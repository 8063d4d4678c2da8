/* validate: what validate.c, validate_merge.c and validate_bisect.c share: "devices", an array of what --json writes
 * for each. */
#ifndef VKFORMER_TOOLS_VALIDATE_H
#define VKFORMER_TOOLS_VALIDATE_H

#include "program.h"

/* Runs the shipped model on this device in the reproducible mode and puts a digest of the logits' bits into `entry`; a
 * message and null where the device has no such mode. */
void validate_digest(const tool_args *args, const char *device, json_t *entry);
/* false, after a message, where two devices of one version of vkformer have different ones. */
bool validate_same_digests(const json_t *devices);
/* The devices of the files args->operands, each with a line. TOOL_WRONG where one had failed, TOOL_FAILED after a
 * message. */
int validate_merge(const tool_args *args, json_t *devices);

/* --bisect: the first node of the model over its bound, told and kept in a folder; TOOL_WRONG if there is one. device:
 * a selector. The context is open (validate_bisect.c). */
int validate_bisect(tool_session *session, const tool_args *args, const char *device);
/* --replay: such a folder's node on this device; TOOL_WRONG if it is over its bound. */
int validate_replay(tool_session *session, const tool_args *args, const char *device);

/* Is the table printed? Not where --json is asked for on standard output. */
bool validate_is_text(const tool_args *args);

#endif
