/* Device and host memory: both are memory of this process, in blocks that are known by address. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "queue.h"

typedef struct { uintptr_t base; uint64_t bytes, capacity; int host; } block;

static block *blocks;               /* sorted by base */
static size_t count, room;
/* Freed by the client while work was queued: released when the work accepted until then is done. */
static struct { void *memory; uint64_t issued; } *deferred;
size_t nonpu_deferred;
static size_t deferred_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The last blocks that were given back: a tensor in one of them is a mistake, until its memory is in use again. */
enum { FREED = 64 };
static block freed[FREED];
static unsigned next_freed;
uint64_t nonpu_frees;

static block *freed_block(uintptr_t base, uint64_t size)
{
    for (int i = 0; i < FREED; i++)
        if (freed[i].capacity && base < freed[i].base + freed[i].capacity && freed[i].base < base + size)
            return &freed[i];
    return NULL;
}

void nonpu_fork_memory(int step) { nonpu_fork_lock(&lock, step); }

/* The number of blocks that start at or below the address. */
static size_t upto(uintptr_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static block *block_of(uintptr_t address)
{
    size_t i = upto(address);
    return i && address - blocks[i - 1].base < blocks[i - 1].capacity ? &blocks[i - 1] : NULL;
}

/* Room for one more element; 0 when memory ends. */
static int reserve(void **array, size_t used, size_t *room_, size_t size)
{
    if (used < *room_)
        return 1;
    size_t more = *room_ ? *room_ * 2 : 64;
    void *grown = realloc(*array, more * size);
    if (grown) {
        *array = grown;
        *room_ = more;
    }
    return grown != NULL;
}

static void release(void *memory)
{
    if (__builtin_expect(memory && nonpu_guarding, 0))
        nonpu_release_guarded(memory);
    else
        free(memory);
}

static int allocate(const char *api, const char *what, void **out, size_t size, int host)
{
    enum { PADDING = 32, PAGE = 4096 };     /* the device pads by 32 bytes and hides overruns within a page */
    if (!out)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, what, "a pointer", "null");
    if (!size || size > SIZE_MAX / 2)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "size", "1 or more, and within the address space", nonpu_number((int64_t)size).text);
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    size_t capacity = (size + PADDING + PAGE - 1) / PAGE * PAGE;
    void *memory = nonpu_guarding ? nonpu_guarded(size, capacity) : aligned_alloc(PAGE, capacity);
    pthread_mutex_lock(&lock);
    int known = memory && reserve((void **)&blocks, count, &room, sizeof *blocks);
    if (known) {
        size_t i = upto((uintptr_t)memory);
        memmove(blocks + i + 1, blocks + i, (count++ - i) * sizeof *blocks);
        blocks[i] = (block){ (uintptr_t)memory, size, capacity, host };
        for (block *old; (old = freed_block((uintptr_t)memory, capacity));)
            old->capacity = 0;
        *out = memory;
    }
    pthread_mutex_unlock(&lock);
    if (!known) {
        char actual[48];
        snprintf(actual, sizeof actual, "%zu bytes", size);
        release(memory);
        return nonpu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, api, "size", "what this machine can give", actual);
    }
    NONPU_NOTE(NONPU_ALLOCATED, api, (uintptr_t)memory, size, (uint64_t)host, 0);
    return ACL_SUCCESS;
}

