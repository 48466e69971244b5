#include "bounds/nodes/push.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/theorems/defects.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "linalg/ordered_product.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t work_worth_a_thread = 1 << 15;

/// Returns the plan of `count` products with the same right operand. Their left operands, of `left_size` elements each,
/// are contiguous.
ProductPlan stacked(const ProductPlan& plan, std::size_t count, std::size_t left_size) {
  ProductPlan all = plan;
  const bool are_rows = plan.batches == 1 && plan.a_col == 1 && (plan.m == 1 || plan.a_row == plan.k) &&
                        plan.m * plan.k == static_cast<std::int64_t>(left_size);
  if (are_rows) {
    all.m *= static_cast<std::int64_t>(count);
    all.a_row = plan.k;
    return all;
  }
  all.batches *= static_cast<std::int64_t>(count);
  all.a_batch.clear();
  all.b_batch.clear();
  for (std::size_t j = 0; j < count; ++j) {
    for (const std::int64_t offset : plan.a_batch)
      all.a_batch.push_back(offset + static_cast<std::int64_t>(j * left_size));
    all.b_batch.insert(all.b_batch.end(), plan.b_batch.begin(), plan.b_batch.end());
  }
  return all;
}

/// Returns the plan of the transposed product C^T = B^T A^T.
ProductPlan turned(const ProductPlan& plan) {
  ProductPlan result;
  result.batches = plan.batches;
  result.m = plan.n;
  result.n = plan.m;
  result.k = plan.k;
  result.a_batch = plan.b_batch;
  result.a_row = plan.b_col;
  result.a_col = plan.b_row;
  result.b_batch = plan.a_batch;
  result.b_row = plan.a_col;
  result.b_col = plan.a_row;
  return result;
}

/// Each overload computes the Jacobian-vector products of one op: it adds J_e t_e over the operands e.
class Pushing {
public:
  Pushing(const NodeView& view, const std::vector<std::vector<double>>& slopes,
          std::span<const std::span<const double>> directions, std::size_t count, Jacobian jacobian,
          const Setting& setting)
      : view_(view),
        slopes_(slopes),
        directions_(directions),
        count_(count),
        in_magnitude_(jacobian == Jacobian::magnitudes),
        setting_(setting),
        size_(view.output->size()) {
    result_.values.assign(count * size_, 0.0);
  }

  void operator()(const op::Cast&) { add_by_factor(0, 1.0); }
  void operator()(const op::Neg&) { add_by_factor(0, -1.0); }
  void operator()(const ElementwiseUnary auto&) {
    add_by_slopes(0);
    loses(1, 1);
  }
  void operator()(const op::Add&) {
    add_by_factor(0, 1.0);
    add_by_factor(1, 1.0);
    loses(1, 0);
  }
  void operator()(const op::Sub&) {
    add_by_factor(0, 1.0);
    add_by_factor(1, -1.0);
    loses(1, 0);
  }
  void operator()(const OneOf<op::Mul, op::Div, op::Min, op::Max, op::PRelu> auto&) { every_operand_by_slopes(); }
  void operator()(const Comparison auto&) { every_operand_by_slopes(); }
  void operator()(const op::Choice&) { every_operand_by_slopes(); }

  void operator()(const Selection auto&) {
    std::vector<Shape> shapes;
    for (const Tensor<double>* input : view_.inputs) shapes.push_back(input->shape);
    const std::vector<ElementSource> sources = plan_selection(view_.node->op, shapes, view_.output->shape);
    each_direction([&](std::size_t j, double* y) {
      for (std::size_t i = 0; i < size_; ++i) {
        const ElementSource& source = sources[i];
        if (!source.is_fill() && is_given(source.input)) y[i] = direction(source.input, j)[source.index];
      }
    });
  }

  void operator()(const op::ReduceSum&) { add_groups({}); }
  void operator()(const OneOf<op::ReduceMax, op::ReduceMin> auto&) { add_groups(slopes_.at(0)); }

  void operator()(const op::Softmax& softmax) {
    const ReductionPlan plan = plan_reduction(softmax, view_.output->shape);
    if (is_given(0)) {
      each_direction([&](std::size_t j, double* y) {
        for (std::int64_t row = 0; row < plan.outer * plan.inner; ++row) softmax_row(plan, row, direction(0, j), y);
      });
    }
    loses(plan.length + 3, plan.length + 1);
  }

  void operator()(const OneOf<op::Gemm, op::MatMul> auto&) {
    const Product product = product_of(view_).value();
    if (is_given(0)) add_product(product.plan, 0, product.alpha, false);
    if (is_given(1)) add_product(turned(product.plan), 1, product.alpha, true);
    if (product.has_addend) add_by_factor(2, product.beta);
    loses(product.plan.k + 4, 2 * product.plan.k + 4);
    result_.factor = std::max(1.0, std::abs(product.alpha));
  }

  void operator()(const Composite auto&) {
    throw InvalidArgument("the composite op " + std::string(name_of(view_.node->op)) +
                          " has no Jacobian of its own; expand the graph to primitive ops first");
  }

  Pushed result() && { return std::move(result_); }

private:
  bool is_given(std::size_t slot) const { return !directions_[slot].empty(); }
  const double* direction(std::size_t slot, std::size_t j) const {
    return directions_[slot].data() + j * view_.input(slot).size();
  }
  double weight(double x) const { return in_magnitude_ ? std::abs(x) : x; }
  void loses(std::int64_t roundings, std::int64_t products) {
    result_.roundings = roundings;
    result_.products = products;
  }

