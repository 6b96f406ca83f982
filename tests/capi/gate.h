/* A host function that keeps its stream until the test lets it go. */
#ifndef GATE_H
#define GATE_H

#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"

typedef struct { sem_t entered, opened; } gate;

static inline void gate_init(gate *g)
{
    sem_init(&g->entered, 0, 0);
    sem_init(&g->opened, 0, 0);
}

static inline void hold(void *g)
{
    sem_post(&((gate *)g)->entered);
    sem_wait(&((gate *)g)->opened);
}

static inline void gate_open(gate *g) { sem_post(&g->opened); }

/* Queue the function and wait until it runs. */
static inline void gate_close(gate *g, aclrtStream stream)
{
    gate_init(g);
    EXPECT_IS(aclrtLaunchHostFunc(stream, hold, g), 0);
    sem_wait(&g->entered);
}

/* Open a gate after a while, in another thread. */
static inline void *open_later(void *g)
{
    usleep(20000);
    gate_open(g);
    return NULL;
}

static inline int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline aclrtStream new_stream(void)
{
    aclrtStream stream = NULL;
    EXPECT_IS(aclrtCreateStream(&stream), 0);
    return stream;
}

/* A stream that the gate holds. */
static inline aclrtStream new_held_stream(gate *g)
{
    aclrtStream stream = new_stream();
    gate_close(g, stream);
    return stream;
}

static inline aclrtEvent new_event(void)
{
    aclrtEvent event = NULL;
    EXPECT_IS(aclrtCreateEvent(&event), 0);
    return event;
}

#define THREAD(name, body, argument) \
    pthread_t name; \
    pthread_create(&name, NULL, body, argument)
#define JOIN(name) pthread_join(name, NULL)

#endif
