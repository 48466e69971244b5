#include "bounds/adjoint/joint_functions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "driftbound/model/op_groups.hpp"

namespace driftbound::bounds {
namespace {

/// A sum, difference, product or the like of two numbers, or a function of one.
bool is_elementwise(const Op& op) {
  return std::visit([]<class T>(const T&) { return ElementwiseUnary<T> || (ElementwiseBinary<T> && !Comparison<T>); },
                    op);
}

/// What a sum or product that was rounded to t is off by, at most.
Magnitude rounding_of(double t) {
  return Magnitude(t) * Magnitude(0x1p-53) + Magnitude(0x1p-1074);
}

double slope_at(const Op& op, const std::vector<std::vector<double>>& slopes, std::size_t slot, std::size_t i) {
  if (slot < slopes.size() && !slopes[slot].empty()) return slopes[slot][i];
  return std::holds_alternative<op::Neg>(op) || (std::holds_alternative<op::Sub>(op) && slot == 1) ? -1.0 : 1.0;
}

}  // namespace

JointFunctions::JointFunctions(const Network& network, const TrajectoryRules& rules)
    : network_(network),
      rules_(rules),
      root_(network.size()),
      meets_(network.size(), 0),
      follows_(network.size(), 0),
      followed_(network.size()) {
  std::iota(root_.begin(), root_.end(), ValueId{0});
  find_roots();
  mark_ways();
}

void JointFunctions::find_roots() {
  const std::vector<Node>& nodes = network_.nodes();
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    const Node& node = nodes[index];
    const bool rounds_to_narrow = !network_.steps().rounding.empty() && network_.steps().rounding[index].has_value();
    if (!network_.varies(node.output) || !is_elementwise(node.op) || rounds_to_narrow) continue;
    root_[node.output] = root_through(node);
  }
}

ValueId JointFunctions::root_through(const Node& node) const {
  std::optional<ValueId> root;
  for (const ValueId id : node.inputs) {
    if (!network_.varies(id)) continue;
    if (network_.shape(id) != network_.shape(node.output) || (root && *root != root_[id])) return node.output;
    root = root_[id];
  }
  return *root;
}

void JointFunctions::mark_ways() {
  const std::vector<Node>& nodes = network_.nodes();
  for (std::size_t index = nodes.size(); index-- > 0;) {
    const Node& node = nodes[index];
    if (root_[node.output] == node.output) continue;
    const bool has_two = node.inputs.size() == 2 && network_.varies(node.inputs[0]) && network_.varies(node.inputs[1]);
    if (has_two) meets_[node.output] = follows_[node.output] = 1;
    for (const ValueId id : node.inputs)
      if (follows_[node.output] != 0 && leads_through(node, id)) follows_[id] = 1;
  }
}

bool JointFunctions::leads_through(const Node& node, ValueId operand) const {
  return network_.varies(operand) && operand != root_[node.output];
}

void JointFunctions::step(std::size_t index, const std::vector<std::vector<double>>& slopes, Radii remainder,
                          const std::vector<ValueRadii>& radii) {
  const Node& node = network_.nodes()[index];
  const Radii of_root = radii[root_[node.output]].element;
  const std::size_t size = static_cast<std::size_t>(element_count(network_.shape(node.output)));
  Followed& followed = followed_[node.output];
  followed.slope.assign(size, 0.0);
  followed.rest.assign(size, 0.0);
  for (std::size_t i = 0; i < size; ++i) {
    double slope = 0.0;
    Magnitude rest = radius_at(remainder, i), rounding;
    for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const ValueId operand = node.inputs[slot];
      if (!network_.varies(operand)) continue;
      const bool leads = leads_through(node, operand);
      const double d = slope_at(node.op, slopes, slot, i), part = leads ? d * followed_[operand].slope[i] : d;
      slope += part;
      rounding += rounding_of(part) + rounding_of(slope);
      if (leads) rest += rules_.moved_by_slope(d, followed_[operand].rest[i]);
    }
    const bool is_finite = std::isfinite(slope);
    followed.slope[i] = is_finite ? slope : 0.0;
    followed.rest[i] = is_finite ? rules_.joint_rest(rest, rounding, radius_at(of_root, i)).value()
                                 : std::numeric_limits<double>::infinity();
  }
}

std::vector<double> JointFunctions::radii(std::size_t index, const std::vector<ValueRadii>& radii) const {
  if (!meets(index)) return {};
  const ValueId id = network_.nodes()[index].output;
  const Radii of_root = radii[root_[id]].element;
  const Followed& followed = followed_[id];
  std::vector<double> joint;
  for (std::size_t i = 0; i < followed.slope.size(); ++i)
    joint.push_back(
        (rules_.moved_by_slope(followed.slope[i], radius_at(of_root, i).value()) + Magnitude(followed.rest[i]))
            .value());
  return joint;
}

std::optional<std::vector<double>> JointFunctions::norms(std::size_t index, const std::vector<ValueRadii>& radii,
                                                         const NormRules& rules) const {
  if (!meets(index)) return std::nullopt;
  const ValueId id = network_.nodes()[index].output;
  const std::vector<double>& of_root = radii[root_[id]].norm;
  const Followed& followed = followed_[id];
  const auto rows = static_cast<std::size_t>(network_.rows(id));
  const std::size_t size = followed.slope.size() / rows;
  std::vector<double> norms;
  for (std::size_t row = 0; row < rows; ++row) {
    double steepest = 0.0;
    for (std::size_t i = row * size; i < (row + 1) * size; ++i)
      steepest = std::max(steepest, std::abs(followed.slope[i]));
    const Magnitude root = of_root.empty() ? Magnitude() : Magnitude(of_root[row]);
    const Magnitude rest = rules.vector(std::span(followed.rest).subspan(row * size, size));
    norms.push_back(rules.sum(rules.function(Magnitude(steepest), root), rest).value());
  }
  return norms;
}

void JointFunctions::add(std::size_t index, Radii errors) {
  std::vector<double>& rest = followed_[network_.nodes()[index].output].rest;
  for (std::size_t i = 0; i < errors.size(); ++i) rest[i] = (Magnitude(rest[i]) + Magnitude(errors[i])).value();
}

}  // namespace driftbound::bounds
