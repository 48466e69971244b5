#pragma once

#include "driftbound/model/op_groups.hpp"

namespace driftbound {

/// One function per alternative for std::visit. Nothing here accepts every type: an op that no overload
/// names does not compile.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace driftbound
