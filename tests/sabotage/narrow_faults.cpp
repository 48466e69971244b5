#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "faults/theorems.hpp"
#include "sabotage/faults.hpp"
#include "support/overflow_checks.hpp"
#include "support/rounded_checks.hpp"

// Faults in the rounded shadow: hulls, what roundings pass on, and its distance from the shadow (T-76).

namespace checks {
namespace {

using bounds::Hull;
using bounds::NarrowRounding;
using bounds::RoundedElement;

std::int64_t of_numbers() {
  return check_roundings(2'000, 1).violations();
}

std::int64_t of_networks() {
  return check_narrow_networks({"gemm", "relu", "gemm", "tanh", "matmul"}, narrow_runs(), 6, 2).violations();
}

std::int64_t of_norms() {
  return check_rounded_norms(500, 3).violations;
}

RoundedElement with_half_radius(RoundedElement element) {
  element.radius *= 0.5;
  return element;
}

RoundedElement with_half_remainder(RoundedElement element) {
  element.remainder *= 0.5;
  return element;
}

}  // namespace

std::vector<BoundFault> narrow_faults() {
  return {
      {"a hull is that of the centre, in numbers",
       [](Theorems& r) {
         r.hull_rounded = [](double x, double, const NarrowRounding& how) { return proven::hull_rounded(x, 0.0, how); };
       },
       of_numbers},
      {"a hull is that of the centre, in networks",
       [](Theorems& r) {
         r.hull_rounded = [](double x, double, const NarrowRounding& how) { return proven::hull_rounded(x, 0.0, how); };
       },
       of_networks},
      {"a directed rounding that stops at the largest number taken for one that does not",
       [](Theorems& r) {
         r.largest_rounding = [](double largest, const NarrowRounding& how) {
           return proven::largest_rounding(std::min(largest, how.format->largest), how);
         };
       },
       of_numbers},
      {"what storing makes infinite taken for finite",
       [](Theorems& r) {
         r.unrecorded_storing = [](Magnitude largest, const bounds::Machine& machine) {
           return proven::unrecorded_storing(std::min(largest, Magnitude(machine.output->largest)), machine);
         };
       },
       check_stored_overflow},
      {"a hull forgets its upper end",
       [](Theorems& r) {
         r.hull_rounded = [](double x, double radius, const NarrowRounding& how) {
           const Hull hull = proven::hull_rounded(x, radius, how);
           return Hull{hull.lower, std::max(hull.lower, proven::hull_rounded(x, 0.0, how).upper)};
         };
       },
       of_numbers},
      {"ties go one way where they are open",
       [](Theorems& r) {
         r.hull_rounded = [](double x, double radius, const NarrowRounding& how) {
           return proven::hull_rounded(x, radius, {how.format, how.rounding, false, how.may_flush});
         };
       },
       of_numbers},
      {"what may be flushed is kept",
       [](Theorems& r) {
         r.hull_rounded = [](double x, double radius, const NarrowRounding& how) {
           return proven::hull_rounded(x, radius, {how.format, how.rounding, how.ties_are_open, false});
         };
       },
       of_numbers},
      {"two columns of a product take one number for the same",
       [](Theorems& r) { r.read_otherwise = [](double, double, Magnitude, const Format&) { return Magnitude(); }; },
       []() {
         const float rounds_to_normal = 0x1p-14f * (1.0f - 0x1p-20f);
         return check_readers({FormatId::fp16, FormatId::fp32, true}, {rounds_to_normal}, {}, 20).violations();
       }},
      {"a rounding errs by a quarter of a quantum",
       [](Theorems& r) {
         r.largest_rounding = [](double largest, const NarrowRounding& how) {
           return Magnitude(0.5) * proven::largest_rounding(largest, how);
         };
       },
       of_numbers},
      {"half of an ambiguous rounding's radius",
       [](Theorems& r) {
         r.rounded_element = [](double x, double radius, const Hull& hull, Magnitude largest) {
           return with_half_radius(proven::rounded_element(x, radius, hull, largest));
         };
       },
       of_numbers},
      {"half of what a rounding adds to what it passes on",
       [](Theorems& r) {
         r.rounded_element = [](double x, double radius, const Hull& hull, Magnitude largest) {
           return with_half_remainder(proven::rounded_element(x, radius, hull, largest));
         };
       },
       of_numbers},
      {"roundings beyond a quantum pass nothing on",
       [](Theorems& r) {
         r.rounded_element = [](double x, double radius, const Hull& hull, Magnitude largest) {
           RoundedElement element = proven::rounded_element(x, radius, hull, largest);
           element.slope = 0.0;
           return element;
         };
       },
       of_numbers},
      {"the norm of rounded rows forgets what was handed on",
       [](Theorems& r) {
         r.rounded_norm = [](Magnitude by_elements, Magnitude, Magnitude roundings) {
           return std::min(by_elements, roundings);
         };
       },
       of_norms},
      {"the rounded shadow is taken for the shadow",
       [](Theorems& r) {
         r.through_rounded_shadow = [](Magnitude from_rounded_shadow, Magnitude) { return from_rounded_shadow; };
       },
       of_networks},
  };
}

}  // namespace checks
