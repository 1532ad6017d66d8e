// The schema: one table that is the only place that knows the keys of a run file: name, type, unit, default,
// constraint, when the key has an effect, and meaning. Parsing, checking, the resolved file, `ogrom keys` and
// inputs/README.md are all made from it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/config/run.h"

namespace ogrom {

// Where a key's value lives. The kind of the field is the type of the key.
using Field =
    std::variant<bool*, i64*, u64*, double*, std::string*, std::vector<std::string>*, std::vector<i64>*, Dtype*,
                 NormKind*, PositionKind*, MlpKind*, HeadKind*, OptimizerKind*, ScheduleKind*, NonFinite*, SaveFailure*,
                 LossScaleKind*, PipelineSchedule*, Regather*, Recompute*, LinearProducts*>;

enum class KeyType { boolean, integer, real, text, list, integers, choice };

enum class DefaultKind {
    value,    // `standard` holds it, as TOML text
    derived,  // worked out from other keys; `standard` says how
    required
};

// What a resumed run may do with a key that differs from its checkpoint.
enum class OnResume {
    free,           // may differ (layout, output, machine)
    by_permission,  // changes the course of training: only when named in checkpoint.allow_changed
    fixed           // decides shapes or values of the state itself: never
};

struct Limits {
    double low = 0, high = 0;
    bool low_open = false, high_open = false;  // the bound itself is not allowed
};

// A key without effect in this combination is an error, so that nobody believes in a setting that does nothing. It is
// only noted where the user could not help it: a later file or the number of ranks started made it idle.
struct Effect {
    std::string_view when;     // "optimizer.kind = \"sgd\"", empty = always
    std::string_view decider;  // the key that decides: "optimizer.kind"
    bool (*holds)(const RunConfig&) = nullptr;
};

struct Key {
    std::string_view section, name;
    Field (*field)(RunConfig&) = nullptr;
    std::string_view unit;
    DefaultKind default_kind = DefaultKind::value;
    std::string_view standard;
    std::optional<Limits> limits;
    std::vector<std::string_view> choices;  // every known value
    std::string_view built;                 // of those, the ones that work now (empty = all), separated by blanks
    Effect effect;
    OnResume on_resume = OnResume::free;
    std::string_view aliases;  // names that other programs use, separated by blanks: only for error messages
    std::string_view meaning;

    [[nodiscard]] std::string full_name() const;
    [[nodiscard]] KeyType type() const;
};

std::span<const Key> schema();
std::span<const std::string> section_names();
const Key* find_key(std::string_view section, std::string_view name);
const Key* find_key(std::string_view full_name);  // "train.steps"

// The value of a key as TOML text; and two run files key by key.
std::string value_text(const Key& key, const RunConfig& run);
bool same_values(const RunConfig& a, const RunConfig& b);

std::string type_name(const Key& key);        // "integer", "one of adamw, sgd"
std::string constraint_text(const Key& key);  // ">= 1", "0 .. 1", "one of ..."
std::string default_text(const Key& key);

// The reference for people and scripts (`ogrom keys`). `filter` keeps keys whose name contains it.
std::string schema_text(std::string_view filter = "");
std::string schema_markdown();
std::string schema_json(std::string_view filter = "");

}  // namespace ogrom
