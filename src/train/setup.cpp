#include "src/train/setup.h"

#include <fmt/format.h>
#include <fstream>
#include <iterator>

#include "src/base/log.h"
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
void add_host_lines(Ledger& ledger, const RunConfig& run, const Mesh& mesh, const Decisions& decisions) {
    // tokens, targets and positions of 4 bytes, a mask of 1
    const i64 batch = run.train.micro_batch * run.train.sequence * 13;
    ledger.add("data.prefetch", Tier::baseline, prefetched_steps * decisions.micro_batches * batch,
               fmt::format("{} steps x {} micro-batches x B T x 13", prefetched_steps, decisions.micro_batches));
    const i64 groups = 1 + (decisions.has_moment1 ? 1 : 0) + (decisions.has_moment2 ? 1 : 0);
    const i64 tensors = static_cast<i64>(make_parameters(run.model, run.numerics.compute).rows().size());
    ledger.add("io.checkpoint", Tier::baseline, checkpoint_staging_bytes(tensors, groups, mesh.shape.size()),
               "image of the master file, hash and copy buffers");
    if (!run.train.trace.empty()) {
        TraceFile::declare(ledger, mesh.world->rank(), mesh.world->size());
    }
}

std::string command_line() {
    std::ifstream in("/proc/self/cmdline");
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    for (char& c : text) {
        c = c == '\0' ? ' ' : c;
    }
    return text;
}

// Threads of this rank, from the cores that all ranks of its host may use.
// Collective.
int threads_of(Session& session, const RunConfig& run) {
    const std::string mine = affinity_mask();
    std::vector<std::string> here;
    for (const std::string& text : gather_text(session.world(), session.host() + " " + mine, "cores")) {
        const std::size_t blank = text.rfind(' ');
        if (text.substr(0, blank) == session.host()) {
            here.push_back(text.substr(blank + 1));
        }
    }
    return choose_threads(run.run.threads, mine, here);
}

}  // namespace

Workplace prepare_workplace(Session& session, const RunConfig& run, const Mesh& mesh) {
    Workplace place;
    place.device = select_device(run.run.device, session.node_rank());
    place.threads = threads_of(session, run);
    const std::string warning = set_threads(place.threads);
    if (!warning.empty() && session.rank() == 0) {
        log_warning("{}", warning);
    }
    const Stream stream{place.device.backend, nullptr};
    place.matmul_rate =
        run.numerics.compute == Dtype::fp64 ? measure_matmul_rate<double>(stream) : measure_matmul_rate<float>(stream);
    place.decisions = decide(run, mesh.shape, mesh.place, place.threads);
    if (run.numerics.deterministic && mesh.shape.dp > 1) {
        place.decisions.reasons.push_back(order_cost(*mesh.dp, place.decisions.step.bucket_elements));
    }
    place.ledger = make_ledger(run, place.decisions);
    add_host_lines(place.ledger, run, mesh, place.decisions);
    place.ledger.add("libraries", Tier::baseline, resident_memory().anonymous,
                     "measured: MPI, BLAS, HDF5, index of the data, thread stacks");
    // Every rank of the machine looks at what is free before any of them takes
    // its share.
    require_fit(place.ledger, session.node_size(), free_memory());
    session.world().barrier("memory looked at").wait();
    reset_peak();
    return place;
}

SavedTexts describe_run(Session& session, const RunConfig& run, const Mesh& mesh) {
    SavedTexts texts;
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
    input.extra.emplace_back("kernels", kernel_choice());
    texts.provenance_json = provenance_json(input);
    return texts;
}

}  // namespace ogrom
