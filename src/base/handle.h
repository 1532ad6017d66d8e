// Owner of a C handle: moves by exchange, destroys once, never throws from the destructor.
// Traits: `using type`, `static constexpr type empty`, `static void destroy(type) noexcept`.
#pragma once
#include <utility>

namespace ogrom {

template <class Traits>
class Handle {
public:
    using type = typename Traits::type;
    Handle() = default;
    explicit Handle(type value) noexcept : value_(value) {}
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, Traits::empty)) {}
    Handle& operator=(Handle&& other) noexcept {
        if (this != &other) {
            reset(std::exchange(other.value_, Traits::empty));
        }
        return *this;
    }
    ~Handle() { reset(); }

    [[nodiscard]] type get() const noexcept { return value_; }
    [[nodiscard]] explicit operator bool() const noexcept { return value_ != Traits::empty; }
    type release() noexcept { return std::exchange(value_, Traits::empty); }
    void reset(type value = Traits::empty) noexcept {
        const type old = std::exchange(value_, value);
        if (old != Traits::empty) {
            Traits::destroy(old);
        }
    }

private:
    type value_ = Traits::empty;
};

}  // namespace ogrom
