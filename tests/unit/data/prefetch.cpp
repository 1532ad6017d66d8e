// The sequence of samples over ranks, accumulation and restarts (field case B19).
#include <map>

#include "fixtures.h"

namespace ogrom::data_test {

namespace {

constexpr i64 T = 8;
constexpr i64 global_batch = 8;

struct Layout {
    i64 dp, accumulation;
};

TrainConfig train_of(const Layout& layout) {
    TrainConfig train;
    train.steps = 1000;
    train.sequence = T;
    train.global_batch = global_batch;
    train.accumulation = layout.accumulation;
    train.micro_batch = global_batch / (layout.dp * layout.accumulation);
    return train;
}

struct Row {
    i64 id;
    std::vector<std::int32_t> tokens;
    bool operator==(const Row&) const = default;
};
using Sequence = std::map<std::pair<i64, i64>, Row>;  // (step, sample of the step)

void run(const Sampler& sampler, const Layout& layout, i64 first, i64 last, Sequence& seen) {
    for (i64 rank = 0; rank < layout.dp; ++rank) {
        Prefetch prefetch(sampler, train_of(layout), rank, first);
        for (i64 step = first; step < last; ++step) {
            const auto batches = prefetch.next(step);
            ASSERT_EQ(static_cast<i64>(batches.size()), layout.accumulation);
            for (const auto& batch : batches) {
                EXPECT_EQ(batch.unmasked, batch.B * T);
                for (i64 row = 0; row < batch.B; ++row) {
                    const auto begin = batch.tokens.begin() + row * T;
                    const bool fresh =
                        seen.emplace(std::pair(step, batch.sample[row]), Row{batch.sample_id[row], {begin, begin + T}})
                            .second;
                    EXPECT_TRUE(fresh) << "sample " << batch.sample[row] << " of step " << step << " came twice";
                }
            }
        }
    }
}

class PrefetchTest : public testing::Test {
protected:
    PrefetchTest() {
        write_set(folder_.at("s"), Tokenizer::byte_level(), numbered_documents(1000, T));
        data_.train = folder_.at("s");
        data_.seed = 3;
    }
    Folder folder_;
    DataConfig data_;
};

TEST_F(PrefetchTest, OneSequenceUnderEveryLayoutAcrossEpochs) {
    const Sampler sampler(data_, T, 257, SplitPart::train);
    const i64 S = sampler.samples_per_epoch();
    const i64 first = S / global_batch - 3, last = first + 8;  // the epoch ends inside
    Sequence straight;
    run(sampler, {1, 1}, first, last, straight);
    ASSERT_EQ(static_cast<i64>(straight.size()), (last - first) * global_batch);
    for (const auto& [place, row] : straight) {
        EXPECT_EQ(row.id, place.first * global_batch + place.second);
        std::vector<std::int32_t> ids;
        sampler.read(row.id, ids);
        ids.pop_back();
        EXPECT_EQ(row.tokens, ids);
    }
    for (const Layout layout : {Layout{1, 4}, Layout{2, 1}, Layout{2, 2}, Layout{4, 2}, Layout{8, 1}, Layout{1, 8}}) {
        Sequence other;
        run(sampler, layout, first, last, other);
        EXPECT_EQ(straight, other) << "dp " << layout.dp << ", accumulation " << layout.accumulation;
    }
}

TEST_F(PrefetchTest, MicroBatchesOfARankAreNeighbours) {
    const Sampler sampler(data_, T, 257, SplitPart::train);
    Prefetch prefetch(sampler, train_of({2, 2}), 1, 0);
    const auto batches = prefetch.next(0);
    ASSERT_EQ(batches.size(), 2U);
    EXPECT_EQ(batches[0].sample, (std::vector<i64>{4, 5}));
    EXPECT_EQ(batches[1].sample, (std::vector<i64>{6, 7}));
}

TEST_F(PrefetchTest, ResumeUnderAnotherLayoutReadsOn) {
    Sequence straight, pieces;
    {
        const Sampler sampler(data_, T, 257, SplitPart::train);
        run(sampler, {4, 1}, 0, 20, straight);
    }
    // dp 4 -> 2 -> 4 with other accumulations, a new sampler at each start, batches left unread in the queue.
    const struct {
        Layout layout;
        i64 first, last;
    } runs[] = {{{4, 2}, 0, 7}, {{2, 4}, 7, 13}, {{4, 1}, 13, 20}};
    for (const auto& part : runs) {
        const Sampler sampler(data_, T, 257, SplitPart::train);
        sampler.check(sampler.cursor(part.first * global_batch));
        run(sampler, part.layout, part.first, part.last, pieces);
    }
    EXPECT_EQ(straight, pieces);
}

TEST_F(PrefetchTest, FaultsReachTheCallerAndTheThreadEnds) {
    RawIndex index;
    index.lengths = {100};
    index.documents = {0, 1};
    folder_.write("bad.idx", index.bytes());
    folder_.write("bad.bin", std::string(200, '\2'));  // every id is 0x0202 = 514
    data_.train = folder_.at("bad");
    const Sampler sampler(data_, T, 257, SplitPart::train);
    Prefetch prefetch(sampler, train_of({1, 1}), 0, 0);
    EXPECT_SAYS(message_of([&] { prefetch.next(0); }), "id 514 is outside");
    EXPECT_GE(prefetch.waited_s(), 0.0);
}

TEST_F(PrefetchTest, StepsComeInOrderOnly) {
    const Sampler sampler(data_, T, 257, SplitPart::train);
    Prefetch prefetch(sampler, train_of({1, 2}), 0, 5);
    EXPECT_SAYS(message_of([&] { prefetch.next(6); }, ExitCode::peer), "broken promise");
    EXPECT_EQ(prefetch.next(5)[0].sample_id[0], 5 * global_batch);
}

}  // namespace

}  // namespace ogrom::data_test
