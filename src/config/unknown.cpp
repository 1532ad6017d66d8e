#include "src/config/unknown.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "src/base/text.h"

namespace ogrom {

namespace {

// Names of other programs that lead to no key of ours, or to one whose value needs a word more: what would be right.
struct Foreign {
    std::string_view names;  // separated by blanks
    std::string_view key;    // empty: none
    std::string_view advice;
};
constexpr std::array<Foreign, 4> foreign = {{
    {"bf16 fp16 bfloat16 float16 half amp mixed_precision", "precision.weights",
     "precision.weights, with \"bf16\" or \"fp16\", on a GPU"},
    {"load resume resume_from resume_from_checkpoint load_checkpoint", "",
     "the option --resume of `ogrom train`, or --resume=PATH for a certain checkpoint"},
    {"epochs num_epochs num_train_epochs max_epochs train_epochs n_epochs", "train.steps",
     "train.steps, in optimizer steps: epochs x samples of the token set / train.global_batch"},
    {"offload cpu_offload offload_optimizer offload_param optimizer_cpu_offload offload_optimizer_device", "",
     "without it: offloading is not built; parallel.zero and train.recompute save memory"},
}};

const Foreign* foreign_for(const std::string& name) {
    for (const Foreign& row : foreign) {
        const std::vector<std::string> names = split(row.names, ' ');
        if (std::find(names.begin(), names.end(), name) != names.end()) {
            return &row;
        }
    }
    return nullptr;
}

bool has_alias(const Key& key, const std::string& name) {
    const std::vector<std::string> aliases = split(key.aliases, ' ');
    return std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

// The key that an unknown name most likely means: the same name in another section, a name other programs use (the own
// section first), or the nearest spelling (the own section first).
const Key* meant(const Entry& entry) {
    const std::string name_given = folded_name(entry.key);
    const Key* best = nullptr;
    i64 best_cost = 1000;
    for (const Key& key : schema()) {
        const bool own = key.section == entry.section;
        i64 cost = 1000;
        if (key.name == name_given) {
            cost = 0;
        } else if (has_alias(key, name_given)) {
            cost = own ? 1 : 2;
        } else if (const std::string name(key.name); nearest(name_given, {&name, 1})) {
            cost = 3 + 2 * edit_distance(name_given, name) + (own ? 0 : 3);
        }
        if (cost < best_cost) {
            best = &key;
            best_cost = cost;
        }
    }
    return best;
}

// The keys of that name in all sections, each as `text` writes it: "data.seed or train.seed".
template <class Text>
std::string namesakes(std::string_view name, Text text) {
    std::vector<std::string> found;
    for (const Key& key : schema()) {
        if (key.name == name) {
            found.push_back(text(key));
        }
    }
    return join(found, " or ");
}

// The keys that other programs set by one name of theirs, "optimizer.beta1 and optimizer.beta2"; else `key` alone.
std::string meant_names(const std::string& name, const Key& key) {
    std::vector<std::string> found;
    for (const Key& other : schema()) {
        if (has_alias(other, name)) {
            found.push_back(other.full_name());
        }
    }
    return has_alias(key, name) ? join(found, " and ") : key.full_name();
}

std::optional<std::string> meant_section(const std::string& name) {
    return nearest(name, section_names());
}

}  // namespace

std::string folded_name(const std::string& name) {
    std::string folded = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    std::replace(folded.begin(), folded.end(), '-', '_');
    return folded;
}

const Key* add_unknown(const Entry& entry, Faults& faults) {
    const auto sections = section_names();
    const bool known_section = std::find(sections.begin(), sections.end(), entry.section) != sections.end();
    if (!known_section && !entry.section.empty()) {
        const std::optional<std::string> section = meant_section(entry.section);
        const Key* same = section ? find_key(*section, entry.key) : nullptr;
        const Key* key = same != nullptr || entry.key.empty() ? same : meant(entry);
        const std::string right = key != nullptr ? key->full_name()
                                  : section      ? fmt::format("[{}]", *section)
                                                 : fmt::format("one of [{}]", join(sections, "] ["));
        faults.add(entry.where, entry.key.empty() ? fmt::format("[{}]", entry.section) : entry.full_name(),
                   fmt::format("unknown section [{}]; would be right: {}", entry.section, right));
        return key;
    }
    if (entry.section.empty() && std::find(sections.begin(), sections.end(), entry.key) != sections.end()) {
        faults.add(entry.where, entry.key,
                   fmt::format("is a section, not a key; would be right: a header [{}]", entry.key));
        return nullptr;
    }
    if (const auto* table = std::get_if<OtherValue>(&entry.value); table != nullptr && table->kind == "a table") {
        faults.add(
            entry.where, entry.full_name(),
            fmt::format("a table inside [{}]; would be right: sections stand alone, and their keys have no dot: a "
                        "header [section], then key = value",
                        entry.section));
        return nullptr;
    }
    if (entry.key == "include") {
        faults.add(entry.where, entry.full_name(),
                   "not a key of a section; would be right: include above the first section of a file");
        return nullptr;
    }
    if (const Foreign* other = foreign_for(folded_name(entry.key))) {
        faults.add(entry.where, entry.full_name(), fmt::format("unknown key; would be right: {}", other->advice));
        return find_key(other->key);
    }
    const Key* key = meant(entry);
    if (key == nullptr) {
        faults.add(entry.where, entry.full_name(), "unknown key; `ogrom keys` lists all");
    } else if (key->name == entry.key) {
        faults.add(entry.where, entry.full_name(),
                   fmt::format("{} belongs to {}; would be right: {}", entry.key,
                               namesakes(entry.key, [](const Key& k) { return fmt::format("[{}]", k.section); }),
                               namesakes(entry.key, [](const Key& k) { return k.full_name(); })));
    } else {
        faults.add(entry.where, entry.full_name(),
                   fmt::format("unknown key; would be right: {}", meant_names(folded_name(entry.key), *key)));
    }
    return key;
}

MeantSetting meant_setting(const std::string& word) {
    const std::string name = folded_name(word);
    if (const Key* key = find_key(name)) {
        return {{key}, ""};
    }
    const std::size_t dot = name.find('.');
    Entry entry;
    entry.section = dot == std::string::npos ? "" : name.substr(0, dot);
    entry.key = dot == std::string::npos ? name : name.substr(dot + 1);
    if (const Foreign* other = foreign_for(entry.key)) {
        return {{}, std::string(other->advice)};
    }
    MeantSetting meant_here;
    for (const Key& key : schema()) {
        if (key.name == entry.key) {
            meant_here.keys.push_back(&key);
        }
    }
    const bool same_name = !meant_here.keys.empty();
    meant_here.either = meant_here.keys.size() > 1;
    for (const Key& key : schema()) {
        if (!same_name && has_alias(key, entry.key)) {
            meant_here.keys.push_back(&key);
        }
    }
    const auto sections = section_names();
    if (meant_here.keys.empty() && std::find(sections.begin(), sections.end(), entry.section) != sections.end()) {
        if (const Key* near = meant(entry)) {
            meant_here.keys.push_back(near);
        }
    }
    return meant_here;
}

}  // namespace ogrom
