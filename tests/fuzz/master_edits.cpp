// checkpoint.h5 as somebody with HDF5 could make it: well formed, of any content, under a manifest that agrees with it.
// Input: a list of edits of the small checkpoint, a few bytes each, so that no input stops at HDF5's own checks.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "src/base/file.h"
#include "src/io/hdf5.h"
#include "src/io/io_thread.h"
#include "src/io/manifest.h"

#include "tests/fuzz/small_checkpoint.h"
#include "tests/fuzz/support.h"

namespace ogrom::fuzz {
namespace {

constexpr std::size_t most_edits = 16;

class Input {
public:
    explicit Input(std::string_view bytes) : bytes_(bytes) {}
    [[nodiscard]] bool empty() const { return bytes_.empty(); }
    std::size_t below(std::size_t end) {
        if (bytes_.empty()) {
            return 0;
        }
        const auto byte = static_cast<unsigned char>(bytes_.front());
        bytes_.remove_prefix(1);
        return byte % end;
    }
    template <class T, std::size_t n>
    const T& one_of(const T (&list)[n]) {
        return list[below(n)];
    }
    std::string text() {
        const std::size_t size = std::min(below(256), bytes_.size());
        std::string taken(bytes_.substr(0, size));
        bytes_.remove_prefix(size);
        return taken;
    }

private:
    std::string_view bytes_;
};

constexpr const char* objects[] = {"/weights/final_norm.bias",
                                   "/weights/final_norm.weight",
                                   "/weights/embedding.token.weight",
                                   "/weights/block.0.mlp.up.weight",
                                   "/moment1/final_norm.bias",
                                   "/moment1/block.0.attention.query.weight",
                                   "/weights",
                                   "/moment1",
                                   "/moment2",
                                   "/header",
                                   "/header/cursor",
                                   "/header/run_toml",
                                   "/header/provenance",
                                   "/model",
                                   "/extra",
                                   "/else",
                                   "/else/deep",
                                   "/"};
constexpr const char* attributes[] = {"format",          "step",     "seed",       "tokenizer", "weight_hash",
                                      "best_valid_loss", "writers",  "layers",     "vocab",     "norm",
                                      "hidden",          "sequence", "loss_scale", "more"};
constexpr const char* sources[] = {"part-00000.h5", ".", "checkpoint.h5", "../x.h5", "part-00001.h5", "/etc/hostname"};
constexpr const char* inner[] = {"/weights", "/moment1", "/", "/nothing"};
constexpr hsize_t extents[] = {4, 5, 0, 1, 3, 20, 24, 6, hsize_t{1} << 20, hsize_t{1} << 33, hsize_t{1} << 62};

std::vector<hsize_t> shape_of(Input& in) {
    std::vector<hsize_t> shape(1 + in.below(3));
    for (hsize_t& extent : shape) {
        extent = in.one_of(extents);
    }
    return shape;
}

h5::Space space_of(const std::vector<hsize_t>& shape) {
    return h5::Space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
}

h5::Type type_of(Input& in) {
    const std::size_t kind = in.below(10);
    if (kind >= 6) {
        h5::Type text(H5Tcopy(H5T_C_S1));
        constexpr std::size_t sizes[] = {1, 16, 300, H5T_VARIABLE, std::size_t{1} << 20};
        H5Tset_size(text.get(), in.one_of(sizes));
        return kind == 9 ? h5::Type(H5Tarray_create2(text.get(), 1, &extents[0])) : std::move(text);
    }
    const hid_t plain[] = {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_STD_I64LE, H5T_STD_U64LE, H5T_STD_I8BE, H5T_STD_REF_OBJ};
    return h5::Type(H5Tcopy(plain[kind]));
}

// A box of `shape`, anywhere in it or beyond.
void select(Input& in, const h5::Space& space, std::size_t rank) {
    std::vector<hsize_t> start(rank), count(rank), stride(rank);
    for (std::size_t i = 0; i < rank; ++i) {
        start[i] = in.below(8);
        count[i] = 1 + in.below(24);
        stride[i] = 1 + in.below(3);
    }
    H5Sselect_hyperslab(space.get(), in.below(4) == 3 ? H5S_SELECT_OR : H5S_SELECT_SET, start.data(), stride.data(),
                        count.data(), nullptr);
}

void map_parts(Input& in, hid_t creation, const std::vector<hsize_t>& shape) {
    for (std::size_t n = in.below(5); n > 0; --n) {
        const h5::Space to = space_of(shape);
        select(in, to, shape.size());
        const h5::Space from = space_of({hsize_t{1} << 10});
        const hsize_t first = in.below(64), count = static_cast<hsize_t>(H5Sget_select_npoints(to.get()));
        H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, &first, nullptr, &count, nullptr);
        H5Pset_virtual(creation, to.get(), in.one_of(sources), in.one_of(inner), from.get());
    }
}

void put_dataset(Input& in, hid_t file, const char* path) {
    const std::vector<hsize_t> shape = shape_of(in);
    const h5::Properties creation(H5Pcreate(H5P_DATASET_CREATE));
    const h5::Type type = type_of(in);
    const std::vector<hsize_t> chunk(shape.size(), 2);
    switch (in.below(6)) {
        case 0:
            H5Pset_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data());
            H5Pset_deflate(creation.get(), 1);
            break;
        case 1:
            H5Pset_layout(creation.get(), H5D_COMPACT);
            break;
        case 2:
            H5Pset_external(creation.get(), "/etc/hostname", 0, H5F_UNLIMITED);
            break;
        case 3:
            break;
        default:
            map_parts(in, creation.get(), shape);
    }
    H5Ldelete(file, path, H5P_DEFAULT);
    const h5::Dataset made(
        H5Dcreate2(file, path, type.get(), space_of(shape).get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT));
}

