// Comes in: one StepMetrics per step (host, rank 0). Goes out: a line of metrics.csv, flushed; metrics.h5 at publish().
// Next: io/checkpoint_save.cpp.
#include "src/io/metrics.h"

#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/timer.h"
#include "src/io/hdf5_image.h"
#include "src/io/io_thread.h"
#include "src/io/metrics_csv.h"

namespace ogrom {

namespace {

// The value of one column of a row, as the file stores it: a missing validation loss is NaN.
double real_value(const StepMetrics& row, const MetricsColumn& column) {
    if (column.kind == MetricsColumn::Kind::optional) {
        return row.valid_loss.value_or(std::numeric_limits<double>::quiet_NaN());
    }
    return row.*column.real;
}
i64 integer_value(const StepMetrics& row, const MetricsColumn& column) {
    return column.kind == MetricsColumn::Kind::flag ? i64{row.skipped ? 1 : 0} : row.*column.integer;
}

template <class Value, class Get>
void put_column(hid_t group, const MetricsColumn& column, const std::vector<StepMetrics>& rows, const std::string& file,
                Get get) {
    std::vector<Value> values;
    values.reserve(rows.size());
    for (const StepMetrics& row : rows) {
        values.push_back(get(row, column));
    }
    const hsize_t extent = values.size();
    const h5::Space space(h5::check(H5Screate_simple(1, &extent, nullptr), file, column.name));
    const h5::Dataset dataset(h5::check(H5Dcreate2(group, column.name, h5::file_type(dtype_of<Value>()), space.get(),
                                                   H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                                        file, column.name));
    h5::put(dataset.get(), "unit", std::string(column.unit), file);
    if (!values.empty()) {
        h5::check_status(
            H5Dwrite(dataset.get(), h5::memory_type(dtype_of<Value>()), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
            file, column.name);
    }
}

// One dataset per column under /metrics; built in memory, then put in place as a whole.
void write_metrics_h5(const std::string& path, const std::vector<StepMetrics>& rows) {
    h5::Image image;
    image.create(path);
    h5::put(image.file(), "format", i64{1}, path);
    {
        const h5::Group group = h5::make_group(image.file(), "metrics", path);
        h5::put(group.get(), "rows", static_cast<i64>(rows.size()), path);
        for (const MetricsColumn& column : metrics_columns()) {
            const bool real = column.kind == MetricsColumn::Kind::real || column.kind == MetricsColumn::Kind::optional;
            if (real) {
                put_column<double>(group.get(), column, rows, path, real_value);
            } else {
                put_column<i64>(group.get(), column, rows, path, integer_value);
            }
        }
    }
    image.close();
    std::string bytes(static_cast<std::size_t>(image.size()), '\0');
    image.fetch(0, bytes.data(), bytes.size());
    write_file_atomic(path, bytes);
}

// Leaves the rows up to `last_step`; a torn last line goes with them.
void cut_rows(const std::string& path, i64 last_step) {
    std::string text = metrics_head();
    for (const StepMetrics& row : read_metrics_csv(path)) {
        if (row.step <= last_step || fault_active("metrics_rows_not_cut")) {
            text += metrics_line(row);
        }
    }
    write_file_atomic(path, text);
}

}  // namespace

struct Metrics::Impl {
    std::string csv, h5;
    std::optional<FileWriter> writer;
};

Metrics::Metrics(const std::string& folder, i64 last_step) : impl_(std::make_unique<Impl>()) {
    make_directories(folder);
    impl_->csv = join_path(folder, "metrics.csv");
    impl_->h5 = join_path(folder, "metrics.h5");
    if (last_step > 0 && file_exists(impl_->csv)) {
        cut_rows(impl_->csv, last_step);
    } else {
        write_file_atomic(impl_->csv, metrics_head());
    }
    impl_->writer.emplace(impl_->csv, Create::append);
}

Metrics::~Metrics() = default;

void Metrics::row(const StepMetrics& row) {
    impl_->writer->write(metrics_line(row));
}

void Metrics::publish() {
    impl_->writer->sync();
    const std::vector<StepMetrics> rows = read();
    on_io_thread([&] { write_metrics_h5(impl_->h5, rows); });
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
    FileWriter writer(join_path(folder, "events.jsonl"), Create::append);
    // Text from outside (paths, messages) may not be UTF-8; an event must not be lost for that.
    writer.write(event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
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
