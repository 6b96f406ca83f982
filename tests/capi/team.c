/* Running launches with a driver of our own: every tile once, whoever takes it. */
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "case.h"

#include "acl/acl.h"
#include "native.h"

enum { TILES = 4096 };
static uint8_t taken[TILES];
static int64_t calls, others, wrong_mode, blocked;  /* of the driver: in other threads, with signals blocked there */
static unsigned pause_us, spins;

static void drive(const nonpu_launch *launch, int64_t first, int64_t last)
{
    sigset_t mask;
    for (int64_t tile = first; tile < last; tile++)
        __atomic_add_fetch(&taken[tile], 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    volatile float one = 1, tiny = 1e-10f, least = 0x1p-149f;
    __atomic_add_fetch(&wrong_mode, one - tiny != one || least + least != 2 * least || least == 0, __ATOMIC_RELAXED);
    if (!pthread_equal(pthread_self(), (pthread_t)launch->kernel)) {
        pthread_sigmask(SIG_SETMASK, NULL, &mask);
        __atomic_add_fetch(&others, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&blocked, sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1), __ATOMIC_RELAXED);
    }
    for (volatile unsigned i = 0; i < spins; i++)
        ;
    if (pause_us)
        usleep(pause_us);
}

static nonpu_launch launch_of(int64_t tiles, int64_t cost)
{
    nonpu_launch launch = { .driver = (uintptr_t)drive, .kernel = (uintptr_t)pthread_self(), .tiles = tiles, .cost = cost };
    return launch;
}

static void expect_all_taken(int64_t tiles)
{
    int64_t wrong = 0;
    for (int64_t tile = 0; tile < TILES; tile++)
        wrong += taken[tile] != (tile < tiles);
    EXPECT_IS(wrong, 0);
    memset(taken, 0, sizeof taken);
}

CASE(small_launches_stay_in_their_thread)
{
    nonpu_launch small = launch_of(64, 1000), single = launch_of(1, 1000000000);
    nonpu_set_threads(4);
    nonpu_run(&small);
    expect_all_taken(64);
    EXPECT_IS(calls, 1);
    nonpu_run(&single);
    EXPECT_IS(calls, 2);
    EXPECT_IS(others, 0);
}

CASE(large_launches_are_shared)
{
    spins = 50000;
    nonpu_set_threads(2);
    /* A helper stays away while it has no processor of its own: on a busy machine that may take a while. */
    for (int turn = 0; turn < 8 || (!others && turn < 20000); turn++) {
        int64_t tiles = 2 + turn % 8 * 500;
        nonpu_launch launch = launch_of(tiles, 10000000);
        nonpu_run(&launch);
        expect_all_taken(tiles);
    }
    EXPECT(others > 0 || sysconf(_SC_NPROCESSORS_ONLN) == 1);
    EXPECT_IS(blocked, others);
}

CASE(a_burst_of_small_launches_begins_alone)
{
    nonpu_set_threads(2);
    for (int i = 0; i < 4; i++) {
        nonpu_launch launch = launch_of(64, 20000);
        nonpu_run(&launch);
        EXPECT_IS(calls, i + 1);
        expect_all_taken(64);
    }
    EXPECT_IS(others, 0);
}

CASE(a_helper_without_a_processor_of_its_own_stays_away)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    EXPECT_IS(sched_setaffinity(0, sizeof one, &one), 0);
    spins = 5000;
    nonpu_set_threads(2);
    for (int turn = 0; turn < 50; turn++) {
        nonpu_launch launch = launch_of(TILES, 10000000);
        nonpu_run(&launch);
        expect_all_taken(TILES);
    }
    EXPECT_IS(others, 0);
}

CASE(one_thread_means_one_thread)
{
    nonpu_launch launch = launch_of(TILES, 1000000000);
    nonpu_set_threads(1);
    nonpu_run(&launch);
    expect_all_taken(TILES);
    EXPECT_IS(others, 0);
    EXPECT_IS(nonpu_get_threads(), 1);
}

CASE(any_number_of_threads_and_tiles)
{
    for (int threads = 1; threads <= 9; threads++) {
        nonpu_set_threads(threads);
        for (int64_t tiles = 1; tiles < 300; tiles += 7) {
            nonpu_launch launch = launch_of(tiles, 100000000);
            nonpu_run(&launch);
            expect_all_taken(tiles);
        }
    }
}

static void *run_many(void *argument)
{
    for (int i = 0; i < 3000; i++) {
        nonpu_launch launch = launch_of(TILES / 8, 1000000);
        nonpu_run(&launch);
    }
    return argument;
}

