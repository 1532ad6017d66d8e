#include "src/io/checkpoint_mapping.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <system_error>
#include <unistd.h>

#include "kernels/common/fault.h"

#include "src/base/file.h"

namespace ogrom {

namespace {

[[noreturn]] void unreadable(const std::string& path, const char* action, int number) {
    throw FileError(
        ExitCode::checkpoint,
        fmt::format("{}: cannot be {}: {} (errno {})", path, action, std::generic_category().message(number), number),
        number);
}

// The common rectangle of both; rows = 0 where there is none.
TensorPiece common(const TensorPiece& a, const TensorPiece& b) {
    TensorPiece both;
    both.row = std::max(a.row, b.row);
    both.col = std::max(a.col, b.col);
    both.rows = std::max<i64>(0, std::min(a.row + a.rows, b.row + b.rows) - both.row);
    both.cols = std::max<i64>(0, std::min(a.col + a.cols, b.col + b.cols) - both.col);
    both.rows = both.cols > 0 ? both.rows : 0;
    return both;
}

// Text that HDF5 hands out in two calls: its length, then itself. Empty where it is longer than a name may be.
template <class Ask>
std::string name_from(const Ask& ask) {
    std::array<char, 128> name{};
    const ssize_t length = ask(name.data(), name.size());
    return length > 0 && length < static_cast<ssize_t>(name.size()) ? std::string(name.data()) : std::string();
}

// Where the values of a part's dataset begin in its file, and how many there are; nothing unless they stand there as
// they do in memory.
struct Stored {
    i64 offset = 0, elements = 0;
};
std::optional<Stored> stored_values(const std::string& path, const std::string& item, Dtype type) {
    const h5::File file = h5::open_read(path);
    if (!h5::has_link(file.get(), item)) {
        return std::nullopt;
    }
    const h5::Dataset dataset = h5::open_dataset(file.get(), item, path);
    const h5::Type stored(h5::check(H5Dget_type(dataset.get()), path, item));
    const h5::Properties creation(h5::check(H5Dget_create_plist(dataset.get()), path, item));
    const h5::Properties file_creation(h5::check(H5Fget_create_plist(file.get()), path, item));
    hsize_t user_block = 0;
    const bool plain = H5Tequal(stored.get(), h5::memory_type(type)) > 0 &&
                       H5Pget_layout(creation.get()) == H5D_CONTIGUOUS && H5Pget_external_count(creation.get()) == 0 &&
                       H5Pget_userblock(file_creation.get(), &user_block) >= 0 && user_block == 0;
    const haddr_t offset = plain ? H5Dget_offset(dataset.get()) : HADDR_UNDEF;
    if (offset == HADDR_UNDEF) {
        return std::nullopt;
    }
    i64 elements = 1;
    for (const i64 extent : h5::shape(dataset.get(), path, item)) {
        if (__builtin_mul_overflow(elements, extent, &elements)) {
            return std::nullopt;
        }
    }
    return Stored{static_cast<i64>(offset), elements};
}

// A file that is read at places.
class PartFile {
public:
    explicit PartFile(std::string path)
        : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
        if (!file_) {
            unreadable(path_, "opened", errno);
        }
    }
    void expect(i64 offset, i64 bytes) const {  // a hint
        (void)::posix_fadvise(file_.get(), offset, bytes, POSIX_FADV_WILLNEED);
    }
    void read(i64 offset, std::byte* to, i64 bytes) const {
        while (bytes > 0) {
            const ssize_t got = ::pread(file_.get(), to, static_cast<std::size_t>(bytes), offset);
            if (got < 0 && errno != EINTR) {
                unreadable(path_, "read", errno);
            }
            require(got != 0, ExitCode::checkpoint, path_ + ": ends early");
            const i64 step = std::max<i64>(got, 0);
            offset += step;
            to += step;
            bytes -= step;
        }
    }

private:
    std::string path_;
    FileDescriptor file_;
};

// Rows of `part` out of `mapped`, whose values begin at `offset`, to their places in `wanted`.
void copy_rows(const PartFile& file, i64 offset, const TensorPiece& mapped, const TensorPiece& part,
               const TensorPiece& wanted, i64 width, std::byte* to) {
    const auto source = [&](i64 row) {
        const i64 column = fault_active("mapped_column_ignored") ? 0 : part.col - mapped.col;
        return offset + ((row - mapped.row) * mapped.cols + column) * width;
    };
    const auto target = [&](i64 row) {
        return to + ((row - wanted.row) * wanted.cols + part.col - wanted.col) * width;
    };
    const i64 last = part.row + part.rows;
    if (part.cols == mapped.cols && part.cols == wanted.cols) {
        file.read(source(part.row), target(part.row), part.count() * width);
        return;
    }
    // Columns of neighbouring rows: the disk is asked for stretches, each row is taken out of the page cache.
    constexpr i64 stretch = i64{8} << 20;
    const i64 rows = std::max<i64>(1, stretch / (mapped.cols * width));
    for (i64 row = part.row; row < last; ++row) {
        if ((row - part.row) % rows == 0) {
            file.expect(source(row), (std::min(last - row, rows) * mapped.cols) * width);
        }
        file.read(source(row), target(row), part.cols * width);
    }
}

}  // namespace

