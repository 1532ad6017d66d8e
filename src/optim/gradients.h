// Buckets of the flat gradient buffer, reduced over dp while the backward pass goes on. Buckets are cut from the end
// (the first gradients that backward finishes) and issued in that order on every rank; a bucket is issued once all its
// elements are final for the last micro-batch. Deterministic mode: owner adds contributions in rank order, so any
// bucket size gives the same bits. Comes in: gradients[size], local sums. Goes out: the same buffer, summed over dp,
// equal on all ranks. Next: clip.cpp.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/comm/communicator.h"
#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/model/parameters.h"

namespace ogrom {

struct Bucket {
    i64 first = 0, last = 0;  // flat elements
};
// Pure: cuts [0, size) into buckets of at most `elements` from the end; may split a tensor.
std::vector<Bucket> make_buckets(i64 size, i64 elements);

struct NonFiniteReport {
    bool found = false;
    int rank = -1;
    std::string parameter;
};

template <class T>
class GradientReducer {
public:
    struct Options {
        i64 bucket_elements = 0;
        ReduceOrder order = ReduceOrder::any;
        bool overlap = true;
    };
    // Ledger line "gradients.reduction" (fixed order over more than one rank only): contributions of the buckets under
    // way.
    static void declare(Ledger& ledger, const ParameterLayout& layout, int dp, const Options& options);
    GradientReducer(Communicator& dp, const ParameterLayout& layout, std::span<T> gradients, Arena& arena,
                    const Options& options);
    ~GradientReducer();
    void begin(bool last_micro_batch);  // before each backward pass
    void ready(i64 first, i64 last);    // a range is final for this micro-batch: check, issue, progress
    void finish();                      // after the last backward: all buckets reduced on return
    // First parameter of this rank's own gradient (before reduction, in the order of the backward pass) that was not
    // finite in this step, agreed over dp: the lowest rank that found one. Collective.
    NonFiniteReport agree_nonfinite();
    [[nodiscard]] double exposed_s() const;  // time finish() waited, this step

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ogrom
