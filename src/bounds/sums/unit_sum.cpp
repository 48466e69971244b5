#include "bounds/sums/unit_sum.hpp"

#include <algorithm>

#include "bounds/theorems/matrix_unit_sums.hpp"
#include "bounds/theorems/sums.hpp"

namespace driftbound::bounds {

Magnitude unit_sum_error(const UnitSum& sum, const Machine& machine) {
  const Magnitude by_unit = theorems::alignment_factor(sum.products, sum.steps, machine) +
                            theorems::cutting_factor(sum.steps, machine) +
                            theorems::cost_of_parts(sum.steps - 1, *machine.tensor_core);
  const Magnitude by_additions = theorems::any_order_factor(sum.products - 1, machine);
  const Magnitude rounded_products = theorems::any_order_factor(1, machine) * sum.total;
  return std::max(theorems::with_own_growth(by_unit, sum.largest, sum.absolute),
                  theorems::with_own_growth(by_additions, sum.largest, rounded_products + sum.absolute));
}

}  // namespace driftbound::bounds
