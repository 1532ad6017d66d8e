// checkpoint.h5 of any bytes, under a manifest that agrees with it: whatever HDF5 does with them, and our reader with
// what HDF5 says. In a process of its own for each input, because HDF5 itself crashes on some; OGROM_FUZZ_ONE_PROCESS=1
// keeps it in this one, to look at such an input.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/file.h"
#include "src/io/manifest.h"

#include "tests/fuzz/own_process.h"
#include "tests/fuzz/small_checkpoint.h"
#include "tests/fuzz/support.h"

namespace {

// In a child: HDF5 and its thread start anew in each.
const std::string& made_step() {
    static const std::string step = [] {
        const std::string& folder = ogrom::fuzz::folder();
        ogrom::fuzz::in_own_process([&] { (void)ogrom::fuzz::save_small_checkpoint(folder); });
        return ogrom::fuzz::small_step(folder);
    }();
    return step;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ogrom;
    const std::string& step = made_step();
    fuzz::put_bytes(join_path(step, master_name), fuzz::text_of(data, size));
    fuzz::agree_manifest(step);
    if (std::getenv("OGROM_FUZZ_ONE_PROCESS") != nullptr) {
        fuzz::read_everything(step);
    } else {
        fuzz::in_own_process([&] { fuzz::read_everything(step); });
    }
    return 0;
}
