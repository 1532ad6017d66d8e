// Ranks to mesh (B50): an axis that is left out is derived, ranks that would stand idle are an error.
#include <fmt/format.h>
#include <vector>

#include "kernels/common/fault.h"

#include "src/config/near.h"
#include "src/config/resolve.h"

namespace ogrom {

namespace {

// Saturates: a mesh beyond 2^62 ranks is refused like any other that does not match.
i64 product_of(const std::vector<i64>& factors) {
    i64 result = 1;
    for (const i64 factor : factors) {
        if (__builtin_mul_overflow(result, factor, &result)) {
            return i64{1} << 62;
        }
    }
    return result;
}

struct Axis {
    const char* key;
    const char* name;
    i64& extent;
};

class MeshAxes {
public:
    explicit MeshAxes(Resolution& r)
        : r_(r),
          ranks_(fault_active("config_idle_ranks") ? 0 : r.input.ranks),
          axes_{{"parallel.pipeline", "pipeline", r.run.parallel.pipeline},
                {"parallel.context", "context", r.run.parallel.context},
                {"parallel.expert", "expert", r.run.parallel.expert},
                {"parallel.tensor", "tensor", r.run.parallel.tensor},
                {"parallel.data", "data", r.run.parallel.data}} {}

    // False when a value of an axis is faulty already. Axes left out stand at 1 afterwards.
    bool start() {
        bool sound = true;
        for (Axis& axis : axes_) {
            axis.extent = r_.given(axis.key) ? axis.extent : 1;
            sound = sound && r_.sound({axis.key});
        }
        return sound;
    }

    // The one to be derived: data where it is left out, else the only one left out of pipeline and tensor.
    Axis* open() {
        const bool pipeline = r_.given("parallel.pipeline"), tensor = r_.given("parallel.tensor");
        if (!r_.given("parallel.data")) {
            return &axes_[4];
        }
        return pipeline == tensor ? nullptr : pipeline ? &axes_[3] : &axes_[0];
    }

    void derive(Axis& axis) {
        const auto [text, others] = product_without(&axis);
        if (ranks_ == 0) {
            r_.derived[axis.key] = "ranks not known yet";
            return;
        }
        if (ranks_ % others != 0) {
            const std::string left =
                ranks_ < others ? std::string("too few") : fmt::format("{} would stand idle", ranks_ % others);
            r_.fault(blamed(&axis),
                     fmt::format("{} = {} does not divide the {}, {}; would be right: {}, a multiple of {}, or keys "
                                 "whose product divides {} ({})",
                                 text, others, started_text(), left, start_text(nearest_multiples(ranks_, others)),
                                 others, ranks_, nearest_divisors(ranks_, others)));
            r_.assigned.bad.insert(axis.key);
            return;
        }
        axis.extent = ranks_ / others;
        r_.derived[axis.key] = fmt::format("{} ranks / ({})", ranks_, text);
    }

    void check() {
        const auto [text, wanted] = product_without(nullptr);
        if (ranks_ == 0 || wanted == ranks_) {
            return;
        }
        const i64 others = product_without(&axes_[4]).second;
        r_.fault("parallel.data",
                 fmt::format("{} = {}, but {} {} {}{}; would be right: {}{}", text, wanted, ranks_text(ranks_),
                             ranks_ == 1 ? "was" : "were", r_.input.planned ? "planned" : "started",
                             wanted < ranks_ ? fmt::format(", {} would stand idle", ranks_ - wanted) : std::string(),
                             ranks_ % others == 0 ? fmt::format("data = {}, or ", ranks_ / others) : std::string(),
                             start_text(fmt::format("{}", wanted))));
        r_.assigned.bad.insert("parallel.data");
    }

private:
    static std::string ranks_text(i64 ranks) { return fmt::format("{} {}", ranks, ranks == 1 ? "rank" : "ranks"); }
    [[nodiscard]] std::string started_text() const {
        return fmt::format("{} that {} {}", ranks_text(ranks_), ranks_ == 1 ? "was" : "were",
                           r_.input.planned ? "planned" : "started");
    }
    // "start 2 or 4 ranks", of a plan "--ranks 2 or 4".
    [[nodiscard]] std::string start_text(const std::string& numbers) const {
        return r_.input.planned ? "--ranks " + numbers
                                : fmt::format("start {} {}", numbers, numbers == "1" ? "rank" : "ranks");
    }
    // Of the axes that were given, the one of the highest layer (--set before files) above 1: its place is named.
    [[nodiscard]] std::string blamed(const Axis* left_out) const {
        std::string key = "parallel";
        i64 layer = -1;
        for (const Axis& axis : axes_) {
            const auto found = r_.assigned.given.find(axis.key);
            if (&axis != left_out && axis.extent > 1 && found != r_.assigned.given.end() &&
                found->second.layer > layer) {
                layer = found->second.layer;
                key = axis.key;
            }
        }
        return key;
    }
    // "pipeline 1 x tensor 2" and its value, of all axes but one; context and expert, not built yet, only above 1.
    [[nodiscard]] std::pair<std::string, i64> product_without(const Axis* left_out) const {
        std::string text;
        std::vector<i64> factors;
        for (const Axis& axis : axes_) {
            const bool shown = axis.extent > 1 || (&axis != &axes_[1] && &axis != &axes_[2]);
            if (&axis != left_out && shown) {
                text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.name, axis.extent);
                factors.push_back(axis.extent);
            }
        }
        return {text, product_of(factors)};
    }

    Resolution& r_;
    i64 ranks_;
    std::vector<Axis> axes_;
};

}  // namespace

void resolve_mesh(Resolution& r) {
    MeshAxes axes(r);
    if (!axes.start()) {
        r.assigned.bad.insert("parallel.data");
    } else if (Axis* open = axes.open()) {
        axes.derive(*open);
    } else {
        axes.check();
    }
}

}  // namespace ogrom
