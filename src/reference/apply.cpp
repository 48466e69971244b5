#include "reference/apply.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "driftbound/model/composite.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "reference/ball_functions.hpp"
#include "reference/float_product.hpp"
#include "reference/product.hpp"
#include "reference/sliced_product.hpp"

namespace driftbound {

namespace {

using Operands = std::span<const BallInput>;

bool is_exact(const BallTensor& tensor) {
  for (std::size_t i = 0; i < tensor.size(); ++i)
    if (!tensor[i].is_exact()) return false;
  return true;
}

// A B for a constant B whose matrices are kept; false where slices do not take it.
bool multiply_by_constant(BallTensor& c, const BallTensor& a, const PairInput& b, const ProductPlan& plan) {
  if (b.kept == nullptr || plan.k == 0 || plan.m == 0 || plan.n == 0) return false;
  const auto size = [](std::int64_t extent) { return static_cast<std::size_t>(extent); };
  std::vector<BallVector> rows(size(plan.m));
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i)
      rows[size(i)] = {&a, plan.a_index(batch, i, 0), size(plan.a_col), size(plan.k)};
    const KeptMatrices::Place place = {plan.b_index(batch, 0, 0), size(plan.n), size(plan.k), plan.b_col, plan.b_row,
                                       linalg::Side::right};
    if (!multiply_by_slices(c, size(batch * plan.m * plan.n), rows, b, place)) return false;
  }
  return true;
}

// C = A B: float32 numbers exactly in double where that is certain; else with the rows of one operand and the columns
// of the other as fixed-point vectors. The vectors of the exact operand (a constant, as a rule) have few limbs; they
// are kept, the others pass by.
void multiply(BallTensor& c, const BallTensor& a, const BallTensor& b, const ProductPlan& plan) {
  const bool keep_a = is_exact(a) && !is_exact(b);
  const auto size = [](std::int64_t extent) { return static_cast<std::size_t>(extent); };
  const std::size_t m = size(plan.m), n = size(plan.n), k = size(plan.k);
  std::vector<FixedPointVector> kept(keep_a ? m : n);
  FixedPointVector passing;
  DotProduct dot;
  const FloatProduct floats(a, b, plan);
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    if (floats.multiply(c, batch)) continue;
    const auto row = [&](std::size_t i) {
      return BallVector{&a, k == 0 ? 0 : plan.a_index(batch, static_cast<std::int64_t>(i), 0), size(plan.a_col), k};
    };
    const auto column = [&](std::size_t j) {
      return BallVector{&b, k == 0 ? 0 : plan.b_index(batch, 0, static_cast<std::int64_t>(j)), size(plan.b_row), k};
    };
    const std::size_t first = size(batch) * m * n;
    for (std::size_t v = 0; v < kept.size(); ++v) kept[v].assign(keep_a ? row(v) : column(v));
    if (keep_a) {
      for (std::size_t j = 0; j < n; ++j) {
        passing.assign(column(j));
        for (std::size_t i = 0; i < m; ++i) dot(c[first + i * n + j], passing, kept[i]);
      }
    } else {
      for (std::size_t i = 0; i < m; ++i) {
        passing.assign(row(i));
        for (std::size_t j = 0; j < n; ++j) dot(c[first + i * n + j], passing, kept[j]);
      }
    }
  }
}

// Bits with which rounding a ball's midpoint, or a number of its size or below 1, costs 2^-40 of the radius (T-33), in
// whole limbs; `most` where that is no fewer.
int useful_bits(const MpBall& x, int most) {
  constexpr std::int64_t spare = 40, limb = GMP_NUMB_BITS;
  if (x.is_exact() || x.is_unknown() || x.is_void()) return most;
  const std::int64_t size = mpfr_zero_p(x.mid()) ? 0 : std::max<std::int64_t>(mpfr_get_exp(x.mid()), 0);
  const std::int64_t bits = std::max<std::int64_t>(size - x.radius.exponent(), 0) + spare;
  return bits > most - limb ? most : static_cast<int>((bits + limb - 1) / limb * limb);
}

