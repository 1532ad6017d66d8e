#include "src/comm/nccl_library.h"

#include <fmt/format.h>

#ifdef OGROM_NCCL
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <nccl.h>
#endif

#include "kernels/common/error.h"

namespace ogrom::nccl {

std::string version_text(int version) {
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

#ifdef OGROM_NCCL
namespace {

struct Library {
    Facts facts;
    decltype(&ncclGetVersion) get_version = nullptr;
    decltype(&ncclGetUniqueId) get_unique_id = nullptr;
    decltype(&ncclCommInitRank) comm_init_rank = nullptr;
    decltype(&ncclCommDestroy) comm_destroy = nullptr;
    decltype(&ncclCommAbort) comm_abort = nullptr;
    decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
    decltype(&ncclGetErrorString) get_error_string = nullptr;
    decltype(&ncclGetLastError) get_last_error = nullptr;
    decltype(&ncclGroupStart) group_start = nullptr;
    decltype(&ncclGroupEnd) group_end = nullptr;
    decltype(&ncclAllReduce) all_reduce = nullptr;
    decltype(&ncclReduce) reduce = nullptr;
    decltype(&ncclBroadcast) broadcast = nullptr;
    decltype(&ncclAllGather) all_gather = nullptr;
    decltype(&ncclReduceScatter) reduce_scatter = nullptr;
    decltype(&ncclSend) send = nullptr;
    decltype(&ncclRecv) receive = nullptr;

    Library() {
        // Every connection is made at the start: none later holds the host up, and memory is known.
        setenv("NCCL_RUNTIME_CONNECT", "0", 0);
        const char* given = std::getenv("OGROM_NCCL_LIBRARY");
        const char* const name = given != nullptr ? given : "libnccl.so.2";
        void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);  // stays loaded: NCCL has threads of its own
        if (library == nullptr) {
            facts.missing = fmt::format("{} cannot be loaded: {}", name, dlerror());
            return;
        }
        load(library, "ncclGetVersion", get_version);
        load(library, "ncclGetUniqueId", get_unique_id);
        load(library, "ncclCommInitRank", comm_init_rank);
        load(library, "ncclCommDestroy", comm_destroy);
        load(library, "ncclCommAbort", comm_abort);
        load(library, "ncclCommGetAsyncError", comm_get_async_error);
        load(library, "ncclGetErrorString", get_error_string);
        load(library, "ncclGetLastError", get_last_error);
        load(library, "ncclGroupStart", group_start);
        load(library, "ncclGroupEnd", group_end);
        load(library, "ncclAllReduce", all_reduce);
        load(library, "ncclReduce", reduce);
        load(library, "ncclBroadcast", broadcast);
        load(library, "ncclAllGather", all_gather);
        load(library, "ncclReduceScatter", reduce_scatter);
        load(library, "ncclSend", send);
        load(library, "ncclRecv", receive);
        if (facts.missing.empty() && get_version(&facts.version) != ncclSuccess) {
            facts.missing = fmt::format("{} does not tell its version", name);
        }
        if (facts.missing.empty() && facts.version < least_version) {
            facts.missing = fmt::format("{} is NCCL {}; {} or later is needed", name, version_text(facts.version),
                                        version_text(least_version));
        }
    }

    template <class Function>
    void load(void* library, const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(library, name));
        if (function == nullptr && facts.missing.empty()) {
            facts.missing = fmt::format("the NCCL library has no {}", name);
        }
    }
};

const Library& library() {
    static const Library loaded;
    return loaded;
}

ncclComm_t native(Comm comm) {
    return static_cast<ncclComm_t>(comm);
}

cudaStream_t native(Stream stream) {
    OGROM_ASSERT(stream.backend == Backend::cuda);
    return static_cast<cudaStream_t>(stream.native);
}

std::size_t elements(i64 count) {
    return static_cast<std::size_t>(count);
}

ncclDataType_t native(Dtype type) {
    switch (type) {
        case Dtype::fp32:
            return ncclFloat32;
        case Dtype::fp64:
            return ncclFloat64;
        case Dtype::bf16:
            return ncclBfloat16;
        case Dtype::fp16:
            return ncclFloat16;
        case Dtype::i32:
            return ncclInt32;
        case Dtype::i64:
            return ncclInt64;
        case Dtype::u64:
            return ncclUint64;
        case Dtype::fp8_e4m3:
        case Dtype::fp8_e5m2:
        case Dtype::u16:
            break;
    }
    fail(ExitCode::peer, fmt::format("NCCL: type {} is not built yet", name_of(type)));
}

ncclRedOp_t native(ReduceOp op) {
    switch (op) {
        case ReduceOp::max:
            return ncclMax;
        case ReduceOp::min:
            return ncclMin;
        case ReduceOp::sum:
            break;
    }
    return ncclSum;
}

}  // namespace

