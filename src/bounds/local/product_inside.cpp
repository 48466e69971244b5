#include "bounds/local/product_inside.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "bounds/nodes/centre.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "model/shapes.hpp"

namespace driftbound::bounds {
namespace {

bool may_be_a_product(const Op& op) {
  return std::visit([]<class T>(const T&) { return OneOf<T, op::Conv, op::ConvTranspose, op::Einsum>; }, op);
}

/// A value behind the product: which element of the product each of its elements is, and what was added to it.
struct Behind {
  Tensor<double> element, added;
};

/// Follows recorded operands through the nodes before the product, and elements of the product through those behind it.
class Finder {
public:
  Finder(const Graph& body, const NodeView& view, const Setting& setting)
      : body_(body), view_(view), setting_(setting), known_(body.values.size()), behind_(body.values.size()) {
    for (std::size_t slot = 0; slot < view.inputs.size(); ++slot) known_[body.inputs[slot]] = view.input(slot);
    for (ValueId id = 0; id < body.values.size(); ++id)
      if (body.is_constant(id)) known_[id] = body.value(id).constant.to_double();
  }

  std::optional<ProductInside> find(const Tensor<Ball>& exact) && {
    std::vector<Shape> shapes;
    for (const Tensor<double>* input : view_.inputs) shapes.push_back(input->shape);
    const std::vector<Shape> inner = infer_shapes(body_, shapes);
    for (const Node& node : body_.nodes)
      if (!follow(node, inner[node.output])) return std::nullopt;
    const std::optional<Behind>& last = behind_[body_.outputs.front()];
    if (!found_ || !last || last->element.size() != exact.size()) return std::nullopt;
    return with_results(*last, exact);
  }

private:
  bool follow(const Node& node, const Shape& shape) {
    const bool is_known =
        std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return known_[id].has_value(); });
    if (multiplies_matrices(node.op)) return is_known && take(node, shape);
    if (is_known) {
      known_[node.output] = apply(node, {&*known_[node.inputs.front()]}, shape);
      return known_[node.output].has_value();
    }
    return move(node, shape);
  }

  bool take(const Node& node, const Shape& shape) {
    const auto* gemm = std::get_if<op::Gemm>(&node.op);
    const bool is_plain =
        gemm == nullptr || (gemm->alpha == 1.0 && gemm->beta == 1.0 && !gemm->transpose_a && !gemm->transpose_b);
    if (found_ || !is_plain) return false;
    Behind all{Tensor<double>(shape), Tensor<double>(shape)};
    for (std::size_t i = 0; i < all.element.size(); ++i) all.element.values[i] = static_cast<double>(i);
    if (node.inputs.size() > 2) add_to(all.added, *known_[node.inputs[2]]);
    ProductInside& inside = found_.emplace();
    inside.node.name = node.name;
    inside.node.op = op::Gemm{};
    inside.left = std::move(*known_[node.inputs[0]]);
    inside.right = std::move(*known_[node.inputs[1]]);
    inside.added = Tensor<double>(shape);
    inside.result = Tensor<double>(shape);
    inside.exact = Tensor<Ball>(shape);
    behind_[node.output] = std::move(all);
    return true;
  }

  static void add_to(Tensor<double>& sum, const Tensor<double>& number) {
    const BroadcastIndex index(number.shape, sum.shape);
    for (std::size_t i = 0; i < sum.size(); ++i) sum.values[i] += number.values[index(i)];
  }

  /// The value of a move of elements; empty for other ops.
  std::optional<Tensor<double>> apply(const Node& node, std::vector<const Tensor<double>*> operands,
                                      const Shape& shape) const {
    const bool is_move = std::visit([]<class T>(const T&) { return Selection<T>; }, node.op);
    if (!is_move || node.inputs.size() != 1) return std::nullopt;
    NodeView view;
    view.node = &node;
    view.inputs = std::move(operands);
    return centre_of_node(view, shape, setting_).value;
  }

  /// A move of elements behind the product, or the addition of known numbers.
  bool move(const Node& node, const Shape& shape) {
    if (std::holds_alternative<op::Add>(node.op)) return add(node, shape);
    const std::optional<Behind>& from = behind_[node.inputs.front()];
    if (node.inputs.size() != 1 || !from) return false;
    std::optional<Tensor<double>> element = apply(node, {&from->element}, shape);
    std::optional<Tensor<double>> added = apply(node, {&from->added}, shape);
    if (!element || !added) return false;
    behind_[node.output] = Behind{std::move(*element), std::move(*added)};
    return true;
  }

  bool add(const Node& node, const Shape& shape) {
    const std::size_t slot = behind_[node.inputs[0]] ? 0 : 1;
    const std::optional<Behind>& from = behind_[node.inputs[slot]];
    const std::optional<Tensor<double>>& number = known_[node.inputs[1 - slot]];
    if (!from || !number || from->element.shape != shape) return false;
    Behind sum = *from;
    add_to(sum.added, *number);
    behind_[node.output] = std::move(sum);
    return true;
  }

  ProductInside with_results(const Behind& last, const Tensor<Ball>& exact) {
    for (Ball& ball : found_->exact.values) ball.radius = Magnitude::infinite();
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const auto element = static_cast<std::size_t>(last.element.values[i]);
      found_->result.values[element] = view_.y(i);
      found_->added.values[element] = last.added.values[i];
      found_->exact.values[element] = exact.values[i];
    }
    return std::move(*found_);
  }

  const Graph& body_;
  const NodeView& view_;
  const Setting& setting_;
  std::vector<std::optional<Tensor<double>>> known_;
  std::vector<std::optional<Behind>> behind_;
  std::optional<ProductInside> found_;
};

}  // namespace

std::optional<ProductInside> product_inside(const NodeView& view, const Setting& setting, const Tensor<Ball>& exact) {
  if (!may_be_a_product(view.node->op)) return std::nullopt;
  std::vector<Shape> shapes;
  for (const Tensor<double>* input : view.inputs) shapes.push_back(input->shape);
  const Graph body = composite_body(view.node->op, shapes);
  return Finder(body, view, setting).find(exact);
}

}  // namespace driftbound::bounds
