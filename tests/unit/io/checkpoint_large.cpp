// Field case B23: tensors past 2^31 bytes and past 2^31 elements. The part is a sparse file: HDF5's own bytes, and a
// few values where a 32-bit offset or count would miss them; nothing of the size is held or written.
#include <algorithm>
#include <cmath>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "src/io/checkpoint_load.h"
#include "src/io/checkpoint_write.h"
#include "src/io/hdf5_image.h"
#include "src/io/io_thread.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;

ModelConfig large_model() {
    ModelConfig model;
    model.layers = 1;
    model.hidden = 2700;
    model.heads = model.kv_heads = 27;
    model.head_dim = 100;
    model.ffn_hidden = 4 * model.hidden;
    model.vocab = model.padded_vocab = 1'000'001;
    model.sequence = 8;
    model.tied = false;
    return model;
}

// What one writer of all weights and one moment would write; its memory is never looked at.
Part part_of(const ParameterLayout& layout) {
    static const std::byte somewhere{};
    Part part{Dtype::fp32, {}};
    for (const char* name : {"weights", "moment1"}) {
        PartGroup group{name, pieces(layout, {0, layout.size()}), {}};
        group.memory.assign(group.pieces.size(), &somewhere);
        part.groups.push_back(std::move(group));
    }
    return part;
}

// An image on the disk without the data between its own bytes.
class SparseFile {
public:
    SparseFile(const std::string& path, const PlannedFile& planned)
        : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)) {
        EXPECT_EQ(::ftruncate(descriptor_, planned.bytes()), 0);
        i64 at = 0;
        for (const Placed& data : planned.placed) {
            copy(*planned.image, at, data.offset);
            at = data.offset + static_cast<i64>(data.bytes.size());
        }
        copy(*planned.image, at, planned.bytes());
    }
    ~SparseFile() { ::close(descriptor_); }
    SparseFile(const SparseFile&) = delete;
    SparseFile& operator=(const SparseFile&) = delete;
    void put(i64 offset, const void* bytes, std::size_t count) const {
        EXPECT_EQ(::pwrite(descriptor_, bytes, count, offset), static_cast<ssize_t>(count));
    }

private:
    void copy(const h5::Image& image, i64 first, i64 last) const {
        std::vector<std::byte> bytes(static_cast<std::size_t>(last - first));
        ASSERT_LT(bytes.size(), 1u << 24);
        image.fetch(static_cast<u64>(first), bytes.data(), bytes.size());
        put(first, bytes.data(), bytes.size());
    }
    int descriptor_;
};

float marker(std::size_t group, i64 element) {
    return static_cast<float>(element % 9973 + 1) + (group == 0 ? 0.25f : 0.5f);
}

TEST(CheckpointLarge, B23TensorsPastTwoToThe31AreReadBySlices) {
    const ModelConfig model = large_model();
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const ParameterLayout layout(table, StageSpan{.first_layer = 0, .last_layer = model.layers});
    const Part part = part_of(layout);
    Placement placement(table.rows());
    unpack(pack(part), 0, placement);
    placement.require_whole();
    const Folder folder;
    const PlannedFile planned = on_io_thread([&] { return lay_out_part(part, 0); });
    EXPECT_GE(planned.bytes(), 8 * table.count());
    on_io_thread(
        [&] { write_file({}, folder.path(), lay_out_master(placement, Dtype::fp32, test::small_header(1), model)); });
    // Neighbouring memory joins to one write of a group; here all have one address, and each piece stands alone.
    ASSERT_EQ(planned.placed.size(), 2 * part.groups[0].pieces.size());
    const SparseFile file(folder.path(part_name(0)), planned);

    const Parameter& tensor = table.row("head.weight");  // 2.7e9 elements behind as many
    ASSERT_GT(tensor.count(), i64{1} << 31);
    const i64 columns = model.hidden, last = tensor.count() - 1;
    const std::vector<i64> elements = {0, (i64{1} << 29) - 1, i64{1} << 29, (i64{1} << 30) + 1, i64{1} << 31, last};
    for (std::size_t i = 0; i < planned.placed.size(); ++i) {
        const std::size_t group = i / part.groups[0].pieces.size();
        if (part.groups[group].pieces[i % part.groups[0].pieces.size()].tensor == tensor.id) {
            for (const i64 element : elements) {
                const float value = marker(group, element);
                file.put(planned.placed[i].offset + 4 * element, &value, sizeof value);
            }
        }
    }
    for (std::size_t group = 0; group < 2; ++group) {
        for (const i64 element : elements) {
            std::vector<float> row(static_cast<std::size_t>(columns), NAN);
            on_io_thread([&] {
                const std::string path = folder.path(master_name);
                const std::string item = "/" + part.groups[group].name + "/" + tensor.name;
                const h5::File master = h5::open_read(path);
                const h5::Dataset dataset = h5::open_dataset(master.get(), item, path);
                read_piece(dataset.get(), path, item, tensor, {tensor.id, element / columns, 0, 1, columns, 0},
                           Dtype::fp32, reinterpret_cast<std::byte*>(row.data()));
            });
            for (i64 column = 0; column < columns; ++column) {
                const i64 at = element / columns * columns + column;
                const bool marked = std::find(elements.begin(), elements.end(), at) != elements.end();
                ASSERT_EQ(row[static_cast<std::size_t>(column)], marked ? marker(group, at) : 0.0f)
                    << part.groups[group].name << " element " << at;
            }
        }
    }
}

// Ranges of writers over 2^40 elements: even, without a gap, and each a few pieces of a tensor.
TEST(CheckpointLarge, B23WritersShareTwoToThe40Elements) {
    const i64 total = (i64{1} << 40) + 12345, columns = 12288;
    i64 at = 0;
    for (int writer = 0; writer < 1024; ++writer) {
        const FlatRange range = writer_range(total, writer, 1024);
        ASSERT_EQ(range.first, at);
        at = range.last;
        i64 covered = 0;
        for (const TensorPiece& piece : row_blocks(columns, range.first, range.last)) {
            ASSERT_EQ(piece.row * columns + piece.col, range.first + covered);
            ASSERT_EQ(piece.source, covered);
            covered += piece.count();
        }
        ASSERT_EQ(covered, range.count());
    }
    EXPECT_EQ(at, total);
}

}  // namespace
}  // namespace ogrom
