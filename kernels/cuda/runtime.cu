#include <nvtx3/nvToolsExt.h>
#include <utility>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/runtime.h"

namespace ogrom::cuda {
namespace {

cudaEvent_t event_of(void* event) {
    return static_cast<cudaEvent_t>(event);
}

// Memory of `bytes` by `allocate`, or the error that names what was asked for and what is left.
template <class Allocate>
void* allocated(i64 bytes, const char* kind, const Allocate& allocate) {
    void* memory = nullptr;
    if (const cudaError_t status = allocate(&memory, static_cast<std::size_t>(std::max<i64>(bytes, 1)));
        status != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        fail(ExitCode::memory, std::string(kind) + ": " + std::to_string(bytes) + " bytes asked for, " +
                                   std::to_string(memory_info().free) +
                                   " free on the device: " + cudaGetErrorString(status));
    }
    return memory;
}

}  // namespace

void set_device(int index) {
    check(cudaSetDevice(index), "cudaSetDevice");
}

MemoryInfo memory_info() {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {static_cast<i64>(free), static_cast<i64>(total)};
}

void* allocate_device(i64 bytes) {
    return allocated(bytes, "device memory", [](void** to, std::size_t n) { return cudaMalloc(to, n); });
}

void free_device(void* memory) noexcept {
    static_cast<void>(cudaFree(memory));
}

void* allocate_pinned(i64 bytes) {
    return allocated(bytes, "page-locked host memory",
                     [](void** to, std::size_t n) { return cudaHostAlloc(to, n, cudaHostAllocDefault); });
}

void free_pinned(void* memory) noexcept {
    static_cast<void>(cudaFreeHost(memory));
}

Stream make_stream(QueuePriority priority) {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t made = nullptr;
    check(
        cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority == QueuePriority::high ? greatest : least),
        "cudaStreamCreateWithPriority");
    return {Backend::cuda, made};
}

void destroy_stream(Stream stream) noexcept {
    if (stream.native != nullptr) {
        static_cast<void>(cudaStreamDestroy(native(stream)));
    }
}

void copy_async(Stream stream, void* to, const void* from, i64 bytes) {
    if (bytes > 0) {
        check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, native(stream)),
              "cudaMemcpyAsync");
    }
}

void fill_bytes_async(Stream stream, void* to, int value, i64 bytes) {
    if (bytes > 0) {
        check(cudaMemsetAsync(to, value, static_cast<std::size_t>(bytes), native(stream)), "cudaMemsetAsync");
    }
}

void synchronize(Stream stream) {
    check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
}

Event::Event(Timing timing) {
    cudaEvent_t made = nullptr;
    check(cudaEventCreateWithFlags(&made, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    event_ = made;
}

Event::~Event() {
    if (event_ != nullptr) {
        static_cast<void>(cudaEventDestroy(event_of(event_)));
    }
}

Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
}

void Event::record(Stream stream) {
    check(cudaEventRecord(event_of(event_), native(stream)), "cudaEventRecord");
}

bool Event::done() const {
    const cudaError_t status = cudaEventQuery(event_of(event_));
    if (status == cudaErrorNotReady) {
        return false;
    }
    check(status, "cudaEventQuery");
    return true;
}

void Event::wait() const {
    check(cudaEventSynchronize(event_of(event_)), "cudaEventSynchronize");
}

void Event::hold(Stream stream) const {
    check(cudaStreamWaitEvent(native(stream), event_of(event_), 0), "cudaStreamWaitEvent");
}

double Event::seconds_since(const Event& earlier) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, event_of(earlier.event_), event_of(event_)), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1000;
}

Graph::~Graph() {
    if (graph_ != nullptr) {
        static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph_)));
    }
}

Graph::Graph(Graph&& other) noexcept
    : graph_(std::exchange(other.graph_, nullptr)), nodes_(std::exchange(other.nodes_, 0)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(nodes_, other.nodes_);
    return *this;
}

void Graph::begin(Stream stream) {
    check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

Graph Graph::end(Stream stream) {
    cudaGraph_t recorded = nullptr;
    check(cudaStreamEndCapture(native(stream), &recorded), "cudaStreamEndCapture");
    Graph graph;
    std::size_t nodes = 0;
    cudaGraphExec_t made = nullptr;
    cudaError_t status = cudaGraphGetNodes(recorded, nullptr, &nodes);
    if (status == cudaSuccess) {
        status = cudaGraphInstantiate(&made, recorded, 0);
    }
    static_cast<void>(cudaGraphDestroy(recorded));
    check(status, "cudaGraphInstantiate");
    graph.graph_ = made;
    graph.nodes_ = static_cast<i64>(nodes);
    check(cudaGraphUpload(made, native(stream)), "cudaGraphUpload");
    return graph;
}

void Graph::abandon(Stream stream) noexcept {
    cudaGraph_t recorded = nullptr;
    static_cast<void>(cudaStreamEndCapture(native(stream), &recorded));
    if (recorded != nullptr) {
        static_cast<void>(cudaGraphDestroy(recorded));
    }
    static_cast<void>(cudaGetLastError());
}

void Graph::launch(Stream stream) const {
    check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph_), native(stream)), "cudaGraphLaunch");
}

void push_range(const char* name) {
    nvtxRangePushA(name);
}

void pop_range() {
    nvtxRangePop();
}

}  // namespace ogrom::cuda
