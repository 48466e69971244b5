#include "implicit/workspace.hpp"

#include <algorithm>
#include <new>

namespace driftbound::implicit {
namespace {

constexpr std::align_val_t alignment{64};

}  // namespace

template <class Real>
Aligned<Real>::Aligned(std::size_t size)
    : values_(static_cast<Real*>(::operator new[](std::max<std::size_t>(size, 1) * sizeof(Real), alignment))) {
  std::fill_n(values_.get(), size, Real{0});
}

template <class Real>
void Aligned<Real>::Free::operator()(Real* p) const {
  ::operator delete[](p, alignment);
}

template class Aligned<double>;
template class Aligned<float>;

}  // namespace driftbound::implicit
