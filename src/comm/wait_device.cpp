#include "src/comm/wait_device.h"

#include "src/comm/communicator_mpi_class.h"
#include "src/comm/stream_mark.h"
#include "src/comm/wait.h"
#include "src/device/queue.h"

namespace ogrom {

void wait_for_device(Communicator& world, Stream stream) {
    const auto* mpi = dynamic_cast<const MpiCommunicator*>(&world);
    if (mpi == nullptr) {
        wait(stream);
        return;
    }
    StreamMark last;
    last.record(stream);
    const auto passed = [&] {
        mpi->options().engine->progress();
        return last.passed();
    };
    wait_until(passed, mpi->options().control.get(), [] { return 0L; });
}

}  // namespace ogrom
