#include "src/optim/ownership.h"

#include <gtest/gtest.h>

#include "kernels/ops/norm.h"

#include "src/optim/state.h"

#include "tests/unit/optim/odd_model.h"

namespace ogrom {
namespace {

ModelConfig wide_model(bool tied) {
    ModelConfig model = odd_model();
    model.tied = tied;
    model.layers = 3;
    model.hidden = 33;
    model.heads = model.kv_heads = 3;
    model.head_dim = 11;
    model.ffn_hidden = 70;
    return model;
}

struct Case {
    const char* name;
    bool tied, embeds, heads;
};

class OwnershipTest : public testing::TestWithParam<Case> {
protected:
    OwnershipTest()
        : table(make_parameters(wide_model(GetParam().tied), Dtype::fp64)),
          layout(table, StageSpan{0, 0, 1, 3, GetParam().embeds, GetParam().heads}) {}
    ParameterTable table;
    ParameterLayout layout;
};

// First element of the tensor that holds `element`.
i64 tensor_start(const ParameterLayout& layout, i64 element) {
    for (const LocalTensor& tensor : layout.tensors()) {
        if (element >= tensor.offset && element < tensor.offset + tensor.count) {
            return tensor.offset;
        }
    }
    return element;
}

TEST_P(OwnershipTest, EveryElementHasOneOwnerAndAPlaceInItsShard) {
    for (const int parts : {1, 2, 3, 4, 7}) {
        const Ownership ownership(layout, parts);
        std::vector<int> owner(static_cast<std::size_t>(layout.gradient_size()), -1);
        i64 held = 0, gradients = 0;
        for (int part = 0; part < parts; ++part) {
            EXPECT_LE(ownership.ranges(part).size(), 2U);
            EXPECT_LE(ownership.gradient_ranges(part).size(), 3U);
            i64 place = 0;
            for (const FlatRange& range : ownership.ranges(part)) {
                EXPECT_LT(range.first, range.last);
                EXPECT_EQ(ownership.shard_offset(part, range.first), place);
                EXPECT_EQ(ownership.shard_offset(part, range.last - 1), place + range.count() - 1);
                place += range.count();
            }
            EXPECT_EQ(place, ownership.shard_size(part));
            for (const FlatRange& range : ownership.gradient_ranges(part)) {
                for (i64 i = range.first; i < range.last; ++i) {
                    EXPECT_EQ(owner[static_cast<std::size_t>(i)], -1);
                    owner[static_cast<std::size_t>(i)] = part;
                }
            }
            held += ownership.shard_size(part);
            gradients += ownership.gradient_shard_size(part);
        }
        EXPECT_EQ(held, layout.size());
        EXPECT_EQ(gradients, layout.gradient_size());
        for (i64 i = 0; i < layout.gradient_size(); ++i) {
            ASSERT_EQ(ownership.owner(i), owner[static_cast<std::size_t>(i)]) << "element " << i;
        }
        for (i64 i = layout.size(); i < layout.gradient_size(); ++i) {
            ASSERT_EQ(ownership.owner(i), ownership.owner(layout.tied_table().first + i - layout.size()));
        }
    }
}

TEST_P(OwnershipTest, ShardsAreWholeBlocksAndBalancedWithinOne) {
    const FlatRange tied = layout.tied_table();
    const std::vector<FlatRange> segments = tied.count() == 0 ? std::vector<FlatRange>{{0, layout.size()}}
                                            : tied.first == 0 ? std::vector<FlatRange>{tied, {tied.last, layout.size()}}
                                                              : std::vector<FlatRange>{{0, tied.first}, tied};
    for (const int parts : {2, 3, 5}) {
        const Ownership ownership(layout, parts);
        for (const FlatRange& segment : segments) {
            for (int part = 0; part < parts; ++part) {
                const auto own = intersect(ownership.ranges(part), segment);
                ASSERT_LE(own.size(), 1U);
                const i64 count = count_of(own);
                EXPECT_LT(std::abs(count * parts - segment.count()), ops::norm_block * parts);
                if (count > 0) {
                    const i64 start = own[0].first;
                    EXPECT_EQ((start - tensor_start(layout, start)) % ops::norm_block, 0);
                }
            }
        }
    }
}

TEST_P(OwnershipTest, MorePartsThanBlocksLeaveShardsEmpty) {
    const int parts = 500;
    const Ownership ownership(layout, parts);
    i64 held = 0, empty = 0;
    for (int part = 0; part < parts; ++part) {
        EXPECT_LE(ownership.shard_size(part), 2 * ops::norm_block);  // a block of the table and one of the rest
        held += ownership.shard_size(part);
        empty += ownership.shard_size(part) == 0 ? 1 : 0;
    }
    EXPECT_EQ(held, layout.size());
    EXPECT_GT(empty, 0);
}

TEST_P(OwnershipTest, PiecesCoverARangeInOrder) {
    const Ownership ownership(layout, 3);
    for (const i64 limit : {1, 97, 100'000}) {
        for (const FlatRange range :
             {FlatRange{0, layout.gradient_size()}, FlatRange{13, 1500}, FlatRange{700, 701}, FlatRange{5, 5}}) {
            i64 at = range.first;
            for (const OwnedPiece& piece : ownership.pieces(range, limit)) {
                EXPECT_EQ(piece.range.first, at);
                EXPECT_GT(piece.range.count(), 0);
                EXPECT_LE(piece.range.count(), limit);
                EXPECT_EQ(ownership.owner(piece.range.first), piece.owner);
                EXPECT_EQ(ownership.owner(piece.range.last - 1), piece.owner);
                at = piece.range.last;
            }
            EXPECT_EQ(at, range.last);
        }
    }
}

TEST_P(OwnershipTest, StateBytesFollowThePublishedFormula) {
    const int parts = 3;
    const Ownership ownership(layout, parts);
    const i64 block = 2 * ops::norm_block;  // of each of two segments
    for (int zero = 0; zero <= 3; ++zero) {
        i64 weights = 0, gradients = 0, moments = 0;
        for (int part = 0; part < parts; ++part) {
            const StateBytes bytes = state_bytes(layout, ownership, zero, part, 4, 4);
            const auto near = [&](i64 taken, i64 elements, bool sharded, i64 slack) {
                EXPECT_LE(std::abs(taken - 4 * (sharded ? elements / parts : elements)), sharded ? 4 * slack : 0)
                    << "zero " << zero << ", part " << part;
            };
            near(bytes.weights, layout.size(), zero == 3, block);
            near(bytes.gradients, layout.gradient_size(), zero >= 2, block + ops::norm_block);
            near(bytes.moment, layout.size(), zero >= 1, block);
            weights += bytes.weights;
            gradients += bytes.gradients;
            moments += bytes.moment;
            const auto take = [](i64 n) { return std::vector<float>(static_cast<std::size_t>(n) / sizeof(float)); };
            std::vector<float> w = take(bytes.weights), g = take(bytes.gradients), m = take(bytes.moment);
            const StepState<float> state = make_step_state<float>(layout, ownership, zero, part, w, g, m, {});
            EXPECT_TRUE(state.moment2.empty());
            for (const FlatRange& range : ownership.gradient_ranges(part)) {  // what it owns, it holds
                float* const first = state.gradients.locate(range);
                EXPECT_GE(first, g.data());
                EXPECT_LE(first + range.count(), g.data() + g.size());
            }
        }
        const auto copies = [&](bool sharded) { return sharded ? 4 : 4 * parts; };
        EXPECT_EQ(weights, copies(zero == 3) * layout.size());
        EXPECT_EQ(gradients, copies(zero >= 2) * layout.gradient_size());
        EXPECT_EQ(moments, copies(zero >= 1) * layout.size());
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, OwnershipTest,
                         testing::Values(Case{"tied", true, true, true}, Case{"untied", false, true, true},
                                         Case{"first_stage", true, true, false}, Case{"last_stage", true, false, true},
                                         Case{"middle_stage", true, false, false}),
                         [](const auto& suite) { return suite.param.name; });

// The exchange of a tied table between stages meets equal ranges.
TEST(Ownership, FirstAndLastStageCutATiedTableAlike) {
    const ParameterTable table = make_parameters(wide_model(true), Dtype::fp64);
    const ParameterLayout first(table, StageSpan{0, 0, 0, 1, true, false});
    const ParameterLayout last(table, StageSpan{1, 0, 1, 3, false, true});
    ASSERT_EQ(first.tied_table().count(), last.tied_table().count());
    for (const int parts : {1, 2, 3, 8}) {
        const Ownership a(first, parts), b(last, parts);
        for (int part = 0; part < parts; ++part) {
            const auto mine = intersect(a.ranges(part), first.tied_table());
            const auto other = intersect(b.ranges(part), last.tied_table());
            ASSERT_EQ(mine.size(), other.size());
            for (std::size_t r = 0; r < mine.size(); ++r) {
                EXPECT_EQ(mine[r].first - first.tied_table().first, other[r].first - last.tied_table().first);
                EXPECT_EQ(mine[r].count(), other[r].count());
            }
        }
    }
}

// B01: both copies of a tied table are updated by the same settings.
TEST(Ownership, TiedCopiesHaveTheSameSettings) {
    const ParameterTable table = make_parameters(wide_model(true), Dtype::fp64);
    const Parameter& source = table.row("embedding.token.weight");
    const Parameter& copy = table.row("head.weight");
    EXPECT_EQ(copy.lr_factor, source.lr_factor);
    EXPECT_EQ(copy.decay_factor, source.decay_factor);
    EXPECT_EQ(copy.group, source.group);
    EXPECT_EQ(copy.frozen, source.frozen);
}

TEST(Pieces, CoverARangeFromTheEnd) {
    for (const i64 elements : {1, 7, 64, 5000}) {
        for (const FlatRange range : {FlatRange{0, 4097}, FlatRange{5, 6}, FlatRange{3, 3}}) {
            i64 last = range.last;
            for (const FlatRange& piece : make_pieces(range, elements)) {
                EXPECT_EQ(piece.last, last);
                EXPECT_LE(piece.count(), elements);
                EXPECT_GT(piece.count(), 0);
                last = piece.first;
            }
            EXPECT_EQ(last, range.first);
        }
    }
}

}  // namespace
}  // namespace ogrom
