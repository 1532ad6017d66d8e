// JSON from others: read strictly, never deeper than its users can go.
#include "src/base/json.h"

#include <gtest/gtest.h>

namespace ogrom {
namespace {

std::string fault_of(const std::string& text) {
    try {
        (void)parse_json<nlohmann::json>(text, "a.json", ExitCode::data);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::data);
        return error.what();
    }
    return {};
}

std::string nested(int deep) {
    return std::string(static_cast<std::size_t>(deep), '[') + std::string(static_cast<std::size_t>(deep), ']');
}

TEST(Json, AKeyStandsOnceInAnObject) {
    EXPECT_NE(fault_of(R"({"a":1,"a":2})").find("a.json: key \"a\" stands twice"), std::string::npos);
    EXPECT_NE(fault_of(R"({"b":[{"c":1,"c":1}]})").find("key \"c\" stands twice"), std::string::npos);
    EXPECT_EQ(fault_of(R"({"a":{"a":1},"b":{"a":2},"c":[{"a":1},{"a":2}]})"), "");
}

TEST(Json, DepthIsBounded) {
    EXPECT_EQ(fault_of(nested(deepest_json)), "");
    for (const int deep : {deepest_json + 2, 1'000'000}) {
        EXPECT_NE(fault_of(nested(deep)).find("a.json: groups are nested more than 64 deep"), std::string::npos);
        // Cut off within the brackets too: nobody goes down what was read by then.
        EXPECT_NE(fault_of(std::string(static_cast<std::size_t>(deep), '[')), "");
    }
}

TEST(Json, WhatIsNoJsonIsNamed) {
    EXPECT_NE(fault_of("{").find("a.json: no JSON: "), std::string::npos);
    EXPECT_EQ(fault_of("3"), "");
}

TEST(Json, ValuesAreCutForMessages) {
    EXPECT_EQ(json_text(nlohmann::json({{"a", 1}})), R"({"a":1})");
    EXPECT_EQ(json_text(nlohmann::json(std::string(1000, 'x'))).size(), 200U);
    EXPECT_NE(json_text(nlohmann::json("\xff")), "");  // no UTF-8: replaced, not thrown
}

}  // namespace
}  // namespace ogrom
