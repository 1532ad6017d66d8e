// Log lines on stderr: UTC time, rank, host, level, text; plain text where rank 0 writes to a terminal. Information
// comes from rank 0 alone, warnings and errors from whoever has them. Before set_log_rank the rank is what the launcher
// put into the environment, so that no line appears once per rank.
#pragma once
#include <fmt/core.h>
#include <string>
#include <string_view>

namespace ogrom {

enum class LogLevel { debug, info, warning, error };

void set_log_rank(int rank, const std::string& host);
// Lines below `level` are dropped; info at start, debug with OGROM_LOG=debug in the environment.
void set_log_level(LogLevel level);
// Appends every line that rank 0 prints to `path` as well (log.txt of a run), always in the long form. Throws
// Error(checkpoint) when it cannot be opened.
void open_log_file(const std::string& path);
void flush_log();

void log_line(LogLevel level, std::string_view text);

void log_lines(const std::string& text);  // each line of it that is not empty, at level info

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
    log_line(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
    log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
    log_line(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
    log_line(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ogrom
