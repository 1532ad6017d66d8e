#include "src/train/preflight.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "kernels/common/error.h"

#include "src/base/host.h"
#include "src/base/text.h"
#include "src/base/timer.h"
#include "src/base/version.h"
#include "src/comm/axis_set.h"
#include "src/comm/delayed.h"
#include "src/comm/launch.h"
#include "src/comm/mpi_library.h"
#include "src/comm/placement.h"
#include "src/device/arena.h"
#include "src/device/blas.h"
#include "src/device/memory.h"
#include "src/train/preflight_facts.h"
#include "src/train/setup.h"

namespace ogrom {
namespace {

constexpr i64 most_written = i64{4} << 30;  // by all ranks together
constexpr i64 link_bytes = i64{1} << 20;
constexpr i64 cpu_bytes = i64{16} << 20, gpu_bytes = i64{256} << 20;  // the largest collective
// Ranks that share a core wait for each other's turns: only what is far off can be told from that.
constexpr double shared_core_leniency = 0.25;

// Test hook: OGROM_TEST_DELAY_RANK=3:0.2 holds up every operation of rank 3 by 0.2 s, as a bad link would.
std::unique_ptr<Communicator> perhaps_delayed(std::unique_ptr<Communicator> axis, int rank) {
    const char* text = std::getenv("OGROM_TEST_DELAY_RANK");
    const std::vector<std::string> parts = split(text == nullptr ? "" : text, ':');
    if (axis == nullptr || parts.size() != 2 || parse_integer(parts[0]) != rank) {
        return axis;
    }
    return make_delayed_communicator(std::move(axis), {.seconds = parse_real(parts[1]).value_or(0)});
}

// The measuring of one job, in the order of its functions.
class Look {
public:
    Look(Session& session, const PreflightOptions& options)
        : session_(session),
          options_(options),
          device_(select_device(options.run.run.device, session.node_rank())),
          queues_(device_),
          threads_(threads_of(session, options.run)) {
        set_threads(threads_);
    }
    void facts(Preflight& found);
    void choose_transport(Preflight& found);
    void measure_devices(Preflight& found);
    void measure_links(Preflight& found);
    void measure_axes(Preflight& found);
    void measure_folder(Preflight& found);
    std::vector<SlowFinding> measure_again(const Preflight& first, std::span<const SlowFinding> suspects);

private:
    struct Axis {
        std::string name;
        int colour = -1;  // -1: this rank has no peers on it
        std::unique_ptr<Communicator> over;
    };
    [[nodiscard]] std::vector<Axis> plan_axes(const std::vector<ProbePlace>& places) const;
    [[nodiscard]] std::vector<CollectiveRate> median_group(const Axis& axis, const std::vector<CollectiveRate>& mine,
                                                           PreflightAxis& into);

