/* Running launches: alone, or shared with the one team of helper threads of this process. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "front.h"

enum {
    KERNEL_STACK = 160 << 10,   /* what a driver and its kernel may use: some 104 KiB do */
    OWN_STACK = 1 << 20,        /* of the library's threads, at least: host functions of clients run there as well */
    SHARE = 5000,       /* nanoseconds of work that repay sharing it with one more helper; a launch needs twice that */
    WAKE = 60000,       /* nanoseconds that waking a sleeping helper costs, most of them the caller */
    DEAR = 16 * WAKE,   /* the same while helpers have no processor to work on */
    CHUNKS = 16,        /* tiles are handed out in this many chunks per thread, but not fewer at a time than */
    FEWEST = 4,         /* this: what a driver stages once for its first tile, a repeated row, it stages for each chunk */
    SPINS = 1000,       /* pauses before a helper without work sleeps: some 50 microseconds */
    OPEN = 1 << 16      /* `door` counts free places above this bit, helpers at work below it */
};

static pthread_mutex_t region = PTHREAD_MUTEX_INITIALIZER;     /* held by the thread whose launch is being shared */
static const nonpu_launch *shared;
static int64_t chunk;                                          /* tiles of a chunk */
static const uint64_t BACK = (uint64_t)1 << 32;
static uint64_t taken;                                         /* chunks at the front, and BACK times those at the back */
static uint32_t door, calls, sleepers;
static int64_t missed, price = WAKE;                           /* what sleeping helpers could have saved, and what calls them */
static int helpers, limit, callers_processor;                  /* limit: threads in all; 0 = not yet known */

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_while(uint32_t *word, uint32_t value) { syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0); }
static void wake(uint32_t *word, int waiters) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, waiters, NULL, NULL, 0); }

static void drive(const nonpu_launch *launch, int64_t first, int64_t last)
{
    typedef void driver(const nonpu_launch *, int64_t, int64_t);
    ((driver *)launch->driver)(launch, first, last);
}

/* The caller takes chunks from the front, helpers from the back: so the same launch, run again, finds most of its elements
   in the cache of the processor that had them before. */
static void take_chunks(int is_caller)
{
    const nonpu_launch *launch = shared;
    const int64_t chunks = (launch->tiles + chunk - 1) / chunk;
    for (;;) {
        uint64_t before = __atomic_fetch_add(&taken, is_caller ? 1 : BACK, __ATOMIC_RELAXED);
        int64_t front = (int64_t)(before % BACK), back = (int64_t)(before / BACK);
        if (front + back >= chunks)
            return;
        int64_t first = (is_caller ? front : chunks - 1 - back) * chunk;
        drive(launch, first, first + chunk < launch->tiles ? first + chunk : launch->tiles);
    }
}

/* To another processor that this thread may use, busy or not; where it may run in the end stays as it was. */
static int moves_away(int here)
{
    cpu_set_t allowed, others;
    if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < 2)
        return 0;
    others = allowed;
    CPU_CLR(here, &others);
    if (sched_setaffinity(0, sizeof others, &others))
        return 0;
    sched_setaffinity(0, sizeof allowed, &allowed);
    return 1;
}

/* Whether this helper cannot but use the caller's processor, where it would only stand in the way. The system wakes it
   there when the others are busy, and leaves it there; it moves, or else it is called more seldom from then on. */
static int stands_in_the_way(void)
{
    int here = sched_getcpu();
    int stands = here >= 0 && here == __atomic_load_n(&callers_processor, __ATOMIC_RELAXED) && !moves_away(here);
    int64_t now = __atomic_load_n(&price, __ATOMIC_RELAXED);
    __atomic_store_n(&price, !stands ? WAKE : now < DEAR ? 2 * now : DEAR, __ATOMIC_RELAXED);
    return stands;
}

/* A helper that comes late finds the door shut: nobody waits for a sleeper. */
static void *helper(void *unused)
{
    nonpu_float_enter();
    for (;;) {
        uint32_t seen = __atomic_load_n(&calls, __ATOMIC_ACQUIRE), state = __atomic_load_n(&door, __ATOMIC_ACQUIRE);
        int leaves = state >= OPEN && stands_in_the_way();
        state = __atomic_load_n(&door, __ATOMIC_ACQUIRE);
        while (!leaves && state >= OPEN
               && !__atomic_compare_exchange_n(&door, &state, state - OPEN + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            ;
        if (!leaves && state >= OPEN) {
            take_chunks(0);
            if (!__atomic_sub_fetch(&door, 1, __ATOMIC_ACQ_REL))
                wake(&door, 1);
        }
        for (int spins = leaves ? SPINS : 0; __atomic_load_n(&calls, __ATOMIC_ACQUIRE) == seen; spins++) {
            if (spins < SPINS) {
                relax();
                continue;
            }
            __atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
            sleep_while(&calls, seen);
            __atomic_sub_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
        }
    }
    return unused;
}

/* Threads of the library leave every signal to the host's threads. */
int nonpu_start_thread(pthread_t *thread, void *(*body)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT };     /* faults of this thread: for the host's reports */
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&all, own[i]);
    pthread_attr_t attributes;
    size_t size = 0;
    pthread_attr_init(&attributes);
    if (pthread_attr_getstacksize(&attributes, &size) || size < OWN_STACK)      /* as `ulimit -s` may have set it */
        pthread_attr_setstacksize(&attributes, OWN_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, &attributes, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failed;
}

int32_t nonpu_get_threads(void)
{
    int threads = __atomic_load_n(&limit, __ATOMIC_RELAXED);
    if (threads)
        return threads;
    const char *text = getenv("NONPU_NUM_THREADS");
    char *end;
    long wanted = text ? strtol(text, &end, 10) : 0;
    if (wanted < 1 || *end) {
        cpu_set_t allowed;
        wanted = sched_getaffinity(0, sizeof allowed, &allowed) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&allowed);
    }
    threads = wanted < 1 ? 1 : wanted > 256 ? 256 : (int)wanted;
    __atomic_store_n(&limit, threads, __ATOMIC_RELAXED);
    return threads;
}

