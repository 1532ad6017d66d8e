#include "src/io/metrics_h5.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "src/base/file.h"
#include "src/io/hdf5_image.h"
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

constexpr i64 most_rows = i64{1} << 28;

bool holds_reals(const MetricsColumn& column) {
    return column.kind == MetricsColumn::Kind::real || column.kind == MetricsColumn::Kind::optional;
}

// Values of a column; as many as the first column has, which `rows` says (-1 before it is known).
template <class Value>
std::vector<Value> get_column(hid_t file_id, const MetricsColumn& column, i64 rows, const std::string& file) {
    const std::string name = fmt::format("/metrics/{}", column.name);
    const h5::Dataset dataset = h5::open_dataset(file_id, name, file);
    const std::vector<i64> shape = h5::shape(dataset.get(), file, name);
    require(shape.size() == 1 && shape[0] <= most_rows && (rows < 0 || shape[0] == rows), ExitCode::checkpoint,
            fmt::format("{}: {}: shape {}, one value per step is wanted", file, name, h5::shape_text(shape)));
    const h5::Type type(h5::check(H5Dget_type(dataset.get()), file, name));
    require(h5::dtype(type.get()) == dtype_of<Value>(), ExitCode::checkpoint,
            fmt::format("{}: {}: another element type than this format has", file, name));
    std::vector<Value> values(static_cast<std::size_t>(shape[0]));
    if (!values.empty()) {
        h5::check_status(
            H5Dread(dataset.get(), h5::memory_type(dtype_of<Value>()), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
            file, name);
    }
    return values;
}

void set_integer(StepMetrics& row, const MetricsColumn& column, i64 value) {
    if (column.kind == MetricsColumn::Kind::flag) {
        row.skipped = value != 0;
    } else {
        row.*column.integer = value;
    }
}

void set_real(StepMetrics& row, const MetricsColumn& column, double value) {
    if (column.kind == MetricsColumn::Kind::real) {
        row.*column.real = value;
    } else if (!std::isnan(value)) {
        row.valid_loss = value;
    }
}

template <class Value, class Set>
void fill_column(hid_t file_id, const MetricsColumn& column, std::vector<StepMetrics>& rows, const std::string& file,
                 Set set) {
    const bool first = &column == &metrics_columns().front();
    const std::vector<Value> values =
        get_column<Value>(file_id, column, first ? -1 : static_cast<i64>(rows.size()), file);
    rows.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        set(rows[i], column, values[i]);
    }
}

}  // namespace

void write_metrics_h5(const std::string& path, const std::vector<StepMetrics>& rows) {
    h5::Image image;
    image.create(path);
    h5::put(image.file(), "format", i64{1}, path);
    {
        const h5::Group group = h5::make_group(image.file(), "metrics", path);
        h5::put(group.get(), "rows", static_cast<i64>(rows.size()), path);
        for (const MetricsColumn& column : metrics_columns()) {
            if (holds_reals(column)) {
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

std::vector<StepMetrics> read_metrics_h5(const std::string& path) {
    const h5::File file = h5::open_read(path);
    const i64 format = h5::get_i64(file.get(), "format", path);
    require(format == 1, ExitCode::checkpoint, fmt::format("{}: format {} is not known", path, format));
    std::vector<StepMetrics> rows;
    for (const MetricsColumn& column : metrics_columns()) {
        if (column.real == &StepMetrics::loss_scale && !h5::has_link(file.get(), "/metrics/loss_scale")) {
            continue;  // written before there was one
        }
        if (holds_reals(column)) {
            fill_column<double>(file.get(), column, rows, path, set_real);
        } else {
            fill_column<i64>(file.get(), column, rows, path, set_integer);
        }
    }
    return rows;
}

}  // namespace ogrom
