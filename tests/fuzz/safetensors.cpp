// A safetensors file: its header, then every value that the program has a type for.
#include "src/io/safetensors.h"

#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string path = ogrom::fuzz::put_file("model.safetensors", ogrom::fuzz::text_of(data, size));
    ogrom::fuzz::accept([&] {
        const ogrom::SafetensorsFile file(path);
        for (const auto& [name, tensor] : file.tensors()) {
            if (tensor.held) {
                std::vector<double> values(static_cast<std::size_t>(tensor.count()));
                file.read(name, 0, tensor.count(), values.data());
            }
        }
    });
    return 0;
}
