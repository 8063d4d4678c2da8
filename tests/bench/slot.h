/* Shared by the programs in this folder: opens one slot of a decoder, times feeding it, and takes medians. */
#ifndef VKF_BENCH_SLOT_H
#define VKF_BENCH_SLOT_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vkformer/lab.h>

typedef struct slot {
  vkf_context *context;
  vkf_device *device;
  vkf_model *model;
  vkf_session *session;
} slot;

/* Opens a model with one slot. folder NULL: VKF_ERROR_ARGUMENT. device NULL: the first one. Call slot_close() even if
 * this fails. */
static vkf_status slot_open(slot *s, const char *folder, const char *device, uint32_t n_tokens, bool no_checks) {
  const vkf_session_params params = {VKF_SESSION_PARAMS_INIT, .n_slots = 1, .slot_tokens = n_tokens};
  *s = (slot){NULL};
  vkf_status st = folder ? vkf_context_create(NULL, &s->context) : VKF_ERROR_ARGUMENT;
  if (!st && no_checks) vkf_context_skip_checks(s->context);
  if (!st) st = vkf_device_open(s->context, device, &s->device);
  if (!st) st = vkf_model_open(s->device, folder, &s->model);
  return st ? st : vkf_session_create(s->model, &params, &s->session);
}

/* Closes everything. Prints the reason if `st` is an error. Returns the exit status. */
static int slot_close(slot *s, vkf_status st, const char *usage) {
  if (st)
    fprintf(stderr, "%s\n",
            s->session   ? vkf_session_message(s->session)
            : s->context ? vkf_context_message(s->context)
                         : usage);
  vkf_session_destroy(&s->session);
  vkf_model_close(&s->model);
  vkf_device_close(&s->device);
  vkf_context_destroy(&s->context);
  return st != VKF_OK;
}

static double clock_ms(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Feeds n ids and sets *ms to the time until the logits of the last one are there. */
static vkf_status slot_feed(const slot *s, const int32_t *ids, size_t n, clockid_t clock, double *ms) {
  const double before = clock_ms(clock);
  vkf_status st = vkf_session_feed(s->session, 0, ids, n, 1);
  if (!st) st = vkf_session_step(s->session);
  *ms = clock_ms(clock) - before;
  return st;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Returns the median of n numbers; sorts them in place. */
static double median(double *ms, size_t n) {
  qsort(ms, n, sizeof *ms, compare);
  return ms[n / 2];
}

#endif
