// The fixed order (numerics.deterministic): at fixed tensor and data ranks and
// micro-batch, stages, schedules, ZeRO, buckets, overlap and recomputation
// change no bit of loss, norm, weights and moments.
#include <bit>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "src/train/layout_compare.h"
#include "src/train/layout_trial.h"

#include "tests/equivalence/tiny.h"

namespace ogrom::test {
namespace {

struct Bits {
    std::vector<u64> series;
    u64 state = 0;
    bool operator==(const Bits&) const = default;
};
void PrintTo(const Bits& bits, std::ostream* out) {
    *out << fmt::format("state {:016x}, losses and norms {:016x}", bits.state, fmt::join(bits.series, " "));
}

template <class T>
Bits bits_of(Communicator& world, const SelftestLayout& layout) {
    const RunConfig run = parse_layout(layout, world.size());
    Mesh mesh = make_mesh(world, run.parallel);
    const std::unique_ptr<Engine<T>> engine = make_trial<T>(run, mesh);
    const Course course = run_trial(*engine);
    Bits bits;
    for (const std::vector<double>* series : {&course.losses, &course.norms}) {
        for (const double value : *series) {
            bits.series.push_back(std::bit_cast<u64>(value));
        }
    }
    bits.state = state_bits(*engine);
    return bits;
}

// Everything that may vary at the given stages.
std::vector<SelftestLayout> variants(const SelftestLayout& base) {
    std::vector<SelftestLayout> all;
    for (i64 zero = 0; zero <= 3; ++zero) {
        for (const PipelineSchedule schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                                                PipelineSchedule::interleaved, PipelineSchedule::zero_bubble}) {
            if (base.pipeline == 1 && schedule != PipelineSchedule::one_f_one_b) {
                continue;
            }
            SelftestLayout layout = base;
            layout.zero = zero;
            layout.schedule = schedule;
            layout.recompute = static_cast<Recompute>((zero + static_cast<int>(schedule)) % 3);
            layout.small_buckets = base.data > 1 && zero % 2 == 1;
            layout.overlap = (zero + static_cast<int>(schedule)) % 2 == 0;
            layout.regather_once = zero == 3 && schedule == PipelineSchedule::gpipe;
            all.push_back(layout);
        }
    }
    return all;
}

// The model of 16 layers: it has room for chunks on several stages.
template <class T>
void expect_same_bits(Dtype compute, bool dropout, bool tied) {
    const int ranks = session().size();
    for (int stages = 1; stages <= std::min(ranks, 2); ++stages) {
        SelftestLayout base;
        base.model = 1;
        base.data = ranks / stages;
        base.dropout = dropout;
        base.tied = tied;
        base.compute = compute;
        base.steps = 2;
        base.micro_batch = 2;
        // As many data ranks without a pipeline, on the first ranks.
        const int part = static_cast<int>(base.data);
        const auto world =
            session().world().split(session().rank() < part ? 0 : 1, session().rank(), "part", CollectiveCheck::off);
        // (the other ranks, as many again or none, train the same beside them)
        Bits reference = bits_of<T>(*world, base);
        const i64 words = static_cast<i64>(reference.series.size());
        ASSERT_EQ(words, 2 * base.steps);
        reference.series.push_back(reference.state);
        session().world().broadcast(reference.series.data(), words + 1, Dtype::u64, 0, "reference bits").wait();
        reference.state = reference.series.back();
        reference.series.pop_back();
        base.pipeline = stages;
        for (const SelftestLayout& layout : variants(base)) {
            EXPECT_EQ(bits_of<T>(session().world(), layout), reference) << layout.name();
        }
    }
}

TEST(FixedOrder, NothingChangesABitInSingle) {
    expect_same_bits<float>(Dtype::fp32, false, true);
}
TEST(FixedOrder, NothingChangesABitWithDropoutAndAnUntiedHead) {
    expect_same_bits<double>(Dtype::fp64, true, false);
}

}  // namespace
}  // namespace ogrom::test
