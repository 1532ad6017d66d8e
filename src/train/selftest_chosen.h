// A few layouts of the self-test that together make every collective which a training uses on every axis of the mesh,
// for transports under which all layouts would take hours: NCCL with several ranks on one GPU, where each call waits
// until the ranks have had their turns. Pure.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/train/selftest_layouts.h"

namespace ogrom {

struct ChosenLayout {
    SelftestLayout layout;
    std::string_view why;  // what it is there for
};
// Of 2, 4 or 8 ranks: 22 in all, the larger the mesh the more axes at once. Empty for other numbers of ranks. Few and
// large calls: one micro-batch where the schedule allows it, no small buckets, the model of 3 layers where it fits.
std::vector<ChosenLayout> selftest_chosen(i64 ranks);

// What a layout makes its axes do, as "axis: collective", or "axis: collective, fixed order": axes by the names of
// comm/mesh.h, collectives by those of comm/communicator.h. Control values over host memory do not count.
std::set<std::string> axis_calls(const SelftestLayout& layout);
// What all layouts over all numbers of ranks can make them do.
const std::set<std::string>& all_axis_calls();

}  // namespace ogrom
