#include "src/optim/pass_scalars.h"

#include "src/device/buffer.h"

namespace ogrom {
namespace {

constexpr const char* device_line = "pass.scalars";
constexpr const char* host_line = "pass.scalars.host";

}  // namespace

void PassScalars::declare(Ledger& ledger, Backend backend) {
    if (backend == Backend::cuda) {
        const auto bytes = static_cast<i64>(sizeof(Values));
        ledger.add(device_line, Tier::device, bytes, "loss scale, loss and step of a recorded pass");
        ledger.add(host_line, Tier::host, bytes, "the same as the host writes them");
    }
}

PassScalars::PassScalars(Arena& arena, Stream stream) : stream_(stream) {
    if (stream.backend == Backend::cuda) {
        there_ = arena.take<Values>(device_line).data();
        host_ = arena.take<Values>(host_line).data();
    }
}

void PassScalars::set(double loss_scale, i64 step) {
    *host_ = {.loss_scale = loss_scale, .step = static_cast<u32>(step)};
    copy_bytes(stream_, there_, host_, static_cast<i64>(sizeof(Values)));
}

void PassScalars::clear_loss() {
    set_zero_bytes(stream_, &there_->loss, static_cast<i64>(sizeof(double)));
}

void PassScalars::take_loss(double* to) {
    copy_bytes(stream_, to, &there_->loss, static_cast<i64>(sizeof(double)));
}

}  // namespace ogrom
