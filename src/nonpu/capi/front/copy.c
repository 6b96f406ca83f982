/* Copies and fills, at once and in streams. Both kinds of memory are memory of this process, so the direction decides nothing. */
#include <stdio.h>
#include <string.h>

#include "queue.h"

enum { BYTES_PER_NANOSECOND = 8, NOTHING_TO_DO = -1 };

/* A range that starts in one of our blocks must end in it: the block's slack counts as part of it. */
static int fits(uintptr_t address, size_t size)
{
    uintptr_t base;
    uint64_t bytes, capacity;
    return !nonpu_find_block(address, &base, &bytes, &capacity) || !bytes || size <= capacity - (address - base);
}

static int overrun(const char *api, const char *what)
{
    return nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, what, "a range inside its allocation", "one that ends behind it");
}

static nonpu_text at_most(const char *name, size_t value)
{
    nonpu_text bound;
    snprintf(bound.text, sizeof bound.text, "at most %s, %zu", name, value);
    return bound;
}

/* 0, NOTHING_TO_DO or a status with its text, in the documented order. */
static int32_t check_copy(const char *api, const void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    if (!count)
        return NOTHING_TO_DO;
    if (!dst || !src)
        return nonpu_null(api, dst ? "src" : "dst");
    if ((unsigned)kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "kind", "0 to 5", nonpu_number((int64_t)kind).text);
    if (count > destMax)
        return nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "count", at_most("destMax", destMax).text, nonpu_number((int64_t)count).text);
    if (dst == src)
        return NOTHING_TO_DO;
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    if (!fits((uintptr_t)dst, count))
        return overrun(api, "dst");
    return fits((uintptr_t)src, count) ? 0 : overrun(api, "src");
}

static int32_t check_set(const char *api, const void *devPtr, size_t maxCount, size_t count)
{
    if (!count)
        return NOTHING_TO_DO;
    if (!devPtr)
        return nonpu_null(api, "devPtr");
    if (count > maxCount)
        return nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "count", at_most("maxCount", maxCount).text, nonpu_number((int64_t)count).text);
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    return fits((uintptr_t)devPtr, count) ? 0 : overrun(api, "devPtr");
}

static int32_t check_pitches(const char *api, size_t dpitch, size_t spitch, size_t width)
{
    if (width <= dpitch && width <= spitch)
        return 0;
    return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "width", at_most(width > dpitch ? "dpitch" : "spitch", width > dpitch ? dpitch : spitch).text,
                      nonpu_number((int64_t)width).text);
}

/* Whether rows fit into the allocation that they start in; SIZE_MAX stands for more than there can be. */
static int rows_fit(uintptr_t address, size_t pitch, size_t width, size_t height)
{
    size_t bytes;
    if (__builtin_mul_overflow(pitch, height - 1, &bytes) || __builtin_add_overflow(bytes, width, &bytes))
        bytes = SIZE_MAX;
    return bytes < SIZE_MAX && fits(address, bytes);
}

static int32_t check_rows(const char *api, const nonpu_copy *c, aclrtMemcpyKind kind)
{
    if (!c->width || !c->height)
        return NOTHING_TO_DO;
    if (!c->to || !c->from)
        return nonpu_null(api, c->to ? "src" : "dst");
    if (kind == ACL_MEMCPY_HOST_TO_HOST || (unsigned)kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "kind", "1 to 5", nonpu_number((int64_t)kind).text);
    int32_t status = check_pitches(api, c->to_pitch, c->from_pitch, c->width);
    if (status)
        return status;
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    if (!rows_fit((uintptr_t)c->to, c->to_pitch, c->width, c->height))
        return overrun(api, "dst");
    return rows_fit((uintptr_t)c->from, c->from_pitch, c->width, c->height) ? 0 : overrun(api, "src");
}

static int32_t settled(int32_t checked) { return checked == NOTHING_TO_DO ? ACL_SUCCESS : checked; }

/* ---- at once ---- */

static void note_kind(const char *api, const nonpu_copy *c, aclrtMemcpyKind kind)
{
    nonpu_note(NONPU_COPIED, api, (uintptr_t)c->to, (uintptr_t)c->from, (uint64_t)kind, 0);
}

static void note_copy(const char *api, const nonpu_copy *c, aclrtMemcpyKind kind)
{
    nonpu_digest();
    note_kind(api, c, kind);
    nonpu_note_copy(api, c->to, c->to_pitch, c->from, c->from_pitch, c->width, c->height);
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    int32_t status = check_copy("aclrtMemcpy", dst, destMax, src, count, kind);
    if (!status) {
        NONPU_CHECKED(note_copy("aclrtMemcpy", &(nonpu_copy){ dst, src, count, count, count, 1 }, kind));
        memmove(dst, src, count);
    }
    return settled(status);
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    int32_t status = check_set("aclrtMemset", devPtr, maxCount, count);
    if (!status) {
        NONPU_CHECKED(nonpu_note_copy("aclrtMemset", devPtr, 0, NULL, 0, count, 1));
        memset(devPtr, value, count);
    }
    return settled(status);
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, aclrtMemcpyKind kind)
{
    const nonpu_copy copy = { dst, src, dpitch, spitch, width, height };
    int32_t status = check_rows("aclrtMemcpy2d", &copy, kind);
    if (!status) {
        NONPU_CHECKED(note_copy("aclrtMemcpy2d", &copy, kind));
        nonpu_copy_rows(&copy);
    }
    return settled(status);
}

/* ---- in streams ---- */

/* A client may reuse or free its own memory when the call returns, so a copy from or to it has to be done by then. */
static int32_t add_copy(const char *api, const nonpu_copy *copy, aclrtStream stream)
{
    nonpu_task task = { .kind = NONPU_COPY, .of.copy = *copy };
    int waits = !nonpu_memory_kind(copy->to) || !nonpu_memory_kind(copy->from);
    int32_t status = waits ? nonpu_may_wait(api) : 0;
    return status ? status : nonpu_add(api, (uintptr_t)stream, &task, (int64_t)(copy->width * copy->height / BYTES_PER_NANOSECOND), waits);
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind, aclrtStream stream)
{
    static const char api[] = "aclrtMemcpyAsync";
    const nonpu_copy copy = { dst, src, count, count, count, 1 };
    int32_t status = check_copy(api, dst, destMax, src, count, kind);
    if (!status && kind == ACL_MEMCPY_HOST_TO_HOST)
        return nonpu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, api, "kind", "one that has the device at an end", "ACL_MEMCPY_HOST_TO_HOST");
    if (!status)
        NONPU_CHECKED(note_kind(api, &copy, kind));
    return status ? settled(status) : add_copy(api, &copy, stream);
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream)
{
    static const char api[] = "aclrtMemcpy2dAsync";
    const nonpu_copy copy = { dst, src, dpitch, spitch, width, height };
    int32_t status = check_rows(api, &copy, kind);
    if (!status)
        NONPU_CHECKED(note_kind(api, &copy, kind));
    return status ? settled(status) : add_copy(api, &copy, stream);
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream)
{
    static const char api[] = "aclrtMemsetAsync";
    const nonpu_task task = { .kind = NONPU_SET, .of.set = { devPtr, count, value } };
    int32_t status = check_set(api, devPtr, maxCount, count);
    return status ? settled(status) : nonpu_add(api, (uintptr_t)stream, &task, (int64_t)(count / BYTES_PER_NANOSECOND), 0);
}
