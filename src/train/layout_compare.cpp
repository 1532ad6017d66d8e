#include "src/train/layout_compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/common/hash.h"

namespace ogrom {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

template <class T>
struct Twin {
    const T* there = nullptr;   // the tensor in the flat weights of one rank
    const T* before = nullptr;  // null: 0
    [[nodiscard]] double change(i64 index) const {
        return static_cast<double>(there[index]) - (before == nullptr ? 0 : static_cast<double>(before[index]));
    }
};

struct Sums {
    double difference = 0, change = 0;
};

template <class T>
Sums compare(const FlatView<T>& weights, const LocalTensor& tensor, const Twin<T>& twin) {
    Sums sums;
    const FlatRange logical{tensor.offset, tensor.offset + tensor.logical};
    for (const FlatRange& part : intersect(weights.ranges(), logical)) {
        const T* const here = weights.locate(part);
        for (i64 i = part.first; i < part.last; ++i) {
            const i64 index = tensor.global_index(i - tensor.offset);
            const double d = static_cast<double>(here[i - part.first]) - static_cast<double>(twin.there[index]);
            sums.difference += d * d;
            sums.change += twin.change(index) * twin.change(index);
        }
    }
    return sums;
}

template <class T>
u64 bits_of(T value, u64 key, u64 index) {
    if constexpr (sizeof(T) == 4) {
        return hash_element(key, index, std::bit_cast<u32>(value));
    } else {
        const u64 bits = std::bit_cast<u64>(value);
        return hash_element(key, index, static_cast<u32>(bits)) ^
               hash_element(key + 1, index, static_cast<u32>(bits >> 32));
    }
}

}  // namespace

double series_deviation(const std::vector<double>& a, const std::vector<double>& b) {
    if (a.size() != b.size() || a.empty()) {
        return infinite;
    }
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double difference = std::abs(a[i] - b[i]) / std::abs(b[i]);
        largest = std::isfinite(difference) ? std::max(largest, difference) : infinite;
    }
    return largest;
}

template <class T>
double weight_deviation(const Engine<T>& engine, const ModelConfig& model, std::span<const T> there,
                        std::span<const T> before) {
    const FlatView<T>& weights = engine.weights_on_host();
    const ParameterTable table = make_parameters(model, dtype_of<T>());
    const ParameterLayout layout(table, StageSpan{0, 0, 0, model.layers, true, true});
    OGROM_ASSERT(static_cast<i64>(there.size()) == layout.size());
    const Twin<T> all{there.data(), before.empty() ? nullptr : before.data()};
    double whole = 0;
    for (i64 i = 0; i < layout.size(); ++i) {
        whole += all.change(i) * all.change(i);
    }
    double largest = 0;
    for (const LocalTensor& tensor : engine.layout.tensors()) {
        const Parameter& parameter = *tensor.parameter;
        const i64 offset = layout.tensor(parameter.tie.empty() ? parameter.name : parameter.tie).offset;
        const Sums sums = compare(weights, tensor,
                                  Twin<T>{all.there + offset, all.before == nullptr ? nullptr : all.before + offset});
        if (sums.difference == 0 && sums.change == 0) {
            continue;  // none of it is here, or it is 0 and stayed so
        }
        const bool key_bias = parameter.name.ends_with("attention.key.bias");
        const double reference = key_bias ? key_bias_share * std::sqrt(whole) : std::sqrt(sums.change);
        const double ratio = std::sqrt(sums.difference) / reference;
        largest = std::isfinite(ratio) ? std::max(largest, ratio) : infinite;
    }
    return largest;
}

template <class T>
u64 state_bits(const Engine<T>& engine) {
    u64 sum = 0;
    for (const StateGroup<const T>& group : engine.groups_to_write()) {
        const u64 salt = std::hash<std::string>{}(group.name);
        for (const HeldRange<const T>& held : group.ranges) {
            for (const LocalTensor& tensor : engine.layout.tensors()) {
                const bool elsewhere = engine.layout.replicated(tensor) && engine.layout.part().rank != 0;
                if (elsewhere || !tensor.parameter->tie.empty()) {
                    continue;
                }
                const u64 key = hash_tensor(static_cast<u64>(tensor.parameter->key) ^ salt);
                for (const FlatRange& part : intersect({held.flat}, {tensor.offset, tensor.offset + tensor.logical})) {
                    for (i64 i = part.first; i < part.last; ++i) {
                        sum += bits_of(held.data[i - held.flat.first], key,
                                       static_cast<u64>(tensor.global_index(i - tensor.offset)));
                    }
                }
            }
        }
    }
    engine.world.all_reduce(&sum, 1, Dtype::u64, ReduceOp::sum, ReduceOrder::any, nullptr, "state bits").wait();
    return sum;
}

#define OGROM_INSTANCE(T)                                                                                              \
    template double weight_deviation<T>(const Engine<T>&, const ModelConfig&, std::span<const T>, std::span<const T>); \
    template u64 state_bits<T>(const Engine<T>&);
OGROM_INSTANCE(float)
OGROM_INSTANCE(double)
#undef OGROM_INSTANCE

}  // namespace ogrom
