// A run file resolved: one struct per section, every value final and checked. Made by config/parse from the schema
// table (config/schema), which is the only place that knows key names, defaults and constraints.
#pragma once
#include <string>
#include <vector>

#include "kernels/common/cost.h"
#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"

#include "src/config/model.h"

namespace ogrom {

enum class PipelineSchedule { gpipe, one_f_one_b, interleaved, zero_bubble };  // zero_bubble is ZB-H1
enum class Regather { micro_batch, step };                                     // ZeRO 3: how long gathered weights stay
using Recompute = cost::Recompute;                                             // none | selective | full

// How the job is spread: mesh pp x dp x cp x ep x tp (tensor fastest). One axis left out is derived from the ranks.
struct ParallelConfig {
    i64 pipeline = 1, data = 1, context = 1, expert = 1, tensor = 1;
    bool sequence_parallel = false;  // with tensor > 1: activations between the products are [B, T/tp, C]
    PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
    i64 virtual_stages = 1;         // chunks per pipeline stage
    std::vector<i64> stage_layers;  // layers of each chunk in order of the forward pass [pipeline x virtual_stages]
    i64 zero = 0;                   // sharded over zero_group: 1 optimizer, 2 + gradients, 3 + weights
    i64 zero_group = 1;             // neighbouring data ranks that shard; replicas across (HSDP); divides data
    Regather regather = Regather::micro_batch;
};

struct DataConfig {
    std::string train;  // prefix of a token set (PREFIX.bin, PREFIX.idx, PREFIX.json)
    std::string valid;  // prefix of a held-out set; empty = documents held out of `train` by valid_fraction
    double valid_fraction = 0;
    std::string tokenizer;  // "byte", or a tokenizer.json / directory; must match the token set's identity
    u64 seed = 0;           // order of documents and samples (separate from the model's)
};

enum class OptimizerKind { adamw, sgd };
enum class ScheduleKind { cosine, linear, constant, wsd };

struct OptimizerConfig {
    OptimizerKind kind = OptimizerKind::adamw;
    double lr = 0, min_lr = 0;
    ScheduleKind schedule = ScheduleKind::cosine;
    i64 warmup_steps = 0;
    i64 decay_steps = 0;  // cosine/linear: step at which min_lr is reached; wsd: length of the last phase
    double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1, momentum = 0;
    double clip_norm = 1.0;  // 0 = no clipping
};

struct TrainConfig {
    i64 steps = 0;
    i64 micro_batch = 0;          // samples of one micro-batch on one rank
    i64 accumulation = 0;         // micro-batches per step and rank
    i64 global_batch = 0;         // = micro_batch * accumulation * data
    i64 sequence = 0;             // T of the training samples, <= model.sequence
    i64 eval_interval_steps = 0;  // 0 = only at the end
    i64 eval_samples = 0;         // samples of one evaluation over all ranks
    i64 log_interval_steps = 1;
    i64 logits_rows = 0;  // rows of logits held at once (chunked head)
    u64 seed = 0;         // initial weights and dropout
    Recompute recompute = Recompute::none;
    i64 recompute_interval = 1;  // full: layers 0, n, 2n ... of the model are recomputed
    std::string trace;           // path of a Chrome trace (JSON) of the first steps; empty = none
    i64 trace_steps = 3;
    std::string stop_before;  // a time (config/stop_time.h) by which the run has saved and ended; empty = none
};

enum class NonFinite { stop, skip };

// How the products of the blocks' linear layers are made: in the type of weights and activations, or in fp8 (all three
// products of each, kernels/ops/linear_fp8.h; bf16 weights alone).
enum class LinearProducts { compute, fp8 };

struct NumericsConfig {
    Dtype compute = Dtype::fp32;  // fp32 | fp64
    LinearProducts linears = LinearProducts::compute;
    bool deterministic = false;
    NonFinite on_nonfinite = NonFinite::stop;
    i64 max_skipped_steps = 10;  // consecutive skips before the run stops
};

enum class LossScaleKind { dynamic, fixed };

struct PrecisionConfig {
    // = numerics.compute, or bf16 or fp16 on a GPU with an fp32 master; fp8: never stored, see NumericsConfig::linears
    Dtype weights = Dtype::fp32;
    // Of fp16 weights (optim/loss_scaling); powers of two.
    LossScaleKind loss_scale = LossScaleKind::dynamic;
    i64 loss_scale_initial = 65536;
    i64 loss_scale_window = 1000;  // steps without an overflow before it doubles
    i64 loss_scale_min = 1;
};

enum class SaveFailure { stop, warn };

struct CheckpointConfig {
    i64 interval_steps = 0;  // 0 = only at the end
    i64 keep_last = 2, keep_every = 0;
    bool async = false;         // saves at an interval are written while training goes on
    double write_mb_per_s = 0;  // of a rank's background writer; 0 = no limit
    bool direct_io = true;      // files go past the page cache where the file system can
    SaveFailure on_failure = SaveFailure::stop;
    i64 retries = 2;
    bool strict = true;
    std::string init_from;  // folder of the weights that a new run starts with; empty = drawn
    bool at_end = true;
    i64 trace_steps = 3;                     // steps after a save that trace.json beside it tells of
    std::vector<std::string> allow_changed;  // keys that a resumed run may change against its checkpoint
};

struct CommConfig {
    std::string backend = "auto";  // auto | mpi | nccl: what carries the memory of GPUs between ranks
    double bucket_mib = 25;        // size of a gradient bucket
    bool overlap = true;           // reduce buckets while backward goes on
    Dtype gradient_dtype = Dtype::fp32;
    double timeout_s = 120;          // silence of a rank before the job is ended
    bool check_collectives = false;  // all ranks compare operation, size and type before each collective
};

struct RunSection {
    std::string name;
    std::string output;            // default results/runs/<name>
    i64 threads = 0;               // OpenMP threads per rank; 0 = cores of the node / ranks on it
    std::string device = "auto";   // auto | cpu | cuda
    bool share_gpu = false;        // several ranks may run on one GPU
    double product_search_s = 10;  // time to measure algorithms of matrix products on a GPU; 0 = the library's choice
    std::string graphs = "auto";   // auto | always | never: passes recorded once and launched whole, on a GPU
    std::string product_cache = "auto";  // folder that keeps what was measured | auto | none
};

struct RunConfig {
    ModelConfig model;
    ParallelConfig parallel;
    DataConfig data;
    TrainConfig train;
    OptimizerConfig optimizer;
    PrecisionConfig precision;
    NumericsConfig numerics;
    CheckpointConfig checkpoint;
    CommConfig comm;
    RunSection run;
    std::string resolved_toml;       // every key with its final value and where it came from, as archived in run.toml
    std::vector<std::string> notes;  // derived values and choices, printed at start
};

struct ParseInput {
    std::string path;                    // the run file
    std::vector<std::string> overrides;  // --set section.key=value, in order
    i64 ranks = 1;                       // world size: data is derived from it; 0 = take the file's own mesh
    bool planned = false;                // `ranks` are those of `ogrom plan --ranks`: faults say so
    i64 tokenizer_vocab = 0;             // 0 = unknown at parse time: model.vocab = 0 then stays 0
    std::string text;                    // when not empty: this text is parsed (an archived run file), `path` names it
};

// Reads, merges (base files first), checks and resolves. Takes no memory of size, touches no device; throws
// Error(usage) with `file:line: section.key: what was wrong; what would be right`, all faults of the file at once.
RunConfig parse_run(const ParseInput& input);

}  // namespace ogrom
