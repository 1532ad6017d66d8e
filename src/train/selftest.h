// Trains tiny models under every layout that the ranks admit and compares them
// with one rank (commands/selftest).
#pragma once
#include <string>
#include <vector>

#include "src/comm/session.h"
#include "src/train/selftest_layouts.h"

namespace ogrom {

struct SelftestRow {
    SelftestLayout layout;
    std::string refused;  // reason, where the run file of the layout is not valid
    std::string failed;   // what disagrees, where something does
    double loss = 0, norm = 0,
           weights = 0;  // largest relative deviation from one rank over the steps
    double seconds = 0;
};

// Loss and norm of each step, and each tensor of the weights after the last one
// (norm of the difference over norm), in double precision. Rounding of 1e-16
// grows to some 1e-13 over the steps; a fault of 1e-6 shows.
inline constexpr double selftest_bound = 1e-9;

class Selftest {
public:
    // `where`: its keys device and backend say where the layouts run and what carries their memory; ranks may share a
    // GPU. Collective over the session. Trains the references, shared over the ranks, on the CPU.
    struct Where {
        std::string device = "auto", backend = "auto";
    };
    Selftest(Session& session, const Where& where);
    ~Selftest();
    // Collective: one layout over all ranks.
    SelftestRow run(const SelftestLayout& layout);
    // Device and transport in words.
    [[nodiscard]] std::string place() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ogrom
