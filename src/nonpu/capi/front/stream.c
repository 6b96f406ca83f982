/* The device, its contexts and its streams: queues of plans, each with a worker of its own once it needs one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"

/* Nanoseconds: below this, handing work to another thread costs more than the work. */
enum { INLINE_COST = 50000 };

typedef struct task { struct task *next; nonpu_plan plan; } task;
typedef struct {
    task *head, *tail;
    uint64_t queued, finished;      /* plans accepted and done; never reset, so that a late waiter sees the end */
    int busy, has_worker, closing;
    uint32_t life;                  /* of the context it was made in; 0: of none */
    pthread_t worker;
    pthread_cond_t changed;
} stream;

_Static_assert(sizeof(stream) <= NONPU_STREAM_BYTES, "a stream must fit its pool");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;       /* guards all that follows and all streams */
static stream process_default = { .changed = PTHREAD_COND_INITIALIZER };
static uint64_t pending;            /* plans in all streams that are not done */
static int device_uses;             /* aclrtSetDevice calls not yet undone */
static uint32_t device_life = 1;    /* counts the default contexts; a thread's context is gone when it differs */
static __thread uint32_t thread_life;

int nonpu_is_busy(void) { return __atomic_load_n(&pending, __ATOMIC_ACQUIRE) != 0; }

/* ---- plans ---- */

/* A plan with a temporary block: both launches get its address. 0 when memory ends. */
static int attach(nonpu_plan *plan)
{
    if (plan->temporary <= 0)
        return 1;
    void *block = aligned_alloc(64, ((size_t)plan->temporary + 63) / 64 * 64);
    plan->main.operand[0].data = plan->tail.operand[1].data = (uintptr_t)block;
    return block != NULL;
}

static void run_attached(const nonpu_plan *plan)
{
    if (plan->launches > 0)
        nonpu_run(&plan->main);
    if (plan->launches > 1)
        nonpu_run(&plan->tail);
    if (plan->temporary > 0)
        free((void *)plan->tail.operand[1].data);
}

static int32_t no_memory(const char *api)
{
    return nonpu_fail(ACLNN_ERR_RUNTIME_ERROR, api, "temporary memory", "available", "none");
}

static int32_t run_now(const char *api, const nonpu_plan *plan)
{
    nonpu_plan own;
    if (plan->temporary > 0) {
        own = *plan;
        plan = &own;
        if (!attach(&own))
            return no_memory(api);
    }
    run_attached(plan);
    return ACLNN_SUCCESS;
}

int32_t nonpu_run_plan(const nonpu_plan *plan) { return run_now("nonpu_run_plan", plan); }

/* ---- queues; the lock is held on entry and exit of all of these ---- */

static void begin(stream *s)
{
    s->queued++;
    __atomic_add_fetch(&pending, 1, __ATOMIC_RELEASE);
}

static void finish(stream *s)
{
    s->busy = 0;
    s->finished++;
    if (!__atomic_sub_fetch(&pending, 1, __ATOMIC_ACQ_REL))
        nonpu_release_deferred();
    pthread_cond_broadcast(&s->changed);
}

static void run_next(stream *s)
{
    task *t = s->head;
    s->head = t->next;
    s->busy = 1;
    pthread_mutex_unlock(&lock);
    run_attached(&t->plan);
    free(t);
    pthread_mutex_lock(&lock);
    finish(s);
}

/* Until `count` plans are done. Whoever waits works: the worker may still be waking up. */
static void drain(stream *s, uint64_t count)
{
    while (s->finished < count) {
        if (s->busy || !s->head)
            pthread_cond_wait(&s->changed, &lock);
        else
            run_next(s);
    }
}

