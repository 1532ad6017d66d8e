#include "src/io/io_thread.h"

namespace ogrom {

IoThread::IoThread() : thread_([this] { loop(); }) {}

IoThread::~IoThread() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    wake_.notify_one();
    thread_.join();
}

void IoThread::push(std::function<void()> task) {
    {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
}

void IoThread::loop() {
    while (true) {
        std::function<void()> task;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
            if (tasks_.empty()) {
                return;
            }
            task = std::move(tasks_.front());
            tasks_.pop_front();
        }
        task();
    }
}

IoThread& io_thread() {
    static IoThread thread;
    return thread;
}

}  // namespace ogrom
