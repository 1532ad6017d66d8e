// What a run stands on before any memory is taken: threads, device, measured
// rates, decisions, ledger. And the texts that describe it.
#pragma once
#include <string>

#include "src/comm/mesh.h"
#include "src/comm/placement.h"
#include "src/device/queue.h"
#include "src/device/select.h"
#include "src/plan/decide.h"
#include "src/train/resume.h"

namespace ogrom {

struct Workplace {
    int threads = 1;
    double matmul_rate = 0;  // flop/s of this rank with these threads
    Decisions decisions;
    Ledger ledger;  // with the measured baseline line
};

// The device of this rank. Error(usage) on every rank where one lacks what the run needs (bf16 and fp16 need a GPU, fp8
// products one of compute capability 8.9 or newer).
// Collective.
Device choose_device(Session& session, const RunConfig& run);

// What a mesh's axes are made with on these queues.
AxisOptions axis_options(const TransportChoice& transport, const Queues& queues);
MeshOptions mesh_options(const RunConfig& run, const TransportChoice& transport, const Queues& queues);

// run.threads; where that is automatic the first number of OMP_NUM_THREADS; 0 = neither says.
i64 wanted_threads(const RunConfig& run);

// Threads of this rank: wanted_threads, else its share of the cores that all ranks of its host may use. Collective.
int threads_of(Session& session, const RunConfig& run);

// All lines but what libraries hold, from the configuration and the mesh alone: takes no memory, needs no MPI.
Ledger plan_ledger(const RunConfig& run, const Decisions& decisions, int rank, int ranks);

// Sets the threads, measures the matrix rate and what libraries hold by now,
// decides, writes the ledger. To be called once samplers exist and MPI, HDF5
// and BLAS have been used, so that their memory is in the baseline.
Workplace prepare_workplace(Session& session, const RunConfig& run, const Mesh& mesh, const Device& device,
                            const AxisOptions& axes);

// What the driver and the libraries take on a GPU shows once everything was used (train/warm_up): lines
// "kernels.scratch" and "context". `arena_bytes`: of this rank there.
void add_gpu_lines(Ledger& ledger, const Device& device, i64 ranks_per_gpu, i64 arena_bytes);

// Why the ranks of `session` cannot run it: a device that lacks something, memory that is short on one of them; empty
// where they can. Looks at the machine, takes nothing. Collective, the same text on all.
std::string place_refusal(Session& session, const RunConfig& run);

// The command that started this process, as a shell reads it back.
std::string command_line();

// Identity of the tokenizer of the training set, and provenance of this
// process.
SavedTexts describe_run(Session& session, const RunConfig& run, const Mesh& mesh, const Device& device);

}  // namespace ogrom
