// One verdict for all ranks: what fails on any rank fails on every rank, with the same text.
#pragma once
#include <functional>
#include <string>

#include "src/comm/communicator.h"

namespace ogrom {

// Runs `work` on every rank (it may throw there, alone), then agrees. Returns rank 0's text on all ranks; throws
// an Error with the code of the lowest rank that failed, "rank r: ...", on all ranks.
std::string share_result(Communicator& comm, const std::string& label, const std::function<std::string()>& work);

}  // namespace ogrom
