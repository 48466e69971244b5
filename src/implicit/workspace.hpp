#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace driftbound::implicit {

/// Numbers at multiples of 64 bytes, 0 at first.
class AlignedDoubles {
public:
  AlignedDoubles() = default;
  explicit AlignedDoubles(std::size_t size);
  double* data() { return values_.get(); }
  const double* data() const { return values_.get(); }
  double& operator[](std::size_t i) { return values_.get()[i]; }

private:
  struct Free {
    void operator()(double* p) const;
  };
  std::unique_ptr<double[], Free> values_;
};

/// What one thread writes to.
using Workspace = AlignedDoubles;

/// Workspaces of one size, kept from call to call. Thread-safe.
class Workspaces {
public:
  explicit Workspaces(std::size_t size) : size_(size) {}
  std::unique_ptr<Workspace> take();
  void give_back(std::unique_ptr<Workspace> workspace);

private:
  std::size_t size_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> spare_;
};

}  // namespace driftbound::implicit
