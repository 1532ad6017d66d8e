#include "src/device/recorded.h"

#include "kernels/common/error.h"
#include "kernels/cuda/scratch.h"

namespace ogrom {

RecordedWork RecordedWork::record(Stream stream, const std::function<void()>& enqueue) {
    RecordedWork recorded;
    recorded.stream_ = stream;
    recorded.scratch_ = cuda::scratch_start(stream);
    cuda::Graph::begin(stream);
    try {
        enqueue();
    } catch (...) {
        cuda::Graph::abandon(stream);
        throw;
    }
    recorded.graph_ = cuda::Graph::end(stream);
    OGROM_ASSERT(recorded.graph_.recorded() && recorded.stands());
    return recorded;
}

bool RecordedWork::stands() const {
    return scratch_ == cuda::scratch_start(stream_);
}

}  // namespace ogrom
