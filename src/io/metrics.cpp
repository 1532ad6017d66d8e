// Comes in: one StepMetrics per step (host, rank 0). Goes out: a line of metrics.csv, flushed; metrics.h5 at publish().
// Next: io/checkpoint_save.cpp.
#include "src/io/metrics.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/timer.h"
#include "src/io/io_thread.h"
#include "src/io/metrics_csv.h"
#include "src/io/metrics_h5.h"

namespace ogrom {

namespace {

std::string rows_text(const std::vector<StepMetrics>& rows) {
    std::string text = metrics_head();
    for (const StepMetrics& row : rows) {
        text += metrics_line(row);
    }
    return text;
}

// The first free one of PATH.WORD, PATH.WORD-2 ...
std::string name_aside(const std::string& path, const char* word) {
    std::string name = fmt::format("{}.{}", path, word);
    for (int i = 2; file_exists(name); ++i) {
        name = fmt::format("{}.{}-{}", path, word, i);
    }
    return name;
}

// A start anew where an earlier one left figures: theirs are kept.
void set_rows_aside(const std::string& csv) {
    if (!file_exists(csv)) {
        return;
    }
    if (const MetricsFound found = find_metrics_rows(csv); !found.rows.empty() || !found.damage.empty()) {
        const std::string kept = name_aside(csv, "earlier");
        rename_durable(csv, kept);
        log_warning("{}: {} rows of an earlier start, which left no checkpoint, are kept as {}", csv, found.rows.size(),
                    kept);
    }
}

// Rows of metrics.h5 for those that the CSV has not; a file that cannot be read is no reason to refuse a resume.
std::vector<StepMetrics> rows_of_h5(const std::string& path) {
    std::vector<StepMetrics> rows;
    if (!file_exists(path) || fault_active("metrics_h5_not_asked")) {
        return rows;
    }
    try {
        on_io_thread([&] { rows = read_metrics_h5(path); });
    } catch (const Error& error) {
        log_warning("metrics cannot be restored from {}: {}", path, error.what());
        rows.clear();
    }
    return rows;
}

// Leaves the rows up to `last_step` in the CSV; a torn last line goes with those behind. What the CSV lacks (it is
// missing, cut or damaged) comes from metrics.h5. A damaged CSV is kept under another name.
void restore_rows(const std::string& csv, const std::string& h5, i64 last_step) {
    std::map<i64, StepMetrics> rows;
    const auto take = [&](const std::vector<StepMetrics>& from) {
        const std::size_t before = rows.size();
        for (const StepMetrics& row : from) {
            if ((row.step > 0 && row.step <= last_step) || fault_active("metrics_rows_not_cut")) {
                rows.emplace(row.step, row);  // a step that is there already stays
            }
        }
        return rows.size() - before;
    };
    const bool had_csv = file_exists(csv), had_h5 = file_exists(h5);
    const MetricsFound found = had_csv ? find_metrics_rows(csv) : MetricsFound{};
    take(found.rows);
    if (!found.damage.empty()) {
        const std::string kept = name_aside(csv, "damaged");
        rename_durable(csv, kept);
        log_warning("{}; the {} rows that can be read stay, the damaged file is kept as {}", found.damage, rows.size(),
                    kept);
    }
    if (static_cast<i64>(rows.size()) < last_step) {
        if (const std::size_t restored = take(rows_of_h5(h5)); restored > 0) {
            log_warning("{} of {} steps restored in {} from {}", restored, last_step, csv, h5);
        }
    }
    if (static_cast<i64>(rows.size()) < last_step && (had_csv || had_h5)) {
        log_warning("{}: the rows of {} of {} steps are lost; training is not concerned", csv,
                    last_step - static_cast<i64>(rows.size()), last_step);
    }
    std::vector<StepMetrics> kept;
    kept.reserve(rows.size());
    for (const auto& [step, row] : rows) {
        kept.push_back(row);
    }
    write_file_atomic(csv, rows_text(kept));
}

// True of an empty or absent file too.
bool ends_in_newline(const std::string& path) {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    if (!in || in.tellg() <= 0) {
        return true;
    }
    in.seekg(-1, std::ios::end);
    return in.get() == '\n';
}

}  // namespace

struct Metrics::Impl {
    std::string csv, h5;
    std::optional<FileWriter> writer;  // none after a write that failed
    i64 good = 0;                      // bytes of whole lines
    std::string pending;               // lines that are not written yet
    bool behind = false;

