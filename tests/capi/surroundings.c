/* Hosts in unusual circumstances: little stack, few files, closed streams, no memory, ends with work in the queue. Some of
   these cases do not return; the test says with which status they end. */
#define _GNU_SOURCE
#include "case.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_ops_nn.h"
#include "gate.h"

enum { COUNT = 64, LARGE = 1 << 22 };

/* gradInput = 1 * 2 * (1 - 2) = -2; 0, or the first status that is not. */
static int compute(float *data, int64_t count, aclrtStream stream)
{
    uint64_t workspace;
    aclOpExecutor *executor;
    aclTensor *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = aclCreateTensor(&count, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &count, 1, data + i * count);
    int status = aclnnSigmoidBackwardGetWorkspaceSize(t[0], t[1], t[2], &workspace, &executor);
    if (!status)
        status = aclnnSigmoidBackward(NULL, workspace, executor, stream);
    for (int i = 0; i < 3; i++)
        EXPECT_IS(aclDestroyTensor(t[i]), 0);
    return status;
}

static void fill(float *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        data[i] = 1;
        data[count + i] = 2;
        data[2 * count + i] = 9;
    }
}

static int64_t wrong(const float *data, int64_t count)
{
    int64_t found = 0;
    for (int64_t i = 2 * count; i < 3 * count; i++)
        found += data[i] != -2;
    return found;
}

static int run_once(void)
{
    static __thread float data[3 * COUNT];
    fill(data, COUNT);
    int status = compute(data, COUNT, NULL);
    EXPECT_IS(wrong(data, COUNT), status ? COUNT : 0);
    return status;
}

/* ---- stacks ---- */

typedef struct { size_t stack; int with_init, statuses[2]; char text[128]; } attempt;

static void *try(void *argument)
{
    attempt *a = argument;
    a->statuses[0] = a->with_init ? aclInit(NULL) : 0;
    const char *text = aclGetRecentErrMsg();
    snprintf(a->text, sizeof a->text, "%s", text ? text : "");
    a->statuses[1] = run_once();
    return NULL;
}

