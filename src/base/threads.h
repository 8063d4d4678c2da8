/* threads: how this library starts a thread. */
#ifndef VKF_BASE_THREADS_H
#define VKF_BASE_THREADS_H

#include <pthread.h>

/* Starts a thread as pthread_create() without attributes, with all signals blocked: the host's threads take them. */
int vkf_thread_start(pthread_t *thread, void *(*run)(void *user), void *user);

#endif
