// The reference of all keys, made from the schema: for the terminal, for inputs/README.md and for scripts.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/config/schema.h"

namespace ogrom {

namespace {

// What each section answers; the order is that of the schema.
std::string_view question(std::string_view section) {
    constexpr std::pair<std::string_view, std::string_view> rows[] = {
        {"model", "What model: the fields that decide every tensor's shape."},
        {"parallel",
         "How the ranks are spread: `pipeline x data x context x expert x tensor` must equal the ranks that were "
         "started. Without `data` it is derived and the others are 1; with `data`, one of `pipeline` and `tensor` may "
         "be left out."},
        {"data", "What it learns from."},
        {"train",
         "How long, and in which batches. `global_batch = micro_batch x accumulation x data` always holds; what is "
         "left out is derived, and a disagreement is an error."},
        {"optimizer", "The update rule and the learning rate. A step is always an optimizer step."},
        {"precision", "How weights are stored."},
        {"numerics", "How sums are formed, and what happens to NaN."},
        {"checkpoint", "When the state is saved, and what a resumed run may change."},
        {"comm", "How gradients travel, and when a silent rank is given up."},
        {"run", "Where and under which name it runs."}};
    for (const auto& [name, text] : rows) {
        if (name == section) {
            return text;
        }
    }
    return "";
}

std::string cell(std::string text) {
    for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
        text.insert(at, 1, '\\');
    }
    return text;
}

std::string type_and_unit(const Key& key) {
    return key.unit.empty() ? type_name(key) : fmt::format("{}, {}", type_name(key), key.unit);
}

std::string limits_and_effect(const Key& key) {
    std::string text = constraint_text(key);
    if (!key.built.empty()) {
        text += fmt::format("{}built: {}", text.empty() ? "" : "; ", key.built);
    }
    if (!key.effect.when.empty()) {
        text += fmt::format("{}only with {}", text.empty() ? "" : "; ", key.effect.when);
    }
    return text;
}

std::string_view resume_word(OnResume rule) {
    switch (rule) {
        case OnResume::free:
            return "free";
        case OnResume::by_permission:
            return "by allow_changed";
        case OnResume::fixed:
            return "never";
    }
    return "";
}

constexpr std::string_view introduction = R"(# Run files

Written by `ogrom keys --markdown`; do not edit.

A run file answers three questions, each in a file of its own: what model (`models/`), on what machine
(`machines/`), how trained (`runs/`). It names its base files and says only what differs:

```toml
include = ["../models/gpt2-tiny.toml", "../machines/laptop.toml"]

[data]
train = "corpus/english"

[train]
steps = 200
global_batch = 32

[optimizer]
lr = 1e-3
```

`runs/` also has a small file per layout (`tp2.toml`, `pp2-1f1b.toml`, `zero3.toml` ...); its first line names the
ranks to start it with. Files of `machines/` that begin with `[machine]` are no parts of run files: `ogrom check --write`
measured them, and `ogrom plan --machine NAME` reads them.

- `include` paths are relative to the file that names them; what comes later wins, and the file wins over what it
  includes.
- `--set section.key=value` on the command line wins over every file: `ogrom train RUN.toml --set
  optimizer.lr=3e-4`.
- Paths in `[data]` and `[run]`, and `train.trace`, are relative to the folder in which `ogrom` is started.
- Every key has one unit, which stands in the table (and in the key's name where it could be mistaken). Integers are
  written out, with underscores if you like: `1_000_000`, never `1e6`, `1M` or `"1000000"`.
- An unknown key, a wrong type, a key given twice, a value out of range and a key without effect in its combination
  are errors that name file, line and what would be right. A key of a base file that a later choice makes idle is
  only noted, and so is a key that the number of ranks started makes idle (`comm.bucket_mib` on one rank).
- Values marked *built* work now; the other named values are refused until their code exists.
- The resolved file (`run.toml` in the run's folder) holds every key with its final value and origin. It parses back
  to the same run. It names the whole layout, so it belongs to that number of ranks; start other layouts from the
  original file.
- *On resume*: keys marked `free` may differ from the checkpoint; others must be named in
  `checkpoint.allow_changed`; those marked `never` decide the saved state itself.
)";

}  // namespace

std::string schema_text(std::string_view filter) {
    std::string text;
    std::string_view section;
    for (const Key& key : schema()) {
        if (key.full_name().find(filter) == std::string::npos) {
            continue;
        }
        if (key.section != section) {
            text += fmt::format("{}[{}]  {}\n", section.empty() ? "" : "\n", key.section, question(key.section));
            section = key.section;
        }
        const std::string limits = limits_and_effect(key);
        text += fmt::format("  {:<20} {}\n  {:<20} {}; {}{}{}; on resume: {}\n", key.name, key.meaning, "",
                            type_and_unit(key), default_text(key), limits.empty() ? "" : "; ", limits,
                            resume_word(key.on_resume));
    }
    return text;
}

std::string schema_markdown() {
    std::string text(introduction);
    for (const std::string& section : section_names()) {
        text += fmt::format("\n## [{}]\n\n{}\n\n| key | type, unit | default | allowed | on resume | meaning |\n",
                            section, question(section));
        text += "|---|---|---|---|---|---|\n";
        for (const Key& key : schema()) {
            if (key.section == section) {
                const bool plain = key.default_kind == DefaultKind::value;
                const std::string standard = plain ? fmt::format("`{}`", default_text(key)) : default_text(key);
                text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", key.name, type_and_unit(key), cell(standard),
                                    cell(limits_and_effect(key)), resume_word(key.on_resume),
                                    cell(std::string(key.meaning)));
            }
        }
    }
    return text;
}

std::string schema_json(std::string_view filter) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Key& key : schema()) {
        if (key.full_name().find(filter) == std::string::npos) {
            continue;
        }
        nlohmann::ordered_json row;
        row["key"] = key.full_name();
        row["type"] = type_name(key);
        row["unit"] = key.unit;
        row["required"] = key.default_kind == DefaultKind::required;
        row["default"] = default_text(key);
        row["allowed"] = constraint_text(key);
        row["built"] = key.built;
        row["effect"] = key.effect.when;
        row["on_resume"] = resume_word(key.on_resume);
        row["meaning"] = key.meaning;
        list.push_back(row);
    }
    return list.dump(2) + "\n";
}

}  // namespace ogrom
