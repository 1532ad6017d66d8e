// manifest.json of a checkpoint.
#include "src/io/manifest.h"

#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ogrom::fuzz::accept(
        [&] { (void)ogrom::parse_manifest(std::string(ogrom::fuzz::text_of(data, size)), "manifest.json"); });
    return 0;
}