static attempt with_stack(size_t kilobytes, int with_init)
{
    attempt a = { .with_init = with_init };
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    EXPECT_IS(pthread_attr_setstacksize(&attributes, kilobytes * 1024), 0);
    EXPECT_IS(pthread_create(&thread, &attributes, try, &a), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    return a;
}

CASE(a_stack_too_small_for_python_gives_a_status)
{
    attempt a = with_stack(48, 1);
    EXPECT_IS(a.statuses[0], 500000);
    EXPECT_IS(a.statuses[1], ACLNN_ERR_INNER);
    EXPECT(strstr(a.text, "aclInit: the stack of the calling thread must be at least 96 KiB free (got ") == a.text);
    a = with_stack(256, 1);
    EXPECT(a.statuses[0] == 0 && a.statuses[1] == 0 && !*a.text);
    EXPECT_IS(with_stack(24, 0).statuses[1], ACLNN_ERR_INNER);
}

/* A kernel wants more stack than many threads have. Every size in turn, so that none lies just below what is asked for. */
CASE(a_stack_too_small_for_a_kernel_does_not_matter)
{
    static float data[3 * COUNT];
    EXPECT_IS(aclInit(NULL), 0);
    for (size_t kilobytes = 64; kilobytes <= 512; kilobytes += kilobytes < 256 ? 4 : 64) {
        EXPECT_IS(with_stack(kilobytes, 0).statuses[1], 0);
        aclnnFinalize();                    /* the next call is judged anew */
    }
    fill(data, COUNT);
    EXPECT_IS(compute(data, COUNT, NULL), 0);
    fill(data, COUNT);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
}

/* ---- files and limits ---- */

CASE(closed_standard_streams_stay_closed)
{
    FILE *report = fdopen(dup(1), "w");
    for (int i = 0; i < 3; i++)
        close(i);
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(run_once(), 0);
    for (int i = 0; i < 3; i++)
        if (fcntl(i, F_GETFD) != -1 && ++failures)
            fprintf(report, "stream %d is open\n", i);
    fclose(report);
}

static void limit(int resource, rlim_t value)
{
    struct rlimit both;
    EXPECT_IS(getrlimit((__rlimit_resource_t)resource, &both), 0);
    both.rlim_cur = value;
    EXPECT_IS(setrlimit((__rlimit_resource_t)resource, &both), 0);
}

CASE(without_file_descriptors_the_first_call_says_so)
{
    limit(RLIMIT_NOFILE, 3);
    EXPECT_IS(aclInit(NULL), 500000);
    EXPECT_TEXT("aclInit", "Python");
    EXPECT_IS(run_once(), ACLNN_ERR_INNER);
    EXPECT_IS(aclrtSetDevice(0), 0);
}

CASE(a_started_library_needs_no_file_descriptors)
{
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(run_once(), 0);
    limit(RLIMIT_NOFILE, 3);
    aclnnFinalize();
    EXPECT_IS(run_once(), 0);
    EXPECT_IS(aclInit("config.json"), 100002);
}

/* However little memory there is, and whenever it ends: a status. */
CASE(the_first_call_without_memory)
{
    for (rlim_t megabytes = 4; megabytes < 160; megabytes += megabytes < 64 ? 2 : 8) {
        int status = 0;
        pid_t child = fork();
        if (!child) {
            alarm(30);
            failures = 0;
            limit(RLIMIT_AS, megabytes << 20);
            int first = aclInit(NULL), second = first ? 0 : run_once();
            const char *text = aclGetRecentErrMsg();
            _exit(failures ? 1 : (first || second) && !text ? 2 : 0);
        }
        waitpid(child, &status, 0);
        if (status) {
            printf("%d MiB: status %#x\n", (int)megabytes, status);
            failures++;
        }
    }
}

CASE(calls_without_memory)
{
    static float data[3 * COUNT];
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(run_once(), 0);
    aclnnFinalize();
    limit(RLIMIT_AS, 1 << 20);
    void *memory = NULL;
    EXPECT_IS(aclrtMalloc(&memory, 1 << 28, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_TEXT("aclrtMalloc", "size");
    aclrtStream stream = NULL;
    int made = 0, status;
    for (status = 0; !status && made < 2000; made++)
        status = aclrtCreateStream(&stream);
    EXPECT(status == 0 || status == ACL_ERROR_RT_NO_STREAM_RESOURCE);
    for (int64_t i = 1; i <= 2000 && !failures; i++) {      /* each a new call: judged, remembered while there is memory */
        int64_t count = i % COUNT + 1;
        fill(data, count);
        status = compute(data, count, stream);
        EXPECT(!status || aclGetRecentErrMsg());
        EXPECT(status || (aclrtSynchronizeStream(stream) == 0 && wrong(data, count) == 0));
    }
}

CASE(without_threads_the_caller_does_the_work)
{
    float *data = malloc(3 * LARGE * sizeof *data);
    fill(data, LARGE);
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    if (!geteuid())                         /* the limit does not bind root */
        EXPECT_IS(setresuid(65534, 65534, 65534), 0);
    limit(RLIMIT_NPROC, 0);
    EXPECT_IS(compute(data, LARGE, stream), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(wrong(data, LARGE), 0);
}

/* ---- signals ---- */

CASE(an_interrupt_ends_the_host)
{
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(run_once(), 0);
    raise(SIGINT);
    failures++;
}

static volatile sig_atomic_t signals;
static void note(int number) { signals += number == SIGALRM; }

CASE(signals_of_the_host_reach_its_handler)
{
    struct sigaction action = { .sa_handler = note };
    struct itimerval often = { { 0, 200 }, { 0, 200 } };
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    float *data = malloc(3 * LARGE * sizeof *data);
    aclrtStream stream = new_stream();
    for (int i = 0; i < 10; i++) {
        fill(data, LARGE);
        EXPECT_IS(compute(data, LARGE, stream), 0);
        EXPECT_IS(aclrtSynchronizeStream(stream), 0);
        EXPECT_IS(wrong(data, LARGE), 0);
        aclnnFinalize();
    }
    EXPECT(signals > 10);
}

/* ---- ends of the process, with work in the queue ---- */

static void queue_work(void)
{
    float *data = malloc(3 * LARGE * sizeof *data);
    fill(data, LARGE);
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    for (int i = 0; i < 30; i++)
        EXPECT_IS(compute(data, LARGE, stream), 0);
}

CASE(exit_with_queued_work)
{
    queue_work();
    exit(failures ? 1 : 7);
}

CASE(return_with_queued_work) { queue_work(); }

CASE(quick_exit_with_queued_work)
{
    queue_work();
    quick_exit(failures ? 1 : 7);
}

CASE(exit_at_once_with_queued_work)
{
    queue_work();
    _exit(failures ? 1 : 7);
}

CASE(abort_with_queued_work)
{
    queue_work();
    abort();
}

static void leave(void *unused)
{
    (void)unused;
    exit(failures ? 1 : 7);
}

CASE(exit_in_a_host_function)
{
    queue_work();
    aclrtStream stream = new_stream();
    EXPECT_IS(aclrtLaunchHostFunc(stream, leave, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    pause();
}

static void *exit_in_thread(void *unused)
{
    leave(unused);
    return unused;
}

CASE(exit_in_another_thread)
{
    queue_work();
    THREAD(other, exit_in_thread, NULL);
    JOIN(other);
}

static void *work_on(void *unused)
{
    usleep(1000);
    for (int i = 0; i < 20; i++)
        EXPECT_IS(run_once(), 0);
    exit(failures ? 1 : 7);
    return unused;
}

CASE(the_main_thread_ends_first)
{
    queue_work();
    THREAD(other, work_on, NULL);
    (void)other;
    pthread_exit(NULL);
}

static void use_at_exit(void)
{
    EXPECT_IS(run_once(), 0);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
    EXPECT_IS(aclFinalize(), 0);
    if (!failures)
        _exit(7);
}

CASE(calls_at_exit)
{
    atexit(use_at_exit);
    queue_work();
    exit(0);
}

RUN(ENTRY(a_stack_too_small_for_python_gives_a_status), ENTRY(a_stack_too_small_for_a_kernel_does_not_matter),
    ENTRY(closed_standard_streams_stay_closed), ENTRY(without_file_descriptors_the_first_call_says_so),
    ENTRY(a_started_library_needs_no_file_descriptors), ENTRY(the_first_call_without_memory), ENTRY(calls_without_memory),
    ENTRY(without_threads_the_caller_does_the_work), ENTRY(an_interrupt_ends_the_host), ENTRY(signals_of_the_host_reach_its_handler),
    ENTRY(exit_with_queued_work), ENTRY(return_with_queued_work), ENTRY(quick_exit_with_queued_work),
    ENTRY(exit_at_once_with_queued_work), ENTRY(abort_with_queued_work), ENTRY(exit_in_a_host_function),
    ENTRY(exit_in_another_thread), ENTRY(the_main_thread_ends_first), ENTRY(calls_at_exit))
