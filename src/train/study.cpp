#include "src/train/study.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/base/timer.h"
#include "src/base/version.h"
#include "src/comm/lock_file.h"
#include "src/train/setup.h"

namespace ogrom {
namespace {

// Lines of a resolved file without where each value came from.
std::vector<std::string> values_of(const std::string& toml) {
    std::vector<std::string> lines;
    for (const std::string& line : split(toml, '\n')) {
        if (!line.starts_with('#')) {
            lines.push_back(line.substr(0, line.find("  # ")));
        }
    }
    return lines;
}

// Of the same study, run file, sizes and steps: more repeats can join it.
std::string difference(const StudyPoint& found, const PlannedPoint& planned, const StudyWish& wish) {
    const auto differs = [](const char* what, const auto& then, const auto& now) {
        return then == now ? std::string() : fmt::format("{} {}, now {}", what, then, now);
    };
    for (const std::string& text :
         {differs("study", found.study, wish.name), differs("kind", name_of(found.kind), name_of(planned.kind)),
          differs("layout", found.layout, planned.layout), differs("axis", found.axis, planned.axis),
          differs("ranks", found.ranks, planned.ranks), differs("warmup_steps", found.warmup_steps, wish.steps.warmup),
          differs("steps", found.steps, wish.steps.steps),
          differs("commit", found.commit, std::string(build_info().git))}) {
        if (!text.empty()) {
            return text;
        }
    }
    if (found.refused.empty() != planned.refused.empty()) {
        return planned.refused.empty() ? "" : "it ran, now it is refused";  // refused on the machine: tried again
    }
    const std::vector<std::string> then = values_of(found.run_file), now = values_of(planned.run.resolved_toml);
    const auto [a, b] = std::mismatch(then.begin(), then.end(), now.begin(), now.end());
    if (planned.refused.empty() && (a != then.end() || b != now.end())) {
        return fmt::format("its run file has {}, now {}", a == then.end() ? "no more" : quote(*a),
                           b == now.end() ? "no more" : quote(*b));
    }
    return "";
}

enum class Ran { yes, no };  // of a rank: in the point, or beside it

class Study {
public:
    Study(Session& session, const StudyWish& wish, const std::vector<PlannedPoint>& planned)
        : session_(session), wish_(wish), planned_(planned), points_(planned.size()), done_(planned.size(), 0) {}

    // Rank 0 looks at the folder; all learn how many repeats each point has.
    void open(StudyResume resume) {
        std::string counts;
        if (leads()) {
            look(resume);
            for (const i64 done : done_) {
                counts += fmt::format("{} ", done);
            }
        }
        const std::vector<std::string> words = split(gather_text(session_.world(), counts, "study folder")[0], ' ');
        for (std::size_t i = 0; i < done_.size(); ++i) {
            done_[i] = std::atoll(words.at(i).c_str());
        }
    }

    StudyOutcome run() {
        for (i64 repeat = 0; repeat < wish_.repeats; ++repeat) {
            for (std::size_t i = 0; i < planned_.size(); ++i) {
                // There and back, so that a steady drift cancels.
                const std::size_t at = repeat % 2 == 0 ? i : planned_.size() - 1 - i;
                if (done_[at] > repeat) {
                    continue;
                }
                if (!measure_point(at, repeat)) {
                    return outcome(why_stopped());
                }
            }
        }
        return outcome("");
    }

private:
    [[nodiscard]] bool leads() const { return session_.rank() == 0; }

    void look(StudyResume resume) {
        const std::string points = join_path(wish_.folder, study_points_folder);
        const bool has = is_directory(points) && !list_directory(points).empty();
        require(!has || resume == StudyResume::yes, ExitCode::usage,
                fmt::format("{} holds points of a study; would be right: --resume to go on with it, another --output, "
                            "or remove it",
                            points));
        make_directories(points);
        lock_.emplace(join_path(wish_.folder, "study.lock"),
                      LockWords{wish_.folder,
                                "two studies cannot write one folder; wait for that one or end it, or choose another "
                                "--output",
                                "--output must be a folder that this user may write to"});
        const std::string attempt = join_path(points, fmt::format(".{}.tmp", session_.host()));
        write_file_atomic(attempt, "");  // rights, a full disk: known before anything is measured
        remove_file(attempt);
        for (std::size_t i = 0; i < planned_.size(); ++i) {
            const std::string path = study_point_path(wish_.folder, planned_[i].id);
            if (file_surely_exists(path)) {
                adopt(i, read_study_point(path), path);
            }
            if (!points_[i] && !planned_[i].refused.empty()) {
                refuse(i, planned_[i].refused);
            }
        }
    }

    void adopt(std::size_t i, StudyPoint found, const std::string& path) {
        const std::string other = difference(found, planned_[i], wish_);
        require(other.empty(), ExitCode::usage,
                fmt::format("--resume: {} is of another study: {}; would be right: the run file, layouts, steps and "
                            "program of that time, or another --output",
                            path, other));
        if (found.refused.empty()) {
            done_[i] = static_cast<i64>(found.step_s.size());
            points_[i] = std::move(found);
        }
    }

