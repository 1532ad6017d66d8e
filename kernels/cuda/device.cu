// in: nothing; out: the devices of this process (CUDA_VISIBLE_DEVICES applies). No context is created on any of them.
#include <cstdio>
#include <cuda_runtime.h>

#include "kernels/cuda/device.h"

namespace ogrom::cuda {
namespace {

std::string uuid_text(const cudaUUID_t& uuid) {
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            text += '-';
        }
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
        text += digits;
    }
    return text;
}

std::string pci_text(const cudaDeviceProp& properties) {
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", static_cast<unsigned>(properties.pciDomainID),
                  static_cast<unsigned>(properties.pciBusID), static_cast<unsigned>(properties.pciDeviceID));
    return text;
}

std::string because(const char* call, cudaError_t status) {
    static_cast<void>(cudaGetLastError());  // not to be met again by a later check
    return std::string(call) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
}

}  // namespace

Devices list_devices() {
    Devices found;
    found.compiled = true;
    static_cast<void>(cudaRuntimeGetVersion(&found.runtime_version));
    if (const cudaError_t status = cudaDriverGetVersion(&found.driver_version); status != cudaSuccess) {
        found.driver_version = 0;
        found.reason = because("cudaDriverGetVersion", status);
        return found;
    }
    if (found.driver_version == 0) {
        found.reason = "no CUDA driver is installed on this machine";
        return found;
    }
    int count = 0;
    if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
        found.reason = because("cudaGetDeviceCount", status);
        return found;
    }
    for (int index = 0; index < count; ++index) {
        cudaDeviceProp properties{};
        if (const cudaError_t status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess) {
            found.devices.clear();
            found.reason = because("cudaGetDeviceProperties", status) + ", device " + std::to_string(index);
            return found;
        }
        found.devices.push_back({index, properties.name, uuid_text(properties.uuid), properties.major, properties.minor,
                                 static_cast<i64>(properties.totalGlobalMem), pci_text(properties)});
    }
    if (count == 0) {
        found.reason = "the CUDA driver shows no device to this process (CUDA_VISIBLE_DEVICES?)";
    }
    return found;
}

}  // namespace ogrom::cuda
