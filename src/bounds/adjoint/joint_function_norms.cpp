#include "bounds/adjoint/joint_function_norms.hpp"

#include <algorithm>
#include <cmath>

#include "model/variant.hpp"

namespace driftbound::bounds {
namespace {

/// A node that is a function of one element of one operand, all others being the same for all inputs.
struct Step {
  std::size_t node = 0;
  ValueId operand = 0;
  std::size_t slot = 0;
};

/// v moves by slope times what u moves by, and by `rest` more.
struct Followed {
  std::vector<double> slope;
  std::vector<Magnitude> rest;
};

class JointFunction {
public:
  JointFunction(const NormQuestion& question, const NormRules& rules)
      : network_(question.network),
        graph_(network_.flat().graph),
        view_(question.view),
        known_(*question.known),
        rules_(rules) {}

  std::optional<std::vector<double>> norms() const {
    const ValueId left = view_.node->inputs[0], right = view_.node->inputs[1];
    if (!network_.varies(left) || !network_.varies(right) || left == right || !is_alike(left) || !is_alike(right))
      return std::nullopt;
    const std::vector<Step> of_left = steps_to(left), of_right = steps_to(right);
    for (std::size_t i = 0; i <= of_left.size(); ++i) {
      const ValueId u = i == 0 ? left : of_left[i - 1].operand;
      for (std::size_t j = 0; j <= of_right.size(); ++j)
        if (u == (j == 0 ? right : of_right[j - 1].operand))
          return product_of(followed(u, {of_left.begin(), of_left.begin() + static_cast<std::ptrdiff_t>(i)}),
                            followed(u, {of_right.begin(), of_right.begin() + static_cast<std::ptrdiff_t>(j)}), u);
    }
    return std::nullopt;
  }

private:
  bool is_alike(ValueId id) const { return network_.shape(id) == network_.shape(view_.node->output); }

  /// From a value back, as far as each is a function of one before it.
  std::vector<Step> steps_to(ValueId id) const {
    std::vector<Step> steps;
    while (const std::optional<Step> step = step_to(id)) {
      steps.push_back(*step);
      id = step->operand;
    }
    return steps;
  }

  std::optional<Step> step_to(ValueId id) const {
    const std::optional<std::size_t> index = graph_.producer(id);
    if (!index) return std::nullopt;
    const Node& node = graph_.nodes[*index];
    const bool is_unary = std::visit([]<class T>(const T&) { return ElementwiseUnary<T>; }, node.op);
    const bool is_linear = std::holds_alternative<op::Add>(node.op) || std::holds_alternative<op::Sub>(node.op);
    const bool is_scaled = std::holds_alternative<op::Mul>(node.op) || std::holds_alternative<op::Div>(node.op);
    if (!is_unary && !is_linear && !is_scaled) return std::nullopt;
    std::size_t slot = 0;
    if (!is_unary) {
      if (network_.varies(node.inputs[0]) == network_.varies(node.inputs[1])) return std::nullopt;
      slot = network_.varies(node.inputs[0]) ? 0 : 1;
    }
    const bool has_slopes = slot < known_.slopes[*index].size() && !known_.slopes[*index][slot].empty();
    if (!is_alike(node.inputs[slot]) || (!is_linear && !has_slopes)) return std::nullopt;
    return Step{*index, node.inputs[slot], slot};
  }

  double slope_of(const Step& step, std::size_t i) const {
    const std::vector<double>& slopes = known_.slopes[step.node].at(step.slot);
    if (!slopes.empty()) return slopes[i];
    return std::holds_alternative<op::Sub>(graph_.nodes[step.node].op) && step.slot == 1 ? -1.0 : 1.0;
  }

  /// `steps` from the last to the first.
  Followed followed(ValueId u, std::vector<Step> steps) const {
    const std::size_t size = view_.output->size();
    Followed v{std::vector<double>(size, 1.0), std::vector<Magnitude>(size)};
    std::reverse(steps.begin(), steps.end());
    for (const Step& step : steps) {
      const ValueId id = graph_.nodes[step.node].output;
      for (std::size_t i = 0; i < size; ++i) {
        const double d = slope_of(step, i), slope = d * v.slope[i];
        v.rest[i] = Magnitude(d) * v.rest[i] + rounding_of(slope) * radius_at(known_.radii[u].element, i) +
                    radius_at(known_.remainder[id], i) + radius_at(known_.added[id], i);
        v.slope[i] = slope;
      }
    }
    return v;
  }

  /// What a product of that size is rounded by, at most.
  static Magnitude rounding_of(double product) {
    return Magnitude(product) * Magnitude(0x1p-53) + Magnitude(0x1p-1074);
  }

  std::vector<double> product_of(const Followed& a, const Followed& b, ValueId u) const {
    const std::vector<double>&x = view_.input(0).values, &y = view_.input(1).values;
    const auto rows = static_cast<std::size_t>(network_.rows(view_.node->output));
    const std::size_t size = x.size() / rows;
    std::vector<double> norms;
    for (std::size_t row = 0; row < rows; ++row) {
      Magnitude steepest;
      std::vector<double> rest;
      for (std::size_t i = row * size; i < (row + 1) * size; ++i) {
        const double first = y[i] * a.slope[i], second = x[i] * b.slope[i], slope = first + second;
        steepest = std::max(steepest, Magnitude(slope) + rounding_of(first) + rounding_of(second) + rounding_of(slope));
        rest.push_back((Magnitude(y[i]) * a.rest[i] + Magnitude(x[i]) * b.rest[i] +
                        radius_at(known_.remainder[view_.node->output], i))
                           .value());
      }
      const std::vector<double>& norm = known_.radii[u].norm;
      const Magnitude of_u = norm.empty() ? Magnitude() : Magnitude(norm[norm.size() == 1 ? 0 : row]);
      norms.push_back(rules_.sum(rules_.function(steepest, of_u), rules_.vector(rest)).value());
    }
    return norms;
  }

  const Network& network_;
  const Graph& graph_;
  const NodeView& view_;
  const Deviation& known_;
  const NormRules& rules_;
};

}  // namespace

std::optional<std::vector<double>> joint_function_norms(const NormQuestion& question, const NormRules& rules) {
  const bool is_known = question.known != nullptr && question.shadow != nullptr;
  if (!is_known || !std::holds_alternative<op::Mul>(question.view.node->op)) return std::nullopt;
  return JointFunction(question, rules).norms();
}

}  // namespace driftbound::bounds
