/* Tier 2: initialisation counts, versions, facts about the device, codes of the thread. */
#include "case.h"

#include <pthread.h>

#include "gate.h"

CASE(init_may_be_undone_one_by_one)
{
    uint64_t count = 9;
    EXPECT_IS(aclFinalizeReference(&count), ACL_ERROR_REPEAT_FINALIZE);
    EXPECT_TEXT("aclFinalizeReference");
    EXPECT_IS(count, 9);
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    EXPECT_IS(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    EXPECT_IS(aclFinalizeReference(&count), 0);
    EXPECT_IS(count, 2);
    EXPECT_IS(aclFinalizeReference(NULL), 0);
    EXPECT_IS(aclFinalizeReference(&count), 0);
    EXPECT_IS(count, 0);
    EXPECT_IS(aclFinalizeReference(&count), ACL_ERROR_REPEAT_FINALIZE);
    EXPECT_IS(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    EXPECT_IS(aclFinalize(), 0);
    EXPECT_IS(aclFinalizeReference(&count), ACL_ERROR_REPEAT_FINALIZE);
}

CASE(the_error_mode_is_0_or_1)
{
    FILE *file = fopen("mode.json", "w");
    fputs("{\"err_msg_mode\": \"2\"}", file);
    fclose(file);
    EXPECT_IS(aclInit("mode.json"), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclInit", "err_msg_mode", "2");
    EXPECT_IS(aclInit(NULL), 0);
}

static void *last_of_other(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
}

CASE(the_last_code_of_the_runtime_is_kept_for_the_thread)
{
    void *other;
    EXPECT_IS(aclrtPeekAtLastError((aclrtLastErrLevel)1), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtPeekAtLastError", "level");
    EXPECT_IS(aclrtGetLastError((aclrtLastErrLevel)-1), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
    EXPECT_IS(aclrtSetDevice(5), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_IS(aclrtFree(NULL), ACL_ERROR_INVALID_PARAM);    /* a check of the interface is none */
    EXPECT_IS(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_IS(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
    THREAD(thread, last_of_other, NULL);
    pthread_join(thread, &other);
    EXPECT_IS((intptr_t)other, 0);
    EXPECT_IS(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_IS(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
    int64_t value;
    EXPECT_IS(aclrtGetDeviceInfo(3, ACL_DEV_ATTR_NPU_ARCH, &value), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_IS(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
}

CASE(versions)
{
    int32_t major = 0, minor = 0, patch = -1, number = -1;
    char text[ACL_PKG_VERSION_MAX_SIZE] = "", runtime[] = "runtime", ops[] = "ops-nn", other[] = "toaster";
    EXPECT_IS(aclrtGetVersion(&major, &minor, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtGetVersion", "patchVersion");
    EXPECT_IS(aclrtGetVersion(&major, &minor, &patch), 0);
    EXPECT(major == 1 && minor == 17 && patch == 0);
    EXPECT_IS(aclsysGetVersionStr(NULL, text), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclsysGetVersionStr", "pkgName");
    EXPECT_IS(aclsysGetVersionStr(runtime, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclsysGetVersionStr(other, text), ACL_ERROR_INVALID_FILE);
    EXPECT_TEXT("aclsysGetVersionStr", "pkgName", "toaster");
    EXPECT_IS(text[0], 0);
    EXPECT_IS(aclsysGetVersionStr(runtime, text), 0);
    EXPECT_IS(sscanf(text, "%d.%d.%d", &major, &minor, &patch), 3);
    EXPECT_IS(aclsysGetVersionNum(ops, &number), 0);
    EXPECT_IS(number, major * 10000000 + minor * 100000 + patch * 1000);
    EXPECT_IS(aclsysGetVersionNum(other, &number), ACL_ERROR_INVALID_FILE);
    EXPECT_IS(aclsysGetVersionNum(ops, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclsysGetVersionNum(NULL, &number), ACL_ERROR_INVALID_PARAM);
}

CASE(facts_about_the_device)
{
    int64_t value = -7, cores = 0;
    EXPECT_IS(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_NPU_ARCH, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtGetDeviceInfo", "value");
    EXPECT_IS(aclrtGetDeviceInfo(1, ACL_DEV_ATTR_NPU_ARCH, &value), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_TEXT("aclrtGetDeviceInfo", "deviceId", "1");
    EXPECT_IS(aclrtGetDeviceInfo(0, (aclrtDevAttr)7, &value), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtGetDeviceInfo", "attr", "7");
    EXPECT_IS(value, -7);
    EXPECT_IS(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_NPU_ARCH, &value), 0);
    EXPECT_IS(value, 2201);
    EXPECT_IS(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICORE_CORE_NUM, &cores), 0);
    EXPECT(cores >= 1);
    EXPECT_IS(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_VECTOR_CORE_NUM, &value), 0);
    EXPECT_IS(value, cores);
    EXPECT_IS(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &value), 0);
    EXPECT_IS(value, sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    EXPECT_IS(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_L2_CACHE_SIZE, &value), 0);
    EXPECT(value >= 0);
}

CASE(the_architecture_is_the_products)
{
    int64_t value = 0;
    EXPECT_IS(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_NPU_ARCH, &value), 0);
    EXPECT_IS(value, 2002);
}

RUN(ENTRY(init_may_be_undone_one_by_one), ENTRY(the_error_mode_is_0_or_1), ENTRY(the_last_code_of_the_runtime_is_kept_for_the_thread),
    ENTRY(versions), ENTRY(facts_about_the_device), ENTRY(the_architecture_is_the_products))
