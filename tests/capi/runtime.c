/* Rules of the runtime functions, in the order in which they are checked. */
#include "case.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>

#include "acl/acl.h"

static aclrtStream some_stream(void)
{
    aclrtStream stream = NULL;
    EXPECT_IS(aclrtCreateStream(&stream), 0);
    return stream;
}

CASE(init_counts_and_finalize_undoes_all)
{
    EXPECT_IS(aclInit(NULL), ACL_SUCCESS);
    EXPECT_IS(aclInit(""), ACL_ERROR_REPEAT_INITIALIZE);
    EXPECT_TEXT("aclInit");
    EXPECT_IS(aclFinalize(), ACL_SUCCESS);
    EXPECT_IS(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    EXPECT_TEXT("aclFinalize");
    EXPECT_IS(aclInit(NULL), ACL_SUCCESS);
    EXPECT_IS(aclFinalize(), ACL_SUCCESS);
}

CASE(finalize_before_init_succeeds_once)
{
    EXPECT_IS(aclFinalize(), ACL_SUCCESS);
    EXPECT_IS(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

CASE(init_reads_a_json_file)
{
    EXPECT_IS(aclInit("/nonexistent/acl.json"), ACL_ERROR_INVALID_FILE);
    EXPECT_TEXT("aclInit", "configPath", "/nonexistent/acl.json");
    put("bad.json", "{ \"dump\": ");
    EXPECT_IS(aclInit("bad.json"), ACL_ERROR_PARSE_FILE);
    put("list.json", "[1, 2]");
    EXPECT_IS(aclInit("list.json"), ACL_ERROR_PARSE_FILE);
    put("deep.json", "{\"a\":[[[[[[[[[[1]]]]]]]]]]}");
    EXPECT_IS(aclInit("deep.json"), ACL_ERROR_PARSE_FILE);
    put("deepest.json", "{\"a\":[[[[[[[[[1]]]]]]]]], \"b\": \"[[[\\\"{{{\"}");
    EXPECT_IS(aclInit("deepest.json"), ACL_SUCCESS);
    EXPECT_IS(aclFinalize(), ACL_SUCCESS);
    put("other.json", "{}");
    EXPECT_IS(aclInit("other.json"), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclInit("deepest.json"), ACL_SUCCESS);
}

static void *fail_elsewhere(void *unused)
{
    aclrtFree(NULL);
    return unused;
}

CASE(texts_of_all_threads_with_err_msg_mode_1)
{
    put("mode.json", "{\"err_msg_mode\": \"1\"}");
    EXPECT_IS(aclInit("mode.json"), ACL_SUCCESS);
    pthread_t thread;
    pthread_create(&thread, NULL, fail_elsewhere, NULL);
    pthread_join(thread, NULL);
    EXPECT_TEXT("aclrtFree");
    EXPECT(aclGetRecentErrMsg() == NULL);
}

CASE(texts_are_of_this_thread_newest_on_top_and_cleared_by_reading)
{
    EXPECT(aclGetRecentErrMsg() == NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, fail_elsewhere, NULL);
    pthread_join(thread, NULL);
    EXPECT(aclGetRecentErrMsg() == NULL);
    aclrtFree(NULL);
    aclrtSetDevice(7);
    const char *text = aclGetRecentErrMsg();
    EXPECT(text && strstr(text, "aclrtSetDevice: deviceId must be 0 (got 7)"));
    EXPECT(text && strstr(text, "aclrtFree") > strstr(text, "aclrtSetDevice"));
    EXPECT(aclGetRecentErrMsg() == NULL);
    for (int i = 0; i < 1000; i++)
        aclrtFree(NULL);
    text = aclGetRecentErrMsg();
    EXPECT(text && strlen(text) > 2000 && strlen(text) < 8192);
}

CASE(device_is_counted)
{
    EXPECT_IS(aclrtSetDevice(1), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_IS(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_TEXT("aclrtSetDevice", "deviceId", "-1");
    EXPECT_IS(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
    EXPECT_TEXT("aclrtResetDevice");
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtResetDevice(1), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_IS(aclrtResetDevice(0), 0);
    some_stream();
    EXPECT_IS(aclrtResetDevice(0), 0);
    EXPECT_IS(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtResetDeviceForce(0), 0);
    EXPECT_IS(aclrtResetDeviceForce(0), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
}

CASE(calls_without_a_context_are_refused)
{
    void *memory = NULL, *stream = NULL;
    char a[4] = "abc", b[4] = "xyz";
    int32_t id = 5;
    EXPECT_IS(aclrtMalloc(&memory, 16, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_TEXT("aclrtMalloc", "context", "aclrtSetDevice");
    EXPECT_IS(aclrtMallocHost(&memory, 16), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT(memory == NULL);
    EXPECT_IS(aclrtMemcpy(a, 4, b, 4, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtMemset(a, 4, 0, 4), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT(!strcmp(a, "abc"));
    EXPECT_IS(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT(stream == NULL);
    EXPECT_IS(aclrtSynchronizeStream(NULL), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(id, 5);
}

static void *use_context(void *unused)
{
    void *memory = NULL;
    EXPECT_IS(aclrtMalloc(&memory, 16, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtMalloc(&memory, 16, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_IS(aclrtResetDevice(0), 0);
    EXPECT_IS(aclrtFree(memory), 0);
    return unused;
}

CASE(context_is_of_the_thread_and_ends_with_the_device)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    int32_t id = -1;
    EXPECT_IS(aclrtGetDevice(&id), 0);
    EXPECT_IS(id, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, use_context, NULL);
    pthread_join(thread, NULL);
    void *memory = NULL;
    EXPECT_IS(aclrtMalloc(&memory, 16, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_IS(aclrtResetDevice(0), 0);
    EXPECT_IS(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
    memset(memory, 1, 16);
    EXPECT_IS(aclrtFree(memory), 0);
}

CASE(malloc_checks_in_order)
{
    void *memory = (void *)0x1234;
    EXPECT_IS(aclrtMalloc(NULL, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMalloc", "devPtr");
    EXPECT_IS(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMalloc", "size");
    EXPECT_IS(aclrtMalloc(&memory, SIZE_MAX - 8, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtMallocHost(&memory, 0), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtMallocHost(NULL, 4), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtMalloc(&memory, (size_t)1 << 60, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_TEXT("aclrtMalloc", "size", "1152921504606846976");
    EXPECT(memory == (void *)0x1234);
    EXPECT_IS(aclrtMalloc(&memory, 1, (aclrtMemMallocPolicy)77), 0);
    EXPECT_IS(aclrtFree(memory), 0);
}

CASE(malloc_gives_aligned_blocks_with_slack)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    char *blocks[64];
    for (int i = 0; i < 64; i++) {
        size_t size = (size_t)i * 1021 + 1;
        EXPECT_IS(aclrtMalloc((void **)&blocks[i], size, ACL_MEM_MALLOC_NORMAL_ONLY), 0);
        EXPECT_IS((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], i, size + 32);
    }
    for (int i = 0; i < 64; i++) {
        EXPECT(blocks[i][0] == i && blocks[i][i * 1021 + 32] == i);
        EXPECT_IS(aclrtFree(blocks[i]), 0);
    }
}

CASE(free_takes_only_live_blocks)
{
    void *memory, *host;
    int local;
    EXPECT_IS(aclrtFree(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtFree", "devPtr", "null");
    EXPECT_IS(aclrtFree(&local), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtFree", "devPtr");
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtMalloc(&memory, 100, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_IS(aclrtMallocHost(&host, 100), 0);
    EXPECT_IS(aclrtFree((char *)memory + 1), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtFree(host), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtFreeHost(memory), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtFree(memory), 0);
    EXPECT_IS(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtFreeHost(host), 0);
    EXPECT_IS(aclrtFreeHost(host), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtFreeHost(NULL), ACL_ERROR_INVALID_PARAM);
}

CASE(memcpy_checks_in_order)
{
    char a[8] = "abcdefg", b[8] = "1234567";
    EXPECT_IS(aclrtMemcpy(NULL, 0, NULL, 0, (aclrtMemcpyKind)99), 0);
    EXPECT_IS(aclrtMemcpy(NULL, 8, b, 8, (aclrtMemcpyKind)99), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMemcpy", "dst");
    EXPECT_IS(aclrtMemcpy(a, 8, NULL, 8, ACL_MEMCPY_DEFAULT), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMemcpy", "src");
    EXPECT_IS(aclrtMemcpy(a, 4, b, 8, (aclrtMemcpyKind)6), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtMemcpy", "kind");
    EXPECT_IS(aclrtMemcpy(a, 8, b, 8, (aclrtMemcpyKind)-1), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtMemcpy(a, 0, b, 8, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtMemcpy(a, 7, b, 8, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtMemcpy", "destMax");
    EXPECT_IS(aclrtMemcpy(a, 7, a, 8, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtMemcpy(a, 8, a, 8, ACL_MEMCPY_DEFAULT), 0);
    EXPECT_IS(aclrtMemcpy(a, 8, b, 8, ACL_MEMCPY_DEFAULT), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT(!strcmp(a, "abcdefg"));
    EXPECT_IS(aclrtSetDevice(0), 0);
    for (int kind = 0; kind <= 5; kind++) {
        memset(a, 0, 8);
        EXPECT_IS(aclrtMemcpy(a, 8, b, 8, (aclrtMemcpyKind)kind), 0);
        EXPECT(!strcmp(a, "1234567"));
    }
}

CASE(memcpy_tolerates_small_overruns_and_refuses_large_ones)
{
    static char host[100000];
    char *device;
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtMalloc((void **)&device, 32, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_IS(aclrtMemcpy(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    EXPECT_IS(aclrtMemcpy(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    EXPECT_IS(aclrtMemcpy(device, 100000, host, 100000, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtMemcpy", "dst", "allocation");
    EXPECT_IS(aclrtMemcpy(host, 100000, device + 16, 100000, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtMemcpy", "src", "allocation");
    EXPECT_IS(aclrtMemset(device, 100000, 1, 100000), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtFree(device), 0);
}

CASE(memset_checks_in_order)
{
    char a[4] = "abc";
    EXPECT_IS(aclrtMemset(NULL, 0, 0, 0), 0);
    EXPECT_IS(aclrtMemset(NULL, 4, 0, 4), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtMemset(a, 3, 0, 4), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtMemset(a, 4, 'x', 3), 0);
    EXPECT(!strcmp(a, "xxx"));
}

CASE(streams_are_validated)
{
    int local;
    EXPECT_IS(aclrtCreateStream(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtDestroyStream(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = some_stream(), other = some_stream();
    EXPECT(stream && other && stream != other);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(aclrtDestroyStream(stream), 0);
    EXPECT_IS(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_TEXT("aclrtDestroyStream", "stream", "destroyed");
    EXPECT_IS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_TEXT("aclrtSynchronizeStream", "stream");
    EXPECT_IS(aclrtSynchronizeStream(&local), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtDestroyStream((aclrtStream)0x1), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtSynchronizeStream(other), 0);
    EXPECT_IS(aclrtResetDevice(0), 0);
    EXPECT_IS(aclrtDestroyStream(other), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtDestroyStream(other), ACL_ERROR_RT_INVALID_HANDLE);
}

CASE(many_streams)
{
    enum { COUNT = 500 };
    static aclrtStream streams[COUNT];
    EXPECT_IS(aclrtSetDevice(0), 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            streams[i] = some_stream();
        for (int i = 0; i < COUNT; i++)
            EXPECT_IS(aclrtDestroyStream(streams[i]), 0);
    }
}

CASE(device_facts)
{
    uint32_t count = 0;
    aclrtRunMode mode = ACL_DEVICE;
    EXPECT_IS(aclrtGetDeviceCount(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtGetDeviceCount(&count), 0);
    EXPECT_IS(count, 1);
    EXPECT_IS(aclrtGetRunMode(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtGetRunMode(&mode), 0);
    EXPECT_IS(mode, ACL_HOST);
    EXPECT_IS(aclrtGetDevice(NULL), ACL_ERROR_INVALID_PARAM);
}

CASE(soc_name_is_the_default_product)
{
    const char *name = aclrtGetSocName();
    EXPECT(name && !strcmp(name, "Ascend910B1"));
    EXPECT(aclrtGetSocName() == name);
}

CASE(soc_name_of_an_unknown_product_is_null)
{
    EXPECT(aclrtGetSocName() == NULL);
    EXPECT_TEXT("aclrtGetSocName", "NONPU_PRODUCT", "toaster");
}

CASE(float16_widens_without_specials)
{
    EXPECT(aclFloat16ToFloat(0x7c00) == 65536.0f);
    EXPECT(aclFloat16ToFloat(0xfc00) == -65536.0f);
    EXPECT(aclFloat16ToFloat(0x7e00) == 98304.0f);
    EXPECT(aclFloat16ToFloat(0x0001) == 0x1p-24f);
    EXPECT(aclFloat16ToFloat(0x03ff) == 1023 * 0x1p-24f);
    EXPECT(aclFloat16ToFloat(0x3c00) == 1.0f);
    EXPECT(aclFloat16ToFloat(0x7bff) == 65504.0f);
    EXPECT(signbit(aclFloat16ToFloat(0x8000)) && aclFloat16ToFloat(0x8000) == 0);
}

CASE(float_narrows_to_nearest_even_and_saturates)
{
    for (unsigned bits = 0; bits < 0x10000; bits++)
        if ((bits & 0x7c00) != 0x7c00)
            EXPECT_IS(aclFloatToFloat16(aclFloat16ToFloat((aclFloat16)bits)), bits);
    for (unsigned bits = 0; bits < 0x7bff; bits++) {
        float low = aclFloat16ToFloat((aclFloat16)bits), high = aclFloat16ToFloat((aclFloat16)(bits + 1));
        float middle = low + (high - low) / 2;
        EXPECT_IS(aclFloatToFloat16(middle), bits + (bits & 1));
        EXPECT_IS(aclFloatToFloat16(nextafterf(middle, low)), bits);
        EXPECT_IS(aclFloatToFloat16(nextafterf(middle, high)), bits + 1);
    }
    EXPECT_IS(aclFloatToFloat16(65519.0f), 0x7bff);
    EXPECT_IS(aclFloatToFloat16(65520.0f), 0x7bff);
    EXPECT_IS(aclFloatToFloat16(3e38f), 0x7bff);
    EXPECT_IS(aclFloatToFloat16(INFINITY), 0x7bff);
    EXPECT_IS(aclFloatToFloat16(-INFINITY), 0xfbff);
    EXPECT_IS(aclFloatToFloat16(copysignf(NAN, 1)), 0x7bff);
    EXPECT_IS(aclFloatToFloat16(copysignf(NAN, -1)), 0xfbff);
    EXPECT_IS(aclFloatToFloat16(-0.0f), 0x8000);
    EXPECT_IS(aclFloatToFloat16(1e-45f), 0);
    fesetround(FE_UPWARD);
    EXPECT_IS(aclFloatToFloat16(1.0f + 0x1p-20f), 0x3c00);
    EXPECT_IS(fegetround(), FE_UPWARD);
}

RUN(ENTRY(init_counts_and_finalize_undoes_all), ENTRY(finalize_before_init_succeeds_once), ENTRY(init_reads_a_json_file),
    ENTRY(texts_of_all_threads_with_err_msg_mode_1), ENTRY(texts_are_of_this_thread_newest_on_top_and_cleared_by_reading),
    ENTRY(device_is_counted), ENTRY(calls_without_a_context_are_refused),
    ENTRY(context_is_of_the_thread_and_ends_with_the_device), ENTRY(malloc_checks_in_order),
    ENTRY(malloc_gives_aligned_blocks_with_slack), ENTRY(free_takes_only_live_blocks), ENTRY(memcpy_checks_in_order),
    ENTRY(memcpy_tolerates_small_overruns_and_refuses_large_ones), ENTRY(memset_checks_in_order),
    ENTRY(streams_are_validated), ENTRY(many_streams), ENTRY(device_facts), ENTRY(soc_name_is_the_default_product),
    ENTRY(soc_name_of_an_unknown_product_is_null), ENTRY(float16_widens_without_specials),
    ENTRY(float_narrows_to_nearest_even_and_saturates))
