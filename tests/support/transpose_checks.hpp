#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "bounds/nodes/transpose.hpp"
#include "evaluate/every_op.hpp"
#include "model/shapes.hpp"
#include "support/small_networks.hpp"

/// Transposed products at single nodes, against Jacobians over the reals that are built column by column from what
/// the ops say forward.
namespace checks {

using driftbound::tests::OpCase;

/// How the Jacobian of a primitive op is given to the adjoint.
enum class Slopes { own, per_output, per_input, stored_softmax };

inline Slopes slopes_of(const Op& op) {
  return std::visit(
      [](const auto& which) {
        using T = std::decay_t<decltype(which)>;
        if constexpr (OneOf<T, op::ReduceMax, op::ReduceMin>) return Slopes::per_input;
        if constexpr (OneOf<T, op::Softmax>) return Slopes::stored_softmax;
        constexpr bool is_linear = OneOf<T, op::Add, op::Sub, op::Neg, op::Cast, op::ReduceSum, op::Gemm, op::MatMul>;
        return is_linear || Selection<T> ? Slopes::own : Slopes::per_output;
      },
      op);
}

enum class Draws { uniform, wide, sparse, tiny, last };

inline double draw_number(Draws draws, Generator& generator) {
  const double x = uniform(generator, -2.0, 2.0) * uniform(generator, 0.5, 1.0);  // on no grid
  if (draws == Draws::wide) return std::ldexp(x, static_cast<int>(generator() % 80) - 40);
  if (draws == Draws::tiny) return std::ldexp(x, -538 - static_cast<int>(generator() % 3));
  const std::uint64_t choice = draws == Draws::sparse ? generator() % 6 : 6;
  return choice < 3 ? 0.0 : choice == 3 ? 1.0 : choice == 4 ? -1.0 : x;
}

inline std::vector<double> draw_numbers(std::size_t count, Draws draws, Generator& generator) {
  std::vector<double> numbers(count);
  for (double& x : numbers) x = draw_number(draws, generator);
  return numbers;
}

/// One node at a centre, the Jacobian that is asked for and what is multiplied by it.
struct TransposeCase {
  Node node;
  std::vector<Tensor<double>> operands;
  Tensor<double> output;
  std::vector<std::vector<double>> slopes;
  std::vector<double> d;

