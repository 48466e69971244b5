#include "bounds/adjoint/norms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "bounds/adjoint/composite_norms.hpp"
#include "bounds/matrices/spectral_norm.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/theorems/norms.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

/// Norms and radii of the operands of a node in one row.
class Row {
public:
  Row(const NormRequest& request, std::int64_t row) : request_(request), row_(row) {}

  /// Returns the bound of the 2-norm of an operand's distance from its centre.
  Magnitude radius(std::size_t slot) const {
    const std::vector<double>& norm = request_.operands[slot]->norm;
    return norm.empty() ? Magnitude() : Magnitude(norm[norm.size() == 1 ? 0 : index()]);
  }
  /// Returns the largest radius of an element of an operand.
  Magnitude largest_radius(std::size_t slot) const {
    const std::span<const double> element = part(slot, request_.operands[slot]->element);
    return std::min(element.empty() ? Magnitude() : Magnitude(*std::max_element(element.begin(), element.end())),
                    radius(slot));
  }
  Magnitude largest(std::size_t slot) const {
    Magnitude largest;
    for (const double x : centre(slot)) largest = std::max(largest, Magnitude(x));
    return largest;
  }
  double smallest(std::size_t slot) const {
    double smallest = std::numeric_limits<double>::infinity();
    for (const double x : centre(slot)) smallest = std::min(smallest, std::abs(x));
    return smallest;
  }
  /// Returns the 2-norm bound for all copies that broadcasting makes of an operand within the row.
  Magnitude spread_radius(std::size_t slot) const {
    const std::size_t copies = result_size() / std::max<std::size_t>(centre(slot).size(), 1);
    return theorems::norm_of_copies(radius(slot), std::max<std::size_t>(copies, 1));
  }
  ElementwiseFactor factor(std::size_t slot) const {
    return {largest(slot), largest_radius(slot), spread_radius(slot)};
  }
  std::size_t index() const { return static_cast<std::size_t>(row_); }
  MatrixFactor matrix(std::size_t slot) const { return {theorems::norm_of_vector(centre(slot)), radius(slot)}; }

private:
  std::size_t result_size() const {
    return request_.view.output->size() / static_cast<std::size_t>(rows(request_.view.node->output));
  }
  std::int64_t rows(ValueId id) const { return request_.program.rows(id); }
  std::span<const double> centre(std::size_t slot) const { return part(slot, request_.view.input(slot).values); }
  std::span<const double> part(std::size_t slot, const std::vector<double>& values) const {
    const std::int64_t parts = rows(request_.view.node->inputs[slot]);
    if (parts == 1) return values;
    const std::size_t size = values.size() / static_cast<std::size_t>(parts);
    return std::span(values).subspan(index() * size, size);
  }

  const NormRequest& request_;
  std::int64_t row_;
};

class NodeNorms {
public:
  NodeNorms(const NormRequest& request, const Setting& setting, OperandCache& operands)
      : request_(request), view_(request.view), setting_(setting), operands_(operands) {}

  using Norms = std::optional<std::vector<double>>;

