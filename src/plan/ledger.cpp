#include <fmt/format.h>

#include "src/base/text.h"
#include "src/optim/join.h"
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
    const ParameterTable table = make_parameters(run.model, run.numerics.compute);
    const ParameterLayout layout(table, d.shape.spans, d.shape.tensor);
    const Ownership ownership(layout, d.place.parts);
    const i64 size = static_cast<i64>(sizeof(T));
    const int zero = d.step.zero;
    const StateBytes bytes = state_bytes(layout, ownership, zero, d.place.part, size);
    Ledger ledger;
    const auto flat = [&](const char* name, i64 count, const char* letter, i64 elements, bool sharded) {
        ledger.add(name, Tier::device, count,
                   fmt::format("{} {}{}, {} = {} elements with padding", size, letter, share(sharded, d.place), letter,
                               group_digits(elements)));
    };
    flat("weights", bytes.weights, "P", layout.size(), zero == 3);
    flat("gradients", bytes.gradients, "G", layout.gradient_size(), zero >= 2);
    if (d.has_moment1) {
        flat("moment1", bytes.moment, "P", layout.size(), zero >= 1);
    }
    if (d.has_moment2) {
        flat("moment2", bytes.moment, "P", layout.size(), zero >= 1);
    }
    Stage<T>::declare(ledger, run.model, d.shape);
    ParameterUnits<T>::declare(ledger, layout, d.step, d.place);
    GradientJoin<T>::declare(ledger, layout, ownership, d.step, d.place);
    WeightUpdate<T>::declare(ledger);
    return ledger;
}

}  // namespace

Ledger make_ledger(const RunConfig& run, const Decisions& decisions) {
    return run.numerics.compute == Dtype::fp64 ? compose<double>(run, decisions) : compose<float>(run, decisions);
}

}  // namespace ogrom