const Facts& facts() {
    return library().facts;
}

std::string describe(Result result, Comm comm) {
    const char* const last = library().get_last_error(native(comm));
    const std::string text = library().get_error_string(static_cast<ncclResult_t>(result));
    return last == nullptr || *last == 0 ? text : fmt::format("{} ({})", text, last);
}

Result make_id(Id& id) {
    ncclUniqueId made{};
    static_assert(sizeof(made) == sizeof(Id));
    const Result result = library().get_unique_id(&made);
    std::memcpy(id.data(), &made, sizeof(made));
    return result;
}

Result init(Comm& comm, int size, const Id& id, int rank) {
    ncclUniqueId given{};
    std::memcpy(&given, id.data(), sizeof(given));
    // Inside a group NCCL writes the handle when the group ends: it gets its place, not a copy's.
    return library().comm_init_rank(reinterpret_cast<ncclComm_t*>(&comm), size, given, rank);
}

Result destroy(Comm comm) {
    return library().comm_destroy(native(comm));
}
Result abort(Comm comm) {
    return library().comm_abort(native(comm));
}

Result asynchronous_error(Comm comm) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = library().comm_get_async_error(native(comm), &state);
    return asked != ncclSuccess ? asked : state == ncclInProgress ? ncclSuccess : state;
}

Result group_start() {
    return library().group_start();
}
Result group_end() {
    return library().group_end();
}

Result all_reduce(Comm comm, Stream stream, void* data, i64 count, Dtype type, ReduceOp op) {
    return library().all_reduce(data, data, elements(count), native(type), native(op), native(comm), native(stream));
}
Result reduce(Comm comm, Stream stream, void* data, i64 count, Dtype type, int root) {
    return library().reduce(data, data, elements(count), native(type), ncclSum, root, native(comm), native(stream));
}
Result broadcast(Comm comm, Stream stream, void* data, i64 count, Dtype type, int root) {
    return library().broadcast(data, data, elements(count), native(type), root, native(comm), native(stream));
}
Result all_gather(Comm comm, Stream stream, void* out, const void* in, i64 count, Dtype type) {
    return library().all_gather(in, out, elements(count), native(type), native(comm), native(stream));
}
Result reduce_scatter(Comm comm, Stream stream, void* out, const void* in, i64 count, Dtype type) {
    return library().reduce_scatter(in, out, elements(count), native(type), ncclSum, native(comm), native(stream));
}
Result send(Comm comm, Stream stream, const void* data, i64 count, Dtype type, int to) {
    return library().send(data, elements(count), native(type), to, native(comm), native(stream));
}
Result receive(Comm comm, Stream stream, void* data, i64 count, Dtype type, int from) {
    return library().receive(data, elements(count), native(type), from, native(comm), native(stream));
}

#else

namespace {
constexpr const char* absent = "this binary was built without NCCL (nccl.h was not found)";
[[noreturn]] void refuse() {
    fail(ExitCode::usage, absent);
}
}  // namespace

const Facts& facts() {
    static const Facts none{0, absent};
    return none;
}
std::string describe(Result, Comm) {
    return absent;
}
Result make_id(Id&) {
    refuse();
}
Result init(Comm&, int, const Id&, int) {
    refuse();
}
Result destroy(Comm) {
    refuse();
}
Result abort(Comm) {
    refuse();
}
Result asynchronous_error(Comm) {
    refuse();
}
Result group_start() {
    refuse();
}
Result group_end() {
    refuse();
}
Result all_reduce(Comm, Stream, void*, i64, Dtype, ReduceOp) {
    refuse();
}
Result reduce(Comm, Stream, void*, i64, Dtype, int) {
    refuse();
}
Result broadcast(Comm, Stream, void*, i64, Dtype, int) {
    refuse();
}
Result all_gather(Comm, Stream, void*, const void*, i64, Dtype) {
    refuse();
}
Result reduce_scatter(Comm, Stream, void*, const void*, i64, Dtype) {
    refuse();
}
Result send(Comm, Stream, const void*, i64, Dtype, int) {
    refuse();
}
Result receive(Comm, Stream, void*, i64, Dtype, int) {
    refuse();
}

#endif

}  // namespace ogrom::nccl
