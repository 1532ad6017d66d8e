// Comes in: state.gradients (joined, where this rank has moments), clip factor and rate.
// Goes out: weights and moments of this update; full weights on all ranks of the zero group (ZeRO 0 to 2).
// Next: io/metrics.cpp
#include "src/optim/update.h"

#include <cmath>
#include <fmt/format.h>

#include "src/device/buffer.h"
#include "src/optim/in_flight.h"
#include "src/optim/shard.h"
#include "src/optim/traffic.h"

namespace ogrom {
namespace {

constexpr const char* scalars_line = "optimizer.scalars";
constexpr const char* host_scalars_line = "optimizer.scalars.host";

}  // namespace

ops::StepScalars make_scalars(const OptimizerConfig& optimizer, double lr, double clip, i64 updates_done) {
    ops::StepScalars scalars;
    scalars.lr = lr;
    scalars.clip = clip;
    scalars.beta1 = optimizer.beta1;
    scalars.beta2 = optimizer.beta2;
    // c = 1 - b^t: the moments start at 0 and are that much too small after t updates.
    const double t = static_cast<double>(updates_done + 1);
    scalars.correction1 = 1 - std::pow(optimizer.beta1, t);
    scalars.correction2 = 1 - std::pow(optimizer.beta2, t);
    scalars.epsilon = optimizer.epsilon;
    scalars.momentum = optimizer.momentum;
    return scalars;
}

template <class T>
struct WeightUpdate<T>::Impl {
    const OptimizerKind kind;
    const ParameterLayout& layout;
    const Ownership& ownership;
    const StepOptions options;
    Communicator* const shard;
    const StepState<T> state;
    std::vector<UpdateRange> ranges;  // those of this rank
    ops::StepScalars* scalars;        // read by the kernels where they run
    ops::StepScalars* host;           // the same on the host

    // The arguments that AdamW and SGD share.
    template <class Op>
    Op of(const UpdateRange& range) const {
        const FlatRange flat{range.first, range.last};
        Op op;
        op.weight = state.weights.locate(flat);
        op.m = state.moment1.empty() ? nullptr : state.moment1.locate(flat);
        op.gradient = state.gradients.locate(flat);
        op.master = state.master.empty() ? nullptr : state.master.locate(flat);
        op.n = flat.count();
        op.scalars = *host;
        op.scalars_at = scalars;
        op.lr_factor = range.lr_factor;
        op.decay = range.decay;
        return op;
    }

    void update(Stream stream) const {
        for (const UpdateRange& range : ranges) {
            if (kind == OptimizerKind::adamw) {
                auto op = of<ops::AdamW<T>>(range);
                op.v = state.moment2.locate({range.first, range.last});
                ops::adamw(stream, op);
            } else {
                ops::sgd(stream, of<ops::Sgd<T>>(range));
            }
        }
    }

    // Owners to all: everything is issued, then waited for.
    void broadcast() const {
        std::vector<Pending> calls;
        for (const OwnedPiece& piece : ownership.pieces({0, layout.size()}, options.bucket_elements)) {
            calls.push_back(shard->broadcast(state.weights.locate(piece.range), piece.range.count(), dtype_of<T>(),
                                             piece.owner, labels::parameter_broadcast));
        }
        for (Pending& call : calls) {
            call.wait();
        }
    }
};

template <class T>
void WeightUpdate<T>::declare(Ledger& ledger, Backend backend) {
    const i64 bytes = static_cast<i64>(sizeof(ops::StepScalars));
    ledger.add(scalars_line, Tier::device, bytes, "rate, factors, skip flag");
    if (backend == Backend::cuda) {
        ledger.add(host_scalars_line, Tier::host, bytes, "the same as the host writes them");
    }
}

template <class T>
WeightUpdate<T>::WeightUpdate(const OptimizerConfig& optimizer, const ParameterLayout& layout,
                              const Ownership& ownership, const StepOptions& options, const StepGroups& groups,
                              Arena& arena, const StepState<T>& state)
    : impl_(new Impl{optimizer.kind,
                     layout,
                     ownership,
                     options,
                     groups.shard,
                     state,
                     {},
                     arena.take<ops::StepScalars>(scalars_line).data(),
                     nullptr}) {
    const bool apart = groups.stream.backend == Backend::cuda;
    impl_->host = apart ? arena.take<ops::StepScalars>(host_scalars_line).data() : impl_->scalars;
    const std::vector<FlatRange> kept = moment_ranges(layout, ownership, options.zero, groups.place().part);
    for (const UpdateRange& range : make_update_ranges(layout, optimizer.weight_decay)) {
        for (const FlatRange& part : intersect(kept, {range.first, range.last})) {
            impl_->ranges.push_back({part.first, part.last, range.lr_factor, range.decay});
        }
    }
}

template <class T>
WeightUpdate<T>::~WeightUpdate() = default;

template <class T>
void WeightUpdate<T>::run(Stream stream, const ops::StepScalars& scalars) {
    *impl_->host = scalars;
    copy_bytes(stream, impl_->scalars, impl_->host, static_cast<i64>(sizeof scalars));
    impl_->update(stream);
    const bool sharded = impl_->options.zero == 1 || impl_->options.zero == 2;
    if (sharded && impl_->ownership.parts() > 1) {
        impl_->broadcast();
    }
}

template class WeightUpdate<float>;
template class WeightUpdate<double>;
template class WeightUpdate<Bf16>;
template class WeightUpdate<Fp16>;

}  // namespace ogrom
