// Whether memory grows: the resident size before and after a million calls of several kinds, through C.
// Prints a line of JSON per kind: name, calls, KiB before and after.  Arguments: calls per kind, then names of kinds.
// Build: g++ -O2 benchmarks/growth.cpp $(nonpu flags) -o growth
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_ops_nn.h"

namespace {

void require(int status, int expected, const char *what) {
    if (status != expected) {
        const char *text = aclGetRecentErrMsg();
        std::fprintf(stderr, "%s: status %d, not %d: %s\n", what, status, expected, text != nullptr ? text : "");
        std::exit(1);
    }
}

#define CALL(call) require(call, 0, #call)

long resident_kib() {
    long pages = 0, resident = 0;
    std::FILE *file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr || std::fscanf(file, "%ld %ld", &pages, &resident) != 2) {
        std::fprintf(stderr, "growth: /proc/self/statm cannot be read\n");
        std::exit(1);
    }
    std::fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

enum { LARGEST = 4096 };
void *memory[4];
aclrtStream stream;
uint64_t workspace;

aclTensor *tensor(int64_t rows, int64_t columns, void *address) {
    const int64_t shape[] = {rows, columns};
    return aclCreateTensor(shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 2, address);
}

// Each kind says how many calls one round makes.
int changing_shapes(long round) {
    const int64_t rows = round % 61 + 1, columns = round % 67 + 1;
    float value = 0.001F * static_cast<float>(round % 9973);
    aclTensor *grad = tensor(rows, columns, memory[0]), *self = tensor(rows, columns, memory[1]);
    aclTensor *out = tensor(rows, columns, memory[2]);
    aclScalar *slope = aclCreateScalar(&value, ACL_FLOAT);
    aclOpExecutor *executor = nullptr;
    CALL(aclnnLeakyReluBackwardGetWorkspaceSize(grad, self, slope, false, out, &workspace, &executor));
    CALL(aclnnLeakyReluBackward(nullptr, 0, executor, stream));
    CALL(aclDestroyTensor(grad));
    CALL(aclDestroyTensor(self));
    CALL(aclDestroyTensor(out));
    CALL(aclDestroyScalar(slope));
    return 10;
}

int new_addresses(long round) {
    static aclTensor *grad, *self, *out;
    static aclOpExecutor *executor;
    if (executor == nullptr) {
        grad = tensor(8, 8, memory[0]);
        self = tensor(8, 8, memory[1]);
        out = tensor(8, 8, memory[2]);
        CALL(aclnnSigmoidBackwardGetWorkspaceSize(grad, self, out, &workspace, &executor));
        CALL(aclSetAclOpExecutorRepeatable(executor));
    }
    CALL(aclSetInputTensorAddr(executor, 0, grad, static_cast<float *>(memory[0]) + round % 3000));
    CALL(aclnnSigmoidBackward(nullptr, 0, executor, stream));
    return 2;
}

int streams_and_events(long) {
    aclrtStream made = nullptr;
    aclrtEvent event = nullptr;
    CALL(aclrtCreateStream(&made));
    CALL(aclrtCreateEvent(&event));
    CALL(aclrtMemsetAsync(memory[3], 64, 1, 64, made));
    CALL(aclrtRecordEvent(event, made));
    CALL(aclrtStreamWaitEvent(stream, event));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(made));
    return 8;
}

int contexts_and_memory(long round) {
    static aclrtContext first;
    aclrtContext made = nullptr;
    void *block = nullptr, *host = nullptr;
    if (first == nullptr) CALL(aclrtGetCurrentContext(&first));
    const size_t bytes = static_cast<size_t>(round % 977 + 1) * 64;
    CALL(aclrtCreateContext(&made, 0));
    CALL(aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMallocHost(&host, bytes));
    CALL(aclrtMemcpyAsync(block, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
    CALL(aclrtFree(block));
    CALL(aclrtSynchronizeDevice());
    CALL(aclrtFreeHost(host));
    CALL(aclrtDestroyContext(made));
    CALL(aclrtSetCurrentContext(first));
    return 9;
}

int lists_and_arrays(long round) {
    const int64_t numbers[] = {1, 2, 3};
    const aclTensor *elements[] = {tensor(2, 2, memory[0]), tensor(2, 3, memory[1])};
    aclIntArray *array = aclCreateIntArray(numbers, static_cast<uint64_t>(round % 4));
    aclTensorList *list = aclCreateTensorList(elements, 2);
    int64_t *dims = nullptr;
    uint64_t size = 0;
    CALL(aclGetViewShape(elements[1], &dims, &size));
    delete[] dims;
    CALL(aclDestroyIntArray(array));
    CALL(aclDestroyTensorList(list));
    return 7;
}

int failing_calls(long round) {
    static aclTensor *good, *other;
    aclOpExecutor *executor = nullptr;
    if (good == nullptr) {
        good = tensor(4, 4, memory[0]);
        other = tensor(4, 5, memory[1]);
    }
    require(aclnnSigmoidBackwardGetWorkspaceSize(good, other, good, &workspace, &executor), 161002, "shapes that differ");
    require(aclrtFree(reinterpret_cast<void *>(round + 1)), 107000, "a foreign address");
    require(aclnnSwishBackward(nullptr, 0, nullptr, stream), 161001, "no executor");
    if (round % 7 == 0) aclGetRecentErrMsg();
    return 3;
}

struct Kind {
    const char *name;
    int (*round)(long);
};
const Kind KINDS[] = {{"changing_shapes", changing_shapes},         {"new_addresses", new_addresses},
                      {"streams_and_events", streams_and_events},   {"contexts_and_memory", contexts_and_memory},
                      {"lists_and_arrays", lists_and_arrays},       {"failing_calls", failing_calls}};

void measure(const Kind &kind, long calls) {
    long number = 0, made = 0;
    while (made < calls / 10) made += kind.round(number++);  // pools and tables reach their size
    const long before = resident_kib();
    for (made = 0; made < calls;) made += kind.round(number++);
    std::printf("{\"name\": \"%s\", \"calls\": %ld, \"before_kib\": %ld, \"after_kib\": %ld}\n", kind.name, made, before,
                resident_kib());
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char **argv) {
    const long calls = argc > 1 ? std::atol(argv[1]) : 1000000;
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    for (void *&block : memory) {
        CALL(aclrtMalloc(&block, LARGEST * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
        CALL(aclrtMemset(block, LARGEST * sizeof(float), 0, LARGEST * sizeof(float)));
    }
    for (const Kind &kind : KINDS) {
        bool wanted = argc < 3;
        for (int i = 2; i < argc; ++i) wanted = wanted || std::strcmp(argv[i], kind.name) == 0;
        if (wanted) measure(kind, calls);
    }
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    return 0;
}
