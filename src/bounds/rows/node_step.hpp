#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bounds/adjoint/joint_functions.hpp"
#include "bounds/rows/run_step.hpp"

namespace driftbound::bounds {

/// A program for one sample, with what the steps of its nodes need to know of all nodes.
class SampleProgram {
public:
  /// `program`: for one sample. `constants`: by value; null for values that are no constants. Those that are constant
  /// matrices of products outlive the object; the others are copied
  SampleProgram(std::shared_ptr<const Program> program, const std::vector<const Tensor<double>*>& constants);

  /// Whether paths from one value meet in a node of Program::fused(), and all nodes on them have rows (T-125).
  bool bounds_jointly(std::size_t node) const;
  bool is_input(ValueId id) const {
    const std::vector<ValueId>& inputs = program->flat().graph.inputs;
    return std::find(inputs.begin(), inputs.end(), id) != inputs.end();
  }

  const std::shared_ptr<const Program> program;
  const JointFunctions joint;                          ///< functions of one value along several paths (T-125)
  std::vector<const Tensor<double>*> constants;        ///< by value; null for values that are no constants
  std::vector<std::optional<std::size_t>> fused_node;  ///< by value: the node of Program::fused() that computes it
  std::vector<std::optional<std::size_t>> flat_node;   ///< by value: the node of Program::nodes() that computes it

private:
  std::deque<Tensor<double>> own_;
};

/// The step of a node whose result depends on several elements or values: a reduction, Softmax, a matrix product of two
/// values, a function of two elements with or without broadcasting, Choice. It is evaluated sample by sample, by the
/// functions that expand any node: centre_of_node(), linearise(), propagate(), body_rounding(), transposed(), pushed().
/// `node`: its index in Program::fused(). `conditions` receives the conditions of its error bounds.
/// Returns:   null for a product or quotient in which paths meet, if a node on them has no rows of its own; `sample`
///            outlives the step
/// Source:    docs/theory.md T-88
std::unique_ptr<const RunStep> node_step(const SampleProgram& sample, std::size_t node, const Setting& setting,
                                         OperandCache& operands, std::set<std::string>& conditions);

}  // namespace driftbound::bounds
