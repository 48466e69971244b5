#include "bounds/rows/row_walk.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/operand_cache.hpp"
#include "bounds/rows/row_step.hpp"
#include "bounds/theorems/norms.hpp"
#include "bounds/theorems/outward.hpp"

namespace driftbound::bounds {
namespace {

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

/// The values, radii and norms of one block during the forward pass.
class RowValues {
public:
  RowValues(const Program& program, const std::vector<const Tensor<double>*>& constants, const Setting& setting,
            std::vector<std::vector<double>> spare)
      : program_(program),
        setting_(setting),
        constants_(constants),
        states_(program.size()),
        spare_(std::move(spare)) {}

  const Tensor<double>& centre(ValueId id) const { return program_.varies(id) ? *states_[id].centre : *constants_[id]; }
  const std::vector<double>& radii(ValueId id) const { return states_[id].radii; }

  void start(ValueId id, const Tensor<double>& input, const std::vector<double>& radii) {
    states_[id].centre = &input;
    states_[id].radii = radii;
  }

  bool step(const Node& node, const RowStep& step) {
    State& output = states_[node.output];
    output.own.shape = program_.shape(node.output);
    output.own.values = taken(static_cast<std::size_t>(element_count(output.own.shape)));
    output.centre = &output.own;
    const std::optional<RowRounding> rounding = step.evaluate(view_of(node), output.own, setting_);
    if (!rounding) return false;
    propagate(node, step, *rounding);
    forget_what_is_constant(node, step);
    return true;
  }

  std::vector<std::vector<double>> memory() && { return std::move(spare_); }

  void release(ValueId id) {
    if (!states_[id].own.values.empty()) spare_.push_back(std::move(states_[id].own.values));
  }

private:
  struct State {
    const Tensor<double>* centre = nullptr;
    Tensor<double> own;
    std::vector<double> radii;  ///< by row, 2-norm; empty: all 0
    std::vector<double> norms;  ///< 2-norms of the centre, by row; empty: not computed yet
  };

  NodeView view_of(const Node& node) const {
    NodeView view;
    view.node = &node;
    for (const ValueId id : node.inputs) view.inputs.push_back(&centre(id));
    return view;
  }

  std::vector<double> taken(std::size_t size) {
    const auto fits = std::find_if(spare_.begin(), spare_.end(),
                                   [&](const std::vector<double>& values) { return values.capacity() >= size; });
    if (fits == spare_.end()) return std::vector<double>(size);
    std::vector<double> values = std::move(*fits);
    spare_.erase(fits);
    values.resize(size);
    return values;
  }

  /// N_v of T-82: the sum of Lipschitz constant times radius over the operands, plus the node's own rounding error.
  void propagate(const Node& node, const RowStep& step, const RowRounding& rounding) {
    const std::vector<Magnitude> gains = step.gains();
    const auto rows = static_cast<std::size_t>(program_.rows(node.output));
    std::vector<double> sums(rows, 0.0);
    std::int64_t terms = 2;
    bool is_zero = rounding.is_zero();
    for (std::size_t slot = 0; slot < gains.size(); ++slot) {
      const std::vector<double>& radii = states_[node.inputs[slot]].radii;
      if (radii.empty()) continue;
      is_zero = false;
      ++terms;
      for (std::size_t row = 0; row < rows; ++row) sums[row] += gains[slot].value() * radii[row];
    }
    if (step.moves_by_rows()) {
      is_zero = is_zero && std::all_of(node.inputs.begin(), node.inputs.end(),
                                       [&](ValueId id) { return states_[id].radii.empty(); });
      for (std::size_t row = 0; row < rows; ++row) sums[row] += moved_at(node, step, row).value();
    }
    if (is_zero) return;
    if (rounding.per_norm != Magnitude()) {
      const std::vector<double>& norms = norms_of(rounding.measures_output ? node.output : node.inputs[0]);
      for (std::size_t row = 0; row < rows; ++row) sums[row] += rounding.per_norm.value() * norms[row];
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const double own = rounding.by_row.empty() ? rounding.fixed.value() : rounding.by_row[row];
      sums[row] = theorems::outward(sums[row] + own, 2 * terms, terms);
    }
    states_[node.output].radii = std::move(sums);
  }

