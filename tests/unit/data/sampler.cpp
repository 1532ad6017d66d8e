// Order of samples: a function of (seed, epoch, number) alone (field case B19), split, cursor, reports.
#include "src/data/sampler.h"

#include <cmath>
#include <map>
#include <set>

#include "src/data/permutation.h"

#include "fixtures.h"

namespace ogrom::data_test {

namespace {

constexpr i64 T = 8;

struct Set {
    Folder folder;
    DataConfig data;
    explicit Set(i64 documents = 1000, i64 length = T) {
        write_set(folder.at("s"), Tokenizer::byte_level(), numbered_documents(documents, length));
        data.train = folder.at("s");
        data.tokenizer = "byte";
        data.seed = 5;
    }
    Sampler open(SplitPart part = SplitPart::train) const { return {data, T, 257, part}; }
};

std::vector<std::int32_t> ids_of(const Sampler& sampler, i64 n) {
    std::vector<std::int32_t> ids;
    sampler.read(n, ids);
    return ids;
}

std::vector<std::vector<std::int32_t>> epoch_of(const Sampler& sampler, i64 epoch) {
    std::vector<std::vector<std::int32_t>> all;
    for (i64 i = 0; i < sampler.samples_per_epoch(); ++i) {
        all.push_back(ids_of(sampler, epoch * sampler.samples_per_epoch() + i));
    }
    return all;
}

TEST(Permutation, VisitsEachOnceAndDependsOnSeedEpochAndUse) {
    for (const i64 size :
         {i64{1}, i64{2}, i64{3}, i64{1000}, Permutation::table_limit, Permutation::table_limit + 1, i64{10007}}) {
        const Permutation p(size, 1, 0, Permutation::Use::documents);
        std::vector<bool> seen(static_cast<std::size_t>(size));
        for (i64 i = 0; i < size; ++i) {
            ASSERT_LT(p(i), size);
            ASSERT_FALSE(seen[p(i)]);
            seen[p(i)] = true;
        }
    }
    for (const i64 size : {i64{1000}, i64{10007}}) {
        const Permutation p(size, 1, 0, Permutation::Use::documents);
        const Permutation others[] = {{size, 2, 0, Permutation::Use::documents},
                                      {size, 1, 1, Permutation::Use::documents},
                                      {size, 1, i64{1} << 32, Permutation::Use::documents},
                                      {size, 1, 0, Permutation::Use::samples}};
        for (const auto& other : others) {
            i64 equal = 0;
            for (i64 i = 0; i < size; ++i) {
                equal += p(i) == other(i) ? 1 : 0;
            }
            EXPECT_LT(equal, 12);  // fixed points of a random permutation are Poisson(1): P(>= 12) < 1e-9
        }
    }
}

TEST(Permutation, PlacesAreUniform) {
    // Where element 0 of 5003 goes over 2000 epochs: mean of a uniform variable within 5 standard errors.
    const i64 size = 5003, epochs = 2000;
    double sum = 0;
    for (i64 epoch = 0; epoch < epochs; ++epoch) {
        sum += static_cast<double>(Permutation(size, 9, epoch, Permutation::Use::samples)(0));
    }
    const double error = static_cast<double>(size) / std::sqrt(12.0 * static_cast<double>(epochs));
    EXPECT_NEAR(sum / static_cast<double>(epochs), static_cast<double>(size - 1) / 2, 5 * error);
}

TEST(Sampler, EachEpochReadsEveryTokenOfTheLineInAnotherOrder) {
    const Set set(200, 11);
    const Sampler sampler = set.open();
    EXPECT_EQ(sampler.tokens(), 2200);
    EXPECT_EQ(sampler.samples_per_epoch(), 2199 / T);
    const auto first = epoch_of(sampler, 0);
    const auto second = epoch_of(sampler, 1);
    EXPECT_NE(first, second);
    for (const auto& epoch : {first, second}) {
        i64 ends = 0;
        for (const auto& sample : epoch) {
            ends += std::count(sample.begin(), sample.end() - 1, 256);
        }
        // One end per document; those in the dropped tail (2200 - 274 * 8 = 8 tokens) hold one at most.
        EXPECT_GE(ends, 199);
        EXPECT_LE(ends, 200);
    }
}

TEST(Sampler, SamplesJoinWithoutLossOfATarget) {
    // One document: no shuffle of documents, so sample i is tokens i*T .. i*T+T of it.
    const Folder folder;
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 100; ++i) {
        ids.push_back(i);
    }
    write_set(folder.at("s"), Tokenizer::byte_level(), {ids});
    DataConfig data;
    data.train = folder.at("s");
    const Sampler sampler(data, T, 257, SplitPart::train);
    ASSERT_EQ(sampler.samples_per_epoch(), 12);  // (101 - 1) / 8
    std::set<std::int32_t> starts;
    for (const auto& sample : epoch_of(sampler, 0)) {
        ASSERT_EQ(sample.size(), static_cast<std::size_t>(T + 1));
        EXPECT_EQ(sample[0] % T, 0);
        for (i64 t = 0; t < T; ++t) {
            EXPECT_EQ(sample[t + 1], sample[t] + 1);
        }
        starts.insert(sample[0]);
    }
    EXPECT_EQ(starts.size(), 12U);
}

TEST(Sampler, FillGivesTheNextTokenAsTarget) {
    const Set set;
    const Sampler sampler = set.open();
    Batch batch = make_batch(3, T);
    std::fill(batch.tokens.begin(), batch.tokens.end(), -77);
    std::fill(batch.targets.begin(), batch.targets.end(), -77);
    for (i64 row : {2, 0, 1, 1}) {
        sampler.fill(40 + row, batch, row);
    }
    for (i64 row = 0; row < 3; ++row) {
        const auto ids = ids_of(sampler, 40 + row);
        EXPECT_EQ(batch.sample_id[row], 40 + row);
        for (i64 t = 0; t < T; ++t) {
            EXPECT_EQ(batch.tokens[row * T + t], ids[t]);
            EXPECT_EQ(batch.targets[row * T + t], ids[t + 1]);
            EXPECT_EQ(batch.loss_mask[row * T + t], 1);
            EXPECT_EQ(batch.positions[row * T + t], t);
        }
    }
    EXPECT_EQ(batch.unmasked, 3 * T);
    EXPECT_TRUE(batch.segments.empty());
}

TEST(Sampler, SeedChoosesTheOrderAndNothingElseDoes) {
    Set set;
    const auto first = epoch_of(set.open(), 0);
    EXPECT_EQ(first, epoch_of(set.open(), 0));
    set.data.seed = 6;
    const auto other = epoch_of(set.open(), 0);
    EXPECT_NE(first, other);
    // Asked out of order and across epochs, a sample is the same.
    set.data.seed = 5;
    const Sampler sampler = set.open();
    const i64 S = sampler.samples_per_epoch();
    const auto late = ids_of(sampler, 7 * S + 3);
    ids_of(sampler, 2);
    ids_of(sampler, 12 * S);
    EXPECT_EQ(ids_of(sampler, 7 * S + 3), late);
    EXPECT_EQ(ids_of(sampler, 0), first[0]);
    EXPECT_EQ(ids_of(sampler, i64{1} << 50).size(), static_cast<std::size_t>(T + 1)) << "epochs x documents > 2^31";
}

TEST(Sampler, CursorIsACountOfSamples) {
    const Set set;
    const Sampler sampler = set.open();
    const i64 S = sampler.samples_per_epoch();
    const Cursor cursor = sampler.cursor(2 * S + 17);
    ASSERT_EQ(cursor.sources.size(), 1U);
    EXPECT_EQ(cursor.sources[0].epoch, 2);
    EXPECT_EQ(cursor.sources[0].consumed, 17);
    EXPECT_EQ(cursor.seed, 5U);
    sampler.check(cursor);
    const auto refused = [&](Cursor changed) {
        return message_of([&] { sampler.check(changed); }, ExitCode::checkpoint);
    };
    Cursor changed = cursor;
    changed.seed = 6;
    EXPECT_SAYS(refused(changed), "data.seed was 6, now 5");
    changed = cursor;
    changed.sources[0].id = "xxh3-128:0";
    EXPECT_SAYS(refused(changed), "saved for token set xxh3-128:0");
    changed = cursor;
    changed.version = 2;
    EXPECT_SAYS(refused(changed), "cursor version 2");
    changed = cursor;
    changed.sources.push_back(changed.sources[0]);
    EXPECT_SAYS(refused(changed), "2 sources");
    changed = cursor;
    changed.sources[0].consumed = 16;
    EXPECT_SAYS(refused(changed), "epoch 2, sample 16");
    const Sampler longer(set.data, 2 * T, 257, SplitPart::train);
    EXPECT_SAYS(message_of([&] { longer.check(cursor); }, ExitCode::checkpoint), "another train.sequence");
}

TEST(Sampler, FractionHoldsOutWholeDocuments) {
    Set set;
    set.data.valid_fraction = 0.1;
    const Sampler train = set.open();
    const Sampler valid = set.open(SplitPart::valid);
    EXPECT_EQ(train.documents() + valid.documents(), 1000);
    EXPECT_NEAR(static_cast<double>(valid.documents()), 100, 5 * std::sqrt(90.0));  // 5 binomial standard deviations
    EXPECT_EQ(train.tokens() + valid.tokens(), 1000 * T);
    const auto held_out = epoch_of(valid, 0);
    EXPECT_EQ(held_out, epoch_of(valid, 1)) << "the held-out part has one fixed order";
    set.data.seed = 77;
    EXPECT_EQ(held_out, epoch_of(set.open(SplitPart::valid), 0)) << "whatever the seed";
    // File order: document numbers ascend; ids 0 and 1 of a document spell its number.
    std::vector<std::int32_t> line;
    for (const auto& sample : held_out) {
        line.insert(line.end(), sample.begin(), sample.end() - 1);
    }
    i64 last = -1;
    for (std::size_t i = 0; i + 1 < line.size(); i += T) {
        const i64 number = line[i] + 256 * line[i + 1];
        EXPECT_GT(number, last);
        last = number;
    }
}

TEST(Sampler, RefusesWhatDoesNotFit) {
    Set set(2, 4);
    EXPECT_SAYS(message_of([&] { set.open(); }), "2 documents with 8 tokens; one sample needs 9");
    EXPECT_SAYS(message_of([&] { set.open(SplitPart::valid); }, ExitCode::usage), "no held-out data");
    const Set good;
    EXPECT_SAYS(message_of([&] { Sampler(good.data, T, 256, SplitPart::train); }), "model's vocabulary is 256");
    const Folder folder;
    auto data = good.data;
    data.tokenizer = folder.write("other.json", "{}");
    EXPECT_SAYS(message_of([&] { Sampler(data, T, 257, SplitPart::train); }), "other.json");
    data.train = folder.at("nowhere");
    EXPECT_SAYS(message_of([&] { Sampler(data, T, 257, SplitPart::train); }),
                "nowhere.idx does not exist: no token set");
}

TEST(Sampler, EmptyDocumentsAreLeftOutAndCounted) {
    const Folder folder;
    RawIndex index;
    index.lengths = {5, 0, 7, 0};
    index.documents = {0, 1, 2, 3, 4};
    folder.write("s.idx", index.bytes());
    folder.write("s.bin", std::string(24, '\1'));
    DataConfig data;
    data.train = folder.at("s");
    const Sampler sampler(data, T, 65536, SplitPart::train);
    EXPECT_EQ(sampler.documents(), 2);
    EXPECT_EQ(sampler.tokens(), 12);
    std::string report;
    for (const auto& line : sampler.report()) {
        report += line + "\n";
    }
    EXPECT_SAYS(report, "2 empty documents left out");
    EXPECT_SAYS(report, "no .json record");
    EXPECT_SAYS(report, "the last 3 tokens of an epoch fill no sample");
    EXPECT_SAYS(sampler.coverage(10, 4), "an epoch has only 1 samples");
    EXPECT_EQ(ids_of(sampler, 5).size(), 9U);
}

TEST(Sampler, UnigramEntropy) {
    const Folder folder;
    write_set(folder.at("s"), Tokenizer::byte_level(), {{1, 1, 1, 1, 2, 2, 3}});
    DataConfig data;
    data.train = folder.at("s");
    const Sampler sampler(data, 4, 257, SplitPart::train);
    // Targets of the only sample: 1 1 1 2.
    const double exact = 0.75 * std::log(4.0 / 3.0) + 0.25 * std::log(4.0);
    EXPECT_NEAR(sampler.unigram_entropy(1), exact, 1e-15 * 8);  // a few roundings of values below 2
}

}  // namespace

}  // namespace ogrom::data_test
