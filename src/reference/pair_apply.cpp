#include "reference/pair_apply.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "driftbound/model/composite.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/directed.hpp"
#include "reference/apply.hpp"
#include "reference/pair_functions.hpp"
#include "reference/pair_kernels.hpp"
#include "reference/pair_product_node.hpp"

namespace driftbound {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int bits_of_other_ops = 128;

/// An operand of an elementwise op in the shape of the result: a view, whole or repeated after `period` elements, with
/// a norm for every part.
struct Spread {
  std::optional<PairTensor> copy;
  ConstPairs view{};
  std::size_t period = 0;
  std::vector<double> norms;

  ConstPairs at(std::size_t i) const { return view.from(i % period); }
};

/// Whether the elements repeat as a block of consecutive ones: shape is `result` but for leading extents that are not
/// there, or 1.
bool repeats(const Shape& shape, const Shape& result) {
  std::size_t first = 0;
  while (first < shape.size() && shape[first] == 1) ++first;
  const std::size_t length = shape.size() - first;
  return length <= result.size() && std::equal(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end(),
                                               result.end() - static_cast<std::ptrdiff_t>(length));
}

PairTensor broadcast_copy(const PairTensor& x, const Shape& shape, std::size_t parts) {
  const BroadcastIndex place(x.shape, shape);
  PairTensor result(shape, parts);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t from = place(i);
    result.hi[i] = x.hi[from];
    result.lo[i] = x.lo[from];
    result.radius[i] = x.radius[from];
  }
  result.settle();
  return result;
}

Spread spread(const PairTensor& x, const Shape& shape, std::size_t parts) {
  constexpr std::size_t shortest_period = 16;
  Spread result;
  const auto size = static_cast<std::size_t>(element_count(shape));
  const std::size_t part_size = parts == 0 ? 0 : size / parts;
  const bool whole = x.size() == size && x.parts() == parts;
  const bool by_period = x.is_exact() && repeats(x.shape, shape) && x.size() >= shortest_period &&
                         part_size % std::max<std::size_t>(x.size(), 1) == 0;
  if (!whole && !by_period) result.copy = broadcast_copy(x, shape, parts);
  const PairTensor& source = result.copy ? *result.copy : x;
  result.view = source.view();
  result.period = source.size();
  result.norms = by_period && !whole ? std::vector<double>(parts, 0.0) : source.norms;
  return result;
}

/// Calls f(first, count) for pieces of a part that no operand's end cuts.
template <class F>
void for_pieces(std::size_t first, std::size_t count, std::size_t period, F f) {
  for (std::size_t i = 0; i < count; i += period) f(first + i, std::min(period, count - i));
}

/// What an op computes from its operands; one overload for every op that has a rule of its own.
class PairApplication {
public:
  PairApplication(const Op& op, std::span<const PairInput> inputs, const Shape& output, std::size_t parts)
      : op_(op), inputs_(inputs), result_(output, parts), kernels_(fastest_pair_kernels()) {}

  PairTensor take() { return std::move(result_); }

  void operator()(const op::Gemm& gemm) {
    const PairTensor &a = input(0), &b = input(1);
    multiply_matrices(plan_product(gemm, a.shape, b.shape), inputs_[0], inputs_[1], result_);
    if (gemm.alpha != 1.0) scale(result_, gemm.alpha);
    if (inputs_.size() < 3) return;
    if (gemm.beta == 1.0) return add_to_result(input(2));
    PairTensor term = spread_out(input(2));
    scale(term, gemm.beta);
    add_to_result(term);
  }
  void operator()(const op::MatMul& matmul) {
    multiply_matrices(plan_product(matmul, input(0).shape, input(1).shape), inputs_[0], inputs_[1], result_);
  }

