#include "src/comm/session.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <unistd.h>
#include <vector>

#include "src/base/host.h"
#include "src/base/text.h"
#include "src/comm/affinity.h"
#include "src/comm/communicator_mpi.h"
#include "src/comm/engine.h"
#include "src/comm/launch.h"
#include "src/comm/links.h"
#include "src/comm/mpi_check.h"
#include "src/comm/mpi_start.h"
#include "src/comm/node_memory.h"
#include "src/comm/signals.h"
#include "src/comm/source_text.h"
#include "src/comm/wait.h"
#include "src/comm/watchdog.h"

namespace ogrom {
namespace {

constexpr double link_patience_s = 30;

// The control data and the memory it lies in, kept alive together by every communicator.
struct SharedControl {
    NodeMemory memory;
    Control control;
    SharedControl(NodeMemory&& held, const Control::Place& place)
        : memory(std::move(held)), control(memory.data(), place) {}
};

std::shared_ptr<Control> make_control(NodeMemory&& memory, const Control::Place& place) {
    auto held = std::make_shared<SharedControl>(std::move(memory), place);
    return {held, &held->control};
}

// "NODE WORD,WORD,...": the node of a rank and the cores that it may use.
std::string place_text(int node, const CpuMask& mask) {
    const auto last = std::find_if(mask.rbegin(), mask.rend(), [](u64 word) { return word != 0; }).base();
    return fmt::format("{} {:x}", node, fmt::join(mask.begin(), last, ","));
}

CpuMask mask_of(const std::string& text) {
    CpuMask mask{};
    const std::vector<std::string> words = split(text, ',');
    for (std::size_t i = 0; i < words.size() && i < mask.size(); ++i) {
        mask[i] = std::strtoull(words[i].c_str(), nullptr, 16);
    }
    return mask;
}

}  // namespace

std::string_view name_of(Phase phase) {
    switch (phase) {
        case Phase::start:
            return "start";
        case Phase::plan:
            return "plan";
        case Phase::load:
            return "load";
        case Phase::train:
            return "train";
        case Phase::evaluate:
            return "evaluate";
        case Phase::save:
            return "save";
        case Phase::report:
            return "report";
        case Phase::stop:
            return "stop";
        case Phase::idle:
            return "idle";
    }
    return "?";
}

struct Session::Impl {
    Options options;
    Control::Place place;
    int size = 1;
    int hub_ranks = 1;
    MpiCommunicatorOptions communicators;
    std::unique_ptr<Watchdog> watchdog;
    std::unique_ptr<Communicator> world;
    int exceptions = std::uncaught_exceptions();
    Impl* whole = nullptr;  // of a part: the session that it is a part of

    explicit Impl(const Options& given) : options(given) {
        place.host = host_name();
        if (options.single) {
            communicators.control = make_control(NodeMemory::alone(Control::segment_bytes(1)), place);
            world = make_single_communicator();
            return;
        }
        install_stop_signals();
        watchdog = std::make_unique<Watchdog>(options.timeout_s);
        start_mpi();
        find_place();
        MPI_Comm copy = MPI_COMM_NULL;
        OGROM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        communicators.chunk_bytes = options.chunk_bytes;
        communicators.engine = std::make_shared<CommEngine>(communicators.control);
        const char* check = std::getenv("OGROM_CHECK_COLLECTIVES");
        communicators.check =
            check != nullptr && std::string_view(check) == "1" ? CollectiveCheck::compare : CollectiveCheck::off;
        world = make_mpi_communicator(copy, "world", communicators);
    }

    // Of a part: `world` holds its ranks alone. What is seen and told stays with the whole.
    Impl(Impl& all, std::unique_ptr<Communicator> ranks)
        : options(all.options),
          place(all.place),
          size(ranks->size()),
          communicators(all.communicators),
          world(std::move(ranks)),
          whole(&all) {
        place.world_rank = world->rank();
        std::vector<CpuMask> here;
        std::set<std::string> nodes;
        for (const std::string& text : gather_text(*world, place_text(all.place.node, allowed_cpus(0)), "places")) {
            const std::size_t blank = text.find(' ');
            nodes.insert(text.substr(0, blank));
            if (text.substr(0, blank) == fmt::format("{}", all.place.node)) {
                here.push_back(mask_of(text.substr(blank + 1)));
            }
        }
        // The first ranks of the world are the first of their nodes too: node_rank stays.
        place.nodes = static_cast<int>(nodes.size());
        place.node_size = static_cast<int>(here.size());
        place.cores = count_cpus(here);
        place.oversubscribed = place.node_size > place.cores;
        communicators.control->set_oversubscribed(place.oversubscribed);
    }