// What an op computes from its operands; one overload for every op.
class Application {
public:
  Application(Operands inputs, const Shape& output, int bits, const Op& op)
      : inputs_(inputs), result_(output, bits), scratch_({4}, bits), op_(op) {}

  BallTensor take() { return std::move(result_); }

  void operator()(const op::Gemm& gemm) {
    multiply_matrices(plan_product(gemm, inputs_[0].shape(), inputs_[1].shape()));
    if (gemm.alpha != 1.0) scale(result_, gemm.alpha);
    if (inputs_.size() < 3) return;
    const BallTensor& c = *inputs_[2];
    const BroadcastIndex place(c.shape(), result_.shape());
    MpBall& sum = scratch_[0];
    MpBall& term = scratch_[1];
    MpBall& beta = scratch_[2];
    assign(beta, gemm.beta);
    for (std::size_t i = 0; i < result_.size(); ++i) {
      if (gemm.beta == 1.0) {
        add(sum, result_[i], c[place(i)]);
      } else {
        driftbound::multiply(term, c[place(i)], beta);
        add(sum, result_[i], term);
      }
      assign(result_[i], sum);
    }
  }
  void operator()(const op::MatMul& matmul) {
    multiply_matrices(plan_product(matmul, inputs_[0].shape(), inputs_[1].shape()));
  }

  void operator()(const op::Add&) { binary(add); }
  void operator()(const op::Sub&) { binary(subtract); }
  void operator()(const op::Mul&) { binary(driftbound::multiply); }
  void operator()(const op::Div&) { binary(divide); }

  void operator()(const op::Min&) { binary(minimum); }
  void operator()(const op::Max&) { binary(maximum); }
  /// max(x, 0) - slope max(-x, 0)
  void operator()(const op::PRelu&) {
    binary([this](MpBall& y, const MpBall& x, const MpBall& slope) {
      rectified(scratch_[0], x);
      negate(scratch_[1], x);
      rectified(scratch_[2], scratch_[1]);
      driftbound::multiply(scratch_[3], scratch_[2], slope);
      subtract(y, scratch_[0], scratch_[3]);
    });
  }

  void operator()(const op::Greater&) { compare(is_positive); }
  void operator()(const op::GreaterOrEqual&) { compare(is_not_negative); }
  void operator()(const op::Equal&) { compare(is_zero); }
  void operator()(const op::Choice&) {
    const BallTensor &c = *inputs_[0], &a = *inputs_[1], &b = *inputs_[2];
    const BroadcastIndex in_c(c.shape(), result_.shape()), in_a(a.shape(), result_.shape());
    const BroadcastIndex in_b(b.shape(), result_.shape());
    assign(scratch_[0], 0.5);
    for (std::size_t i = 0; i < result_.size(); ++i) {
      subtract(scratch_[1], c[in_c(i)], scratch_[0]);
      is_positive(scratch_[2], scratch_[1]);
      choose(result_[i], scratch_[2], a[in_a(i)], b[in_b(i)]);
    }
  }

