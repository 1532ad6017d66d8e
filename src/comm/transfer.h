// What every communicator checks and computes the same way: types it carries, parts of an owner, the sum in rank order.
#pragma once
#include <functional>
#include <string_view>

#include "kernels/common/dtype.h"

#include "src/comm/communicator.h"

namespace ogrom {

// fp32, fp64, bf16, fp16, i32, i64 and u64 travel; the others are refused by name. Throws Error(peer), also for count <
// 0.
void check_transfer(i64 count, Dtype type, std::string_view label);
void check_root(int root, int size, std::string_view label);
void check_batches(i64 batches, std::string_view label);                // >= 0
void check_peer(int peer, int rank, int size, std::string_view label);  // another rank of the communicator

// Copies a rank's own part unless it is already there.
void copy_own(void* out, const void* in, i64 bytes);

// Elements [first, last) of `count` that rank `owner` of `size` owns: parts of ceil(count / size), the last ones short
// or empty.
struct OwnedPart {
    i64 first = 0, last = 0;
    [[nodiscard]] i64 count() const { return last - first; }
};
OwnedPart owned_part(i64 count, int owner, int size);

// out[i] = c_0[i] op c_1[i] op ... op c_{ranks-1}[i], from left to right in the type itself (float sums in float), so
// the bits depend on the rank order alone; bf16 and fp16 in float, rounded once at the end. `out` may be one of the
// contributions. flops: (ranks - 1) * count; bytes: (ranks + 1) * count * size_of(type).
void combine_in_rank_order(void* out, const std::function<const void*(int)>& contribution, int ranks, i64 count,
                           Dtype type, ReduceOp op);

}  // namespace ogrom
