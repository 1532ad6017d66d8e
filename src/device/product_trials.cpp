#include "src/device/product_trials.h"

#include "kernels/cuda/products.h"

namespace ogrom {

std::string products_key() {
    return cuda::products_key();
}

std::string measured_product_choices() {
    return cuda::export_products(cuda::Choices::measured);
}

std::string used_product_choices() {
    return cuda::export_products(cuda::Choices::used);
}

i64 take_product_choices(const std::string& text, TakeChoices how) {
    return cuda::import_products(text, how == TakeChoices::as_used ? cuda::Taken::as_used : cuda::Taken::for_later)
        .refused;
}

ProductTrials try_products(Stream stream, double seconds) {
    const cuda::ProductSearch search = cuda::search_products(stream, cuda::products_used(), seconds);
    double first = 0, best = 0;
    for (const cuda::ProductTime& one : search.products) {
        first += one.first_seconds;
        best += one.best_seconds;
    }
    ProductTrials trials;
    trials.settled = search.settled;
    trials.searched = static_cast<i64>(search.products.size());
    trials.left_out = search.left_out;
    trials.seconds = search.seconds;
    trials.gain = best > 0 ? first / best - 1 : 0;
    return trials;
}

}  // namespace ogrom
