#include <fmt/format.h>

#include "src/base/text.h"
#include "src/optim/gradients.h"
#include "src/plan/decide.h"

namespace ogrom {
namespace {

template <class T>
Ledger compose(const RunConfig& run, const MeshShape& mesh, const Decisions& d) {
    const ParameterTable table = make_parameters(run.model, run.numerics.compute);
    const ParameterLayout layout(table, d.span);
    Ledger ledger;
    const i64 size = static_cast<i64>(sizeof(T));
    const auto flat = [&](const char* name) {
        ledger.add(name, Tier::device, layout.size() * size,
                   fmt::format("{} P, P = {} elements with padding", size, group_digits(layout.size())));
    };
    flat("weights");
    flat("gradients");
    if (d.has_moment1) {
        flat("moment1");
    }
    if (d.has_moment2) {
        flat("moment2");
    }
    Stage<T>::declare(ledger, run.model, d.span, d.extents);
    GradientReducer<T>::declare(ledger, layout, mesh.dp, {d.bucket_elements, d.reduce_order, d.overlap});
    return ledger;
}

}  // namespace

Ledger make_ledger(const RunConfig& run, const MeshShape& mesh, const Decisions& decisions) {
    return run.numerics.compute == Dtype::fp64 ? compose<double>(run, mesh, decisions)
                                               : compose<float>(run, mesh, decisions);
}

}  // namespace ogrom
