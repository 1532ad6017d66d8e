#include "src/train/stop_vote.h"

#include "kernels/common/fault.h"

namespace ogrom {

bool StopVote::heard() {
    under_way_.wait();
    if (vote_ > 0) {
        return true;
    }
    vote_ = wish_() ? 1 : 0;
    if (!fault_active("stop_vote_unshared")) {
        under_way_ = world_.all_reduce(&vote_, 1, Dtype::i64, ReduceOp::max, ReduceOrder::any, nullptr, "stop vote");
    }
    return false;
}

}  // namespace ogrom
