// Comes in: the shapes of products that a pass has used. Goes out: an algorithm for each, measured. Next:
// train/step.cpp
#include "src/train/products.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/device/product_trials.h"

namespace ogrom {
namespace {

constexpr const char* provenance_key = "products";
constexpr i64 most_bytes = 16 << 20;  // of the file: a line has about 200

std::string cache_folder(const RunConfig& run) {
    if (run.run.product_cache != "auto") {
        return run.run.product_cache == "none" ? std::string() : run.run.product_cache;
    }
    const char* cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && *cache == '/') {
        return join_path(cache, "ogrom");
    }
    const char* home = std::getenv("HOME");
    return home != nullptr && *home == '/' ? join_path(home, ".cache/ogrom") : std::string();
}

std::string read_cache(const std::string& file) {
    try {
        return !file.empty() && file_exists(file) ? read_file(file, most_bytes) : std::string();
    } catch (const Error& error) {
        log_warning("products: {}; they are searched anew", error.what());
        return {};
    }
}

// A broken text is no reason to stop: what it does not give is measured again.
void take_in(const std::string& text, const std::string& source, TakeChoices how, bool speaks) {
    try {
        const i64 refused = take_product_choices(text, how);
        if (refused > 0 && speaks) {
            log_warning("{}: {} choices are not those of this library any more; they are searched anew", source,
                        refused);
        }
    } catch (const Error& error) {
        if (speaks) {
            log_warning("{}: {}; what it does not give is searched anew", source, error.what());
        }
    }
}

void write_cache(const std::string& file) {
    try {
        make_directories(parent_path(file));
        write_file_atomic(file, measured_product_choices());
    } catch (const Error& error) {
        log_warning("products: the choices are not kept for the next start: {}", error.what());
    }
}

// gather_text for texts of any length. Collective.
std::vector<std::string> gather_long(Communicator& world, const std::string& text, std::string_view label) {
    constexpr std::size_t piece = 60'000;  // gather_text takes 64 KiB
    std::vector<std::string> all(static_cast<std::size_t>(world.size()));
    for (std::size_t at = 0;; at += piece) {
        const std::string part = at < text.size() ? text.substr(at, piece) : std::string();
        bool more = false;
        const std::vector<std::string> parts = gather_text(world, part, label);
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
            all[rank] += parts[rank];
            more = more || parts[rank].size() == piece;
        }
        if (!more) {
            return all;
        }
    }
}

std::string joined(const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& text : texts) {
        all += text;
    }
    return all;
}

// What this rank does for the others: the first of its kind of GPU has the file, the first of its stage and kind
// measures.
struct Part {
    bool keeps = true, measures = true;
};

Part part_of(Session& session, const Mesh& mesh, const std::string& key) {
    const std::string mine = fmt::format("{} {}", mesh.place.pp, key);
    const std::vector<std::string> all = gather_text(session.world(), mine, "stages and GPUs");
    Part part;
    for (int rank = 0; rank < session.rank(); ++rank) {
        const std::string& other = all[static_cast<std::size_t>(rank)];
        part.measures = part.measures && other != mine;
        part.keeps = part.keeps && other.substr(other.find(' ') + 1) != key;
    }
    return part;
}

void warn_of_other_library(const std::string& saved, const std::string& key) {
    const std::vector<std::string> keys = product_keys(saved);
    if (!keys.empty() && std::find(keys.begin(), keys.end(), key) == keys.end()) {
        log_warning(
            "products: the checkpoint was trained with {}, this is {}: algorithms are chosen anew, so this run is not "
            "bit for bit the one that would have gone on there",
            fmt::join(keys, " and "), key);
    }
}

std::string summary_of(const ProductTrials& trials) {
    std::string text = fmt::format("products: {} shapes with a choice from before", trials.settled);
    if (trials.searched > 0) {
        text += fmt::format(", {} searched in {:.1f} s (together {:.1f} % faster than the library's first choices)",
                            trials.searched, trials.seconds, 100 * trials.gain);
    }
    if (trials.left_out > 0) {
        text += fmt::format(", {} left to the library: no time (run.product_search_s) or memory", trials.left_out);
    }
    return text;
}

}  // namespace

std::string product_cache_file(const RunConfig& run, const std::string& key) {
    const std::string folder = cache_folder(run);
    std::string name = key;
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
    return folder.empty() ? std::string() : join_path(folder, fmt::format("products-{}.txt", name));
}

ProductChoices choose_products(Session& session, const RunConfig& run, const Mesh& mesh, Stream stream,
                               const std::string& saved) {
    Communicator& world = session.world();
    const std::string key = products_key();
    const Part part = part_of(session, mesh, key);
    const std::string file = part.keeps ? product_cache_file(run, key) : std::string();
    const std::string before = read_cache(file);
    const std::string kept = joined(gather_long(world, before, "choices of products kept"));
    take_in(kept, "run.product_cache", TakeChoices::for_later, part.keeps);
    if (part.keeps) {
        warn_of_other_library(saved, key);
    }
    take_in(saved, "products of the checkpoint", TakeChoices::for_later, part.keeps);
    ProductTrials trials;
    if (part.measures) {
        trials = try_products(stream, run.run.product_search_s);
    }
    const std::string mine = part.measures ? used_product_choices() : std::string();
    const std::string chosen = joined(gather_long(world, mine, "choices of products"));
    // In one order on every rank, its own too: where two stages have measured one shape, all keep the same.
    take_in(chosen, "products of the other ranks", TakeChoices::as_used, part.keeps);
    ProductChoices choices;
    choices.summary = summary_of(trials);
    choices.text =
        joined(gather_long(world, part.keeps ? used_product_choices() : std::string(), "choices of products made"));
    if (!file.empty() && measured_product_choices() != before) {
        write_cache(file);
    }
    return choices;
}

std::vector<std::string> product_keys(const std::string& text) {
    constexpr std::string_view head = "ogrom-products ", before = " | ";
    std::vector<std::string> keys;
    for (const std::string_view line : split(text, '\n')) {
        const std::size_t at = line.find(before);
        if (line.starts_with(head) && at != line.npos) {
            const std::string key(line.substr(at + before.size()));
            if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
                keys.push_back(key);
            }
        }
    }
    return keys;
}

std::string with_products(const std::string& provenance_json, const std::string& text) {
    auto whole = nlohmann::ordered_json::parse(provenance_json);
    whole[provenance_key] = text;
    return whole.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string products_within(const std::string& provenance_json) {
    const auto whole = nlohmann::ordered_json::parse(provenance_json, nullptr, false);
    return whole.is_object() && whole.contains(provenance_key) && whole[provenance_key].is_string()
               ? whole[provenance_key].get<std::string>()
               : std::string();
}

}  // namespace ogrom
