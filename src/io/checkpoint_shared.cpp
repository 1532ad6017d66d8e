#include "src/io/checkpoint_shared.h"

#include <algorithm>
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

std::vector<std::vector<u64>> gather_words(Communicator& comm, std::span<const u64> mine, Receivers receivers,
                                           const std::string& label) {
    const bool receives = receivers == Receivers::all || comm.rank() == 0;
    const i64 own = static_cast<i64>(mine.size()), ranks = comm.size();
    std::vector<i64> sizes(static_cast<std::size_t>(ranks));
    comm.all_gather(sizes.data(), &own, 1, Dtype::i64, label).wait();
    const i64 longest = *std::max_element(sizes.begin(), sizes.end());
    const i64 round = std::min(longest, std::max<i64>(1, gather_round_bytes / 8 / ranks));
    std::vector<u64> send(static_cast<std::size_t>(round)), got(static_cast<std::size_t>(round * ranks));
    std::vector<std::vector<u64>> lists(receives ? static_cast<std::size_t>(ranks) : 0);
    for (i64 first = 0; first < longest; first += round) {
        const i64 sent = std::clamp<i64>(own - first, 0, round);
        std::copy_n(mine.begin() + std::min(first, own), sent, send.begin());
        comm.all_gather(got.data(), send.data(), round, Dtype::u64, label).wait();
        for (std::size_t rank = 0; rank < lists.size(); ++rank) {
            const auto from = got.begin() + static_cast<i64>(rank) * round;
            lists[rank].insert(lists[rank].end(), from, from + std::clamp<i64>(sizes[rank] - first, 0, round));
        }
    }
    return lists;
}

}  // namespace ogrom