    void find_place() {
        OGROM_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &place.world_rank));
        OGROM_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
        MPI_Comm node = split_node(place.world_rank);
        OGROM_MPI(MPI_Comm_rank(node, &place.node_rank));
        OGROM_MPI(MPI_Comm_size(node, &place.node_size));
        place.cores = count_node_cores(node, place.node_size);
        place.oversubscribed = place.node_size > place.cores;
        // Nodes are numbered by their lowest world rank, which is their leader: node 0 holds rank 0.
        int leader = place.world_rank;
        OGROM_MPI(MPI_Bcast(&leader, 1, MPI_INT, 0, node));
        std::vector<int> leaders(static_cast<std::size_t>(size));
        OGROM_MPI(MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, MPI_COMM_WORLD));
        place.nodes = 0;
        hub_ranks = 0;
        for (int r = 0; r < size; ++r) {
            const int of_rank = leaders[static_cast<std::size_t>(r)];
            hub_ranks += of_rank == 0 ? 1 : 0;
            if (of_rank == r) {
                place.node = r < leader ? place.node + 1 : place.node;
                ++place.nodes;
            }
        }
        communicators.control = make_control(NodeMemory(node, Control::segment_bytes(place.node_size)), place);
        OGROM_MPI(MPI_Barrier(node));  // every slot of the node is filled
        OGROM_MPI(MPI_Comm_free(&node));
        try {
            watchdog->attach(communicators.control, connect_nodes());
        } catch (const Error& error) {  // no link to tell the other nodes: MPI must
            print_message(
                describe_failure(communicators.control->own(), error.code(), FailureKind::failed, error.what()));
            MPI_Abort(MPI_COMM_WORLD, static_cast<int>(error.code()));
        }
    }

    Watchdog::Links connect_nodes() {
        Watchdog::Links links;
        links.hub_ranks = hub_ranks;
        if (place.nodes == 1) {
            return links;
        }
        LinkAddress address;
        Descriptor listener;
        if (place.world_rank == 0) {
            const LinkReach reach = pretended_nodes() > 1 ? LinkReach::this_host : LinkReach::network;
            listener = listen_for_links(reach, place.nodes, address);
        }
        OGROM_MPI(MPI_Bcast(&address, sizeof(address), MPI_BYTE, 0, MPI_COMM_WORLD));
        links.token = address.token;
        if (place.world_rank == 0) {
            links.ends = accept_links(listener, address, place.nodes, link_patience_s);
        } else if (place.node_rank == 0) {
            links.ends.push_back(connect_link(address, place.node, link_patience_s));
        }
        return links;
    }

    ~Impl() {
        if (whole != nullptr) {
            if (std::uncaught_exceptions() == exceptions) {  // else the job ends, and whoever wanted to be told is
                world.reset();
                communicators.control->set_failure_hook({});
                communicators.control->observe_collectives({});
                communicators.control->observe_waits({});
                communicators.control->set_oversubscribed(whole->place.oversubscribed);
            }
            return;
        }
        if (options.single || world == nullptr) {
            return;
        }
        if (std::uncaught_exceptions() > exceptions) {
            leave(ExitCode::peer, "an exception left the program", {});
        }
        Control& control = *communicators.control;
        control.own().state.store(RankState::finishing);
        control.waiting_since(steady_seconds());
        world.reset();
        MPI_Finalize();
        control.own().state.store(RankState::finished);
        watchdog->say_goodbye();
    }

    // Publishes the failure (unless one is known), prints when it became ours and we are on node 0, ends the process.
    [[noreturn]] void leave(ExitCode code, const std::string& message, const std::string& where) {
        if (whole != nullptr) {
            whole->leave(code, message, where);
        }
        std::fflush(nullptr);
        std::string text = where.empty() ? message : fmt::format("{} [{}]", message, where);
        Control& control = *communicators.control;
        if (options.single) {
            control.claim_and_print({0, code, fmt::format("exit {}: {}", static_cast<int>(code), message)}, 0);
            control.finish_failure();
            _exit(static_cast<int>(code));
        }
        watchdog->leaving();
        if (code == ExitCode::peer) {
            pause_until(0.3, [&] { return control.failed(); });  // an error of MPI is mostly the echo of a dead peer
        }
        if (const std::string open = control.flight.outstanding(); !open.empty()) {
            text += "; collectives under way: " + open;
        }
        const bool mine = control.claim_and_print(
            {place.world_rank, code, describe_failure(control.own(), code, FailureKind::failed, text)}, 0);
        control.finish_failure();
        control.own().state.store(RankState::failed);
        if (place.nodes > 1) {
            pause_until(0.3, [] { return false; });  // the watchdogs tell the other nodes
        }
        const ExitCode agreed = control.failed() ? control.failure().code : code;
        if (mine && !pause_until(2.5, [&] { return others_gone(); })) {
            MPI_Abort(MPI_COMM_WORLD, static_cast<int>(agreed));
        }
        _exit(static_cast<int>(agreed));
    }

    template <class Condition>
    static bool pause_until(double seconds, Condition condition) {
        const double until = steady_seconds() + seconds;
        while (steady_seconds() < until) {
            if (condition()) {
                return true;
            }
            usleep(10'000);
        }
        return condition();
    }

    [[nodiscard]] bool others_gone() const {
        for (int i = 0; i < place.node_size; ++i) {
            const RankSlot& slot = communicators.control->slot(i);
            if (i != place.node_rank && !process_gone(slot.pid.load(), slot.started.load())) {
                return false;
            }
        }
        return true;
    }
};

