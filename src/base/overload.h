// One visitor out of several lambdas, for std::visit.
#pragma once

namespace ogrom {

template <class... Functions>
struct Overload : Functions... {
    using Functions::operator()...;
};
template <class... Functions>
Overload(Functions...) -> Overload<Functions...>;

}  // namespace ogrom
