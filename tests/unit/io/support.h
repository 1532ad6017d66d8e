// A small odd model, state whose values name their origin, temporary folders, and ranks as threads.
#pragma once
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "src/comm/communicator.h"
#include "src/io/checkpoint.h"
#include "src/io/durable.h"
#include "src/io/hdf5.h"

namespace ogrom::test {

// Removed with all that is in it.
class Folder {
public:
    Folder();
    ~Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] std::string path(const std::string& name = "") const;

private:
    std::filesystem::path root_;
};

ModelConfig small_model(i64 layers = 2);  // odd extents, padded vocabulary

// Element e of tensor t is 4096 t + e (exact in fp32), +0.25 in moment1, +0.5 in moment2; padding is -7777.
template <class T>
struct SmallState {
    explicit SmallState(const ModelConfig& model);
    void fill();    // values that name their origin
    void poison();  // NaN everywhere
    [[nodiscard]] StateView<T> view() { return {weights, moment1, moment2}; }
    [[nodiscard]] StateView<const T> const_view() const { return {weights, moment1, moment2}; }
    // Elements that differ from fill()'s values with zero padding; NaN counts as different.
    [[nodiscard]] i64 wrong() const;

    ModelConfig model;
    ParameterTable table;
    ParameterLayout layout;
    std::vector<T> weights, moment1, moment2;

private:
    [[nodiscard]] i64 wrong(const std::vector<T>& values, double shift) const;
};

CheckpointHeader small_header(i64 step);

// Runs `body` once per rank, each on its own thread with a communicator of `ranks`; rethrows the lowest rank's fault
// and stores every rank's text in `faults` when given.
void as_ranks(int ranks, const std::function<void(Communicator&)>& body, std::vector<std::string>* faults = nullptr);

// A checkpoint of small_model at `step`, saved by `writers` ranks.
template <class T>
std::string save_small(const std::string& directory, i64 step, int writers, const Retention& keep = 0);

// A manifest of the files of a step folder as they are now (after an edit).
Manifest scan_manifest(const std::string& step);

// Edits the master as an outsider with HDF5 would (`edit` gets the open file), then makes the manifest agree: only the
// tensors can tell.
void edit_master(const std::string& step, const std::function<void(hid_t file)>& edit);

// Text of the Error that `body` throws; empty when none.
std::string fault_text(const std::function<void()>& body);

}  // namespace ogrom::test