  void operator()(const op::Add&) { sum(kernels_.add); }
  void operator()(const op::Sub&) { sum(kernels_.subtract); }
  void operator()(const op::Mul&) { binary(kernels_.multiply); }
  void operator()(const op::Div&) { binary(kernels_.divide); }
  void operator()(const op::Max&) { extremum(kernels_.maximum); }
  void operator()(const op::Min&) { extremum(kernels_.minimum); }
  void operator()(const op::Relu&) { unary(kernels_.rectified, 1.0); }
  void operator()(const op::Abs&) { unary(kernels_.absolute, 1.0); }
  void operator()(const op::Sqrt&) { unary(kernels_.square_root, infinity); }
  void operator()(const op::Neg&) {
    copy(input(0));
    for (double& x : result_.hi) x = -x;
    for (double& x : result_.lo) x = -x;
  }
  void operator()(const op::Cast&) { copy(input(0)); }
  void operator()(const op::Reciprocal&) {
    const PairTensor one(Tensor<double>({1}, {1.0}));
    const Spread ones = spread(one, result_.shape, result_.parts());
    pieces(ones, whole(input(0)),
           [&](Pairs y, ConstPairs a, ConstPairs b, std::size_t n) { kernels_.divide(y, a, b, n); });
    result_.settle();
  }
  void operator()(const op::Clip& clip) {
    copy(input(0));
    if (std::isfinite(clip.least)) limit(clip.least, kernels_.maximum);
    if (std::isfinite(clip.most)) limit(clip.most, kernels_.minimum);
  }
  void operator()(const op::ReduceSum&) { groups(kernels_.add); }
  void operator()(const op::ReduceMax&) { groups(kernels_.maximum); }
  void operator()(const op::ReduceMin&) { groups(kernels_.minimum); }
  void operator()(const Selection auto& selection) { select(selection); }
  void operator()(const Composite auto&) { follow_body(); }
  void operator()(const op::Softmax& softmax) {
    const ReductionPlan plan = plan_reduction(softmax, input(0).shape);
    if (result_.size() == 0) return;
    for (std::int64_t o = 0; o < plan.outer; ++o)
      for (std::int64_t i = 0; i < plan.inner; ++i) normalise_exponentials(plan, o, i);
    result_.settle();
  }
  void operator()(const auto&) { by_balls(); }

private:
  const PairTensor& input(std::size_t slot) const { return *inputs_[slot].tensor; }
  Spread whole(const PairTensor& x) const { return spread(x, result_.shape, result_.parts()); }
  PairTensor spread_out(const PairTensor& x) const { return broadcast_copy(x, result_.shape, result_.parts()); }

  void copy(const PairTensor& x) {
    const bool same_parts = x.parts() == result_.parts();
    result_.hi = x.hi;
    result_.lo = x.lo;
    result_.radius = x.radius;
    if (same_parts) {
      result_.norms = x.norms;
    } else {
      result_.settle();
    }
  }

  /// f(y, a, b, n) over the whole result.
  template <class F>
  void pieces(const Spread& a, const Spread& b, F f) {
    for_pieces(0, result_.size(), std::min(a.period, b.period), [&](std::size_t first, std::size_t count) {
      f(result_.view().from(first), a.at(first), b.at(first), count);
    });
  }

  /// Of functions that change at most `slope` times as much as their operand, without a rounding.
  void unary(void (*function)(Pairs, ConstPairs, std::size_t), double slope) {
    const PairTensor& x = input(0);
    function(result_.view(), x.view(), x.size());
    const bool same_parts = x.parts() == result_.parts() && slope == 1.0;
    for (std::size_t part = 0; part < result_.parts(); ++part)
      result_.settle(part, same_parts ? x.norms[part] : infinity);
  }

  template <class Function>
  void binary(Function function) {
    const Spread a = whole(input(0)), b = whole(input(1));
    pieces(a, b, [&](Pairs y, ConstPairs one, ConstPairs other, std::size_t n) { (void)function(y, one, other, n); });
    result_.settle();
  }

