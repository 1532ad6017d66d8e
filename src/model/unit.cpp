#include "src/model/unit.h"

#include <algorithm>

namespace ogrom {
namespace {

Use use_of(UnitKind kind, PassKind pass) {
    switch (pass) {
        case PassKind::forward:
        case PassKind::evaluate:
            return Use::forward;
        case PassKind::backward:
            return Use::backward;
        case PassKind::backward_input:
            return kind == UnitKind::block ? Use::backward_input : Use::backward;
        case PassKind::backward_weight:
            return Use::backward_weight;
    }
    return Use::forward;
}

bool takes_part(UnitKind kind, PassKind pass) {
    if (pass == PassKind::backward_weight) {
        return kind == UnitKind::block;
    }
    return kind != UnitKind::head || pass != PassKind::forward;
}

}  // namespace

std::vector<UnitUse> unit_uses(const ParameterLayout& layout, i64 chunk, PassKind pass) {
    std::vector<UnitUse> uses;
    for (std::size_t u = 0; u < layout.units().size(); ++u) {
        const Unit& unit = layout.units()[u];
        if (unit.chunk == chunk && takes_part(unit.kind, pass)) {
            uses.push_back({static_cast<i64>(u), use_of(unit.kind, pass)});
        }
    }
    if (pass != PassKind::forward && pass != PassKind::evaluate) {
        std::reverse(uses.begin(), uses.end());
    }
    return uses;
}

}  // namespace ogrom
