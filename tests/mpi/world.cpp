#include "tests/mpi/world.h"

#include <cstdio>
#include <memory>

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
    testing::GTEST_FLAG(color) = "no";  // mpirun gives its ranks a terminal, whoever reads the output
    testing::InitGoogleTest(&argc, argv);
    using namespace ogrom;
    Session::Options options;
    options.timeout_s = 20;
    options.chunk_bytes = test::chunk_bytes;
    test::held = std::make_unique<Session>(options);
    if (test::held->rank() != 0) {
        testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
        listeners.Append(new test::FailuresOnly);
    }
    int result = 1;
    try {
        result = RUN_ALL_TESTS();
        result = static_cast<int>(agree_max(test::held->world(), i64{result}, "test.result"));
    } catch (const Error& error) {
        test::held->abort(error);
    }
    test::held.reset();
    return result;
}
