#include "implicit/workspace.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace driftbound::implicit {
namespace {

constexpr std::align_val_t alignment{64};

}  // namespace

AlignedDoubles::AlignedDoubles(std::size_t size)
    : values_(static_cast<double*>(::operator new[](std::max<std::size_t>(size, 1) * sizeof(double), alignment))) {
  std::fill_n(values_.get(), size, 0.0);
}

void AlignedDoubles::Free::operator()(double* p) const {
  ::operator delete[](p, alignment);
}

std::unique_ptr<Workspace> Workspaces::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      std::unique_ptr<Workspace> taken = std::move(spare_.back());
      spare_.pop_back();
      return taken;
    }
  }
  return std::make_unique<Workspace>(size_);
}

void Workspaces::give_back(std::unique_ptr<Workspace> workspace) {
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(workspace));
}

}  // namespace driftbound::implicit
