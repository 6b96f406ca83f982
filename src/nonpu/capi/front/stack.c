/* Room on stacks: kernels keep their blocks there, and Python its frames in C. A thread of the client may have little of
   it, and nothing stops a frame that is larger than what guards a stack from reaching into other memory. */
#define _GNU_SOURCE
#include <stdio.h>

#include "front.h"

static __thread uintptr_t low, high;        /* of the calling thread's stack; both 0 until it is measured */

static void measure(void)
{
    pthread_attr_t attributes;
    void *start;
    size_t size;
    high = UINTPTR_MAX;                     /* as if there were no end, where the system does not tell */
    if (pthread_getattr_np(pthread_self(), &attributes))
        return;
    if (!pthread_attr_getstack(&attributes, &start, &size) && size) {
        low = (uintptr_t)start;
        high = low + size;
    }
    pthread_attr_destroy(&attributes);
}

size_t nonpu_stack_left(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (!high)
        measure();
    return here >= low && here < high ? here - low : NONPU_FOREIGN_STACK;
}

int nonpu_lacks_stack(const char *api, size_t wanted)
{
    char expected[48], actual[48];
    size_t left = nonpu_stack_left();
    if (left >= wanted)
        return 0;
    snprintf(expected, sizeof expected, "at least %zu KiB free", wanted / 1024);
    snprintf(actual, sizeof actual, "%zu KiB", left / 1024);
    nonpu_fail(-1, api, "the stack of the calling thread", expected, actual);
    return 1;
}
