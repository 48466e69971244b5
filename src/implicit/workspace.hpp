#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace driftbound::implicit {

/// Numbers at multiples of 64 bytes, 0 at first.
template <class Real>
class Aligned {
public:
  Aligned() = default;
  explicit Aligned(std::size_t size);
  Real* data() { return values_.get(); }
  const Real* data() const { return values_.get(); }
  Real& operator[](std::size_t i) { return values_.get()[i]; }

private:
  struct Free {
    void operator()(Real* p) const;
  };
  std::unique_ptr<Real[], Free> values_;
};

using AlignedDoubles = Aligned<double>;

/// What one thread writes to.
using Workspace = AlignedDoubles;
using FloatWorkspace = Aligned<float>;

/// Memory kept from call to call. Thread-safe.
template <class T>
class Spares {
public:
  /// Null where there is none.
  std::unique_ptr<T> take() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return nullptr;
    std::unique_ptr<T> taken = std::move(spare_.back());
    spare_.pop_back();
    return taken;
  }
  void give_back(std::unique_ptr<T> memory) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(memory));
  }

private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> spare_;
};

/// Workspaces of one size, kept from call to call. Thread-safe.
template <class Real>
class WorkspacesOf {
public:
  explicit WorkspacesOf(std::size_t size) : size_(size) {}
  std::unique_ptr<Aligned<Real>> take() {
    std::unique_ptr<Aligned<Real>> taken = spares_.take();
    return taken != nullptr ? std::move(taken) : std::make_unique<Aligned<Real>>(size_);
  }
  void give_back(std::unique_ptr<Aligned<Real>> workspace) { spares_.give_back(std::move(workspace)); }

private:
  std::size_t size_;
  Spares<Aligned<Real>> spares_;
};
using Workspaces = WorkspacesOf<double>;
using FloatWorkspaces = WorkspacesOf<float>;

}  // namespace driftbound::implicit
