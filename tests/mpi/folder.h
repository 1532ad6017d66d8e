// A folder that all ranks see, named by rank 0 and removed by it. Collective.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>

#include "src/comm/communicator.h"

#include "tests/mpi/world.h"

namespace ogrom::test {

class SharedFolder {
public:
    SharedFolder() {
        std::string mine;
        if (session().rank() == 0) {
            std::string pattern = (std::filesystem::temp_directory_path() / "ogrom-mpi-XXXXXX").string();
            mine = ::mkdtemp(pattern.data());
        }
        path = gather_text(session().world(), mine, "folder")[0];
    }
    ~SharedFolder() {
        try {
            session().world().barrier("folder").wait();  // another rank may still read there
        } catch (const Error&) {
            ADD_FAILURE() << "a rank has left the test before";
        }
        if (session().rank() == 0) {
            std::error_code ignored;
            std::filesystem::remove_all(path, ignored);
        }
    }
    SharedFolder(const SharedFolder&) = delete;
    SharedFolder& operator=(const SharedFolder&) = delete;
    std::string path;
};

}  // namespace ogrom::test
