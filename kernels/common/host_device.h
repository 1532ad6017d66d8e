// Marks a function that runs on the host and on a CUDA device alike.
#pragma once

#ifdef __CUDACC__
#define OGROM_HOST_DEVICE __host__ __device__
#else
#define OGROM_HOST_DEVICE
#endif
