// One verdict for all ranks: what fails on any rank fails on every rank, with the same text. Lists of words between
// ranks, in bounded messages.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/comm/communicator.h"

namespace ogrom {

// Runs `work` on every rank (it may throw there, alone), then agrees. Returns rank 0's text on all ranks; throws
// an Error with the code of the lowest rank that failed, "rank r: ...", on all ranks.
std::string share_result(Communicator& comm, const std::string& label, const std::function<std::string()>& work);

enum class Receivers { first, all };  // rank 0 | every rank
// The words of each rank, in rank order, on the receivers; empty elsewhere. Exchanged in rounds of at most 4 MiB over
// all ranks together, so that no rank holds a large message of everyone.
std::vector<std::vector<u64>> gather_words(Communicator& comm, std::span<const u64> mine, Receivers receivers,
                                           const std::string& label);

// Most bytes that gather_words takes for its exchange.
inline constexpr i64 gather_round_bytes = i64{4} << 20;

}  // namespace ogrom
