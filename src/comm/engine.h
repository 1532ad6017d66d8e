// Everything under way over MPI in this process. An operation may need several phases, and a rank that waits for one of
// them on one axis must still move those of the others: their partners may be what it waits for. So whoever waits moves
// all communicators of the session.
#pragma once
#include <memory>
#include <vector>

#include "src/comm/communicator.h"
#include "src/comm/control.h"
#include "src/comm/mpi_check.h"
#include "src/comm/operation.h"

namespace ogrom {

class Core;

class CommEngine {
public:
    explicit CommEngine(std::shared_ptr<Control> control) : control_(std::move(control)) {}
    void progress();  // tests every outstanding operation once
    [[nodiscard]] Control& control() { return *control_; }

private:
    friend class Core;
    std::shared_ptr<Control> control_;
    std::vector<Core*> cores_;
};

// What outlives a communicator object while its operations are under way: the MPI communicators and the operations.
class Core : public std::enable_shared_from_this<Core> {
public:
    Core(MPI_Comm comm, MPI_Comm compare_comm, std::shared_ptr<CommEngine> engine);
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;
    ~Core();  // frees both, unless operations were left open or the job is ending
    [[nodiscard]] MPI_Comm comm() const { return comm_; }
    [[nodiscard]] MPI_Comm compare_comm() const { return compare_comm_; }  // MPI_COMM_NULL = not comparing
    [[nodiscard]] CommEngine& engine() { return *engine_; }
    [[nodiscard]] bool idle() const { return outstanding_.empty(); }
    Pending start(i64 ticket, std::unique_ptr<Operation> operation);

private:
    friend class CommEngine;
    void advance();
    MPI_Comm comm_, compare_comm_;
    std::shared_ptr<CommEngine> engine_;
    std::vector<std::shared_ptr<Operation>> outstanding_;
};

}  // namespace ogrom