    Session& session_;
    const PreflightOptions& options_;
    Device device_;
    Queues queues_;
    int threads_;
    TransportChoice transport_;
};

void Look::facts(Preflight& found) {
    const LaunchFacts launch = read_launch([](const char* name) { return std::getenv(name); }, geteuid() == 0);
    found.launcher = launch.launcher.empty() ? "none" : launch.launcher;
    found.thread_level = mpi_thread_level();
    PreflightRank mine;
    mine.host = session_.host();
    mine.mask = affinity_mask();
    mine.place = {session_.node(), session_.node_rank()};
    mine.threads = threads_;
    mine.device = device_;
    mine.limits = process_limits();
    mine.cpu = cpu_model();
    mine.driver = gpu_driver();
    mine.mpi = mpi_library();
    mine.program = build_info().git;
    for (const std::string& text : gather_text(session_.world(), facts_text(mine), "check ranks")) {
        found.ranks.push_back(facts_of(text));
    }
    found.mpi = found.ranks[0].mpi;
    for (const PreflightRank& rank : found.ranks) {
        found.nodes = std::max<i64>(found.nodes, rank.place.node + 1);
    }
    found.oversubscribed = agree_max(session_.world(), session_.oversubscribed() ? 1 : 0, "check cores") > 0;
    found.threshold = options_.threshold * (found.oversubscribed ? shared_core_leniency : 1);
    const std::vector<ClockOffset> clocks = measure_clocks(session_.world(), found.places());
    for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
        found.ranks[rank].clock = clocks[rank];
    }
}

// As a run would choose it; where a run would refuse (field case B44), that is a finding and the rest is still
// measured.
void Look::choose_transport(Preflight& found) {
    RunConfig run = options_.run;
    const auto choose = [&] { transport_ = agree_transport(session_.world(), session_.host(), device_, run); };
    try {
        choose();
    } catch (const Error& error) {  // on every rank alike
        found.findings.push_back(fault_of(error.code(), "devices", error.what()));
        run.run.share_gpu = true;
        run.comm.backend = "auto";
        try {
            choose();
        } catch (const Error&) {
            transport_ = {AxisTransport::host, 0, "MPI: not all ranks have a GPU"};
        }
    }
    found.transport = transport_.reason;
}

void Look::measure_devices(Preflight& found) {
    const Dtype wanted = options_.run.precision.weights;
    const Dtype type = !has_16_bits(wanted) && device_.is_gpu() ? Dtype::bf16 : wanted;
    const bool possible = device_.is_gpu() || !has_16_bits(type);
    const Dtype used = possible ? type : Dtype::fp32;
    found.matmul_dtype = name_of(used);
    Communicator& world = session_.world();
    world.barrier("check devices").wait();
    double mine[3] = {measure_matmul_rate(used, device_, queues_.compute), 0, 0};
    world.barrier("check devices").wait();
    const CopyRates copies = measure_copy_rates(device_, queues_.compute);
    mine[1] = copies.to_device;
    mine[2] = copies.to_host;
    std::vector<double> all(3 * found.ranks.size());
    world.all_gather(all.data(), mine, 3, Dtype::fp64, "check devices").wait();
    for (std::size_t rank = 0; rank < found.ranks.size(); ++rank) {
        found.ranks[rank].matmul_flops = all[3 * rank];
        found.ranks[rank].copies = {all[3 * rank + 1], all[3 * rank + 2]};
    }
}

void Look::measure_links(Preflight& found) {
    if (session_.size() == 1) {
        return;
    }
    const std::unique_ptr<Communicator> ranks =
        perhaps_delayed(session_.split(0, session_.rank(), "check"), session_.rank());
    found.links = ogrom::measure_links(*ranks, found.places(), link_bytes, 0.2 * options_.seconds);
}

std::vector<Look::Axis> Look::plan_axes(const std::vector<ProbePlace>& places) const {
    std::vector<Axis> axes;
    const int rank = session_.rank();
    const auto add = [&](const char* name, int colour, int extent) {
        if (extent > 1) {
            axes.push_back({name, colour, nullptr});
        }
    };
    add("all", 0, session_.size());
    if (options_.has_mesh) {
        const MeshShape& shape = options_.mesh;
        MeshPlace tp = place_of(rank, shape), dp = tp, pp = tp;
        tp.tp = dp.dp = pp.pp = 0;
        add("tp", rank_of(tp, shape), shape.tp);
        add("dp", rank_of(dp, shape), shape.dp == session_.size() ? 1 : shape.dp);  // else the same as "all"
        add("pp", rank_of(pp, shape), shape.pp);
    } else if (std::any_of(places.begin(), places.end(), [](const ProbePlace& place) { return place.node > 0; })) {
        const int largest =
            std::max_element(places.begin(), places.end(),
                             [](const ProbePlace& a, const ProbePlace& b) { return a.node_rank < b.node_rank; })
                ->node_rank +
            1;
        add("node", session_.node_size() > 1 ? session_.node() : -1, largest);
    }
    return axes;
}

// A send goes from each rank to the next: what a rank received came over the link from the one before.
void note_neighbours(const CollectiveRate& send, Preflight& found) {
    found.neighbours.clear();
    const int ranks = static_cast<int>(send.own_s.size());
    for (int to = 0; to < ranks; ++to) {
        const int from = (to + ranks - 1) % ranks;
        const ProbePlace &a = found.ranks[static_cast<std::size_t>(from)].place,
                         &b = found.ranks[static_cast<std::size_t>(to)].place;
        const double rate = static_cast<double>(send.bytes) / send.own_s[static_cast<std::size_t>(to)];
        found.neighbours.push_back({std::min(from, to), std::max(from, to),
                                    a.node == b.node ? LinkSpan::within_node : LinkSpan::between_nodes, 0, rate});
    }
}

// Of the groups of an axis the one in the middle, for each collective. Collective over all ranks.
std::vector<CollectiveRate> Look::median_group(const Axis& axis, const std::vector<CollectiveRate>& mine,
                                               PreflightAxis& into) {
    nlohmann::json packed = nlohmann::json::array();
    const bool leads = axis.over != nullptr && axis.over->rank() == 0;
    for (const CollectiveRate& rate : leads ? mine : std::vector<CollectiveRate>{}) {
        packed.push_back(
            {static_cast<int>(rate.what), rate.bytes, rate.repetitions, rate.seconds, rate.bus_bytes_per_s});
    }
    std::map<int, std::vector<CollectiveRate>> groups_of;
    into.size = agree_max(session_.world(), axis.over == nullptr ? 0 : axis.over->size(), "check axis");
    for (const std::string& text : gather_text(session_.world(), packed.dump(), "check axis")) {
        const nlohmann::json rows = nlohmann::json::parse(text);
        into.groups += rows.empty() ? 0 : 1;
        for (const nlohmann::json& row : rows) {
            groups_of[row[0]].push_back(
                {static_cast<ProbedCollective>(row[0].get<int>()), row[1], row[2], row[3], row[4], {}});
        }
    }
    std::vector<CollectiveRate> medians;
    for (auto& [what, groups] : groups_of) {
        std::sort(groups.begin(), groups.end(), [](const CollectiveRate& a, const CollectiveRate& b) {
            return a.bus_bytes_per_s < b.bus_bytes_per_s;
        });
        medians.push_back(groups[groups.size() / 2]);
    }
    return medians;
}

void Look::measure_axes(Preflight& found) {
    if (session_.size() == 1) {
        return;
    }
    found.axes.clear();
    std::vector<Axis> axes = plan_axes(found.places());
    {
        AxisSet set(session_.world(), CollectiveCheck::off, axis_options(transport_, queues_));
        for (Axis& axis : axes) {
            axis.over = set.make(axis.colour, session_.rank(), axis.name, Channels::up_ring);
        }
        set.connect();
    }
    const bool on_gpu = transport_.transport != AxisTransport::host;
    found.device_links = on_gpu;
    const i64 bytes = on_gpu ? gpu_bytes : cpu_bytes;
    Ledger ledger;
    ledger.add("a", Tier::device, bytes, "the largest collective");
    ledger.add("b", Tier::device, bytes, "the largest collective");
    Arena arena(ledger, on_gpu ? device_ : Device{});
    const std::span<float> a = arena.take<float>("a"), b = arena.take<float>("b");
    if (on_gpu) {
        set_zero(queues_.compute, a);
        set_zero(queues_.compute, b);
        wait(queues_.compute);
    } else {
        set_zero(a);
        set_zero(b);
    }
    for (Axis& axis : axes) {
        PreflightAxis row;
        row.name = axis.name;
        std::vector<CollectiveRate> mine;
        axis.over = on_gpu ? std::move(axis.over) : perhaps_delayed(std::move(axis.over), session_.rank());
        session_.world().barrier("check axis").wait();
        if (axis.over != nullptr) {
            mine = measure_collectives(*axis.over, {a.data(), b.data(), bytes},
                                       0.4 * options_.seconds / static_cast<double>(axes.size()));
        }
        row.rates = median_group(axis, mine, row);
        if (axis.name == "all") {
            note_neighbours(mine.back(), found);
        }
        found.axes.push_back(std::move(row));
    }
}

void Look::measure_folder(Preflight& found) {
    FolderProbeOptions options;
    options.write_seconds = std::min(2.0, 0.1 * options_.seconds);
    options.bytes_each = std::min(options.bytes_each, most_written / session_.size());
    found.folder = probe_folder(session_.world(), options_.folder, found.hosts(), options);
}

// What somebody was slow in once more, because a machine that does other work at the moment is no slow one.
std::vector<SlowFinding> Look::measure_again(const Preflight& first, std::span<const SlowFinding> suspects) {
    const auto suspected = [&](std::string_view area) {
        return std::any_of(suspects.begin(), suspects.end(),
                           [&](const SlowFinding& slow) { return slow.area.starts_with(area); });
    };
    Preflight second = first;
    measure_devices(second);
    if (suspected("links")) {
        measure_links(second);
    }
    if (suspected("device links")) {
        measure_axes(second);
    }
    if (suspected("folder")) {
        measure_folder(second);
    }
    return judge_speed(second);
}

}  // namespace

