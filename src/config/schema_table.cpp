#include "src/config/schema.h"

namespace ogrom {

namespace {

constexpr auto derived = DefaultKind::derived;
constexpr auto value = DefaultKind::value;
constexpr auto required = DefaultKind::required;

constexpr Limits above(double low) {
    return {low, 1e30, true, false};
}
constexpr Limits between(double low, double high) {
    return {low, high, false, false};
}
constexpr Limits below(double low, double high) {
    return {low, high, false, true};
}  // low <= value < high
constexpr std::nullopt_t any = std::nullopt;
const Effect always{};

const Effect with_adamw{"optimizer.kind = \"adamw\"", "optimizer.kind",
                        [](const RunConfig& run) { return run.optimizer.kind == OptimizerKind::adamw; }};
const Effect with_sgd{"optimizer.kind = \"sgd\"", "optimizer.kind",
                      [](const RunConfig& run) { return run.optimizer.kind == OptimizerKind::sgd; }};
const Effect with_decay{"an optimizer.schedule other than \"constant\"", "optimizer.schedule",
                        [](const RunConfig& run) { return run.optimizer.schedule != ScheduleKind::constant; }};
const Effect without_valid{"no data.valid", "data.valid", [](const RunConfig& run) { return run.data.valid.empty(); }};
const Effect with_validation{"data.valid or a data.valid_fraction", "data.valid_fraction", [](const RunConfig& run) {
                                 return !run.data.valid.empty() || run.data.valid_fraction > 0;
                             }};
const Effect with_skip{"numerics.on_nonfinite = \"skip\"", "numerics.on_nonfinite",
                       [](const RunConfig& run) { return run.numerics.on_nonfinite == NonFinite::skip; }};
const Effect with_async{"checkpoint.async = true", "checkpoint.async",
                        [](const RunConfig& run) { return run.checkpoint.async; }};
const Effect with_fp16{"precision.weights = \"fp16\"", "precision.weights",
                       [](const RunConfig& run) { return run.precision.weights == Dtype::fp16; }};
const Effect with_moving_scale{"precision.weights = \"fp16\" and precision.loss_scale = \"dynamic\"",
                               "precision.loss_scale", [](const RunConfig& run) {
                                   return run.precision.weights == Dtype::fp16 &&
                                          run.precision.loss_scale == LossScaleKind::dynamic;
                               }};
const Effect with_data{"parallel.data > 1", "parallel.data",
                       [](const RunConfig& run) { return run.parallel.data > 1; }};
const Effect with_tensor{"parallel.tensor > 1", "parallel.tensor",
                         [](const RunConfig& run) { return run.parallel.tensor > 1; }};
const Effect with_pipeline{"parallel.pipeline > 1", "parallel.pipeline",
                           [](const RunConfig& run) { return run.parallel.pipeline > 1; }};
const Effect with_interleaved{"parallel.schedule = \"interleaved\"", "parallel.schedule", [](const RunConfig& run) {
                                  return run.parallel.pipeline > 1 &&
                                         run.parallel.schedule == PipelineSchedule::interleaved;
                              }};
const Effect with_zero{"parallel.zero > 0", "parallel.zero",
                       [](const RunConfig& run) { return run.parallel.zero > 0; }};
const Effect with_zero3{"parallel.zero = 3", "parallel.zero",
                        [](const RunConfig& run) { return run.parallel.zero == 3; }};
const Effect with_full_recompute{"train.recompute = \"full\"", "train.recompute",
                                 [](const RunConfig& run) { return run.train.recompute == Recompute::full; }};
const Effect with_trace{"train.trace", "train.trace", [](const RunConfig& run) { return !run.train.trace.empty(); }};

#define FIELD(path) [](RunConfig& run) -> Field { return &run.path; }

constexpr auto free_key = OnResume::free;
constexpr auto ask_key = OnResume::by_permission;
constexpr auto fixed_key = OnResume::fixed;
const std::vector<std::string_view> none;
const std::vector<std::string_view> dtypes = {"fp32", "fp64", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"};

// One row is one key.
// clang-format off
const std::vector<Key> table = {
    {"model", "layers", FIELD(model.layers), "blocks", required, "", between(1, 100'000), none, "", always,
     fixed_key, "n_layer n_layers num_layers num_hidden_layers depth", "transformer blocks (L)"},
    {"model", "hidden", FIELD(model.hidden), "channels", required, "", between(1, 1'000'000), none, "", always,
     fixed_key, "n_embd d_model hidden_size dim width embed_dim channels", "width of the residual stream (C)"},
    {"model", "heads", FIELD(model.heads), "heads", required, "", between(1, 100'000), none, "", always, fixed_key,
     "n_head n_heads num_heads num_attention_heads", "query heads of attention (H)"},
    {"model", "kv_heads", FIELD(model.kv_heads), "heads", derived, "model.heads", between(1, 100'000), none, "",
     always, fixed_key, "n_kv_heads num_key_value_heads num_query_groups",
     "key and value heads; only = model.heads is built"},
    {"model", "head_dim", FIELD(model.head_dim), "channels", derived, "model.hidden / model.heads",
     between(1, 256), none, "", always, fixed_key, "kv_channels head_size",
     "size of one head (D); only hidden / heads is built"},
    {"model", "ffn_hidden", FIELD(model.ffn_hidden), "channels", derived, "4 x model.hidden",
     between(1, 10'000'000), none, "", always, fixed_key,
     "ffn_hidden_size intermediate_size n_inner d_ff ffn mlp_hidden", "inner width of the MLP (F)"},
    {"model", "vocab", FIELD(model.vocab), "tokens", value, "0", between(0, 100'000'000), none, "", always,
     fixed_key, "vocab_size n_vocab vocabulary",
     "true vocabulary (V); 0 = take it from the tokenizer of the token set"},
    {"model", "vocab_multiple", FIELD(model.vocab_multiple), "rows", value, "64", between(1, 1'000'000), none, "",
     always, free_key, "padded_vocab make_vocab_size_divisible_by pad_vocab_size_multiple",
     "the token table is stored with model.vocab rounded up to a multiple; padding never gets probability"},
    {"model", "sequence", FIELD(model.sequence), "tokens", required, "", between(1, 100'000'000), none, "", always,
     fixed_key, "n_positions n_ctx max_position_embeddings block_size context_length seq_len seq_length sequence_length "
     "max_seq_len",
     "longest sequence (rows of the position table)"},
    {"model", "tied", FIELD(model.tied), "", value, "true", any, none, "", always, fixed_key,
     "tie_word_embeddings tie_embeddings weight_tying untie_embeddings_and_output_weights",
     "the head uses the token table"},
    {"model", "bias", FIELD(model.bias), "", value, "true", any, none, "", always, fixed_key,
     "biases use_bias add_bias_linear", "linear layers and norms have biases"},
    {"model", "norm", FIELD(model.norm), "", value, "layer", any, {"layer", "rms"}, "layer", always, fixed_key,
     "normalization norm_type", "kind of normalisation"},
    {"model", "position", FIELD(model.position), "", value, "learned", any, {"learned", "rope", "none"}, "learned",
     always, fixed_key, "position_embedding position_embedding_type", "kind of position embedding"},
    {"model", "mlp", FIELD(model.mlp), "", value, "gelu", any, {"gelu", "swiglu"}, "gelu", always, fixed_key,
     "activation activation_function mlp_type", "kind of MLP (gelu: tanh form)"},
    {"model", "head", FIELD(model.head), "", value, "language", any, {"language"}, "", always, fixed_key, "",
     "what the model predicts"},
    {"model", "norm_epsilon", FIELD(model.norm_epsilon), "", value, "1e-5", Limits{0, 1, true, true}, none, "",
     always, fixed_key, "layer_norm_epsilon layernorm_epsilon layer_norm_eps norm_eps",
     "added to the variance inside a norm"},
    {"model", "dropout_embedding", FIELD(model.dropout_embedding), "probability", value, "0.0", below(0, 1), none,
     "", always, ask_key, "embd_pdrop dropout embedding_dropout", "dropout after the embeddings"},
    {"model", "dropout_attention", FIELD(model.dropout_attention), "probability", value, "0.0", below(0, 1), none,
     "", always, ask_key, "attn_pdrop attention_dropout dropout", "dropout of attention weights"},
    {"model", "dropout_residual", FIELD(model.dropout_residual), "probability", value, "0.0", below(0, 1), none,
     "", always, ask_key, "resid_pdrop hidden_dropout dropout", "dropout before each residual sum"},
    {"model", "init_std", FIELD(model.init_std), "", value, "0.02", Limits{0, 100, true, false}, none, "", always,
     free_key, "initializer_range init_method_std",
     "spread of initial weights; residual projections get init_std / sqrt(2 layers)"},

    {"parallel", "pipeline", FIELD(parallel.pipeline), "ranks", derived,
     "1; ranks / the others when data and tensor are given", between(1, 1'000'000), none, "", always, free_key,
     "pp pipeline_parallel pipeline_model_parallel_size pipeline_parallel_degree pipeline_parallel_size",
     "pipeline stages, of whole layers each"},
    {"parallel", "data", FIELD(parallel.data), "ranks", derived, "ranks / (pipeline x context x expert x tensor)",
     between(1, 1'000'000), none, "", always, free_key,
     "dp data_parallel data_parallel_size data_parallel_degree data_parallel_replicate_degree",
     "data-parallel copies"},
    {"parallel", "context", FIELD(parallel.context), "ranks", value, "1", between(1, 1'000'000), none, "1", always,
     free_key, "cp context_parallel context_parallel_size context_parallel_degree", "ranks that share one sequence"},
    {"parallel", "expert", FIELD(parallel.expert), "ranks", value, "1", between(1, 1'000'000), none, "1", always,
     free_key, "ep expert_parallel expert_model_parallel_size expert_parallel_degree",
     "ranks that share the experts"},
    {"parallel", "tensor", FIELD(parallel.tensor), "ranks", derived,
     "1; ranks / the others when data and pipeline are given", between(1, 1'000'000), none, "", always, free_key,
     "tp tensor_parallel tensor_model_parallel_size tensor_parallel_degree tensor_parallel_size",
     "ranks that share each matrix; divides heads, kv_heads and ffn_hidden"},
    {"parallel", "sequence_parallel", FIELD(parallel.sequence_parallel), "", derived,
     "true when train.sequence is a multiple of tensor", any, none, "", with_tensor, free_key,
     "sp sequence_parallel_enabled enable_sequence_parallel enable_async_tensor_parallel",
     "tensor ranks share the positions of norms, dropout and residual sums: T / tensor each"},
    {"parallel", "schedule", FIELD(parallel.schedule), "", value, "1f1b", any,
     {"gpipe", "1f1b", "interleaved", "zb-h1"}, "", with_pipeline, free_key,
     "pipeline_schedule pipeline_parallel_schedule pp_schedule",
     "order of the micro-batches' passes; interleaved: 1f1b over virtual stages; zb-h1: backward in two parts"},
    {"parallel", "virtual_stages", FIELD(parallel.virtual_stages), "chunks per stage", value, "1",
     between(1, 100'000), none, "", with_interleaved, free_key,
     "vp vpp virtual_pipeline virtual_pipeline_size virtual_pipeline_model_parallel_size "
     "num_layers_per_virtual_pipeline_stage stages_per_rank",
     "chunks of layers on each stage, >= 2 for interleaved"},
    {"parallel", "stage_layers", FIELD(parallel.stage_layers), "layers", derived,
     "as even as possible, the first chunks one more", between(1, 100'000), none, "", with_pipeline, free_key,
     "pipeline_model_parallel_layout partition_method pipeline_parallel_split_points "
     "pipeline_parallel_layers_per_stage decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers",
     "layers of each chunk in order of the forward pass: pipeline x virtual_stages numbers, sum = model.layers"},
    {"parallel", "zero", FIELD(parallel.zero), "stage", value, "0", between(0, 3), none, "", always, free_key,
     "zero_stage zero_optimization stage use_distributed_optimizer distributed_optimizer fsdp",
     "what data-parallel ranks shard: 0 nothing, 1 optimizer, 2 + gradients, 3 + weights"},
    {"parallel", "zero_group", FIELD(parallel.zero_group), "ranks", derived, "data", between(1, 1'000'000), none, "",
     with_zero, free_key,
     "hsdp shard_group data_parallel_shard_degree zero_hpz_partition_size mics_shard_size "
     "num_distributed_optimizer_instances",
     "neighbouring data-parallel ranks that share one sharded copy, replicated over the groups; divides data"},
    {"parallel", "zero_regather", FIELD(parallel.regather), "", value, "micro_batch", any, {"micro_batch", "step"}, "",
     with_zero3, free_key,
     "regather reshard_after_forward fsdp_reshard_after_forward stage3_max_live_parameters",
     "weights are gathered for each micro-batch, or once a step and kept"},

    {"data", "train", FIELD(data.train), "path", required, "", any, none, "", always, free_key,
     "data_path train_data dataset train_data_path",
     "prefix of the token set PREFIX.bin, PREFIX.idx, PREFIX.json (`ogrom data`)"},
    {"data", "valid", FIELD(data.valid), "path", value, "", any, none, "", always, free_key,
     "valid_data val_data valid_data_path",
     "prefix of a held-out token set; empty = documents held out of data.train by data.valid_fraction"},
    {"data", "valid_fraction", FIELD(data.valid_fraction), "fraction of documents", value, "0.0", below(0, 1),
     none, "", without_valid, ask_key, "split val_fraction validation_split",
     "share of documents held out for validation"},
    {"data", "tokenizer", FIELD(data.tokenizer), "path", value, "byte", any, none, "", always, free_key,
     "tokenizer_path tokenizer_model vocab_file",
     "\"byte\", or a tokenizer.json or its folder; must be the one that made the token set"},
    {"data", "seed", FIELD(data.seed), "", value, "1234", between(0, 9e18), none, "", always, ask_key,
     "data_seed shuffle_seed", "order of documents and samples (apart from the model's randomness)"},

    {"train", "steps", FIELD(train.steps), "optimizer steps", required, "", between(1, 1e12), none, "", always,
     ask_key, "max_steps max_iters train_iters iters num_steps iterations total_steps", "length of the run"},
    {"train", "micro_batch", FIELD(train.micro_batch), "samples", derived,
     "from global_batch and accumulation; else the largest divisor of global_batch / data up to 4, or 4",
     between(1, 1e6), none, "", always, free_key, "micro_batch_size per_device_train_batch_size device_batch_size "
     "train_micro_batch_size_per_gpu",
     "samples of one forward pass on one rank"},
    {"train", "accumulation", FIELD(train.accumulation), "micro-batches", derived,
     "global_batch / (micro_batch x data)", between(1, 500'000), none, "", always, free_key,
     "gradient_accumulation_steps grad_accum accumulate_grad_batches",
     "micro-batches per optimizer step and rank; their passes and transfers on a stage: at most 1_000_000"},
    {"train", "global_batch", FIELD(train.global_batch), "samples", derived, "micro_batch x accumulation x data",
     between(1, 1e12), none, "", always, ask_key, "batch_size global_batch_size train_batch_size total_batch_size",
     "samples of one optimizer step over all ranks = micro_batch x accumulation x data, always"},
    {"train", "sequence", FIELD(train.sequence), "tokens", derived, "model.sequence", between(1, 100'000'000),
     none, "", always, ask_key, "seq_len seq_length sequence_length max_seq_len",
     "length of the training samples, <= model.sequence"},
    {"train", "eval_interval_steps", FIELD(train.eval_interval_steps), "optimizer steps", value, "0",
     between(0, 1e12), none, "", with_validation, free_key, "eval_interval eval_steps val_interval",
     "evaluate every so many steps; 0 = only at the end"},
    {"train", "eval_samples", FIELD(train.eval_samples), "samples", value, "64", between(1, 1e12), none, "",
     with_validation, free_key, "eval_iters eval_batches", "samples of one evaluation over all ranks"},
    {"train", "log_interval_steps", FIELD(train.log_interval_steps), "optimizer steps", value, "1",
     between(1, 1e12), none, "", always, free_key, "log_interval logging_steps log_every",
     "a line on the terminal every so many steps (files get every step)"},
    {"train", "logits_rows", FIELD(train.logits_rows), "rows", derived, "micro_batch x sequence, at most 512",
     between(1, 1e9), none, "", always, free_key, "loss_chunk chunk_size", "rows of logits held in memory at once"},
    {"train", "seed", FIELD(train.seed), "", value, "42", between(0, 9e18), none, "", always, ask_key,
     "random_seed model_seed", "initial weights and dropout"},
    {"train", "recompute", FIELD(train.recompute), "", value, "none", any, {"none", "selective", "full"}, "", always,
     free_key,
     "activation_checkpoint activation_checkpointing activation_checkpoint_mode gradient_checkpointing "
     "recompute_granularity recompute_activations",
     "made again in backward: nothing, norms and GELU outputs, or whole layers"},
    {"train", "recompute_interval", FIELD(train.recompute_interval), "layers", value, "1", between(1, 100'000), none,
     "", with_full_recompute, free_key,
     "recompute_num_layers selective_ac_option number_checkpoints ckpt_num_layers",
     "layers 0, n, 2n ... of the model are made again; 1 = all"},
    {"train", "trace", FIELD(train.trace), "path", value, "", any, none, "", always, free_key,
     "profile enable_profiling profiler trace_folder save_traces_folder use_pytorch_profiler",
     "file for a trace of the first steps in Chrome's JSON form: computation and messages by rank; empty = none"},
    {"train", "trace_steps", FIELD(train.trace_steps), "optimizer steps", value, "3", between(1, 1e12), none, "",
     with_trace, free_key, "profile_steps profile_step_end profiler_active", "steps in the trace"},
    {"train", "stop_before", FIELD(train.stop_before), "time", value, "", any, none, "", always, free_key,
     "deadline stop_at exit_duration_in_mins", "the run has saved and ended (exit code 75) before that time: "
     "\"2026-01-31T23:59:00Z\", or \"job-end-300s\", so long (s, min or h) before the SLURM job ends; empty = none"},

    {"optimizer", "kind", FIELD(optimizer.kind), "", value, "adamw", any, {"adamw", "sgd"}, "", always, fixed_key,
     "type name optimizer optim", "adamw: decoupled weight decay, none on biases and norms; sgd: with momentum"},
    {"optimizer", "lr", FIELD(optimizer.lr), "", required, "", above(0), none, "", always, ask_key,
     "learning_rate max_lr", "peak learning rate"},
    {"optimizer", "min_lr", FIELD(optimizer.min_lr), "", derived, "lr / 10", Limits{0, 1e30, false, false}, none,
     "", with_decay, ask_key, "lr_min minimum_lr", "learning rate at the end of the decay, <= optimizer.lr"},
    {"optimizer", "schedule", FIELD(optimizer.schedule), "", value, "cosine", any,
     {"cosine", "linear", "constant", "wsd"}, "", always, ask_key,
     "lr_schedule lr_scheduler lr_decay_style scheduler",
     "after the warm-up: cosine or linear to min_lr, constant, or constant then linear (wsd)"},
    {"optimizer", "warmup_steps", FIELD(optimizer.warmup_steps), "optimizer steps", value, "0", between(0, 1e12),
     none, "", always, ask_key, "warmup warmup_iters lr_warmup_iters num_warmup_steps warmup_ratio",
     "steps of linear warm-up; optimizer steps, whatever accumulation and ranks"},
    {"optimizer", "decay_steps", FIELD(optimizer.decay_steps), "optimizer steps", derived,
     "train.steps; wsd: a tenth of it", between(1, 1e12), none, "", with_decay, ask_key,
     "lr_decay_iters decay_iters",
     "cosine, linear: step at which min_lr is reached; wsd: length of the last phase"},
    {"optimizer", "beta1", FIELD(optimizer.beta1), "", value, "0.9", below(0, 1), none, "", with_adamw, ask_key,
     "betas adam_beta1", "decay of the first moment"},
    {"optimizer", "beta2", FIELD(optimizer.beta2), "", value, "0.95", below(0, 1), none, "", with_adamw, ask_key,
     "betas adam_beta2", "decay of the second moment"},
    {"optimizer", "epsilon", FIELD(optimizer.epsilon), "", value, "1e-8", Limits{0, 1, true, false}, none, "",
     with_adamw, ask_key, "eps adam_eps adam_epsilon", "added to the root of the second moment"},
    {"optimizer", "weight_decay", FIELD(optimizer.weight_decay), "", value, "0.1", between(0, 1e3), none, "",
     always, ask_key, "wd decay", "decay of matrices and embeddings per unit of learning rate"},
    {"optimizer", "momentum", FIELD(optimizer.momentum), "", value, "0.0", below(0, 1), none, "", with_sgd,
     ask_key, "sgd_momentum", "momentum of sgd"},
    {"optimizer", "clip_norm", FIELD(optimizer.clip_norm), "", value, "1.0", between(0, 1e30), none, "", always,
     ask_key, "grad_clip clip_grad max_grad_norm gradient_clipping gradient_clip_val",
     "largest global gradient norm; 0 = no clipping"},

    {"precision", "weights", FIELD(precision.weights), "", derived, "numerics.compute", any, dtypes,
     "fp32 fp64 bf16 fp16",
     always, ask_key, "param_dtype weight_dtype bf16 fp16",
     "storage type of weights and activations: = numerics.compute, or bf16 or fp16 on a GPU with an fp32 master"},
    {"precision", "loss_scale", FIELD(precision.loss_scale), "", value, "dynamic", any, {"dynamic", "fixed"}, "",
     with_fp16, ask_key, "loss_scaling loss_scaler grad_scaler dynamic_loss_scale",
     "factor on the gradient while it is in fp16: halved where the gradient is not finite (that step updates nothing), doubled after loss_scale_window steps without; or loss_scale_initial for ever"},
    {"precision", "loss_scale_initial", FIELD(precision.loss_scale_initial), "a power of 2", value, "65536",
     between(1, 16'777'216), none, "", with_fp16, ask_key, "initial_loss_scale init_scale", "first factor"},
    {"precision", "loss_scale_window", FIELD(precision.loss_scale_window), "optimizer steps", value, "1000",
     between(1, 1e12), none, "", with_moving_scale, ask_key, "growth_interval",
     "steps in a row with a finite gradient before the factor doubles; 16777216 is the largest"},
    {"precision", "loss_scale_min", FIELD(precision.loss_scale_min), "a power of 2", value, "1",
     between(1, 16'777'216), none, "", with_moving_scale, ask_key, "min_loss_scale",
     "smallest factor; a gradient that is not finite at it is a fault, see numerics.on_nonfinite"},

    {"numerics", "compute", FIELD(numerics.compute), "", value, "fp32", any, {"fp32", "fp64", "bf16", "fp16"},
     "fp32 fp64", always, fixed_key, "dtype compute_dtype precision",
     "arithmetic of the kernels; fp64 is for proofs of equivalence"},
    {"numerics", "linears", FIELD(numerics.linears), "", value, "compute", any, {"compute", "fp8"}, "", always, ask_key,
     "fp8 fp8_format fp8_recipe float8 transformer_engine",
     "products of the blocks' linear layers: compute = in the type of the weights; fp8 = all three of each layer from "
     "operands in fp8, with bf16 weights on a GPU of compute capability 8.9 or newer"},
    {"numerics", "deterministic", FIELD(numerics.deterministic), "", value, "false", any, none, "", always,
     free_key, "deterministic_mode", "sums in one order: with tensor, data and micro_batch fixed all other keys of the layout give equal bits"},
    {"numerics", "on_nonfinite", FIELD(numerics.on_nonfinite), "", value, "stop", any, {"stop", "skip"}, "",
     always, free_key, "nan skip_nan check_for_nan",
     "NaN or infinity in the loss or gradient: stop the run (exit 5), or skip the step on all ranks"},
    {"numerics", "max_skipped_steps", FIELD(numerics.max_skipped_steps), "optimizer steps", value, "10",
     between(1, 1e12), none, "", with_skip, free_key, "max_skips",
     "most steps skipped in a row; one more stops the run"},

    {"checkpoint", "interval_steps", FIELD(checkpoint.interval_steps), "optimizer steps", value, "0",
     between(0, 1e12), none, "", always, free_key, "save_interval save_steps save_every checkpoint_interval",
     "save every so many steps; 0 = only at the end"},
    {"checkpoint", "keep_last", FIELD(checkpoint.keep_last), "checkpoints", value, "2", between(1, 1e6), none, "",
     always, free_key, "keep save_total_limit", "older checkpoints are removed after a newer one is complete"},
    {"checkpoint", "keep_every", FIELD(checkpoint.keep_every), "optimizer steps", value, "0", between(0, 1e12), none, "",
     always, free_key, "keep_period save_retain_interval",
     "checkpoints of steps that this divides are never removed; 0 = keep_last alone decides"},
    {"checkpoint", "async", FIELD(checkpoint.async), "", value, "false", any, none, "", always, free_key,
     "async_save use_async background_save async_checkpoint",
     "a save at an interval holds the steps up for a copy of the state alone, which is written while training goes on; the copy is memory of the host (snapshot.* of the plan)"},
    {"checkpoint", "write_mb_per_s", FIELD(checkpoint.write_mb_per_s), "MB/s per rank", value, "0.0", between(0, 1e6), none, "",
     with_async, free_key, "write_rate_limit io_bandwidth_limit",
     "most that the background writer of a rank writes, so that it leaves processor and disk to the steps; 0 = no limit. What the run has to wait for is written without it"},
    {"checkpoint", "direct_io", FIELD(checkpoint.direct_io), "", value, "true", any, none, "", always, free_key, "o_direct use_direct_io",
     "files of a save are written past the page cache (O_DIRECT) where the file system can; false: through it"},
    {"checkpoint", "on_failure", FIELD(checkpoint.on_failure), "", value, "stop", any, {"stop", "warn"}, "", always, free_key,
     "on_save_failure ignore_save_errors",
     "a save that fails with all its retries: stop (exit 4), or warn and go on; the last save of a run always stops"},
    {"checkpoint", "retries", FIELD(checkpoint.retries), "", value, "2", between(0, 100), none, "", always, free_key,
     "save_retries max_retries", "how often a save that failed (full disk, quota, I/O error) is tried again, 1 s later"},
    {"checkpoint", "strict", FIELD(checkpoint.strict), "", value, "true", any, none, "", always, free_key,
     "load_strict", "loading refuses missing and unexpected tensors; false: loads what fits and lists the rest"},
    {"checkpoint", "init_from", FIELD(checkpoint.init_from), "path", value, "", any, none, "", always, free_key,
     "pretrained_model_name_or_path pretrained_checkpoint init_checkpoint initial_load_path finetune load_weights",
     "weights that a new run starts with: a Hugging Face GPT-2 folder, or a checkpoint (a step or a run folder); everything else starts afresh. A resume does not read it. Empty = drawn from train.seed (train --init-from sets it)"},
    {"checkpoint", "at_end", FIELD(checkpoint.at_end), "", value, "true", any, none, "", always, free_key,
     "save_last save_at_end", "save after the last step"},
    {"checkpoint", "trace_steps", FIELD(checkpoint.trace_steps), "optimizer steps", value, "3", between(0, 100), none, "",
     always, free_key, "replay_steps verify_steps",
     "steps after a save whose loss, gradient norm and weight hash go to trace.json beside it, for --resume-verify; 0 = none"},
    {"checkpoint", "allow_changed", FIELD(checkpoint.allow_changed), "", value, "[]", any, none, "", always,
     free_key, "override_opt_param_scheduler override",
     "keys that a resumed run may change against its checkpoint, as in [\"optimizer.lr\", \"train.steps\"]"},

    {"comm", "backend", FIELD(comm.backend), "", value, "auto", any, {"auto", "mpi", "nccl"}, "", always, free_key,
     "distributed_backend dist_backend process_group_backend",
     "what carries the memory of GPUs between ranks; auto = NCCL where it is found and each rank has a GPU, else MPI"},
    {"comm", "bucket_mib", FIELD(comm.bucket_mib), "MiB", value, "25.0", Limits{0, 1'048'576, true, false}, none,
     "", with_data, free_key, "bucket_size bucket_cap_mb bucket_mb reduce_bucket_size ddp_bucket_size",
     "size of a gradient bucket"},
    {"comm", "overlap", FIELD(comm.overlap), "", value, "true", any, none, "", with_data, free_key,
     "overlap_comm overlap_grad_reduce", "reduce buckets while the backward pass goes on"},
    {"comm", "gradient_dtype", FIELD(comm.gradient_dtype), "", derived, "numerics.compute", any,
     {"fp32", "fp64", "bf16"}, "fp32 fp64", with_data, free_key,
     "reduce_dtype grad_reduce_dtype communication_data_type grad_reduce_in_fp32 mixed_precision_reduce",
     "type in which gradients travel; only = numerics.compute is built"},
    {"comm", "timeout_s", FIELD(comm.timeout_s), "s", value, "120.0", between(1, 1e6), none, "", always, free_key,
     "timeout distributed_timeout_minutes", "silence of a rank before the job is ended and the rank named; start-up may take 120 s at least"},
    {"comm", "check_collectives", FIELD(comm.check_collectives), "", value, "false", any, none, "", always, free_key,
     "torch_distributed_debug nccl_debug debug_collectives",
     "all ranks compare operation, size and type before each collective; for finding faults, slow"},

    {"run", "name", FIELD(run.name), "", derived, "name of the run file", any, none, "", always, free_key,
     "run_name experiment", "name of the run"},
    {"run", "output", FIELD(run.output), "path", derived, "results/runs/<run.name>", any, none, "", always,
     free_key, "output_dir out_dir save_dir save", "folder for metrics, log and checkpoints"},
    {"run", "threads", FIELD(run.threads), "threads", value, "0", between(0, 4096), none, "", always, free_key,
     "num_threads omp_num_threads n_threads", "OpenMP threads per rank; 0 = cores of the node / ranks on it"},
    {"run", "device", FIELD(run.device), "", value, "auto", any, {"auto", "cpu", "cuda"}, "", always,
     free_key, "backend accelerator gpu",
     "where the kernels run; auto = a GPU where one is present and compiled in, else the CPU"},
    {"run", "share_gpu", FIELD(run.share_gpu), "", value, "false", any, none, "", always, free_key,
     "gpu_oversubscribe", "several ranks may run on one GPU; else each needs its own"},
    {"run", "product_search_s", FIELD(run.product_search_s), "s", value, "10.0", between(0, 3600), none, "", always,
     free_key, "autotune_s tune_time cublaslt_search",
     "most time before the first step for measuring algorithms of matrix products on a GPU; 0 = the library's own choice"},
    {"run", "graphs", FIELD(run.graphs), "", value, "auto", any, {"auto", "always", "never"}, "", always, free_key,
     "cuda_graph cuda_graphs enable_cuda_graph use_cuda_graph",
     "on a GPU: the passes of a micro-batch are recorded once and launched whole; auto = where that measures faster; where ranks exchange within them they never are"},
    {"run", "product_cache", FIELD(run.product_cache), "path", value, "auto", any, none, "", always, free_key,
     "autotune_cache", "folder that keeps measured algorithms for the next start; auto = $XDG_CACHE_HOME/ogrom or ~/.cache/ogrom; none = nothing is kept"},
};
// clang-format on

#undef FIELD

}  // namespace

std::span<const Key> schema() {
    return table;
}

}  // namespace ogrom
