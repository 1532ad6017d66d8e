// Rates of a checkpoint's save and load beside plain writes and reads of as many bytes on the same file system, in turn
// in one run. Ranks hold equal flat shares of a GPT's weights and two moments (fp32), as ZeRO 3 does; the total does
// not change with the ranks. A save counts from its call to its return: layout of the files, hashes, fsync of files and
// folders, manifest, rename, `latest`. A load counts the check of every hash, the reads and the weight hash. Reads are
// cold: the files leave the page cache before each.
//   bench_checkpoint FOLDER MODEL [SAMPLES]     MODEL: 124m | 1558m; prints rows as JSON
#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "kernels/common/hash.h"

#include "src/base/file.h"
#include "src/base/timer.h"
#include "src/io/checkpoint.h"
#include "src/io/checkpoint_layout.h"
#include "src/io/durable.h"

#include "tests/peers/layout_bench.h"

namespace ogrom::peers {
namespace {

constexpr i64 slice = i64{16} << 20;

ModelConfig model_of(const std::string& name) {
    require(name == "124m" || name == "1558m", ExitCode::usage, name + ": 124m or 1558m is wanted");
    const bool small = name == "124m";
    ModelConfig model;
    model.layers = small ? 12 : 48;
    model.hidden = small ? 768 : 1600;
    model.heads = model.kv_heads = small ? 12 : 25;
    model.head_dim = 64;
    model.ffn_hidden = 4 * model.hidden;
    model.vocab = 50257;
    model.padded_vocab = 50304;
    model.sequence = 1024;
    return model;
}

// What a rank holds: flat elements `own` of three kinds of state.
struct Share {
    Share(const ParameterLayout& layout, int rank, int ranks) : own(writer_range(layout.size(), rank, ranks)) {
        for (std::vector<float>& values : state) {
            values.resize(static_cast<std::size_t>(own.count()));
        }
        u64 word = static_cast<u64>(own.first);
        for (std::vector<float>& values : state) {
            for (float& value : values) {
                value = static_cast<float>(mix64(++word) >> 40) * 0x1p-24f - 0.5f;
            }
        }
    }
    template <class T>
    std::vector<StateGroup<T>> groups() {
        std::vector<StateGroup<T>> list;
        const char* const names[] = {"weights", "moment1", "moment2"};
        for (std::size_t i = 0; i < 3; ++i) {
            list.push_back({names[i], {{own, state[i].data()}}});
        }
        return list;
    }
    [[nodiscard]] i64 bytes() const { return 3 * own.count() * static_cast<i64>(sizeof(float)); }
    FlatRange own;
    std::vector<float> state[3];
};

void forget(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    require(file >= 0 && ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, ExitCode::checkpoint, path);
    ::close(file);
}

class Contest {
public:
    Contest(Session& session, std::string folder, const ModelConfig& model)
        : world_(session.world()),
          session_(session),
          folder_(std::move(folder)),
          model_(model),
          table_(make_parameters(model, Dtype::fp32)),
          layout_(table_, StageSpan{.last_layer = model.layers}),
          share_(layout_, world_.rank(), world_.size()) {
        u64 mine = weight_hash<float>(share_.state[0].data(), share_.own, layout_);
        std::vector<u64> all(static_cast<std::size_t>(world_.size()));
        world_.all_gather(all.data(), &mine, 1, Dtype::u64, "hash").wait();
        header_.step = 1;
        for (const u64 part : all) {
            header_.weight_hash += part;
        }
        Disk().make_folders(raw_path(""));
    }
    double save() {
        return timed([&] {
            const auto groups = share_.groups<const float>();
            save_checkpoint<float>(world_, folder_, header_, layout_, model_,
                                   std::span<const StateGroup<const float>>(groups), 1);
        });
    }
    double load() {
        forget_all();
        std::fill(share_.state[0].begin(), share_.state[0].end(), 0.0f);
        return timed([&] {
            const auto groups = share_.groups<float>();
            std::vector<std::string> skipped;
            load_checkpoint<float>(world_, folder_, layout_, std::span<const StateGroup<float>>(groups), true, skipped);
        });
    }
    // As dd does: one buffer, whole slices; past the page cache (O_DIRECT) or through it, then fsync.
    double raw_write(bool direct) {
        const std::span<std::byte> memory = buffer();
        return timed([&] {
            FileWriter file(own_raw(), Create::truncate);
            file.bypass_cache(direct);
            for (i64 left = share_.bytes(); left > 0;) {
                const i64 n = std::min<i64>(left, slice);
                if (n < slice) {
                    file.bypass_cache(false);
                }
                file.write({reinterpret_cast<const char*>(memory.data()), static_cast<std::size_t>(n)});
                left -= n;
            }
            file.sync();
            file.close();
            Disk().sync_folder(raw_path(""));
        });
    }
    double raw_read() {
        forget_all();
        const std::span<std::byte> memory = buffer();
        return timed([&] {
            const int file = ::open(own_raw().c_str(), O_RDONLY | O_CLOEXEC);
            require(file >= 0, ExitCode::checkpoint, own_raw());
            for (i64 left = share_.bytes(); left > 0;) {
                const i64 n = std::min<i64>(left, slice);
                require(::read(file, memory.data(), static_cast<std::size_t>(n)) == n, ExitCode::checkpoint, own_raw());
                left -= n;
            }
            ::close(file);
        });
    }
    [[nodiscard]] double bytes() const { return 3.0 * 4.0 * static_cast<double>(layout_.size()); }

private:
    template <class Work>
    double timed(Work work) {
        world_.barrier("start").wait();
        const Timer timer;
        work();
        return agree_slowest(session_, timer.seconds());
    }
    std::span<std::byte> buffer() {
        if (!buffer_) {
            buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, slice)));
            std::fill_n(buffer_.get(), slice, std::byte{0x5a});
        }
        return {buffer_.get(), static_cast<std::size_t>(slice)};
    }
    void forget_all() {
        world_.barrier("all written").wait();
        if (world_.rank() == 0) {
            const std::string step = join_path(folder_, "step-00000001");
            for (const std::string& name : list_directory(step)) {
                forget(join_path(step, name));
            }
            for (const std::string& name : list_directory(raw_path(""))) {
                forget(raw_path(name));
            }
        }
    }
    [[nodiscard]] std::string raw_path(const std::string& name) const { return join_path(folder_ + "/raw", name); }
    [[nodiscard]] std::string own_raw() const { return raw_path(fmt::format("{}.bin", world_.rank())); }

    Communicator& world_;
    Session& session_;
    std::string folder_;
    ModelConfig model_;
    ParameterTable table_;
    ParameterLayout layout_;
    Share share_;
    CheckpointHeader header_;
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte[], Free> buffer_;
};

