// One writer per run folder: a lock file that names its holder. The kernel's lock on it (flock) decides who holds it,
// so a holder that was killed leaves a file that blocks nobody; the text is for people, and decides only where the file
// system knows no locks.
#pragma once
#include <string>

#include "src/base/file.h"

namespace ogrom {

std::string host_name();

class Lease {
public:
    // Takes `folder`/run.lock. Throws Error(usage) that names the holder while another process holds it, and
    // Error(checkpoint) where the file cannot be written.
    explicit Lease(const std::string& folder);
    ~Lease();  // removes the file
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    // One line about a holder that ended without giving the lease back; empty when there was none.
    [[nodiscard]] const std::string& replaced() const { return replaced_; }

private:
    bool take(const std::string& folder);

    std::string path_, replaced_;
    FileDescriptor file_;
};

}  // namespace ogrom