static int give_back(const char *api, void *memory, int host)
{
    if (!memory)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, host ? "hostPtr" : "devPtr", "a pointer", "null");
    pthread_mutex_lock(&lock);
    block *b = block_of((uintptr_t)memory);
    int known = b && b->base == (uintptr_t)memory && b->host == host;
    NONPU_NOTE(NONPU_GIVEN_BACK, api, (uintptr_t)memory, (uint64_t)host, (uint64_t)known, 0);
    if (known) {
        NONPU_CHECKED(nonpu_check_guards(api, memory));
        freed[next_freed++ % FREED] = *b;
        __atomic_store_n(&nonpu_frees, nonpu_frees + 1, __ATOMIC_RELEASE);
        memmove(b, b + 1, (size_t)(blocks + --count - b) * sizeof *b);
        /* Queued work may still use the block. The call must not wait, so the block outlives it. */
        if (nonpu_is_busy() && reserve((void **)&deferred, nonpu_deferred, &deferred_room, sizeof *deferred)) {
            deferred[nonpu_deferred].memory = memory;
            deferred[nonpu_deferred].issued = nonpu_issued();
            __atomic_add_fetch(&nonpu_deferred, 1, __ATOMIC_RELEASE);
            memory = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!known)
        return nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, host ? "hostPtr" : "devPtr",
                          host ? "a live address from aclrtMallocHost" : "a live address from aclrtMalloc",
                          "one that is freed, inside a block or foreign");
    release(memory);
    return ACL_SUCCESS;
}

void nonpu_release_deferred(uint64_t oldest)
{
    pthread_mutex_lock(&lock);
    size_t kept = 0;
    for (size_t i = 0; i < nonpu_deferred; i++) {
        if (deferred[i].issued < oldest)
            release(deferred[i].memory);
        else
            deferred[kept++] = deferred[i];
    }
    __atomic_store_n(&nonpu_deferred, kept, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

int32_t nonpu_find_block(uintptr_t address, uintptr_t *base, uint64_t *bytes, uint64_t *capacity)
{
    pthread_mutex_lock(&lock);
    block *b = block_of(address), *gone = b ? NULL : freed_block(address, 1);
    if (gone)
        b = gone;
    if (b) {
        *base = b->base;
        *bytes = gone ? 0 : b->bytes;
        if (capacity)
            *capacity = b->capacity;
    }
    pthread_mutex_unlock(&lock);
    return b != NULL;
}

/* ---- memory that the runtime did not allocate: would a kernel's access end the process? ---- */

enum { POPULATE_WRITE = 23 };       /* MADV_POPULATE_WRITE: as a write would, but without one; Linux 5.14 */

static int is_readable(uintptr_t address)
{
    char byte;
    struct iovec here = { &byte, 1 }, there = { (void *)address, 1 };
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) >= 0 || errno != EFAULT;
}

static int is_writable(uintptr_t address, uintptr_t page)
{
    static char own;
    if (!madvise((void *)(address & ~(page - 1)), page, POPULATE_WRITE) || (errno != EFAULT && errno != EINVAL))
        return 1;
    return madvise((void *)((uintptr_t)&own & ~(page - 1)), page, POPULATE_WRITE) != 0;     /* this kernel cannot tell */
}

/* mincore wants to say which pages are resident; here it only has to find holes. */
static int is_mapped(uintptr_t start, uintptr_t last, uintptr_t page)
{
    unsigned char resident[4096];
    for (uintptr_t left = (last - start) / page + 1, pages; left; left -= pages, start += pages * page) {
        pages = left < sizeof resident ? left : sizeof resident;
        if (mincore((void *)start, pages * page, resident) && errno == ENOMEM)
            return 0;
    }
    return 1;
}

int32_t nonpu_probe(uintptr_t address, uint64_t bytes, int32_t written)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), last = address + bytes - 1;
    if (!bytes)
        return 0;
    if (last < address || !is_mapped(address & ~(page - 1), last, page))
        return 1;
    if (!is_readable(address) || !is_readable(last))
        return 2;
    return written && !(is_writable(address, page) && is_writable(last, page)) ? 3 : 0;
}

int nonpu_memory_kind(const void *address)
{
    pthread_mutex_lock(&lock);
    const block *b = block_of((uintptr_t)address);
    int kind = !b ? 0 : b->host ? 1 : 2;
    pthread_mutex_unlock(&lock);
    return kind;
}

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;                   /* a hint about pages */
    return allocate("aclrtMalloc", "devPtr", devPtr, size, 0);
}

/* What these two promise beyond aclrtMalloc is about caches and padding. */
aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    return allocate("aclrtMallocAlign32", "devPtr", devPtr, size, 0);
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    return allocate("aclrtMallocCached", "devPtr", devPtr, size, 0);
}

aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg)
{
    static const char api[] = "aclrtMallocWithCfg";
    (void)policy;
    if (cfg && cfg->numAttrs && !cfg->attrs)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "cfg->attrs", "a pointer to as many attributes as counted", "null");
    return allocate(api, "devPtr", devPtr, size, 0);
}

aclError aclrtFree(void *devPtr) { return give_back("aclrtFree", devPtr, 0); }

aclError aclrtFreeWithDevSync(void *devPtr)
{
    static const char api[] = "aclrtFreeWithDevSync";
    int32_t status = devPtr ? nonpu_may_wait(api) : ACL_SUCCESS;
    if (status)
        return status;
    if (devPtr)
        nonpu_synchronize_all();    /* failures of the work stay for whoever asks for its results */
    NONPU_NOTE(NONPU_SYNCHRONIZED, api, 0, 0, 0, 0);
    return give_back(api, devPtr, 0);
}

aclError aclrtMallocHost(void **hostPtr, size_t size) { return allocate("aclrtMallocHost", "hostPtr", hostPtr, size, 1); }
aclError aclrtFreeHost(void *hostPtr) { return give_back("aclrtFreeHost", hostPtr, 1); }

/* Memory that can be had without swapping, as the kernel estimates it; of a kernel that does not, what is unused. */
static uint64_t available_memory(void)
{
    char line[128];
    unsigned long long kilobytes = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file) && !kilobytes)
        if (sscanf(line, "MemAvailable: %llu", &kilobytes) != 1)
            kilobytes = 0;
    if (file)
        fclose(file);
    return kilobytes ? kilobytes * 1024 : (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *available, size_t *total)
{
    int32_t status = nonpu_wanted("aclrtGetMemInfo", available, "free");
    if (!status)
        status = nonpu_wanted("aclrtGetMemInfo", total, "total");
    if (status)
        return status;
    int known = (unsigned)attr <= ACL_HBM_MEM_NORMAL;
    *available = known ? available_memory() : 0;
    *total = known ? (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) : 0;
    return ACL_SUCCESS;
}

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes)
{
    static const char api[] = "aclrtPointerGetAttributes";
    static const aclrtMemLocationType types[] = { ACL_MEM_LOCATION_TYPE_UNREGISTERED, ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_LOCATION_TYPE_DEVICE };
    if (!ptr || !attributes)
        return nonpu_null(api, ptr ? "attributes" : "ptr");
    memset(attributes, 0, sizeof *attributes);
    attributes->location.type = types[nonpu_memory_kind(ptr)];
    attributes->pageSize = (uint32_t)sysconf(_SC_PAGESIZE);
    return ACL_SUCCESS;
}


/* The runtime's own conversions know no infinity and no NaN: exponent 31 is an ordinary one. */
float aclFloat16ToFloat(aclFloat16 value)
{
    int exponent = value >> 10 & 31, mantissa = value & 1023;
    float magnitude = exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    return value & 0x8000 ? -magnitude : magnitude;
}

/* Nearest, ties to even; what is beyond the largest number, infinities and NaN included, gives the largest number. */
aclFloat16 aclFloatToFloat16(float value)
{
    const float largest = 65504.0f;
    unsigned sign = signbit(value) ? 0x8000u : 0u;
    float magnitude = fabsf(value);
    if (!(magnitude < largest))
        return (aclFloat16)(sign | 0x7bffu);
    int exponent;
    frexpf(magnitude, &exponent);   /* magnitude in [2^(exponent-1), 2^exponent) */
    if (magnitude < 0x1p-14f)
        exponent = -13;             /* subnormal or zero: a fixed step of 2^-24 */
    nonpu_float_mode mode = nonpu_float_enter();
    unsigned steps = (unsigned)rintf(ldexpf(magnitude, 11 - exponent));     /* 1024..2048, or less when subnormal */
    nonpu_float_leave(mode);
    return (aclFloat16)(sign | ((unsigned)(exponent + 13) * 1024u + steps));
}
