// What a call costs through C: both phases of a call judged before, of a new one, and the run of a repeatable executor.
// Prints JSON: medians in nanoseconds over batches.  Build: g++ -O2 benchmarks/calls.cpp $(nonpu flags) -o calls
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_leaky_relu_backward.h"

namespace {

void require(int status, const char *what) {
    if (status != 0) {
        const char *text = aclGetRecentErrMsg();
        std::fprintf(stderr, "%s: status %d: %s\n", what, status, text != nullptr ? text : "");
        std::exit(1);
    }
}

struct Tensor {
    void *address = nullptr;
    aclTensor *handle = nullptr;
    explicit Tensor(int64_t count) {
        require(aclrtMalloc(&address, count * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
        std::vector<float> ones(count, 1.0F);
        require(aclrtMemcpy(address, count * 4, ones.data(), count * 4, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
        handle = describe(count);
    }
    aclTensor *describe(int64_t count) const {
        return aclCreateTensor(&count, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &count, 1, address);
    }
};

template <typename Work>
double median(int batches, int calls, Work work) {
    std::vector<double> times;
    for (int batch = 0; batch < batches; ++batch) {
        const auto start = std::chrono::steady_clock::now();
        for (int call = 0; call < calls; ++call) {
            work();
        }
        const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
        times.push_back(spent.count() / calls);
    }
    std::nth_element(times.begin(), times.begin() + batches / 2, times.end());
    return times[batches / 2];
}

aclOpExecutor *plan(const Tensor &grad, const Tensor &self, const aclScalar *slope, const Tensor &out) {
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    require(aclnnLeakyReluBackwardGetWorkspaceSize(grad.handle, self.handle, slope, false, out.handle, &size, &executor),
            "phase one");
    return executor;
}

}  // namespace

int main() {
    require(aclInit(nullptr), "aclInit");
    require(aclrtSetDevice(0), "aclrtSetDevice");
    aclrtStream stream = nullptr;
    require(aclrtCreateStream(&stream), "aclrtCreateStream");
    const Tensor grad(64), self(64), out(64);
    float value = 0.01F;
    aclScalar *slope = aclCreateScalar(&value, ACL_FLOAT);

    const double known = median(31, 20000, [&] {
        require(aclnnLeakyReluBackward(nullptr, 0, plan(grad, self, slope, out), stream), "phase two");
    });
    int number = 0;
    const double fresh = median(31, 100, [&] {
        float next = 0.01F + 1e-6F * static_cast<float>(++number);
        aclScalar *other = aclCreateScalar(&next, ACL_FLOAT);
        require(aclnnLeakyReluBackward(nullptr, 0, plan(grad, self, other, out), stream), "phase two");
        aclDestroyScalar(other);
    });
    aclOpExecutor *executor = plan(grad, self, slope, out);
    require(aclSetAclOpExecutorRepeatable(executor), "aclSetAclOpExecutorRepeatable");
    const double repeated = median(31, 20000, [&] {
        require(aclnnLeakyReluBackward(nullptr, 0, executor, stream), "phase two");
    });
    const double create = median(31, 20000, [&] { aclDestroyTensor(grad.describe(64)); });
    std::printf("{\"both_phases_known_ns\": %.0f, \"both_phases_new_ns\": %.0f, \"repeatable_run_ns\": %.0f, "
                "\"create_destroy_tensor_ns\": %.0f}\n", known, fresh, repeated, create);
    require(aclDestroyAclOpExecutor(executor), "aclDestroyAclOpExecutor");
    return 0;
}
