// Comes in: the shapes of products that a pass has used. Goes out: an algorithm for each, measured. Next:
// train/step.cpp
#include "src/train/products.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/file.h"
#include "src/base/log.h"
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
void take_in(const std::string& text, const std::string& source, int rank) {
    try {
        if (!text.empty()) {
            take_product_choices(text);
        }
    } catch (const Error& error) {
        if (rank == 0) {
            log_warning("{}: {}; what it does not give is searched anew", source, error.what());
        }
    }
}

i64 choices_in(const std::string& text) {
    return std::count(text.begin(), text.end(), '\n') - 1;  // behind the line that names device and library
}

void write_cache(const std::string& file) {
    try {
        make_directories(parent_path(file));
        write_file_atomic(file, product_choices());
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

std::string summary_of(const ProductTrials& trials, i64 given) {
    std::string text = fmt::format("products: {} shapes with a choice from before", given);
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
    const std::string file = session.rank() == 0 ? product_cache_file(run, products_key()) : std::string();
    const std::string kept = gather_long(world, read_cache(file), "choices of products kept").front();
    take_in(kept, file, session.rank());
    take_in(saved, "products of the checkpoint", session.rank());
    const i64 given = choices_in(product_choices());
    ProductTrials trials;
    const bool measures = mesh.place.dp == 0 && mesh.place.cp == 0 && mesh.place.tp == 0;
    if (measures && run.run.product_search_s > 0) {
        trials = try_products(stream, run.run.product_search_s);
    }
    const bool found = trials.searched > 0;
    const std::vector<std::string> all =
        gather_long(world, found ? product_choices() : std::string(), "choices of products");
    ProductChoices choices;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        choices.searched = choices.searched || !all[rank].empty();
        // In one order on every rank, its own too: where two stages have measured one shape, all keep the same.
        take_in(all[rank], fmt::format("products of rank {}", rank), session.rank());
    }
    choices.text = product_choices();
    choices.summary = summary_of(trials, given);
    if (choices.searched && !file.empty()) {
        write_cache(file);
    }
    return choices;
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
