#include "src/comm/communicator_mpi.h"

#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/comm/communicator_mpi_class.h"
#include "src/comm/transfer.h"
#include "src/comm/wait.h"

namespace ogrom {

MpiCommunicator::MpiCommunicator(MPI_Comm comm, std::string name, const MpiCommunicatorOptions& options)
    : name_(std::move(name)), options_(options) {
    return_errors(comm);
    OGROM_MPI(MPI_Comm_rank(comm, &rank_));
    OGROM_MPI(MPI_Comm_size(comm, &size_));
    int found = 0;
    const int* bound = nullptr;
    OGROM_MPI(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&bound), &found));
    tags_ = (found != 0 ? *bound : 32767) / 4;  // 32767: what every MPI library allows
    sends_.resize(static_cast<std::size_t>(size_));
    receives_.resize(static_cast<std::size_t>(size_));
    MPI_Comm compare_comm = MPI_COMM_NULL;
    if (options_.check == CollectiveCheck::compare && size_ > 1) {
        OGROM_MPI(MPI_Comm_dup(comm, &compare_comm));
        return_errors(compare_comm);
    }
    if (options_.engine == nullptr) {
        options_.engine = std::make_shared<CommEngine>(options_.control);
    }
    core_ = std::make_shared<Core>(comm, compare_comm, options_.engine, name_);
}

void MpiCommunicator::progress() {
    options_.control->check();
    options_.control->moved();
    const double begin = options_.control->notes_waits() ? steady_seconds() : 0;
    options_.engine->progress();
    if (begin > 0) {
        options_.control->note_wait(-1, name_, begin);
    }
}

Pending MpiCommunicator::all_reduce(void* data, i64 count, Dtype type, ReduceOp op, ReduceOrder order, void* scratch,
                                    std::string_view label) {
    const i64 ticket = begin(
        {.kind = CollectiveKind::all_reduce, .count = count, .type = type, .op = op, .order = order, .label = label},
        count, sent::all_reduce(count, rank_, size_));
    if (size_ == 1 || count == 0) {
        return finish_now(ticket);
    }
    if (order == ReduceOrder::fixed || !mpi_adds(type)) {
        return start(ticket, fixed_all_reduce(reduction(type, op, order, scratch, label), data, count));
    }
    auto operation = std::make_unique<RequestOperation>();
    const i64 limit = chunk_elements(type, 1);
    for (i64 first = 0; first < count; first += limit) {
        if (fault_active("allreduce_tail_lost") && first + limit >= count) {
            break;
        }
        OGROM_MPI(MPI_Iallreduce(MPI_IN_PLACE, at(data, first, type), length(limit, count - first), mpi_type(type),
                                 mpi_op(op), core_->comm(), operation->requests.add()));
    }
    return start(ticket, std::move(operation));
}

Pending MpiCommunicator::reduce(void* data, i64 count, Dtype type, int root, ReduceOrder order, void* scratch,
                                std::string_view label) {
    check_root(root, size_, label);
    const i64 ticket = begin(
        {.kind = CollectiveKind::reduce, .count = count, .type = type, .root = root, .order = order, .label = label},
        count, sent::reduce(count, rank_, root));
    if (size_ == 1 || count == 0) {
        return finish_now(ticket);
    }
    if (order == ReduceOrder::fixed && rank_ == root) {
        return start(ticket, direct_reduce(fixed(type, ReduceOp::sum, scratch, label), data, count, root));
    }
    return start(ticket, direct_reduce(exchange(type, ReduceOp::sum), data, count, root));
}

Pending MpiCommunicator::broadcast(void* data, i64 count, Dtype type, int root, std::string_view label) {
    check_root(root, size_, label);
    const i64 ticket =
        begin({.kind = CollectiveKind::broadcast, .count = count, .type = type, .root = root, .label = label}, count,
              sent::broadcast(count, rank_, root, size_));
    if (size_ == 1 || count == 0) {
        return finish_now(ticket);
    }
    auto operation = std::make_unique<RequestOperation>();
    const i64 limit = chunk_elements(type, 1);
    for (i64 first = 0; first < count; first += limit) {
        OGROM_MPI(MPI_Ibcast(at(data, first, type), length(limit, count - first), mpi_type(type), root, core_->comm(),
                             operation->requests.add()));
    }
    return start(ticket, std::move(operation));
}

Pending MpiCommunicator::barrier(std::string_view label) {
    const i64 ticket = begin({.kind = CollectiveKind::barrier, .label = label}, 0, 0);
    if (size_ == 1) {
        return finish_now(ticket);
    }
    auto operation = std::make_unique<RequestOperation>();
    OGROM_MPI(MPI_Ibarrier(core_->comm(), operation->requests.add()));
    return start(ticket, std::move(operation));
}

Pending MpiCommunicator::send(const void* data, i64 count, Dtype type, int to, std::string_view label) {
    const MessagePlace message = next_message(sends_, to, count, type, label);
    const i64 ticket = begin_message(message, count);
    return start(ticket, send_message(message, data));
}

