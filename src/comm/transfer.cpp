#include "src/comm/transfer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <type_traits>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

namespace ogrom {
namespace {

// What sums of T are kept in.
template <class T>
using SumOf = std::conditional_t<is_16_bit<T>, float, T>;

template <class T>
void fold(SumOf<T>* sum, const T* next, i64 count, ReduceOp op) {
    using Sum = SumOf<T>;
    switch (op) {
        case ReduceOp::sum:
            for (i64 i = 0; i < count; ++i) {
                sum[i] += static_cast<Sum>(next[i]);
            }
            return;
        case ReduceOp::max:
            for (i64 i = 0; i < count; ++i) {
                sum[i] = std::max(sum[i], static_cast<Sum>(next[i]));
            }
            return;
        case ReduceOp::min:
            for (i64 i = 0; i < count; ++i) {
                sum[i] = std::min(sum[i], static_cast<Sum>(next[i]));
            }
            return;
    }
}

template <class T>
void combine(T* out, const std::function<const void*(int)>& contribution, int ranks, i64 count, ReduceOp op) {
    constexpr i64 block = 2048;  // stays in the first-level cache while all contributions pass over it
    std::array<SumOf<T>, block> sum;
    const int used = fault_active("fixed_order_skips_last") && ranks > 2 ? ranks - 1 : ranks;
    for (i64 first = 0; first < count; first += block) {
        const i64 now = std::min(block, count - first);
        const auto part = [&](int rank) { return static_cast<const T*>(contribution(rank)) + first; };
        std::transform(part(0), part(0) + now, sum.begin(), [](T value) { return static_cast<SumOf<T>>(value); });
        for (int r = 1; r < used; ++r) {
            fold(sum.data(), part(r), now, op);
            if (fault_active("bf16_sum_rounded_each_time")) {
                std::transform(sum.begin(), sum.begin() + now, sum.begin(),
                               [](SumOf<T> value) { return static_cast<SumOf<T>>(static_cast<T>(value)); });
            }
        }
        std::transform(sum.begin(), sum.begin() + now, out + first,
                       [](SumOf<T> value) { return static_cast<T>(value); });
    }
}

}  // namespace

void check_transfer(i64 count, Dtype type, std::string_view label) {
    if (count < 0) {
        fail(ExitCode::peer, fmt::format("collective '{}': count {} is negative", label, count));
    }
    switch (type) {
        case Dtype::fp32:
        case Dtype::fp64:
        case Dtype::bf16:
        case Dtype::fp16:
        case Dtype::i32:
        case Dtype::i64:
        case Dtype::u64:
            return;
        case Dtype::fp8_e4m3:
        case Dtype::fp8_e5m2:
        case Dtype::u16:
            break;
    }
    fail(ExitCode::peer,
         fmt::format("collective '{}': type {} is not built yet; fp32, fp64, bf16, fp16, i32, i64 and u64 are", label,
                     name_of(type)));
}

void check_root(int root, int size, std::string_view label) {
    if (root < 0 || root >= size) {
        fail(ExitCode::peer, fmt::format("collective '{}': root {} is not in [0, {})", label, root, size));
    }
}

void check_batches(i64 batches, std::string_view label) {
    if (batches < 0) {
        fail(ExitCode::peer, fmt::format("collective '{}': {} batches; 0 or more", label, batches));
    }
}

void check_peer(int peer, int rank, int size, std::string_view label) {
    if (peer < 0 || peer >= size || peer == rank) {
        fail(ExitCode::peer, fmt::format("message '{}': rank {} is not another rank of [0, {}); this one is {}", label,
                                         peer, size, rank));
    }
}

void copy_own(void* out, const void* in, i64 bytes) {
    if (out != in && bytes > 0) {
        std::memmove(out, in, static_cast<std::size_t>(bytes));
    }
}

OwnedPart owned_part(i64 count, int owner, int size) {
    const i64 part = ceil_div(count, size);
    return {std::min(part * owner, count), std::min(part * (owner + 1), count)};
}

void combine_in_rank_order(void* out, const std::function<const void*(int)>& contribution, int ranks, i64 count,
                           Dtype type, ReduceOp op) {
    switch (type) {
        case Dtype::fp32:
            return combine(static_cast<float*>(out), contribution, ranks, count, op);
        case Dtype::fp64:
            return combine(static_cast<double*>(out), contribution, ranks, count, op);
        case Dtype::i32:
            return combine(static_cast<std::int32_t*>(out), contribution, ranks, count, op);
        case Dtype::i64:
            return combine(static_cast<i64*>(out), contribution, ranks, count, op);
        case Dtype::u64:
            return combine(static_cast<u64*>(out), contribution, ranks, count, op);
        case Dtype::bf16:
            return combine(static_cast<Bf16*>(out), contribution, ranks, count, op);
        case Dtype::fp16:
            return combine(static_cast<Fp16*>(out), contribution, ranks, count, op);
        case Dtype::fp8_e4m3:
        case Dtype::fp8_e5m2:
        case Dtype::u16:
            break;
    }
    check_transfer(count, type, "combine");
}

}  // namespace ogrom
