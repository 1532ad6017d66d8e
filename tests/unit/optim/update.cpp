#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "src/optim/adamw.h"
#include "src/optim/clip.h"
#include "src/optim/sgd.h"

#include "tests/unit/optim/odd_model.h"

namespace ogrom {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double value(std::size_t i, double scale) {
    return scale * std::sin(0.37 * static_cast<double>(i) + scale);
}

std::vector<double> values(i64 size, double scale) {
    std::vector<double> result(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < result.size(); ++i) {
        result[i] = value(i, scale);
    }
    return result;
}

// B02: norm gains and biases dominate, so that counting one of them twice moves the norm by more than 10 %.
TEST(GlobalNorm, CountsEachLogicalElementOnce) {
    const OddLayout odd;
    std::vector<double> gradients = values(odd.layout.size(), 1.0);
    long double expected = 0;
    for (const LocalTensor& tensor : odd.layout.tensors()) {
        for (i64 i = 0; i < tensor.count; ++i) {
            double& g = gradients[static_cast<std::size_t>(tensor.offset + i)];
            if (i >= tensor.parameter->count()) {
                g = nan;  // padding is not looked at
                continue;
            }
            if (tensor.parameter->group == ParameterGroup::norm) {
                g *= 100;
            }
            expected += static_cast<long double>(g) * static_cast<long double>(g);
        }
    }
    const double norm = global_norm<double>(Stream{}, gradients, odd.layout);
    // n additions in double lose at most n 2^-53 relative: 6e3 * 1e-16.
    EXPECT_NEAR(norm, static_cast<double>(std::sqrt(expected)), 1e-12 * norm);
}

TEST(GlobalNorm, NonFiniteShows) {
    const OddLayout odd;
    std::vector<double> gradients = values(odd.layout.size(), 1.0);
    gradients[3] = nan;
    EXPECT_TRUE(std::isnan(global_norm<double>(Stream{}, gradients, odd.layout)));
}

TEST(ClipFactor, ScalesOnlyWhatIsLonger) {
    EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
    EXPECT_EQ(clip_factor(1.0, 1.0), 1.0);
    EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 0.25);
    EXPECT_DOUBLE_EQ(clip_factor(3.0, 0.5) * 3.0, 0.5);
    EXPECT_EQ(clip_factor(1e9, 0.0), 1.0);  // 0 = no clipping
}

TEST(UpdateRanges, CoverEveryTensorWithItsDecay) {
    const OddLayout odd;
    const std::vector<UpdateRange> ranges = make_update_ranges(odd.layout, 0.1);
    i64 next = 0;
    for (const UpdateRange& range : ranges) {
        EXPECT_EQ(range.first, next);
        next = range.last;
    }
    EXPECT_EQ(next, odd.layout.size());
    for (std::size_t r = 1; r < ranges.size(); ++r) {
        EXPECT_NE(ranges[r].decay, ranges[r - 1].decay) << "neighbours with equal settings are one range";
    }
    for (const LocalTensor& tensor : odd.layout.tensors()) {
        const ParameterGroup group = tensor.parameter->group;
        const bool decays = group == ParameterGroup::matrix || group == ParameterGroup::embedding;
        for (const UpdateRange& range : ranges) {
            if (tensor.offset >= range.first && tensor.offset < range.last) {
                EXPECT_EQ(range.decay, decays ? 0.1 : 0.0) << tensor.parameter->name;
            }
        }
    }
}

TEST(UpdateRanges, FrozenTensorsStayOut) {
    std::vector<Parameter> rows;
    for (i64 id = 0; id < 3; ++id) {
        Parameter row;
        row.id = id;
        row.name = fmt::format("p{}", id);
        row.shape = row.padded_shape = {5};
        row.layer = -1;
        row.frozen = id == 1;
        rows.push_back(row);
    }
    const ParameterTable table(std::move(rows));
    const ParameterLayout layout(table, StageSpan{0, 0, 0, 0, true, true});
    const std::vector<UpdateRange> ranges = make_update_ranges(layout, 0.1);
    ASSERT_EQ(ranges.size(), 2u);
    EXPECT_EQ(ranges[0].last, 5);
    EXPECT_EQ(ranges[1].first, 10);
}

TEST(AdamW, FollowsTheFormulaOverTheWholeLayout) {
    const OddLayout odd;
    OptimizerConfig config;
    config.weight_decay = 0.3;
    const std::vector<UpdateRange> ranges = make_update_ranges(odd.layout, config.weight_decay);
    std::vector<double> w = values(odd.layout.size(), 0.5), m(w.size(), 0), v(w.size(), 0);
    std::vector<double> w_ref = w, m_ref = m, v_ref = v;
    for (i64 t = 0; t < 3; ++t) {
        const std::vector<double> g = values(odd.layout.size(), 1.0 + static_cast<double>(t));
        const double lr = 0.01, clip = 0.7;
        adamw_update<double>(Stream{}, ranges, w, m, v, g, make_scalars(config, lr, clip, t));
        const double c1 = 1 - std::pow(0.9, static_cast<double>(t + 1));
        const double c2 = 1 - std::pow(0.95, static_cast<double>(t + 1));
        for (const LocalTensor& tensor : odd.layout.tensors()) {
            for (i64 i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
                const auto at = static_cast<std::size_t>(i);
                const double gradient = clip * g[at];
                m_ref[at] = 0.9 * m_ref[at] + 0.1 * gradient;
                v_ref[at] = 0.95 * v_ref[at] + 0.05 * gradient * gradient;
                const double decay = 0.3 * tensor.parameter->decay_factor;
                w_ref[at] -= lr * (m_ref[at] / c1 / (std::sqrt(v_ref[at] / c2) + 1e-8) + decay * w_ref[at]);
            }
        }
    }
    for (std::size_t i = 0; i < w.size(); ++i) {
        // A dozen roundings of values below 1 in each of three steps.
        ASSERT_NEAR(w[i], w_ref[i], 1e-14) << i;
        ASSERT_NEAR(m[i], m_ref[i], 1e-14) << i;
        ASSERT_NEAR(v[i], v_ref[i], 1e-14) << i;
    }
}

TEST(Sgd, FollowsTheFormulaWithAndWithoutMomentum) {
    const OddLayout odd;
    for (const double momentum : {0.0, 0.9}) {
        OptimizerConfig config;
        config.momentum = momentum;
        const std::vector<UpdateRange> ranges = make_update_ranges(odd.layout, 0.2);
        std::vector<double> w = values(odd.layout.size(), 0.5), u(momentum > 0 ? w.size() : 0, 0.0);
        std::vector<double> w_ref = w, u_ref(w.size(), 0.0);
        for (i64 t = 0; t < 3; ++t) {
            const std::vector<double> g = values(odd.layout.size(), 1.0 + static_cast<double>(t));
            sgd_update<double>(Stream{}, ranges, w, u, g, make_scalars(config, 0.1, 0.5, t));
            for (const LocalTensor& tensor : odd.layout.tensors()) {
                for (i64 i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
                    const auto at = static_cast<std::size_t>(i);
                    u_ref[at] = momentum * u_ref[at] + 0.5 * g[at];
                    w_ref[at] -= 0.1 * (u_ref[at] + 0.2 * tensor.parameter->decay_factor * w_ref[at]);
                }
            }
        }
        for (std::size_t i = 0; i < w.size(); ++i) {
            ASSERT_NEAR(w[i], w_ref[i], 1e-14) << i;  // a dozen roundings of values of order 1
        }
    }
}

}  // namespace
}  // namespace ogrom
