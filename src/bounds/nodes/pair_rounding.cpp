#include "bounds/nodes/pair_rounding.hpp"

#include <algorithm>
#include <limits>

#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/theorems/double_double.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"

namespace driftbound::bounds {
namespace {

using num::DoubleDoubleFunction;

/// Each overload bounds the rounding errors of one op in double-double, element by element.
class PairRoundings {
public:
  PairRoundings(const UnrecordedNode& node, const Setting& setting) : node_(node), setting_(setting) {}

  using Errors = std::vector<double>;

  Errors operator()(const OneOf<op::Add, op::Sub> auto&) const {
    const Shape& shape = node_.view.output->shape;
    const BroadcastIndex a(node_.view.input(0).shape, shape), b(node_.view.input(1).shape, shape);
    return outputs([&](std::size_t i) { return theorems::pair_sum_error(operand(0, a(i)), operand(1, b(i))); });
  }
  Errors operator()(const op::Mul&) const {
    return outputs([&](std::size_t i) { return theorems::pair_product_error(result(i)); });
  }
  Errors operator()(const op::Div&) const {
    return outputs([&](std::size_t i) { return theorems::pair_quotient_error(result(i)); });
  }
  Errors operator()(const OneOf<op::Neg, op::Relu, op::Abs, op::Min, op::Max, op::Clip> auto&) const { return none(); }
  Errors operator()(const Selection auto&) const { return none(); }
  Errors operator()(const op::LeakyRelu& leaky) const {
    return outputs([&](std::size_t i) { return theorems::pair_product_error(Magnitude(leaky.alpha) * operand(0, i)); });
  }
  Errors operator()(const op::Elu& elu) const {
    return outputs([&](std::size_t i) {
      const Magnitude alpha(elu.alpha), inside = std::min(operand(0, i), Magnitude(1.0));  // |e^x - 1| below 0
      const Magnitude error = theorems::pair_function_error(DoubleDoubleFunction::expm1, inside);
      return alpha * error + theorems::pair_product_error(alpha * (inside + error));
    });
  }
  Errors operator()(const op::Tanh&) const { return function(DoubleDoubleFunction::tanh); }
  Errors operator()(const op::Sigmoid&) const { return function(DoubleDoubleFunction::sigmoid); }
  Errors operator()(const op::Softplus&) const { return function(DoubleDoubleFunction::softplus); }
  Errors operator()(const op::Sin&) const { return function(DoubleDoubleFunction::sin); }
  Errors operator()(const op::Cos&) const { return function(DoubleDoubleFunction::cos); }
  Errors operator()(const op::Exp&) const { return function(DoubleDoubleFunction::exp); }
  Errors operator()(const op::Erf&) const { return function(DoubleDoubleFunction::erf); }

  Errors operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    const Product product = product_of(node_.view).value();
    const std::vector<double> total = product_up(product.plan, largest(0), largest(1), setting_.threads);
    const std::vector<double> addends = largest_addends(product);
    const Magnitude factor = std::max(Magnitude(product.alpha), Magnitude(1.0));
    return outputs([&](std::size_t i) {
      const Magnitude addend = addends.empty() ? Magnitude() : Magnitude(addends[i]);
      return theorems::pair_dense_error(product.plan.k, factor * Magnitude(total[i]) + addend, factor);
    });
  }
  Errors operator()(const auto&) const {
    return Errors(node_.view.output->size(), std::numeric_limits<double>::infinity());
  }

private:
  Errors none() const { return Errors(node_.view.output->size(), 0.0); }
  Errors function(DoubleDoubleFunction f) const {
    return outputs([&](std::size_t i) { return theorems::pair_function_error(f, result(i)); });
  }
  template <class Rule>
  Errors outputs(const Rule& rule) const {
    Errors errors;
    for (std::size_t i = 0; i < node_.view.output->size(); ++i) errors.push_back(rule(i).value());
    return errors;
  }

  /// Returns the largest magnitude of an element of an operand in the run.
  Magnitude operand(std::size_t slot, std::size_t i) const {
    return Magnitude(node_.view.input(slot).values[i]) + radius_at(node_.operand_radii[slot], i);
  }
  std::vector<double> largest(std::size_t slot) const {
    std::vector<double> values(node_.view.input(slot).size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = operand(slot, i).value();
    return values;
  }
  std::vector<double> largest_addends(const Product& product) const {
    if (!product.has_addend) return {};
    const BroadcastIndex index(node_.view.input(2).shape, node_.view.output->shape);
    std::vector<double> values(node_.view.output->size());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (Magnitude(product.beta) * operand(2, index(i))).value();
    return values;
  }
  /// Returns the largest magnitude of the exact result at the run's operands.
  Magnitude result(std::size_t i) const { return Magnitude(node_.view.y(i)) + radius_at(node_.moved, i); }

  const UnrecordedNode& node_;
  const Setting& setting_;
};

}  // namespace

std::vector<double> pair_rounding(const UnrecordedNode& node, const Setting& setting) {
  return std::visit(PairRoundings(node, setting), node.view.node->op);
}

}  // namespace driftbound::bounds