  template <class F>
  void each_direction(const F& f) {
    const int threads = count_ * size_ >= work_worth_a_thread ? setting_.threads : 1;
    parallel_for(static_cast<std::int64_t>(count_), threads, [&](std::int64_t first, std::int64_t last) {
      for (std::size_t j = at(first); j < at(last); ++j) f(j, result_.values.data() + j * size_);
    });
  }

  void add_by_factor(std::size_t slot, double factor) {
    if (!is_given(slot)) return;
    const BroadcastIndex index(view_.input(slot).shape, view_.output->shape);
    each_direction([&, s = weight(factor)](std::size_t j, double* y) {
      const double* t = direction(slot, j);
      for (std::size_t i = 0; i < size_; ++i) y[i] += s * t[index(i)];
    });
  }

  void add_by_slopes(std::size_t slot) {
    if (!is_given(slot)) return;
    const BroadcastIndex index(view_.input(slot).shape, view_.output->shape);
    const std::vector<double>& slopes = slopes_.at(slot);
    each_direction([&](std::size_t j, double* y) {
      const double* t = direction(slot, j);
      for (std::size_t i = 0; i < size_; ++i) y[i] += weight(slopes.at(i)) * t[index(i)];
    });
  }

  void every_operand_by_slopes() {
    for (std::size_t slot = 0; slot < view_.inputs.size(); ++slot) {
      if (!slopes_.at(slot).empty()) add_by_slopes(slot);
    }
    const auto operands = static_cast<std::int64_t>(view_.inputs.size());
    loses(operands, operands);
  }

  /// Adds, for every group of a reduction, the sum of slope * t over its elements; without slopes, the sum of t.
  void add_groups(const std::vector<double>& slopes) {
    const GroupPlan plan = plan_groups(view_.node->op, view_.input(0).shape);
    if (is_given(0)) {
      each_direction([&](std::size_t j, double* y) {
        const double* t = direction(0, j);
        for (std::size_t g = 0; g < size_; ++g) {
          for (const std::size_t element : plan.elements) {
            const std::size_t i = plan.groups[g] + element;
            y[g] += slopes.empty() ? t[i] : weight(slopes.at(i)) * t[i];
          }
        }
      });
    }
    const auto length = static_cast<std::int64_t>(plan.elements.size());
    loses(length, slopes.empty() ? 0 : length);
  }

  /// Computes p (t - p·t) for one row; with magnitudes, p (t + p·t).
  void softmax_row(const ReductionPlan& plan, std::int64_t row, const double* t, double* y) const {
    const auto place = [&](std::int64_t i) { return plan.index(row / plan.inner, i, row % plan.inner); };
    double sum = 0.0;
    for (std::int64_t i = 0; i < plan.length; ++i) sum += weight(view_.y(place(i))) * t[place(i)];
    for (std::int64_t i = 0; i < plan.length; ++i) {
      const double difference = in_magnitude_ ? t[place(i)] + sum : t[place(i)] - sum;
      y[place(i)] = weight(view_.y(place(i))) * difference;
    }
  }

  /// Adds alpha T M for the directions T of one operand, where M are the values of the other. If `is_turned` is set,
  /// the plan is transposed, and so are the products.
  void add_product(const ProductPlan& plan, std::size_t slot, double alpha, bool is_turned) {
    const std::vector<double>& other = view_.input(1 - slot).values;
    PackedMatrices<double> packed;
    pack_missing<double>(plan, in_magnitude_ ? magnitudes(other) : other, packed);
    const SummationOrder order{SummationOrder::Kind::sequential, 0, true};
    const std::vector<double> products = multiply<double>(stacked(plan, count_, view_.input(slot).size()),
                                                          directions_[slot], packed, order, setting_.threads);
    const double factor = weight(alpha);
    if (!is_turned) {
      for (std::size_t i = 0; i < products.size(); ++i) result_.values[i] += factor * products[i];
      return;
    }
    const std::size_t rows = at(plan.n), columns = at(plan.m);
    for (std::size_t first = 0; first < products.size(); first += rows * columns) {
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j)
          result_.values[first + i * columns + j] += factor * products[first + j * rows + i];
      }
    }
  }

  const NodeView& view_;
  const std::vector<std::vector<double>>& slopes_;
  std::span<const std::span<const double>> directions_;
  std::size_t count_;
  bool in_magnitude_;
  const Setting& setting_;
  std::size_t size_;
  Pushed result_;
};

}  // namespace

Pushed pushed(const NodeView& view, const std::vector<std::vector<double>>& slopes,
              std::span<const std::span<const double>> directions, std::size_t count, Jacobian jacobian,
              const Setting& setting) {
  Pushing pushing(view, slopes, directions, count, jacobian, setting);
  std::visit(pushing, view.node->op);
  return std::move(pushing).result();
}

std::vector<double> lost_of(const Pushed& magnitudes, std::size_t count) {
  const std::int64_t products = magnitudes.products * static_cast<std::int64_t>(count);
  Magnitude underflow;
  if (magnitudes.factor > 1.0) underflow = Magnitude(magnitudes.factor) * Magnitude(theorems::defect(0.0, 0, products));
  std::vector<double> lost;
  lost.reserve(magnitudes.values.size());
  for (const double x : magnitudes.values)
    lost.push_back((Magnitude(theorems::defect(x, magnitudes.roundings, products)) + underflow).value());
  return lost;
}

}  // namespace driftbound::bounds