  void extremum(void (*function)(Pairs, ConstPairs, ConstPairs, std::size_t)) {
    const Spread a = whole(input(0)), b = whole(input(1));
    pieces(a, b, function);
    for (std::size_t part = 0; part < result_.parts(); ++part)
      result_.settle(part, add_up(a.norms[part], b.norms[part]));
  }

  using Rounded = double (*)(Pairs, ConstPairs, ConstPairs, std::size_t);

  void sum(Rounded function) { sum(function, whole(input(0)), whole(input(1))); }
  void sum(Rounded function, const Spread& a, const Spread& b) {
    const std::size_t size = result_.part_size(), period = std::min(a.period, b.period);
    for (std::size_t part = 0; part < result_.parts(); ++part) {
      double added = 0.0;
      for_pieces(part * size, size, period, [&](std::size_t first, std::size_t count) {
        added = std::max(added, function(result_.view().from(first), a.at(first), b.at(first), count));
      });
      const double rounding = mul_up(added, sqrt_up(static_cast<double>(size)));
      result_.settle(part, add_up(add_up(a.norms[part], b.norms[part]), rounding));
    }
  }
  void add_to_result(const PairTensor& term) {
    const Spread b = whole(term);
    const Spread a = {std::nullopt, std::as_const(result_).view(), result_.size(), result_.norms};
    sum(kernels_.add, a, b);
  }

  void scale(PairTensor& tensor, double factor) {
    const PairTensor filled(Tensor<double>(tensor.shape, std::vector<double>(tensor.size(), factor)));
    kernels_.multiply(tensor.view(), std::as_const(tensor).view(), filled.view(), tensor.size());
    tensor.settle();
  }

  void limit(double bound, void (*function)(Pairs, ConstPairs, ConstPairs, std::size_t)) {
    const PairTensor filled(Tensor<double>(result_.shape, std::vector<double>(result_.size(), bound)));
    function(result_.view(), std::as_const(result_).view(), filled.view(), result_.size());
    for (std::size_t part = 0; part < result_.parts(); ++part) result_.settle(part, result_.norms[part]);
  }

  /// Joins the terms of every group from the left.
  template <class Join>
  void groups(Join join) {
    const PairTensor& x = input(0);
    const GroupPlan plan = plan_groups(op_, x.shape);
    if (plan.elements.empty()) result_ = PairTensor(Tensor<double>(result_.shape));
    for (std::size_t g = 0; g < result_.size(); ++g) {
      const Pairs y = result_.view().from(g);
      const ConstPairs joined = std::as_const(result_).view().from(g);
      for (std::size_t j = 0; j < plan.elements.size(); ++j) {
        const std::size_t i = plan.groups[g] + plan.elements[j];
        if (j == 0) {
          *y.hi = x.hi[i], *y.lo = x.lo[i], *y.radius = x.radius[i];
        } else {
          (void)join(y, joined, x.view().from(i), 1);
        }
      }
    }
    result_.settle();
  }

  template <class SelectionOp>
  void select(const SelectionOp&) {
    if constexpr (Reshaping<SelectionOp>) {
      copy(input(0));
    } else {
      std::vector<Shape> shapes;
      for (const PairInput& operand : inputs_) shapes.push_back(operand.tensor->shape);
      const std::vector<ElementSource> sources = plan_selection(op_, shapes, result_.shape);
      const PairTensor fill(Tensor<double>({1}, {fill_value(op_)}));
      for (std::size_t i = 0; i < sources.size(); ++i) {
        if (sources[i].is_fill()) {
          result_.hi[i] = fill.hi[0];
          result_.lo[i] = fill.lo[0];
          result_.radius[i] = fill.radius[0];
          continue;
        }
        const PairTensor& x = input(sources[i].input);
        result_.hi[i] = x.hi[sources[i].index];
        result_.lo[i] = x.lo[sources[i].index];
        result_.radius[i] = x.radius[sources[i].index];
      }
      result_.settle();
    }
  }

