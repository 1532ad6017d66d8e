// Kernels enqueued once and launched whole ever after (a CUDA graph): one call of the host for hundreds of launches.
// What they read and write stays where it was at the recording; what changes from launch to launch they read from
// memory.
#pragma once
#include <functional>

#include "kernels/common/extents.h"
#include "kernels/common/stream.h"
#include "kernels/cuda/runtime.h"

namespace ogrom {

class RecordedWork {
public:
    // Calls `enqueue`, whose kernels on `stream` are recorded and not run. It must have run before as it is: libraries
    // make their plans, and kernels take their memory, at the first call. Whatever it throws ends the recording.
    static RecordedWork record(Stream stream, const std::function<void()>& enqueue);
    // False once the kernels' own working memory was taken anew: the recording must not be launched any more.
    [[nodiscard]] bool stands() const;
    void launch() const { graph_.launch(stream_); }
    [[nodiscard]] i64 nodes() const { return graph_.nodes(); }  // kernels, copies and fills

private:
    cuda::Graph graph_;
    Stream stream_;
    const void* scratch_ = nullptr;  // the kernels' working memory at the recording
};

}  // namespace ogrom
