// A client as C++ programs are written, eight threads of it: plans of changing shapes, on streams of its own and shared ones,
// executors that are repeated on other addresses, copies, events and calls that are refused. Every result is checked, and
// every text. Arguments: rounds (60) and seed (1).
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_ops_nn.h"

namespace {

std::atomic<int> failures{0};
std::atomic<long> checked{0}, callbacks{0};

void expect(bool holds, int line, const char *what) {
    if (holds) return;
    if (failures.fetch_add(1) < 20) {
        const char *text = aclGetRecentErrMsg();
        std::printf("stress.cpp:%d: %s [%s]\n", line, what, text != nullptr ? text : "no text");
    }
}
#define EXPECT(condition) expect((condition), __LINE__, #condition)
#define CALL(call) expect((call) == 0, __LINE__, #call)

enum { THREADS = 8, SHARED = 3 };
aclrtStream shared[SHARED];

struct Memory {
    float *data = nullptr;
    explicit Memory(int64_t count) {
        CALL(aclrtMalloc(reinterpret_cast<void **>(&data), static_cast<size_t>(count) * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    }
    ~Memory() {
        if (data != nullptr) CALL(aclrtFree(data));
    }
    Memory(Memory &&other) : data(other.data) { other.data = nullptr; }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
};

struct Tensor {
    aclTensor *handle;
    Tensor(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides, float *data)
        : handle(aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, strides.data(), 0, ACL_FORMAT_ND, shape.data(), shape.size(), data)) {
        EXPECT(handle != nullptr);
    }
    ~Tensor() { CALL(aclDestroyTensor(handle)); }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;
};

class Client {
public:
    Client(unsigned seed) : random(seed) {
        CALL(aclrtSetDevice(0));
        CALL(aclrtCreateStream(&own));
    }
    ~Client() {
        CALL(aclrtDestroyStream(own));
        CALL(aclrtResetDevice(0));
        EXPECT(aclGetRecentErrMsg() == nullptr);
    }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;

    void round() {
        switch (below(5)) {
        case 0: leaky(); break;
        case 1: swish(); break;
        case 2: repeated(); break;
        case 3: refused(); break;
        default: copied(); break;
        }
    }

private:
    std::mt19937 random;
    aclrtStream own = nullptr;

    unsigned below(unsigned count) { return random() % count; }
    aclrtStream stream() { return below(3) != 0 ? shared[below(SHARED)] : own; }
    float value() { return static_cast<float>(static_cast<int>(below(81)) - 40) / 8; }
    int64_t size() { return below(6) == 0 ? 1 + below(300) : 1 + below(24); }

    // As it comes, or transposed in memory.
    std::vector<int64_t> layout(int64_t rows, int64_t columns) {
        if (below(3) == 0) return {1, rows};
        return {columns, 1};
    }

    struct Operands {
        int64_t rows, columns;
        std::vector<int64_t> strides[3];
        Memory memory[3];
        Operands(int64_t r, int64_t c) : rows(r), columns(c), memory{Memory(r * c), Memory(r * c), Memory(r * c)} {}
        float &at(int which, int64_t row, int64_t column) {
            return memory[which].data[row * strides[which][0] + column * strides[which][1]];
        }
    };

    std::unique_ptr<Operands> operands() {
        std::unique_ptr<Operands> o(new Operands(size(), size()));
        for (int which = 0; which < 3; ++which) {
            o->strides[which] = layout(o->rows, o->columns);
            for (int64_t i = 0; i < o->rows * o->columns; ++i) o->memory[which].data[i] = which == 2 ? 99 : value();
        }
        return o;
    }

    template <typename Formula>
    void compare(Operands &o, float tolerance, Formula formula, int line) {
        for (int64_t row = 0; row < o.rows; ++row)
            for (int64_t column = 0; column < o.columns; ++column) {
                const double right = formula(o.at(0, row, column), o.at(1, row, column));
                const double error = std::fabs(o.at(2, row, column) - right);
                if (!(error <= tolerance * (std::fabs(right) + 1e-6))) return expect(false, line, "a wrong result");
            }
        checked += o.rows * o.columns;
    }

    void leaky() {
        std::unique_ptr<Operands> o = operands();
        float slope = 0.25F * static_cast<float>(below(5));
        uint64_t workspace = 1;
        aclOpExecutor *executor = nullptr;
        const aclrtStream where = stream();
        aclScalar *scalar = aclCreateScalar(&slope, ACL_FLOAT);
        {
            const std::vector<int64_t> shape{o->rows, o->columns};
            Tensor grad(shape, o->strides[0], o->memory[0].data), self(shape, o->strides[1], o->memory[1].data);
            Tensor out(shape, o->strides[2], o->memory[2].data);
            CALL(aclnnLeakyReluBackwardGetWorkspaceSize(grad.handle, self.handle, scalar, false, out.handle, &workspace, &executor));
        }
        CALL(aclDestroyScalar(scalar));     // objects may go between the phases
        CALL(aclnnLeakyReluBackward(nullptr, workspace, executor, where));
        CALL(aclrtSynchronizeStream(where));
        compare(*o, 0, [slope](float grad, float x) { return static_cast<double>(x > 0 ? grad : grad * slope); }, __LINE__);
    }

