/* Python, from the first call that needs it: the interpreter of this process is joined, or one is started. Nothing here
   is linked against libpython; every function of it is looked up by name. */
#define _GNU_SOURCE
#include <Python.h> /* types only */

#include <dlfcn.h>
#include <link.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "front.h"
#include "build.h" /* generated: version and places of the Python that the build ran with */

#define PYTHON(name) __typeof__(name) *p_##name = (__typeof__(name) *)dlsym(python, #name)

enum { NOT_STARTED, STARTED, FAILED };

nonpu_table nonpu_python;
static int state, starting, own;    /* own: the interpreter was started here */
static char message[1024];
static void *python;                /* where its symbols are; RTLD_DEFAULT (null) if they are global */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *nonpu_build(void) { return NONPU_BUILD; }

const char *nonpu_state(void) { return state == STARTED ? "started" : state == FAILED ? message : "not started"; }

/* Python calls this at its end: later calls, from destructors say, get a status. */
static void close_python(void)
{
    snprintf(message, sizeof message, "an interpreter that has ended");
    __atomic_store_n(&state, FAILED, __ATOMIC_RELEASE);
    nonpu_forget_calls();
}

/* ---- places ---- */

typedef struct {
    char site[PATH_MAX];            /* the directory that holds the package */
    char prefix[PATH_MAX];          /* the environment around it */
    char base[PATH_MAX];            /* the Python below that environment */
} places;

static void cut(char *path, int components)
{
    for (char *slash; components-- && (slash = strrchr(path, '/'));)
        *slash = 0;
}

static int is_base(const char *base)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s" NONPU_STDLIB "/os.py", base);
    return !access(path, R_OK);
}

/* <base>/bin is what pyvenv.cfg calls home; an environment without the file is its own base. */
static void find_base(places *p)
{
    char line[PATH_MAX + 64], path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/pyvenv.cfg", p->prefix);
    FILE *file = fopen(path, "re");
    snprintf(p->base, sizeof p->base, "%s", p->prefix);
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "home = %4095[^\r\n]", path) == 1 && realpath(path, p->base))
            cut(p->base, 1);
    if (file)
        fclose(file);
}

/* From <site>/nonpu/toolkit/<arch>-linux/lib64/<this file>, by whatever link it was opened. An installed package lies
   in <prefix>/lib/python3.x/site-packages; for one that runs from its sources the build recorded the environment. */
static int locate(places *p)
{
    Dl_info info;
    if (!dladdr(&nonpu_python, &info) || !realpath(info.dli_fname, p->site)) {
        snprintf(message, sizeof message, "a library that cannot find its own path");
        return -1;
    }
    cut(p->site, 5);
    static const char installed[] = NONPU_STDLIB "/site-packages";
    size_t length = strlen(p->site), tail = sizeof installed - 1;
    if (length > tail && !strcmp(p->site + length - tail, installed)) {
        snprintf(p->prefix, sizeof p->prefix, "%.*s", (int)(length - tail), p->site);
        find_base(p);
        if (is_base(p->base))
            return 0;
    }
    strcpy(p->prefix, NONPU_PREFIX);
    strcpy(p->base, NONPU_BASE);
    return 0;
}

/* ---- the library ---- */

