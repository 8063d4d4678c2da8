/* doctor: what the parts of `doctor` share. A finding is one sentence about one thing, and what to do about it. */
#ifndef VKFORMER_TOOLS_DOCTOR_H
#define VKFORMER_TOOLS_DOCTOR_H

#include "program.h"

typedef enum tool_health { TOOL_HEALTH_OK, TOOL_HEALTH_NOTE, TOOL_HEALTH_WARNING, TOOL_HEALTH_FAULT } tool_health;

typedef struct tool_visit {
  const tool_args *args;
  json_t *findings, *devices;
  size_t n_gpus, n_software, n_wrong; /* working devices; devices with a wrong result */
  size_t n_listed;                    /* devices that the loader lists, all drivers together */
  bool is_stuck;                      /* one of the drivers keeps the loader from listing any */
} tool_visit;

/* advice: NULL, or what to install or set. */
void tool_add_finding(tool_visit *d, tool_health health, const char *area, const char *advice, const char *fmt, ...)
    TOOL_PRINTF(5, 6);

/* Runs `doctor --worker` in a child, so that a driver that crashes or hangs ends only the child. manifest: the only one
 * that the loader gets; NULL: those of the environment and --icd. Returns what it found, or NULL with the reason in
 * `why`. */
json_t *tool_doctor_ask(const tool_args *args, const char *manifest, bool list_only, char *why, size_t size);
/* The child's side: prints what it finds as JSON. */
int tool_doctor_answer(const tool_args *args);

/* Looks at every manifest that the loader would read: the devices of its driver, or why there are none
 * (doctor_drivers.c). */
void tool_doctor_drivers(tool_visit *d);

#endif
