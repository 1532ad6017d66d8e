// Headers that lie, values at odd places, and the exact bytes of 16-bit numbers (field case B64).
#include "src/io/safetensors.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

std::string file_of(const std::string& header, const std::string& values) {
    const u64 length = header.size();
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    return text + header + values;
}

std::string fault_of(const std::string& bytes) {
    const test::Folder folder;
    const std::string path = folder.path("model.safetensors");
    write_file_atomic(path, bytes);
    try {
        const SafetensorsFile file(path);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::data);
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
        return error.what();
    }
    return "";
}

// Brackets that would overrun the stack of whoever goes down them.
std::string nested(const std::string& before, const std::string& after) {
    constexpr std::size_t deep = 200'000;
    return before + std::string(deep, '[') + std::string(deep, ']') + after;
}

TEST(Safetensors, RefusesHeadersThatLie) {
    struct Case {
        std::string header, values, text;
    };
    const std::string four(4, '\0');
    for (
        const Case& one : std::vector<Case>{
            {"{", "", "no JSON"},
            {"[]", "", "no object"},
            {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "", "lies at bytes 0 to 4 of 0"},
            {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four, "take 8"},
            {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four, "has -1"},
            {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", four, "has 1.0"},
            {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", four, "beyond 64 bits"},
            {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", four, "F31"},
            {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", four, "lies at"},
            {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})", four, "whole number"},
            {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four + four, "the file has 8"},
            {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", four + four, "a hole at byte 0"},
            {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
             four, "overlap"},
            {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
             four, "\"a\" stands twice"},
            {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four, "\"dtype\" stands twice"},
            {R"({"__metadata__":null})", "", "no object of texts"},
            {R"({"__metadata__":[]})", "", "no object of texts"},
            {nested(R"({"a":{"dtype":"F32","shape":)", R"(,"data_offsets":[0,4]}})"), four, "more than 64 deep"},
            {nested(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)", "}}"), four, "more than 64 deep"},
            {R"({"__metadata__":{"a":1}})", "", "texts alone"}}) {
        EXPECT_NE(fault_of(file_of(one.header, one.values)).find(one.text), std::string::npos)
            << one.header << ": " << fault_of(file_of(one.header, one.values));
    }
    EXPECT_NE(fault_of("short").find("5 bytes"), std::string::npos);
    EXPECT_NE(fault_of(std::string(8, '\xff') + "{}").find("in a file of 10"), std::string::npos);
    EXPECT_EQ(fault_of(file_of("{}", "")), "");
}

TEST(Safetensors, ReadsValuesAtOddPlaces) {
    const test::Folder folder;
    std::string header = R"({"h":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},)"
                         R"("f":{"dtype":"F32","shape":[2],"data_offsets":[6,14]}})";
    header.resize(header.size() + (10 - header.size() % 8) % 8, ' ');  // 2 mod 4: nothing behind it is aligned
    ASSERT_EQ(header.size() % 4, 2U);
    const float values[] = {1.5F, -3e38F};
    std::string bytes = std::string("\x80\x3f\x00\x80\x01\x00", 6);
    bytes.append(reinterpret_cast<const char*>(values), sizeof values);
    write_file_atomic(folder.path("model.safetensors"), file_of(header, bytes));
    const SafetensorsSet set(folder.path());
    float read[3];
    set.read("h", 0, 3, read);
    EXPECT_EQ(read[0], 1.0F);
    EXPECT_TRUE(read[1] == 0 && std::signbit(read[1]));
    EXPECT_EQ(std::bit_cast<u32>(read[2]), 0x00010000U);
    set.read("f", 1, 1, read);
    EXPECT_EQ(read[0], -3e38F);
}

TEST(Safetensors, WritesTheBytesOfBf16) {
    const float nan = std::bit_cast<float>(0x7fc12345U), inf = std::numeric_limits<float>::infinity();
    const float values[] = {1.0F,        -0.0F,      std::bit_cast<float>(0x00010000U), inf, nan, 3.0e38F,
                            1.00390625F, 1.01171875F};
    const unsigned char wanted[] = {0x80, 0x3f, 0x00, 0x80, 0x01, 0x00, 0x80, 0x7f,
                                    0xc1, 0x7f, 0x62, 0x7f, 0x80, 0x3f, 0x82, 0x3f};
    const std::vector<std::byte> bytes = narrowed(values, 8, Dtype::bf16, "t");
    ASSERT_EQ(bytes.size(), sizeof wanted);
    EXPECT_EQ(std::memcmp(bytes.data(), wanted, sizeof wanted), 0);
    const float large[] = {7e4F}, largest[] = {std::numeric_limits<float>::max()};
    EXPECT_THROW(narrowed(large, 1, Dtype::fp16, "t"), Error);
    EXPECT_THROW(narrowed(largest, 1, Dtype::bf16, "t"), Error);
}

TEST(Safetensors, HeaderIsPaddedAndReadBack) {
    const test::Folder folder;
    const std::string header = safetensors_header({{"a", Dtype::fp16, {3}}, {"b", Dtype::fp64, {1, 2}}});
    EXPECT_EQ(header.size() % 8, 0U);
    write_file_atomic(folder.path("model.safetensors"), header + std::string(22, '\0'));
    const SafetensorsFile file(folder.path("model.safetensors"));
    EXPECT_EQ(file.metadata().at("format"), "pt");
    EXPECT_EQ(file.tensors().at("b").shape, (std::vector<i64>{1, 2}));
    EXPECT_EQ(file.tensors().at("b").type, "F64");
}

TEST(Safetensors, RefusesAnIndexThatLeavesTheFolder) {
    const test::Folder folder;
    const auto fault = [&](const std::string& shard) {
        write_file_atomic(folder.path("model.safetensors.index.json"), R"({"weight_map":{"a":")" + shard + R"("}})");
        try {
            const SafetensorsSet set(folder.path());
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    write_file_atomic(folder.path("s"), file_of(R"({"b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", ""));
    EXPECT_NE(fault("../x").find("no name of a file"), std::string::npos);
    EXPECT_NE(fault("/x").find("no name of a file"), std::string::npos);
    EXPECT_NE(fault("gone").find("\"gone\", which is missing"), std::string::npos);
    EXPECT_NE(fault("s").find("has no tensor \"a\""), std::string::npos);
}

}  // namespace
}  // namespace ogrom
