// trace.json beside a checkpoint.
#include "src/io/replay_trace.h"

#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ogrom::fuzz::accept(
        [&] { (void)ogrom::parse_replay(std::string(ogrom::fuzz::text_of(data, size)), "trace.json"); });
    return 0;
}
