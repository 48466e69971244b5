#include "evaluate/node_evaluator.hpp"

#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>

#include "driftbound/num/errors.hpp"
#include "evaluate/functions.hpp"
#include "evaluate/nan.hpp"
#include "evaluate/shared/elements.inl.hpp"
#include "linalg/scheduled_sums.hpp"
#include "linalg/summation.hpp"
#include "model/shapes.hpp"
#include "model/variant.hpp"
#include "num/parallel.hpp"

namespace driftbound {
namespace {

constexpr std::int64_t elements_worth_a_thread = 1 << 15;

/// f(i) for every index below count.
template <class F>
void for_each_index(std::size_t count, int threads, F f) {
  const auto all = static_cast<std::int64_t>(count);
  parallel_for(all, all < elements_worth_a_thread ? 1 : threads, [&f](std::int64_t first, std::int64_t last) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) f(i);
  });
}

FormatId cast_format(ElementType type) {
  if (const auto format = float_format(type)) return *format;
  throw Unsupported("a Cast to " + std::string(name_of(type)) + " is not an op on reals");
}

/// Sums of n numbers in the order that an arithmetic declares.
class DeclaredSum {
public:
  DeclaredSum(const SummationOrder& order, std::int64_t n) {
    if (order.kind == SummationOrder::Kind::dealt) {
      schedule_ = schedule_of(order.parts, n);
    } else {
      in_order_.chain_length = static_cast<std::int64_t>(chain_length(order, n));
    }
  }

  template <class Chain>
  auto operator()(std::int64_t n, const Chain& chain) const {
    return schedule_ ? linalg::scheduled_sum(*schedule_, chain) : in_order_(n, chain);
  }

private:
  shared::OrderedSum in_order_ = {};
  std::optional<SumSchedule> schedule_;  ///< of an order that deals terms out
};

/// What the shared ops on elements need, in both widths.
struct CpuFunctions {
  template <class Real>
  static Real exp(Real x) {
    return accumulator::exp(x);
  }
  template <class Real>
  static Real expm1(Real x) {
    return accumulator::expm1(x);
  }
};

/// Ops as visitors: one overload of operator() each, all inputs read through `values_`.
template <class Real>
class NodeEvaluator {
public:
  NodeEvaluator(const Program& program, std::size_t node, const ArithmeticModel& arithmetic,
                const ProductKernel* kernel, int threads, Values<Real>& values)
      : program_(program),
        node_(program.nodes()[node]),
        index_(node),
        arithmetic_(arithmetic),
        kernel_(kernel),
        threads_(threads),
        values_(values),
        shape_(program.shape(node_.output)) {}

  Tensor<Real> operator()(const op::Gemm& gemm) {
    Tensor<Real> y = product(gemm);
    if (gemm.alpha != 1.0) {
      const Real alpha = attribute(gemm.alpha);
      for (Real& x : y.values) x *= alpha;
    }
    const bool is_added = kernel_ != nullptr && kernel_->addend != AddendPlace::last;
    if (node_.inputs.size() > 2 && !is_added) add_bias(gemm.beta, y);
    return y;
  }
  Tensor<Real> operator()(const op::MatMul& matmul) { return product(matmul); }

