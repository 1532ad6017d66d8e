#include "tests/device/comm_world.h"

#include <cstdlib>
#include <map>

#include "src/comm/nccl_library.h"

namespace ogrom::test {
namespace {

std::map<Where, std::unique_ptr<Axis>>& axes() {
    static std::map<Where, std::unique_ptr<Axis>> made;
    return made;
}

// Communicators go before the session does.
class Axes : public testing::Environment {
    void TearDown() override { axes().clear(); }
};
[[maybe_unused]] const auto* const environment = testing::AddGlobalTestEnvironment(new Axes);

bool on_gpu(Where where) {
    return where == Where::staged_gpu || where == Where::staged_gpu_small || where == Where::nccl;
}

Device device_of(Where where) {
    return select_device(on_gpu(where) ? "auto" : "cpu", session().node_rank());
}

std::unique_ptr<Communicator> make(Where where, const Queues& queues, const std::string& name) {
    AxisOptions options;
    options.transport = where == Where::nccl ? AxisTransport::nccl : AxisTransport::staged;
    options.compute = queues.compute;
    options.communication = queues.communication;
    // Small: every ordinary size is cut, and several calls wait for room.
    options.staging_bytes = where == Where::staged_cpu_small || where == Where::staged_gpu_small ? 16'384 : 1 << 22;
    AxisSet set(session().world(), CollectiveCheck::off, options);
    auto made = set.make(0, session().rank(), name, Channels::up_ring);
    set.connect();
    return made;
}

}  // namespace

std::string name_of(Where where) {
    const char* const names[] = {"staged_cpu", "staged_cpu_small", "staged_gpu", "staged_gpu_small", "nccl"};
    return names[static_cast<int>(where)];
}

std::string reason_without(Where where) {
    if (session().size() == 1) {
        return "one rank: nothing travels";
    }
    if (const Device device = device_of(where); on_gpu(where) && !device.is_gpu()) {
        return "no GPU: " + device.reason;
    }
    if (where == Where::nccl && !nccl::facts().missing.empty()) {
        return "no NCCL: " + nccl::facts().missing;
    }
    if (where == Where::nccl && nccl::facts().version < nccl::shared_gpu_version) {
        return "no GPU for each rank: NCCL " + nccl::version_text(nccl::facts().version) + " cannot share one";
    }
    return {};
}

Axis& axis(Where where) {
    std::unique_ptr<Axis>& found = axes()[where];
    if (found == nullptr) {
        setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
        found = std::make_unique<Axis>(device_of(where));
        found->comm = make(where, found->queues, name_of(where));
    }
    return *found;
}

std::unique_ptr<Communicator> another(Where where, const std::string& name) {
    return make(where, axis(where).queues, name);
}

}  // namespace ogrom::test
