/* Tier 2: allocation, and copies in streams. */
#include "case.h"

#include <pthread.h>

#include "gate.h"

enum { LARGE = 8 << 20 };

static char *device(size_t size)
{
    void *memory = NULL;
    EXPECT_IS(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    return memory;
}

static char *pinned(size_t size)
{
    void *memory = NULL;
    EXPECT_IS(aclrtMallocHost(&memory, size), 0);
    EXPECT_IS((uintptr_t)memory % 64, 0);
    return memory;
}

CASE(variants_of_malloc)
{
    void *memory = NULL;
    aclrtMallocAttribute attribute = { ACL_RT_MEM_ATTR_MODULE_ID, { .moduleId = 3 } };
    aclrtMallocConfig cfg = { &attribute, 1 }, broken = { NULL, 1 };
    EXPECT_IS(aclrtMallocAlign32(NULL, 4, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMallocAlign32", "devPtr");
    EXPECT_IS(aclrtMallocCached(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMallocCached", "size");
    EXPECT_IS(aclrtMallocWithCfg(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtMallocAlign32(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtMallocWithCfg(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST, &broken), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMallocWithCfg", "cfg");
    EXPECT(memory == NULL);
    EXPECT_IS(aclrtMallocWithCfg(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST, NULL), 0);
    EXPECT_IS(aclrtFree(memory), 0);
    EXPECT_IS(aclrtMallocWithCfg(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST, &cfg), 0);
    EXPECT_IS(aclrtFree(memory), 0);
    EXPECT_IS(aclrtMallocCached(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_IS(aclrtFree(memory), 0);
    EXPECT_IS(aclrtMallocAlign32(&memory, 100, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_IS((uintptr_t)memory % 64, 0);
    EXPECT_IS(aclrtFreeWithDevSync(memory), 0);
    EXPECT_IS(aclrtFreeWithDevSync(memory), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtFreeWithDevSync", "devPtr");
    EXPECT_IS(aclrtFreeWithDevSync(NULL), ACL_ERROR_INVALID_PARAM);
}

static int taken;
static void count(void *unused)
{
    (void)unused;
    __atomic_add_fetch(&taken, 1, __ATOMIC_SEQ_CST);
}

CASE(freeing_may_wait_for_the_device)
{
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    char *memory = device(100);
    gate_close(&g, stream);
    EXPECT_IS(aclrtLaunchHostFunc(stream, count, NULL), 0);
    THREAD(other, open_later, &g);
    EXPECT_IS(aclrtFreeWithDevSync(memory), 0);
    EXPECT_IS(taken, 1);
    JOIN(other);
}

CASE(copies_take_their_turn_in_a_stream)
{
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    for (size_t size = 16; size <= LARGE; size *= 8192) {
        char *host = pinned(size), *memory = device(size), *back = pinned(size);
        memset(host, 1, size);
        memset(back, 9, size);
        gate_close(&g, stream);
        EXPECT_IS(aclrtMemcpyAsync(memory, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream), 0);
        EXPECT_IS(aclrtMemsetAsync(memory + size / 2, size / 2, 0x102, size / 2, stream), 0);
        EXPECT_IS(aclrtMemcpyAsync(back, size, memory, size, ACL_MEMCPY_DEVICE_TO_HOST, stream), 0);
        EXPECT_IS(aclrtFree(memory), 0);    /* too early, and yet no harm */
        memset(host, 3, size);
        EXPECT_IS(back[0], 9);
        gate_open(&g);
        EXPECT_IS(aclrtSynchronizeStream(stream), 0);
        EXPECT(back[0] == 3 && back[size / 2 - 1] == 3 && back[size / 2] == 2 && back[size - 1] == 2);
        EXPECT_IS(aclrtFreeHost(host), 0);
        EXPECT_IS(aclrtFreeHost(back), 0);
    }
}

CASE(copies_with_ordinary_memory_are_done_when_the_call_returns)
{
    static char host[1 << 16], back[1 << 16];
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    char *memory = device(sizeof host);
    memset(host, 5, sizeof host);
    gate_close(&g, stream);
    THREAD(other, open_later, &g);
    EXPECT_IS(aclrtMemcpyAsync(memory, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE, stream), 0);
    memset(host, 6, sizeof host);
    JOIN(other);
    gate_close(&g, stream);
    THREAD(later, open_later, &g);
    EXPECT_IS(aclrtMemcpyAsync(back, sizeof back, memory, sizeof back, ACL_MEMCPY_DEVICE_TO_HOST, stream), 0);
    EXPECT(back[0] == 5 && back[sizeof back - 1] == 5);
    JOIN(later);
}

CASE(asynchronous_calls_check_in_order)
{
    char a[8] = "abcdefg", b[8] = "1234567";
    EXPECT_IS(aclrtMemcpyAsync(NULL, 0, NULL, 0, (aclrtMemcpyKind)99, (aclrtStream)3), 0);
    EXPECT_IS(aclrtMemcpyAsync(NULL, 8, b, 8, (aclrtMemcpyKind)99, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMemcpyAsync", "dst");
    EXPECT_IS(aclrtMemcpyAsync(a, 8, NULL, 8, ACL_MEMCPY_DEFAULT, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtMemcpyAsync(a, 4, b, 8, (aclrtMemcpyKind)99, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMemcpyAsync", "kind");
    EXPECT_IS(aclrtMemcpyAsync(a, 7, b, 8, ACL_MEMCPY_DEFAULT, NULL), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtMemcpyAsync", "destMax");
    EXPECT_IS(aclrtMemcpyAsync(a, 8, b, 8, ACL_MEMCPY_DEFAULT, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtMemsetAsync(NULL, 0, 0, 0, NULL), 0);
    EXPECT_IS(aclrtMemsetAsync(NULL, 4, 0, 4, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtMemsetAsync(a, 3, 0, 4, NULL), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtMemsetAsync", "maxCount");
    EXPECT_IS(aclrtMemsetAsync(a, 4, 0, 4, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtMemcpyAsync(a, 8, b, 8, ACL_MEMCPY_HOST_TO_HOST, NULL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    EXPECT_TEXT("aclrtMemcpyAsync", "kind", "HOST_TO_HOST");
    EXPECT_IS(aclrtMemcpyAsync(a, 8, b, 8, ACL_MEMCPY_DEFAULT, (aclrtStream)3), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_TEXT("aclrtMemcpyAsync", "stream");
    EXPECT_IS(aclrtMemsetAsync(a, 8, 0, 8, (aclrtStream)3), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT(!strcmp(a, "abcdefg"));
    char *memory = device(32);
    EXPECT_IS(aclrtMemsetAsync(memory, 100000, 0, 100000, NULL), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtMemsetAsync", "allocation");
    EXPECT_IS(aclrtMemcpyAsync(memory, 100000, b, 100000, ACL_MEMCPY_HOST_TO_DEVICE, NULL), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtMemcpyAsync(a, 8, b, 8, ACL_MEMCPY_DEFAULT, NULL), 0);
    EXPECT(!strcmp(a, "1234567"));
}

CASE(rows_are_copied_with_their_pitches)
{
    char from[4][10], to[4][7], in_stream[4][7];
    for (int i = 0; i < 40; i++)
        from[i / 10][i % 10] = (char)i;
    EXPECT_IS(aclrtMemcpy2d(NULL, 0, NULL, 0, 0, 4, (aclrtMemcpyKind)99), 0);
    EXPECT_IS(aclrtMemcpy2d(NULL, 0, NULL, 0, 4, 0, (aclrtMemcpyKind)99), 0);
    EXPECT_IS(aclrtMemcpy2d(NULL, 7, from, 10, 5, 4, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMemcpy2d", "dst");
    EXPECT_IS(aclrtMemcpy2d(to, 7, from, 10, 5, 4, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMemcpy2d", "kind");
    EXPECT_IS(aclrtMemcpy2d(to, 4, from, 10, 5, 4, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMemcpy2d", "width", "dpitch");
    EXPECT_IS(aclrtMemcpy2d(to, 7, from, 4, 5, 4, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMemcpy2d", "width", "spitch");
    EXPECT_IS(aclrtMemcpy2d(to, 7, from, 10, 5, 4, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtMemcpy2dAsync(to, 7, from, 10, 5, 4, ACL_MEMCPY_HOST_TO_DEVICE, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    memset(to, 99, sizeof to);
    memset(in_stream, 99, sizeof in_stream);
    EXPECT_IS(aclrtMemcpy2d(to, 7, from, 10, 5, 4, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    EXPECT_IS(aclrtMemcpy2dAsync(in_stream, 7, from, 10, 5, 4, ACL_MEMCPY_HOST_TO_DEVICE, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    for (int i = 0; i < 28; i++)
        EXPECT_IS(to[i / 7][i % 7], i % 7 < 5 ? i / 7 * 10 + i % 7 : 99);
    EXPECT(!memcmp(to, in_stream, sizeof to));
    EXPECT_IS(aclrtMemcpy2dAsync(to, 7, from, 10, 5, 4, ACL_MEMCPY_HOST_TO_DEVICE, (aclrtStream)3), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtMemcpy2dAsync(to, 7, from, 10, 0, 4, ACL_MEMCPY_HOST_TO_DEVICE, NULL), 0);
    EXPECT_IS(aclrtMemcpy2dAsync(to, 7, NULL, 10, 5, 4, ACL_MEMCPY_HOST_TO_DEVICE, NULL), ACL_ERROR_INVALID_PARAM);
    char *memory = device(4096);
    EXPECT_IS(aclrtMemcpy2d(memory, 4096, from, 10, 5, 4, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtMemcpy2d", "dst", "allocation");
    EXPECT_IS(aclrtMemcpy2d(to, 7, memory, SIZE_MAX / 2, 5, 4, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtMemcpy2d", "src", "allocation");
}

CASE(memory_is_known_by_its_address)
{
    aclrtPtrAttributes attributes;
    int local;
    EXPECT_IS(sizeof attributes, 28);
    EXPECT_IS(aclrtPointerGetAttributes(NULL, &attributes), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtPointerGetAttributes", "ptr");
    EXPECT_IS(aclrtPointerGetAttributes(&local, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtPointerGetAttributes", "attributes");
    EXPECT_IS(aclrtSetDevice(0), 0);
    char *host = pinned(100), *memory = device(100);
    EXPECT_IS(aclrtPointerGetAttributes(host + 50, &attributes), 0);
    EXPECT_IS(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
    EXPECT_IS(aclrtPointerGetAttributes(memory, &attributes), 0);
    EXPECT(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && attributes.location.id == 0 && attributes.pageSize > 0);
    EXPECT_IS(aclrtPointerGetAttributes(&local, &attributes), 0);
    EXPECT_IS(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    EXPECT_IS(aclrtFree(memory), 0);
    EXPECT_IS(aclrtPointerGetAttributes(memory, &attributes), 0);
    EXPECT_IS(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
}

CASE(memory_of_the_machine)
{
    size_t available = 1, total = 1;
    EXPECT_IS(aclrtGetMemInfo(ACL_HBM_MEM, NULL, &total), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtGetMemInfo", "free");
    EXPECT_IS(aclrtGetMemInfo(ACL_HBM_MEM, &available, &total), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtGetMemInfo(ACL_HBM_MEM, &available, NULL), ACL_ERROR_INVALID_PARAM);
    for (int attr = ACL_DDR_MEM; attr <= ACL_HBM_MEM_NORMAL; attr++) {
        EXPECT_IS(aclrtGetMemInfo((aclrtMemAttr)attr, &available, &total), 0);
        EXPECT(available > 0 && available <= total);
    }
    EXPECT_IS(aclrtGetMemInfo((aclrtMemAttr)99, &available, &total), 0);
    EXPECT(available == 0 && total == 0);
}

/* Memory that is freed while other streams are always busy must come back all the same. */
CASE(freed_memory_returns_although_some_stream_is_busy)
{
    enum { ROUNDS = 400, BYTES = 1 << 20 };
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream streams[2] = { new_stream(), new_stream() };
    gate gates[ROUNDS];
    gate_close(&gates[0], streams[0]);
    for (int i = 1; i < ROUNDS; i++) {
        char *memory = device(BYTES);
        memset(memory, i, BYTES);
        EXPECT_IS(aclrtFree(memory), 0);
        gate_close(&gates[i], streams[i % 2]);      /* one of the two is always at work */
        gate_open(&gates[i - 1]);
        EXPECT_IS(aclrtSynchronizeStream(streams[(i - 1) % 2]), 0);
    }
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0, resident = 0;
    EXPECT_IS(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    EXPECT(resident * sysconf(_SC_PAGESIZE) < 100 << 20);
    gate_open(&gates[ROUNDS - 1]);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
}

RUN(ENTRY(variants_of_malloc), ENTRY(freeing_may_wait_for_the_device), ENTRY(copies_take_their_turn_in_a_stream),
    ENTRY(copies_with_ordinary_memory_are_done_when_the_call_returns), ENTRY(asynchronous_calls_check_in_order),
    ENTRY(rows_are_copied_with_their_pitches), ENTRY(memory_is_known_by_its_address), ENTRY(memory_of_the_machine),
    ENTRY(freed_memory_returns_although_some_stream_is_busy))
