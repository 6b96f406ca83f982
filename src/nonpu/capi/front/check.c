/* NONPU_CHECK=1: the facts that nonpu.capi.check judges, and the exit status of a program that misused something. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue.h"

enum { FRAMES = 96, MANY = 8192 };

int nonpu_checking, nonpu_guarding;

static nonpu_fact *facts, *handed_out;
static int64_t count, room, handed_out_count;
static uint64_t numbers, calls;     /* facts; those of the C functions that programs call */
static int reported;
static int32_t misuses;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int32_t threads;
static __thread int32_t own_thread;
static __thread uintptr_t described;
static __thread const char *script;

/* ---- where the program called ---- */

extern const char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

/* Whether a frame belongs to what stands between the program and this library: itself, and Python with its foreign calls. */
static int is_between(uintptr_t address, const char *file)
{
    static const char *const starts[] = { "python", "libpython", "libffi", "_core.", "_cffi" };
    const char *slash = strrchr(file, '/');
    file = slash ? slash + 1 : file;
    if (address >= (uintptr_t)__ehdr_start && address < (uintptr_t)_end)
        return 1;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (!strncmp(file, starts[i], strlen(starts[i])))
            return 1;
    return strstr(file, ".cpython-") != NULL;
}

enum { BETWEEN = 1, SYSTEM, PROGRAM, CACHED = 4096 };

/* What code an address is of. The answer is remembered, since to ask the loader costs more than all the rest. */
static int kind_of(uintptr_t address)
{
    static uint64_t cache[CACHED];  /* addresses, and the answer in the lowest bits; whole words, so that no lock is needed */
    uint64_t *slot = &cache[(address ^ address >> 12) % CACHED], known = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (known >> 2 == address)
        return known & 3;
    Dl_info info;
    const char *file = dladdr((void *)address, &info) && info.dli_fname ? info.dli_fname : "";
    int kind = strstr(file, "/libc.so") || strstr(file, "/ld-linux") ? SYSTEM : is_between(address, file) ? BETWEEN : PROGRAM;
    __atomic_store_n(slot, (uint64_t)address << 2 | (unsigned)kind, __ATOMIC_RELAXED);
    return kind;
}

/* The return addresses in the program; 0 where the C library called, to end the process or to start a thread. */
static void find_callers(nonpu_fact *fact)
{
    void *frames[FRAMES];
    int depth = backtrace(frames, FRAMES);
    for (int i = 0; i < depth && !fact->outer; i++) {
        int kind = kind_of((uintptr_t)frames[i]);
        if (kind == SYSTEM && fact->caller)
            return;
        if (kind == PROGRAM)
            *(fact->caller ? &fact->outer : &fact->caller) = (uintptr_t)frames[i];
    }
}

/* Whether anybody asks where a fact is from. */
static int is_placed(const nonpu_fact *fact)
{
    static const uint32_t unplaced = 1u << NONPU_STATUS | 1u << NONPU_OWNED | 1u << NONPU_ARGUMENT | 1u << NONPU_REPEATABLE
                                   | 1u << NONPU_SYNCHRONIZED | 1u << NONPU_RECORDED | 1u << NONPU_WAITED
                                   | 1u << NONPU_EVENT_REACHED | 1u << NONPU_WRITTEN_LATE | 1u << NONPU_RELEASED;
    return !(unplaced >> fact->kind & 1) && !(fact->kind == NONPU_ENDED && fact->b == nonpu_executors.tag);
}

/* ---- facts ---- */

static void add(nonpu_fact fact)
{
    if (!own_thread)
        own_thread = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    fact.thread = own_thread;
    fact.script = script;
    if (!fact.caller && is_placed(&fact))
        find_callers(&fact);
    pthread_mutex_lock(&lock);
    if (count == room) {
        int64_t more = room ? room * 2 : 1024;
        nonpu_fact *grown = realloc(facts, (size_t)more * sizeof *facts);
        if (!grown) {               /* without memory for them, later facts are lost */
            pthread_mutex_unlock(&lock);
            free(fact.text);
            return;
        }
        facts = grown;
        room = more;
    }
    fact.number = ++numbers;
    calls += fact.text || (fact.api && strncmp(fact.api, "nonpu_", 6));
    facts[count++] = fact;
    pthread_mutex_unlock(&lock);
}

