// What `ogrom check` measures before a run: the ranks and what each has, the links and collectives between them, the
// folder they will write to. Comes in: a session and what to look at. Goes out: figures, the same on every rank, and
// findings. Next: train/preflight_judge.cpp (what is wrong or slow), report/preflight.cpp (how it is shown)
#pragma once
#include <string>
#include <vector>

#include "src/base/finding.h"
#include "src/base/limits.h"
#include "src/comm/mesh.h"
#include "src/comm/probe.h"
#include "src/comm/slow.h"
#include "src/io/folder_probe.h"
#include "src/plan/machine.h"
#include "src/plan/rate.h"

namespace ogrom {

struct PreflightOptions {
    RunConfig run;             // device, threads, backend; of a run file, or the standard
    MeshShape mesh;            // where has_mesh
    bool has_mesh = false;     // else all ranks are one axis, and those of a node another
    std::string folder;        // to be written to
    i64 checkpoint_bytes = 0;  // of the run; 0 = not known
    double seconds = 20;       // for all of it, about
    double threshold = 0.85;   // a figure below this share of its peers' median is slow
};

struct PreflightRank {
    std::string host, mask;  // mask: the cores it may use, '1' at each
    ProbePlace place;
    i64 threads = 1;
    Device device;
    ProcessLimits limits;
    std::string cpu, driver;   // its model; NVIDIA's kernel module, where there is one
    std::string mpi, program;  // versions
    double matmul_flops = 0;   // per second
    CopyRates copies;
    ClockOffset clock;
};

struct PreflightAxis {
    std::string name;
    i64 size = 0, groups = 0;           // of the largest group
    std::vector<CollectiveRate> rates;  // the median group of each collective, by its bus rate; own_s is empty
};

struct Preflight {
    std::string launcher, mpi, thread_level, transport, matmul_dtype, started;
    i64 nodes = 1;
    bool oversubscribed = false;  // more ranks than cores on a node
    double threshold = 0.85;      // that was used
    std::vector<PreflightRank> ranks;
    std::vector<LinkFigure> links;       // host memory; empty for one rank
    bool device_links = false;           // whether the neighbours' data is in the memory of GPUs
    std::vector<LinkFigure> neighbours;  // each rank and the next, all at once, of the axes' transport; no latency
    std::vector<PreflightAxis> axes;     // empty for one rank
    FolderProbe folder;
    i64 checkpoint_bytes = 0;  // of the run; 0 = not known
    std::vector<Finding> findings;
    double seconds = 0;

    [[nodiscard]] std::vector<std::string> hosts() const;
    [[nodiscard]] std::vector<ProbePlace> places() const;
};

// Collective. What is wrong with the machine is a finding; what cannot be measured at all (a device that was asked for
// and is not there) is an Error.
Preflight run_preflight(Session& session, const PreflightOptions& options);

// Pure: what the facts of the ranks say (versions, binding, devices, clocks, limits).
std::vector<Finding> judge_ranks(const Preflight& found);
// Pure: those of the folder's probe, and what its figures say.
std::vector<Finding> judge_folder(const Preflight& found);
// Pure: who is slow. `threshold` as in Preflight.
struct SlowFinding {
    SlowOne slow;
    std::string area;  // "matrix rate", "links within a node" ...
    std::string what;  // of the figure: "moves {} of large messages"
    double unit = 1;   // a figure is divided by it
    std::string suffix;
    bool inverse = false;  // the figure shown is 1 / value (a latency)
};
std::vector<SlowFinding> judge_speed(const Preflight& found);
Finding describe(const SlowFinding& slow, const Preflight& found);

// The lowest code among the faults; done where there is none.
ExitCode exit_code_of(std::span<const Finding> findings);

// What the machine file keeps.
MachineFile machine_of(const Preflight& found, const std::string& name);

}  // namespace ogrom
