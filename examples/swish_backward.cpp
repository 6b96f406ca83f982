// gradInput = gradOutput * s'(self) for the Swish function s(x) = x * sigmoid(beta * x), with beta = 1.1.
// Same calls and data as the document of aclnnSwishBackward.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_swish_backward.h"

namespace {

void require(int status, const char *call) {
    if (status != ACL_SUCCESS) {
        const char *text = aclGetRecentErrMsg();
        std::fprintf(stderr, "%s failed with status %d: %s\n", call, status, text != nullptr ? text : "no details");
        std::exit(EXIT_FAILURE);
    }
}

// A contiguous FLOAT tensor and the device memory under it.
class DeviceTensor {
public:
    DeviceTensor(const std::vector<int64_t> &shape, const std::vector<float> &values)
        : bytes_(values.size() * sizeof(float)), count_(values.size()) {
        require(aclrtMalloc(&address_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
        require(aclrtMemcpy(address_, bytes_, values.data(), bytes_, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
        std::vector<int64_t> strides(shape.size(), 1);
        for (size_t axis = shape.size(); axis > 1; --axis) {
            strides[axis - 2] = shape[axis - 1] * strides[axis - 1];
        }
        tensor_ = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, strides.data(), 0, ACL_FORMAT_ND,
                                  shape.data(), shape.size(), address_);
    }
    ~DeviceTensor() {
        aclDestroyTensor(tensor_);
        aclrtFree(address_);
    }
    DeviceTensor(const DeviceTensor &) = delete;
    DeviceTensor &operator=(const DeviceTensor &) = delete;

    aclTensor *get() const { return tensor_; }

    std::vector<float> values() const {
        std::vector<float> host(count_);
        require(aclrtMemcpy(host.data(), bytes_, address_, bytes_, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
        return host;
    }

private:
    size_t bytes_;
    size_t count_;
    void *address_ = nullptr;
    aclTensor *tensor_ = nullptr;
};

void swish_backward(aclrtStream stream) {
    const std::vector<int64_t> shape = {2, 3};
    DeviceTensor grad_output(shape, {1, 1, 1, 1, 1, 1});
    DeviceTensor self(shape, {1, 2, 3, 4, 5, 6});
    DeviceTensor grad_input(shape, {0, 0, 0, 0, 0, 0});
    float beta_value = 1.1f;
    aclScalar *beta = aclCreateScalar(&beta_value, ACL_FLOAT);

    // Phase one checks the arguments and plans; phase two runs the plan on the stream.
    uint64_t workspace_size = 0;
    aclOpExecutor *executor = nullptr;
    require(aclnnSwishBackwardGetWorkspaceSize(grad_output.get(), self.get(), beta, grad_input.get(),
                                               &workspace_size, &executor),
            "aclnnSwishBackwardGetWorkspaceSize");
    void *workspace = nullptr;
    if (workspace_size > 0) {
        require(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    }
    require(aclnnSwishBackward(workspace, workspace_size, executor, stream), "aclnnSwishBackward");
    require(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");

    const std::vector<float> result = grad_input.values();
    for (size_t i = 0; i < result.size(); ++i) {
        std::printf("out result[%zu] is: %f\n", i, result[i]);
    }
    aclDestroyScalar(beta);
    if (workspace != nullptr) {
        aclrtFree(workspace);
    }
}

}  // namespace

int main() {
    const int32_t device = 0;
    aclrtStream stream = nullptr;
    require(aclInit(nullptr), "aclInit");
    require(aclrtSetDevice(device), "aclrtSetDevice");
    require(aclrtCreateStream(&stream), "aclrtCreateStream");
    swish_backward(stream);
    require(aclrtDestroyStream(stream), "aclrtDestroyStream");
    require(aclrtResetDevice(device), "aclrtResetDevice");
    require(aclFinalize(), "aclFinalize");
    return EXIT_SUCCESS;
}
