// The CUDA entries of a build without nvcc.
#include "kernels/cuda/device.h"
#include "kernels/cuda/philox.h"

namespace ogrom::cuda {

Devices list_devices() {
    Devices found;
    found.reason = "the CUDA backend is not compiled into this binary";
    return found;
}

void philox_fill(Stream, const PhiloxFill&) {
    cuda_not_compiled("philox_fill");
}

}  // namespace ogrom::cuda
