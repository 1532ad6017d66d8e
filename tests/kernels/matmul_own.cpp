// Our own product on processors with AVX-512: every edge of its blocks, NaN, bits under every cut and thread count,
// and the choice between it and OpenBLAS.
#include <gtest/gtest.h>

#include "kernels/cpu/matmul_tile.h"

#include "tests/kernels/matmul_support.h"
#include "tests/kernels/sparse_memory.h"

namespace ogrom::test {
namespace {

class MatmulOwn : public ::testing::Test {
protected:
    void SetUp() override {
        if (!cpu::own_matmul_runs()) {
            GTEST_SKIP() << "the processor has no AVX-512";
        }
    }
};

void check_own(const Extents& e) {
    SCOPED_TRACE(::testing::Message() << e.m << " x " << e.n << " x " << e.k);
    for_each_transpose([&](Transpose a, Transpose b) {
        for (const float beta : {0.0F, 1.0F, -0.5F}) {
            Product<float> product(e, a, b, beta == 1.0F ? 1.0F : 1.5F, beta);
            cpu::matmul_own(product.op);
            product.check();
        }
    });
}

TEST_F(MatmulOwn, EdgesOfRows) {
    for (i64 m = 1; m <= cpu::tile_rows + 1; ++m) {
        check_own({m, 35, 19});
    }
    for (const i64 block : {cpu::block_rows, 2 * cpu::block_rows}) {
        for (const i64 m : {block - 1, block, block + 1}) {
            check_own({m, 33, 18});
        }
    }
}

TEST_F(MatmulOwn, EdgesOfColumns) {
    for (const i64 n : {1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65}) {
        check_own({15, n, 17});
    }
    for (const i64 n : {cpu::block_columns - 1, cpu::block_columns, cpu::block_columns + 1}) {
        check_own({15, n, 7});
    }
}

TEST_F(MatmulOwn, EdgesOfTheSum) {
    for (const i64 k : {1, 2, 15, 16, 17, 31, 32, 33}) {
        check_own({16, 34, k});
    }
    for (const i64 block : {cpu::block_depth, 2 * cpu::block_depth}) {
        for (const i64 k : {block - 1, block, block + 1}) {
            check_own({15, 33, k});
        }
    }
    check_own({3, 17, 20011});
}

TEST_F(MatmulOwn, EdgesOfAllTogether) {
    check_own({cpu::block_rows + 1, 65, cpu::block_depth + 1});
}

// A NaN or an Inf reaches its row (of a) or column (of b) and nothing else: neither through the padding of a panel, nor
// to an element beside it.
TEST_F(MatmulOwn, NanReachesExactlyItsRowOrColumn) {
    constexpr i64 m = 29, n = 41, k = 23;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    for_each_transpose([&](Transpose a, Transpose b) {
        for (const float bad : {nan, infinity}) {
            for (const i64 row : {i64{0}, i64{13}, i64{14}, m - 1}) {
                Product<float> product({m, n, k}, a, b, 1, 0);
                const i64 l = k - 1;
                product.a[static_cast<std::size_t>(a == Transpose::yes ? l * product.op.lda + row
                                                                       : row * product.op.lda + l)] = bad;
                cpu::matmul_own(product.op);
                for (i64 i = 0; i < m * n; ++i) {
                    ASSERT_EQ(std::isfinite(product.op.y[i / n * product.op.ldy + i % n]), i / n != row)
                        << "bad row " << row << ", element " << i / n << ", " << i % n;
                }
            }
            for (const i64 column : {i64{0}, i64{31}, i64{32}, n - 1}) {
                Product<float> product({m, n, k}, a, b, 1, 0);
                product.b[static_cast<std::size_t>(b == Transpose::yes ? column * product.op.ldb : column)] = bad;
                cpu::matmul_own(product.op);
                for (i64 i = 0; i < m * n; ++i) {
                    ASSERT_EQ(std::isfinite(product.op.y[i / n * product.op.ldy + i % n]), i % n != column)
                        << "bad column " << column << ", element " << i / n << ", " << i % n;
                }
            }
        }
    });
}

// Equal bits for 1, 2, 3, 5 threads and inside a parallel region.
TEST_F(MatmulOwn, BitsDoNotDependOnThreads) {
    for_each_transpose([&](Transpose a, Transpose b) {
        Product<float> product({211, 197, 777}, a, b, 1.25F, 0.75F);
        std::vector<float> first;
        for (const int count : {1, 2, 3, 5}) {
            const Threads threads(count);
            product.y = product.before;
            cpu::matmul_own(product.op);
            first = count == 1 ? product.y : first;
            EXPECT_EQ(std::memcmp(first.data(), product.y.data(), first.size() * sizeof(float)), 0)
                << "with " << count << " threads";
        }
        product.y = product.before;
#pragma omp parallel num_threads(2)
#pragma omp single
        cpu::matmul_own(product.op);
        EXPECT_EQ(first, product.y);
    });
}

// An element of y has the same bits whatever lies beside it: batches and vocabularies may be cut anywhere.
TEST_F(MatmulOwn, BitsDoNotDependOnNeighbours) {
    Product<float> whole({180, 90, 600}, Transpose::no, Transpose::yes, 1, 0);
    cpu::matmul_own(whole.op);
    constexpr i64 row = 37, column = 29;
    Product<float> part({5, 43, 600}, Transpose::no, Transpose::yes, 1, 0);
    ops::Matmul<float> op = part.op;
    op.a = whole.op.a + row * whole.op.lda;
    op.b = whole.op.b + column * whole.op.ldb;
    op.lda = whole.op.lda;
    op.ldb = whole.op.ldb;
    cpu::matmul_own(op);
    for (i64 i = 0; i < op.m; ++i) {
        EXPECT_EQ(std::memcmp(op.y + i * op.ldy, whole.op.y + (row + i) * whole.op.ldy + column,
                              static_cast<std::size_t>(op.n) * sizeof(float)),
                  0)
            << "row " << i;
    }
}

// Rows that start beyond 2^31 and 2^32 elements in all three matrices.
TEST_F(MatmulOwn, OffsetsBeyond32Bits) {
    constexpr i64 stride = (i64{1} << 31) - 8;
    constexpr i64 rows = 4, n = 20;
    const SparseMemory memory(3 * rows * stride * static_cast<i64>(sizeof(float)));
    if (!memory.valid()) {
        GTEST_SKIP() << "no address space of 96 GiB";
    }
    float* a = memory.as<float>();
    float* b = a + rows * stride;
    float* y = b + rows * stride;
    for (i64 i = 0; i < rows; ++i) {
        for (i64 j = 0; j < n; ++j) {
            a[i * stride + j] = static_cast<float>(i == j);
            b[i * stride + j] = static_cast<float>(10 * i + j);
        }
    }
    cpu::matmul_own(
        {.y = y, .a = a, .b = b, .m = rows, .n = n, .k = rows, .ldy = stride, .lda = stride, .ldb = stride});
    for (i64 i = 0; i < rows; ++i) {
        for (i64 j = 0; j < n; ++j) {
            ASSERT_EQ(y[i * stride + j], static_cast<float>(10 * i + j)) << i << ", " << j;
        }
    }
}

TEST(MatmulChoice, WordOfTheEnvironment) {
    using cpu::MatmulPath;
    EXPECT_EQ(cpu::matmul_path("", true), MatmulPath::own);
    EXPECT_EQ(cpu::matmul_path("", false), MatmulPath::openblas);
    EXPECT_EQ(cpu::matmul_path("own", true), MatmulPath::own);
    EXPECT_EQ(cpu::matmul_path("openblas", true), MatmulPath::openblas);
    EXPECT_EQ(cpu::matmul_path("openblas", false), MatmulPath::openblas);
    EXPECT_THROW(cpu::matmul_path("own", false), Error);
    EXPECT_THROW(cpu::matmul_path("mkl", true), Error);
}

TEST(MatmulChoice, NameAndMemoryFollowThePath) {
    const std::string name = ops::matmul_backend();
    if (cpu::matmul_path() == cpu::MatmulPath::own) {
        EXPECT_EQ(name, "own avx512");
        EXPECT_EQ(ops::matmul_workspace_bytes(3), 3 * cpu::packing_floats * 4);
    } else {
        EXPECT_EQ(name.rfind("openblas ", 0), 0U) << name;
        EXPECT_EQ(ops::matmul_workspace_bytes(3), 0);
    }
}

TEST(MatmulChoice, GridUsesEveryThreadAndCutsTheLongerSide) {
    for (const int threads : {1, 2, 3, 7, 12, 64}) {
        const cpu::MatmulGrid grid = cpu::matmul_grid(4096, 3072, threads);
        EXPECT_EQ(grid.rows * grid.columns, threads);
    }
    EXPECT_EQ(cpu::matmul_grid(4096, 64, 4).rows, 4);
    EXPECT_EQ(cpu::matmul_grid(28, 50304, 4).columns, 4);
    EXPECT_EQ(cpu::matmul_grid(4096, 4096, 16).rows, 4);
}

}  // namespace
}  // namespace ogrom::test
