// Products of the kernel tests: operands with odd strides, a poisoned result, every path, comparison with the
// reference.
#pragma once
#include <cstring>
#include <type_traits>

#include "kernels/cpu/matmul.h"
#include "kernels/ops/matmul.h"

#include "tests/kernels/support.h"
#include "tests/reference/matmul.h"

namespace ogrom::test {

using ops::Transpose;

struct Extents {
    i64 m, n, k;
};

template <class T>
struct Path {
    const char* name;
    void (*run)(const ops::Matmul<T>&);
};

// The public entry, OpenBLAS, and our own product where the processor has it; extents >= 1.
template <class T>
std::vector<Path<T>> paths() {
    std::vector<Path<T>> all = {
        {"public entry", [](const ops::Matmul<T>& op) { ops::matmul<T>({}, op); }},
        {"openblas", [](const ops::Matmul<T>& op) { cpu::matmul_in_pieces(op, std::numeric_limits<int>::max()); }},
    };
    if constexpr (std::is_same_v<T, float>) {
        if (cpu::own_matmul_runs()) {
            all.push_back({"own", cpu::matmul_own});
        }
    }
    return all;
}

template <class T>
struct Product {
    std::vector<T> a, b, before, y;
    ops::Matmul<T> op;

    Product(Extents e, Transpose transpose_a, Transpose transpose_b, T alpha, T beta) {
        const i64 columns_a = transpose_a == Transpose::yes ? e.m : e.k;
        const i64 columns_b = transpose_b == Transpose::yes ? e.k : e.n;
        op = {.y = nullptr,
              .a = nullptr,
              .b = nullptr,
              .m = e.m,
              .n = e.n,
              .k = e.k,
              .ldy = e.n + 3,
              .lda = columns_a + 5,
              .ldb = columns_b + 1,
              .transpose_a = transpose_a,
              .transpose_b = transpose_b,
              .alpha = alpha,
              .beta = beta};
        a = random_values<T>((transpose_a == Transpose::yes ? e.k : e.m) * op.lda, 1);
        b = random_values<T>((transpose_b == Transpose::yes ? e.n : e.k) * op.ldb, 2);
        before = beta == T(0) ? poisoned<T>(e.m * op.ldy) : random_values<T>(e.m * op.ldy, 3);
        y = before;
        op.y = y.data();
        op.a = a.data();
        op.b = b.data();
    }
    Product(const Product&) = delete;
    Product& operator=(const Product&) = delete;

    // Every path of the product on fresh copies of y, each checked.
    void run_and_check() {
        for (const auto& [name, path] : paths<T>()) {
            SCOPED_TRACE(name);
            y = before;
            path(op);
            check();
        }
    }

    // k additions, each half a roundoff of a partial sum of size up to sqrt(k), as a random walk: sqrt(k) sqrt(k) / 2
    // roundoffs; alpha and the tail of the walk make it 2 k, and 8 covers the ends of short sums.
    void check() const {
        const double bound = (2 * static_cast<double>(op.k) + 8) * roundoff<T>();
        for (i64 i = 0; i < op.m; ++i) {
            for (i64 j = 0; j < op.ldy; ++j) {
                const auto at = static_cast<std::size_t>(i * op.ldy + j);
                if (j >= op.n) {
                    ASSERT_EQ(std::memcmp(&y[at], &before[at], sizeof(T)), 0) << "written between rows";
                    continue;
                }
                const double want = reference::matmul_element(op, before.data(), i, j);
                ASSERT_TRUE(std::abs(static_cast<double>(y[at]) - want) <= bound)
                    << "row " << i << " column " << j << ": got " << y[at] << ", want " << want;
            }
        }
    }
};

template <class Function>
void for_each_transpose(const Function& function) {
    for (const Transpose a : {Transpose::no, Transpose::yes}) {
        for (const Transpose b : {Transpose::no, Transpose::yes}) {
            SCOPED_TRACE(::testing::Message() << "transposes " << (a == Transpose::yes) << (b == Transpose::yes));
            function(a, b);
        }
    }
}

}  // namespace ogrom::test