std::optional<Box> box_of(hid_t space) {
    std::array<hsize_t, 2> extents{}, start{}, stride{}, count{}, block{};
    const int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 1 || rank > 2 || H5Sget_simple_extent_dims(space, extents.data(), nullptr) != rank) {
        return std::nullopt;
    }
    if (H5Sget_select_type(space) == H5S_SEL_ALL) {
        count = extents;
        block = {1, 1};
    } else if (H5Sget_select_type(space) != H5S_SEL_HYPERSLABS || H5Sis_regular_hyperslab(space) <= 0 ||
               H5Sget_regular_hyperslab(space, start.data(), stride.data(), count.data(), block.data()) < 0) {
        return std::nullopt;
    }
    Box box;
    box.extents.assign(extents.begin(), extents.begin() + rank);
    for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
        const bool dense = count[i] == 1 || stride[i] == block[i] || H5Sget_select_type(space) == H5S_SEL_ALL;
        if (!dense || count[i] == 0 || block[i] == 0 || start[i] >= extents[i] ||
            block[i] > (extents[i] - start[i]) / count[i]) {
            return std::nullopt;
        }
        box.first.push_back(static_cast<i64>(start[i]));
        box.length.push_back(static_cast<i64>(count[i] * block[i]));
    }
    return box;
}

TensorPiece Box::as_piece() const {
    const bool flat = first.size() == 1;
    return {0, first[0], flat ? 0 : first[1], length[0], flat ? 1 : length[1], 0};
}

std::optional<std::vector<MappedPiece>> mappings_within(hid_t dataset, const TensorPiece& wanted,
                                                        const std::string& file, const std::string& item) {
    const h5::Properties creation(h5::check(H5Dget_create_plist(dataset), file, item));
    std::size_t count = 0;
    if (H5Pget_layout(creation.get()) != H5D_VIRTUAL || H5Pget_virtual_count(creation.get(), &count) < 0) {
        return std::nullopt;
    }
    std::vector<MappedPiece> found;
    for (std::size_t i = 0; i < count; ++i) {
        const h5::Space there(h5::check(H5Pget_virtual_vspace(creation.get(), i), file, item));
        const std::optional<Box> box = box_of(there.get());
        if (!box) {
            return std::nullopt;
        }
        TensorPiece block = box->as_piece();
        if (common(block, wanted).rows == 0) {
            continue;
        }
        const h5::Space from(h5::check(H5Pget_virtual_srcspace(creation.get(), i), file, item));
        const std::optional<Box> values = box_of(from.get());
        MappedPiece piece;
        piece.part =
            name_from([&](char* to, std::size_t n) { return H5Pget_virtual_filename(creation.get(), i, to, n); });
        piece.dataset =
            name_from([&](char* to, std::size_t n) { return H5Pget_virtual_dsetname(creation.get(), i, to, n); });
        const bool plain = !piece.part.empty() && piece.part.find('/') == std::string::npos && !piece.dataset.empty();
        if (!plain || !values || values->first.size() != 1 || values->length[0] != block.count()) {
            return std::nullopt;
        }
        block.source = values->first[0];
        piece.block = block;
        found.push_back(std::move(piece));
    }
    return found;
}

