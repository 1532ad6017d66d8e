// The choice of the weights' type, once for a process. Next: train/trainer.cpp
#include "src/train/trainer.h"

namespace ogrom {
namespace {

template <class Use>
auto with_weights_of(const RunConfig& run, const Use& use) {
    switch (run.precision.weights) {
        case Dtype::fp64:
            return use(double{});
        case Dtype::bf16:
            return use(Bf16{});
        case Dtype::fp16:
            return use(Fp16{});
        default:
            return use(float{});
    }
}

}  // namespace

TrainSummary train(Session& session, const RunConfig& run, const TrainOptions& options) {
    return with_weights_of(run, [&]<class T>(T) { return Trainer<T>(session, run, options).run(); });
}

bool measure_steps(Session& session, const RunConfig& run, i64 steps, StepWatch& watch) {
    const TrainOptions options{.stop_after_steps = steps, .purpose = Purpose::measure, .watch = &watch};
    return with_weights_of(run, [&]<class T>(T) { return Trainer<T>(session, run, options).run(); }).steps >= steps;
}

ReplayReport verify_resume(Session& session, const RunConfig& run, const ResumeChoice& resume) {
    TrainOptions options{.resume = resume, .purpose = Purpose::verify};
    options.resume.into = ResumeInto::nothing;
    return with_weights_of(run, [&]<class T>(T) { return Trainer<T>(session, run, options).verify(); });
}

}  // namespace ogrom
