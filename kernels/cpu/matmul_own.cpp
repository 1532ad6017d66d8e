// The packed product of our own, for processors with wider vectors than OpenBLAS uses on them: which products it takes,
// how threads share one, and the packing memory. The arithmetic is in matmul_avx512.cpp.
#include <algorithm>
#include <cblas.h>
#include <cstdlib>
#include <memory>
#include <new>
#include <omp.h>
#include <string>

#include "kernels/common/fault.h"
#include "kernels/cpu/attention_job.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_tile.h"

namespace ogrom {
namespace {

using ops::Matmul;
using ops::Transpose;

// Packing an element takes as long as this many multiply-adds of one thread.
constexpr i64 packing_cost = 16;
// Below this many multiply-adds (20 us of one core) a second thread costs more than it brings.
constexpr i64 serial_limit = i64{1} << 21;
constexpr i64 packing_bytes = cpu::packing_floats * static_cast<i64>(sizeof(float));

struct FreePacking {
    void operator()(float* memory) const { ::operator delete (memory, std::align_val_t{64}); }
};

// The calling thread's packing memory, taken at its first product; nullptr when there is none to be had.
float* packing_of_this_thread() {
    static thread_local std::unique_ptr<float, FreePacking> memory;
    if (memory == nullptr) {
        memory.reset(static_cast<float*>(::operator new (packing_bytes, std::align_val_t{64}, std::nothrow)));
    }
    return memory.get();
}

struct Range {
    i64 first, count;
};

// Share `index` of `shares`, in whole tiles of `step`.
Range share(i64 extent, i64 step, int index, int shares) {
    const i64 tiles = ceil_div(extent, step);
    const i64 first = tiles * index / shares * step;
    const i64 last = std::min(extent, tiles * (index + 1) / shares * step);
    return {first, std::max(i64{0}, last - first)};
}

// Multiply-adds of a product m x n per element of depth, packing included.
i64 cost(i64 m, i64 n) {
    return m * n + packing_cost * (m + n);
}

cpu::ProductJob job_of(const Matmul<float>& op, Range rows, Range columns, float* packing) {
    cpu::Operand a{op.a, op.lda, 1};
    if (op.transpose_a == Transpose::yes) {
        a = {op.a, 1, op.lda};
    }
    cpu::Operand b{op.b, 1, op.ldb};
    if (op.transpose_b == Transpose::yes) {
        b = {op.b, op.ldb, 1};
    }
    a.start += rows.first * a.step;
    b.start += columns.first * b.step;
    return {.y = op.y + row_offset(rows.first, op.ldy) + columns.first,
            .ldy = op.ldy,
            .a = a,
            .b = b,
            .rows = rows.count,
            .columns = columns.count,
            .depth = op.k,
            .alpha = op.alpha,
            .beta = op.beta,
            .packing = packing};
}

}  // namespace

namespace cpu {

bool own_matmul_runs() {
    return best_isa() == Isa::avx512;
}

MatmulPath matmul_path(std::string_view wish, bool own_runs) {
    if (wish.empty()) {
        return own_runs ? MatmulPath::own : MatmulPath::openblas;
    }
    if (wish == "openblas") {
        return MatmulPath::openblas;
    }
    require(wish == "own", ExitCode::usage,
            "OGROM_MATMUL=" + std::string(wish) + ": the value must be own or openblas");
    require(own_runs, ExitCode::usage,
            "OGROM_MATMUL=own: this processor has no AVX-512, which our own product needs; leave it unset or openblas");
    return MatmulPath::own;
}

MatmulPath matmul_path() {
    static const MatmulPath path = [] {
        const char* wish = std::getenv("OGROM_MATMUL");
        return matmul_path(wish == nullptr ? "" : wish, own_matmul_runs());
    }();
    return path;
}

// Narrow results lose to OpenBLAS: half of the 32 columns of a tile would be padding.
bool own_matmul_pays(const Matmul<float>& op) {
    return op.n > tile_columns / 2;
}

MatmulGrid matmul_grid(i64 m, i64 n, int threads) {
    MatmulGrid best{1, 1};
    i64 least = cost(m, n);
    for (int rows = 1; rows <= threads; ++rows) {
        if (threads % rows != 0) {
            continue;
        }
        const MatmulGrid grid{rows, threads / rows};
        const i64 share_cost = cost(ceil_div(ceil_div(m, tile_rows), grid.rows) * tile_rows,
                                    ceil_div(ceil_div(n, tile_columns), grid.columns) * tile_columns);
        if (rows == 1 || share_cost < least) {
            best = grid;
            least = share_cost;
        }
    }
    return best;
}

void matmul_own(const Matmul<float>& op) {
    Matmul<float> product = op;
    if (fault_active("matmul_edge_lost")) {
        product.n -= op.n % tile_columns;
    }
    const bool serial = omp_in_parallel() != 0 || cost(product.m, product.n) <= serial_limit / product.k;
    const MatmulGrid grid = serial ? MatmulGrid{1, 1} : matmul_grid(product.m, product.n, omp_get_max_threads());
    bool no_memory = false;
    const auto work = [&](int part) {
        const Range rows = share(product.m, tile_rows, part / grid.columns, grid.rows);
        const Range columns = share(product.n, tile_columns, part % grid.columns, grid.columns);
        float* packing = packing_of_this_thread();
        if (packing != nullptr && rows.count > 0 && columns.count > 0) {
            product_avx512(job_of(product, rows, columns, packing));
        }
        return packing == nullptr;
    };
    if (serial) {
        no_memory = work(0);
    } else {
#pragma omp parallel for schedule(static, 1) reduction(|| : no_memory)
        for (int part = 0; part < grid.rows * grid.columns; ++part) {
            no_memory = work(part) || no_memory;
        }
    }
    require(!no_memory, ExitCode::memory,
            "matmul: no memory for packing, " + std::to_string(packing_bytes) + " bytes per thread");
}

}  // namespace cpu

namespace ops {

const char* matmul_backend() {
    static const std::string name = cpu::matmul_path() == cpu::MatmulPath::own
                                        ? std::string("own avx512")
                                        : "openblas " + std::string(openblas_get_corename());
    return name.c_str();
}

i64 matmul_workspace_bytes(int threads) {
    return cpu::matmul_path() == cpu::MatmulPath::own ? threads * packing_bytes : 0;
}

}  // namespace ops
}  // namespace ogrom