/* libpython3.so, without a minor version, only forwards to the real one. */
static int is_python(struct dl_phdr_info *info, size_t size, void *path)
{
    (void)size;
    const char *slash = strrchr(info->dlpi_name, '/'), *file = slash ? slash + 1 : info->dlpi_name;
    if (strncmp(file, "libpython3.", 11) || !strncmp(file, "libpython3.so", 13))
        return 0;
    snprintf(path, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

/* Python that is in the process already: its symbols are global, or in a library that was loaded for its user alone. */
static int find_loaded(void)
{
    char path[PATH_MAX];
    if (dlsym(RTLD_DEFAULT, "Py_IsInitialized"))
        return 1;
    return dl_iterate_phdr(is_python, path) && (python = dlopen(path, RTLD_NOW | RTLD_NOLOAD));
}

static int load(const places *p)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/lib/" NONPU_SONAME, p->base);
    const char *candidates[] = { path, NONPU_LIBDIR "/" NONPU_SONAME, NONPU_SONAME };
    for (size_t i = 0; i < 3 && !python; i++)
        python = dlopen(candidates[i], RTLD_NOW | RTLD_GLOBAL);
    if (!python)
        snprintf(message, sizeof message, "no Python " NONPU_VERSION " library: %.900s", dlerror());
    return python ? 0 : -1;
}

/* Two versions in one process would take each other's symbols. */
static int check_version(void)
{
    PYTHON(Py_GetVersion);
    const char *version = p_Py_GetVersion();
    if (!strncmp(version, NONPU_VERSION ".", sizeof NONPU_VERSION)) {
        char path[PATH_MAX];
        if (python && dl_iterate_phdr(is_python, path))     /* extension modules look for its symbols in global scope */
            dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
        return 0;
    }
    snprintf(message, sizeof message, "Python %.*s in this process, and this library is built for Python " NONPU_VERSION,
             (int)strcspn(version, " "), version);
    return -1;
}

/* ---- the interpreter ---- */

static int add_path(PyWideStringList *list, const char *path)
{
    PYTHON(Py_DecodeLocale); PYTHON(PyMem_RawFree); PYTHON(PyWideStringList_Append); PYTHON(PyStatus_Exception);
    wchar_t *wide = p_Py_DecodeLocale(path, NULL);
    int failed = !wide || p_PyStatus_Exception(p_PyWideStringList_Append(list, wide));
    p_PyMem_RawFree(wide);
    return failed;
}

/* Python ends the process if memory ends in the middle of its start: what a start takes must be there before. */
static int has_memory(void)
{
    enum { WANTED = 16 << 20 };
    void *place = mmap(NULL, WANTED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) {
        snprintf(message, sizeof message, "an interpreter that did not start: less than 16 MiB of memory are left");
        return 0;
    }
    munmap(place, WANTED);
    return 1;
}

/* Isolated, without `site`, with the host's locale, signals and streams as they are. */
static int initialise(const places *p)
{
    PYTHON(PyPreConfig_InitIsolatedConfig); PYTHON(Py_PreInitialize); PYTHON(PyConfig_InitIsolatedConfig);
    PYTHON(PyConfig_SetBytesString); PYTHON(Py_InitializeFromConfig); PYTHON(PyConfig_Clear);
    PYTHON(PyEval_SaveThread); PYTHON(PyStatus_Exception);
    if (!is_base(p->base)) {
        snprintf(message, sizeof message, "no standard library of Python " NONPU_VERSION " in %.900s" NONPU_STDLIB, p->base);
        return -1;
    }
    if (!has_memory())
        return -1;
    PyPreConfig before;
    p_PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    PyStatus status = p_Py_PreInitialize(&before);
    if (!p_PyStatus_Exception(status)) {
        char stdlib[PATH_MAX + 64], dynload[PATH_MAX + 64], executable[PATH_MAX + 64];
        snprintf(stdlib, sizeof stdlib, "%s" NONPU_STDLIB, p->base);
        snprintf(dynload, sizeof dynload, "%s" NONPU_STDLIB "/lib-dynload", p->base);
        snprintf(executable, sizeof executable, "%s/bin/python", p->prefix);
        PyConfig config;
        p_PyConfig_InitIsolatedConfig(&config);
        config.site_import = config.pathconfig_warnings = 0;
        config.module_search_paths_set = 1;
        const char *paths[] = { stdlib, dynload, p->site, NONPU_SITE_PACKAGES };
        const struct { wchar_t **field; const char *value; } fields[] = {
            { &config.executable, executable }, { &config.base_executable, executable },
            { &config.prefix, p->prefix }, { &config.exec_prefix, p->prefix },
            { &config.base_prefix, p->base }, { &config.base_exec_prefix, p->base } };
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
            add_path(&config.module_search_paths, paths[i]);
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            p_PyConfig_SetBytesString(&config, fields[i].field, fields[i].value);
        status = p_Py_InitializeFromConfig(&config);
        p_PyConfig_Clear(&config);
    }
    if (p_PyStatus_Exception(status)) {
        snprintf(message, sizeof message, "an interpreter that did not start: %.900s", status.err_msg ? status.err_msg : "no reason given");
        return -1;
    }
    p_PyEval_SaveThread();
    return 0;
}

/* A guest searches our places last, and only if it does not find the package by itself. */
static PyObject *import_exports(const places *p)
{
    static const char name[] = "nonpu.capi.exports";
    PYTHON(PyImport_ImportModule); PYTHON(PySys_GetObject); PYTHON(PyUnicode_DecodeFSDefault); PYTHON(PyList_Append);
    PYTHON(PyErr_ExceptionMatches); PYTHON(PyErr_Clear); PYTHON(Py_DecRef);
    PYTHON(PyDict_DelItemString); PYTHON(PyImport_GetModuleDict);
    PyObject *module = p_PyImport_ImportModule(name);
    PyObject **not_found = (PyObject **)dlsym(python, "PyExc_ModuleNotFoundError"), *path = p_PySys_GetObject("path");
    if (module || own || !path || !p_PyErr_ExceptionMatches(*not_found))
        return module;
    p_PyErr_Clear();
    /* A folder of this name beside the script, a clone say, has been taken for a package without a file. */
    p_PyDict_DelItemString(p_PyImport_GetModuleDict(), "nonpu");
    p_PyErr_Clear();
    const char *folders[] = { p->site, NONPU_SITE_PACKAGES };
    for (size_t i = 0; i < 2; i++) {
        PyObject *place = p_PyUnicode_DecodeFSDefault(folders[i]);
        if (place)
            p_PyList_Append(path, place);
        p_Py_DecRef(place);
    }
    return p_PyImport_ImportModule(name);
}

/* What a handler of a signal raised during the import is the caller's, who may call again. */
static int take_interrupt(void)
{
    PYTHON(PyErr_ExceptionMatches); PYTHON(PyErr_Fetch); PYTHON(PyErr_NormalizeException);
    PyObject **exception = (PyObject **)dlsym(python, "PyExc_Exception"), *type = NULL, *value = NULL, *trace = NULL;
    if (own || p_PyErr_ExceptionMatches(*exception))
        return 0;
    p_PyErr_Fetch(&type, &value, &trace);
    p_PyErr_NormalizeException(&type, &value, &trace);
    nonpu_interrupt((uintptr_t)value);
    snprintf(message, sizeof message, "an interrupted import");
    return 1;
}

static void describe_exception(void)
{
    PYTHON(PyErr_Fetch); PYTHON(PyErr_NormalizeException); PYTHON(PyObject_Repr); PYTHON(PyUnicode_AsUTF8); PYTHON(PyErr_Clear);
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    p_PyErr_Fetch(&type, &value, &trace);
    p_PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = value ? p_PyObject_Repr(value) : NULL;
    const char *utf8 = text ? p_PyUnicode_AsUTF8(text) : NULL;
    snprintf(message, sizeof message, "a package that cannot be imported: %.900s", utf8 ? utf8 : "no reason given");
    p_PyErr_Clear();                /* the few objects stay: nothing is tried a second time */
}

static int fill_table(const places *p)
{
    PYTHON(PyGILState_Ensure); PYTHON(PyGILState_Release); PYTHON(PyObject_CallMethod);
    PyGILState_STATE gil = p_PyGILState_Ensure();
    PyObject *module = import_exports(p);
    typedef unsigned long long number;
    PyObject *result = module ? p_PyObject_CallMethod(module, "start", "KKK", (number)(uintptr_t)&nonpu_python, (number)(uintptr_t)close_python,
                                                      (number)(uintptr_t)nonpu_build()) : NULL;
    int interrupted = !result && take_interrupt();
    if (!result && !interrupted)
        describe_exception();
    p_PyGILState_Release(gil);
    return result ? STARTED : interrupted ? NOT_STARTED : FAILED;
}

static int begin(void)
{
    places p;
    int loaded = find_loaded();
    if (locate(&p) || (!loaded && load(&p)) || check_version())
        return FAILED;
    PYTHON(Py_IsInitialized);
    own = !p_Py_IsInitialized();
    return (own && initialise(&p)) ? FAILED : fill_table(&p);
}

/* Whether this thread has the GIL; PyGILState_Check says so of every thread once there are subinterpreters. */
static int has_gil(void)
{
    static __typeof__(_PyThreadState_UncheckedGet) *current;
    if (!current)
        current = (__typeof__(current))dlsym(python, "_PyThreadState_UncheckedGet");
    PyThreadState *holder = current ? current() : NULL;
    return holder && holder->thread_id == (unsigned long)pthread_self();
}

/* With the GIL in hand, by the state of a subinterpreter, this thread would wait for itself to let it go. */
static int is_subinterpreter(const char *api)
{
    PYTHON(PyThreadState_Get); PYTHON(PyGILState_GetThisThreadState);
    if (p_PyThreadState_Get() == p_PyGILState_GetThisThreadState())
        return 0;
    nonpu_fail(-1, api, "the caller, if it keeps the GIL,", "in the main interpreter", "a subinterpreter");
    return 1;
}

static __attribute__((noinline, cold)) int start(const char *api)
{
    /* Never wait for the lock with the GIL in hand: whoever has the lock needs the GIL. */
    PyThreadState *saved = NULL;
    if (state == NOT_STARTED && find_loaded() && has_gil()) {
        PYTHON(PyEval_SaveThread);
        if (is_subinterpreter(api))
            return -1;
        saved = p_PyEval_SaveThread();
    }
    pthread_mutex_lock(&lock);
    if (state == NOT_STARTED) {
        nonpu_float_mode mode = nonpu_float_enter();
        starting = 1;
        __atomic_store_n(&state, begin(), __ATOMIC_RELEASE);
        starting = 0;
        nonpu_float_leave(mode);
    }
    pthread_mutex_unlock(&lock);
    if (saved) {
        PYTHON(PyEval_RestoreThread);
        p_PyEval_RestoreThread(saved);
    }
    nonpu_leave();
    return state == STARTED ? 0 : nonpu_fail(-1, api, "the Python side of this library", "running", message);
}

int nonpu_enter(const char *api)
{
    enum { CALL = 48 << 10, START = 96 << 10 };     /* stack: some 20 KiB and 62 KiB are used */
    int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (now != FAILED && nonpu_lacks_stack(api, now == STARTED ? CALL : START))
        return -1;
    if (now == STARTED && !own && has_gil() && is_subinterpreter(api))
        return -1;
    return NONPU_LIKELY(now == STARTED) ? 0 : start(api);
}

/* ---- exceptions of the caller ----
   Python runs a signal's handler in whatever it executes, and that may be our side of a C function. C can only return a
   status, so the exception waits until then: as a pending call in the main thread, where handlers run; elsewhere (a host
   that ends a thread this way) as an asynchronous exception, which has no arguments. An interpreter of our own has no
   caller in Python, and handles no signals. */
static __thread PyObject *interrupt;

void nonpu_interrupt(uintptr_t exception)
{
    PYTHON(Py_IncRef); PYTHON(Py_DecRef);
    if (own)
        return;
    p_Py_IncRef((PyObject *)exception);
    p_Py_DecRef(interrupt);
    interrupt = (PyObject *)exception;
}

static int raise_interrupt(void *exception)
{
    PYTHON(PyErr_SetObject); PYTHON(Py_DecRef);
    p_PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    p_Py_DecRef(exception);
    return -1;
}

static __attribute__((noinline, cold)) void pass_on(PyObject *exception)
{
    PYTHON(Py_AddPendingCall); PYTHON(PyGILState_Ensure); PYTHON(PyGILState_Release); PYTHON(Py_DecRef);
    PYTHON(PyThreadState_SetAsyncExc); PYTHON(PyThread_get_thread_ident);
    if (syscall(SYS_gettid) == getpid() && !p_Py_AddPendingCall(raise_interrupt, exception))
        return;
    PyGILState_STATE gil = p_PyGILState_Ensure();
    p_PyThreadState_SetAsyncExc(p_PyThread_get_thread_ident(), (PyObject *)Py_TYPE(exception));
    p_Py_DecRef(exception);
    p_PyGILState_Release(gil);
}

void nonpu_leave(void)
{
    PyObject *exception = interrupt;
    if (NONPU_LIKELY(!exception))
        return;
    interrupt = NULL;
    pass_on(exception);
}

/* ---- fork ---- */

void nonpu_fork_lock(pthread_mutex_t *which, int step)
{
    if (step == FORK_PREPARE)
        pthread_mutex_lock(which);
    else if (step == FORK_PARENT)
        pthread_mutex_unlock(which);
    else
        pthread_mutex_init(which, NULL);
}

/* An interpreter of our own has to be told; one that we joined is its owner's to tell. */
static void fork_python(int step)
{
    static PyGILState_STATE gil;
    static int taken;
    if (!own || state != STARTED)
        return;
    PYTHON(PyGILState_Check); PYTHON(PyGILState_Ensure); PYTHON(PyGILState_Release);
    PYTHON(PyOS_BeforeFork); PYTHON(PyOS_AfterFork_Parent); PYTHON(PyOS_AfterFork_Child);
    if (step == FORK_PREPARE && !p_PyGILState_Check()) {
        gil = p_PyGILState_Ensure();
        taken = 1;
        p_PyOS_BeforeFork();
    } else if (step != FORK_PREPARE && taken) {
        taken = 0;
        if (step == FORK_PARENT)
            p_PyOS_AfterFork_Parent();
        else
            p_PyOS_AfterFork_Child();
        p_PyGILState_Release(gil);
    }
}

static void fork_step(int step)
{
    if (step == FORK_PREPARE)
        fork_python(step);
    nonpu_fork_team(step);
    nonpu_fork_streams(step);
    nonpu_fork_memory(step);
    nonpu_fork_handles(step);
    nonpu_fork_errors(step);
    nonpu_fork_memo(step);
    if (step == FORK_CHILD) {
        pthread_mutex_init(&lock, NULL);
        nonpu_restart_streams();
        if (starting) {
            state = FAILED;
            snprintf(message, sizeof message, "a process that was forked while its interpreter started");
        }
    }
    if (step != FORK_PREPARE)
        fork_python(step);
}

static void fork_prepare(void) { fork_step(FORK_PREPARE); }
static void fork_parent(void) { fork_step(FORK_PARENT); }
static void fork_child(void) { fork_step(FORK_CHILD); }

__attribute__((constructor)) static void register_fork(void) { pthread_atfork(fork_prepare, fork_parent, fork_child); }
