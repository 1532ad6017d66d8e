#include "src/comm/engine.h"

#include <algorithm>
#include <exception>

#include "src/comm/wait.h"

namespace ogrom {
namespace {

class MpiState final : public Pending::State {
public:
    MpiState(std::shared_ptr<Core> core, std::shared_ptr<Operation> operation)
        : core_(std::move(core)), operation_(std::move(operation)), exceptions_(std::uncaught_exceptions()) {}
    MpiState(const MpiState&) = delete;
    MpiState& operator=(const MpiState&) = delete;
    ~MpiState() override {
        // While an exception unwinds the peers may never come: the operation stays with the core and the job ends.
        if (operation_->done || std::uncaught_exceptions() > exceptions_ || core_->engine().control().failed()) {
            return;
        }
        try {
            wait();
        } catch (const std::exception&) {
            // The failure is published already; the next collective throws it where it can be caught.
            return;
        }
    }
    bool test() override {
        if (!operation_->done) {
            core_->engine().control().check();
            core_->engine().progress();
        }
        return operation_->done;
    }
    void wait() override {
        Control& control = core_->engine().control();
        const double begin = control.notes_waits() ? steady_seconds() : 0;
        wait_until([this] { return test(); }, &control, [this] { return operation_->completed(); });
        if (begin > 0) {
            control.note_wait(operation_->ticket, core_->axis(), begin);
        }
    }

private:
    std::shared_ptr<Core> core_;
    std::shared_ptr<Operation> operation_;
    int exceptions_;
};

}  // namespace

void CommEngine::progress() {
    for (Mover* mover : movers_) {
        mover->advance();
    }
}

Core::Core(MPI_Comm comm, MPI_Comm compare_comm, std::shared_ptr<CommEngine> engine, std::string axis)
    : comm_(comm), compare_comm_(compare_comm), engine_(std::move(engine)), axis_(std::move(axis)) {
    engine_->add(this);
}

Core::~Core() {
    engine_->remove(this);
    int finalized = 0;
    MPI_Finalized(&finalized);
    // With operations left open the job is ending: freeing would wait for the others.
    if (finalized != 0 || !outstanding_.empty() || engine_->control().failed()) {
        return;
    }
    MPI_Comm_free(&comm_);
    if (compare_comm_ != MPI_COMM_NULL) {
        MPI_Comm_free(&compare_comm_);
    }
}

void Core::advance() {
    for (const std::shared_ptr<Operation>& operation : outstanding_) {
        if (!operation->done && operation->advance()) {
            operation->done = true;
            engine_->control().collective_done(operation->ticket);
        }
    }
    std::erase_if(outstanding_, [](const std::shared_ptr<Operation>& operation) { return operation->done; });
}

Pending Core::start(i64 ticket, std::unique_ptr<Operation> operation) {
    std::shared_ptr<Operation> shared = std::move(operation);
    shared->ticket = ticket;
    outstanding_.push_back(shared);
    engine_->progress();
    Control& control = engine_->control();
    if (const FlightEntry* const entry = control.notes_waits() ? control.flight.of_ticket(ticket) : nullptr) {
        control.note_wait(ticket, axis_, entry->issued_s);  // MPI moves data in the calls themselves
    }
    return Pending(std::make_unique<MpiState>(shared_from_this(), std::move(shared)));
}

}  // namespace ogrom
