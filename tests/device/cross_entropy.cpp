// Cross-entropy on the device against the CPU in double: fused, in parts, masked rows, padding, targets outside.
#include "kernels/ops/cross_entropy.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class T>
class DeviceCrossEntropy : public OnDeviceTyped<T> {};
TYPED_TEST_SUITE(DeviceCrossEntropy, Precisions);

struct Shape {
    i64 vocabulary, padded, ld;
};
constexpr Shape shapes[] = {{1, 1, 1},          {5, 8, 8},          {97, 97, 101},
                            {1001, 1024, 1024}, {5003, 5008, 5008}, {50257, 50304, 50304}};
constexpr double scale = 1.0 / 29;

template <class T>
struct Case {
    i64 rows;
    std::vector<T> logits;
    std::vector<std::int32_t> targets;
    std::vector<std::uint8_t> mask;
    explicit Case(const Shape& s)
        : rows(s.vocabulary > 6000 ? 5 : (s.vocabulary > 2000 ? 301 : 31)),  // 301: three for a processor
          logits(cast<T>(fresh(rows * s.ld, 9))),
          targets(fresh_integers(rows, 0, s.vocabulary)),
          mask(static_cast<std::size_t>(rows), 1) {
        mask[1] = 0;
        targets[1] = -100;
        targets[0] = static_cast<std::int32_t>(s.vocabulary - 1);
    }
};

// Against scale: a probability p has the roundings of its exponential (2 ulp), of an argument of up to 18 and of the
// sum's chains, all times p. The loss is a sum in double of rows whose exponentials' errors average out.
template <class T>
constexpr double gradient_tolerance = 8 * roundoff<T>();
template <class T>
constexpr double loss_tolerance = 0.2 * roundoff<T>() + 4 * roundoff<double>();

TYPED_TEST(DeviceCrossEntropy, FusedAndInParts) {
    using T = TypeParam;
    for (const Shape& s : shapes) {
        Case<T> in(s);
        std::vector<double> want(in.logits.begin(), in.logits.end());
        double want_loss = 2.5;
        ops::cross_entropy<double>(this->cpu, {want.data(), in.targets.data(), in.mask.data(), in.rows, s.vocabulary,
                                               s.padded, s.ld, scale, ops::Gradient::in_place, &want_loss});
        Array<T> fused(in.logits), parts(in.logits), kept(in.logits), max(in.rows);
        Array<std::int32_t> targets(in.targets);
        Array<std::uint8_t> mask(in.mask);
        Array<double> loss(std::vector<double>{2.5, 2.5, 2.5}), sums(2 * in.rows), scale_at(std::vector<double>{scale});
        ops::cross_entropy<T>(this->gpu, {fused.data(), targets.data(), mask.data(), in.rows, s.vocabulary, s.padded,
                                          s.ld, 1e9, ops::Gradient::in_place, loss.data(), scale_at.data()});
        const ops::CrossEntropyPart<T> part{parts.data(),
                                            targets.data(),
                                            mask.data(),
                                            in.rows,
                                            s.ld,
                                            s.vocabulary,
                                            s.padded,
                                            0,
                                            s.vocabulary,
                                            scale,
                                            ops::Gradient::in_place,
                                            max.data(),
                                            sums.data(),
                                            loss.data() + 1};
        ops::cross_entropy_max(this->gpu, part);
        ops::cross_entropy_sum(this->gpu, part);
        ops::cross_entropy_finish(this->gpu, part);
        ops::cross_entropy<T>(this->gpu, {kept.data(), targets.data(), mask.data(), in.rows, s.vocabulary, s.padded,
                                          s.ld, scale, ops::Gradient::none, loss.data() + 2});
        expect_close("gradient", fused.host(), want, gradient_tolerance<T>, scale);
        expect_same_bits("in parts", parts.host(), fused.host());
        expect_same_bits("no gradient", kept.host(), in.logits);
        const std::vector<double> got = loss.host();
        expect_close("loss", std::vector<double>{got[0]}, std::vector<double>{want_loss}, loss_tolerance<T>);
        expect_same_bits("loss in parts", std::vector<double>{got[1]}, std::vector<double>{got[0]});
        expect_same_bits("loss alone", std::vector<double>{got[2]}, std::vector<double>{got[0]});
    }
}

