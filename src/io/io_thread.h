// The one thread that calls HDF5 (Debian's library is not thread-safe). Tasks run in the order of submission; MPI stays
// on the caller's thread. Not submitted from within a task (that would wait for itself).
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <type_traits>

namespace ogrom {

class IoThread {
public:
    IoThread();
    ~IoThread();  // runs what was submitted, then ends
    IoThread(const IoThread&) = delete;
    IoThread& operator=(const IoThread&) = delete;

    // The future rethrows what the task threw.
    template <class Task>
    auto submit(Task task) -> std::future<std::invoke_result_t<Task>> {
        auto packaged = std::make_shared<std::packaged_task<std::invoke_result_t<Task>()>>(std::move(task));
        auto future = packaged->get_future();
        push([packaged] { (*packaged)(); });
        return future;
    }

private:
    void push(std::function<void()> task);
    void loop();
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<void()>> tasks_;
    bool ending_ = false;
    std::thread thread_;
};

// HDF5 keeps one state per process, so the process has one thread for it; started at first use.
IoThread& io_thread();

// Runs `task` on the I/O thread and waits.
template <class Task>
auto on_io_thread(Task task) {
    return io_thread().submit(std::move(task)).get();
}

}  // namespace ogrom
