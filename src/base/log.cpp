#include "src/base/log.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/host.h"
#include "src/base/text.h"

namespace ogrom {

namespace {

spdlog::level::level_enum level_of(LogLevel level) {
    switch (level) {
        case LogLevel::debug:
            return spdlog::level::debug;
        case LogLevel::info:
            return spdlog::level::info;
        case LogLevel::warning:
            return spdlog::level::warn;
        case LogLevel::error:
            return spdlog::level::err;
    }
    return spdlog::level::info;
}

int rank_from_launcher() {
    constexpr std::array<const char*, 4> names = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"};
    for (const char* name : names) {
        const char* value = std::getenv(name);
        const std::optional<i64> rank = parse_integer(value == nullptr ? "" : value);
        if (rank && *rank >= 0) {
            return static_cast<int>(*rank);
        }
    }
    return 0;
}

// '%' would start a pattern flag.
std::string quoted(const std::string& text) {
    std::string result;
    for (const char c : text) {
        result += c;
        if (c == '%') {
            result += c;
        }
    }
    return result;
}

// One per process: stderr is one per process too. Guarded, since the I/O thread logs as well.
class Log {
public:
    Log() : terminal_("stderr", std::make_shared<spdlog::sinks::stderr_sink_st>()), file_("file") {
        const char* wish = std::getenv("OGROM_LOG");
        set_level(wish != nullptr && std::string_view(wish) == "debug" ? LogLevel::debug : LogLevel::info);
        terminal_.flush_on(spdlog::level::debug);
        file_.flush_on(spdlog::level::debug);
        set_rank(rank_from_launcher(), host_name());
    }

    void set_rank(int rank, const std::string& host) {
        const std::lock_guard lock(guard_);
        rank_ = rank;
        plain_ = rank == 0 && ::isatty(STDERR_FILENO) == 1;
        const std::string long_form = fmt::format("%Y-%m-%dT%H:%M:%S.%eZ rank {} {} %l: %v", rank, quoted(host));
        terminal_.set_formatter(formatter(plain_ ? "%v" : long_form));
        long_form_ = long_form;
    }

    void open_file(const std::string& path) {
        const std::lock_guard lock(guard_);
        if (rank_ != 0) {
            return;
        }
        try {
            file_.sinks() = {std::make_shared<spdlog::sinks::basic_file_sink_st>(path, false)};
            file_.set_formatter(formatter(long_form_));
            note_lost_reader();
        } catch (const spdlog::spdlog_ex& error) {
            fail(ExitCode::checkpoint, fmt::format("{}: cannot open the log file: {}", path, error.what()));
        }
    }

    void line(LogLevel level, std::string_view text) {
        const std::lock_guard lock(guard_);
        if (rank_ != 0 && level < LogLevel::warning) {
            return;
        }
        const bool marked = plain_ && level >= LogLevel::warning;
        const std::string_view mark = !marked ? "" : level == LogLevel::error ? "error: " : "warning: ";
        if (terminal_listens()) {
            told_lost_ = false;
            terminal_.log(level_of(level), "{}{}", mark, text);
        }
        note_lost_reader();
        file_.log(level_of(level), "{}", text);
    }

    void set_level(LogLevel level) {
        const std::lock_guard lock(guard_);
        terminal_.set_level(level_of(level));
        file_.set_level(level_of(level));
    }

    void flush() {
        const std::lock_guard lock(guard_);
        terminal_.flush();
        file_.flush();
    }

private:
    // A launcher that is ending the job stops reading our pipe; a rank that blocks on it then never saves. After a wait
    // lines go to the file only, until the pipe moves again.
    bool terminal_listens() {
        pollfd out{STDERR_FILENO, POLLOUT, 0};
        const bool ready = ::poll(&out, 1, unheard_ > 0 ? 0 : patience_ms) > 0;
        reader_lost_ = ready && (out.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
        const bool listens = ready && !reader_lost_;
        if (listens && unheard_ > 0) {
            terminal_.log(spdlog::level::warn, "{} lines were not printed while nobody read them; log.txt has them",
                          unheard_);
        }
        unheard_ = listens ? 0 : unheard_ + 1;
        return listens;
    }

    // `train ... | head`: the run goes on; what it says stands in the file alone from here on.
    void note_lost_reader() {
        if (reader_lost_ && !told_lost_ && !file_.sinks().empty()) {
            file_.log(spdlog::level::warn, "nobody reads standard error any more: lines go to this file alone");
            told_lost_ = true;
        }
    }

    static constexpr int patience_ms = 500;
    static std::unique_ptr<spdlog::formatter> formatter(const std::string& pattern) {
        return std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc);
    }

    std::mutex guard_;
    spdlog::logger terminal_, file_;
    std::string long_form_;
    int rank_ = 0;
    bool plain_ = false, reader_lost_ = false, told_lost_ = false;
    long unheard_ = 0;
};

Log& the_log() {
    static Log log;
    return log;
}

}  // namespace

void set_log_rank(int rank, const std::string& host) {
    the_log().set_rank(rank, host);
}
void set_log_level(LogLevel level) {
    the_log().set_level(level);
}
void open_log_file(const std::string& path) {
    the_log().open_file(path);
}
void flush_log() {
    the_log().flush();
}
void log_line(LogLevel level, std::string_view text) {
    the_log().line(level, text);
}
void log_lines(const std::string& text) {
    for (const std::string& line : split(text, '\n')) {
        if (!line.empty()) {
            log_line(LogLevel::info, line);
        }
    }
}

}  // namespace ogrom
