#include "src/train/setup.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "src/base/log.h"
#include "src/base/text.h"
#include "src/comm/mpi_library.h"
#include "src/data/token_set.h"
#include "src/device/arena.h"
#include "src/device/blas.h"
#include "src/device/memory.h"
#include "src/io/checkpoint_write.h"
#include "src/io/provenance.h"
#include "src/plan/rate.h"
#include "src/train/trace_file.h"

namespace ogrom {
namespace {

constexpr i64 prefetched_steps = 4;  // two ready, one in the making, one in use

// Host memory that is taken as the run goes, outside the arena: bounded, and
// known before.
void add_host_lines(Ledger& ledger, const RunConfig& run, const Decisions& decisions, int rank, int ranks) {
    // tokens, targets and positions of 4 bytes, a mask of 1; two numbers of a sample; vectors and their allocation
    constexpr i64 batch_fixed = static_cast<i64>(sizeof(Batch)) + 7 * 16;
    const i64 batch = run.train.micro_batch * (run.train.sequence * 13 + 16) + batch_fixed;
    ledger.add("data.prefetch", Tier::baseline, prefetched_steps * decisions.micro_batches * batch,
               fmt::format("{} steps x {} micro-batches x (B (T x 13 + 16) + {})", prefetched_steps,
                           decisions.micro_batches, batch_fixed));
    const i64 actions = static_cast<i64>(decisions.actions.actions.size());
    ledger.add("pipeline.actions", Tier::baseline, 3 * actions * static_cast<i64>(sizeof(Action)),
               fmt::format("3 copies of {} actions x {}", actions, sizeof(Action)));
    const i64 groups = 1 + (decisions.has_moment1 ? 1 : 0) + (decisions.has_moment2 ? 1 : 0);
    const i64 tensors = static_cast<i64>(make_parameters(run.model, run.precision.weights).rows().size());
    const i64 block = run.checkpoint.direct_io ? direct_buffer_bytes : 0;
    ledger.add("io.checkpoint", Tier::baseline, checkpoint_staging_bytes(tensors, groups, ranks) + block,
               "image of the master file, hash and copy buffers");
    if (!run.train.trace.empty()) {
        TraceFile::declare(ledger, rank, ranks);
    }
}

// Ranks whose ledger does not fit say so before any of them takes memory; rank 0 then prints the plan, so that the user
// sees what the bytes are. Collective.
void require_fit_everywhere(Session& session, const RunConfig& run, const Mesh& mesh, const Device& device,
                            const Workplace& place) {
    std::optional<Error> shortage;
    try {
        require_fit(place.ledger, session.node_size(), free_memory(), device);
    } catch (const Error& error) {
        shortage = error;
    }
    const std::vector<std::string> all = gather_text(session.world(), shortage ? "short" : "fits", "memory looked at");
    if (session.rank() == 0 && std::find(all.begin(), all.end(), "short") != all.end()) {
        log_lines(plan_text(run, mesh.shape, place.decisions, place.ledger));
        flush_log();
    }
    session.world().barrier("memory agreed").wait();
    if (shortage) {
        throw *shortage;
    }
}

constexpr int fp8_capability = 89;

// Every rank's reason why its device does not do; the first one ends all of them with `text`. Collective.
template <class Text>
void require_everywhere(Session& session, const std::string& mine, const Text& text) {
    const std::vector<std::string> reasons = gather_text(session.world(), mine, "devices");
    for (std::size_t rank = 0; rank < reasons.size(); ++rank) {
        require(reasons[rank].empty(), ExitCode::usage, text(rank, reasons[rank]));
    }
}

}  // namespace

Device choose_device(Session& session, const RunConfig& run) {
    Device device = select_device(run.run.device, session.node_rank());
    const bool lacks = has_16_bits(run.precision.weights) && !device.is_gpu();
    require_everywhere(session, lacks ? device.reason : "", [&](std::size_t rank, const std::string& reason) {
        return fmt::format(
            "precision.weights = \"{0}\": {0} needs a GPU, rank {1} runs on the CPU ({2}); would be right: "
            "fp32, or a machine with a GPU",
            name_of(run.precision.weights), rank, reason);
    });
    const bool without_fp8 = run.numerics.linears == LinearProducts::fp8 && device.capability < fp8_capability;
    require_everywhere(session, without_fp8 ? device.reason : "", [&](std::size_t rank, const std::string& reason) {
        return fmt::format(
            "numerics.linears = \"fp8\": needs a GPU of compute capability 8.9 or newer, that of rank {} "
            "({}) is older; would be right: compute",
            rank, reason);
    });
    return device;
}

std::string command_line() {
    std::ifstream in("/proc/self/cmdline");
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    return shell_words(text);
}

AxisOptions axis_options(const TransportChoice& transport, const Queues& queues) {
    AxisOptions options;
    options.transport = transport.transport;
    options.compute = queues.compute;
    options.communication = queues.communication;
    return options;
}

i64 wanted_threads(const RunConfig& run) {
    const char* variable = std::getenv("OMP_NUM_THREADS");
    if (run.run.threads > 0 || variable == nullptr) {
        return run.run.threads;
    }
    const std::string first = split(variable, ',').front();  // a list names the inner levels too
    const std::optional<i64> threads = parse_integer(trim(first));
    return threads && *threads > 0 && *threads <= 4096 ? *threads : 0;
}

int threads_of(Session& session, const RunConfig& run) {
    const std::string mine = affinity_mask();
    std::vector<std::string> here;
    for (const std::string& text : gather_text(session.world(), session.host() + " " + mine, "cores")) {
        const std::size_t blank = text.rfind(' ');
        if (text.substr(0, blank) == session.host()) {
            here.push_back(text.substr(blank + 1));
        }
    }
    return choose_threads(wanted_threads(run), mine, here);
}

Ledger plan_ledger(const RunConfig& run, const Decisions& decisions, int rank, int ranks) {
    Ledger ledger = make_ledger(run, decisions);
    add_host_lines(ledger, run, decisions, rank, ranks);
    return ledger;
}

MeshOptions mesh_options(const RunConfig& run, const TransportChoice& transport, const Queues& queues) {
    return {run.comm.check_collectives ? CollectiveCheck::compare : CollectiveCheck::off,
            axis_options(transport, queues)};
}

Workplace prepare_workplace(Session& session, const RunConfig& run, const Mesh& mesh, const Device& device,
                            const AxisOptions& axes) {
    const Stream stream = axes.compute;
    Workplace place;
    place.threads = threads_of(session, run);
    const std::string warning = set_threads(place.threads);
    if (!warning.empty() && session.rank() == 0) {
        log_warning("{}", warning);
    }
    place.matmul_rate = measure_matmul_rate(run.precision.weights, device, stream);
    place.decisions = decide(run, mesh.shape, mesh.place, place.threads, device.backend);
    if (run.numerics.deterministic && mesh.shape.dp > 1) {
        place.decisions.reasons.push_back(order_cost(*mesh.dp, place.decisions.step.bucket_elements, device, stream));
    }
    if (run.run.threads == 0 && wanted_threads(run) > 0) {
        place.decisions.reasons.push_back(
            fmt::format("threads as OMP_NUM_THREADS = {} asks (run.threads would win)", wanted_threads(run)));
    }
    place.ledger = plan_ledger(run, place.decisions, session.rank(), session.size());
    if (const i64 staging = staging_bytes(run.parallel, {.axes = axes}); staging > 0) {
        place.ledger.add("comm.staging", Tier::baseline, staging,
                         "page-locked memory of the axes of more than one rank");
    }
    place.ledger.add("libraries", Tier::baseline, resident_memory().anonymous,
                     "measured: MPI, BLAS, HDF5, index of the data, thread stacks");
    require_fit_everywhere(session, run, mesh, device, place);
    reset_peak();
    return place;
}

std::string place_refusal(Session& session, const RunConfig& run) {
    std::string mine;
    try {
        const Device device = choose_device(session, run);
        (void)agree_transport(session.world(), session.host(), device, run);
        const MeshShape shape = fitting_shape(run.parallel, session.size());
        const Decisions decisions =
            decide(run, shape, place_of(session.rank(), shape), threads_of(session, run), device.backend);
        Ledger ledger = plan_ledger(run, decisions, session.rank(), session.size());
        ledger.add("libraries", Tier::baseline, resident_memory().anonymous, "measured");
        try {
            require_fit(ledger, session.node_size(), free_memory(), device);
        } catch (const Error& error) {
            mine = fmt::format("rank {}: {}", session.rank(), error.what());
        }
    } catch (const Error& error) {  // said on every rank alike
        if (error.code() != ExitCode::usage) {
            throw;
        }
        return error.what();
    }
    for (const std::string& text : gather_text(session.world(), mine, "memory looked at")) {
        if (!text.empty()) {
            return text;
        }
    }
    return {};
}

void add_gpu_lines(Ledger& ledger, const Device& device, i64 ranks_per_gpu, i64 arena_bytes) {
    const GpuMemory memory = gpu_memory(device);
    ledger.add("kernels.scratch", Tier::context, memory.scratch, "measured: working memory of the kernels");
    const i64 rest = memory.used - ranks_per_gpu * (arena_bytes + memory.scratch);
    ledger.add("context", Tier::context, std::max<i64>(0, rest / ranks_per_gpu),
               ranks_per_gpu == 1 ? "measured: driver, kernels, libraries, other processes"
                                  : fmt::format("measured: the same of {} ranks, an equal share", ranks_per_gpu));
}

SavedTexts describe_run(Session& session, const RunConfig& run, const Mesh& mesh, const Device& device) {
    SavedTexts texts;
    texts.gpu = device.name;
    const TokenSet set(run.data.train);
    texts.tokenizer = set.record() ? set.record()->tokenizer : std::string();
    texts.tokenizer_path = run.data.tokenizer;
    ProvenanceInput input;
    input.command_line = command_line();
    const MeshShape& shape = mesh.shape;
    input.mesh = fmt::format("pp={} dp={} cp={} ep={} tp={}", shape.pp, shape.dp, shape.cp, shape.ep, shape.tp);
    input.hosts = gather_text(session.world(), session.host(), "hosts");
    input.ranks = session.size();
    input.threads = threads_of(session, run);
    input.mpi_library = mpi_library();
    input.seed = run.train.seed;
    input.extra.emplace_back("blas", blas_description());
    input.extra.emplace_back("kernels", kernel_choice(device.name));
    input.extra.emplace_back("device", device.reason);
    texts.provenance_json = provenance_json(input);
    return texts;
}

}  // namespace ogrom