void nonpu_set_threads(int32_t count) { __atomic_store_n(&limit, count < 0 ? 0 : count > 256 ? 256 : count, __ATOMIC_RELAXED); }

static int64_t places_for(const nonpu_launch *launch)
{
    if (launch->cost < 2 * SHARE || launch->tiles < 2)
        return 0;
    int64_t places = nonpu_get_threads() - 1;
    if (places > launch->cost / SHARE - 1)
        places = launch->cost / SHARE - 1;
    return places < launch->tiles - 1 ? places : launch->tiles - 1;
}

/* Whether to call helpers that sleep or have not been started: if the launch is worth it, or all launches together that
   went without them since the last time. So a burst of small launches begins alone. */
static int repays_waking(const nonpu_launch *launch)
{
    missed += launch->cost / 2;
    if (missed < __atomic_load_n(&price, __ATOMIC_RELAXED))
        return 0;
    missed = 0;
    return 1;
}

static void share(const nonpu_launch *launch, int64_t places)
{
    int64_t awake = helpers - (int64_t)__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST);
    int wakes = awake < places && repays_waking(launch);
    pthread_t thread;
    while (wakes && helpers < places && !nonpu_start_thread(&thread, helper, NULL)) {
        pthread_detach(thread);
        helpers++;
    }
    places = wakes || awake > places ? places : awake;
    if (places < 1) {
        drive(launch, 0, launch->tiles);
        return;
    }
    nonpu_launch whole;
    if (launch->part && launch->far && places >= launch->far) {
        whole = *launch;
        whole.part = 0;
        launch = &whole;
    }
    shared = launch;
    chunk = launch->tiles / ((places + 1) * CHUNKS);
    int64_t half = (launch->tiles + 2 * places + 1) / (2 * (places + 1));       /* of a thread's share */
    int64_t least = half < FEWEST ? half : FEWEST;
    chunk = chunk > least ? chunk : least;
    __atomic_store_n(&taken, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&callers_processor, sched_getcpu(), __ATOMIC_RELAXED);
    __atomic_store_n(&door, (uint32_t)places * OPEN, __ATOMIC_RELEASE);
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    if (wakes)
        wake(&calls, (int)places);
    take_chunks(1);
    uint32_t state = __atomic_and_fetch(&door, OPEN - 1, __ATOMIC_ACQ_REL);
    for (int spins = 0; state; spins++, state = __atomic_load_n(&door, __ATOMIC_ACQUIRE)) {
        if (spins < SPINS)
            relax();
        else
            sleep_while(&door, state);
    }
}

static void *stand_in(void *launch)
{
    nonpu_run(launch);
    return NULL;
}

/* In a thread with room for it: dear, and only for threads that have none. */
static __attribute__((noinline, cold)) int32_t run_elsewhere(const nonpu_launch *launch)
{
    pthread_t thread;
    int failed = nonpu_start_thread(&thread, stand_in, (void *)launch);
    return failed ? failed : pthread_join(thread, NULL);
}

/* Sharing, where it pays; alone where the helpers are busy with the launch of another thread. */
int32_t nonpu_run(const nonpu_launch *launch)
{
    size_t left = nonpu_stack_left();
    if (left < KERNEL_STACK || left == NONPU_FOREIGN_STACK)
        return run_elsewhere(launch);
    int64_t places = places_for(launch);
    nonpu_float_mode mode = nonpu_float_enter();
    if (places && !pthread_mutex_trylock(&region)) {
        share(launch, places);
        pthread_mutex_unlock(&region);
    } else {
        drive(launch, 0, launch->tiles);
    }
    nonpu_float_leave(mode);
    return 0;
}

/* The child has no helpers: it starts with an empty team. */
void nonpu_fork_team(int step)
{
    if (step != FORK_CHILD)
        return;
    pthread_mutex_init(&region, NULL);
    helpers = 0;
    door = sleepers = 0;
    missed = 0;
    price = WAKE;
}
