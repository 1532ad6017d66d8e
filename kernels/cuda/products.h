// Which algorithm of cublasLt makes a product. Unasked, a shape gets the library's first choice at its first call, and
// keeps it; search_products measures several and keeps the fastest. What is kept holds for this process and the current
// device, and goes out and in as text: one rank searches and sends, a file keeps what was measured for the next start,
// a checkpoint what its run used. A step that has run once asks the library nothing more.
#pragma once
#include <compare>
#include <string>
#include <vector>

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"
#include "kernels/ops/fp8.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/matmul.h"

namespace ogrom::cuda {

// The pass that a product does on its sums (kernels/ops/linear.h).
enum class Epilogue { none, bias, bias_gelu, gelu_backward, bias_gradient };

// How products of floats are made: fp32 throughout, or operands rounded to 10 bits on the tensor cores (relative error
// 2^-11 a factor). Of this process; fp32 unless set.
enum class FloatProducts { fp32, tf32 };
void set_float_products(FloatProducts how);
FloatProducts float_products();

// What the choice of an algorithm depends on: y[m,n] = op(a)[m,k] op(b)[k,n] as in ops::Matmul.
struct ProductShape {
    Dtype operands;
    Dtype operands_b = operands;  // of b, which differs in fp8 alone
    Dtype result;
    FloatProducts floats = FloatProducts::fp32;  // of fp32 operands
    i64 m, n, k;
    i64 ldy, lda, ldb;
    ops::Transpose transpose_a, transpose_b;
    ops::Accumulate mode = ops::Accumulate::overwrite;  // add: beta != 0
    Epilogue epilogue = Epilogue::none;
    ops::ProductSums sums = ops::ProductSums::full;  // of fp8 operands
    i64 alignment = 16;                              // bytes; the least of all pointers, 16 at most

    auto operator<=>(const ProductShape&) const = default;
};

// The shapes that products had so far on the current device, in no special order: run a step, then search these.
std::vector<ProductShape> products_used();

struct ProductTime {
    ProductShape shape;
    double first_seconds, best_seconds;  // of the library's first choice and of what is kept
    int measured;                        // algorithms that ran; the separate pass counts as one
    bool apart;                          // the product and its pass as two kernels are faster than in one
};

struct ProductSearch {
    std::vector<ProductTime> products;
    i64 left_out = 0;  // shapes without time or memory
    i64 settled = 0;   // shapes that had their choice before
    double seconds = 0;
};

// Measures up to 16 algorithms of each shape whose choice is not settled (measured here, or taken in), with random
// operands that rotate through twice the L2 cache, by events, within about `seconds`; waits for the stream. Takes up to
// 8 GiB of device memory and half of what is free, and gives it back. A reduced result of split sums in a type below
// fp32 is never taken.
ProductSearch search_products(Stream stream, const std::vector<ProductShape>& shapes, double seconds);

// Device and library that choices hold for: one line, such as "NVIDIA H200, cublasLt 130101".
std::string products_key();

// Choices as text: "ogrom-products 1 | <key>", then a line for each. measured: those that a search made, used or not.
// used: those of the products that this process has made or took in as used, the library's first choices too: what the
// bits of a run depend on.
enum class Choices { measured, used };
std::string export_products(Choices which);

// Takes choices in, in place of those there are. A text may hold several parts, each with its first line; those of
// another device or library are passed over. refused: lines of this one that the library does not make so any more.
// Throws (data) where the text is broken.
enum class Taken { for_later, as_used };
struct ImportedProducts {
    i64 taken = 0, refused = 0;
};
ImportedProducts import_products(const std::string& text, Taken how);

}  // namespace ogrom::cuda
