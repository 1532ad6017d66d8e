#include "tests/unit/io/support.h"

#include <barrier>
#include <cstring>
#include <memory>
#include <omp.h>
#include <thread>
#include <unistd.h>

#include "src/base/error.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/io_thread.h"

namespace ogrom::test {

namespace {

struct Shared {
    explicit Shared(int size) : gate(size), parts(static_cast<std::size_t>(size)) {}
    std::barrier<> gate;
    std::vector<const void*> parts;
};

struct Done : Pending::State {
    bool test() override { return true; }
};

// Only what a checkpoint uses does anything: every agreement is made of all_gather.
class ThreadCommunicator : public Communicator {
public:
    ThreadCommunicator(Shared& shared, int rank) : shared_(shared), rank_(rank) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return static_cast<int>(shared_.parts.size()); }
    [[nodiscard]] std::string_view name() const override { return "threads"; }
    Pending all_gather(void* out, const void* in, i64 count, Dtype type, std::string_view) override {
        shared_.parts[static_cast<std::size_t>(rank_)] = in;
        shared_.gate.arrive_and_wait();
        const std::size_t bytes = static_cast<std::size_t>(count * size_of(type));
        for (std::size_t r = 0; r < shared_.parts.size() && bytes > 0; ++r) {
            std::memcpy(static_cast<std::byte*>(out) + r * bytes, shared_.parts[r], bytes);
        }
        shared_.gate.arrive_and_wait();
        return Pending(std::make_unique<Done>());
    }
    Pending barrier(std::string_view) override {
        shared_.gate.arrive_and_wait();
        return Pending(std::make_unique<Done>());
    }
    Pending all_reduce(void*, i64, Dtype, ReduceOp, ReduceOrder, void*, std::string_view) override { return unused(); }
    Pending reduce_scatter(void*, const void*, i64, Dtype, ReduceOrder, void*, std::string_view) override {
        return unused();
    }
    Pending broadcast(void*, i64, Dtype, int, std::string_view) override { return unused(); }
    void progress() override {}
    [[nodiscard]] i64 bytes_sent() const override { return 0; }

private:
    static Pending unused() { fail(ExitCode::peer, "this collective is not part of the test communicator"); }
    Shared& shared_;
    int rank_;
};

}  // namespace

Folder::Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ogrom-io-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
}
Folder::~Folder() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
}
std::string Folder::path(const std::string& name) const {
    return (name.empty() ? root_ : root_ / name).string();
}

ModelConfig small_model(i64 layers) {
    ModelConfig model;
    model.layers = layers;
    model.hidden = 10;
    model.heads = model.kv_heads = 2;
    model.head_dim = 5;
    model.ffn_hidden = 23;
    model.vocab = 37;
    model.padded_vocab = 64;
    model.sequence = 13;
    return model;
}

template <class T>
SmallState<T>::SmallState(const ModelConfig& described)
    : model(described),
      table(make_parameters(model, dtype_of<T>())),
      layout(table, StageSpan{0, 0, 0, model.layers, true, true}),
      weights(static_cast<std::size_t>(layout.size())),
      moment1(weights.size()),
      moment2(weights.size()) {
    omp_set_num_threads(1);  // of the calling thread: ranks are threads here, and the state is small
    fill();
}

template <class T>
void SmallState<T>::fill() {
    for (const LocalTensor& tensor : layout.tensors()) {
        for (i64 e = 0; e < tensor.count; ++e) {
            const auto at = static_cast<std::size_t>(tensor.offset + e);
            const bool padding = e >= tensor.parameter->count();
            const double value = static_cast<double>(4096 * tensor.parameter->id + e);
            weights[at] = static_cast<T>(padding ? -7777 : value);
            moment1[at] = static_cast<T>(padding ? -7777 : value + 0.25);
            moment2[at] = static_cast<T>(padding ? -7777 : value + 0.5);
        }
    }
}

