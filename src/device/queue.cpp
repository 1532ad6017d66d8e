#include "src/device/queue.h"

#include "kernels/cuda/runtime.h"
#include "kernels/cuda/scratch.h"

namespace ogrom {

Queues::Queues(const Device& device) {
    if (device.is_gpu()) {
        cuda::set_device(device.index);
        compute = cuda::make_stream(cuda::QueuePriority::normal);
        // Transfers start where kernels that could run as well wait for them.
        communication = cuda::make_stream(cuda::QueuePriority::high);
        copy = cuda::make_stream(cuda::QueuePriority::high);
    }
}

Queues::~Queues() {
    for (const Stream stream : {compute, communication, copy}) {
        if (stream.backend == Backend::cuda) {
            try {
                cuda::synchronize(stream);
                cuda::release_scratch(stream);
            } catch (const Error&) {  // the device failed: whoever saw it first has said so
            }
            cuda::destroy_stream(stream);
        }
    }
}

void wait(Stream stream) {
    if (stream.backend == Backend::cuda) {
        cuda::synchronize(stream);
    }
}

}  // namespace ogrom
