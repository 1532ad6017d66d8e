#include "src/comm/delayed.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "kernels/common/fault.h"

#include "src/comm/control.h"
#include "src/comm/wait.h"

namespace ogrom {
namespace {

// One operation: under way, then on the link, then done.
struct Transfer {
    Pending inner;
    double delay_s = 0;
    double ends_s = 0;  // 0 = its data has not moved yet
    [[nodiscard]] bool done(double now) const { return ends_s != 0 && now >= ends_s; }
};

// Shared by the communicator and its operations, which may outlive it. Takes in operations in the order in which their
// data arrives: a receive that waits for its sender must not hold up what another axis needs.
struct Link {
    std::unique_ptr<Communicator> inner;
    std::vector<std::shared_ptr<Transfer>> moving;
    double free_s = 0;

    void take_in(Transfer& transfer, double now) {
        const double begins = fault_active("delays_overlap") ? now : std::max(now, free_s);
        transfer.ends_s = begins + transfer.delay_s;
        free_s = transfer.ends_s;
    }
    void poll() {
        for (const std::shared_ptr<Transfer>& transfer : moving) {
            if (transfer->ends_s == 0 && transfer->inner.test()) {
                take_in(*transfer, steady_seconds());
            }
        }
        std::erase_if(moving, [](const std::shared_ptr<Transfer>& transfer) { return transfer->ends_s != 0; });
    }
};

class DelayedState final : public Pending::State {
public:
    DelayedState(std::shared_ptr<Link> link, std::shared_ptr<Transfer> transfer)
        : link_(std::move(link)), transfer_(std::move(transfer)), exceptions_(std::uncaught_exceptions()) {}
    DelayedState(const DelayedState&) = delete;
    DelayedState& operator=(const DelayedState&) = delete;
    ~DelayedState() override {
        if (transfer_->done(steady_seconds()) || std::uncaught_exceptions() > exceptions_) {
            return;
        }
        try {
            wait();
        } catch (const std::exception&) {
            return;  // published already, as the inner operation does
        }
    }
    bool test() override {
        link_->poll();
        return transfer_->done(steady_seconds());
    }
    void wait() override {
        transfer_->inner.wait();  // watched by the control plane; what follows is time alone
        const auto over = [this] {
            link_->inner->progress();  // whoever waits moves the others' operations
            return test();
        };
        wait_until(over, nullptr, [] { return 0L; });
    }

private:
    std::shared_ptr<Link> link_;
    std::shared_ptr<Transfer> transfer_;
    int exceptions_;
};

class DelayedCommunicator final : public Communicator {
public:
    DelayedCommunicator(std::unique_ptr<Communicator> inner, const DelaySpec& delay)
        : delay_(delay), link_(std::make_shared<Link>(Link{std::move(inner), {}})), inner_(link_->inner.get()) {}

    [[nodiscard]] int rank() const override { return inner_->rank(); }
    [[nodiscard]] int size() const override { return inner_->size(); }
    [[nodiscard]] std::string_view name() const override { return inner_->name(); }
    [[nodiscard]] i64 bytes_sent() const override { return inner_->bytes_sent(); }
    [[nodiscard]] std::map<std::string, i64, std::less<>> bytes_by_label() const override {
        return inner_->bytes_by_label();
    }
    void progress() override {
        inner_->progress();
        link_->poll();
    }
    Pending all_reduce(void* data, i64 count, Dtype type, ReduceOp op, ReduceOrder order, void* scratch,
                       std::string_view label) override {
        return later(inner_->all_reduce(data, count, type, op, order, scratch, label), count, type, label);
    }
    Pending reduce_scatter(void* out, const void* in, i64 count, Dtype type, ReduceOrder order, void* scratch,
                           std::string_view label) override {
        return later(inner_->reduce_scatter(out, in, count, type, order, scratch, label), size() * count, type, label);
    }
    Pending all_gather(void* out, const void* in, i64 count, Dtype type, std::string_view label) override {
        return later(inner_->all_gather(out, in, count, type, label), size() * count, type, label);
    }
    Pending broadcast(void* data, i64 count, Dtype type, int root, std::string_view label) override {
        return later(inner_->broadcast(data, count, type, root, label), count, type, label);
    }
    Pending barrier(std::string_view label) override { return inner_->barrier(label); }
    Pending reduce(void* data, i64 count, Dtype type, int root, ReduceOrder order, void* scratch,
                   std::string_view label) override {
        return later(inner_->reduce(data, count, type, root, order, scratch, label), count, type, label);
    }
    Pending all_gather_batched(void* out, const void* in, i64 count, i64 batches, Dtype type,
                               std::string_view label) override {
        return later(inner_->all_gather_batched(out, in, count, batches, type, label), size() * count * batches, type,
                     label);
    }
    Pending reduce_scatter_batched(void* out, const void* in, i64 count, i64 batches, Dtype type, ReduceOrder order,
                                   void* scratch, std::string_view label) override {
        return later(inner_->reduce_scatter_batched(out, in, count, batches, type, order, scratch, label),
                     size() * count * batches, type, label);
    }
    Pending send(const void* data, i64 count, Dtype type, int to, std::string_view label) override {
        return later(inner_->send(data, count, type, to, label), count, type, label);
    }
    Pending receive(void* data, i64 count, Dtype type, int from, std::string_view label) override {
        return later(inner_->receive(data, count, type, from, label), count, type, label);
    }
    std::unique_ptr<Communicator> split(int colour, int key, const std::string& name, CollectiveCheck check) override {
        return inner_->split(colour, key, name, check);
    }

private:
    Pending later(Pending inner, i64 count, Dtype type, std::string_view label) {
        const bool slow = delay_.only.empty() || label == delay_.only || fault_active("delay_of_every_label");
        if (count == 0 || size() == 1 || !slow) {
            return inner;
        }
        const double delay = delay_.seconds + delay_.seconds_per_byte * static_cast<double>(count * size_of(type));
        auto transfer = std::make_shared<Transfer>(Transfer{std::move(inner), delay});
        link_->moving.push_back(transfer);
        link_->poll();
        return Pending(std::make_unique<DelayedState>(link_, std::move(transfer)));
    }

    DelaySpec delay_;
    std::shared_ptr<Link> link_;
    Communicator* inner_;
};

}  // namespace

std::unique_ptr<Communicator> make_delayed_communicator(std::unique_ptr<Communicator> inner, const DelaySpec& delay) {
    return std::make_unique<DelayedCommunicator>(std::move(inner), delay);
}

}  // namespace ogrom