void nonpu_note(int32_t kind, const char *api, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    add((nonpu_fact){ .kind = kind, .api = api, .a = a, .b = b, .c = c, .d = d });
}

void nonpu_note_described(uintptr_t handle) { described = handle; }

void nonpu_note_failure_text(const char *text)
{
    add((nonpu_fact){ .kind = NONPU_FAILED, .a = described, .text = strdup(text) });
    described = 0;
}

void nonpu_note_script(const char *place) { script = place; }

void nonpu_note_process(int32_t which)
{
    static const char *const names[] = { "aclInit", "aclFinalize", "aclnnInit", "aclnnFinalize" };
    NONPU_NOTE(NONPU_PROCESS, names[which], (uint64_t)which, 0, 0, 0);
}

void nonpu_note_arguments(uintptr_t executor, int32_t number, const nonpu_argument *arguments)
{
    for (int32_t i = 0; i < number; i++)
        if (arguments[i].kind <= 2 && arguments[i].state)
            nonpu_note(NONPU_ARGUMENT, NULL, executor, (uint64_t)arguments[i].integer, (uint64_t)i, 0);
}

void nonpu_note_list(const uintptr_t *elements, uint64_t number)
{
    for (uint64_t i = 0; i < number; i++)
        nonpu_note(NONPU_OWNED, NULL, elements[i], 0, 0, 0);
}

/* ---- what is read and written ---- */

static void widen(int64_t stride, int64_t extent, uint64_t *low, uint64_t *high)
{
    int64_t reach = extent > 1 ? stride * (extent - 1) : 0;
    *(reach < 0 ? low : high) += (uint64_t)reach;
}

static void add_access(nonpu_fact base, uintptr_t stream, uint64_t first, uint64_t end, int writes)
{
    base.kind = NONPU_ACCESS;
    base.a = stream;
    base.b = first;
    base.c = end;
    base.d = (uint64_t)writes;
    add(base);
}

/* Up to the first byte of the last element: what lies behind that, phase one has compared with the block. */
static void note_operand(const nonpu_fact *base, uintptr_t stream, const nonpu_launch *launch, int64_t index)
{
    const nonpu_operand *o = &launch->operand[index];
    uint64_t low = o->data, high = o->data + 1;
    widen(o->row_stride, launch->rows, &low, &high);
    widen(o->column_stride, launch->columns, &low, &high);
    for (int64_t i = 0; i < launch->outer_rank; i++)
        widen(o->outer_strides[i], launch->outer_shape[i], &low, &high);
    add_access(*base, stream, low, high, !index);
}

void nonpu_note_plan(const char *api, uintptr_t stream, const nonpu_plan *plan)
{
    nonpu_fact base = { .kind = NONPU_QUEUED, .api = api, .a = stream };
    if (!strncmp(api, "nonpu_", 6))
        return;                     /* of Python, which keeps the memory of its tensors itself */
    find_callers(&base);
    add(base);
    for (int64_t i = plan->temporary > 0; plan->launches > 0 && i < plan->main.operands; i++)
        note_operand(&base, stream, &plan->main, i);
    if (plan->launches > 1)
        note_operand(&base, stream, &plan->tail, 0);
}

static void note_rows(const nonpu_fact *base, uintptr_t stream, const void *start, size_t pitch, size_t width, size_t height, int writes)
{
    add_access(*base, stream, (uintptr_t)start, (uintptr_t)start + pitch * (height - 1) + width, writes);
}

