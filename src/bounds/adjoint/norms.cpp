#include "bounds/adjoint/norms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "bounds/product_node.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {
namespace {

Magnitude as_magnitude(std::size_t count) {
  return Magnitude(static_cast<double>(count));
}

/// One row of a node, operand by operand.
class Row {
public:
  Row(const NormQuestion& question, std::int64_t row) : question_(question), row_(row) {}

  /// Norm of how far an operand is from its centre.
  Magnitude radius(std::size_t slot) const {
    const std::vector<double>& norm = question_.operands[slot]->norm;
    return norm.empty() ? Magnitude() : Magnitude(norm[norm.size() == 1 ? 0 : index()]);
  }
  /// Largest radius of one element.
  Magnitude largest_radius(std::size_t slot) const {
    const std::span<const double> element = part(slot, question_.operands[slot]->element);
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
  Magnitude centre_norm(std::size_t slot) const { return Magnitude(row_norms(centre(slot), 1).front()); }

  /// Root of how often a broadcast repeats every element of an operand within the row.
  Magnitude copies(std::size_t slot) const {
    const std::size_t repeated = result_size() / std::max<std::size_t>(centre(slot).size(), 1);
    return sqrt_up(as_magnitude(std::max<std::size_t>(repeated, 1)));
  }
  std::size_t result_size() const {
    return question_.view.output->size() / static_cast<std::size_t>(rows(question_.view.node->output));
  }

private:
  std::int64_t rows(ValueId id) const { return question_.network.rows(id); }
  std::size_t index() const { return static_cast<std::size_t>(row_); }
  std::span<const double> centre(std::size_t slot) const { return part(slot, question_.view.input(slot).values); }
  std::span<const double> part(std::size_t slot, const std::vector<double>& values) const {
    const std::int64_t parts = rows(question_.view.node->inputs[slot]);
    if (parts == 1) return values;
    const std::size_t size = values.size() / static_cast<std::size_t>(parts);
    return std::span(values).subspan(index() * size, size);
  }

  const NormQuestion& question_;
  std::int64_t row_;
};

/// How often a plan reads its most used matrix.
Magnitude most_uses(const std::vector<std::int64_t>& offsets) {
  std::map<std::int64_t, std::size_t> uses;
  std::size_t most = 1;
  for (const std::int64_t offset : offsets) most = std::max(most, ++uses[offset]);
  return sqrt_up(as_magnitude(most));
}

class Norms62 {
public:
  Norms62(const NormQuestion& question, const Setting& setting, Weights& weights)
      : question_(question), view_(question.view), setting_(setting), weights_(weights) {}

  using Norms = std::optional<std::vector<double>>;

