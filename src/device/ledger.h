// The memory ledger: every long-lived buffer of a rank as a named line with its bytes, written before step 1. The arena
// is cut from it, so what the plan prints is what the run takes.
#pragma once
#include <string>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

// device: where the kernels run; host: page-locked on a GPU; pageable: large and rarely used host memory; baseline and
// context: measured, taken by libraries in host memory and on a GPU, not cut by the arena. On the CPU all but nvme are
// memory of the machine.
enum class Tier { device, host, pageable, nvme, baseline, context };

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
    [[nodiscard]] i64 total() const;          // all tiers but nvme
    [[nodiscard]] i64 on_device() const;      // of a GPU: what its driver shows: device and context
    [[nodiscard]] std::string table() const;  // printed at start and by `ogrom plan`

private:
    std::vector<LedgerLine> lines_;
};

}  // namespace ogrom