  void operator()(const op::Neg&) { unary(negate); }
  void operator()(const op::Abs&) { unary(absolute); }
  void operator()(const op::Reciprocal&) { unary(reciprocal); }
  void operator()(const op::Log&) { shortened(logarithm); }
  void operator()(const op::Tan&) { shortened(tangent); }
  void operator()(const op::Atan&) { shortened(arctangent); }
  void operator()(const op::Sinh&) { shortened(hyperbolic_sine); }
  void operator()(const op::Cosh&) { shortened(hyperbolic_cosine); }
  void operator()(const op::Sign&) { unary(sign_function); }
  void operator()(const op::Floor&) {
    unary([this](MpBall& y, const MpBall& x) { floor_function(y, x, scratch_[0]); });
  }
  void operator()(const op::Ceil&) {
    unary([this](MpBall& y, const MpBall& x) { ceiling_function(y, x, scratch_[0]); });
  }
  void operator()(const op::Round&) {
    unary([this](MpBall& y, const MpBall& x) { rounding_function(y, x, scratch_[0]); });
  }
  void operator()(const op::Pow& pow) {
    shortened([p = pow.exponent](MpBall& y, const MpBall& x) { power(y, x, p); });
  }
  void operator()(const op::Clip& clip) {
    const bool has_least = std::isfinite(clip.least), has_most = std::isfinite(clip.most);
    if (has_least) assign(scratch_[0], clip.least);
    if (has_most) assign(scratch_[1], clip.most);
    unary([&](MpBall& y, const MpBall& x) {
      assign(scratch_[2], x);
      if (has_least) maximum(scratch_[2], x, scratch_[0]);
      assign(y, scratch_[2]);
      if (has_most) minimum(y, scratch_[2], scratch_[1]);
    });
  }
  void operator()(const op::ThresholdedRelu& relu) {
    assign(scratch_[0], relu.alpha);
    unary([this](MpBall& y, const MpBall& x) {
      subtract(scratch_[1], x, scratch_[0]);
      sign_function(scratch_[2], scratch_[1]);
      if (scratch_[2].is_void() || scratch_[2].is_unknown()) return assign(y, scratch_[2]);
      mpfr_sgn(scratch_[2].mid()) > 0 ? assign(y, x) : assign(y, 0.0);
    });
  }
  void operator()(const op::Relu&) { unary(rectified); }
  void operator()(const op::Tanh&) { shortened(hyperbolic_tangent); }
  void operator()(const op::Sin&) { shortened(sine); }
  void operator()(const op::Cos&) { shortened(cosine); }
  void operator()(const op::Exp&) { shortened(exponential); }
  void operator()(const op::Erf&) { shortened(error_function); }
  void operator()(const op::Sqrt&) { unary(square_root); }
  void operator()(const op::Sigmoid&) { shortened(logistic); }
  void operator()(const op::Softplus&) { shortened(soft_plus); }
  void operator()(const op::Gelu& gelu) {
    if (gelu.tanh_form) return gelu_by_sigmoid();
    shortened(gaussian_linear);
  }
  void operator()(const op::LeakyRelu& leaky) {
    assign(scratch_[1], leaky.alpha);
    unary([this](MpBall& y, const MpBall& x) { leaky_rectified(y, x, scratch_[1]); });
  }
  void operator()(const op::Elu& elu) {
    assign(scratch_[1], elu.alpha);
    unary([this](MpBall& y, const MpBall& x) { exponential_linear(y, x, scratch_[1], scratch_[0]); });
  }

  void operator()(const op::Softmax& softmax) {
    const BallTensor& x = *inputs_[0];
    const ReductionPlan plan = plan_reduction(softmax, x.shape());
    if (x.size() == 0) return;
    for (std::int64_t o = 0; o < plan.outer; ++o)
      for (std::int64_t i = 0; i < plan.inner; ++i) normalise_exponentials(x, plan, o, i);
  }

  void operator()(const Selection auto&) { select(); }
  void operator()(const op::Cast&) { unary(copy); }

  void operator()(const op::ReduceSum&) { groups(add); }
  void operator()(const op::ReduceMax&) { groups(maximum); }
  void operator()(const op::ReduceMin&) { groups(minimum); }

