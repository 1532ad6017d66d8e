#include "tests/device/support.cuh"

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

#include "kernels/cuda/device.h"
#include "kernels/cuda/scratch.h"

namespace ogrom::device_test {
namespace {

u32 next_stream() {
    static u32 streams = 0;
    return streams++;
}

std::map<std::string, double>& shares() {
    static std::map<std::string, double> worst;
    return worst;
}

class Table : public ::testing::Environment {
public:
    void SetUp() override { std::cout << "OGROM_TEST_SEED=" << run_seed() << '\n'; }
    void TearDown() override {
        for (const auto& [what, share] : shares()) {
            std::cout << "worst error / bound " << share << "  " << what << '\n';
        }
    }
};
[[maybe_unused]] const auto* const table = ::testing::AddGlobalTestEnvironment(new Table);

}  // namespace

u64 run_seed() {
    static const u64 seed = [] {
        const char* given = std::getenv("OGROM_TEST_SEED");
        return given != nullptr ? std::strtoull(given, nullptr, 10) : u64{std::random_device{}()};
    }();
    return seed;
}

std::vector<float> fresh(i64 n, double scale) {
    const u32 stream = next_stream();
    std::vector<float> out(static_cast<std::size_t>(n));
    for (i64 i = 0; i < n; ++i) {
        out[i] = static_cast<float>((2 * uniform(random_word(run_seed(), stream, 0, static_cast<u64>(i))) - 1) * scale);
    }
    return out;
}

std::vector<std::int32_t> fresh_integers(i64 n, i64 low, i64 high) {
    const u32 stream = next_stream();
    std::vector<std::int32_t> out(static_cast<std::size_t>(n));
    for (i64 i = 0; i < n; ++i) {
        const double u = uniform(random_word(run_seed(), stream, 1, static_cast<u64>(i)));
        out[i] = static_cast<std::int32_t>(low + static_cast<i64>(u * static_cast<double>(high - low)));
    }
    return out;
}

void note_share(const std::string& what, double share) {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    double& worst = shares()[std::string(info->test_suite_name()) + "." + info->name() + ": " + what];
    worst = std::max(worst, share);
}

void OnDevice::SetUp() {
    const cuda::Devices found = cuda::list_devices();
    if (found.devices.empty()) {
        GTEST_SKIP() << "no GPU: " << found.reason;
    }
    cudaStream_t made = nullptr;
    ok(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    gpu.native = made;
}

void OnDevice::TearDown() {
    if (gpu.native != nullptr) {
        cuda::release_scratch(gpu);
        ok(cudaStreamSynchronize(static_cast<cudaStream_t>(gpu.native)));
        ok(cudaStreamDestroy(static_cast<cudaStream_t>(gpu.native)));
    }
}

}  // namespace ogrom::device_test
