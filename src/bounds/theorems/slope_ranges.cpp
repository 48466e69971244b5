#include "bounds/theorems/slope_ranges.hpp"

#include <string>
#include <type_traits>

#include "bounds/theorems/op_traits.hpp"
#include "driftbound/num/errors.hpp"
#include "model/variant.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

[[noreturn]] void refuse(const Op& op) {
  throw InvalidArgument("bounds: " + std::string(name_of(op)) + " has no slopes of its own");
}

struct OfOne {
  const Interval& x;

  Interval operator()(const ElementwiseUnary auto& f) const { return OpTraits<std::decay_t<decltype(f)>>::slope(f, x); }
  Interval operator()(const auto& other) const { refuse(other); }
};

using Pair = std::array<Interval, 2>;

/// Slopes of max(a, b): (1, 0) or (0, 1) if the ranges decide, else both [0, 1]. larger(b, a) gives those of min(a, b).
Pair larger(const Interval& a, const Interval& b) {
  if (a.lower() >= b.upper()) return {1.0, 0.0};
  if (a.upper() <= b.lower()) return {0.0, 1.0};
  return {Interval(0.0, 1.0), Interval(0.0, 1.0)};
}

Pair compared(bool is_decided) {
  return {of_functions::jumping(is_decided), of_functions::jumping(is_decided)};
}

struct OfTwo {
  const Interval &a, &b;

  Pair operator()(const op::Add&) const { return {1.0, 1.0}; }
  Pair operator()(const op::Sub&) const { return {1.0, -1.0}; }
  Pair operator()(const op::Mul&) const { return {b, a}; }
  Pair operator()(const op::Div&) const { return {Interval(1.0) / b, -a / of_functions::square(b)}; }
  Pair operator()(const op::Max&) const { return larger(a, b); }
  Pair operator()(const op::Min&) const { return larger(b, a); }
  Pair operator()(const op::PRelu&) const {
    if (a.lower() >= 0.0) return {1.0, 0.0};
    return {a.upper() <= 0.0 ? b : hull(b, 1.0), of_functions::negative_part(a)};
  }
  Pair operator()(const op::Greater&) const { return compared(a.lower() > b.upper() || a.upper() <= b.lower()); }
  Pair operator()(const op::GreaterOrEqual&) const { return compared(a.lower() >= b.upper() || a.upper() < b.lower()); }
  Pair operator()(const op::Equal&) const { return compared(a.lower() > b.upper() || a.upper() < b.lower()); }
  Pair operator()(const auto& other) const { refuse(other); }
};

}  // namespace

Interval slope_range(const Op& op, const Interval& x) {
  return std::visit(OfOne{x}, op);
}

std::array<Interval, 2> slope_ranges(const Op& op, const Interval& a, const Interval& b) {
  return std::visit(OfTwo{a, b}, op);
}

}  // namespace driftbound::bounds::inline theorems
