#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "support/theorems.hpp"

// The theorems as a table of functions, so that a test can replace one by a wrong one and see that a check notices. A
// program that links `faulty_theorems` calls every theorem through the table in force; the library itself knows nothing
// of it.

namespace driftbound::bounds {

using SlopePair = std::array<Interval, 2>;

/// The theorems as they are: the same functions, whatever table is in force.
namespace proven_theorems {
#define THEOREM(result, name, parameters, arguments) decltype(theorems::name) name;
#define FORWARD THEOREM
#include "faults/theorems_of_bounds.inc"
#include "faults/theorems_of_double_double.inc"
THEOREM(, row_kernels, , )
THEOREM(, sum_kernels, , )
}  // namespace proven_theorems
}  // namespace driftbound::bounds

namespace driftbound::implicit::proven_theorems {
#include "faults/theorems_of_implicit.inc"
}  // namespace driftbound::implicit::proven_theorems

namespace driftbound::num::proven_theorems {
#include "faults/theorems_of_num.inc"
}  // namespace driftbound::num::proven_theorems
#undef FORWARD
#undef THEOREM

namespace proven {
using namespace driftbound::bounds::proven_theorems;
using namespace driftbound::implicit::proven_theorems;
using namespace driftbound::num::proven_theorems;
}  // namespace proven

namespace checks {

/// A theorem for every name, by default the one of that name.
struct Theorems {
#define THEOREM(result, name, parameters, arguments) decltype(&proven::name) name = proven::name;
#define FORWARD(result, name, parameters, arguments)
#include "faults/theorems_of_bounds.inc"
#include "faults/theorems_of_double_double.inc"
#include "faults/theorems_of_implicit.inc"
#include "faults/theorems_of_num.inc"
#undef FORWARD
#undef THEOREM
  driftbound::bounds::RowKernels rows = proven::row_kernels();
  driftbound::bounds::SumKernels sums = proven::sum_kernels();
};

/// The table in force, in every thread.
const Theorems& theorems_in_force();

/// Puts a table in force, in every thread, until the object is destroyed.
class ScopedTheorems {
public:
  explicit ScopedTheorems(const Theorems& replacement);
  ~ScopedTheorems();
  ScopedTheorems(const ScopedTheorems&) = delete;
  ScopedTheorems& operator=(const ScopedTheorems&) = delete;

private:
  Theorems replacement_;
  const Theorems* previous_;
};

/// The names of the theorems of one list, and the places in tables of kernels, at which all of these tables are right.
std::vector<std::string> same_in_all_of_bounds(std::span<const Theorems> faulty);
std::vector<std::string> same_in_all_of_double_double(std::span<const Theorems> faulty);
std::vector<std::string> same_in_all_of_implicit(std::span<const Theorems> faulty);
std::vector<std::string> same_in_all_of_num(std::span<const Theorems> faulty);

/// The theorems with one fault.
inline Theorems with_fault(const std::function<void(Theorems&)>& inject) {
  Theorems faulty;
  inject(faulty);
  return faulty;
}

}  // namespace checks
