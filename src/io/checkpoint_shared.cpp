#include "src/io/checkpoint_shared.h"

#include <exception>
#include <fmt/format.h>
#include <vector>

#include "src/base/error.h"

namespace ogrom {

std::string share_result(Communicator& comm, const std::string& label, const std::function<std::string()>& work) {
    constexpr std::size_t longest = 60000;  // gather_text carries 64 KiB a rank
    std::string verdict;
    try {
        verdict = "+" + work();
    } catch (const std::exception& error) {
        verdict = std::string("-") + error.what();
    }
    if (verdict.size() > longest) {
        verdict.resize(longest);
    }
    const std::vector<std::string> all = gather_text(comm, verdict, label);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (!all[rank].starts_with('+')) {
            const std::string text = all[rank].empty() ? std::string("no verdict") : all[rank].substr(1);
            fail(ExitCode::checkpoint, all.size() == 1 ? text : fmt::format("rank {}: {}", rank, text));
        }
    }
    return all.front().substr(1);
}

}  // namespace ogrom
