#include "src/train/selftest.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fmt/format.h>
#include <map>

#include "src/base/timer.h"
#include "src/comm/placement.h"
#include "src/device/blas.h"
#include "src/device/queue.h"
#include "src/train/layout_compare.h"
#include "src/train/layout_trial.h"
#include "src/train/setup.h"

namespace ogrom {
namespace {

struct Reference {
    RunConfig run;
    Course course;
    std::vector<double> weights;
};

std::string bits_of(const Course& course, u64 hash) {
    std::string text = fmt::format("{:016x}", hash);
    for (const std::vector<double>* series : {&course.losses, &course.norms}) {
        for (const double value : *series) {
            text += fmt::format(" {:016x}", std::bit_cast<u64>(value));
        }
    }
    return text;
}

Reference train_alone(i64 number) {
    const std::unique_ptr<Communicator> alone = make_single_communicator();
    Reference reference;
    reference.run = parse_layout(selftest_serial(number), 1);
    Mesh mesh = make_mesh(*alone, reference.run.parallel);
    const auto engine = make_trial<double>(reference.run, mesh);
    reference.course = run_trial(*engine);
    const std::span<const double> weights = engine->state.weights.data();
    reference.weights.assign(weights.begin(), weights.end());
    return reference;
}

}  // namespace

struct Selftest::Impl {
    Communicator& world;
    const Device device;
    const TransportChoice transport;
    const Queues queues;
    std::vector<Reference> references;
    std::map<std::string, std::pair<std::string, std::string>> bits;  // by key: first layout and its bits
};

Selftest::Selftest(Session& session, const Where& where) {
    RunConfig shared;
    shared.run.device = where.device;
    shared.run.share_gpu = true;
    shared.comm.backend = where.backend;
    // A kernel that is loaded at its first use waits for those under way, and a posted receive of NCCL waits for its
    // sender: a training touches every kernel before its first step (train/warm_up), the trials here do not.
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    const Device device = select_device(where.device, session.node_rank());
    impl_.reset(new Impl{session.world(),
                         device,
                         agree_transport(session.world(), session.host(), device, shared),
                         Queues(device),
                         {},
                         {}});
    set_threads(1);
    const int size = session.size();
    for (i64 number = 0; number < selftest_references; ++number) {
        if (number % size == session.rank()) {
            impl_->references.push_back(train_alone(number));
        } else {
            impl_->references.emplace_back();
        }
    }
    for (i64 number = 0; number < selftest_references; ++number) {
        Reference& r = impl_->references[static_cast<std::size_t>(number)];
        const int root = static_cast<int>(number % size);
        r.run = parse_layout(selftest_serial(number), 1);
        const ParameterTable table = make_parameters(r.run.model, Dtype::fp64);
        r.weights.resize(static_cast<std::size_t>(
            ParameterLayout(table, StageSpan{0, 0, 0, r.run.model.layers, true, true}).size()));
        r.course.losses.resize(static_cast<std::size_t>(r.run.train.steps));
        r.course.norms.resize(static_cast<std::size_t>(r.run.train.steps));
        for (std::vector<double>* values : {&r.weights, &r.course.losses, &r.course.norms}) {
            impl_->world
                .broadcast(values->data(), static_cast<i64>(values->size()), Dtype::fp64, root, "selftest reference")
                .wait();
        }
    }
}

Selftest::~Selftest() = default;

std::string Selftest::place() const {
    return impl_->device.is_gpu() ? fmt::format("on a GPU ({}); {}", impl_->device.reason, impl_->transport.reason)
                                  : fmt::format("on the CPU ({})", impl_->device.reason);
}

SelftestRow Selftest::run(const SelftestLayout& layout) {
    SelftestRow row;
    row.layout = layout;
    RunConfig run;
    try {
        run = parse_layout(layout, impl_->world.size());
    } catch (const Error& error) {
        row.refused = error.what();
        return row;
    }
    const Timer timer;
    MeshOptions options;
    options.axes = axis_options(impl_->transport, impl_->queues);
    Mesh mesh = make_mesh(impl_->world, run.parallel, options);
    const auto engine = make_trial<double>(run, mesh, impl_->device, impl_->queues.compute);
    const Course course = run_trial(*engine);
    const Reference& reference = impl_->references[static_cast<std::size_t>(layout.reference())];
    row.loss = series_deviation(course.losses, reference.course.losses);
    row.norm = series_deviation(course.norms, reference.course.norms);
    double weights = weight_deviation<double>(*engine, reference.run.model, reference.weights);
    impl_->world.all_reduce(&weights, 1, Dtype::fp64, ReduceOp::max, ReduceOrder::any, nullptr, "deviation").wait();
    row.weights = weights;
    const double worst = std::max({row.loss, row.norm, row.weights});
    if (!(worst <= selftest_bound)) {
        row.failed = fmt::format("deviates by {:.1e} from one rank, allowed {:.0e}", worst, selftest_bound);
    }
    if (const std::string key = layout.bit_key(); !key.empty()) {
        const std::string bits = bits_of(course, state_bits(*engine));
        const auto [first, fresh] = impl_->bits.try_emplace(key, layout.name(), bits);
        if (!fresh && first->second.second != bits) {
            row.failed +=
                fmt::format("{}not bit for bit that of: {}", row.failed.empty() ? "" : "; ", first->second.first);
        }
    }
    row.seconds = timer.seconds();
    return row;
}

}  // namespace ogrom
