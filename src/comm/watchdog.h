// The thread that sees what MPI cannot tell: a dead process, a silent one, a job in which nobody moves, a launcher that
// is gone, a lost node. It makes no MPI call. The first to see a failure claims it (comm/control); one message is
// printed by the claimer on node 0 (reports of other nodes travel over comm/links); then every process of the job ends
// with the failure's exit code.
#pragma once
#include <memory>
#include <vector>

#include "src/comm/control.h"
#include "src/comm/launch.h"
#include "src/comm/links.h"

namespace ogrom {

class Watchdog {
public:
    // Watches the launcher and the start-up deadline until attach().
    explicit Watchdog(double timeout_s);
    ~Watchdog();  // stops and joins
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    struct Links {
        std::vector<LinkEnd> ends;  // hub: one per other node; leader of another node: one; else none
        u64 token = 0;
        int hub_ranks = 1;  // ranks on node 0
    };
    // From here on all ranks of the node are registered in `control`.
    void attach(std::shared_ptr<Control> control, Links links);
    // This process prints and ends by itself (Session::abort): more patience before the thread ends it.
    void leaving();
    // A clean end: the other nodes need not watch this link any more.
    void say_goodbye();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ogrom
