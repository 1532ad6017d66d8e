// One writer at a time for what `path` stands for: a lock file that names its holder. The kernel's lock on it (flock)
// decides who holds it, so a holder that was killed leaves a file that blocks nobody; the text is for people, and
// decides only where the file system knows no locks.
#pragma once
#include <string>

#include "src/base/file.h"

namespace ogrom {

// The caller's part of the messages.
struct LockWords {
    std::string subject;  // what is locked: "SUBJECT is in use by process 7 on host since ...: REFUSAL"
    std::string refusal;
    std::string need;  // "PATH: cannot create: reason; NEED"
};

class LockFile {
public:
    // Throws Error(usage) that names the holder while another process (or another LockFile of this one) holds it, and
    // Error(checkpoint) where the file cannot be written.
    LockFile(std::string path, const LockWords& words);
    ~LockFile();  // removes the file
    LockFile(LockFile&&) noexcept = default;
    LockFile& operator=(LockFile&&) = delete;
    LockFile(const LockFile&) = delete;
    LockFile& operator=(const LockFile&) = delete;

    // Throws Error(checkpoint) where the system does not tell, and Error(usage) once the name stands for another file,
    // or none: the folder was moved or removed, and another process may hold a lock of that name.
    void require_named() const;

    // One line about a holder that ended without giving the lock back; empty when there was none.
    [[nodiscard]] const std::string& replaced() const { return replaced_; }
    // One line where the file system knows no locks, on what the file alone can and cannot tell; else empty.
    [[nodiscard]] const std::string& unlocked() const { return unlocked_; }

private:
    bool take(const LockWords& words);

    std::string path_, replaced_, unlocked_;
    FileDescriptor file_;
};

}  // namespace ogrom
