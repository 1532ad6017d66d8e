#include "src/io/lease.h"

namespace ogrom {

Lease::Lease(const std::string& folder)
    : lock_(join_path(folder, "run.lock"),
            {folder,
             "two runs cannot write one folder; wait for that run or end it, or choose another run.name or run.output",
             "run.output must be a folder that this user may write to"}) {}

}  // namespace ogrom
