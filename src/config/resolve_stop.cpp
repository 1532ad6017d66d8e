#include <fmt/format.h>

#include "src/base/text.h"
#include "src/config/resolve.h"
#include "src/config/stop_time.h"

namespace ogrom {

void resolve_stop(Resolution& r) {
    const std::string& text = r.run.train.stop_before;
    if (!text.empty() && r.sound({"train.stop_before"}) && !parse_stop_time(text)) {
        r.fault("train.stop_before", fmt::format("{} is no time; would be right: {}", quote(text), stop_time_forms()));
    }
}

}  // namespace ogrom
