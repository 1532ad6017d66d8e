// A place in a stream. On the CPU, where calls are complete on return, every place is passed.
#pragma once
#include <optional>

#include "kernels/common/stream.h"
#include "kernels/cuda/runtime.h"

namespace ogrom {

class StreamMark {
public:
    void record(Stream stream) {
        if (stream.backend == Backend::cuda) {
            if (!event_) {
                event_.emplace();
            }
            event_->record(stream);
        }
    }
    [[nodiscard]] bool passed() const { return !event_ || event_->done(); }
    // Later work of `stream` waits for it.
    void hold(Stream stream) const {
        if (event_) {
            event_->hold(stream);
        }
    }

private:
    std::optional<cuda::Event> event_;
};

}  // namespace ogrom