  Tensor<Real> operator()(const op::Add&) {
    return pairs([](Real a, Real b) { return a + b; });
  }
  Tensor<Real> operator()(const op::Sub&) {
    return pairs([](Real a, Real b) { return a - b; });
  }
  Tensor<Real> operator()(const op::Mul&) {
    return pairs([](Real a, Real b) { return a * b; });
  }
  Tensor<Real> operator()(const op::Div&) {
    return pairs([](Real a, Real b) { return a / b; });
  }
  Tensor<Real> operator()(const op::Neg&) {
    return elements([](Real x) { return -x; });
  }
  Tensor<Real> operator()(const op::Relu&) {
    return elements([](Real x) { return shared::relu(x); });
  }
  Tensor<Real> operator()(const op::LeakyRelu& leaky) {
    const Real alpha = attribute(leaky.alpha);
    return elements([alpha](Real x) { return shared::leaky_relu(x, alpha); });
  }
  Tensor<Real> operator()(const op::Elu& elu) {
    const Real alpha = attribute(elu.alpha);
    return elements([alpha](Real x) { return shared::elu<CpuFunctions>(x, alpha); });
  }
  Tensor<Real> operator()(const op::Tanh&) {
    return elements([](Real x) { return accumulator::tanh(x); });
  }
  Tensor<Real> operator()(const op::Sigmoid&) {
    return elements([](Real x) { return accumulator::sigmoid(x); });
  }
  Tensor<Real> operator()(const op::Softplus&) {
    return elements([](Real x) { return accumulator::softplus(x); });
  }
  Tensor<Real> operator()(const op::Sin&) {
    return elements([](Real x) { return accumulator::sin(x); });
  }
  Tensor<Real> operator()(const op::Cos&) {
    return elements([](Real x) { return accumulator::cos(x); });
  }
  Tensor<Real> operator()(const op::Exp&) {
    return elements([](Real x) { return accumulator::exp(x); });
  }
  Tensor<Real> operator()(const op::Erf&) {
    return elements([](Real x) { return accumulator::erf(x); });
  }
  Tensor<Real> operator()(const op::Sqrt&) {
    return elements([](Real x) { return std::sqrt(x); });
  }
  Tensor<Real> operator()(const op::Abs&) {
    return elements([](Real x) { return std::abs(x); });
  }
  Tensor<Real> operator()(const op::Reciprocal&) {
    return elements([](Real x) { return Real(1) / x; });
  }
  Tensor<Real> operator()(const op::Log&) {
    return elements([](Real x) { return accumulator::log(x); });
  }
  Tensor<Real> operator()(const op::Tan&) {
    return elements([](Real x) { return accumulator::tan(x); });
  }
  Tensor<Real> operator()(const op::Atan&) {
    return elements([](Real x) { return accumulator::atan(x); });
  }
  Tensor<Real> operator()(const op::Sinh&) {
    return elements([](Real x) { return accumulator::sinh(x); });
  }
  Tensor<Real> operator()(const op::Cosh&) {
    return elements([](Real x) { return accumulator::cosh(x); });
  }
  Tensor<Real> operator()(const op::Floor&) {
    return elements([](Real x) { return std::floor(x); });
  }
  Tensor<Real> operator()(const op::Ceil&) {
    return elements([](Real x) { return std::ceil(x); });
  }
  Tensor<Real> operator()(const op::Round&) {
    return elements([](Real x) { return std::rint(x); });
  }
  Tensor<Real> operator()(const op::Sign&) {
    return elements([](Real x) { return shared::sign(x); });
  }
  Tensor<Real> operator()(const op::Pow& power) {
    return elements([p = power.exponent](Real x) { return accumulator::pow(x, p); });
  }
  Tensor<Real> operator()(const op::Clip& clip) {
    const Real least = attribute(clip.least), most = attribute(clip.most);
    return elements([=](Real x) { return shared::lower(shared::raise(x, least), most); });
  }
  Tensor<Real> operator()(const op::ThresholdedRelu& relu) {
    const Real alpha = attribute(relu.alpha);
    return elements([alpha](Real x) { return shared::thresholded_relu(x, alpha); });
  }
  Tensor<Real> operator()(const op::Min&) {
    return pairs([](Real a, Real b) { return shared::minimum(a, b); });
  }
  Tensor<Real> operator()(const op::Max&) {
    return pairs([](Real a, Real b) { return shared::maximum(a, b); });
  }
  Tensor<Real> operator()(const op::PRelu&) {
    return pairs([](Real x, Real slope) { return shared::prelu(x, slope); });
  }
  Tensor<Real> operator()(const op::Greater&) {
    return pairs([](Real a, Real b) { return shared::greater(a, b); });
  }
  Tensor<Real> operator()(const op::GreaterOrEqual&) {
    return pairs([](Real a, Real b) { return shared::greater_or_equal(a, b); });
  }
  Tensor<Real> operator()(const op::Equal&) {
    return pairs([](Real a, Real b) { return shared::equal(a, b); });
  }
  Tensor<Real> operator()(const op::Choice&) {
    const Tensor<Real>&c = input(0), &a = input(1), &b = input(2);
    const BroadcastIndex in_c(c.shape, shape_), in_a(a.shape, shape_), in_b(b.shape, shape_);
    Tensor<Real> y(shape_);
    for_each_index(y.size(), threads_, [&](std::size_t i) {
      y.values[i] = shared::choice(c.values[in_c(i)], a.values[in_a(i)], b.values[in_b(i)]);
    });
    return y;
  }
  Tensor<Real> operator()(const op::Cast& cast) { return rounded<Real>(input(0), cast_format(cast.to)); }

