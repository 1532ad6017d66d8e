// In deterministic mode the bits do not depend on how gradients are cut into
// buckets, nor on whether they are reduced while the backward pass goes on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/equivalence/tiny.h"

namespace ogrom::test {
namespace {

// Small enough that buckets of one element are possible: 2,500 parameters.
std::vector<std::string> small_model(i64 bucket_bytes, const char* overlap) {
    return {"model.layers=1",
            "model.hidden=12",
            "model.heads=2",
            "model.vocab=37",
            "model.vocab_multiple=8",
            "model.sequence=8",
            "train.sequence=8",
            fmt::format("comm.overlap={}", overlap),
            fmt::format("comm.bucket_mib={:.12f}", static_cast<double>(bucket_bytes) / (1024.0 * 1024.0))};
}

template <class T>
void expect_same_bits(const char* compute, i64 element) {
    const i64 dp = session().size();
    const auto train = [&](i64 elements, const char* overlap) {
        std::vector<std::string> overrides = small_model(elements * element, overlap);
        overrides.emplace_back(fmt::format("numerics.compute={}", compute));
        const RunConfig run = tiny_run(dp, {1, 12 / dp}, overrides);
        return train_over<T>(session().world(), run, {.steps = 3});
    };
    const History<T> whole = train(1 << 20, "false");
    for (const i64 elements : {1, 7, 37 * 12, 1 << 20}) {
        for (const char* overlap : {"true", "false"}) {
            const History<T> cut = train(elements, overlap);
            EXPECT_EQ(cut.losses, whole.losses) << elements << " elements, overlap " << overlap;
            EXPECT_EQ(cut.norms, whole.norms) << elements << " elements, overlap " << overlap;
            EXPECT_EQ(cut.weights, whole.weights) << elements << " elements, overlap " << overlap;
        }
    }
}

TEST(Buckets, AnySizeGivesTheSameBitsInSingle) {
    expect_same_bits<float>("fp32", 4);
}
TEST(Buckets, AnySizeGivesTheSameBitsInDouble) {
    expect_same_bits<double>("fp64", 8);
}

// All ranks hold the same weights, bit for bit, after some steps (replicas must
// not drift).
TEST(Buckets, ReplicasStayEqual) {
    const RunConfig run = tiny_run(session().size(), {3, 1}, {"numerics.compute=fp32", "numerics.deterministic=false"});
    const auto engine = make_engine<float>(session().world(), run);
    for (i64 step = 0; step < 5; ++step) {
        const std::vector<Batch> batches = make_batches(run, session().rank(), step);
        train_step<float>(*engine, batches, agree_control(engine->mesh, batches, Wish::go_on).targets);
    }
    const std::span<const float> weights = weights_of(*engine);
    const u64 hash = weight_hash<float>(weights, engine->layout);
    const std::vector<std::string> all = gather_text(session().world(), fmt::format("{:016x}", hash), "hashes");
    for (const std::string& other : all) {
        EXPECT_EQ(other, all[0]);
    }
}

}  // namespace
}  // namespace ogrom::test
