// Shared by the data tests: a folder that goes away, small token sets, raw index files.
#pragma once
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "kernels/common/error.h"

#include "src/base/file.h"
#include "src/data/sampler.h"
#include "src/data/token_set_writer.h"
#include "src/data/tokenizer.h"

namespace ogrom::data_test {

class Folder {
public:
    Folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "ogrom-data.XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] std::string at(const std::string& name) const { return path_ + "/" + name; }
    std::string write(const std::string& name, std::string_view bytes) const {
        std::ofstream(at(name), std::ios::binary) << bytes;
        return at(name);
    }

private:
    std::string path_;
};

// The message of the Error that `body` throws; "" where it throws none.
inline std::string message_of(const std::function<void()>& body, ExitCode code = ExitCode::data) {
    try {
        body();
    } catch (const Error& error) {
        EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
        return error.what();
    }
    return "";
}

#define EXPECT_SAYS(message, part)                                              \
    do {                                                                        \
        const std::string said_ = (message);                                    \
        EXPECT_NE(said_.find(part), std::string::npos) << "message: " << said_; \
    } while (false)

inline TokenSetRecord write_set(const std::string& prefix, const Tokenizer& tokenizer,
                                const std::vector<std::vector<std::int32_t>>& documents,
                                i64 max_sequence = 0x7FFFFFFF) {
    TokenSetWriter writer(prefix, tokenizer, "byte", max_sequence);
    for (const auto& document : documents) {
        writer.add(document);
    }
    return writer.finish({});
}

// `count` documents of `length` ids (eod included) of the byte tokenizer; the ids of document d spell d in base 256.
inline std::vector<std::vector<std::int32_t>> numbered_documents(i64 count, i64 length) {
    std::vector<std::vector<std::int32_t>> documents;
    for (i64 d = 0; d < count; ++d) {
        std::vector<std::int32_t> ids;
        for (i64 i = 0; i + 1 < length; ++i) {
            ids.push_back(static_cast<std::int32_t>((d >> (8 * (i % 2))) & 255));
        }
        documents.push_back(ids);
    }
    return documents;
}

template <class T>
void append(std::string& bytes, T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes.append(raw, sizeof value);
}

struct RawIndex {
    u64 version = 1;
    std::uint8_t type = 8;
    std::vector<std::int32_t> lengths;
    std::vector<i64> documents;
    [[nodiscard]] std::string bytes() const {
        std::string out("MMIDIDX\0\0", 9);
        append(out, version);
        append(out, type);
        append(out, static_cast<u64>(lengths.size()));
        append(out, static_cast<u64>(documents.size()));
        for (const auto length : lengths) {
            append(out, length);
        }
        i64 pointer = 0;
        for (const auto length : lengths) {
            append(out, pointer);
            pointer += (type == 8 ? 2 : 4) * static_cast<i64>(length);
        }
        for (const auto document : documents) {
            append(out, document);
        }
        return out;
    }
};

// Folder of shared test data, or "" (the test then skips).
inline std::string shared_folder() {
    const char* value = std::getenv("OGROM_SHARED");
    const std::filesystem::path beside = std::filesystem::path(__FILE__).parent_path() / "../../../../shared";
    const std::string path = value != nullptr ? value : beside.lexically_normal().string();
    return std::filesystem::exists(path) ? path : "";
}

}  // namespace ogrom::data_test
