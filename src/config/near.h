// The valid values next to a refused one, for error messages.
#pragma once
#include <string>

#include "kernels/common/extents.h"

namespace ogrom {

std::string nearest_divisors(i64 whole, i64 value);  // "12 or 16": divisors of `whole` on both sides of `value`
std::string nearest_multiples(i64 value, i64 step);  // "60 or 64": positive multiples of `step` around `value`

}  // namespace ogrom