bool read_mapped(hid_t dataset, const std::string& file, const std::string& item, const TensorPiece& wanted, Dtype type,
                 std::byte* to) {
    const h5::Type stored(h5::check(H5Dget_type(dataset), file, item));
    if (H5Tequal(stored.get(), h5::memory_type(type)) <= 0) {
        return false;
    }
    const std::optional<std::vector<MappedPiece>> mapped = mappings_within(dataset, wanted, file, item);
    if (!mapped) {
        return false;
    }
    const i64 width = size_of(type);
    i64 filled = 0;
    for (const MappedPiece& piece : *mapped) {
        const std::string path = join_path(parent_path(file), piece.part);
        const std::optional<Stored> values = stored_values(path, piece.dataset, type);
        if (!values || piece.block.source > values->elements - piece.block.count()) {
            return false;
        }
        const TensorPiece part = common(piece.block, wanted);
        copy_rows(PartFile(path), values->offset + piece.block.source * width, piece.block, part, wanted, width, to);
        filled += part.count();
    }
    return filled == wanted.count();
}

bool is_virtual(hid_t dataset, const std::string& file, const std::string& item) {
    const h5::Properties creation(h5::check(H5Dget_create_plist(dataset), file, item));
    return H5Pget_layout(creation.get()) == H5D_VIRTUAL;
}

namespace {

template <class From, class To>
void turn(const std::vector<std::byte>& from, i64 count, std::byte* to) {
    for (i64 i = 0; i < count; ++i) {
        From value;
        std::memcpy(&value, from.data() + i * static_cast<i64>(sizeof value), sizeof value);
        const To turned = static_cast<To>(value);
        std::memcpy(to + i * static_cast<i64>(sizeof turned), &turned, sizeof turned);
    }
}

}  // namespace

void read_virtual(hid_t dataset, const std::string& file, const std::string& item, const TensorPiece& wanted,
                  Dtype type, std::byte* to) {
    const h5::Type stored(h5::check(H5Dget_type(dataset), file, item));
    const auto holds = [&](Dtype one) { return H5Tequal(stored.get(), h5::memory_type(one)) > 0; };
    const auto refuse = [&] {
        fail(ExitCode::checkpoint,
             fmt::format("{}: {}: the parts do not hold it in the form that a save has", file, item));
    };
    if (holds(type)) {
        if (!read_mapped(dataset, file, item, wanted, type, to)) {
            refuse();
        }
        return;
    }
    const Dtype other = type == Dtype::fp64 ? Dtype::fp32 : Dtype::fp64;
    if (!holds(other)) {
        refuse();
    }
    constexpr i64 most = i64{1} << 18;  // elements at a time
    const i64 step = std::max<i64>(1, most / std::max<i64>(1, wanted.cols));
    std::vector<std::byte> values(static_cast<std::size_t>(std::min(step, wanted.rows) * wanted.cols * size_of(other)));
    for (i64 row = 0; row < wanted.rows; row += step) {
        TensorPiece rows = wanted;
        rows.row += row;
        rows.rows = std::min(step, wanted.rows - row);
        if (!read_mapped(dataset, file, item, rows, other, values.data())) {
            refuse();
        }
        std::byte* const at = to + row * wanted.cols * size_of(type);
        type == Dtype::fp64 ? turn<float, double>(values, rows.count(), at)
                            : turn<double, float>(values, rows.count(), at);
    }
}

}  // namespace ogrom
