#include <algorithm>
#include <string>
#include <vector>

#include "faults/theorems.hpp"
#include "sabotage/faults.hpp"
#include "support/box_checks.hpp"
#include "support/push_checks.hpp"

// Faults in the bounds over boxes (T-77).

namespace checks {
namespace {

auto boxed(const std::vector<std::string>& blocks) {
  return [blocks]() { return check_box(blocks, 2).violations(); };
}

/// Two elements of which either may be the larger one.
std::int64_t check_extrema() {
  std::int64_t violations = 0;
  for (const double gap : {0.0, 0.5, 0.9}) {
    if (bounds::stays_larger(gap, Magnitude(0.5), 0.0, Magnitude(0.5))) ++violations;
  }
  return violations;
}

}  // namespace

std::vector<BoundFault> box_faults() {
  return {
      {"slopes of the middle of an interval only",
       [](Theorems& r) {
         r.slope_range = [](const Op& op, const Interval& x) {
           return proven::slope_range(op, Interval(x.midpoint()));
         };
       },
       boxed({"gemm", "tanh", "gemm"})},
      {"slopes of two operands in the middle only",
       [](Theorems& r) {
         r.slope_ranges = [](const Op& op, const Interval& a, const Interval& b) {
           return proven::slope_ranges(op, Interval(a.midpoint()), Interval(b.midpoint()));
         };
       },
       boxed({"gemm", "mul", "gemm"})},
      {"the smaller of two operands taken for the larger one",
       [](Theorems& r) {
         r.slope_ranges = [](const Op& op, const Interval& a, const Interval& b) {
           const bool is_min = std::holds_alternative<op::Min>(op);
           return proven::slope_ranges(is_min ? Op(op::Max{}) : op, a, b);
         };
       },
       boxed({"gemm", "min-constant", "gemm"})},
      {"the errors beyond the box forgotten",
       [](Theorems& r) { r.box_reach = [](Magnitude range, Magnitude) { return range; }; },
       boxed({"gemm", "exp", "gemm"})},
      {"the nearer end of a function taken for the farther one",
       [](Theorems& r) {
         r.reach_within = [](double centre, double least, double most) {
           return std::min(most - centre, centre - least);
         };
       },
       []() { return check_whole_range("sin", 1e3).violations; }},
      {"what slopes leave over forgotten",
       [](Theorems& r) { r.left_over = [](const Interval&, double, Magnitude) { return Magnitude(); }; },
       boxed({"gemm", "sin", "gemm"})},
      {"what ranges make of a product's errors forgotten",
       [](Theorems& r) { r.crossed = [](double, double) { return Magnitude(); }; },
       boxed({"gemm", "attention", "gemm"})},
      {"an extremum taken for decided",
       [](Theorems& r) { r.stays_larger = [](double a, Magnitude, double b, Magnitude) { return a >= b; }; },
       check_extrema},
      {"the range of a softmax forgotten",
       [](Theorems& r) {
         r.softmax_left_over = [](Magnitude, Magnitude, Magnitude, Magnitude) { return Magnitude(); };
       },
       boxed({"gemm-scaled", "softmax", "gemm"})},
      {"what products of shares lose by underflow forgotten",
       [](Theorems& r) {
         r.defect = [](double size, std::int64_t roundings, std::int64_t) {
           return proven::defect(size, roundings, 0);
         };
       },
       []() { return check_push_underflow(4, 11).violations; }},
      {"shares of sources forgotten", [](Theorems& r) { r.by_sources = [](Magnitude, Magnitude own) { return own; }; },
       boxed({"gemm", "tanh", "gemm"})},
      {"an element's own source forgotten",
       [](Theorems& r) { r.by_sources = [](Magnitude shares, Magnitude) { return shares; }; },
       boxed({"gemm", "tanh", "gemm"})}};
}

}  // namespace checks