Pending MpiCommunicator::receive(void* data, i64 count, Dtype type, int from, std::string_view label) {
    const MessagePlace message = next_message(receives_, from, count, type, label);
    const i64 ticket = begin_message(message, 0);
    return start(ticket, receive_message(message, data));
}

std::unique_ptr<Communicator> MpiCommunicator::split(int colour, int key, const std::string& name,
                                                     CollectiveCheck check) {
    MpiCommunicatorOptions options = options_;
    options.check = check == CollectiveCheck::compare ? check : options.check;
    std::unique_ptr<MpiCommunicator> part = split_as(colour, key, name, options);
    if (part != nullptr && part->size() == 1) {
        return make_single_communicator(name);
    }
    return part;
}

std::unique_ptr<MpiCommunicator> MpiCommunicator::split_as(int colour, int key, const std::string& name,
                                                           const MpiCommunicatorOptions& options) {
    Control& control = *options_.control;
    const auto idle = [this] {
        options_.engine->progress();
        return core_->idle();
    };
    wait_until(idle, &control, [] { return 0L; });
    // A blocking call: the watchdog sees a rank that waits here for one that never comes.
    control.waiting_since(steady_seconds());
    MPI_Comm part = MPI_COMM_NULL;
    OGROM_MPI(MPI_Comm_split(core_->comm(), colour < 0 ? MPI_UNDEFINED : colour, key, &part));
    control.moved();
    control.waiting_since(0);
    return part == MPI_COMM_NULL ? nullptr : std::make_unique<MpiCommunicator>(part, name, options);
}

i64 MpiCommunicator::begin(CollectiveIntent intent, i64 payload, i64 sent) {
    check_transfer(intent.count, intent.type, intent.label);
    options_.control->check();
    options_.engine->progress();
    intent.sequence = ++sequence_;
    intent.bytes = payload * size_of(intent.type);
    const i64 ticket = issue(intent.sequence, intent.label, intent.bytes);
    compare(intent);
    traffic_.add(intent.label, sent * size_of(intent.type));
    return ticket;
}

void MpiCommunicator::compare(const CollectiveIntent& intent) {
    if (core_->compare_comm() != MPI_COMM_NULL) {
        compare_collective(core_->compare_comm(), *options_.control, name_, intent,
                           [this] { options_.engine->progress(); });
    }
}

i64 MpiCommunicator::issue(i64 sequence, std::string_view label, i64 bytes) {
    if (options_.recording == Recording::off) {
        return -1;
    }
    return options_.control->collective_issued(sequence, label, name_, bytes);
}

Pending MpiCommunicator::finish_now(i64 ticket) {
    options_.control->collective_done(ticket);
    return {};
}

FixedReduce MpiCommunicator::exchange(Dtype type, ReduceOp op) const {
    const int tag = static_cast<int>(sequence_ % tags_) * 2;
    return {core_->comm(), rank_, size_, tag, options_.chunk_bytes, type, op, nullptr};
}

FixedReduce MpiCommunicator::reduction(Dtype type, ReduceOp op, ReduceOrder order, void* scratch,
                                       std::string_view label) const {
    return order == ReduceOrder::fixed ? fixed(type, op, scratch, label) : exchange(type, op);
}

FixedReduce MpiCommunicator::fixed(Dtype type, ReduceOp op, void* scratch, std::string_view label) const {
    if (scratch == nullptr) {
        fail(ExitCode::peer, fmt::format("collective '{}': the fixed order needs scratch memory", label));
    }
    FixedReduce made = exchange(type, op);
    made.scratch = scratch;
    return made;
}

MessagePlace MpiCommunicator::next_message(std::vector<i64>& counters, int peer, i64 count, Dtype type,
                                           std::string_view label) {
    check_peer(peer, rank_, size_, label);
    check_transfer(count, type, label);
    MessagePlace message;
    message.comm = core_->comm();
    message.axis = name_;
    message.rank = rank_;
    message.peer = peer;
    message.sequence = ++counters[static_cast<std::size_t>(peer)];
    message.tag = static_cast<int>((tags_ + message.sequence % tags_) * 2);
    message.chunk_bytes = options_.chunk_bytes;
    message.type = type;
    message.count = count;
    message.label = label;
    message.labels = options_.check == CollectiveCheck::compare ? LabelCheck::compare : LabelCheck::off;
    return message;
}

i64 MpiCommunicator::begin_message(const MessagePlace& message, i64 sent) {
    options_.control->check();
    options_.engine->progress();
    traffic_.add(message.label, sent * size_of(message.type));
    return issue(message.sequence, message.label, message.count * size_of(message.type));
}

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm, const std::string& name,
                                                    const MpiCommunicatorOptions& options) {
    return std::make_unique<MpiCommunicator>(comm, name, options);
}

}  // namespace ogrom
