// checkpoint_edit STEP EDIT...: changes a step folder as somebody with h5py would, and makes the manifest agree.
//   rename PATH PATH, delete PATH, group PATH, shape PATH N (zeros in fp32), type PATH N (zeros in fp64)
//   format N: what a newer version of the program would write, in master and manifest
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "src/io/hdf5.h"
#include "src/io/manifest.h"

#include "tests/unit/io/support.h"

namespace {

using ogrom::Dtype;
namespace h5 = ogrom::h5;

void put_zeros(hid_t file, const std::string& path, hsize_t count, Dtype type) {
    if (H5Lexists(file, path.c_str(), H5P_DEFAULT) > 0) {
        h5::check_status(H5Ldelete(file, path.c_str(), H5P_DEFAULT), path, "delete");
    }
    const h5::Space space(H5Screate_simple(1, &count, nullptr));
    const h5::Dataset made(h5::check(
        H5Dcreate2(file, path.c_str(), h5::file_type(type), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), path,
        "create"));
}

void edit(hid_t file, const std::vector<std::string>& words) {
    const std::string &what = words.at(0), &path = words.at(1);
    if (what == "format") {
        h5::check_status(H5Adelete(file, "format"), path, what);
        h5::put(file, "format", ogrom::i64{std::stoll(path)}, what);
        return;
    }
    if (what == "rename") {
        h5::check_status(H5Lmove(file, path.c_str(), file, words.at(2).c_str(), H5P_DEFAULT, H5P_DEFAULT), path, what);
    } else if (what == "delete") {
        h5::check_status(H5Ldelete(file, path.c_str(), H5P_DEFAULT), path, what);
    } else if (what == "group") {
        h5::make_group(file, path, "edited");
    } else {
        put_zeros(file, path, std::stoull(words.at(2)), what == "type" ? Dtype::fp64 : Dtype::fp32);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    try {
        ogrom::test::edit_master(words.at(0), [&](hid_t file) { edit(file, {words.begin() + 1, words.end()}); });
        if (words.at(1) == "format") {
            ogrom::Manifest manifest = ogrom::read_manifest(words[0]);
            manifest.format = std::stoi(words.at(2));
            ogrom::write_file_atomic(words[0] + "/manifest.json", ogrom::to_text(manifest));
        }
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "checkpoint_edit: %s\n", error.what());
        return 1;
    }
}