  Norms operator()(const ElementwiseUnary auto&) const {
    if (!question_.lipschitz.is_finite()) return std::nullopt;
    return each_row([&](const Row& row) { return question_.lipschitz * row.radius(0); });
  }
  Norms operator()(const OneOf<op::Add, op::Sub, op::Min, op::Max> auto&) const {
    return each_row([](const Row& row) { return row.copies(0) * row.radius(0) + row.copies(1) * row.radius(1); });
  }
  Norms operator()(const op::Mul&) const {
    return each_row([](const Row& row) {
      return row.largest(1) * row.copies(0) * row.radius(0) +
             (row.largest(0) + row.largest_radius(0)) * row.copies(1) * row.radius(1);
    });
  }
  Norms operator()(const op::Div&) const {
    if (!question_.operands[1]->element.empty()) return std::nullopt;
    return each_row([](const Row& row) { return divide_up(row.copies(0) * row.radius(0), row.smallest(1)); });
  }
  Norms operator()(const op::ReduceSum&) const {
    const std::size_t terms = plan_groups(view_.node->op, view_.input(0).shape).elements.size();
    return each_row([&](const Row& row) { return sqrt_up(as_magnitude(terms)) * row.radius(0); });
  }
  Norms operator()(const OneOf<op::ReduceMax, op::ReduceMin> auto&) const {
    return each_row([](const Row& row) { return row.radius(0); });
  }
  Norms operator()(const op::Softmax&) const {
    return each_row([](const Row& row) { return Magnitude(0.5) * row.radius(0); });
  }
  Norms operator()(const Selection auto&) const {
    std::vector<Shape> shapes;
    for (const Tensor<double>* input : view_.inputs) shapes.push_back(input->shape);
    std::vector<std::vector<std::size_t>> uses;
    for (const Tensor<double>* input : view_.inputs) uses.emplace_back(input->size(), 0);
    for (const ElementSource& source : plan_selection(view_.node->op, shapes, view_.output->shape)) {
      if (!source.is_fill()) ++uses[source.input][source.index];
    }
    std::vector<Magnitude> repeated;
    for (const std::vector<std::size_t>& of : uses) {
      repeated.push_back(as_magnitude(of.empty() ? 0 : *std::max_element(of.begin(), of.end())));
    }
    return each_row([&](const Row& row) {
      Magnitude squares;
      for (std::size_t slot = 0; slot < repeated.size(); ++slot)
        squares += repeated[slot] * row.radius(slot) * row.radius(slot);
      return sqrt_up(squares);
    });
  }
  Norms operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    const Product product = product_of(view_).value();
    const bool left_varies = varies(0), right_varies = varies(1);
    if (!left_varies && !right_varies) return std::nullopt;
    const Magnitude alpha(product.alpha), beta(product.beta);
    const auto addend = [&](const Row& row) {
      return product.has_addend ? beta * row.copies(2) * row.radius(2) : Magnitude();
    };
    if (left_varies && right_varies) {
      return each_row([&](const Row& row) {
        const Magnitude moved =
            row.centre_norm(1) * row.radius(0) + (row.centre_norm(0) + row.radius(0)) * row.radius(1);
        return alpha * moved + addend(row);
      });
    }
    const std::size_t moving = left_varies ? 0 : 1, fixed = 1 - moving;
    const Magnitude weight = left_varies ? weights_.norm_of_right(product.plan, view_.input(1), setting_.threads)
                                         : weights_.norm_of_left(product.plan, view_.input(0), setting_.threads);
    const Magnitude uses = most_uses(left_varies ? product.plan.a_batch : product.plan.b_batch);
    return each_row([&](const Row& row) {
      const Magnitude moved =
          weight * row.radius(moving) + (row.centre_norm(moving) + row.radius(moving)) * row.radius(fixed);
      return alpha * uses * moved + addend(row);
    });
  }
  Norms operator()(const auto&) const { return std::nullopt; }

private:
  bool varies(std::size_t slot) const { return question_.network.varies(view_.node->inputs[slot]); }

  template <class Rule>
  std::vector<double> each_row(const Rule& rule) const {
    std::vector<double> norms;
    const std::int64_t rows = question_.network.rows(view_.node->output);
    for (std::int64_t row = 0; row < rows; ++row) norms.push_back(rule(Row(question_, row)).value());
    return norms;
  }

  const NormQuestion& question_;
  const NodeView& view_;
  const Setting& setting_;
  Weights& weights_;
};

}  // namespace

std::vector<double> row_norms(std::span<const double> values, std::int64_t rows) {
  std::vector<double> norms;
  const std::size_t size = values.size() / static_cast<std::size_t>(rows);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    double largest = 0.0;
    bool is_number = true;
    for (const double x : values.subspan(row * size, size)) {
      largest = std::max(largest, std::abs(x));
      is_number = is_number && std::isfinite(x);
    }
    if (!is_number) {
      norms.push_back(Magnitude::infinite().value());
      continue;
    }
    if (largest == 0.0) {
      norms.push_back(0.0);
      continue;
    }
    const int scale = std::ilogb(largest);
    double squares = 0.0;
    for (const double x : values.subspan(row * size, size)) {
      const double scaled = std::ldexp(x, -scale);
      squares += scaled * scaled;
    }
    const double sum = outward(squares, static_cast<std::int64_t>(size) + 1, static_cast<std::int64_t>(size));
    norms.push_back((sqrt_up(Magnitude(sum)) * Magnitude(std::ldexp(1.0, scale))).value());
  }
  return norms;
}

std::optional<std::vector<double>> moved_norms(const NormQuestion& question, const Setting& setting, Weights& weights) {
  return std::visit(Norms62(question, setting, weights), question.view.node->op);
}

}  // namespace driftbound::bounds
