/* How the library finds, starts or refuses Python, in hosts of many kinds. Opens the library itself, by argv[2]. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_sigmoid_backward.h"

static const char *(*recent)(void);
#define aclGetRecentErrMsg recent
#include "case.h"

static void *library;

#define SYMBOL(name) __typeof__(name) *p_##name = (__typeof__(name) *)dlsym(library, #name)

static void open_library(void)
{
    library = dlopen(getenv("NONPU_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        printf("%s\n", dlerror());
    recent = (const char *(*)(void))dlsym(library, "aclGetRecentErrMsg");
}

static float run_once(void)
{
    static const float one = 1, two = 2;
    float result = 9;
    int64_t count = 1;
    uint64_t workspace;
    aclOpExecutor *executor;
    SYMBOL(aclCreateTensor); SYMBOL(aclDestroyTensor); SYMBOL(aclnnInit);
    SYMBOL(aclnnSigmoidBackwardGetWorkspaceSize); SYMBOL(aclnnSigmoidBackward);
    EXPECT_IS(p_aclnnInit(NULL), 0);
    const void *data[3] = { &one, &two, &result };
    aclTensor *tensors[3];
    for (int i = 0; i < 3; i++)
        tensors[i] = p_aclCreateTensor(&count, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &count, 1, (void *)(uintptr_t)data[i]);
    EXPECT_IS(p_aclnnSigmoidBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2], &workspace, &executor), 0);
    EXPECT_IS(p_aclnnSigmoidBackward(NULL, workspace, executor, NULL), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_IS(p_aclDestroyTensor(tensors[i]), 0);
    return result;
}

CASE(a_plain_host)
{
    open_library();
    EXPECT(run_once() == -2);
}

static pthread_barrier_t gate;

static void *race(void *unused)
{
    pthread_barrier_wait(&gate);
    EXPECT(run_once() == -2);
    return unused;
}

CASE(eight_threads_race_the_first_call)
{
    pthread_t threads[8];
    open_library();
    pthread_barrier_init(&gate, NULL, 8);
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, race, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    EXPECT(run_once() == -2);
}

CASE(the_host_keeps_its_locale_signals_streams_and_rounding)
{
    static struct sigaction before[NSIG], after[NSIG];
    char own[] = "C";
    setlocale(LC_ALL, own);
    fesetround(FE_UPWARD);
    feclearexcept(FE_ALL_EXCEPT);
    for (int i = 1; i < NSIG; i++)
        sigaction(i, NULL, &before[i]);
    open_library();
    EXPECT(run_once() == -2);
    EXPECT(!strcmp(setlocale(LC_ALL, NULL), "C"));
    EXPECT_IS(fegetround(), FE_UPWARD);
    for (int i = 1; i < NSIG; i++) {
        sigaction(i, NULL, &after[i]);
        EXPECT(before[i].sa_handler == after[i].sa_handler && before[i].sa_flags == after[i].sa_flags);
    }
    volatile float tiny = 1e-40f;
    EXPECT(tiny * 0.5f != 0);
}

CASE(a_closed_library_stays_usable)
{
    open_library();
    SYMBOL(aclnnSigmoidBackward);
    EXPECT(run_once() == -2);
    dlclose(library);
    EXPECT_IS(p_aclnnSigmoidBackward(NULL, 0, NULL, NULL), 161001);
    open_library();
    EXPECT(run_once() == -2);
}

CASE(a_child_forked_before_the_first_call_starts_its_own)
{
    int status = -1;
    open_library();
    pid_t child = fork();
    if (!child) {
        alarm(20);
        EXPECT(run_once() == -2);
        _exit(failures);
    }
    EXPECT(run_once() == -2);
    waitpid(child, &status, 0);
    EXPECT_IS(status, 0);
}

static volatile int stop;

static void *call_on(void *unused)
{
    while (!stop)
        EXPECT(run_once() == -2);
    return unused;
}

/* The child must find no lock taken by threads that it does not have, the interpreter's included. */
CASE(children_forked_while_threads_call)
{
    pthread_t threads[3];
    open_library();
    EXPECT(run_once() == -2);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, call_on, NULL);
    for (int i = 0; i < rounds_of(50); i++) {
        int status = -1;
        pid_t child = fork();
        if (!child) {
            alarm(20);
            EXPECT(run_once() == -2);
            _exit(failures);
        }
        waitpid(child, &status, 0);
        EXPECT_IS(status, 0);
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static void expect_refusal(const char *word)
{
    SYMBOL(aclInit); SYMBOL(aclrtGetSocName); SYMBOL(aclnnInit); SYMBOL(aclrtSetDevice);
    for (int i = 0; i < 2; i++) {
        EXPECT_IS(p_aclInit(NULL), 500000);
        EXPECT_TEXT("aclInit", "Python", word);
    }
    EXPECT(p_aclrtGetSocName() == NULL);
    EXPECT_TEXT("aclrtGetSocName", word);
    EXPECT_IS(p_aclnnInit(NULL), 561000);
    EXPECT_IS(p_aclrtSetDevice(0), 0);
}

CASE(no_python_library)
{
    open_library();
    expect_refusal("libnothing");
}

CASE(another_python_in_view)
{
    EXPECT(dlopen(getenv("OTHER_PYTHON"), RTLD_NOW | RTLD_GLOBAL) != NULL);
    open_library();
    expect_refusal("3.7.1");
}

CASE(another_python_out_of_view)
{
    EXPECT(dlopen(getenv("OTHER_PYTHON"), RTLD_NOW | RTLD_LOCAL) != NULL);
    open_library();
    expect_refusal("3.7.1");
}

CASE(a_package_that_cannot_be_imported)
{
    open_library();
    expect_refusal("cannot be imported");
}

static void *call_python(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    EXPECT(function != NULL);
    return function;
}

/* A host that embeds Python itself: the library joins that interpreter, and answers with a status after its end. */
CASE(a_host_with_python_of_its_own)
{
    EXPECT(dlopen(getenv("LIBPYTHON"), RTLD_NOW | RTLD_GLOBAL) != NULL);
    ((void (*)(int))call_python("Py_InitializeEx"))(0);
    int (*run)(const char *) = (int (*)(const char *))call_python("PyRun_SimpleString");
    EXPECT_IS(run("mark = 12345\nassert 'nonpu' not in __import__('sys').modules"), 0);
    open_library();
    EXPECT(run_once() == -2);
    EXPECT_IS(run("assert mark == 12345 and 'nonpu.capi.exports' in __import__('sys').modules"), 0);
    ((int (*)(void))call_python("Py_FinalizeEx"))();
    SYMBOL(aclFinalize); SYMBOL(aclnnSigmoidBackward); SYMBOL(aclrtSetDevice);
    EXPECT_IS(p_aclFinalize(), 500000);
    EXPECT_TEXT("aclFinalize", "ended");
    EXPECT_IS(p_aclnnSigmoidBackward(NULL, 0, NULL, NULL), 161001);
    EXPECT_IS(p_aclrtSetDevice(0), 0);
}

RUN(ENTRY(a_plain_host), ENTRY(eight_threads_race_the_first_call),
    ENTRY(the_host_keeps_its_locale_signals_streams_and_rounding), ENTRY(a_closed_library_stays_usable),
    ENTRY(a_child_forked_before_the_first_call_starts_its_own), ENTRY(children_forked_while_threads_call),
    ENTRY(no_python_library), ENTRY(another_python_in_view), ENTRY(another_python_out_of_view),
    ENTRY(a_package_that_cannot_be_imported), ENTRY(a_host_with_python_of_its_own))