void put_attribute(Input& in, hid_t file) {
    const char* const name = in.one_of(attributes);
    const char* const path = in.one_of(objects);
    H5Adelete_by_name(file, path, name, H5P_DEFAULT);
    const h5::Type type = type_of(in);
    const h5::Space space = in.below(4) == 0 ? space_of({in.one_of(extents)})
                                             : h5::Space(H5Screate(in.below(8) == 7 ? H5S_NULL : H5S_SCALAR));
    const h5::Attribute made(
        H5Acreate_by_name(file, path, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const bool plain = H5Tget_class(type.get()) == H5T_INTEGER || H5Tget_class(type.get()) == H5T_FLOAT;
    if (plain && H5Sget_simple_extent_npoints(space.get()) == 1) {
        std::string value = in.text();
        value.resize(16);
        H5Awrite(made.get(), type.get(), value.data());
    }
}

void put_link(Input& in, hid_t file) {
    const char* const from = in.one_of(objects);
    const char* const to = in.one_of(objects);
    switch (in.below(5)) {
        case 0:
            H5Ldelete(file, to, H5P_DEFAULT);
            break;
        case 1:
            H5Lcreate_soft(from, file, to, H5P_DEFAULT, H5P_DEFAULT);
            break;
        case 2:
            H5Lcreate_external("part-00000.h5", "/weights", file, to, H5P_DEFAULT, H5P_DEFAULT);
            break;
        case 3:
            H5Lmove(file, from, file, to, H5P_DEFAULT, H5P_DEFAULT);
            break;
        default:
            H5Lcreate_hard(file, from, file, to, H5P_DEFAULT, H5P_DEFAULT);  // also into itself
    }
}

void edit(Input& in, hid_t file) {
    const char* const path = in.one_of(objects);
    switch (in.below(5)) {
        case 0:
            put_attribute(in, file);
            break;
        case 1:
            put_link(in, file);
            break;
        case 2: {
            H5Ldelete(file, path, H5P_DEFAULT);
            accept([&] { h5::put_text(file, path, in.text(), "edit"); });
            break;
        }
        case 3:
            H5Ldelete(file, path, H5P_DEFAULT);
            accept([&] { (void)h5::make_group(file, path, "edit"); });
            break;
        default:
            put_dataset(in, file, path);
    }
}

}  // namespace
}  // namespace ogrom::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ogrom;
    static const std::string step = fuzz::save_small_checkpoint(fuzz::folder());
    static const std::string master = join_path(step, master_name), whole = read_file(master, i64{1} << 24);
    fuzz::put_bytes(master, whole);
    on_io_thread([&] {
        const h5::File file(H5Fopen(master.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        fuzz::Input in(fuzz::text_of(data, size));
        for (std::size_t edits = 0; !in.empty() && edits < fuzz::most_edits; ++edits) {
            fuzz::edit(in, file.get());
        }
        H5Eclear2(H5E_DEFAULT);
    });
    fuzz::agree_manifest(step);
    fuzz::read_everything(step);
    return 0;
}
