// GoogleTest on every rank of a session: rank 0 prints everything, the others
// their failures; the result is agreed.
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <memory>

#include "src/base/log.h"

#include "tests/equivalence/tiny.h"

namespace ogrom::test {
namespace {

std::unique_ptr<Session> held;

class FailuresOnly final : public testing::EmptyTestEventListener {
    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed()) {
            std::printf("[  FAILED  ] rank %d: %s:%d\n%s\n", session().rank(), result.file_name(), result.line_number(),
                        result.message());
        }
    }
};

}  // namespace

Session& session() {
    return *held;
}

}  // namespace ogrom::test

int main(int argc, char** argv) {
    using namespace ogrom;
    setenv("OGROM_POISON", "1",
           1);  // whatever is read before it is written shows as NaN
    testing::InitGoogleTest(&argc, argv);
    set_log_level(LogLevel::error);
    test::held = std::make_unique<Session>(Session::Options{.timeout_s = 60});
    if (test::held->rank() != 0) {
        testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
        listeners.Append(new test::FailuresOnly);
    }
    int result = 1;
    try {
        // Layouts of another number of ranks are other lines of CMake.
        std::string others;
        for (const int ranks : {2, 4, 8}) {
            if (ranks != test::held->size()) {
                others += fmt::format("{}Layouts/Parallel.*/n{}_*", others.empty() ? "" : ":", ranks);
            }
        }
        if (testing::GTEST_FLAG(filter) == "*") {
            testing::GTEST_FLAG(filter) = fmt::format("*-{}", others);
        }
        result = RUN_ALL_TESTS();
        result = static_cast<int>(agree_max(test::held->world(), i64{result}, "test result"));
    } catch (const Error& error) {
        test::held->abort(error);
    }
    test::held.reset();
    return result;
}
