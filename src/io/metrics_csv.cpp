#include "src/io/metrics_csv.h"

#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <span>

#include "src/base/file.h"
#include "src/base/text.h"

namespace ogrom {

namespace {

constexpr const char* format_line = "# ogrom metrics format=1";
constexpr i64 csv_limit = i64{4} << 30;

template <class Number>
Number parse_number(const std::string& text, const std::string& where, const char* column) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
        fail(ExitCode::checkpoint, fmt::format("{}: '{}' is not a number for {}", where, text, column));
    }
    return value;
}

std::string column_line(std::span<const MetricsColumn> columns) {
    std::string line;
    for (const MetricsColumn& column : columns) {
        line += (line.empty() ? "" : ",") + std::string(column.name);
    }
    return line;
}

// The columns of files written before there was a loss scale.
std::span<const MetricsColumn> columns_without_scale() {
    const std::span<const MetricsColumn> all = metrics_columns();
    return all.first(all.size() - 1);
}

StepMetrics parse_columns(std::string_view line, const std::string& where, std::span<const MetricsColumn> columns) {
    const std::vector<std::string> parts = split(line, ',');
    if (parts.size() != columns.size()) {
        fail(ExitCode::checkpoint, fmt::format("{}: {} columns, {} are wanted", where, parts.size(), columns.size()));
    }
    StepMetrics row;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const MetricsColumn& column = columns[i];
        switch (column.kind) {
            case MetricsColumn::Kind::integer:
                row.*column.integer = parse_number<i64>(parts[i], where, column.name);
                break;
            case MetricsColumn::Kind::real:
                row.*column.real = parse_number<double>(parts[i], where, column.name);
                break;
            case MetricsColumn::Kind::flag:
                row.skipped = parse_number<int>(parts[i], where, column.name) != 0;
                break;
            case MetricsColumn::Kind::optional:
                if (!parts[i].empty()) {
                    row.valid_loss = parse_number<double>(parts[i], where, column.name);
                }
                break;
        }
    }
    return row;
}

}  // namespace

const std::vector<MetricsColumn>& metrics_columns() {
    using Row = StepMetrics;
    using Kind = MetricsColumn::Kind;
    const auto integer = [](const char* name, const char* unit, i64 Row::*field) {
        return MetricsColumn{name, unit, Kind::integer, field, nullptr};
    };
    const auto real = [](const char* name, const char* unit, double Row::*field) {
        return MetricsColumn{name, unit, Kind::real, nullptr, field};
    };
    static const std::vector<MetricsColumn> columns = {
        integer("step", "steps done", &Row::step),
        real("loss", "nat per token", &Row::loss),
        real("gradient_norm", "1", &Row::gradient_norm),
        real("lr", "1", &Row::lr),
        real("clip_factor", "1", &Row::clip_factor),
        integer("tokens", "tokens of the step", &Row::tokens),
        real("step_s", "s", &Row::step_s),
        real("data_wait_s", "s", &Row::data_wait_s),
        real("exposed_comm_s", "s", &Row::exposed_comm_s),
        real("tokens_per_s", "1/s", &Row::tokens_per_s),
        real("model_tflops", "TFLOP/s per rank", &Row::model_tflops),
        real("model_tflops_square", "TFLOP/s per rank", &Row::model_tflops_square),
        real("hardware_tflops", "TFLOP/s per rank", &Row::hardware_tflops),
        real("fraction_of_sgemm", "1", &Row::fraction_of_sgemm),
        integer("memory_bytes", "B", &Row::memory_bytes),
        integer("bytes_sent", "B", &Row::bytes_sent),
        {"skipped", "0 or 1", Kind::flag},
        {"valid_loss", "nat per token", Kind::optional},
        real("loss_scale", "1", &Row::loss_scale),
    };
    return columns;
}

std::string metrics_head() {
    return fmt::format("{}\n{}\n", format_line, column_line(metrics_columns()));
}

std::string metrics_line(const StepMetrics& row) {
    std::string line;
    for (const MetricsColumn& column : metrics_columns()) {
        line += line.empty() ? "" : ",";
        switch (column.kind) {
            case MetricsColumn::Kind::integer:
                line += fmt::format("{}", row.*column.integer);
                break;
            case MetricsColumn::Kind::real:
                line += fmt::format("{}", row.*column.real);
                break;
            case MetricsColumn::Kind::flag:
                line += row.skipped ? "1" : "0";
                break;
            case MetricsColumn::Kind::optional:
                line += row.valid_loss ? fmt::format("{}", *row.valid_loss) : "";
                break;
        }
    }
    return line + "\n";
}

StepMetrics parse_metrics_line(std::string_view line, const std::string& where) {
    return parse_columns(line, where, metrics_columns());
}

namespace {

// What to do with a line that is not as it should be; `message` has file and line.
enum class OnDamage { refuse, pass_over };

MetricsFound read_rows(const std::string& path, OnDamage on_damage) {
    const std::string text = read_file(path, csv_limit);
    MetricsFound found;
    std::span<const MetricsColumn> columns = metrics_columns();
    i64 number = 0;
    const auto damaged = [&](const Error& error) {
        if (on_damage == OnDamage::refuse) {
            throw error;
        }
        found.damage = found.damage.empty() ? error.what() : found.damage;
    };
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
        const std::string_view line(text.data() + at, end - at);
        ++number;
        if (number == 2 && line == column_line(columns_without_scale())) {
            columns = columns_without_scale();
        }
        const std::string wanted = number == 1   ? std::string(format_line)
                                   : number == 2 ? column_line(columns)
                                                 : std::string();
        try {
            require(number > 2 || line == wanted, ExitCode::checkpoint,
                    fmt::format("{}:{}: '{}' found, '{}' wanted: not a metrics file of this format", path, number, line,
                                wanted));
            if (number > 2) {
                found.rows.push_back(parse_columns(line, fmt::format("{}:{}", path, number), columns));
            }
        } catch (const Error& error) {
            damaged(error);
        }
    }
    return found;
}

}  // namespace

// A last line without its newline was torn by a crash and is not a row.
std::vector<StepMetrics> read_metrics_csv(const std::string& path) {
    return read_rows(path, OnDamage::refuse).rows;
}

MetricsFound find_metrics_rows(const std::string& path) {
    return read_rows(path, OnDamage::pass_over);
}

}  // namespace ogrom