    void flush() noexcept;
};

// Figures are not worth a run: what the disk does not take now waits for the next row.
void Metrics::Impl::flush() noexcept {
    try {
        if (!writer) {
            std::filesystem::resize_file(csv, static_cast<std::uintmax_t>(good));  // what the last write left of a line
            writer.emplace(csv, Create::append);
        }
        writer->write(pending);
        good += static_cast<i64>(pending.size());
        pending.clear();
        if (behind) {
            log_info("{}: all rows are there again", csv);
        }
        behind = false;
    } catch (const std::exception& error) {
        writer.reset();
        if (!behind) {
            log_warning("{}; training goes on, rows wait in memory", error.what());
        }
        behind = true;
    }
}

Metrics::Metrics(const std::string& folder, i64 last_step) : impl_(std::make_unique<Impl>()) {
    make_directories(folder);
    impl_->csv = join_path(folder, "metrics.csv");
    impl_->h5 = join_path(folder, "metrics.h5");
    for (const std::string& file : {impl_->csv, impl_->h5}) {
        remove_left_over(file);  // of a run that was killed; this one holds the folder's lock
    }
    if (last_step > 0) {
        restore_rows(impl_->csv, impl_->h5, last_step);
    } else {
        set_rows_aside(impl_->csv);
        write_file_atomic(impl_->csv, metrics_head());
    }
    impl_->writer.emplace(impl_->csv, Create::append);
    impl_->good = file_size(impl_->csv);
}

Metrics::~Metrics() = default;

void Metrics::row(const StepMetrics& row) {
    impl_->pending += metrics_line(row);
    impl_->flush();
}

void Metrics::publish() {
    impl_->flush();
    require(!impl_->behind, ExitCode::checkpoint, impl_->csv + ": rows wait in memory, the disk does not take them");
    impl_->writer->sync();
    const std::vector<StepMetrics> rows = read();
    on_io_thread([&] { write_metrics_h5(impl_->h5, rows); });
}

std::function<void()> Metrics::publication(i64 last_step) const {
    return [csv = impl_->csv, h5 = impl_->h5, last_step] {
        try {
            sync_file(csv);
            std::vector<StepMetrics> rows = read_metrics_csv(csv);
            std::erase_if(rows, [&](const StepMetrics& row) { return row.step > last_step; });
            write_metrics_h5(h5, rows);
        } catch (const std::exception& error) {
            log_warning("metrics.h5 is not up to date: {}", error.what());
        }
    };
}

void Metrics::publish_at_stop() noexcept {
    try {
        publish();
    } catch (const std::exception& error) {
        log_warning("metrics.h5 is not up to date: {}", error.what());
    }
}

std::vector<StepMetrics> Metrics::read() const {
    return read_metrics_csv(impl_->csv);
}

void append_event(const std::string& folder, int rank, const std::string& host, i64 step, const std::string& phase,
                  int code, const std::string& text) {
    const nlohmann::ordered_json event = {{"format", 1},  {"time", utc_time()}, {"rank", rank}, {"host", host},
                                          {"step", step}, {"phase", phase},     {"code", code}, {"text", text}};
    const std::string path = join_path(folder, "events.jsonl");
    // Text from outside (paths, messages) may not be UTF-8; an event must not be lost for that.
    std::string line = event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    FileWriter writer(path, Create::append);
    // A line without an end is one whose writer died, unless another thread or rank is at it: hence the lock. A failing
    // rank does not wait for it long, and without it mends nothing.
    if (writer.lock(100) && !ends_in_newline(path)) {
        line.insert(0, "\n");
    }
    writer.write(line);
    writer.close();
}

bool try_append_event(const std::string& folder, int rank, const std::string& host, i64 step, const std::string& phase,
                      int code, const std::string& text) noexcept {
    try {
        append_event(folder, rank, host, step, phase, code, text);
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

}  // namespace ogrom