    void swish() {
        std::unique_ptr<Operands> o = operands();
        float beta = 0.5F * static_cast<float>(below(5));
        aclScalar *scalar = below(4) == 0 ? nullptr : aclCreateScalar(&beta, ACL_FLOAT);
        if (scalar == nullptr) beta = 1;
        uint64_t workspace = 1;
        aclOpExecutor *executor = nullptr;
        const std::vector<int64_t> shape{o->rows, o->columns};
        Tensor grad(shape, o->strides[0], o->memory[0].data), self(shape, o->strides[1], o->memory[1].data);
        Tensor out(shape, o->strides[2], o->memory[2].data);
        CALL(aclnnSwishBackwardGetWorkspaceSize(grad.handle, self.handle, scalar, out.handle, &workspace, &executor));
        const aclrtStream where = stream();
        CALL(aclnnSwishBackward(nullptr, workspace, executor, where));
        // Another stream goes on behind it, and that is the one that is waited for.
        aclrtEvent event = nullptr;
        CALL(aclrtCreateEvent(&event));
        CALL(aclrtRecordEvent(event, where));
        CALL(aclrtStreamWaitEvent(own, event));
        CALL(aclrtSynchronizeStream(own));
        CALL(aclrtDestroyEvent(event));
        if (scalar != nullptr) CALL(aclDestroyScalar(scalar));
        compare(*o, 1e-5F, [beta](float g, float x) {
            const double s = 1 / (1 + std::exp(-static_cast<double>(beta) * x));
            return g * s * (1 + static_cast<double>(beta) * x * (1 - s));
        }, __LINE__);
    }

    void repeated() {
        const int64_t count = 64;
        Memory grad(count), first(count), second(count), result(count);
        for (int64_t i = 0; i < count; ++i) grad.data[i] = 1, first.data[i] = 2, second.data[i] = 3;
        const std::vector<int64_t> shape{count}, strides{1};
        Tensor g(shape, strides, grad.data), y(shape, strides, first.data), out(shape, strides, result.data);
        uint64_t workspace = 1;
        aclOpExecutor *executor = nullptr;
        CALL(aclnnSigmoidBackwardGetWorkspaceSize(g.handle, y.handle, out.handle, &workspace, &executor));
        CALL(aclSetAclOpExecutorRepeatable(executor));
        for (unsigned i = 0, runs = 1 + below(6); i < runs; ++i) {
            const bool other = below(2) != 0;
            const aclrtStream where = stream();
            CALL(aclSetInputTensorAddr(executor, 1, y.handle, other ? second.data : first.data));
            std::memset(result.data, 0, count * sizeof(float));
            CALL(aclnnSigmoidBackward(nullptr, 0, executor, where));
            CALL(aclrtSynchronizeStream(where));
            EXPECT(result.data[0] == (other ? -6 : -2) && result.data[count - 1] == result.data[0]);
            ++checked;
        }
        CALL(aclDestroyAclOpExecutor(executor));
        EXPECT(aclnnSigmoidBackward(nullptr, 0, executor, own) == 161002);
        refusal("aclnnSigmoidBackward: executor");
    }

    // The texts are of this thread: the newest is that of its own last failure.
    void refusal(const char *start) {
        const char *text = aclGetRecentErrMsg();
        EXPECT(text != nullptr && std::strncmp(text, start, std::strlen(start)) == 0 && std::strchr(text, '\n') == nullptr);
        EXPECT(aclGetRecentErrMsg() == nullptr);
    }

    void refused() {
        Memory memory(64);
        const std::vector<int64_t> strides{1};
        Tensor three({3}, strides, memory.data), four({4}, strides, memory.data + 8);
        uint64_t workspace = 7;
        aclOpExecutor *executor = nullptr;
        EXPECT(aclnnSigmoidBackwardGetWorkspaceSize(three.handle, four.handle, three.handle, &workspace, &executor) == 161002);
        EXPECT(workspace == 7 && executor == nullptr);
        refusal("aclnnSigmoidBackwardGetWorkspaceSize: ");
        EXPECT(aclnnSwishBackwardGetWorkspaceSize(nullptr, four.handle, nullptr, three.handle, &workspace, &executor) == 161001);
        refusal("aclnnSwishBackwardGetWorkspaceSize: gradOutput");
        EXPECT(aclrtFree(memory.data + 1) == 107000);
        refusal("aclrtFree: devPtr");
        EXPECT(aclrtSynchronizeStream(reinterpret_cast<aclrtStream>(static_cast<uintptr_t>(below(1u << 30)))) == 107017);
        refusal("aclrtSynchronizeStream: stream");
    }

    static void count(void *counter) { ++*static_cast<std::atomic<long> *>(counter); }

    // In order on one stream: copy in, a host function, copy across, copy out.
    void copied() {
        const size_t count_of = 1 + below(5000), bytes = count_of * sizeof(float);
        const aclrtStream where = stream();
        std::vector<float> in(count_of, value()), back(count_of, 0);
        Memory a(static_cast<int64_t>(count_of)), b(static_cast<int64_t>(count_of));
        std::atomic<long> mine{0};
        CALL(aclrtMemcpyAsync(a.data, bytes, in.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE, where));
        CALL(aclrtLaunchHostFunc(where, count, &mine));
        CALL(aclrtMemcpyAsync(b.data, bytes, a.data, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, where));
        CALL(aclrtMemcpyAsync(back.data(), bytes, b.data, bytes, ACL_MEMCPY_DEVICE_TO_HOST, where));
        CALL(aclrtSynchronizeStream(where));
        EXPECT(mine == 1 && back == in);
        callbacks += mine;
        ++checked;
    }
};

}  // namespace

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
    const unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    for (aclrtStream &stream : shared) CALL(aclrtCreateStream(&stream));
    std::vector<std::thread> threads;
    for (unsigned number = 0; number < THREADS; ++number)
        threads.emplace_back([rounds, seed, number] {
            Client client(seed * 1000 + number);
            for (int round = 0; round < rounds && failures == 0; ++round) client.round();
        });
    for (std::thread &thread : threads) thread.join();
    for (aclrtStream &stream : shared) CALL(aclrtDestroyStream(stream));
    EXPECT(checked > THREADS * rounds / 2 && callbacks > 0);
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    return failures != 0;
}
