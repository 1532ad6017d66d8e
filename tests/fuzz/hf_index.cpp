// model.safetensors.index.json over two shards: shard-1.safetensors has tensors a and b, shard-2.safetensors has c.
#include "src/io/safetensors.h"

#include "tests/fuzz/support.h"

namespace {

void put_shard(const std::string& file, const std::vector<std::string>& names) {
    std::vector<ogrom::SafeEntry> entries;
    for (const std::string& name : names) {
        entries.push_back({name, ogrom::Dtype::bf16, {3}});
    }
    ogrom::fuzz::put_file(file, ogrom::safetensors_header(entries) + std::string(names.size() * 6, '\0'));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool made = [] {
        put_shard("shard-1.safetensors", {"a", "b"});
        put_shard("shard-2.safetensors", {"c"});
        return true;
    }();
    static_cast<void>(made);
    ogrom::fuzz::put_file("model.safetensors.index.json", ogrom::fuzz::text_of(data, size));
    ogrom::fuzz::accept([] {
        const ogrom::SafetensorsSet set(ogrom::fuzz::folder());
        for (const std::string& name : set.names()) {
            std::vector<float> values(static_cast<std::size_t>(set.find(name)->count()));
            set.read(name, 0, set.find(name)->count(), values.data());
        }
    });
    return 0;
}
