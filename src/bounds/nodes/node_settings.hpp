#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

/// The machine of a product that is, or is inside of, a node whose kernel was found; empty for others.
/// Source:    docs/theory.md T-170
std::optional<Machine> found_machine(const Op& op, std::size_t node_of_graph, const Graph& graph,
                                     const Setting& setting);

/// The settings by which the nodes of a program round: they differ in the format that results are stored in and, for
/// sums in order, in the kernels that were found.
class NodeSettings {
public:
  enum class Sums { in_any_order, in_order };
  /// `setting` must outlive the object, unless the nodes store their results in different formats.
  NodeSettings(const Program& program, const Setting& setting, Sums sums = Sums::in_any_order);

  const Setting& operator[](std::size_t node) const { return *of_node_[node]; }
  /// The largest finite number that a run may store in a value; an input or a constant is a number of the accumulator.
  double largest(ValueId id) const { return stored_[id]->largest; }
  /// Half of a number that is two units in the last place above the largest one (four in double). Values of a run before their rounding,
  /// which is known not to overflow, may lie beyond the largest number but not beyond that. Its half is a double.
  double half_beyond_largest(ValueId id) const;

private:
  std::map<FormatId, Setting> by_output_;
  std::deque<Setting> found_;
  std::vector<const Setting*> of_node_;
  std::vector<const Format*> stored_;  ///< by value: its format in a run
};

}  // namespace driftbound::bounds
