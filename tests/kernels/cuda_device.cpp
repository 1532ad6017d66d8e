// The device list is safe on every machine: devices, or the reason why there is none.
#include <gtest/gtest.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/scratch.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/flat.h"
#include "kernels/ops/gelu.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/residual.h"

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

// A binary built without nvcc refuses a CUDA stream in every operation, by name.
TEST(CudaDevices, OperationsThatAreNotCompiledAreRefused) {
    if (cuda::list_devices().compiled) {
        EXPECT_EQ(cuda::scratch_bytes(), 0);  // tests/device has the operations
        return;
    }
    const Stream gpu{Backend::cuda, nullptr};
    float x = 1;
    ExactSum sum;
    EXPECT_THROW(ops::cross_entropy<float>(gpu, {}), Error);
    EXPECT_THROW(ops::cross_entropy_max<float>(gpu, {}), Error);
    EXPECT_THROW(ops::cross_entropy_sum<float>(gpu, {}), Error);
    EXPECT_THROW(ops::cross_entropy_finish<float>(gpu, {}), Error);
    EXPECT_THROW(ops::embedding_forward<float>(gpu, {}), Error);
    EXPECT_THROW(ops::embedding_backward<float>(gpu, {}), Error);
    EXPECT_THROW(ops::position_forward<float>(gpu, {}), Error);
    EXPECT_THROW(ops::add(gpu, &x, &x, 1), Error);
    EXPECT_THROW(ops::copy(gpu, &x, &x, 1), Error);
    EXPECT_THROW(ops::bias_gelu_forward<float>(gpu, {}), Error);
    EXPECT_THROW(ops::gelu_forward<float>(gpu, {}), Error);
    EXPECT_THROW(ops::gelu_backward<float>(gpu, {}), Error);
    EXPECT_THROW(ops::layernorm_forward<float>(gpu, {}), Error);
    EXPECT_THROW(ops::layernorm_backward<float>(gpu, {}), Error);
    EXPECT_THROW(ops::matmul<float>(gpu, {}), Error);
    EXPECT_THROW(ops::bias_gradient<float>(gpu, {}), Error);
    EXPECT_THROW(ops::sum_of_squares(gpu, &x, 1), Error);
    EXPECT_THROW(ops::block_squares(gpu, &x, 1, sum), Error);
    EXPECT_THROW(ops::all_finite(gpu, &x, 1), Error);
    EXPECT_THROW(ops::adamw<float>(gpu, {}), Error);
    EXPECT_THROW(ops::sgd<float>(gpu, {}), Error);
    EXPECT_THROW(ops::residual_forward<float>(gpu, {}), Error);
    EXPECT_THROW(ops::dropout_backward<float>(gpu, {}), Error);
    EXPECT_THROW(ops::add_bias<float>(gpu, {}), Error);
}

}  // namespace
}  // namespace ogrom::test
