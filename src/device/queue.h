// The queues of this rank's device: kernels of the step, transfers between ranks, copies to and from the host.
#pragma once
#include "kernels/common/stream.h"

#include "src/device/select.h"

namespace ogrom {

class Queues {
public:
    // On a GPU it becomes the device of the calling thread. On the CPU all three are the thread itself.
    explicit Queues(const Device& device);
    ~Queues();
    Queues(const Queues&) = delete;
    Queues& operator=(const Queues&) = delete;

    Stream compute, communication, copy;
};

// Waits on the host for everything enqueued so far; nothing on the CPU.
void wait(Stream stream);

}  // namespace ogrom
