// The device list is safe on every machine: devices, or the reason why there is none.
#include <gtest/gtest.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/philox.h"

namespace ogrom::test {
namespace {

TEST(CudaDevices, DevicesOrAReason) {
    const cuda::Devices found = cuda::list_devices();
    EXPECT_EQ(found.devices.empty(), !found.reason.empty());
    if (!found.compiled) {
        EXPECT_EQ(found.reason, "the CUDA backend is not compiled into this binary");
        EXPECT_THROW(cuda::philox_fill({Backend::cuda, nullptr}, {.count = 1}), Error);
    } else {
        EXPECT_GE(found.runtime_version, 12000);
    }
    for (const cuda::Device& device : found.devices) {
        EXPECT_EQ(device.uuid.size(), 40U) << device.uuid;
        EXPECT_GT(device.memory_bytes, 0);
        EXPECT_GE(device.major, 5);
    }
}

}  // namespace
}  // namespace ogrom::test