CASE(several_threads_share_the_team)
{
    pthread_t threads[3];
    nonpu_set_threads(3);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run_many, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    int64_t wrong = 0;
    for (int64_t tile = 0; tile < TILES; tile++)
        wrong += taken[tile] != (uint8_t)(tile < TILES / 8 ? 9000 : 0);
    EXPECT_IS(wrong, 0);
}

CASE(the_floating_point_mode_of_the_host_does_not_reach_the_kernels)
{
    nonpu_launch launch = launch_of(TILES, 1000000000), small = launch_of(1, 1);
    volatile float one = 1, tiny = 1e-10f;
    fesetround(FE_DOWNWARD);
#ifdef __x86_64__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);   /* flush subnormals, as -ffast-math programs do */
#endif
    nonpu_set_threads(4);
    nonpu_run(&launch);
    nonpu_run(&small);
    EXPECT_IS(wrong_mode, 0);
    EXPECT(one - tiny != one);
}

static nonpu_plan plan_of(int64_t cost, int64_t temporary)
{
    nonpu_plan plan = { .main = launch_of(64, cost), .tail = launch_of(64, cost), .temporary = temporary, .launches = temporary ? 2 : 1 };
    return plan;
}

CASE(a_plan_may_have_a_temporary_block)
{
    nonpu_plan plan = plan_of(1000, 1000);
    EXPECT_IS(nonpu_run_plan(&plan), 0);
    EXPECT(taken[0] == 2 && plan.main.operand[0].data == 0);
    plan.temporary = INT64_MAX / 2;
    EXPECT_IS(nonpu_run_plan(&plan), 361001);
    EXPECT_TEXT("temporary memory");
    uintptr_t executor = nonpu_executor_create(&plan);
    EXPECT_IS(nonpu_execute(executor, 0), 361001);
    EXPECT_IS(nonpu_execute(executor, 0), 161002);
    EXPECT(taken[0] == 2);
}

/* The worker runs what the caller does not wait for; who waits may run it as well. */
CASE(large_work_is_queued_and_small_work_on_an_idle_stream_is_not)
{
    pause_us = 50000;
    nonpu_set_threads(1);
    uintptr_t stream = nonpu_stream_create();
    nonpu_plan large = plan_of(100000000, 0), small = plan_of(10, 0);
    EXPECT_IS(nonpu_execute(nonpu_executor_create(&small), stream), 0);
    EXPECT_IS(calls, 1);
    EXPECT_IS(nonpu_execute(nonpu_executor_create(&large), stream), 0);
    EXPECT_IS(nonpu_execute(nonpu_executor_create(&small), stream), 0);
    EXPECT(__atomic_load_n(&calls, __ATOMIC_RELAXED) < 3);
    for (int i = 0; i < 500 && __atomic_load_n(&calls, __ATOMIC_RELAXED) < 3; i++)
        usleep(10000);
    EXPECT_IS(__atomic_load_n(&calls, __ATOMIC_RELAXED), 3);
    EXPECT_IS(nonpu_stream_synchronize(stream), 0);
    EXPECT(others > 0);
    for (int i = 0; i < 10; i++)
        EXPECT_IS(nonpu_execute(nonpu_executor_create(&large), i % 2 ? stream : 0), 0);
    nonpu_synchronize_all();
    EXPECT_IS(calls, 13);
    EXPECT_IS(nonpu_execute(nonpu_executor_create(&large), stream), 0);
    EXPECT_IS(nonpu_stream_destroy(stream), 0);
    EXPECT_IS(calls, 14);
    EXPECT_IS(nonpu_stream_destroy(stream), 107017);
}

CASE(the_environment_sets_the_number_of_threads)
{
    EXPECT_IS(nonpu_get_threads(), atoi(getenv("EXPECTED_THREADS")));
    nonpu_set_threads(7);
    EXPECT_IS(nonpu_get_threads(), 7);
    nonpu_set_threads(0);
    EXPECT_IS(nonpu_get_threads(), atoi(getenv("EXPECTED_THREADS")));
}

RUN(ENTRY(small_launches_stay_in_their_thread), ENTRY(large_launches_are_shared),
    ENTRY(a_burst_of_small_launches_begins_alone), ENTRY(a_helper_without_a_processor_of_its_own_stays_away),
    ENTRY(one_thread_means_one_thread),
    ENTRY(any_number_of_threads_and_tiles), ENTRY(several_threads_share_the_team),
    ENTRY(the_floating_point_mode_of_the_host_does_not_reach_the_kernels), ENTRY(a_plan_may_have_a_temporary_block),
    ENTRY(large_work_is_queued_and_small_work_on_an_idle_stream_is_not), ENTRY(the_environment_sets_the_number_of_threads))
