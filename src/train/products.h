// Which algorithm makes each product of a GPU (kernels/cuda/products.h): chosen once before the first step, the same on
// all ranks of a pipeline stage and kind of GPU, and the same again when the run is resumed: the bits of a run depend
// on it.
#pragma once
#include <string>
#include <vector>

#include "src/comm/mesh.h"
#include "src/comm/session.h"
#include "src/config/run.h"

namespace ogrom {

struct ProductChoices {
    std::string text;     // for provenance and checkpoint: what choose_products takes as `saved`; equal on all ranks
    std::string summary;  // one line for the log
};

// The file of run.product_cache for a GPU and library; empty where nothing is to be kept ("none", or neither
// XDG_CACHE_HOME nor HOME is set).
std::string product_cache_file(const RunConfig& run, const std::string& key);

// After a pass of the whole stage (warm_up). Taken in turn: the file of run.product_cache; `saved`, the choices that a
// checkpoint was trained with, which win; for products that still have none, the fastest of those that the first rank
// of each stage and kind of GPU measures within run.product_search_s. The first rank of each kind reads the file, and
// keeps in it what is new; one that cannot be read or written is a warning. Collective over the session.
ProductChoices choose_products(Session& session, const RunConfig& run, const Mesh& mesh, Stream stream,
                               const std::string& saved);

// GPUs and libraries that a text of choices speaks of, each once.
std::vector<std::string> product_keys(const std::string& text);

// The choices within the provenance of a run, and back ("" where there are none).
std::string with_products(const std::string& provenance_json, const std::string& text);
std::string products_within(const std::string& provenance_json);

}  // namespace ogrom
