// The handful of NCCL functions that we call, loaded when first asked for, so that the program starts where the library
// is not. Only nccl_library.cpp knows NCCL's types; a build without nccl.h has the same entries and says so in facts().
// OGROM_NCCL_LIBRARY=PATH names another library than libnccl.so.2.
#pragma once
#include <array>
#include <string>

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

#include "src/comm/communicator.h"

namespace ogrom::nccl {

constexpr int least_version = 21800;       // 2.18
constexpr int shared_gpu_version = 23000;  // 2.30: several ranks on one GPU, with NCCL_MULTI_RANK_GPU_ENABLE=1

struct Facts {
    int version = 0;      // of the library, 10000 major + 100 minor + patch; 0 = none
    std::string missing;  // why it cannot be used; empty = it can
};
const Facts& facts();
std::string version_text(int version);  // "2.30.7"

using Id = std::array<u64, 16>;  // ncclUniqueId
using Comm = void*;              // ncclComm_t
using Result = int;              // ncclResult_t: 0 = done
constexpr Result done = 0;

// Of a result, with the library's own last message.
std::string describe(Result result, Comm comm);

// Everything below needs facts().missing to be empty. Counts in elements; enqueued on the stream.
Result make_id(Id& id);
Result init(Comm& comm, int size, const Id& id, int rank);  // collective and blocking, unless inside a group
Result destroy(Comm comm);
Result abort(Comm comm);
Result asynchronous_error(Comm comm);  // done while all is well
Result group_start();
Result group_end();
Result all_reduce(Comm comm, Stream stream, void* data, i64 count, Dtype type, ReduceOp op);
Result reduce(Comm comm, Stream stream, void* data, i64 count, Dtype type, int root);
Result broadcast(Comm comm, Stream stream, void* data, i64 count, Dtype type, int root);
Result all_gather(Comm comm, Stream stream, void* out, const void* in, i64 count, Dtype type);
Result reduce_scatter(Comm comm, Stream stream, void* out, const void* in, i64 count, Dtype type);
Result send(Comm comm, Stream stream, const void* data, i64 count, Dtype type, int to);
Result receive(Comm comm, Stream stream, void* data, i64 count, Dtype type, int from);

}  // namespace ogrom::nccl
