#include "src/io/checkpoint_shared.h"

#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <vector>

#include "src/base/error.h"

namespace ogrom {
namespace {

// "-<exit code> <text>"
std::string failed(ExitCode code, const std::string& text) {
    return fmt::format("-{} {}", static_cast<int>(code), text);
}

}  // namespace

std::string share_result(Communicator& comm, const std::string& label, const std::function<std::string()>& work) {
    constexpr std::size_t longest = 60000;  // gather_text carries 64 KiB a rank
    std::string verdict;
    try {
        verdict = "+" + work();
    } catch (const Error& error) {
        verdict = failed(error.code(), error.what());
    } catch (const std::bad_alloc&) {
        verdict = failed(ExitCode::memory, "host memory exhausted");
    } catch (const std::exception& error) {
        verdict = failed(ExitCode::checkpoint, error.what());
    }
    if (verdict.size() > longest) {
        verdict.resize(longest);
    }
    const std::vector<std::string> all = gather_text(comm, verdict, label);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (!all[rank].starts_with('+')) {
            const std::size_t blank = all[rank].find(' ');
            const bool known = all[rank].starts_with('-') && blank != std::string::npos;
            const auto code = known ? static_cast<ExitCode>(std::atoi(all[rank].c_str() + 1)) : ExitCode::checkpoint;
            const std::string text = known ? all[rank].substr(blank + 1) : "no verdict";
            fail(code, all.size() == 1 ? text : fmt::format("rank {}: {}", rank, text));
        }
    }
    return all.front().substr(1);
}

}  // namespace ogrom
