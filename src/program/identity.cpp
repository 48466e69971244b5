#include "program/identity.hpp"

#include <atomic>

namespace driftbound {

std::uint64_t new_identity() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace driftbound