std::vector<std::string> Preflight::hosts() const {
    std::vector<std::string> names;
    for (const PreflightRank& rank : ranks) {
        names.push_back(rank.host);
    }
    return names;
}

std::vector<ProbePlace> Preflight::places() const {
    std::vector<ProbePlace> all;
    for (const PreflightRank& rank : ranks) {
        all.push_back(rank.place);
    }
    return all;
}

Preflight run_preflight(Session& session, const PreflightOptions& options) {
    const Timer timer;
    // A kernel that is loaded at its first use waits for those under way, and a posted receive of NCCL for its sender.
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    Preflight found;
    found.started = utc_time();
    found.checkpoint_bytes = options.checkpoint_bytes;
    Look look(session, options);
    look.facts(found);
    for (const Finding& finding : judge_ranks(found)) {
        found.findings.push_back(finding);
    }
    look.choose_transport(found);
    look.measure_devices(found);
    look.measure_links(found);
    look.measure_axes(found);
    look.measure_folder(found);
    const std::vector<Finding> of_folder = judge_folder(found);
    found.findings.insert(found.findings.end(), of_folder.begin(), of_folder.end());
    if (const std::vector<SlowFinding> suspects = judge_speed(found); !suspects.empty()) {
        const std::vector<SlowFinding> again = look.measure_again(found, suspects);
        for (const SlowFinding& slow : suspects) {
            const bool twice = std::any_of(again.begin(), again.end(), [&](const SlowFinding& other) {
                return other.area == slow.area && other.slow.same_as(slow.slow);
            });
            if (twice) {
                found.findings.push_back(describe(slow, found));
            }
        }
    }
    found.seconds = timer.seconds();
    return found;
}

}  // namespace ogrom
