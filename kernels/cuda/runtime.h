// The CUDA runtime as the rest of the program sees it, without its headers: devices, memory, queues, events, copies. In
// a build without nvcc every entry but the queries throws "not compiled". Errors: Error(peer) with the call, the code's
// name and its text; memory that cannot be had: Error(memory) with requested and free bytes.
#pragma once
#include <string>

#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::cuda {

// Every later call of this thread goes to this device.
void set_device(int index);

struct MemoryInfo {
    i64 free = 0, total = 0;  // bytes, of the whole device, as the driver reports them
};
MemoryInfo memory_info();

// Device memory, 256-byte aligned, contents undefined. free_device(nullptr) does nothing.
void* allocate_device(i64 bytes);
void free_device(void* memory) noexcept;
// Page-locked host memory: copies from and to it are asynchronous.
void* allocate_pinned(i64 bytes);
void free_pinned(void* memory) noexcept;

// A queue of the current device. high: its kernels go before those of other queues where the device is full.
enum class QueuePriority { normal, high };
Stream make_stream(QueuePriority priority);
void destroy_stream(Stream stream) noexcept;

// Enqueued on the stream, return at once. Host memory that is not page-locked makes a copy wait.
void copy_async(Stream stream, void* to, const void* from, i64 bytes);  // any direction
void fill_bytes_async(Stream stream, void* to, int value, i64 bytes);
// Waits for everything enqueued so far; errors of kernels appear here.
void synchronize(Stream stream);

// A place in a queue. Not copyable; destroyed with the device still set.
class Event {
public:
    enum class Timing { off, on };
    explicit Event(Timing timing = Timing::off);
    ~Event();  // NOLINT(performance-trivially-destructible): it is where CUDA is compiled
    Event(Event&& other) noexcept;
    Event& operator=(Event&& other) noexcept;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void record(Stream stream);
    // True once everything before the last record is done; true before the first record.
    [[nodiscard]] bool done() const;
    void wait() const;  // on the host
    // Later work of `stream` waits for the last record.
    void hold(Stream stream) const;
    [[nodiscard]] double seconds_since(const Event& earlier) const;  // both with timing, both done

private:
    void* event_ = nullptr;
};

// What was enqueued on a stream between begin and end, as one unit that is launched whole (a CUDA graph). Addresses are
// those of the recording: memory that kernels take for themselves (scratch.h) must not move afterwards.
class Graph {
public:
    Graph() = default;
    ~Graph();  // NOLINT(performance-trivially-destructible): as above
    Graph(Graph&& other) noexcept;
    Graph& operator=(Graph&& other) noexcept;
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    // Between the two nothing runs; neither waits nor memory may be asked for.
    static void begin(Stream stream);
    static Graph end(Stream stream);
    static void abandon(Stream stream) noexcept;  // instead of end, after a failure
    void launch(Stream stream) const;
    [[nodiscard]] bool recorded() const { return graph_ != nullptr; }
    [[nodiscard]] i64 nodes() const { return nodes_; }

private:
    void* graph_ = nullptr;
    i64 nodes_ = 0;
};

// Named range of the host thread in a profiler's timeline (NVTX); nothing without one.
void push_range(const char* name);
void pop_range();

}  // namespace ogrom::cuda
