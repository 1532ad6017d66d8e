// Everything under way over MPI in this process. An operation may need several phases, and a rank that waits for one of
// them on one axis must still move those of the others: their partners may be what it waits for. So whoever waits moves
// all communicators of the session.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/comm/communicator.h"
#include "src/comm/control.h"
#include "src/comm/mpi_check.h"
#include "src/comm/operation.h"

namespace ogrom {

// What stands behind one communicator: everything under way on it.
class Mover {
public:
    Mover() = default;
    Mover(const Mover&) = delete;
    Mover& operator=(const Mover&) = delete;
    virtual ~Mover() = default;
    // Tests everything once. May start operations of other communicators, which calls progress() again.
    virtual void advance() = 0;
};

class CommEngine {
public:
    explicit CommEngine(std::shared_ptr<Control> control) : control_(std::move(control)) {}
    void progress();  // tests every outstanding operation once
    void add(Mover* mover) { movers_.push_back(mover); }
    void remove(Mover* mover) { std::erase(movers_, mover); }
    [[nodiscard]] Control& control() { return *control_; }

private:
    std::shared_ptr<Control> control_;
    std::vector<Mover*> movers_;
};

// What outlives a communicator object while its operations are under way: the MPI communicators and the operations.
class Core final : public Mover, public std::enable_shared_from_this<Core> {
public:
    Core(MPI_Comm comm, MPI_Comm compare_comm, std::shared_ptr<CommEngine> engine, std::string axis);
    ~Core() override;  // frees both, unless operations were left open or the job is ending
    [[nodiscard]] MPI_Comm comm() const { return comm_; }
    [[nodiscard]] MPI_Comm compare_comm() const { return compare_comm_; }  // MPI_COMM_NULL = not comparing
    [[nodiscard]] CommEngine& engine() { return *engine_; }
    [[nodiscard]] const std::string& axis() const { return axis_; }
    [[nodiscard]] bool idle() const { return outstanding_.empty(); }
    Pending start(i64 ticket, std::unique_ptr<Operation> operation);

    void advance() override;

private:
    MPI_Comm comm_, compare_comm_;
    std::shared_ptr<CommEngine> engine_;
    std::string axis_;
    std::vector<std::shared_ptr<Operation>> outstanding_;
};

}  // namespace ogrom