void nonpu_note_copy(const char *api, const void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height)
{
    nonpu_fact base = { .api = api };
    if (nonpu_in_callback)          /* ordered by its stream */
        return;
    find_callers(&base);
    if (from)
        note_rows(&base, 0, from, from_pitch, width, height, 0);
    note_rows(&base, 0, to, to_pitch, width, height, 1);
}

void nonpu_note_task(const char *api, uintptr_t stream, const nonpu_task *task)
{
    const nonpu_copy *c = &task->of.copy;
    nonpu_fact base = { .api = api };
    find_callers(&base);
    if (task->kind == NONPU_COPY) {
        note_rows(&base, stream, c->from, c->from_pitch, c->width, c->height, 0);
        note_rows(&base, stream, c->to, c->to_pitch, c->width, c->height, 1);
    } else if (task->kind == NONPU_SET) {
        note_rows(&base, stream, task->of.set.to, 0, task->of.set.count, 1, 1);
    }
}

/* ---- handing them to Python ---- */

static void free_texts(nonpu_fact *list, int64_t number)
{
    for (int64_t i = 0; list && i < number; i++)
        free(list[i].text);
    free(list);
}

int64_t nonpu_take_facts(const nonpu_fact **list)
{
    pthread_mutex_lock(&lock);
    free_texts(handed_out, handed_out_count);
    *list = handed_out = facts;
    handed_out_count = count;
    facts = NULL;
    count = room = 0;
    pthread_mutex_unlock(&lock);
    return handed_out_count;
}

int32_t nonpu_is_checking(void) { return nonpu_checking; }

static int32_t ask_python(int32_t last)
{
    nonpu_float_mode mode = nonpu_float_enter();
    int32_t found = nonpu_python.check(last);
    nonpu_float_leave(mode);
    return found;
}

void nonpu_digest(void)
{
    if (__atomic_load_n(&count, __ATOMIC_RELAXED) >= MANY && !strcmp(nonpu_state(), "started"))
        ask_python(0);
}

void nonpu_close_check(int32_t found)
{
    reported = 1;
    misuses = found > 0 ? found : 0;
    if (found < 0)
        fprintf(stderr, "nonpu check: no report: %s\n", nonpu_take_error());
}

void nonpu_check_memory(void)
{
    if (!nonpu_checking)
        return;
    nonpu_check_guards("at exit", NULL);
    nonpu_check_released();
}

/* ---- the end of the process ---- */

static void report(void)
{
    static const char api[] = "NONPU_CHECK";
    if (reported || !nonpu_checking)
        return;
    nonpu_check_memory();
    reported = 1;
    if (!calls)
        return;
    /* A Python of the host that has ended is not started again. */
    int running = !strcmp(nonpu_state(), "started") || (!dlsym(RTLD_DEFAULT, "Py_IsInitialized") && !nonpu_enter(api));
    if (running)
        nonpu_close_check(ask_python(1));
    else
        fprintf(stderr, "nonpu check: no report: the Python side of this library is not running\n");
}

/* Destructors of a linked program's own objects have run when those of libraries do. */
__attribute__((destructor)) static void end(void) { report(); }

/* In a program that was linked against the library this comes behind everything else; stdio is flushed only later. */
static void leave(int status, void *unused)
{
    (void)unused;
    report();
    if (status || !misuses || !nonpu_checking)
        return;
    fflush(NULL);
    _exit(NONPU_MISUSE);
}

/* What the parent has done is the parent's to answer for. */
static void fork_child(void)
{
    nonpu_checking = 0;
    facts = NULL;
    count = room = 0;
    pthread_mutex_init(&lock, NULL);
    nonpu_forget_guards();
}

__attribute__((constructor)) static void begin(void)
{
    const char *value = getenv("NONPU_CHECK");
    void *frame;
    if (!value || !*value || !strcmp(value, "0"))
        return;
    nonpu_checking = nonpu_guarding = 1;
    backtrace(&frame, 1);           /* its first call loads a library */
    on_exit(leave, NULL);
    pthread_atfork(NULL, NULL, fork_child);
}
