#include <fmt/format.h>
#include <string_view>
#include <type_traits>
#include <utility>

#include "src/base/text.h"
#include "src/data/batch_upload.h"
#include "src/device/buffer.h"
#include "src/optim/join.h"
#include "src/optim/pass_scalars.h"
#include "src/optim/step_sums.h"
#include "src/optim/units.h"
#include "src/optim/update.h"
#include "src/plan/decide.h"

namespace ogrom {
namespace {

std::string share(bool sharded, const StepPlace& place) {
    return sharded ? fmt::format(" / {}", place.parts) : std::string();
}

template <class T>
Ledger compose(const RunConfig& run, const Decisions& d) {
    const ParameterTable table = make_parameters(run.model, dtype_of<T>());
    const ParameterLayout layout(table, d.shape.spans, d.shape.tensor);
    const Ownership ownership(layout, d.place.parts);
    constexpr bool apart = !std::is_same_v<T, GradientOf<T>>;  // the weights have a master
    const i64 size = static_cast<i64>(sizeof(T)), state_size = static_cast<i64>(sizeof(GradientOf<T>));
    const int zero = d.step.zero;
    const StateBytes bytes = state_bytes(layout, ownership, zero, d.place.part, size, state_size);
    Ledger ledger;
    const auto flat = [&](const std::string& name, Tier tier, i64 count, i64 element, const char* letter,
                          bool sharded) {
        const i64 elements = std::string_view(letter) == "G" ? layout.gradient_size() : layout.size();
        ledger.add(name, tier, count,
                   fmt::format("{} {}{}, {} = {} elements with padding", element, letter, share(sharded, d.place),
                               letter, group_digits(elements)));
    };
    flat("weights", Tier::device, bytes.weights, size, "P", zero == 3);
    if (apart) {
        flat("master", Tier::device, bytes.moment, state_size, "P", zero >= 1);
    }
    flat("gradients", Tier::device, bytes.gradients, state_size, "G", zero >= 2);
    if (d.has_moment1) {
        flat("moment1", Tier::device, bytes.moment, state_size, "P", zero >= 1);
    }
    if (d.has_moment2) {
        flat("moment2", Tier::device, bytes.moment, state_size, "P", zero >= 1);
    }
    Stage<T>::declare(ledger, run.model, d.shape);
    ParameterUnits<T>::declare(ledger, layout, d.step, d.place);
    GradientJoin<T>::declare(ledger, layout, ownership, d.step, d.place);
    WeightUpdate<T>::declare(ledger, d.backend);
    PassScalars::declare(ledger, d.backend);
    StepSums::declare(ledger, batches_at_once(d), d.backend);
    BatchUpload::declare(ledger, run.train.micro_batch, run.train.sequence, batches_at_once(d), d.backend);
    HostWindow::declare(ledger, d.backend);
    const bool writes = d.place.replica == 0;
    if (d.backend == Backend::cpu && d.background_saves && writes) {  // what this rank writes, as it was at the save
        const i64 shard = state_size * ownership.shard_size(d.place.part);
        for (const auto& [name, there] : {std::pair{"snapshot.weights", true},
                                          {"snapshot.moment1", d.has_moment1},
                                          {"snapshot.moment2", d.has_moment2}}) {
            if (there) {
                flat(name, Tier::pageable, shard, state_size, "P", d.place.parts > 1);
            }
        }
    }
    if (d.backend == Backend::cuda) {  // state on its way into and out of checkpoints
        // Page-locked, the device copies into it at the rate of the link: that is all that the steps wait for.
        const Tier tier = d.background_saves ? Tier::host : Tier::pageable;
        flat("snapshot.weights", tier, bytes.weights / size * state_size, state_size, "P", zero == 3);
        for (const auto& [name, there] :
             {std::pair{"snapshot.moment1", d.has_moment1}, {"snapshot.moment2", d.has_moment2}}) {
            if (there) {
                flat(name, tier, bytes.moment, state_size, "P", zero >= 1);
            }
        }
    }
    return ledger;
}

}  // namespace

Ledger make_ledger(const RunConfig& run, const Decisions& decisions) {
    switch (run.precision.weights) {
        case Dtype::fp64:
            return compose<double>(run, decisions);
        case Dtype::bf16:
            return compose<Bf16>(run, decisions);
        case Dtype::fp16:
            return compose<Fp16>(run, decisions);
        default:
            return compose<float>(run, decisions);
    }
}

}  // namespace ogrom
