// What the CUDA driver sees: count, names, UUIDs, compute capabilities. Safe everywhere: a machine without a driver or
// a GPU, and a build without nvcc (not_compiled.cpp), give an empty list and the reason in words, never a failure.
#pragma once
#include <string>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom::cuda {

struct Device {
    int index = 0;
    std::string name;
    std::string uuid;  // "GPU-" and 8-4-4-4-12 hexadecimal digits, as nvidia-smi prints it
    int major = 0;     // compute capability
    int minor = 0;
    i64 memory_bytes = 0;
    std::string pci;  // "0000:1b:00.0": domain, bus and device, as lspci prints them
};

struct Devices {
    bool compiled = false;    // the CUDA sources are in this binary
    int driver_version = 0;   // 1000 * major + 10 * minor of the CUDA version that the driver offers; 0 = no driver
    int runtime_version = 0;  // likewise of the runtime in this binary
    std::vector<Device> devices;
    std::string reason;  // why `devices` is empty; empty otherwise
};

Devices list_devices();

}  // namespace ogrom::cuda
