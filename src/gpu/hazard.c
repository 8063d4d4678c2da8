/* Hazard check: replays a log and finds two accesses to the same bytes, one of them a write, that nothing orders.
 *
 * Owns the map from bytes to their last writer and last reader. It verifies the recorder that places barriers and
 * shares no code with it: the recorder compares lists of ranges since the last barrier; this check keeps times for
 * each byte for the whole run.
 *
 * Time is a counter of dispatches and barriers. For each kind of access (compute, indirect, transfer, host) the check
 * keeps the time of the last barrier against it. An access on the device is ordered before a later one of that kind if
 * and only if it is older than that barrier. A barrier and a wait for the submit order the host after the device. The
 * submit, which is later in the log, orders the device after the host. It is enough to keep the last reader: it is the
 * youngest one and belongs to the latest submit, so whatever orders it orders the readers before it, too.
 */
#include <stdio.h>
#include <string.h>

#include "gpu/vk.h"

/* The last write or read of a range. time 0: there was none. */
typedef struct stamp {
  uint64_t time, serial;
  const vkf_gpu_event *dispatch; /* its names */
} stamp;

/* Segments of one buffer are disjoint and cover it from 0 to UINT64_MAX. */
typedef struct segment {
  uint64_t buffer, begin, end;
  stamp writer, reader;
} segment;

enum { N_KINDS = 4 };

typedef struct replay {
  vkf_env *env;
  segment *segments;
  size_t n, capacity;
  uint64_t time, serial, waited;
  uint64_t barrier_time[N_KINDS]; /* time of the last barrier against the kind with bit 1 << i */
  const vkf_gpu_event *dispatch;
  vkf_gpu_hazard *out;
} replay;

/* ---- the map ----------------------------------------------------------------------------------------------------- */

static vkf_status add_segment(replay *it, const segment *s) {
  segment *segments = vkf_env_grow(it->env, it->segments, &it->capacity, it->n + 1, sizeof(*segments));
  if (!segments) return VKF_ERROR_MEMORY;
  it->segments = segments;
  it->segments[it->n++] = *s;
  return VKF_OK;
}

/* Splits the buffer's segments at `at`. */
static vkf_status split(replay *it, uint64_t buffer, uint64_t at) {
  bool known = false;
  for (size_t i = 0; i < it->n; ++i) {
    segment *s = &it->segments[i];
    if (s->buffer != buffer) continue;
    known = true;
    if (s->begin < at && at < s->end) {
      segment upper = *s;
      upper.begin = at;
      s->end = at;
      return add_segment(it, &upper);
    }
  }
  if (known) return VKF_OK;
  segment all = {.buffer = buffer, .begin = 0, .end = UINT64_MAX};
  vkf_status st = add_segment(it, &all);
  return st == VKF_OK ? split(it, buffer, at) : st;
}

static bool covers(const vkf_gpu_event *access, const segment *s) {
  return s->buffer == access->buffer && s->begin >= access->begin && s->end <= access->end;
}

/* ---- the rules --------------------------------------------------------------------------------------------------- */

static void report(replay *it, const vkf_gpu_event *access, const segment *s, const stamp *before, bool before_wrote,
                   const char *missing) {
  bool host = access->by == VKF_GPU_BY_HOST;
  it->out->found = true;
  snprintf(it->out->text, sizeof(it->out->text),
           "%s%s%s %s bytes %llu to %llu of %s, which %s/%s %s before, with no %s",
           host ? "the host" : it->dispatch->block, host ? "" : "/", host ? "" : it->dispatch->name,
           access->mode & VKF_GPU_WRITE ? "writes" : "reads", (unsigned long long)s->begin,
           (unsigned long long)VKF_MIN(s->end, access->end), access->buffer_name, before->dispatch->block,
           before->dispatch->name, before_wrote ? "wrote" : "read", missing);
}

/* Reports a hazard if nothing orders `access` after one earlier access by the device. */
static void check_stamp(replay *it, const vkf_gpu_event *access, const segment *s, const stamp *before, bool wrote) {
  if (it->out->found || before->time == 0) return;
  bool host = access->by == VKF_GPU_BY_HOST;
  if (host && before->serial > it->waited) {
    report(it, access, s, before, wrote, "wait for that submit");
    return;
  }
  if (host && !wrote) return; /* for bytes that were only read, the wait is enough */
  for (int k = 0; k < N_KINDS; ++k)
    if ((access->by >> k & 1) && before->time >= it->barrier_time[k])
      report(it, access, s, before, wrote, host ? "barrier to the host between them" : "barrier between them");
}

