/* schedule: runs any number of requests to generate in a few seats.
 *
 * A request waits until a seat whose slots can hold it is empty. When the request of a seat is done, the next request
 * gets the seat while the others continue, even one that came in the meantime. The slots of all seats have one size; a
 * longer request waits until all seats are empty, and then larger ones are made. If the session's bytes for caches
 * cannot hold all seats, there are fewer. Invariant: the result of a request depends neither on the order of the
 * requests nor on those that run beside it.
 */
#ifndef VKF_TASK_SCHEDULE_H
#define VKF_TASK_SCHEDULE_H

#include "engine/generation.h"

/* The schedule reads prompt, pull, mask and source of `input`, their counts, and line. The arrays must stay valid until
 * the request is taken or refused. */
typedef struct vkf_request {
  vkf_search_input input;
  size_t number;              /* number of the row or text in the call, for messages and callbacks */
  const int32_t *source_mask; /* [n_source], 0: this id is no token; NULL: all are tokens */
  void *user;                 /* the caller's */
} vkf_request;

typedef enum vkf_answer { VKF_ANSWER_CONTINUE, VKF_ANSWER_END, VKF_ANSWER_STOP } vkf_answer;

typedef struct vkf_schedule {
  vkf_session *session;
  const vkf_generation_config *config;
  size_t n_requests;  /* that will come; 0: unknown */
  size_t batch_size;  /* most requests that run together; 0: 64, fewer with beams */
  uint32_t n_longest; /* ids of the longest prompt, or source, that will come; 0: unknown */
  bool has_holes;     /* a source_mask may have zeros between tokens */
  uint32_t top_logprobs;
  const vkf_shortlist *shortlist; /* NULL: none */
  bool scores;
  bool translates;          /* see vkf_engine_length_limit() */
  bool ends_with_positions; /* see the same function */
  const bool *is_stopped;   /* NULL, or a callback sets it: nothing more is done or called */
  /* Gives the next request; *there false: there is none now. Called again after each step, and a last time when nothing
   * runs. */
  vkf_status (*next)(void *user, vkf_request *out, bool *there);
  /* Called when sequence `copy` of a request got an id; with beams once per step, with VKF_NO_TOKEN and any request.
   * NULL: not wanted. END: the request ends with what it has. STOP: all requests do, and those that wait never
   * begin. */
  vkf_answer (*on_token)(void *user, const vkf_request *request, uint32_t copy, int32_t id);
  /* Called before on_token with the candidates [n] of a step of search `search` of a request. NULL: not wanted. STOP as
   * above; END has no effect. */
  vkf_answer (*on_beams)(void *user, const vkf_request *request, uint32_t search, const vkf_beam_candidate *candidates,
                         uint32_t n);
  /* Takes the results of a request. Row `row` of logprobs belongs to the first of them. */
  vkf_status (*take)(void *user, const vkf_request *request, const vkf_generated *results, const vkf_logprobs *logprobs,
                     uint32_t row);
  /* Called when a request has no result; the message of the session says why, but does not name the request.
   * VKF_SKIP_MEMORY: the session's bytes for caches cannot hold even this one request. VKF_SKIP_FAILED: its search
   * failed. If this is NULL, or does not return VKF_OK, the schedule fails with that message. */
  vkf_status (*refuse)(void *user, const vkf_request *request, vkf_skip_reason reason);
  void *user;
} vkf_schedule;

vkf_status vkf_task_schedule_run(const vkf_schedule *schedule);

#endif