  Magnitude moved_at(const Node& node, const RowStep& step, std::size_t row) const {
    std::vector<std::span<const double>> operands;
    std::vector<double> norms;
    for (const ValueId id : node.inputs) {
      const std::vector<double>& values = centre(id).values;
      const std::size_t size = values.size() / static_cast<std::size_t>(program_.rows(id));
      operands.push_back(std::span(values).subspan(row * size, size));
      norms.push_back(states_[id].radii.empty() ? 0.0 : states_[id].radii[row]);
    }
    return step.moved(operands, norms);
  }

  void forget_what_is_constant(const Node& node, const RowStep& step) {
    const std::vector<double>& read = states_[node.inputs[0]].radii;
    const std::vector<double>& x = centre(node.inputs[0]).values;
    if (read.empty() || program_.rows(node.output) != static_cast<std::int64_t>(read.size())) return;
    const std::size_t size = x.size() / read.size();
    for (std::size_t row = 0; row < read.size(); ++row)
      if (step.is_constant_near(std::span(x).subspan(row * size, size), read[row]))
        states_[node.output].radii[row] = 0.0;
  }

  const std::vector<double>& norms_of(ValueId id) {
    std::vector<double>& norms = states_[id].norms;
    if (!norms.empty()) return norms;
    const std::vector<double>& values = centre(id).values;
    const auto rows = static_cast<std::size_t>(program_.rows(id));
    const std::size_t size = values.size() / rows;
    for (std::size_t row = 0; row < rows; ++row)
      norms.push_back(theorems::norm_of_vector(std::span(values).subspan(row * size, size)).value());
    return norms;
  }

  const Program& program_;
  const Setting& setting_;
  const std::vector<const Tensor<double>*>& constants_;
  std::vector<State> states_;
  std::vector<std::vector<double>> spare_;  ///< buffers of values that no later node reads
};

}  // namespace

RowWalk::~RowWalk() = default;

std::shared_ptr<const RowWalk> RowWalk::of(const Program& program, const Setting& setting, OperandCache& operands,
                                           std::string& obstacle) {
  auto walk = std::make_shared<RowWalk>();
  walk->constants_ = exact_constants_of(program, setting, operands, walk->own_constants_);
  for (const Tensor<double>* constant : walk->constants_)
    if (constant != nullptr && !all_finite(constant->values)) {
      obstacle = "a constant that is not finite";
      return nullptr;
    }
  for (const Node& node : program.fused().nodes) {
    walk->steps_.push_back(nullptr);
    if (!program.varies(node.output)) {
      if (walk->constants_[node.output] != nullptr) continue;
      obstacle = describe_obstacle(node) + " of constants alone, which rounds";
      return nullptr;
    }
    RowNode step{program, node, {}};
    for (const ValueId id : node.inputs) step.constants.push_back(walk->constants_[id]);
    walk->steps_.back() = row_step_of(step, setting, operands);
    if (walk->steps_.back() == nullptr) {
      obstacle = describe_obstacle(node);
      return nullptr;
    }
  }
  return walk;
}

bool RowWalk::run(const Program& program, const std::vector<Tensor<double>>& inputs,
                  const std::vector<std::vector<double>>& input_radii, const Setting& setting,
                  const Visit& visit) const {
  std::vector<std::vector<double>> spare;
  {
    const std::lock_guard lock(mutex_);
    spare.swap(spare_);
  }
  const Graph& graph = program.flat().graph;
  RowValues values(program, constants_, setting, std::move(spare));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!all_finite(inputs[i].values)) return false;
    values.start(graph.inputs[i], inputs[i], input_radii[i]);
    visit(graph.inputs[i], inputs[i], input_radii[i]);
  }
  for (ValueId id = 0; id < program.size(); ++id)
    if (graph.is_constant(id)) visit(id, *constants_[id], {});
  for (std::size_t node = 0; node < program.fused().nodes.size(); ++node) {
    const ValueId output = program.fused().nodes[node].output;
    if (steps_[node] != nullptr && !values.step(program.fused().nodes[node], *steps_[node])) return false;
    visit(output, values.centre(output), values.radii(output));
    for (const ValueId id : program.fused().last_reads[node]) values.release(id);
  }
  const std::lock_guard lock(mutex_);
  spare_ = std::move(values).memory();
  return true;
}

}  // namespace driftbound::bounds
