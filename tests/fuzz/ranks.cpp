// ranks.csv of a run folder.
#include "src/io/rank_times.h"

#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ogrom::fuzz::accept(
        [&] { (void)ogrom::parse_rank_times(std::string(ogrom::fuzz::text_of(data, size)), "ranks.csv"); });
    return 0;
}
