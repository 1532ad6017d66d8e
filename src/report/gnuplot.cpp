#include "src/report/gnuplot.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"

extern "C" char** environ;

namespace ogrom {

// Inside single quotes gnuplot takes everything as it is except a single quote (its '' is misread at the start of a
// string) and a line end: the first becomes a typographic apostrophe, the second a blank.
std::string gnuplot_text(std::string_view text) {
    std::string result = "'";
    for (const char c : text) {
        if (c == '\'') {
            result += "\u2019";
        } else {
            result += static_cast<unsigned char>(c) < 32 ? ' ' : c;
        }
    }
    return result + "'";
}

std::string run_gnuplot(const std::string& folder, const std::string& script) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::string program = "gnuplot", argument = script;
    char* const arguments[] = {program.data(), argument.data(), nullptr};
    pid_t child = 0;
    const int error = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        return error == ENOENT ? std::string("gnuplot is not installed (Debian: gnuplot-nox)")
                               : fmt::format("gnuplot cannot be started: {}", std::strerror(error));
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        return "gnuplot is not installed (Debian: gnuplot-nox)";
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::string() : std::string("gnuplot failed");
}

std::string gnuplot_picture(const std::string& script, std::string& reason) {
    constexpr i64 largest = i64{16} << 20;
    std::error_code error;
    const std::filesystem::path place = std::filesystem::temp_directory_path(error);
    std::string folder = ((error ? std::filesystem::path("/tmp") : place) / "ogrom-chart-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) {
        reason = fmt::format("{}: {}", folder, std::strerror(errno));
        return {};
    }
    std::string picture;
    try {
        write_file_atomic(join_path(folder, "chart.gp"), script);
        reason = run_gnuplot(folder, "chart.gp");
        if (reason.empty()) {
            picture = read_file(join_path(folder, "chart.svg"), largest);
            reason = picture.empty() ? "gnuplot drew nothing" : "";
        }
    } catch (const Error& fault) {
        reason = fault.what();
    }
    std::filesystem::remove_all(folder, error);
    return picture;
}

}  // namespace ogrom
