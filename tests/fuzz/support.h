// What all targets share: the only fault that a reader may have, and input as a file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ogrom::fuzz {

// Runs `read`; an Error is an answer. Whatever else is thrown ends the process.
void accept(const std::function<void()>& read);

std::string_view text_of(const std::uint8_t* data, std::size_t size);

// One folder of this process, below /dev/shm where that is there; removed at exit.
const std::string& folder();
void put_bytes(const std::string& path, std::string_view bytes);
// NAME in folder() with these bytes; its path.
std::string put_file(const std::string& name, std::string_view bytes);

}  // namespace ogrom::fuzz