static vkf_status check_access(replay *it, const vkf_gpu_event *access) {
  VKF_CALL(split(it, access->buffer, access->begin));
  VKF_CALL(split(it, access->buffer, access->end));
  for (size_t i = 0; i < it->n && !it->out->found; ++i) {
    const segment *s = &it->segments[i];
    if (!covers(access, s)) continue;
    check_stamp(it, access, s, &s->writer, true);
    if (access->mode & VKF_GPU_WRITE) check_stamp(it, access, s, &s->reader, false);
  }
  return VKF_OK;
}

static void apply_access(replay *it, const vkf_gpu_event *access) {
  const stamp none = {0}, now = {.time = it->time, .serial = it->serial, .dispatch = it->dispatch};
  bool host = access->by == VKF_GPU_BY_HOST;
  for (size_t i = 0; i < it->n; ++i) {
    segment *s = &it->segments[i];
    if (!covers(access, s)) continue;
    if (access->mode & VKF_GPU_WRITE) {
      /* A later submit sees what the host wrote, so nothing has to wait for the host. */
      s->writer = host ? none : now;
      s->reader = none;
    }
    if (!host && (access->mode & VKF_GPU_READ)) s->reader = now;
  }
}

/* Replays a dispatch, events[0], and its accesses. Checks all before it applies the first, so two accesses of one
 * dispatch to the same bytes are no hazard. */
static vkf_status replay_dispatch(replay *it, const vkf_gpu_event *events, size_t n) {
  it->time++;
  it->dispatch = &events[0];
  for (size_t i = 1; i < n && !it->out->found; ++i) VKF_CALL(check_access(it, &events[i]));
  for (size_t i = 1; i < n; ++i) apply_access(it, &events[i]);
  return VKF_OK;
}

/* Returns the number of events of the dispatch events[0]: itself and the device's accesses that follow. */
static size_t dispatch_events(const vkf_gpu_event *events, size_t n) {
  size_t count = 1;
  while (count < n && events[count].kind == VKF_GPU_EVENT_ACCESS && events[count].by != VKF_GPU_BY_HOST) ++count;
  return count;
}

static void replay_barrier(replay *it, const vkf_gpu_event *barrier) {
  it->time++;
  for (int k = 0; k < N_KINDS; ++k)
    if (barrier->by >> k & 1) it->barrier_time[k] = it->time;
}

static vkf_status replay_all(replay *it, const vkf_gpu_log *log) {
  for (size_t i = 0; i < log->n && !it->out->found; ++i) {
    const vkf_gpu_event *event = &log->events[i];
    size_t n = 1;
    switch (event->kind) {
      case VKF_GPU_EVENT_SUBMIT:
        it->serial = event->serial;
        break;
      case VKF_GPU_EVENT_WAIT:
        it->waited = VKF_MAX(it->waited, event->serial);
        break;
      case VKF_GPU_EVENT_BARRIER:
        replay_barrier(it, event);
        break;
      case VKF_GPU_EVENT_DISPATCH:
        n = dispatch_events(event, log->n - i);
        VKF_CALL(replay_dispatch(it, event, n));
        i += n - 1;
        break;
      case VKF_GPU_EVENT_ACCESS: /* by the host; those of the device follow their dispatch */
        VKF_CALL(check_access(it, event));
        apply_access(it, event);
        break;
    }
  }
  return VKF_OK;
}

vkf_status vkf_gpu_hazard_check(vkf_gpu_device *device, vkf_gpu_hazard *out) {
  vkf_status st = VKF_OK;
  memset(out, 0, sizeof(*out));
  replay it = {.env = device->env, .out = out};
  if (!device->logging)
    VKF_FAIL(device->env, VKF_ERROR_ARGUMENT, "expected a device that logs accesses, found its log off");
  if (device->log.status != VKF_OK)
    VKF_FAIL(device->env, device->log.status, "the log of accesses is not whole: host memory ran out");
  VKF_TRY(replay_all(&it, &device->log));
done:
  vkf_env_free(device->env, it.segments);
  return st;
}
