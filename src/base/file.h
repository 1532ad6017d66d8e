// Raw file code: every result is checked, every fault is an Error that names the path, what was tried and the system's
// reason. `code` is the exit code of that fault (checkpoint and file system unless the caller knows better).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/extents.h"

#include "src/base/error.h"
#include "src/base/handle.h"

namespace ogrom {

// What the system said no to, with its number: a caller may tell a file that is not there (ENOENT) from one that is
// there and cannot be read now (EACCES, EIO, ESTALE, EMFILE).
class FileError : public Error {
public:
    FileError(ExitCode code, const std::string& message, int number) : Error(code, message), number_(number) {}
    [[nodiscard]] int number() const noexcept { return number_; }
    [[nodiscard]] bool absent() const noexcept;

private:
    int number_;
};

struct FileDescriptorTraits {
    using type = int;
    static constexpr int empty = -1;
    static void destroy(int descriptor) noexcept;  // close; a reader's close cannot lose data
};
using FileDescriptor = Handle<FileDescriptorTraits>;

enum class Create {
    exclusive,  // the file must not exist
    truncate,   // an existing file is emptied
    append      // written at the end, created when absent
};

// A file being written. close() reports what the destructor cannot: a writer that ends without close() has failed and
// the destructor only gives the descriptor back.
class FileWriter {
public:
    FileWriter(std::string path, Create create, ExitCode code = ExitCode::checkpoint);
    void write(std::string_view bytes);  // all of it, however many calls it takes
    void sync();                         // data on the disk (fsync)
    void close();                        // sync() first where the data must survive a power cut
    // The only writer among those that ask, until closed; false where others held it for `patience_ms`, or where the
    // file system has no such locks (flock).
    bool lock(int patience_ms);
    // Past the page cache from now on, where the file system can (O_DIRECT): whole blocks from memory that begins on a
    // block; or through it again. False: as it was.
    bool bypass_cache(bool on);
    [[nodiscard]] i64 written() const { return written_; }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
    ExitCode code_;
    FileDescriptor descriptor_;
    i64 written_ = 0;
};

// The whole file; refused when it is larger than `max_bytes` (sizes are never trusted before they are bounded), or a
// pipe, socket or device, which would give its bytes once or never.
std::string read_file(const std::string& path, i64 max_bytes, ExitCode code = ExitCode::checkpoint);

// Readers see the old content or the new one, never a part: a temporary name of this host and process (the folder may
// be shared) in the same folder, fsync, rename, fsync of the folder. The temporary file is removed on failure.
void write_file_atomic(const std::string& path, std::string_view bytes, ExitCode code = ExitCode::checkpoint);

// Removes PATH.<host>-<process id>.tmp (and, of an older version, PATH.<process id>.tmp), which a writer that was
// killed within write_file_atomic left. Only for whoever holds a lock that every writer of `path` takes.
void remove_left_over(const std::string& path, ExitCode code = ExitCode::checkpoint);

// Creates `path` with `bytes`; false when it exists already (lock files, leases).
bool create_file_exclusive(const std::string& path, std::string_view bytes, ExitCode code = ExitCode::checkpoint);

void sync_file(const std::string& path, ExitCode code = ExitCode::checkpoint);
void sync_directory(const std::string& path, ExitCode code = ExitCode::checkpoint);
// rename(2), then fsync of the folder of `to` (and of `from`, when another).
void rename_durable(const std::string& from, const std::string& to, ExitCode code = ExitCode::checkpoint);

void make_directories(const std::string& path, ExitCode code = ExitCode::checkpoint);  // mkdir -p
// Names in the folder, sorted, without "." and "..".
std::vector<std::string> list_directory(const std::string& path, ExitCode code = ExitCode::checkpoint);
i64 file_size(const std::string& path, ExitCode code = ExitCode::checkpoint);
bool file_exists(const std::string& path);  // follows links; a folder exists too
// The same where "no" must mean that it is not there: whatever else stat(2) says is thrown.
bool file_surely_exists(const std::string& path, ExitCode code = ExitCode::checkpoint);
bool is_directory(const std::string& path);
// Neither a regular file nor a folder: a pipe, a socket, a device. Opening a pipe could wait for ever.
bool is_special(const std::string& path);
// The same place on disk under two names, whether or not something stands there yet.
bool same_place(const std::string& a, const std::string& b);
void remove_file(const std::string& path, ExitCode code = ExitCode::checkpoint);  // absent is no fault
void remove_tree(const std::string& path,
                 ExitCode code = ExitCode::checkpoint);  // absent is no fault; links are not followed
i64 free_bytes(const std::string& folder, ExitCode code = ExitCode::checkpoint);  // what this user may still write

std::string parent_path(const std::string& path);  // "." for a bare name
std::string join_path(const std::string& folder, const std::string& name);

}  // namespace ogrom