  Norms operator()(const ElementwiseUnary auto&) const {
    if (!request_.lipschitz.is_finite()) return std::nullopt;
    return each_row([&](const Row& row) { return theorems::norm_of_function(request_.lipschitz, row.radius(0)); });
  }
  Norms operator()(const OneOf<op::Add, op::Sub, op::Min, op::Max> auto&) const {
    return each_row([&](const Row& row) { return theorems::norm_of_sum(row.spread_radius(0), row.spread_radius(1)); });
  }
  Norms operator()(const op::Mul&) const {
    return each_row(
        [&](const Row& row) { return theorems::norm_of_elementwise_product(row.factor(0), row.factor(1)); });
  }
  Norms operator()(const op::Div&) const {
    if (!request_.operands[1]->element.empty()) return moving_quotient();
    return each_row([&](const Row& row) { return theorems::norm_of_quotient(row.spread_radius(0), row.smallest(1)); });
  }
  /// |f(x, s) - f(x', s)| <= max(1, |s|) |x - x'|
  Norms operator()(const op::PRelu&) const {
    if (!request_.operands[1]->element.empty()) return std::nullopt;
    return each_row([&](const Row& row) {
      return theorems::norm_of_function(std::max(Magnitude(1.0), row.largest(1)), row.spread_radius(0));
    });
  }
  Norms operator()(const op::ReduceSum&) const {
    const std::size_t terms = plan_groups(view_.node->op, view_.input(0).shape).elements.size();
    return each_row([&](const Row& row) { return theorems::norm_of_reduce_sum(row.radius(0), terms); });
  }
  Norms operator()(const OneOf<op::ReduceMax, op::ReduceMin> auto&) const {
    return each_row([&](const Row& row) { return theorems::norm_of_extremum(row.radius(0)); });
  }
  Norms operator()(const op::Softmax&) const {
    return each_row([&](const Row& row) { return theorems::norm_of_softmax(row.radius(0)); });
  }
  Norms operator()(const Selection auto&) const {
    const std::vector<std::size_t> most = most_uses_of_elements();
    return each_row([&](const Row& row) {
      std::vector<SelectedPart> parts;
      for (std::size_t slot = 0; slot < most.size(); ++slot) parts.push_back({most[slot], row.radius(slot)});
      return theorems::norm_of_selection(parts);
    });
  }
  Norms operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    const Product product = product_of(view_).value();
    const bool left_varies = varies(0), right_varies = varies(1);
    if (!left_varies && !right_varies) return std::nullopt;
    const auto with_addend = [&](const Row& row, Magnitude moved) {
      const Magnitude addend = product.has_addend ? row.spread_radius(2) : Magnitude();
      return theorems::norm_with_addend(product.alpha, moved, product.beta, addend);
    };
    if (left_varies && right_varies) {
      const BatchNorms left = batch_norms(product.plan, true), right = batch_norms(product.plan, false);
      const Norms attended = attended_norms(request_, {left.largest, right.largest, right.uses});
      return each_row([&](const Row& row) {
        const MatrixFactor a{left.largest, row.radius(0)}, b{right.largest, row.radius(1)};
        Magnitude moved = std::min(theorems::norm_of_matrix_product(row.matrix(0), row.matrix(1)),
                                   theorems::norm_of_spectral_product(a, left.uses, b, right.uses));
        if (attended) moved = std::min(moved, Magnitude((*attended)[row.index()]));
        return with_addend(row, moved);
      });
    }
    const std::size_t moving = left_varies ? 0 : 1, fixed = 1 - moving;
    const Magnitude spectral = left_varies ? operands_.norm_of_right(product.plan, view_.input(1), setting_.threads)
                                           : operands_.norm_of_left(product.plan, view_.input(0), setting_.threads);
    const std::size_t uses = most_uses(left_varies ? product.plan.a_batch : product.plan.b_batch);
    return each_row([&](const Row& row) {
      return with_addend(row,
                         theorems::norm_of_constant_product(row.matrix(moving), spectral, row.radius(fixed), uses));
    });
  }
  Norms operator()(const Comparison auto&) const { return std::nullopt; }
  Norms operator()(const op::Choice&) const { return std::nullopt; }
  Norms operator()(const Composite auto&) const { return std::nullopt; }

