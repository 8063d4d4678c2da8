/* schedule: requests that generate, and the seats that they take in turns.
 *
 * A request waits until there is a seat whose slots hold it. A seat that is done is given to the next request in the
 * next step, while the others go on, also to one that came in the meantime. The slots of all seats have one size; a
 * request that is longer waits until all seats are empty, and then larger ones are made. There are as many seats as the
 * session's bytes for caches hold. Invariant: what a request gets depends neither on the order of the requests nor on
 * those beside it.
 */
#ifndef VKF_TASK_SCHEDULE_H
#define VKF_TASK_SCHEDULE_H

#include "engine/generation.h"

/* Of `input` the schedule reads prompt, pull, mask, source and line, and how many ids they have. They are valid until
 * the request is taken or refused. */
typedef struct vkf_request {
  vkf_search_input input;
  size_t number;              /* of the row or text in the call, for messages and callbacks */
  const int32_t *source_mask; /* [n_source]: 0 an id that is no token; NULL: there is none */
  void *user;                 /* the caller's */
} vkf_request;

typedef enum vkf_told { VKF_TOLD_GO_ON, VKF_TOLD_ENOUGH, VKF_TOLD_STOP } vkf_told;

typedef struct vkf_schedule {
  vkf_session *session;
  const vkf_generation_config *config;
  size_t n_requests;  /* that will come; 0: nobody knows */
  size_t batch_size;  /* requests that run together, at most; 0: 64, fewer with beams */
  uint32_t n_longest; /* ids of the longest prompt, or source, that will come; 0: nobody knows */
  bool has_holes;     /* there may be zeros between the tokens of a source_mask */
  uint32_t top_logprobs;
  const vkf_shortlist *shortlist; /* NULL: none */
  bool scores;
  bool translates;          /* see vkf_engine_length_limit() */
  bool ends_with_positions; /* see there, too */
  const bool *is_stopped;   /* NULL, or set by a callback: nothing more is done, and no callback is called */
  /* The next request; *there false: there is none now. It is asked again after each step, and for the last time when
   * nothing runs. */
  vkf_status (*next)(void *user, vkf_request *out, bool *there);
  /* NULL, or told that sequence `copy` of a request got an id; with beams it is called once a step, with VKF_NO_TOKEN
   * and any request. ENOUGH: the request ends with what there is. STOP: all end so, and those that wait are not
   * begun. */
  vkf_told (*on_token)(void *user, const vkf_request *request, uint32_t copy, int32_t id);
  /* NULL, or told of the candidates [n] of a step of search `search` of a request, before on_token; the same answers.
   */
  vkf_told (*on_beams)(void *user, const vkf_request *request, uint32_t search, const vkf_beam_candidate *candidates,
                       uint32_t n);
  /* Takes the results of a request, those of one sentence. Row `row` of logprobs belongs to the first of them. */
  vkf_status (*take)(void *user, const vkf_request *request, const vkf_generated *results, const vkf_logprobs *logprobs,
                     uint32_t row);
  /* Told that a request has no result; the message of the session says why, and does not name the request.
   * VKF_SKIP_MEMORY: the session's bytes for caches cannot hold it by itself. VKF_SKIP_FAILED: its search failed. If
   * this is NULL, or does not return VKF_OK, the schedule ends with that message. */
  vkf_status (*refuse)(void *user, const vkf_request *request, vkf_skip_reason reason);
  void *user;
} vkf_schedule;

vkf_status vkf_task_schedule_run(const vkf_schedule *schedule);

#endif
