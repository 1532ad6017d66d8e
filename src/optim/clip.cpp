// Comes in: gradients in optim/state (arena): of the whole model's loss, each rank what it owns.
// Goes out: the global norm and the clip factor; the update applies the factor as it reads the gradient.
// Next: optim/update.cpp.
#include "src/optim/clip.h"

#include <cmath>

#include "kernels/common/fault.h"
#include "kernels/ops/norm.h"

namespace ogrom {

namespace {

// Ranges whose squares are added, ascending. A tensor of whole blocks and the one behind it are one range: the blocks
// of the second start where its own would.
class SquareRanges {
public:
    void add(const LocalTensor& tensor, FlatRange range) {
        const bool joins = !ranges_.empty() && ranges_.back().last == range.first && whole_ &&
                           (range.first - tensor.offset) % ops::norm_block == 0;
        if (joins) {
            ranges_.back().last = range.last;
        } else {
            ranges_.push_back(range);
        }
        whole_ = (range.last - tensor.offset) % ops::norm_block == 0 || fault_active("norm_blocks_joined");
    }
    [[nodiscard]] const std::vector<FlatRange>& ranges() const { return ranges_; }

private:
    std::vector<FlatRange> ranges_;
    bool whole_ = false;  // the last one ends on a border of blocks
};

}  // namespace

template <class T>
void add_squares(Stream stream, const StepState<T>& state, const ParameterLayout& layout, const Ownership& ownership,
                 const StepPlace& place, ExactSum& sum) {
    std::vector<ops::SquaresRange<GradientOf<T>>> ranges;
    for (const FlatRange& owned : ownership.ranges(place.part)) {
        SquareRanges squares;
        for (const LocalTensor& tensor : layout.tensors()) {
            const Parameter& parameter = *tensor.parameter;
            const bool counts = parameter.kind == ParameterKind::weight && !parameter.frozen && parameter.tie.empty();
            const bool copy = layout.replicated(tensor) && layout.part().rank != 0;
            if (!counts || place.replica != 0 || (copy && !fault_active("norm_counted_per_tensor_rank"))) {
                continue;
            }
            const bool twice = fault_active("norm_counted_twice") && parameter.group == ParameterGroup::norm;
            // Padding stands at the end of a tensor.
            for (const FlatRange& range : intersect({owned}, {tensor.offset, tensor.offset + tensor.logical})) {
                for (int times = 0; times < (twice ? 2 : 1); ++times) {
                    squares.add(tensor, range);
                }
            }
        }
        for (const FlatRange& range : squares.ranges()) {
            ranges.push_back({state.gradients.locate(range), range.count()});
        }
    }
    ops::block_squares<GradientOf<T>>(stream, ranges, sum);
}

double agree_norm(ExactSum sum, Communicator& world) {
    sum.normalise();
    world
        .all_reduce(sum.limb.data(), ExactSum::words, Dtype::i64, ReduceOp::sum, ReduceOrder::any, nullptr,
                    "gradient norm")
        .wait();
    return std::sqrt(sum.value());
}

template <class T>
double global_norm(Stream stream, const StepState<T>& state, const ParameterLayout& layout, const Ownership& ownership,
                   const StepPlace& place, Communicator& world) {
    ExactSum sum;
    add_squares(stream, state, layout, ownership, place, sum);
    return agree_norm(sum, world);
}

double clip_factor(double norm, double clip_norm) {
    if (clip_norm <= 0 || norm <= clip_norm) {
        return 1;
    }
    if (fault_active("clip_ignored_scale")) {
        return clip_norm;
    }
    return clip_norm / norm;
}

#define OGROM_INSTANTIATE(T)                                                                              \
    template void add_squares<T>(Stream, const StepState<T>&, const ParameterLayout&, const Ownership&,   \
                                 const StepPlace&, ExactSum&);                                            \
    template double global_norm<T>(Stream, const StepState<T>&, const ParameterLayout&, const Ownership&, \
                                   const StepPlace&, Communicator&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