private:
  /// Bounds a quotient whose divisor differs between the trajectories: T-67 (a).
  std::vector<double> moving_quotient() const {
    const Tensor<double>&a = view_.input(0), &b = view_.input(1);
    const BroadcastIndex of_a(a.shape, view_.output->shape), of_b(b.shape, view_.output->shape);
    const auto rows = static_cast<std::size_t>(request_.program.rows(view_.node->output));
    const std::size_t size = view_.output->size() / rows;
    std::vector<double> norms;
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<Magnitude> squares(b.size());  // by divisor
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t i = row * size; i < (row + 1) * size; ++i) {
        const double divisor = std::abs(b.values[of_b(i)]);
        const Magnitude quotient = divide_up(Magnitude(a.values[of_a(i)]), divisor);
        squares[of_b(i)] += quotient * quotient;
        least = std::min(least, sub_down(divisor, radius_at(request_.operands[1]->element, of_b(i)).value()));
      }
      Magnitude largest;
      for (const Magnitude sum : squares) largest = std::max(largest, sum);
      const Row of_row(request_, static_cast<std::int64_t>(row));
      norms.push_back(
          theorems::norm_of_moving_quotient(of_row.spread_radius(0), sqrt_up(largest), of_row.radius(1), least)
              .value());
    }
    return norms;
  }

  struct BatchNorms {
    Magnitude largest;     ///< largest spectral norm of a matrix of the factor
    std::size_t uses = 1;  ///< how often its most used matrix is used
  };
  BatchNorms batch_norms(const ProductPlan& plan, bool is_left) const {
    const double* data = view_.input(is_left ? 0 : 1).values.data();
    const std::vector<std::int64_t>& offsets = is_left ? plan.a_batch : plan.b_batch;
    BatchNorms norms{{}, most_uses(offsets)};
    for (const std::int64_t offset : std::set<std::int64_t>(offsets.begin(), offsets.end())) {
      const MatrixView matrix = is_left ? MatrixView{data + offset, plan.m, plan.k, plan.a_row, plan.a_col}
                                        : MatrixView{data + offset, plan.k, plan.n, plan.b_row, plan.b_col};
      norms.largest = std::max(norms.largest, spectral_norm(matrix, setting_.threads));
    }
    return norms;
  }

  /// Returns for every operand how often a selection copies its most used element.
  std::vector<std::size_t> most_uses_of_elements() const {
    if (keeps_order(view_.node->op)) return {view_.input(0).size() == 0 ? std::size_t{0} : 1};
    std::vector<Shape> shapes;
    for (const Tensor<double>* input : view_.inputs) shapes.push_back(input->shape);
    std::vector<std::vector<std::size_t>> uses;
    for (const Tensor<double>* input : view_.inputs) uses.emplace_back(input->size(), 0);
    std::vector<std::size_t> most(uses.size(), 0);
    for (const ElementSource& source : plan_selection(view_.node->op, shapes, view_.output->shape))
      if (!source.is_fill()) most[source.input] = std::max(most[source.input], ++uses[source.input][source.index]);
    return most;
  }

  bool varies(std::size_t slot) const { return request_.program.varies(view_.node->inputs[slot]); }

  template <class Rule>
  std::vector<double> each_row(const Rule& rule) const {
    std::vector<double> norms;
    const std::int64_t rows = request_.program.rows(view_.node->output);
    for (std::int64_t row = 0; row < rows; ++row) norms.push_back(rule(Row(request_, row)).value());
    return norms;
  }

  const NormRequest& request_;
  const NodeView& view_;
  const Setting& setting_;
  OperandCache& operands_;
};

}  // namespace

std::vector<double> row_norms(std::span<const double> values, std::int64_t rows) {
  std::vector<double> norms;
  const std::size_t size = values.size() / static_cast<std::size_t>(rows);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
    norms.push_back(theorems::norm_of_vector(values.subspan(row * size, size)).value());
  return norms;
}

std::optional<std::vector<double>> moved_norms(const NormRequest& request, const Setting& setting,
                                               OperandCache& operands) {
  auto norms = std::visit(NodeNorms(request, setting, operands), request.view.node->op);
  return smaller_norms(std::move(norms), composite_norms(request));
}

std::optional<std::vector<double>> smaller_norms(std::optional<std::vector<double>> norms,
                                                 const std::optional<std::vector<double>>& more) {
  if (!norms) return more;
  for (std::size_t row = 0; more && row < norms->size(); ++row) (*norms)[row] = std::min((*norms)[row], (*more)[row]);
  return norms;
}

}  // namespace driftbound::bounds
