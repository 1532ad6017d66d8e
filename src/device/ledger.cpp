#include "src/device/ledger.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/error.h"

#include "src/base/text.h"

namespace ogrom {
namespace {

std::string_view name_of(Tier tier) {
    switch (tier) {
        case Tier::device:
            return "device";
        case Tier::host:
            return "host";
        case Tier::pageable:
            return "pageable";
        case Tier::nvme:
            return "nvme";
        case Tier::baseline:
            return "baseline";
        case Tier::context:
            return "context";
    }
    return "?";
}

}  // namespace

void Ledger::add(std::string name, Tier tier, i64 bytes, std::string formula) {
    OGROM_ASSERT(bytes >= 0);
    for (const LedgerLine& line : lines_) {
        if (line.name == name) {
            fail(ExitCode::memory, fmt::format("ledger: line '{}' was added twice", name));
        }
    }
    lines_.push_back({std::move(name), tier, bytes, std::move(formula)});
}

const LedgerLine& Ledger::line(const std::string& name) const {
    for (const LedgerLine& line : lines_) {
        if (line.name == name) {
            return line;
        }
    }
    fail(ExitCode::memory, fmt::format("ledger: no line '{}'", name));
}

i64 Ledger::total(Tier tier) const {
    i64 sum = 0;
    for (const LedgerLine& line : lines_) {
        sum += line.tier == tier ? line.bytes : 0;
    }
    return sum;
}

i64 Ledger::total() const {
    return on_device() + total(Tier::host) + total(Tier::pageable) + total(Tier::baseline);
}

i64 Ledger::on_device() const {
    return total(Tier::device) + total(Tier::context);
}

std::string Ledger::table() const {
    std::size_t name_width = std::string_view("total in memory").size();
    for (const LedgerLine& line : lines_) {
        name_width = std::max(name_width, line.name.size());
    }
    std::string out =
        fmt::format("{:<{}}  {:<8}  {:>12}  {}\n", "memory of one rank", name_width, "tier", "size", "formula");
    for (const LedgerLine& line : lines_) {
        out += fmt::format("{:<{}}  {:<8}  {:>12}  {}\n", line.name, name_width, name_of(line.tier),
                           human_bytes(line.bytes), line.formula);
    }
    out += fmt::format("{:<{}}  {:<8}  {:>12}  {} bytes\n", "total in memory", name_width, "", human_bytes(total()),
                       total());
    if (total(Tier::context) > 0) {
        out += fmt::format("{:<{}}  {:<8}  {:>12}  {} bytes\n", "of it on the GPU", name_width, "",
                           human_bytes(on_device()), on_device());
    }
    return out;
}

}  // namespace ogrom
