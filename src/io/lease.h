// One writer per run folder: its lock file run.lock (comm/lock_file.h).
#pragma once
#include <string>

#include "src/comm/lock_file.h"

namespace ogrom {

class Lease {
public:
    // Takes `folder`/run.lock. Throws Error(usage) that names the holder while another process holds it, and
    // Error(checkpoint) where the file cannot be written.
    explicit Lease(const std::string& folder);

    // Throws Error(usage) where the folder's lock file is not ours any more: the folder was moved or removed.
    void require_held() const { lock_.require_named(); }

    // One line about a holder that ended without giving the lease back; empty when there was none.
    [[nodiscard]] const std::string& replaced() const { return lock_.replaced(); }
    // One line where the file system knows no locks; else empty.
    [[nodiscard]] const std::string& unlocked() const { return lock_.unlocked(); }

private:
    LockFile lock_;
};

}  // namespace ogrom
