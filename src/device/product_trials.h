// The algorithms of a GPU's matrix products (kernels/cuda/products.h), for the code above the device: text in, text
// out, and a search of what has no choice yet.
#pragma once
#include <string>

#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom {

// GPU and library that choices hold for, in words.
std::string products_key();

// Every measured choice of this process: a first line, then one a product.
std::string product_choices();

// Takes choices in; those of another GPU or library are passed over. Throws Error(data) where the text is broken; what
// stands before the break was taken.
void take_product_choices(const std::string& text);

struct ProductTrials {
    i64 searched = 0, left_out = 0;  // products; left_out: no time or memory, they keep the library's choice
    double seconds = 0;
    double gain = 0;  // of those searched together: the library's first choices took (1 + gain) of the time
};
// Measures the products that were used so far and have no choice, within `seconds`. Waits for the stream.
ProductTrials try_products(Stream stream, double seconds);

}  // namespace ogrom