  Tensor<Real> operator()(const op::Softmax& softmax) {
    const Tensor<Real>& x = input(0);
    const ReductionPlan plan = plan_reduction(softmax, x.shape);
    Tensor<Real> y(shape_);
    if (y.size() == 0) return y;
    const DeclaredSum sum(arithmetic_.order, plan.length);
    const std::int64_t groups = plan.outer * plan.inner;
    const int threads = groups * plan.length < elements_worth_a_thread ? 1 : threads_;
    parallel_for(groups, threads, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t g = first; g < last; ++g) {
        const std::size_t start = plan.index(g / plan.inner, 0, g % plan.inner);
        shared::softmax<CpuFunctions>(&x.values[start], &y.values[start], plan.length, plan.inner, sum);
      }
    });
    return y;
  }

  Tensor<Real> operator()(const Selection auto&) {
    std::vector<const Tensor<Real>*> inputs;
    for (std::size_t slot = 0; slot < node_.inputs.size(); ++slot) inputs.push_back(&input(slot));
    return select<Real>(node_.op, inputs, shape_);
  }

  Tensor<Real> operator()(const op::ReduceSum&) {
    const auto length = static_cast<std::int64_t>(plan_groups(node_.op, input(0).shape).elements.size());
    if (length == 0) return groups([](std::span<const Real>) { return Real(0); });
    const DeclaredSum sum(arithmetic_.order, length);
    return groups([&](std::span<const Real> terms) { return sum(length, shared::TermChain<Real>{terms.data(), 1}); });
  }
  Tensor<Real> operator()(const op::ReduceMax&) {
    return groups([](std::span<const Real> terms) {
      return std::accumulate(terms.begin() + 1, terms.end(), terms[0], shared::maximum<Real>);
    });
  }
  Tensor<Real> operator()(const op::ReduceMin&) {
    return groups([](std::span<const Real> terms) {
      return std::accumulate(terms.begin() + 1, terms.end(), terms[0], shared::minimum<Real>);
    });
  }

  Tensor<Real> operator()(const Composite auto&) {
    throw std::logic_error("evaluate_node: a program has no composites");
  }

