// The choices of products as text: where they are kept, and what of them a checkpoint gives back.
#include "src/train/products.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace ogrom {
namespace {

// The variables that the folder depends on, put back at the end.
class ProductTexts : public testing::Test {
protected:
    void SetUp() override {
        for (const char* name : {"XDG_CACHE_HOME", "HOME"}) {
            const char* value = std::getenv(name);
            kept_.emplace_back(name, value == nullptr ? "" : value);
            ::unsetenv(name);
        }
    }
    void TearDown() override {
        for (const auto& [name, value] : kept_) {
            ::setenv(name.c_str(), value.c_str(), 1);
        }
    }

private:
    std::vector<std::pair<std::string, std::string>> kept_;
};

TEST_F(ProductTexts, TheFileIsOfTheGpuAndLibraryInTheFolderOfTheKey) {
    RunConfig run;
    run.run.product_cache = "/a/folder";
    EXPECT_EQ(product_cache_file(run, "NVIDIA H200, cublasLt 130101"),
              "/a/folder/products-NVIDIA-H200--cublasLt-130101.txt");
    run.run.product_cache = "none";
    EXPECT_EQ(product_cache_file(run, "k"), "");
}

TEST_F(ProductTexts, AutoIsTheUsersCacheAndNothingWhereThereIsNone) {
    RunConfig run;
    run.run.product_cache = "auto";
    EXPECT_EQ(product_cache_file(run, "k"), "");
    ::setenv("HOME", "relative", 1);
    EXPECT_EQ(product_cache_file(run, "k"), "");
    ::setenv("HOME", "/home/u", 1);
    EXPECT_EQ(product_cache_file(run, "k"), "/home/u/.cache/ogrom/products-k.txt");
    ::setenv("XDG_CACHE_HOME", "/cache", 1);
    EXPECT_EQ(product_cache_file(run, "k"), "/cache/ogrom/products-k.txt");
}

TEST_F(ProductTexts, ProvenanceGivesBackWhatItWasGiven) {
    const std::string text = "ogrom-products 1 | a \"GPU\", library 1\nbf16 bf16 1 2 3\n";
    const std::string whole = with_products(R"({"seed": 7, "hosts": ["a", "b"]})", text);
    EXPECT_EQ(products_within(whole), text);
    EXPECT_EQ(products_within(with_products(whole, "")), "");
    EXPECT_NE(whole.find("\"seed\": 7"), std::string::npos);
    EXPECT_EQ(products_within(R"({"seed": 7})"), "");
    EXPECT_EQ(products_within(R"({"products": 7})"), "");
    EXPECT_EQ(products_within("[1]"), "");
    EXPECT_EQ(products_within("not json"), "");
}

TEST_F(ProductTexts, KeysOfEveryPartOnce) {
    EXPECT_TRUE(product_keys("").empty());
    EXPECT_TRUE(product_keys("a | b\nogrom-products 1\n").empty());
    const std::string text =
        "ogrom-products 1 | X, lib 1\nbf16 1 2\nogrom-products 1 | Y, lib 1\nogrom-products 1 | X, lib 1\nbf16 3\n";
    EXPECT_EQ(product_keys(text), (std::vector<std::string>{"X, lib 1", "Y, lib 1"}));
}

}  // namespace
}  // namespace ogrom