template <class T>
void SmallState<T>::poison() {
    for (auto* values : {&weights, &moment1, &moment2}) {
        values->assign(values->size(), std::numeric_limits<T>::quiet_NaN());
    }
}

template <class T>
i64 SmallState<T>::wrong(const std::vector<T>& values, double shift) const {
    i64 count = 0;
    for (const LocalTensor& tensor : layout.tensors()) {
        for (i64 e = 0; e < tensor.count; ++e) {
            const bool padding = e >= tensor.parameter->count();
            const double wanted = padding ? 0 : static_cast<double>(4096 * tensor.parameter->id + e) + shift;
            const double found = static_cast<double>(values[static_cast<std::size_t>(tensor.offset + e)]);
            count += found == wanted ? 0 : 1;
        }
    }
    return count;
}
template <class T>
i64 SmallState<T>::wrong() const {
    return wrong(weights, 0) + wrong(moment1, 0.25) + wrong(moment2, 0.5);
}
template struct SmallState<float>;
template struct SmallState<double>;

CheckpointHeader small_header(i64 step) {
    CheckpointHeader header;
    header.step = step;
    header.cursor = {1, 0xfedcba9876543210u, {{"set-a", 0.75, 2, 5}, {"set-b", 0.25, 0, 11}}, step * 8};
    header.seed = 0x8000000000000001u;
    header.tokenizer = "byte:1";
    header.tokenizer_path = "tokenizers/ünï.json";
    header.run_toml = "[run]\nname = \"small\"\n" + std::string(100000, '#') + "\n";
    header.provenance_json = "{\"format\": 1}\n";
    header.skipped_steps = 3;
    header.best_valid_loss = 2.5;
    header.extra = {{"loss_scale", "65536"}, {"empty", ""}};
    return header;
}

void as_ranks(int ranks, const std::function<void(Communicator&)>& body, std::vector<std::string>* faults) {
    Shared shared(ranks);
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                ThreadCommunicator communicator(shared, rank);
                body(communicator);
            } catch (...) {
                thrown[static_cast<std::size_t>(rank)] = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const std::exception_ptr& fault : thrown) {
        if (faults != nullptr) {
            faults->push_back(fault ? fault_text([&] { std::rethrow_exception(fault); }) : std::string());
        } else if (fault) {
            std::rethrow_exception(fault);
        }
    }
}

template <class T>
std::string save_small(const std::string& directory, i64 step, int writers, const Retention& keep) {
    const SmallState<T> state(small_model());
    CheckpointHeader header = small_header(step);
    header.weight_hash = weight_hash(std::span<const T>(state.weights), state.layout);
    as_ranks(writers, [&](Communicator& dp) {
        save_checkpoint<T>(dp, directory, header, state.layout, state.model, state.const_view(), keep);
    });
    return directory + "/" + step_name(step);
}
template std::string save_small<float>(const std::string&, i64, int, const Retention&);
template std::string save_small<double>(const std::string&, i64, int, const Retention&);

Manifest scan_manifest(const std::string& step) {
    Manifest manifest{1, *step_of(std::filesystem::path(step).filename().string()), {}};
    for (const std::string& name : list_directory(step)) {
        if (name.ends_with(".h5")) {
            const std::string bytes = read_file(join_path(step, name), i64{1} << 30);
            BlockHasher hasher;
            hasher.add(std::as_bytes(std::span(bytes)));
            manifest.files.push_back({name, static_cast<i64>(bytes.size()), hasher.finish()});
        }
    }
    return manifest;
}

void edit_master(const std::string& step, const std::function<void(hid_t)>& edit) {
    const std::string path = step + "/checkpoint.h5";
    on_io_thread([&] {
        h5::prepare();
        const h5::File file(h5::check(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), path, "edit"));
        edit(file.get());
    });
    write_file_atomic(step + "/manifest.json", to_text(scan_manifest(step)));
}

std::string fault_text(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.code() == ExitCode::checkpoint ? error.what() : std::string("wrong code: ") + error.what();
    }
    return {};
}

}  // namespace ogrom::test