  void operator()(const Composite auto&) {
    std::vector<Shape> shapes;
    for (const BallInput& input : inputs_) shapes.push_back(input.shape());
    const Graph body = composite_body(op_, shapes);
    const std::vector<Shape> inner = infer_shapes(body, shapes);
    std::vector<const BallTensor*> values(body.values.size(), nullptr);
    std::deque<BallTensor> held;
    const auto hold = [&](ValueId id, BallTensor tensor) { values[id] = &held.emplace_back(std::move(tensor)); };
    for (std::size_t slot = 0; slot < inputs_.size(); ++slot) values[body.inputs[slot]] = &*inputs_[slot];
    for (ValueId id = 0; id < values.size(); ++id) {
      if (body.is_constant(id)) hold(id, BallTensor(body.value(id).constant.to_double(), result_.bits()));
    }
    for (const Node& node : body.nodes) {
      std::vector<const BallTensor*> operands;
      for (const ValueId id : node.inputs) operands.push_back(values[id]);
      hold(node.output, apply(node.op, operands, inner[node.output], result_.bits()));
    }
    result_ = std::move(held.back());  // the output is the last node's
  }

private:
  void multiply_matrices(const ProductPlan& plan) {
    const BallTensor& a = *inputs_[0];
    if (!multiply_by_constant(result_, a, inputs_[1].pairs(), plan)) multiply(result_, a, *inputs_[1], plan);
  }

  static void copy(MpBall& y, const MpBall& x) { assign(y, x); }

  /// x sigmoid(2 sqrt(2 / pi) x (1 + 0.044715 x^2)), which is precise next to itself for x << 0 too.
  void gelu_by_sigmoid() {
    MpBall &line = scratch_[0], &cube = scratch_[1], &y = scratch_[2], &z = scratch_[3];
    settle(z, mpfr_const_pi(z.mid(), MPFR_RNDN), {});
    assign(y, 8.0);
    divide(line, y, z);
    square_root(z, line);
    assign(line, z);
    assign(y, 44715.0);
    assign(z, 1e6);
    divide(cube, y, z);
    unary([&](MpBall& result, const MpBall& x) {
      driftbound::multiply(y, x, x);
      driftbound::multiply(z, y, cube);
      assign(y, 1.0);
      add(result, z, y);
      driftbound::multiply(y, result, line);
      driftbound::multiply(z, y, x);
      logistic(y, z, result);
      driftbound::multiply(result, x, y);
    });
  }