private:
  const Tensor<Real>& input(std::size_t slot) { return values_.operand(node_.inputs[slot]); }
  Real attribute(double value) const { return rounded<Real>(value, arithmetic_.accumulator); }

  template <class ProductOp>
  Tensor<Real> product(const ProductOp& op) {
    const ProductPlan plan = plan_product(op, program_.shape(node_.inputs[0]), program_.shape(node_.inputs[1]));
    const OperandChoice reading =
        kernel_ != nullptr ? OperandChoice{kernel_->operands, kernel_->operand_rounding} : reading_of(arithmetic_);
    const PackedMatrices<Real>& b = values_.packed_operand(index_, node_.inputs[1], reading, plan);
    const Tensor<Real>& a = values_.product_operand(node_.inputs[0], reading);
    if (kernel_ != nullptr) return by_kernel(*kernel_, plan, a, b);
    if (arithmetic_.tensor_core || arithmetic_.order.kind == SummationOrder::Kind::dealt)
      return by_kernel(kernel_of(arithmetic_, plan.k), plan, a, b);
    return Tensor<Real>(shape_, multiply(plan, a, b, arithmetic_.order, threads_));
  }

  Tensor<Real> by_kernel(const ProductKernel& kernel, const ProductPlan& plan, const Tensor<Real>& a,
                         const PackedMatrices<Real>& b) {
    Tensor<Real> y(shape_), addends;
    if (const auto* gemm = std::get_if<op::Gemm>(&node_.op);
        gemm != nullptr && node_.inputs.size() > 2 && kernel.addend != AddendPlace::last) {
      addends = Tensor<Real>(shape_);
      add_bias(gemm->beta, addends);
    }
    linalg::multiply_by_kernel<Real>(plan, a.values, b, kernel, threads_, y.values, addends.values);
    return y;
  }

  void add_bias(double beta, Tensor<Real>& y) {
    const Tensor<Real>& bias = input(2);
    const Real factor = attribute(beta);
    if (is_one_row(bias)) {
      for (std::size_t row = 0; row < y.size(); row += bias.size())
        for (std::size_t j = 0; j < bias.size(); ++j) y.values[row + j] += factor * bias.values[j];
      return;
    }
    const BroadcastIndex index(bias.shape, shape_);
    for (std::size_t i = 0; i < y.size(); ++i) y.values[i] += factor * bias.values[index(i)];
  }

  /// Whether the result's rows all take the same numbers, one each for their elements.
  bool is_one_row(const Tensor<Real>& operand) const {
    return !operand.shape.empty() && !shape_.empty() && operand.size() > 0 && operand.shape.back() == shape_.back() &&
           operand.size() == static_cast<std::size_t>(shape_.back());
  }

  /// f of the terms of every group.
  template <class F>
  Tensor<Real> groups(F f) {
    const Tensor<Real>& x = input(0);
    const GroupPlan plan = plan_groups(node_.op, x.shape);
    Tensor<Real> y(shape_);
    const auto all = static_cast<std::int64_t>(y.size());
    parallel_for(all, x.values.size() < elements_worth_a_thread ? 1 : threads_,
                 [&](std::int64_t first, std::int64_t last) {
                   std::vector<Real> terms(plan.elements.size());
                   for (auto g = static_cast<std::size_t>(first); g < static_cast<std::size_t>(last); ++g) {
                     for (std::size_t j = 0; j < terms.size(); ++j) {
                       terms[j] = x.values[plan.groups[g] + plan.elements[j]];
                     }
                     y.values[g] = f(terms);
                   }
                 });
    return y;
  }

  template <class F>
  Tensor<Real> elements(F f) {
    const Tensor<Real>& x = input(0);
    Tensor<Real> y(shape_);
    for_each_index(y.size(), threads_, [&](std::size_t i) { y.values[i] = f(x.values[i]); });
    return y;
  }

  template <class F>
  Tensor<Real> pairs(F f) {
    const Tensor<Real>& a = input(0);
    const Tensor<Real>& b = input(1);
    const BroadcastIndex in_a(a.shape, shape_), in_b(b.shape, shape_);
    Tensor<Real> y(shape_);
    for_each_index(y.size(), threads_, [&](std::size_t i) { y.values[i] = f(a.values[in_a(i)], b.values[in_b(i)]); });
    return y;
  }

  const Program& program_;
  const Node& node_;
  std::size_t index_;
  const ArithmeticModel& arithmetic_;
  const ProductKernel* kernel_;  ///< of its products; null: as the arithmetic declares them
  int threads_;
  Values<Real>& values_;
  const Shape& shape_;
};

}  // namespace

template <class Real>
Tensor<Real> evaluate_node(const Program& program, std::size_t node, const ArithmeticModel& arithmetic,
                           const ProductKernel* kernel, int threads, Values<Real>& values) {
  Tensor<Real> y =
      std::visit(NodeEvaluator<Real>(program, node, arithmetic, kernel, threads, values), program.nodes()[node].op);
  unify_nans<Real>(y.values);
  return y;
}

template Tensor<float> evaluate_node<float>(const Program&, std::size_t, const ArithmeticModel&, const ProductKernel*,
                                            int, Values<float>&);
template Tensor<double> evaluate_node<double>(const Program&, std::size_t, const ArithmeticModel&, const ProductKernel*,
                                              int, Values<double>&);

}  // namespace driftbound
