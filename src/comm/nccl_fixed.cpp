#include "src/comm/nccl_fixed.h"

#include <algorithm>
#include <functional>

#include "kernels/ops/flat.h"

#include "src/comm/transfer.h"

namespace ogrom {
namespace {

using Contribution = std::function<void*(int rank)>;

// out[n] = c_0 + c_1 + ... in rank order. `out` may be the contribution of rank `own`; then the sum begins in c_0,
// which is scratch, and is copied.
template <class T>
void add_in_rank_order(Stream stream, T* out, const Contribution& contribution, int ranks, i64 n, int own) {
    const auto part = [&](int rank) { return static_cast<T*>(contribution(rank)); };
    T* const sum = own > 0 && out == part(own) ? part(0) : out;
    if (sum != part(0)) {
        ops::copy<T>(stream, sum, part(0), n);
    }
    for (int rank = 1; rank < ranks; ++rank) {
        ops::add<T>(stream, sum, part(rank), n);
    }
    if (sum != out) {
        ops::copy<T>(stream, out, sum, n);
    }
}

// Of a type of 16 bits: in float, rounded once.
template <class T>
void add_in_rank_order(Stream stream, float* sums, T* out, const Contribution& contribution, int ranks, i64 n) {
    for (i64 first = 0; first < n; first += NcclAxis::sum_elements) {
        const i64 now = std::min(n - first, NcclAxis::sum_elements);
        const auto part = [&](int rank) { return static_cast<const T*>(contribution(rank)) + first; };
        ops::cast<float, T>(stream, sums, part(0), now);
        for (int rank = 1; rank < ranks; ++rank) {
            ops::add<float, T>(stream, sums, part(rank), now);
        }
        ops::cast<T, float>(stream, out + first, sums, now);
    }
}

class FixedSum {
public:
    FixedSum(NcclAxis& axis, const DeviceCall& call, const std::string& text)
        : axis_(axis), lane_(axis.collectives()), call_(call), text_(text), bytes_(size_of(call.what.type)) {}

    void group(const std::function<void()>& messages) const {
        axis_.check(nccl::group_start(), lane_.comm, text_);
        messages();
        axis_.check(nccl::group_end(), lane_.comm, text_);
    }
    // Partners in the order rank + 1, rank + 2, ...: no rank is everyone's first target.
    template <class Call>
    void each_other(const Call& call) const {
        for (int step = 1; step < size(); ++step) {
            call((rank() + step) % size(), (rank() - step + size()) % size());
        }
    }
    void send(const void* data, i64 count, int to) const {
        if (count > 0) {
            axis_.check(nccl::send(lane_.comm, lane_.stream, data, count, call_.what.type, to), lane_.comm, text_);
        }
    }
    void receive(void* data, i64 count, int from) const {
        if (count > 0) {
            axis_.check(nccl::receive(lane_.comm, lane_.stream, data, count, call_.what.type, from), lane_.comm, text_);
        }
    }
    void add(void* out, const Contribution& contribution, i64 n) const {
        if (n == 0) {
            return;
        }
        switch (call_.what.type) {
            case Dtype::fp32:
                return add_in_rank_order(lane_.stream, static_cast<float*>(out), contribution, size(), n, rank());
            case Dtype::fp64:
                return add_in_rank_order(lane_.stream, static_cast<double*>(out), contribution, size(), n, rank());
            case Dtype::bf16:
                return add_in_rank_order(lane_.stream, axis_.sums(), static_cast<Bf16*>(out), contribution, size(), n);
            case Dtype::fp16:
                return add_in_rank_order(lane_.stream, axis_.sums(), static_cast<Fp16*>(out), contribution, size(), n);
            default:  // sums of integers have no order
                OGROM_ASSERT(call_.what.type == Dtype::fp32);
        }
    }
    [[nodiscard]] char* slot(int of_rank, i64 elements) const {
        return static_cast<char*>(call_.scratch) + (of_rank < rank() ? of_rank : of_rank - 1) * elements * bytes_;
    }
    [[nodiscard]] char* out(i64 element) const { return static_cast<char*>(call_.out) + element * bytes_; }
    [[nodiscard]] char* in(i64 element) const {  // only read: an owner's own contribution never begins a sum in place
        return static_cast<char*>(const_cast<void*>(call_.in)) + element * bytes_;
    }
    [[nodiscard]] int rank() const { return axis_.rank(); }
    [[nodiscard]] int size() const { return axis_.size(); }
    [[nodiscard]] i64 bytes() const { return bytes_; }

private:
    NcclAxis& axis_;
    NcclLane& lane_;
    const DeviceCall& call_;
    const std::string& text_;
    i64 bytes_;
};

}  // namespace

void fixed_all_reduce(NcclAxis& axis, const DeviceCall& call, const std::string& text) {
    const FixedSum sum(axis, call, text);
    const auto part = [&](int rank) { return owned_part(call.what.count, rank, sum.size()); };
    const OwnedPart own = part(sum.rank());
    sum.group([&] {
        sum.each_other([&](int to, int from) {
            sum.send(sum.out(part(to).first), part(to).count(), to);
            sum.receive(sum.slot(from, own.count()), own.count(), from);
        });
    });
    sum.add(
        sum.out(own.first),
        [&](int rank) -> void* { return rank == sum.rank() ? sum.out(own.first) : sum.slot(rank, own.count()); },
        own.count());
    sum.group([&] {
        sum.each_other([&](int to, int from) {
            sum.send(sum.out(own.first), own.count(), to);
            sum.receive(sum.out(part(from).first), part(from).count(), from);
        });
    });
}

void fixed_reduce(NcclAxis& axis, const DeviceCall& call, const std::string& text) {
    const FixedSum sum(axis, call, text);
    const i64 count = call.what.count;
    if (sum.rank() != call.what.root) {
        sum.send(sum.out(0), count, call.what.root);
        return;
    }
    sum.group([&] { sum.each_other([&](int, int from) { sum.receive(sum.slot(from, count), count, from); }); });
    sum.add(
        sum.out(0), [&](int rank) -> void* { return rank == sum.rank() ? sum.out(0) : sum.slot(rank, count); }, count);
}

void fixed_reduce_scatter(NcclAxis& axis, const DeviceCall& call, const std::string& text) {
    const FixedSum sum(axis, call, text);
    const i64 count = call.what.count, batches = call.what.batches, all = count * batches;
    sum.group([&] {
        for (i64 b = 0; b < batches; ++b) {
            sum.each_other([&](int to, int from) {
                sum.send(sum.in((b * sum.size() + to) * count), count, to);
                sum.receive(sum.slot(from, all) + b * count * sum.bytes(), count, from);
            });
        }
    });
    for (i64 b = 0; b < batches; ++b) {
        sum.add(
            sum.out(b * count),
            [&](int rank) -> void* {
                return rank == sum.rank() ? sum.in((b * sum.size() + rank) * count)
                                          : sum.slot(rank, all) + b * count * sum.bytes();
            },
            count);
    }
}

}  // namespace ogrom