  void scale(BallTensor& tensor, double factor) {
    MpBall& product = scratch_[0];
    MpBall& exact_factor = scratch_[1];
    assign(exact_factor, factor);
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      driftbound::multiply(product, tensor[i], exact_factor);
      assign(tensor[i], product);
    }
  }

  template <class Function>
  void unary(Function function) {
    const BallTensor& x = *inputs_[0];
    for (std::size_t i = 0; i < result_.size(); ++i) function(result_[i], x[i]);
  }

  /// The same for functions that cost more with every bit: of balls that are not known to as many bits as they have,
  /// with fewer. A third argument is scratch memory.
  template <class Function>
  void shortened(Function function) {
    const auto call = [&](MpBall& y, const MpBall& x, MpBall& scratch) {
      if constexpr (std::is_invocable_v<Function, MpBall&, const MpBall&>) {
        function(y, x);
      } else {
        function(y, x, scratch);
      }
    };
    const BallTensor& x = *inputs_[0];
    std::map<int, BallTensor> short_balls;
    for (std::size_t i = 0; i < result_.size(); ++i) {
      const int bits = useful_bits(x[i], result_.bits());
      if (bits >= result_.bits()) {
        call(result_[i], x[i], scratch_[0]);
        continue;
      }
      BallTensor& balls = short_balls.try_emplace(bits, Shape{3}, bits).first->second;
      assign(balls[0], x[i]);
      call(balls[1], balls[0], balls[2]);
      assign(result_[i], balls[1]);
    }
  }

  template <class Function>
  void binary(Function function) {
    const BallTensor &a = *inputs_[0], &b = *inputs_[1];
    const BroadcastIndex left(a.shape(), result_.shape()), right(b.shape(), result_.shape());
    for (std::size_t i = 0; i < result_.size(); ++i) function(result_[i], a[left(i)], b[right(i)]);
  }

  /// The sign of a - b.
  template <class Function>
  void compare(Function function) {
    binary([&](MpBall& y, const MpBall& a, const MpBall& b) {
      subtract(scratch_[0], a, b);
      function(y, scratch_[0]);
    });
  }

  static void choose(MpBall& y, const MpBall& condition, const MpBall& a, const MpBall& b) {
    if (condition.is_void()) return make_void(y);
    if (condition.is_unknown()) return either_of(y, a, b);
    assign(y, mpfr_zero_p(condition.mid()) ? b : a);
  }

  /// Joins the terms of every group from the left.
  template <class Join>
  void groups(Join join) {
    const BallTensor& x = *inputs_[0];
    const GroupPlan plan = plan_groups(op_, x.shape());
    MpBall& next = scratch_[0];
    for (std::size_t g = 0; g < result_.size(); ++g) {
      assign(result_[g], 0.0);
      for (std::size_t j = 0; j < plan.elements.size(); ++j) {
        const MpBall& term = x[plan.groups[g] + plan.elements[j]];
        if (j == 0) {
          assign(result_[g], term);
          continue;
        }
        join(next, result_[g], term);
        assign(result_[g], next);
      }
    }
  }

  void select() {
    std::vector<Shape> shapes;
    std::vector<const BallTensor*> operands;
    for (const BallInput& input : inputs_) {
      shapes.push_back(input.shape());
      operands.push_back(&*input);
    }
    const std::vector<ElementSource> sources = plan_selection(op_, shapes, result_.shape());
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].is_fill()) {
        assign(result_[i], fill_value(op_));
      } else {
        assign(result_[i], (*operands[sources[i].input])[sources[i].index]);
      }
    }
  }

  // e^(x_i - c) / sum_j e^(x_j - c), c the largest midpoint: the quotient does not depend on c.
  void normalise_exponentials(const BallTensor& x, const ReductionPlan& plan, std::int64_t o, std::int64_t i) {
    const auto at = [&](std::int64_t j) { return plan.index(o, j, i); };
    bool any_void = false;
    std::size_t largest = at(0);
    for (std::int64_t j = 0; j < plan.length; ++j) {
      any_void = any_void || x[at(j)].is_void();
      if (mpfr_greater_p(x[at(j)].mid(), x[largest].mid())) largest = at(j);
    }
    if (any_void) {
      for (std::int64_t j = 0; j < plan.length; ++j) make_void(result_[at(j)]);
      return;
    }
    MpBall& shift = scratch_[0];
    MpBall& difference = scratch_[1];
    MpBall& sum = scratch_[2];
    MpBall& next = scratch_[3];
    assign(shift, x[largest]);
    shift.radius = Scaled();
    assign(sum, 0.0);
    for (std::int64_t j = 0; j < plan.length; ++j) {
      subtract(difference, x[at(j)], shift);
      exponential(result_[at(j)], difference);
      add(next, sum, result_[at(j)]);
      assign(sum, next);
    }
    for (std::int64_t j = 0; j < plan.length; ++j) {
      MpBall& share = result_[at(j)];
      divide(next, share, sum);
      intersect_range(next, 0.5, 0.5);
      assign(share, next);
    }
  }

  Operands inputs_;
  BallTensor result_;
  BallTensor scratch_;
  const Op& op_;
};

}  // namespace

BallTensor apply(const Op& op, std::span<const BallTensor* const> inputs, const Shape& output, int bits) {
  std::vector<BallInput> operands;
  for (const BallTensor* input : inputs) operands.emplace_back(*input);
  return apply(op, operands, output, bits);
}

BallTensor apply(const Op& op, std::span<const BallInput> inputs, const Shape& output, int bits) {
  Application application(inputs, output, bits, op);
  std::visit(application, op);
  return application.take();
}

}  // namespace driftbound
