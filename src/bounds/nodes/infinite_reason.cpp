#include "bounds/nodes/infinite_reason.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "model/variant.hpp"

namespace driftbound::bounds {
namespace {

/// The ends between which an operand of the element may lie.
struct Ends {
  double lower, upper;
  bool includes(double x) const { return lower <= x && x <= upper; }
  std::string text() const {
    const std::string first = fmt::format("{:.3g}", lower), last = fmt::format("{:.3g}", upper);
    if (first != last || lower == upper) return "between " + first + " and " + last;
    const double middle = std::strtod(first.c_str(), nullptr);
    return fmt::format("within {:.2g} of {}", std::max(std::abs(lower - middle), std::abs(upper - middle)), first);
  }
};

class Reason {
public:
  Reason(const NodeView& view, std::span<const Radii> radii, std::size_t element, double largest)
      : view_(view), radii_(radii), element_(element), largest_(largest) {}

  std::string operator()(const op::Div&) const {
    const Ends divisor = ends(1);
    return divisor.includes(0.0) ? "its divisor lies " + divisor.text() : other();
  }
  std::string operator()(const OneOf<op::Reciprocal, op::Log, op::Sqrt, op::Pow> auto& f) const {
    const Ends argument = ends(0);
    if (argument.lower > 0.0) return other();
    return fmt::format("the argument of {} lies {}", f.name, argument.text());
  }
  std::string operator()(const OneOf<op::Floor, op::Ceil, op::Round, op::Sign, op::ThresholdedRelu> auto& f) const {
    return fmt::format("its exact argument is at a jump of {}: it lies {}", f.name, ends(0).text());
  }
  std::string operator()(const Comparison auto& f) const {
    return fmt::format("{} compares numbers that may be equal: one lies {}, the other {}", f.name, ends(0).text(),
                       ends(1).text());
  }
  std::string operator()(const op::Tan&) const { return "the argument of Tan lies " + ends(0).text(); }
  std::string operator()(const Composite auto&) const {
    return leaves_format() ? overflow() : "no finite bound inside of its body";
  }
  std::string operator()(const auto&) const { return other(); }

private:
  Ends ends(std::size_t slot) const {
    const Tensor<double>& operand = view_.input(slot);
    const bool broadcasts = element_count(operand.shape) > 0 && view_.output != nullptr;
    const std::size_t at = broadcasts ? BroadcastIndex(operand.shape, view_.output->shape)(element_) : 0;
    const double x = operand.values[at], e = radius_at(radii_[slot], at).value();
    return {x - e, x + e};
  }
  bool leaves_format() const {
    const double y = std::abs(view_.y(element_));
    return !(y <= largest_) || !std::isfinite(y) || y > 0x1p-2 * largest_;
  }
  std::string overflow() const {
    return fmt::format("the result, about {:.3g}, may leave the format, whose largest number is {:.6g}",
                       view_.y(element_), largest_);
  }
  std::string other() const {
    if (leaves_format()) return overflow();
    double widest = 0.0;
    for (const Radii radii : radii_)
      for (const double radius : radii) widest = std::max(widest, radius);
    return fmt::format("what its operands may be off, up to {:.3g}, is too much for a finite statement", widest);
  }

  const NodeView& view_;
  std::span<const Radii> radii_;
  const std::size_t element_;
  const double largest_;
};

}  // namespace

std::optional<std::size_t> first_infinite(Radii radii) {
  const auto found = std::find_if(radii.begin(), radii.end(), [](double radius) { return !std::isfinite(radius); });
  if (found == radii.end()) return std::nullopt;
  return static_cast<std::size_t>(found - radii.begin());
}

std::string infinite_reason(const NodeView& view, std::span<const Radii> radii, std::size_t element, double largest) {
  return std::visit(Reason(view, radii, element, largest), view.node->op);
}

}  // namespace driftbound::bounds