// Two ranks with uneven columns, the second holding padding; the reductions are made here.
TYPED_TEST(DeviceCrossEntropy, PartsOfTwoRanks) {
    using T = TypeParam;
    const Shape s{1001, 1040, 520};
    const i64 rows = 21;
    const std::vector<T> left = cast<T>(fresh(rows * 520, 9)), right = cast<T>(fresh(rows * 520, 9));
    std::vector<double> whole(static_cast<std::size_t>(rows * s.padded));
    for (i64 r = 0; r < rows; ++r) {
        for (i64 c = 0; c < 520; ++c) {
            whole[r * s.padded + c] = static_cast<double>(left[r * 520 + c]);
            whole[r * s.padded + 520 + c] = static_cast<double>(right[r * 520 + c]);
        }
    }
    const auto targets = fresh_integers(rows, 0, s.vocabulary);
    double want_loss = 0;
    ops::cross_entropy<double>(this->cpu, {whole.data(), targets.data(), nullptr, rows, s.vocabulary, s.padded,
                                           s.padded, scale, ops::Gradient::in_place, &want_loss});
    Array<T> a(left), b(right), max_a(rows), max_b(rows);
    Array<std::int32_t> on_targets(targets);
    Array<double> sums_a(2 * rows), sums_b(2 * rows), loss(std::vector<double>{0, 0});
    const ops::CrossEntropyPart<T> part_a{
        a.data(), on_targets.data(),       nullptr,      rows,          520,        520, 520, 0, 1001,
        scale,    ops::Gradient::in_place, max_a.data(), sums_a.data(), loss.data()};
    const ops::CrossEntropyPart<T> part_b{
        b.data(),     on_targets.data(), nullptr,        rows, 520, 481, 520, 520, 1001, scale, ops::Gradient::in_place,
        max_b.data(), sums_b.data(),     loss.data() + 1};
    ops::cross_entropy_max(this->gpu, part_a);
    ops::cross_entropy_max(this->gpu, part_b);
    std::vector<T> top = max_a.host();
    const std::vector<T> top_b = max_b.host();
    for (i64 r = 0; r < rows; ++r) {
        top[r] = std::max(top[r], top_b[r]);
    }
    for (T* to : {max_a.data(), max_b.data()}) {
        ok(cudaMemcpy(to, top.data(), top.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    ops::cross_entropy_sum(this->gpu, part_a);
    ops::cross_entropy_sum(this->gpu, part_b);
    std::vector<double> sums = sums_a.host();
    const std::vector<double> sums_of_b = sums_b.host();
    for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += sums_of_b[i];
    }
    for (double* to : {sums_a.data(), sums_b.data()}) {
        ok(cudaMemcpy(to, sums.data(), sums.size() * sizeof(double), cudaMemcpyHostToDevice));
    }
    ops::cross_entropy_finish(this->gpu, part_a);
    ops::cross_entropy_finish(this->gpu, part_b);
    const std::vector<T> got_a = a.host(), got_b = b.host();
    std::vector<T> joined(whole.size());
    for (i64 r = 0; r < rows; ++r) {
        std::copy_n(&got_a[r * 520], 520, &joined[r * s.padded]);
        std::copy_n(&got_b[r * 520], 520, &joined[r * s.padded + 520]);
    }
    expect_close("gradient", joined, whole, gradient_tolerance<T>, scale);
    expect_close("loss", loss.host(), std::vector<double>{want_loss, want_loss}, loss_tolerance<T>);
}

TYPED_TEST(DeviceCrossEntropy, TargetOutsideAndNanAreSeen) {
    using T = TypeParam;
    for (const bool outside : {true, false}) {
        std::vector<T> z = cast<T>(fresh(3 * 64));
        std::vector<std::int32_t> to = {1, 2, 3};
        if (outside) {
            to[1] = 60;
        } else {
            z[70] = std::numeric_limits<T>::quiet_NaN();
        }
        Array<T> logits(z);
        Array<std::int32_t> targets(to);
        Array<double> loss(std::vector<double>{0});
        ops::cross_entropy<T>(this->gpu, {logits.data(), targets.data(), nullptr, 3, 60, 64, 64, scale,
                                          ops::Gradient::in_place, loss.data()});
        EXPECT_TRUE(std::isnan(loss.host()[0]));
    }
}

}  // namespace
}  // namespace ogrom::device_test
