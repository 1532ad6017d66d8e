// A folder of Hugging Face's form read straight into the ranks of any layout, and what of it does not fit.
#include "src/io/hf_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/io/hf_gpt2.h"

#include "tests/unit/io/layouts.h"
#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;
using test::MeshCase;
using test::MeshRank;

const std::vector<MeshCase> meshes = {
    {},
    {.dp = 5, .zero = 3},
    {.tp = 2},
    {.dp = 3, .tp = 2, .zero = 3},
    {.pp = 2, .tp = 2},
    {.pp = 1, .dp = 2, .tp = 1, .zero = 1, .group = 0, .chunks = 3},
    {.pp = 2, .dp = 4, .tp = 2, .zero = 3, .group = 2},
};

// odd_model in the files of a folder, and its weight hash.
u64 write_odd(const Folder& folder, bool tied, Dtype type, i64 shard_bytes) {
    const std::string step = test::save_mesh<double>(folder.path("saved"), {}, tied);
    export_hf(step, folder.path("hf"), type, shard_bytes);
    return read_header(step).weight_hash;
}

template <class T>
i64 bytes_of(const std::vector<HeldRange<T>>& ranges, const ParameterLayout& layout) {
    i64 elements = 0;
    for (const HeldRange<T>& range : ranges) {
        for (const TensorPiece& piece : pieces(layout, range.flat, Copies::all)) {
            elements += piece.count();
        }
    }
    return elements * static_cast<i64>(sizeof(T));
}

template <class T>
void expect_fills(const HfFolder& folder, const MeshCase& mesh, bool tied) {
    const ModelConfig model = test::odd_model(tied);
    const ParameterTable table = make_parameters(model, dtype_of<T>());
    const auto alone = make_single_communicator();
    for (int rank = 0; rank < mesh.size(); ++rank) {
        MeshRank<T> one(table, model, mesh, rank);
        one.poison();
        const std::vector<HeldRange<T>>& ranges = one.held().front().ranges;
        const LoadReport report = load_weights<T>(*alone, folder, one.layout, ranges);
        EXPECT_EQ(one.wrong(MeshRank<T>::Groups::weights), 0) << mesh.text() << " rank " << rank;
        EXPECT_EQ(report.bytes_read, bytes_of(ranges, one.layout)) << "reads only what it needs";
    }
}

// Values up to 2^21 are exact in fp32; the vocabulary of 509 gets its padding anew (B59).
TEST(HfFolder, FillsTheRanksOfEveryLayout) {
    for (const bool tied : {true, false}) {
        for (const Dtype type : {Dtype::fp32, Dtype::fp64}) {
            const Folder folder;
            write_odd(folder, tied, type, tied ? i64{1} << 40 : 100'000);
            HfFolder source(folder.path("hf"));
            ASSERT_EQ(source.match(test::odd_model(tied), "in the model"), std::vector<std::string>());
            EXPECT_EQ(source.type(), type);
            for (const MeshCase& mesh : meshes) {
                SCOPED_TRACE(fmt::format("{} {} {}", mesh.text(), tied, name_of(type)));
                expect_fills<double>(source, mesh, tied);
                if (type == Dtype::fp32) {
                    expect_fills<float>(source, mesh, tied);
                }
            }
        }
    }
}

// Whatever model asks, the tensors that fit are read, the others named and left as they are.
TEST(HfFolder, NamesWhatDoesNotFitAndLeavesItAlone) {
    const Folder folder;
    write_odd(folder, true, Dtype::fp32, i64{1} << 40);
    ModelConfig model = test::odd_model(false);
    model.layers = 2;
    model.sequence = 14;
    HfFolder source(folder.path("hf"));
    const std::vector<std::string> misfits = source.match(model, "in the model");
    ASSERT_EQ(misfits.size(), 14u);
    EXPECT_EQ(misfits[0], "does not fit: transformer.wpe.weight: shape [13, 60] in the file, [14, 60] in the model");
    EXPECT_EQ(misfits[1], "missing: lm_head.weight");
    EXPECT_EQ(misfits[2], "unexpected: transformer.h.2.attn.c_attn.bias");
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const ParameterLayout layout(table, StageSpan{0, 0, 0, model.layers, true, true});
    std::vector<float> flat(static_cast<std::size_t>(layout.size()), -1);
    load_weights<float>(*make_single_communicator(), source, layout, {{{0, layout.size()}, flat.data()}});
    for (const LocalTensor& tensor : layout.tensors()) {
        const std::string& name = tensor.parameter->name;
        const bool left = name == "embedding.position.weight" || name == "head.weight";
        EXPECT_EQ(source.holds(name), !left) << name;
        EXPECT_EQ(flat[static_cast<std::size_t>(tensor.offset + tensor.logical - 1)] == -1, left) << name;
    }
}

// B62: both names of a tied table with other values are found by the rank whose share they lie in, and end all.
TEST(HfFolder, EveryRankHearsOfUnequalTwins) {
    const Folder folder;
    write_odd(folder, false, Dtype::fp32, i64{1} << 40);
    const std::string config = folder.path("hf/config.json");
    std::string text = read_file(config, 1 << 20, ExitCode::data);
    const std::string no = "\"tie_word_embeddings\": false";
    text.replace(text.find(no), no.size(), "\"tie_word_embeddings\": true");
    write_file_atomic(config, text);
    const ModelConfig model = test::odd_model(true);
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    std::vector<std::string> faults;
    test::as_ranks(
        2,
        [&](Communicator& world) {
            MeshRank<float> one(table, model, {.tp = 2}, world.rank());
            HfFolder source(folder.path("hf"));
            EXPECT_EQ(source.match(model, "in the model"), std::vector<std::string>());
            load_weights<float>(world, source, one.layout, one.held().front().ranges);
        },
        &faults);
    ASSERT_EQ(faults.size(), 2u);
    for (const std::string& fault : faults) {
        EXPECT_NE(fault.find("wte.weight\" and \"lm_head.weight\" differ"), std::string::npos) << fault;
    }
}

}  // namespace
}  // namespace ogrom