Session::Session(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

int Session::rank() const {
    return impl_->place.world_rank;
}
int Session::size() const {
    return impl_->size;
}
int Session::node_rank() const {
    return impl_->place.node_rank;
}
int Session::node_size() const {
    return impl_->place.node_size;
}
int Session::node() const {
    return impl_->place.node;
}
i64 Session::node_cores() const {
    return impl_->place.cores;
}
int Session::nodes() const {
    return impl_->place.nodes;
}
const std::string& Session::host() const {
    return impl_->place.host;
}
Communicator& Session::world() {
    return *impl_->world;
}

std::unique_ptr<Communicator> Session::split(int colour, int key, const std::string& name) {
    return world().split(colour, key, name, CollectiveCheck::off);
}

std::unique_ptr<Session> Session::part(int ranks) {
    OGROM_ASSERT(ranks >= 1 && ranks <= size());
    auto world = split(rank() < ranks ? 0 : -1, rank(), "world");
    if (world == nullptr) {
        return nullptr;
    }
    return std::unique_ptr<Session>(new Session(std::make_unique<Impl>(*impl_, std::move(world))));
}

void Session::rest(Pending& pending) {
    Control& control = *impl_->communicators.control;
    control.set_phase(Phase::idle, 0);
    control.own().state.store(RankState::resting);
    wait_resting([&] { return pending.test(); }, control);
    control.own().state.store(RankState::running);
    control.moved();
}

void Session::set_phase(Phase phase, i64 step) {
    impl_->communicators.control->set_phase(phase, step);
}

bool Session::oversubscribed() const {
    return impl_->place.oversubscribed;
}

void Session::on_failure(FailureHook hook) {
    impl_->communicators.control->set_failure_hook(std::move(hook));
}

void Session::observe_collectives(CollectiveObserver observer) {
    impl_->communicators.control->observe_collectives(std::move(observer));
}

void Session::observe_waits(WaitObserver observer) {
    impl_->communicators.control->observe_waits(std::move(observer));
}

bool Session::stop_requested() const {
    return stop_signalled();
}

std::string Session::stop_signal() const {
    return stop_signal_name();
}

void Session::abort(ExitCode code, const std::string& message) {
    impl_->leave(code, message, {});
}

void Session::abort(const Error& error) {
    impl_->leave(error.code(), error.what(),
                 error.code() == ExitCode::usage ? std::string() : source_text(error.where()));
}

}  // namespace ogrom
