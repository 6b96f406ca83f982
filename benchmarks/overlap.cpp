// Whether two streams overlap: the same pieces of work on one stream and spread over two, in turns.
// Prints JSON: seconds of each round.  Arguments: rounds, pieces, elements.  Kernels run in one thread each: NONPU_NUM_THREADS=1.
// Build: g++ -O2 benchmarks/overlap.cpp $(nonpu flags) -o overlap
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_swish_backward.h"

namespace {

void require(int status, const char *what) {
    if (status != 0) {
        const char *text = aclGetRecentErrMsg();
        std::fprintf(stderr, "%s: status %d: %s\n", what, status, text != nullptr ? text : "");
        std::exit(1);
    }
}
#define CALL(call) require(call, #call)

struct Lane {
    aclrtStream stream = nullptr;
    aclOpExecutor *executor = nullptr;
    explicit Lane(int64_t count) {
        aclTensor *tensors[3];
        for (aclTensor *&tensor : tensors) {
            void *memory = nullptr;
            const size_t bytes = static_cast<size_t>(count) * sizeof(float);
            CALL(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
            for (int64_t i = 0; i < count; ++i) static_cast<float *>(memory)[i] = static_cast<float>(i % 17) - 8;
            tensor = aclCreateTensor(&count, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &count, 1, memory);
        }
        uint64_t size = 0;
        CALL(aclrtCreateStream(&stream));
        CALL(aclnnSwishBackwardGetWorkspaceSize(tensors[0], tensors[1], nullptr, tensors[2], &size, &executor));
        CALL(aclSetAclOpExecutorRepeatable(executor));
    }
};

// The pieces in turns over the lanes, each on its lane's stream or all on the first one.
double seconds(const std::vector<Lane> &lanes, int pieces, bool spread) {
    const auto start = std::chrono::steady_clock::now();
    for (int piece = 0; piece < pieces; ++piece) {
        const Lane &lane = lanes[piece % lanes.size()];
        CALL(aclnnSwishBackward(nullptr, 0, lane.executor, spread ? lane.stream : lanes[0].stream));
    }
    for (const Lane &lane : lanes) CALL(aclrtSynchronizeStream(lane.stream));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 15, pieces = argc > 2 ? std::atoi(argv[2]) : 400;
    const int64_t count = argc > 3 ? std::atol(argv[3]) : 1 << 17;
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    std::vector<Lane> lanes;
    for (int i = 0; i < 2; ++i) lanes.emplace_back(count);
    seconds(lanes, pieces / 10 + 2, true);
    std::printf("[");
    for (int round = 0; round < rounds; ++round) {
        const double one = seconds(lanes, pieces, false), two = seconds(lanes, pieces, true);
        std::printf("%s{\"one\": %.6f, \"two\": %.6f}", round != 0 ? ", " : "", one, two);
    }
    std::printf("]\n");
    return 0;
}
