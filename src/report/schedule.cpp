#include "src/report/schedule.h"

#include <array>
#include <fmt/format.h>

#include "src/base/file.h"
#include "src/report/timeline.h"

namespace ogrom {

std::string draw_schedule(const std::string& run_folder, const std::string& run_name,
                          const MeasuredSchedule& measured) {
    const std::array<TimelinePanel, 2> panels = {{
        {"simulated, each pass at its mean time", simulate_measured(measured).stages},
        {fmt::format("measured, step {}", measured.step), measured.stages},
    }};
    const ScheduleSpec& spec = measured.spec;
    const std::string chunks = spec.virtual_stages > 1 ? fmt::format(" x {} chunks", spec.virtual_stages) : "";
    const std::string title = fmt::format("{}: {}, {} stages{}, {} micro-batches", run_name, name_of(spec.kind),
                                          spec.stages, chunks, spec.micro_batches);
    const std::string folder = join_path(run_folder, "report");
    make_directories(folder);
    const std::string path = join_path(folder, "schedule.svg");
    write_file_atomic(path, draw_timeline(title, panels));
    return path;
}

}  // namespace ogrom
