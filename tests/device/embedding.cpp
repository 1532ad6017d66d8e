// Embedding on the device against the CPU in double: cut tables, frequent tokens, masks.
#include "kernels/ops/embedding.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class T>
class DeviceEmbedding : public OnDeviceTyped<T> {};
TYPED_TEST_SUITE(DeviceEmbedding, Precisions);

constexpr i64 B = 3, T_ = 171, rows = B * T_, vocabulary = 97, sequence = 400;
constexpr i64 widths[] = {1, 6, 64, 515, 768};
const std::vector<i64> samples = {5, 0, 3};

ops::DropoutSpec dropout(double p) {
    return {.p = p, .seed = run_seed() + 5, .site = 4, .step = 8};
}

struct Tokens {
    std::vector<std::int32_t> tokens = fresh_integers(rows, 0, vocabulary);
    std::vector<std::int32_t> positions = fresh_integers(rows, 0, sequence);
    // One token in half of the rows: its sum goes over several pieces of the sorted list.
    Tokens() {
        for (i64 r = 0; r < rows; r += 2) {
            tokens[r] = 41;
        }
    }
};

// Two roundings of numbers up to 2 / (1 - p).
TYPED_TEST(DeviceEmbedding, ForwardOfWholeAndCutTables) {
    using T = TypeParam;
    const Tokens in;
    Array<std::int32_t> tokens(in.tokens), positions(in.positions);
    Array<i64> on_samples(samples);
    for (const i64 C : widths) {
        for (const i64 first : {i64{0}, i64{30}}) {
            const i64 held = first == 0 ? 0 : 50;
            const double p = first == 0 ? 0.0 : 0.3;
            const i64 table_rows = held > 0 ? held : vocabulary;
            const std::vector<T> table = cast<T>(fresh(table_rows * C)), places = cast<T>(fresh(sequence * C));
            Array<T> on_table(table), on_places(places), y(rows * C);
            std::vector<T> want(static_cast<std::size_t>(rows * C));
            ops::EmbeddingForward<T> op{want.data(),
                                        table.data(),
                                        places.data(),
                                        in.tokens.data(),
                                        in.positions.data(),
                                        B,
                                        T_,
                                        C,
                                        samples.data(),
                                        dropout(p),
                                        3,
                                        T_ + 20,
                                        first,
                                        held};
            ops::embedding_forward(this->cpu, op);
            op.y = y.data();
            op.token_table = on_table.data();
            op.position_table = on_places.data();
            op.tokens = tokens.data();
            op.positions = positions.data();
            op.sample = on_samples.data();
            ops::embedding_forward(this->gpu, op);
            expect_same_bits("forward", y.host(), want);
            // In two steps: rows of the table, then position and mask.
            Array<T> steps(rows * C);
            op.y = steps.data();
            op.position_table = nullptr;
            op.dropout = {};
            ops::embedding_forward(this->gpu, op);
            ops::position_forward<T>(this->gpu, {steps.data(), on_places.data(), positions.data(), B, T_, C,
                                                 on_samples.data(), dropout(p), 3, T_ + 20});
            expect_same_bits("in two steps", steps.host(), want);
        }
    }
}

// The frequent token: 260 numbers of size 1 / (1 - p), in chains of 64 whose values reach 8, then the parts. A position
// has one or two rows, each with three roundings.
template <class T>
constexpr double token_tolerance = 48 * roundoff<T>();
template <class T>
constexpr double position_tolerance = 16 * roundoff<T>();

TYPED_TEST(DeviceEmbedding, BackwardAddsAndRepeats) {
    using T = TypeParam;
    const Tokens in;
    Array<std::int32_t> tokens(in.tokens), positions(in.positions);
    Array<i64> on_samples(samples);
    for (const i64 C : widths) {
        for (const i64 first : {i64{0}, i64{30}}) {
            const i64 held = first == 0 ? 0 : 50;
            const double p = first == 0 ? 0.0 : 0.3;
            const i64 table_rows = held > 0 ? held : vocabulary;
            const auto g = fresh(rows * C), table = fresh(table_rows * C), places = fresh(sequence * C);
            auto want_table = cast<double>(table), want_places = cast<double>(places);
            const auto g64 = cast<double>(g);
            ops::embedding_backward<double>(
                this->cpu, {want_table.data(), want_places.data(), g64.data(), in.tokens.data(), in.positions.data(), B,
                            T_, C, vocabulary, samples.data(), dropout(p), 3, T_ + 20, first, held});
            Array<T> on_g(cast<T>(g)), on_table(cast<T>(table)), on_places(cast<T>(places)), again(cast<T>(table));
            ops::EmbeddingBackward<T> op{on_table.data(),
                                         on_places.data(),
                                         on_g.data(),
                                         tokens.data(),
                                         positions.data(),
                                         B,
                                         T_,
                                         C,
                                         vocabulary,
                                         on_samples.data(),
                                         dropout(p),
                                         3,
                                         T_ + 20,
                                         first,
                                         held};
            ops::embedding_backward(this->gpu, op);
            op.d_token_table = again.data();
            op.d_position_table = nullptr;
            ops::embedding_backward(this->gpu, op);
            expect_close("token table", on_table.host(), want_table, token_tolerance<T>, 8);
            expect_close("position table", on_places.host(), want_places, position_tolerance<T>);
            expect_same_bits("again", again.host(), on_table.host());
        }
    }
}

}  // namespace
}  // namespace ogrom::device_test
