// The machine's name and that of its processor.
#pragma once
#include <string>

namespace ogrom {

// gethostname(2); "unknown" where the machine does not say.
std::string host_name();

// The processor as /proc/cpuinfo names it; "unknown" where it does not.
std::string cpu_model();

// Version of NVIDIA's kernel module, "580.65.06": of this machine (/proc/driver/nvidia/version), or in such a text.
// Empty where there is none.
std::string gpu_driver();
std::string gpu_driver_in(const std::string& text);

}  // namespace ogrom