    void refuse(std::size_t i, const std::string& reason) {
        StudyPoint point;
        if (planned_[i].refused.empty()) {
            point = describe_point(planned_[i].run);
        } else {
            point.pipeline = point.data = point.tensor = point.threads_per_rank = 0;  // not known
            point.commit = build_info().git;
            point.date = utc_time();
            point.command = command_line();
        }
        point.host = session_.host();
        point.refused = reason;
        point.warmup_steps = wish_.steps.warmup;
        point.steps = wish_.steps.steps;
        keep(i, std::move(point));
        log_info("{}: refused: {}", planned_[i].id, reason);
    }

    void keep(std::size_t i, StudyPoint point) {
        const PlannedPoint& planned = planned_[i];
        point.id = planned.id;
        point.study = wish_.name;
        point.kind = planned.kind;
        point.layout = planned.layout;
        point.axis = planned.axis;
        point.ranks = planned.ranks;
        write_study_point(wish_.folder, point);
        points_[i] = std::move(point);
    }

    // False: a signal came, on any rank; the point keeps the repeats that it has.
    bool measure_point(std::size_t i, i64 repeat) {
        const PlannedPoint& planned = planned_[i];
        if (!planned.refused.empty()) {
            return true;
        }
        Repeat made;
        std::unique_ptr<Session> part = session_.part(static_cast<int>(planned.ranks));
        const Ran ran = part ? Ran::yes : Ran::no;
        if (part) {
            made = measure(*part, planned.run, wish_.steps);
            part.reset();
        }
        meet(ran);
        const std::string said = leads() ? (made.stopped                 ? "stopped"
                                            : made.point.refused.empty() ? "done"
                                                                         : "refused")
                                         : "";
        const std::string how = gather_text(session_.world(), said, "study point")[0];
        if (leads() && how == "refused" && points_[i] && points_[i]->refused.empty()) {
            log_warning("{}: keeps the repeats that it has; now it cannot run: {}", planned.id, made.point.refused);
        } else if (leads() && how == "refused") {
            refuse(i, made.point.refused);
        } else if (leads() && how == "done") {
            add(i, made, repeat);
        }
        done_[i] = how == "refused" ? wish_.repeats : done_[i] + (how == "done" ? 1 : 0);
        return agree_max(session_.world(), session_.stop_requested() || how == "stopped" ? 1 : 0, "study goes on") == 0;
    }

    // Those that ran meet those that rested.
    void meet(Ran ran) {
        Pending met = session_.world().barrier("study point ends");
        if (ran == Ran::yes) {
            met.wait();
        } else {
            session_.rest(met);
        }
        session_.set_phase(Phase::plan, 0);
    }

    void add(std::size_t i, Repeat& made, i64 repeat) {
        StudyPoint point = points_[i] ? *points_[i] : made.point;
        if (points_[i]) {
            join_repeat(point, made.point);
        }
        keep(i, std::move(point));
        if (made.traced_steps < static_cast<i64>(made.point.step_s.front().size())) {
            log_warning("{}: causes are means over {} of {} steps: the spans of the others did not fit", planned_[i].id,
                        made.traced_steps, made.point.step_s.front().size());
        }
        if (made.point.device != "cpu" && repeat == 0) {
            log_warning("{}: no causes of a GPU's steps are known: all of a step is \"other\"", planned_[i].id);
        }
        log_info("{}: repeat {} of {}: {:.4g} ms a step, {:.5g} tokens/s{}", planned_[i].id, repeat + 1, wish_.repeats,
                 1e3 * made.point.step_median_s.median, made.point.tokens_per_s.median,
                 made.point.oversubscribed ? " (oversubscribed)" : "");
    }

    std::string why_stopped() {
        std::string mine = session_.stop_signal();
        mine = mine.empty() ? "" : fmt::format("{} on rank {}", mine, session_.rank());
        const std::vector<std::string> all = gather_text(session_.world(), mine, "why stopped");
        return *std::max_element(all.begin(), all.end());
    }

    StudyOutcome outcome(const std::string& stopped_by) {
        StudyOutcome outcome{{}, stopped_by};
        for (std::optional<StudyPoint>& point : points_) {
            if (point) {
                outcome.points.push_back(std::move(*point));
            }
        }
        return outcome;
    }

    Session& session_;
    std::optional<LockFile> lock_;  // of the folder, on rank 0
    const StudyWish& wish_;
    const std::vector<PlannedPoint>& planned_;
    std::vector<std::optional<StudyPoint>> points_;  // rank 0
    std::vector<i64> done_;                          // repeats of each, on all ranks
};

}  // namespace

StudyOutcome run_study(Session& session, const StudyWish& wish, const std::vector<PlannedPoint>& planned,
                       StudyResume resume) {
    session.set_phase(Phase::plan, 0);
    Study study(session, wish, planned);
    study.open(resume);
    return study.run();
}

}  // namespace ogrom
