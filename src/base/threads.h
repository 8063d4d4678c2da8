/* threads: how this library starts a thread. */
#ifndef VKF_BASE_THREADS_H
#define VKF_BASE_THREADS_H

#include <pthread.h>

/* A thread that takes no signals: those of the process are for the host's threads. As pthread_create() without
 * attributes. */
int vkf_thread_start(pthread_t *thread, void *(*run)(void *user), void *user);

#endif