std::vector<double> rates(const std::vector<double>& seconds, double bytes) {
    std::vector<double> list;
    for (const double s : seconds) {
        list.push_back(bytes / s / 1e9);
    }
    return list;
}

Json rows(Session& session, const std::string& command, const std::string& folder, const std::string& name,
          int samples) {
    Contest contest(session, folder, model_of(name));
    const auto written = in_turn({[&] { return contest.save(); }, [&] { return contest.raw_write(false); },
                                  [&] { return contest.raw_write(true); }},
                                 samples);
    const auto read = in_turn({[&] { return contest.load(); }, [&] { return contest.raw_read(); }}, samples);
    Json list = Json::array();
    const auto add = [&](const char* what, const std::vector<std::vector<double>>& times, const std::string& limit,
                         Json extra) {
        Row row;
        row.name =
            fmt::format("checkpoint {}, {}, {} rank{}", what, name, session.size(), session.size() == 1 ? "" : "s");
        row.unit = "GB/s";
        row.better = Better::higher;
        row.samples = rates(times[0], contest.bytes());
        std::vector<std::vector<double>> plain;
        for (std::size_t i = 1; i < times.size(); ++i) {
            plain.push_back(rates(times[i], contest.bytes()));
            row.limit = std::max(row.limit, median(plain.back()));
        }
        row.limit_name = limit;
        extra.update({{"seconds", times[0]}, {"plain_gb_per_s", plain}, {"bytes", contest.bytes()}});
        row.extra = extra;
        list.push_back(row_of(row, command));
    };
    add("write", written, "plain writes of as many bytes, the faster of through and past the page cache",
        {{"plain", {"through the page cache", "past it"}}});
    add("read", read, "plain reads of as many bytes", {{"plain", {"through the page cache"}}});
    return list;
}

}  // namespace
}  // namespace ogrom::peers

int main(int argc, char** argv) {
    using namespace ogrom::peers;
    if (argc < 3) {
        fmt::print(stderr, "usage: bench_checkpoint FOLDER 124m|1558m [SAMPLES]\n");
        return 2;
    }
    const int samples = argc > 3 ? std::max(1, std::atoi(argv[3])) : 5;
    return run_bench(argc, argv, 1, [&](ogrom::Session& session, const std::string& command) {
        return rows(session, command, argv[1], argv[2], samples);
    });
}
