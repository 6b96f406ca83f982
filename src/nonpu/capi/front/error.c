/* Error texts: every failing call adds one line, newest on top; aclGetRecentErrMsg hands them out and clears them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "front.h"

enum { LENGTH = 4096 };
typedef struct { char pending[LENGTH], handed[LENGTH]; } texts;

static texts process_texts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int process_scope;
static __thread texts *thread_texts;
static pthread_key_t thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Other destructors of the ending thread may still fail, and then need a list again. */
static void end_thread(void *list)
{
    thread_texts = NULL;
    free(list);
}

static void make_key(void) { pthread_key_create(&thread_end, end_thread); }

/* The list in force. A thread for which there is no memory shares the list of the process. */
static texts *current(void)
{
    if (process_scope)
        return &process_texts;
    if (!thread_texts && (thread_texts = calloc(1, sizeof *thread_texts))) {
        pthread_once(&once, make_key);
        pthread_setspecific(thread_end, thread_texts);
    } else if (!thread_texts) {
        thread_texts = &process_texts;
    }
    return thread_texts;
}

void nonpu_fork_errors(int step) { nonpu_fork_lock(&lock, step); }

void nonpu_set_error_scope(int32_t process) { process_scope = process; }

/* NONPU_ERRORS names a file that gets every text, whoever asks for it: programs rarely do. */
static void append_to_file(const char *text)
{
    const char *name = getenv("NONPU_ERRORS");
    int file = name && *name ? open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file < 0)
        return;
    dprintf(file, "%s\n", text);
    close(file);
}

void nonpu_record_error(const char *text)
{
    append_to_file(text);
    NONPU_CHECKED(nonpu_note_failure_text(text));
    texts *t = current();
    pthread_mutex_lock(&lock);
    size_t line = strnlen(text, LENGTH - 2), old = strlen(t->pending);
    if (line + 1 + old >= LENGTH)
        old = LENGTH - 2 - line;    /* the oldest lines fall off */
    memmove(t->pending + line + 1, t->pending, old);
    memcpy(t->pending, text, line);
    t->pending[line] = '\n';
    t->pending[line + 1 + old] = 0;
    pthread_mutex_unlock(&lock);
}

const char *nonpu_take_error(void)
{
    texts *t = current();
    pthread_mutex_lock(&lock);
    int any = t->pending[0] != 0;
    memcpy(t->handed, t->pending, strlen(t->pending) + 1);
    if (any)
        t->handed[strlen(t->handed) - 1] = 0;       /* lines are separated, not ended */
    t->pending[0] = 0;
    pthread_mutex_unlock(&lock);
    return any ? t->handed : NULL;
}

const char *aclGetRecentErrMsg(void) { return nonpu_take_error(); }

nonpu_text nonpu_number(int64_t number)
{
    nonpu_text shown;
    snprintf(shown.text, sizeof shown.text, "%lld", (long long)number);
    return shown;
}

/* ---- the last code of the runtime itself, of this thread; checks of the interface have other series ---- */

static __thread int32_t last_status;

void nonpu_note_status(int32_t status)
{
    int series = status / 1000;
    NONPU_NOTE(NONPU_STATUS, NULL, (uint64_t)(int64_t)status, 0, 0, 0);
    if (series == 107 || series == 207 || series == 507)
        last_status = status;
}

static int32_t last_of(const char *api, aclrtLastErrLevel level, int clear)
{
    if (level != ACL_RT_THREAD_LEVEL)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "level", "ACL_RT_THREAD_LEVEL, 0", nonpu_number((int)level).text);
    int32_t status = last_status;
    if (clear)
        last_status = 0;
    return status;
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) { return last_of("aclrtPeekAtLastError", level, 0); }
aclError aclrtGetLastError(aclrtLastErrLevel level) { return last_of("aclrtGetLastError", level, 1); }

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion)
{
    if (!majorVersion || !minorVersion || !patchVersion)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, "aclrtGetVersion",
                          !majorVersion ? "majorVersion" : !minorVersion ? "minorVersion" : "patchVersion", "a pointer", "null");
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
    return ACL_SUCCESS;
}

int nonpu_fail(int status, const char *api, const char *what, const char *expected, const char *actual)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s must be %s (got %s)", api, what, expected, actual);
    nonpu_record_error(text);
    nonpu_note_status(status);
    return status;
}

int nonpu_unsupported(const char *api)
{
    return nonpu_fail(ACL_ERROR_API_NOT_SUPPORT, api, "the call", "one that operators need", "a function that is here in name only");
}
