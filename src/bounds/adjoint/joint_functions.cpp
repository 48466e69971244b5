#include "bounds/adjoint/joint_functions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "bounds/theorems/norms.hpp"
#include "bounds/theorems/trajectories.hpp"
#include "driftbound/model/op_groups.hpp"

namespace driftbound::bounds {
namespace {

/// Sets of paths with more nodes in total are ignored.
constexpr std::size_t most_nodes = 64;

/// Whether an op is a function of one element, or of two elements except for comparisons.
bool is_elementwise(const Op& op) {
  return std::visit([]<class T>(const T&) { return ElementwiseUnary<T> || (ElementwiseBinary<T> && !Comparison<T>); },
                    op);
}

/// Returns a bound of the error of a sum or product in double whose rounded result is t.
Magnitude rounding_of(double t) {
  return Magnitude(t) * Magnitude(0x1p-53) + Magnitude(0x1p-1074);
}

double slope_at(const Op& op, const std::vector<std::vector<double>>& slopes, std::size_t slot, std::size_t i) {
  if (slot < slopes.size() && !slopes[slot].empty()) return slopes[slot][i];
  return std::holds_alternative<op::Neg>(op) || (std::holds_alternative<op::Sub>(op) && slot == 1) ? -1.0 : 1.0;
}

}  // namespace

JointFunctions::JointFunctions(const Program& program)
    : program_(program), made_by_(program.size()), before_(program.size()), ways_(program.nodes().size()) {
  for (std::size_t node = 0; node < program.nodes().size(); ++node) {
    made_by_[program.nodes()[node].output] = node;
    const Node& of = program.nodes()[node];
    before_[of.output] = last_before(of);
    const bool has_two = of.inputs.size() == 2 && program.varies(of.inputs[0]) && program.varies(of.inputs[1]);
    if (has_two && before_[of.output]) ways_[node] = ways_to(node);
  }
}

std::optional<ValueId> JointFunctions::last_before(const Node& node) const {
  if (!program_.varies(node.output) || !is_elementwise(node.op)) return std::nullopt;
  std::optional<ValueId> last;
  for (const ValueId id : node.inputs) {
    if (!program_.varies(id)) continue;
    if (program_.shape(id) != program_.shape(node.output)) return std::nullopt;
    last = last ? last_in_common(*last, id) : id;
    if (!last) return std::nullopt;
  }
  return last;
}

/// Steps back along before_ from the value that is computed later until both values are the same. This is correct since
/// nodes are in topological order.
std::optional<ValueId> JointFunctions::last_in_common(ValueId a, ValueId b) const {
  while (a != b) {
    ValueId& later = made_by_[a] > made_by_[b] ? a : b;
    if (!before_[later]) return std::nullopt;
    later = *before_[later];
  }
  return a;
}

std::vector<std::size_t> JointFunctions::ways_to(std::size_t node) const {
  const std::vector<Node>& nodes = program_.nodes();
  const ValueId u = *before_[nodes[node].output];
  std::set<std::size_t> ways = {node};
  std::vector<std::size_t> open = {node};
  while (!open.empty() && ways.size() <= most_nodes) {
    const Node& of = nodes[open.back()];
    open.pop_back();
    for (const ValueId id : of.inputs) {
      if (!program_.varies(id) || id == u) continue;
      const std::size_t before = *made_by_[id];
      if (ways.insert(before).second) open.push_back(before);
    }
  }
  if (ways.size() > most_nodes) return {};
  return {ways.begin(), ways.end()};
}

JointFunctions::Followed JointFunctions::follow(std::size_t index, const std::map<ValueId, Followed>& before, ValueId u,
                                                const Deviation& known) const {
  const Node& node = program_.nodes()[index];
  const Radii of_u = known.radii[u].element;
  const auto size = static_cast<std::size_t>(element_count(program_.shape(node.output)));
  Followed followed{std::vector<double>(size), std::vector<double>(size)};
  for (std::size_t i = 0; i < size; ++i) {
    double slope = 0.0;
    Magnitude rest = radius_at(known.remainder[node.output], i), rounding;
    for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const ValueId operand = node.inputs[slot];
      if (!program_.varies(operand)) continue;
      const Followed* way = operand == u ? nullptr : &before.at(operand);
      const double d = slope_at(node.op, known.slopes[index], slot, i), part = way != nullptr ? d * way->slope[i] : d;
      slope += part;
      rounding += rounding_of(part) + rounding_of(slope);
      if (way != nullptr) rest += theorems::moved_by_slope(d, way->rest[i]);
    }
    const bool is_finite = std::isfinite(slope);
    followed.slope[i] = is_finite ? slope : 0.0;
    followed.rest[i] = is_finite ? theorems::joint_rest(rest, rounding, radius_at(of_u, i)).value()
                                 : std::numeric_limits<double>::infinity();
  }
  return followed;
}

JointMove JointFunctions::moved(std::size_t node, const Deviation& known) const {
  const std::vector<Node>& nodes = program_.nodes();
  const ValueId v = nodes[node].output, u = *before_[v];
  std::map<ValueId, Followed> followed;
  for (const std::size_t index : ways_[node]) {
    const ValueId id = nodes[index].output;
    Followed& way = followed[id] = follow(index, followed, u, known);
    const std::vector<double>& added = known.added[id];
    for (std::size_t i = 0; index != node && i < added.size(); ++i)
      way.rest[i] = (Magnitude(way.rest[i]) + Magnitude(added[i])).value();
  }
  return of_last(followed[v], v, known.radii[u]);
}

JointMove JointFunctions::of_last(const Followed& last, ValueId v, const ValueRadii& of_u) const {
  const auto rows = static_cast<std::size_t>(program_.rows(v));
  const std::size_t size = last.slope.size() / rows;
  JointMove moved{std::vector<double>(last.slope.size()), std::vector<double>(rows)};
  for (std::size_t i = 0; i < last.slope.size(); ++i) {
    const Magnitude by_slope = theorems::moved_by_slope(last.slope[i], radius_at(of_u.element, i).value());
    moved.element[i] = (by_slope + Magnitude(last.rest[i])).value();
  }
  for (std::size_t row = 0; row < rows; ++row) {
    double steepest = 0.0;
    for (std::size_t i = row * size; i < (row + 1) * size; ++i) steepest = std::max(steepest, std::abs(last.slope[i]));
    const Magnitude norm = of_u.norm.empty() ? Magnitude() : Magnitude(of_u.norm[row]);
    const Magnitude rest = theorems::norm_of_vector(std::span(last.rest).subspan(row * size, size));
    moved.norm[row] = theorems::norm_of_sum(theorems::norm_of_function(Magnitude(steepest), norm), rest).value();
  }
  return moved;
}

}  // namespace driftbound::bounds
