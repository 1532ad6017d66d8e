// Bytes that a rank sends in one step, by label of the flight record; pure. e = bytes of an element (of a weight
// for the two parameter labels, else of a gradient), G = elements of
// the gradient space, P of the flat buffer, own(.) = elements of it that this rank owns, N = ranks of the zero group,
// R = replicas, M = uses of a unit that write gradients (micro-batches), all_reduce(n, p) = (n - part + (p - 1) part) e
// for a call of n elements of which this rank sums `part` (comm/communicator.h; 2 (p - 1) / p n e where p divides n).
//   gradient all-reduce    ZeRO 0 direct: sum over buckets of all_reduce(bucket, N)
//   gradient reduce        ZeRO 1 direct: (G - own(G)) e;  staged: M (G - own(G)) e
//   gradient broadcast     ZeRO 0 staged: (N - 1) own(G) e
//   replica gradient       R > 1: sum over pieces of all_reduce(piece, R) of what this rank keeps (staged: owns)
//   tied gradient          table on two stages: sum over pieces of all_reduce(piece, 2) of what it keeps of the table
//   replicated gradient    sequence parallel: all_reduce(packed, tp)
//   parameter broadcast    ZeRO 1, 2: (N - 1) own(P) e
//   parameter gather       ZeRO 3: sum over gathers of (N - 1) own(unit) e; a gather is a use that reads weights of a
//                          unit that is in neither of the two unit buffers (regather = step: its first use)
#pragma once
#include <map>
#include <span>
#include <string>

#include "src/model/unit.h"
#include "src/optim/state.h"

namespace ogrom {

namespace labels {
inline constexpr const char* gradient_all_reduce = "gradient all-reduce";
inline constexpr const char* gradient_reduce = "gradient reduce";
inline constexpr const char* gradient_broadcast = "gradient broadcast";
inline constexpr const char* replica_gradient = "replica gradient";
inline constexpr const char* tied_gradient = "tied gradient";
inline constexpr const char* replicated_gradient = "replicated gradient";
inline constexpr const char* parameter_broadcast = "parameter broadcast";
inline constexpr const char* parameter_gather = "parameter gather";
}  // namespace labels

// Only the labels of which this rank sends something. `uses`: those given to ParameterUnits::begin_step.
std::map<std::string, i64, std::less<>> step_traffic(const ParameterLayout& layout, const Ownership& ownership,
                                                     const StepOptions& options, const StepPlace& place,
                                                     std::span<const UnitUse> uses, i64 weight_bytes,
                                                     i64 gradient_bytes);

}  // namespace ogrom