  bounds::NodeView view() const {
    bounds::NodeView view;
    view.node = &node;
    for (const Tensor<double>& operand : operands) view.inputs.push_back(&operand);
    view.output = &output;
    return view;
  }
  std::vector<bool> all_wanted() const { return std::vector<bool>(operands.size(), true); }
};

/// Shapes and attributes of an op with numbers of one kind. What a nonlinear op computes does not matter: its Jacobian
/// is the slopes, whatever they are, or the stored softmax, whether it adds up to 1 or not.
inline TransposeCase draw_case(const OpCase& one, Draws draws, Generator& generator) {
  TransposeCase result;
  result.node.name = "node";
  result.node.op = one.op;
  std::vector<Shape> shapes;
  for (const Tensor<double>& operand : one.operands) {
    result.operands.push_back({operand.shape, draw_numbers(operand.size(), draws, generator)});
    shapes.push_back(operand.shape);
    if (slopes_of(one.op) == Slopes::per_input) {
      result.slopes.push_back(draw_numbers(operand.size(), draws, generator));
    }
  }
  result.output = Tensor<double>(output_shape(one.op, shapes));
  result.output.values = draw_numbers(result.output.size(), draws, generator);
  if (slopes_of(one.op) == Slopes::per_output) {
    for (std::size_t slot = 0; slot < shapes.size(); ++slot)
      result.slopes.push_back(draw_numbers(result.output.size(), draws, generator));
  }
  result.d = draw_numbers(result.output.size(), draws, generator);
  return result;
}

inline bounds::Setting setting_of(int threads = 1) {
  bounds::Setting setting;
  setting.threads = threads;
  return setting;
}

using RealTensor = Tensor<Real>;

inline RealTensor reals(const Tensor<double>& x) {
  RealTensor result(x.shape);
  for (std::size_t i = 0; i < x.size(); ++i) result.values[i] = Real(x.values[i]);
  return result;
}
inline RealTensor reals(const Shape& shape, const std::vector<double>& x) {
  return reals(Tensor<double>(shape, x));
}

inline RealTensor group_sums(const std::vector<std::int64_t>& axes, const RealTensor& x, const Shape& shape) {
  const GroupPlan plan = plan_groups(axes, x.shape);
  RealTensor result(shape);
  for (std::size_t g = 0; g < result.size(); ++g) {
    for (const std::size_t element : plan.elements) result.values[g] += x.values[plan.groups[g] + element];
  }
  return result;
}

/// The op as it is forward, at one operand replaced.
inline RealTensor forward_at(const TransposeCase& one, std::size_t slot, const RealTensor& x) {
  if (const auto* sum = std::get_if<op::ReduceSum>(&one.node.op)) return group_sums(sum->axes, x, one.output.shape);
  std::vector<RealTensor> values;
  for (std::size_t i = 0; i < one.operands.size(); ++i) values.push_back(i == slot ? x : reals(one.operands[i]));
  Operands<Real> operands;
  for (const RealTensor& value : values) operands.push_back(&value);
  return apply<Real>(one.node.op, operands, one.output.shape, {});
}

inline RealTensor product_of_elements(const RealTensor& a, const RealTensor& b, const Shape& shape) {
  return binary<Real>({&a, &b}, shape, [](const Real& x, const Real& y) { return x * y; });
}

inline std::vector<std::int64_t> axes_of(const op::Softmax& softmax, const Shape& shape) {
  const auto first = static_cast<std::int64_t>(normalized_axis(softmax.axis, shape.size()));
  std::vector<std::int64_t> axes{first};
  while (softmax.all_trailing_axes && axes.back() + 1 < static_cast<std::int64_t>(shape.size()))
    axes.push_back(axes.back() + 1);
  return axes;
}

/// diag(p) x - p (p·x) for every group of a softmax.
inline RealTensor softmax_times(const TransposeCase& one, const RealTensor& x) {
  const RealTensor p = reals(one.output);
  const RealTensor weighed = product_of_elements(p, x, x.shape);
  const std::vector<std::int64_t> axes = axes_of(std::get<op::Softmax>(one.node.op), x.shape);
  Shape kept = x.shape;
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  const RealTensor shared = product_of_elements(p, group_sums(axes, weighed, kept), x.shape);
  RealTensor result(x.shape);
  for (std::size_t i = 0; i < x.size(); ++i) result.values[i] = weighed.values[i] - shared.values[i];
  return result;
}

/// J x for one operand, over the reals.
inline RealTensor jacobian_times(const TransposeCase& one, std::size_t slot, const RealTensor& x) {
  const Shape& shape = one.output.shape;
  switch (slopes_of(one.node.op)) {
    case Slopes::own: {
      const RealTensor at_x = forward_at(one, slot, x), at_0 = forward_at(one, slot, RealTensor(x.shape));
      RealTensor result(shape);
      for (std::size_t i = 0; i < result.size(); ++i) result.values[i] = at_x.values[i] - at_0.values[i];
      return result;
    }
    case Slopes::per_output:
      return product_of_elements(x, reals(shape, one.slopes[slot]), shape);
    case Slopes::per_input: {
      const auto* largest = std::get_if<op::ReduceMax>(&one.node.op);
      const auto& axes = largest != nullptr ? largest->axes : std::get<op::ReduceMin>(one.node.op).axes;
      return group_sums(axes, product_of_elements(x, reals(x.shape, one.slopes[slot]), x.shape), shape);
    }
    case Slopes::stored_softmax:
      return softmax_times(one, x);
  }
  return {};
}

inline Real inner(const std::vector<double>& x, const std::vector<Real>& y) {
  Real sum;
  for (std::size_t i = 0; i < x.size(); ++i) sum += Real(x[i]) * y[i];
  return sum;
}

/// J^T d, one column of J an element.
inline std::vector<Real> exact_transposed(const TransposeCase& one, std::size_t slot) {
  RealTensor unit(one.operands[slot].shape);
  std::vector<Real> result;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    unit.values[i] = Real(1.0);
    result.push_back(inner(one.d, jacobian_times(one, slot, unit).values));
    unit.values[i] = Real(0.0);
  }
  return result;
}

inline double defect_at(const bounds::Transposed& share, std::size_t i) {
  return share.defect.empty() ? 0.0 : share.defect[i];
}

/// Values of every operand within their defects of J^T d.
inline Tally check_transpose(const TransposeCase& one) {
  const std::vector<bounds::Transposed> shares =
      transposed(one.view(), one.slopes, one.d, one.all_wanted(), setting_of());
  Tally tally;
  for (std::size_t slot = 0; slot < shares.size(); ++slot) {
    const std::vector<Real> exact = exact_transposed(one, slot);
    for (std::size_t i = 0; i < exact.size(); ++i)
      tally.add(shares[slot].values.at(i), exact[i], defect_at(shares[slot], i));
  }
  return tally;
}

inline Tally check_transposes(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (const OpCase& one : tests::every_primitive(generator)) {
    for (int draws = 0; draws < static_cast<int>(Draws::last); ++draws) {
      for (int i = 0; i < repetitions; ++i)
        tally += check_transpose(draw_case(one, static_cast<Draws>(draws), generator));
    }
  }
  return tally;
}

}  // namespace checks
