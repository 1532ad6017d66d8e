#include "src/io/snapshot.h"

#include <type_traits>

#include "kernels/common/fault.h"
#include "kernels/ops/flat.h"

namespace ogrom {
namespace {

constexpr Stream on_host{};

template <class T>
FlatView<T> like(const FlatView<T>& there, Arena& arena, const char* line) {
    return there.empty() ? FlatView<T>() : FlatView<T>(arena.take<T>(line), there.ranges());
}

template <class T>
void fetch(const HostWindow& window, T* to, const T* from, i64 count) {
    window.read(from, count, [&](const T* host, i64 first, i64 n) { ops::copy(on_host, to + first, host, n); });
}

template <class T>
void send(const HostWindow& window, T* to, const T* from, i64 count) {
    window.write(to, count, [&](T* host, i64 first, i64 n) { ops::copy(on_host, host, from + first, n); });
}

template <class T>
FlatView<T> part_of(const FlatView<T>& there, const std::vector<FlatRange>& ranges, Arena& arena, const char* line) {
    return there.empty() ? FlatView<T>() : FlatView<T>(arena.take<T>(line), ranges);
}

template <class T>
void copy_ranges(const FlatView<T>& to, const FlatView<T>& from) {
    for (const FlatRange& range : to.ranges()) {
        ops::copy(on_host, to.locate(range), from.locate(range), range.count());
    }
}

template <class T>
i64 size_of_view(const FlatView<T>& view) {
    return static_cast<i64>(view.data().size());
}

}  // namespace

template <class T>
Snapshot<T>::Snapshot(const StepState<T>& state, const HostWindow& window, Arena& arena, Stream stream,
                      std::optional<std::vector<FlatRange>> copied)
    : state_(state), window_(window), stream_(stream), copied_(std::move(copied)) {
    if (stream.backend == Backend::cuda) {
        views_.weights = FlatView<Held>(arena.take<Held>("snapshot.weights"), state.weights.ranges());
        views_.moment1 = like(state.moment1, arena, "snapshot.moment1");
        views_.moment2 = like(state.moment2, arena, "snapshot.moment2");
        return;
    }
    if constexpr (std::is_same_v<T, Held>) {
        views_ = {state.weights, state.moment1, state.moment2};
        if (copied_ && !copied_->empty()) {
            copy_ = {part_of(state.weights, *copied_, arena, "snapshot.weights"),
                     part_of(state.moment1, *copied_, arena, "snapshot.moment1"),
                     part_of(state.moment2, *copied_, arena, "snapshot.moment2")};
        }
    } else {
        fail(ExitCode::usage, std::string(name_of(dtype_of<T>())) + " needs a GPU");
    }
}

template <class T>
void Snapshot<T>::collect_weights() const {
    Held* const to = views_.weights.data().data();
    if constexpr (std::is_same_v<T, Held>) {
        fetch(window_, to, state_.weights.data().data(), size_of_view(state_.weights));
    } else {
        if (size_of_view(state_.master) < size_of_view(state_.weights)) {  // sharded master, whole weights
            window_.read(state_.weights.data().data(), size_of_view(state_.weights),
                         [&](const T* host, i64 first, i64 n) { ops::cast(on_host, to + first, host, n); });
        }
        for (const FlatRange& range : state_.master.ranges()) {
            fetch(window_, views_.weights.locate(range), state_.master.locate(range), range.count());
        }
    }
}

template <class T>
const typename Snapshot<T>::Views& Snapshot<T>::collect() const {
    if (stream_.backend == Backend::cuda) {
        collect_weights();
        fetch(window_, views_.moment1.data().data(), state_.moment1.data().data(), size_of_view(state_.moment1));
        fetch(window_, views_.moment2.data().data(), state_.moment2.data().data(), size_of_view(state_.moment2));
    }
    return views_;
}

// On a GPU, into page-locked memory.
template <class T>
void Snapshot<T>::collect_copied() const {
    OGROM_ASSERT(copied_);
    const auto copy = [&](const FlatView<Held>& to, const FlatView<Held>& from) {
        for (const FlatRange& range : *copied_) {
            copy_bytes(stream_, to.locate(range), from.locate(range), range.count() * static_cast<i64>(sizeof(Held)));
        }
    };
    if constexpr (std::is_same_v<T, Held>) {
        copy(views_.weights, state_.weights);
    } else {
        copy(views_.weights, state_.master);
    }
    for (const auto& [to, from] : {std::pair{&views_.moment1, &state_.moment1}, {&views_.moment2, &state_.moment2}}) {
        if (!from->empty()) {
            copy(*to, *from);
        }
    }
    wait(stream_);
}

template <class T>
const typename Snapshot<T>::Views& Snapshot<T>::freeze() const {
    if (stream_.backend == Backend::cuda) {
        if (!copied_) {
            return collect();
        }
        collect_copied();
        return views_;
    }
    if (copy_.weights.empty() || fault_active("snapshot_not_taken")) {
        return views_;
    }
    copy_ranges(copy_.weights, views_.weights);
    copy_ranges(copy_.moment1, views_.moment1);
    copy_ranges(copy_.moment2, views_.moment2);
    return copy_;
}

template <class T>
void Snapshot<T>::deliver_weights() const {
    const Held* const from = views_.weights.data().data();
    if constexpr (std::is_same_v<T, Held>) {
        send(window_, state_.weights.data().data(), from, size_of_view(state_.weights));
    } else {
        window_.write(state_.weights.data().data(), size_of_view(state_.weights),
                      [&](T* host, i64 first, i64 n) { ops::cast(on_host, host, from + first, n); });
        for (const FlatRange& range : state_.master.ranges()) {
            send<Held>(window_, state_.master.locate(range), views_.weights.locate(range), range.count());
        }
    }
}

template <class T>
void Snapshot<T>::deliver() const {
    if (stream_.backend == Backend::cuda) {
        deliver_weights();
        send<Held>(window_, state_.moment1.data().data(), views_.moment1.data().data(), size_of_view(state_.moment1));
        send<Held>(window_, state_.moment2.data().data(), views_.moment2.data().data(), size_of_view(state_.moment2));
    }
}

template class Snapshot<float>;
template class Snapshot<double>;
template class Snapshot<Bf16>;
template class Snapshot<Fp16>;

}  // namespace ogrom
