// The one exception type of the program, and the exit codes it carries to main.
//
// Policy: what the compiler can refuse, it refuses; an absent value is std::optional; a broken internal promise is
// OGROM_ASSERT (always on); a fault that a user or a machine can cause is fail()/require(); the single catch in main
// adds rank, host, phase and last collective and ends the job on every rank.
#pragma once
#include <stdexcept>
#include <string>

namespace ogrom {

enum class ExitCode : int {
    done = 0,
    usage = 2,              // command line or run file
    data = 3,               // corpus, token file, tokenizer
    checkpoint = 4,         // checkpoint or file system
    numerics = 5,           // stopped on a non-finite loss or gradient
    peer = 6,               // a rank or a communicator failed
    memory = 7,             // does not fit
    skipped_input = 8,      // done, but some input was skipped
    saved_for_requeue = 75  // saved on a signal or a time limit
};

// Place of a call in our source. (std::source_location of libstdc++ 12 does not exist under clang 14.)
class SourcePlace {
public:
    static constexpr SourcePlace current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) noexcept {
        return {file, line};
    }
    [[nodiscard]] constexpr const char* file_name() const noexcept { return file_; }
    [[nodiscard]] constexpr int line() const noexcept { return line_; }

private:
    constexpr SourcePlace(const char* file, int line) noexcept : file_(file), line_(line) {}
    const char* file_;
    int line_;
};

class Error : public std::runtime_error {
public:
    Error(ExitCode code, const std::string& message, SourcePlace where = SourcePlace::current())
        : std::runtime_error(message), code_(code), where_(where) {}
    [[nodiscard]] ExitCode code() const noexcept { return code_; }
    // Place in our source that noticed the fault (for the log; the message itself names the user's file:line or key).
    [[nodiscard]] const SourcePlace& where() const noexcept { return where_; }

private:
    ExitCode code_;
    SourcePlace where_;
};

[[noreturn]] inline void fail(ExitCode code, const std::string& message, SourcePlace where = SourcePlace::current()) {
    throw Error(code, message, where);
}

// Use fail() inside an if where building the message costs something.
inline void require(bool condition, ExitCode code, const std::string& message,
                    SourcePlace where = SourcePlace::current()) {
    if (!condition) {
        throw Error(code, message, where);
    }
}

}  // namespace ogrom

// A promise between our own functions; always on, because a wrong number costs more than a compare.
#define OGROM_ASSERT(condition)                                                                                       \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            ::ogrom::fail(::ogrom::ExitCode::peer, std::string("broken promise: ") + #condition + " at " + __FILE__ + \
                                                       ":" + std::to_string(__LINE__));                               \
        }                                                                                                             \
    } while (false)
