// The memory ledger: every long-lived buffer of a rank as a named line with its bytes, written before step 1. The arena
// is cut from it, so what the plan prints is what the run takes.
#pragma once
#include <string>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

enum class Tier { device, host, nvme, baseline };  // baseline: measured, taken by libraries, not cut by the arena

struct LedgerLine {
    std::string name;  // "gradients", "activations.block", "comm.staging", ...
    Tier tier = Tier::device;
    i64 bytes = 0;
    std::string formula;  // how the bytes come about, for the reader: "4 P", "B T C * 4"
};

class Ledger {
public:
    void add(std::string name, Tier tier, i64 bytes, std::string formula);
    [[nodiscard]] const std::vector<LedgerLine>& lines() const { return lines_; }
    [[nodiscard]] const LedgerLine& line(const std::string& name) const;  // throws when absent
    [[nodiscard]] i64 total(Tier tier) const;
    [[nodiscard]] i64 total() const;          // all tiers that are memory of this machine: device, host, baseline
    [[nodiscard]] std::string table() const;  // printed at start and by `ogrom plan`

private:
    std::vector<LedgerLine> lines_;
};

}  // namespace ogrom
