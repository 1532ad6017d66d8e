// The algorithms of a GPU's matrix products (kernels/cuda/products.h), for the code above the device: text in, text
// out, and a search of what has no choice yet.
#pragma once
#include <string>

#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom {

// GPU and library that choices hold for, in words.
std::string products_key();

// Choices of this process: a first line that names GPU and library, then one a product. measured: what a search has
// found, for a file; used: what the products of this run were made by, measured or not, for its checkpoint.
std::string measured_product_choices();
std::string used_product_choices();

// Takes choices in, in parts of a first line and its products; parts of another GPU or library are passed over. No
// search changes them later. as_used: this run's products are made by them. Returns how many the library does not make
// so any more, which were left out. Throws Error(data) where the text is broken; what stands before the break was
// taken.
enum class TakeChoices { for_later, as_used };
i64 take_product_choices(const std::string& text, TakeChoices how);

struct ProductTrials {
    i64 settled = 0;                 // products that had a choice before
    i64 searched = 0, left_out = 0;  // left_out: no time or memory, they keep the library's choice
    double seconds = 0;
    double gain = 0;  // of those searched together: the library's first choices took (1 + gain) of the time
};
// Measures the products that were used so far and are not settled, within `seconds`. Waits for the stream.
ProductTrials try_products(Stream stream, double seconds);

}  // namespace ogrom