static void *work(void *argument)
{
    stream *s = argument;
    pthread_mutex_lock(&lock);
    while (!s->closing) {
        if (s->busy || !s->head)
            pthread_cond_wait(&s->changed, &lock);
        else
            run_next(s);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void append(stream *s, task *t)
{
    t->next = NULL;
    if (s->head)
        s->tail->next = t;
    else
        s->head = t;
    s->tail = t;
    begin(s);
    if (!s->has_worker)
        s->has_worker = !nonpu_start_thread(&s->worker, work, s);
    if (s->has_worker)
        pthread_cond_broadcast(&s->changed);
    else
        drain(s, s->queued);
}

/* End a claimed stream: its work is done first, and what another thread may have added at the last moment. */
static void end(stream *s)
{
    drain(s, s->queued);
    if (s->has_worker) {
        s->closing = 1;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&lock);
        pthread_join(s->worker, NULL);
        pthread_mutex_lock(&lock);
        s->closing = s->has_worker = 0;
        drain(s, s->queued);
    }
    nonpu_recycle(&nonpu_streams, s);
}

/* ---- what other files and Python use ---- */

static stream *stream_of(uintptr_t handle) { return handle ? nonpu_find(&nonpu_streams, handle) : &process_default; }

static int bad_stream(int status, const char *api, uintptr_t handle)
{
    return nonpu_fail(status, api, "stream", "a live stream", nonpu_describe(&nonpu_streams, handle).text);
}

int32_t nonpu_submit(const char *api, uintptr_t handle, const nonpu_plan *plan)
{
    stream *s = stream_of(handle);
    if (!s)
        return bad_stream(ACLNN_ERR_RUNTIME_ERROR, api, handle);
    if (plan->launches < 1)
        return ACLNN_SUCCESS;
    pthread_mutex_lock(&lock);
    if (plan->main.cost + (plan->launches > 1 ? plan->tail.cost : 0) < INLINE_COST && !s->busy && !s->head) {
        begin(s);
        s->busy = 1;
        pthread_mutex_unlock(&lock);
        int32_t status = run_now(api, plan);
        pthread_mutex_lock(&lock);
        finish(s);
        pthread_mutex_unlock(&lock);
        return status;
    }
    pthread_mutex_unlock(&lock);
    task *t = malloc(sizeof *t);
    if (t)
        t->plan = *plan;
    if (!t || !attach(&t->plan)) {
        free(t);
        return no_memory(api);
    }
    pthread_mutex_lock(&lock);
    append(s, t);
    pthread_mutex_unlock(&lock);
    return ACLNN_SUCCESS;
}

static uintptr_t make_stream(uint32_t life)
{
    stream *s = nonpu_take(&nonpu_streams);     /* all zero, or as `end` left it: both are idle streams */
    if (s)
        s->life = life;
    return s ? nonpu_publish(&nonpu_streams, s) : 0;
}

uintptr_t nonpu_stream_create(void) { return make_stream(0); }

int32_t nonpu_stream_destroy(uintptr_t handle)
{
    stream *s = nonpu_claim(&nonpu_streams, handle);
    if (!s)
        return bad_stream(ACL_ERROR_RT_INVALID_HANDLE, "nonpu_stream_destroy", handle);
    pthread_mutex_lock(&lock);
    end(s);
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

static int32_t synchronize(const char *api, uintptr_t handle)
{
    stream *s = stream_of(handle);
    if (!s)
        return bad_stream(ACL_ERROR_RT_INVALID_HANDLE, api, handle);
    pthread_mutex_lock(&lock);
    drain(s, s->queued);
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

int32_t nonpu_stream_synchronize(uintptr_t handle) { return synchronize("nonpu_stream_synchronize", handle); }

int32_t nonpu_stream_idle(uintptr_t handle)
{
    if (!nonpu_is_busy())
        return 1;
    stream *s = stream_of(handle);
    pthread_mutex_lock(&lock);
    int idle = !s || s->finished == s->queued;
    pthread_mutex_unlock(&lock);
    return idle;
}

void nonpu_synchronize_all(void)
{
    pthread_mutex_lock(&lock);
    drain(&process_default, process_default.queued);
    stream *s;
    for (uint32_t i = 0; (s = nonpu_slot(&nonpu_streams, i)); i++)
        drain(s, s->queued);
    pthread_mutex_unlock(&lock);
}

/* The child has no workers, and what was queued is the parent's to do. */
static void restart(stream *s)
{
    s->head = NULL;
    s->busy = s->has_worker = s->closing = 0;
    s->finished = s->queued;
    pthread_cond_init(&s->changed, NULL);
}

void nonpu_fork_streams(int step)
{
    nonpu_fork_lock(&lock, step);
    if (step != FORK_CHILD)
        return;
    pending = 0;
    restart(&process_default);
    stream *s;
    for (uint32_t i = 0; (s = nonpu_slot(&nonpu_streams, i)); i++)
        restart(s);
}

/* ---- device ---- */

static int bad_device(const char *api, int32_t id)
{
    char actual[16];
    snprintf(actual, sizeof actual, "%d", (int)id);
    return nonpu_fail(ACL_ERROR_RT_INVALID_DEVICEID, api, "deviceId", "0", actual);
}

int nonpu_has_context(void)
{
    return thread_life && thread_life == __atomic_load_n(&device_life, __ATOMIC_ACQUIRE);
}

int nonpu_no_context(const char *api)
{
    return nonpu_fail(ACL_ERROR_RT_CONTEXT_NULL, api, "the context of this thread", "set, by aclrtSetDevice", "none");
}

aclError aclrtSetDevice(int32_t deviceId)
{
    if (deviceId)
        return bad_device("aclrtSetDevice", deviceId);
    pthread_mutex_lock(&lock);
    device_uses++;
    thread_life = device_life;
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

/* Undo `uses` calls of aclrtSetDevice; after the last one nothing of the default context lives on. */
static aclError release(const char *api, int32_t id, int all)
{
    if (id)
        return bad_device(api, id);
    pthread_mutex_lock(&lock);
    int was = device_uses;
    device_uses = all || !was ? 0 : was - 1;
    if (was && !device_uses) {
        uint32_t life = device_life;
        __atomic_store_n(&device_life, life + 1, __ATOMIC_RELEASE);
        stream *s;
        for (uint32_t i = 0; (s = nonpu_slot(&nonpu_streams, i)); i++)
            if (s->life == life && nonpu_claim(&nonpu_streams, nonpu_handle(&nonpu_streams, s)))
                end(s);
        drain(&process_default, process_default.queued);
    }
    pthread_mutex_unlock(&lock);
    return was ? ACL_SUCCESS : nonpu_fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, api, "the device", "set", "one that is not set or already reset");
}

aclError aclrtResetDevice(int32_t deviceId) { return release("aclrtResetDevice", deviceId, 0); }
aclError aclrtResetDeviceForce(int32_t deviceId) { return release("aclrtResetDeviceForce", deviceId, 1); }

aclError aclrtGetDevice(int32_t *deviceId)
{
    if (!deviceId)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDevice", "deviceId", "a pointer", "null");
    if (!nonpu_has_context())
        return nonpu_no_context("aclrtGetDevice");
    *deviceId = 0;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
    if (!count)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDeviceCount", "count", "a pointer", "null");
    *count = 1;
    return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    if (!runMode)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetRunMode", "runMode", "a pointer", "null");
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(void)
{
    if (!nonpu_has_context())
        return nonpu_no_context("aclrtSynchronizeDevice");
    nonpu_synchronize_all();
    return ACL_SUCCESS;
}

/* ---- streams ---- */

aclError aclrtCreateStream(aclrtStream *out)
{
    static const char api[] = "aclrtCreateStream";
    if (!out)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "stream", "a pointer", "null");
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    uintptr_t handle = make_stream(thread_life);
    if (!handle)
        return nonpu_fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, api, "the number of streams", "within the memory of this machine", "no memory");
    *out = (aclrtStream)handle;
    return ACL_SUCCESS;
}

aclError aclrtDestroyStream(aclrtStream handle)
{
    static const char api[] = "aclrtDestroyStream";
    if (!handle)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "stream", "a live stream", "null");
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    return nonpu_find(&nonpu_streams, (uintptr_t)handle) ? nonpu_stream_destroy((uintptr_t)handle)
                                                         : bad_stream(ACL_ERROR_RT_INVALID_HANDLE, api, (uintptr_t)handle);
}

aclError aclrtSynchronizeStream(aclrtStream handle)
{
    if (!nonpu_has_context())
        return nonpu_no_context("aclrtSynchronizeStream");
    return synchronize("aclrtSynchronizeStream", (uintptr_t)handle);
}
