#include "src/device/blas.h"

#include <cblas.h>
#include <omp.h>

#include "kernels/ops/attention.h"
#include "kernels/ops/matmul.h"

namespace ogrom {
namespace {

std::string parallel_name() {
    switch (openblas_get_parallel()) {
        case OPENBLAS_OPENMP:
            return "OpenMP";
        case OPENBLAS_THREAD:
            return "pthread";
        default:
            return "sequential";
    }
}

}  // namespace

std::string set_threads(int threads) {
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
    openblas_set_num_threads(threads);
    if (openblas_get_parallel() != OPENBLAS_OPENMP) {
        return "OpenBLAS is the " + parallel_name() +
               " build: its threads compete with ours; install libopenblas0-openmp (Debian) for full speed";
    }
    return {};
}

std::string blas_description() {
    return std::string(openblas_get_config()) + " (" + parallel_name() + ")";
}

std::string kernel_choice(const std::string& gpu) {
    if (!gpu.empty()) {
        return "cuda on " + gpu;
    }
    return std::string("products ") + ops::matmul_backend() + ", attention " + ops::attention_backend();
}

}  // namespace ogrom