  void follow_body() {
    std::vector<Shape> shapes;
    for (const PairInput& operand : inputs_) shapes.push_back(operand.tensor->shape);
    const Graph body = composite_body(op_, shapes);
    const std::vector<Shape> inner = infer_shapes(body, shapes);
    std::vector<PairInput> values(body.values.size());
    std::deque<PairTensor> held;
    const auto hold = [&](ValueId id, PairTensor tensor) { values[id].tensor = &held.emplace_back(std::move(tensor)); };
    for (std::size_t slot = 0; slot < inputs_.size(); ++slot) values[body.inputs[slot]] = inputs_[slot];
    for (ValueId id = 0; id < values.size(); ++id) {
      if (body.is_constant(id)) hold(id, PairTensor(body.value(id).constant.to_double()));
    }
    for (const Node& node : body.nodes) {
      std::vector<PairInput> operands;
      for (const ValueId id : node.inputs) operands.push_back(values[id]);
      hold(node.output, apply(node.op, operands, inner[node.output], 1));
    }
    const std::size_t parts = result_.parts();
    result_ = std::move(held.back());  // the output is the last node's
    result_.norms.assign(parts, infinity);
    result_.settle();
  }

  /// e^(x_i - c) / sum_j e^(x_j - c), c the largest high part: the quotient does not depend on c.
  void normalise_exponentials(const ReductionPlan& plan, std::int64_t o, std::int64_t i) {
    static const Op exponential = op::Exp{};
    const PairTensor& x = input(0);
    const auto length = static_cast<std::size_t>(plan.length);
    PairTensor terms(Tensor<double>({plan.length})), sum(Tensor<double>(Shape{})), shares(terms);
    double largest = -infinity;
    for (std::size_t j = 0; j < length; ++j) {
      const std::size_t at = plan.index(o, static_cast<std::int64_t>(j), i);
      terms.hi[j] = x.hi[at], terms.lo[j] = x.lo[at], terms.radius[j] = x.radius[at];
      largest = std::max(largest, x.hi[at]);
    }
    const PairTensor shift(Tensor<double>({plan.length}, std::vector<double>(length, largest)));
    kernels_.subtract(terms.view(), std::as_const(terms).view(), shift.view(), length);
    evaluate(*pair_function(exponential), exponential, terms, shares);
    for (std::size_t j = 0; j < length; ++j)
      kernels_.add(sum.view(), std::as_const(sum).view(), std::as_const(shares).view().from(j), 1);
    PairTensor sums(Tensor<double>({plan.length}));
    for (std::size_t j = 0; j < length; ++j)
      sums.hi[j] = sum.hi[0], sums.lo[j] = sum.lo[0], sums.radius[j] = sum.radius[0];
    kernels_.divide(shares.view(), std::as_const(shares).view(), std::as_const(sums).view(), length);
    for (std::size_t j = 0; j < length; ++j) {
      const std::size_t at = plan.index(o, static_cast<std::int64_t>(j), i);
      result_.hi[at] = shares.hi[j], result_.lo[at] = shares.lo[j], result_.radius[at] = shares.radius[j];
    }
  }

  void by_balls() {
    std::deque<BallTensor> operands;
    std::vector<const BallTensor*> pointers;
    for (const PairInput& operand : inputs_)
      pointers.push_back(&operands.emplace_back(operand.tensor->balls(bits_of_other_ops)));
    result_ = PairTensor(apply(op_, pointers, result_.shape, bits_of_other_ops), result_.parts());
  }

  const Op& op_;
  std::span<const PairInput> inputs_;
  PairTensor result_;
  const PairKernels& kernels_;
};

}  // namespace

PairTensor apply(const Op& op, std::span<const PairInput> inputs, const Shape& output, std::size_t parts) {
  if (const PairFunction* const function = pair_function(op)) {
    PairTensor result(output, parts);
    evaluate(*function, op, *inputs[0].tensor, result);
    return result;
  }
  PairApplication application(op, inputs, output, parts);
  std::visit(application, op);
  return application.take();
}

}  // namespace driftbound
