#include "analysis/tolerance_rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/gamma.hpp"

namespace driftbound::analysis {
namespace {

constexpr std::int64_t rows = 64, columns = 16, heads = 1, queries = 16;

std::vector<Shape> gemm_shapes(const ToleranceRequest& request) {
  std::vector<Shape> shapes = {{rows, request.k}, {request.k, columns}};
  if (request.has_bias) shapes.push_back({columns});
  return shapes;
}
std::vector<Shape> row_shapes(const ToleranceRequest& request) {
  return {{rows, request.k}};
}
std::vector<Shape> norm_shapes(const ToleranceRequest& request) {
  return {{rows, request.k}, {request.k}};
}
std::vector<Shape> attention_shapes(const ToleranceRequest& request) {
  return {{1, heads, queries, request.k}, {1, heads, request.keys, request.k}, {1, heads, request.keys, request.k}};
}
std::vector<Shape> rotary_shapes(const ToleranceRequest& request) {
  return {{1, heads, rows, request.k}, {1, rows, request.k / 2}, {1, rows, request.k / 2}};
}

Op product_op(const ToleranceRequest& request) {
  if (request.has_bias || request.data.size() > 2) return op::Gemm{};
  return op::MatMul{};
}
Op sum_of_last_axis(const ToleranceRequest&) {
  return op::ReduceSum{{-1}, false};
}
Op softmax_op(const ToleranceRequest&) {
  op::Softmax softmax;
  softmax.axis = -1;
  return softmax;
}
template <class Norm>
Op norm_op(const ToleranceRequest& request) {
  Norm norm;
  norm.axis = -1;
  norm.epsilon = request.epsilon.value();
  return norm;
}
Op gelu_op(const ToleranceRequest&) {
  return op::Gelu{false};
}
Op rotary_op(const ToleranceRequest&) {
  return op::RotaryEmbedding{};
}

/// Which keys a mask shows.
std::vector<bool> shown_by(const StoredTensor& mask) {
  std::vector<bool> shown;
  const bool is_boolean = mask.type() == ElementType::boolean;
  for (const double x : mask.to_double().values)
    shown.push_back(is_boolean ? x != 0.0 : x != -std::numeric_limits<double>::infinity());
  return shown;
}

Op attention_op(const ToleranceRequest& request) {
  op::Attention attention;
  attention.is_causal = request.is_causal;
  attention.scale = request.scale.value_or(0.0);
  if (request.data.size() > 3) {
    attention.visible_shape = request.data[3].shape();
    attention.visible = shown_by(request.data[3]);
  }
  return attention;
}

/// x1 sigmoid(x1) x2, the halves x1, x2 of a row
Op silu_and_mul_op(const ToleranceRequest& request) {
  Graph steps;
  const std::int64_t width = request.data.empty() ? request.k : request.data.front().shape().back();
  const ValueId x = steps.add_input("x", ElementType::f64, {});
  const auto half = [&](std::int64_t first) {
    return steps.add_node(first == 0 ? "gate" : "up", op::Slice{{first}, {first + width / 2}, {-1}, {}}, {x});
  };
  const ValueId gate = steps.add_node("silu", op::Swish{}, {half(0)});
  steps.outputs = {steps.add_node("product", op::Mul{}, {gate, half(width / 2)})};
  return op::Segment{std::make_shared<const Graph>(std::move(steps))};
}

std::vector<OpRule> products_and_sums() {
  return {
      {.op = {"gemm", "a [m, k], b [k, n], bias [n]", "(k - 1) u sum |a b| + u' |y|"},
       .shapes = gemm_shapes,
       .make = product_op,
       .has_worst_data = true,
       .is_product = true,
       .axes = 2,
       .fewest = 2,
       .most = 3},
      {.op = {"conv", "patches [m, k], weights [k, n], bias [n]; k = channels x kernel extents",
              "(k - 1) u sum |x w| + u' |y|, of direct convolutions and implicit products, not of Winograd or FFT"},
       .shapes = gemm_shapes,
       .make = product_op,
       .has_worst_data = true,
       .is_product = true,
       .axes = 2,
       .fewest = 2,
       .most = 3},
      {.op = {"all-reduce", "parts [n, k]; k = ranks", "(k - 1) u sum |x| + u' |y|"},
       .shapes = row_shapes,
       .make = sum_of_last_axis,
       .has_worst_data = true},
  };
}

std::vector<OpRule> softmax_and_norms() {
  return {
      {.op = {"softmax", "x [m, k]", "y ((k + 2) u + |x - max x| u + accuracy of exp) + u' y"},
       .shapes = row_shapes,
       .make = softmax_op},
      {.op = {"attention", "q [1, h, m, k], k [1, h, keys, k], v [1, h, keys, k], mask [m, keys]",
              "sum over keys of weight times (error of the score + that of the softmax) |v|, + keys u sum |weight v| + "
              "u' |y|"},
       .shapes = attention_shapes,
       .make = attention_op,
       .is_attention = true,
       .axes = 4,
       .fewest = 3,
       .most = 4},
      {.op = {"layernorm", "x [m, k], scale [k]", "|scale| / sigma (k u mean |x| + u |x|) + 3 u |y| + u' |y|"},
       .shapes = norm_shapes,
       .make = norm_op<op::LayerNormalization>,
       .has_unit_scales = true,
       .epsilon = 1e-5,
       .fewest = 2,
       .most = 2},
      {.op = {"rmsnorm", "x [m, k], scale [k]", "|y| (k / 2 + 4) u + u' |y|"},
       .shapes = norm_shapes,
       .make = norm_op<op::RMSNormalization>,
       .has_unit_scales = true,
       .epsilon = 1e-6,
       .fewest = 2,
       .most = 2},
  };
}

std::vector<OpRule> functions_of_elements() {
  return {
      {.op = {"gelu", "x [m, k]", "|x| / 2 (accuracy of erf + 2 u) + u' |y|"},
       .shapes = row_shapes,
       .make = gelu_op,
       .has_sums = false},
      {.op = {"silu-and-mul", "x [m, k], gate and up side by side", "|y| (accuracy of sigmoid + 2 u) + u' |y|"},
       .shapes = row_shapes,
       .make = silu_and_mul_op,
       .has_halves = true,
       .has_sums = false},
      {.op = {"rotary", "x [1, h, m, k], cos [1, m, k/2], sin [1, m, k/2]", "2 u (|x1 cos| + |x2 sin|) + u' |y|"},
       .shapes = rotary_shapes,
       .make = rotary_op,
       .has_halves = true,
       .has_sums = false,
       .axes = 4,
       .fewest = 3,
       .most = 3},
  };
}

}  // namespace

const std::vector<OpRule>& tolerance_rules() {
  static const std::vector<OpRule> rules = [] {
    std::vector<OpRule> all;
    for (const auto& family : {products_and_sums(), softmax_and_norms(), functions_of_elements()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return rules;
}

const OpRule& tolerance_rule(const std::string& name) {
  for (const OpRule& rule : tolerance_rules())
    if (rule.op.name == name) return rule;
  throw InvalidArgument("tolerance: there is no op '" + name + "'; there are: " + names_of_tolerance_ops());
}

std::optional<Tensor<double>> added_by_mask(const StoredTensor& mask) {
  Tensor<double> added = mask.to_double();
  const std::vector<bool> shown = shown_by(mask);
  for (std::size_t i = 0; i < added.size(); ++i)
    if (!shown[i]) added.values[i] = 0.0;
  const bool is_nothing = std::all_of(added.values.begin(), added.values.end(), [](double x) { return x == 0.0; });
  if (mask.type() == ElementType::boolean || is_nothing) return std::nullopt;
  return added;
}

const std::vector<ToleranceOp>& tolerance_ops() {
  static const std::vector<ToleranceOp> ops = [] {
    std::vector<ToleranceOp> all;
    for (const OpRule& rule : tolerance_rules()) all.push_back(rule.op);
    return all;
  }();
  return ops;
}

std::string names_of_tolerance_ops() {
  std::string names;
  for (const ToleranceOp& op : tolerance_ops()) names += (names.empty() ? "" : ", ") + std::string(op.name);
  return names;
}

namespace {

/// e^x - 1 for x <= 1; infinite beyond.
Magnitude exp_minus_one(Magnitude x) {
  return x.value() <= 1.0 ? x + x * x : Magnitude::infinite();
}

/// 1 / (1 - x) - 1 = x / (1 - x), infinite from 1 on.
Magnitude reciprocal_growth(Magnitude x) {
  return x.value() < 1.0 ? divide_up(x, sub_down(1.0, x.value())) : Magnitude::infinite();
}

/// T-185, with the names of its formulas.
class Within {
public:
  Within(const ToleranceRequest& request, const ArithmeticModel& arithmetic)
      : request_(request),
        arithmetic_(arithmetic),
        u_(unit_roundoff(accumulator(), Rounding::nearest_even)),
        eta_(underflow_unit(accumulator(), Rounding::nearest_even, false)),
        m_(request.magnitude),
        n_(request.k) {}

  ErrorWithin softmax() const {
    const Magnitude q = row_of_softmax(n_, two * m_).one;
    return {one, q + u_ * (one + q) + eta_};
  }

  ErrorWithin attention() const {
    const std::int64_t keys = request_.keys;
    const Magnitude size(static_cast<double>(n_)), all(static_cast<double>(keys));
    const Magnitude scale =
        request_.scale ? Magnitude(*request_.scale) : divide_up(one, sqrt_down(static_cast<double>(n_)));
    const Magnitude score = scale * size * m_ * m_;
    const Magnitude roundings = growth(n_ + 8, u_.value()) + two * reciprocal_growth(off_by_relatively("sqrt", 1.0));
    const Magnitude off = score * roundings + (one + scale) * two * size * eta_;
    if (overflows(two * (one + scale) * size * m_ * m_)) return {m_, Magnitude::infinite()};
    const RowOfSoftmax row = row_of_softmax(keys, two * (score + off));
    Magnitude weights = row.all + u_ * (one + row.all) + all * eta_;
    const Format& read = format(request_.input);
    if (!holds_all_of(read, accumulator()))
      weights += Magnitude(unit_roundoff(read, Rounding::nearest_even)) * (one + weights) +
                 all * Magnitude(underflow_unit(read, Rounding::nearest_even, false));
    const Magnitude moved = exp_minus_one(two * off);
    const Magnitude sum = growth(keys, u_.value()) * m_ * (one + weights) + two * all * eta_;
    return {m_, m_ * (moved + weights) + sum};
  }

  ErrorWithin rmsnorm() const {
    const Magnitude root = divide_up(one, sqrt_down(*request_.epsilon));
    const Magnitude result = std::min(sqrt_up(Magnitude(static_cast<double>(n_))), m_ * root);
    return {result, result * factor_of_norm(growth(n_ + 3, u_.value())) + underflow_of_norm()};
  }

  ErrorWithin layernorm() const {
    const Magnitude root = divide_up(one, sqrt_down(*request_.epsilon));
    const Magnitude result =
        std::min(sqrt_up(Magnitude(static_cast<double>(std::max<std::int64_t>(n_ - 1, 0)))), two * m_ * root);
    const Magnitude merged = merging();
    const Magnitude mean = (growth(n_ + 2, u_.value()) + merged) * m_ + two * eta_;
    const Magnitude squares = growth(n_ + 6, u_.value()) + merged;
    const Magnitude variance = squares + (one + squares) * mean * mean * root * root;
    const Magnitude factor = factor_of_norm(variance);
    const Magnitude shift = mean + two * u_ * (m_ + mean);
    return {result, result * factor + shift * root * (one + factor) + underflow_of_norm()};
  }

  ErrorWithin gelu() const {
    const Magnitude erf = off_by("erf", one), root = divide_up(off_by("sqrt", two), 1.4142);
    const Magnitude c = Magnitude(0.48395) * reciprocal_growth(std::max(root, u_));
    const Magnitude v = Magnitude(0.48395) * reciprocal_growth(u_);
    const Magnitude a = erf + Magnitude(3.0) * eta_;
    const Magnitude twice = (one + u_) * (one + u_);
    const Magnitude share = Magnitude(0.5) * m_ * twice * (c + v + a);
    const bool is_covered = u_.value() <= 0x1p-6;
    const Magnitude error = (two + u_) * u_ * m_ + share + (twice * (two + a) + one) * eta_;
    return {m_, is_covered ? error : Magnitude::infinite()};
  }

  ErrorWithin silu_and_mul() const {
    const Magnitude sigmoid = off_by("sigmoid", one);
    const Magnitude gate = m_ * sigmoid + u_ * m_ * (one + sigmoid) + eta_;
    return {m_ * m_, m_ * gate + u_ * m_ * (m_ + gate) + eta_};
  }

  ErrorWithin rotary() const { return {two * m_, two * u_ * two * m_ + Magnitude(4.0) * eta_}; }

private:
  /// Sum over the row, and the largest, of the errors of weights before their division is rounded.
  struct RowOfSoftmax {
    Magnitude one, all;
  };

  const Format& accumulator() const { return format(arithmetic_.accumulator); }

  /// Error of a function whose value is `value` at most.
  Magnitude off_by(std::string_view function, Magnitude value) const {
    const FunctionAccuracy& accuracy = arithmetic_.accuracy(function);
    return Magnitude(accuracy.units) * (u_ * value + eta_) + Magnitude(accuracy.absolute_units) * u_;
  }

  /// The same relative to a value that is `least` or more.
  Magnitude off_by_relatively(std::string_view function, double least) const {
    const FunctionAccuracy& accuracy = arithmetic_.accuracy(function);
    const Magnitude absolute = Magnitude(accuracy.units) * eta_ + Magnitude(accuracy.absolute_units) * u_;
    return Magnitude(accuracy.units) * u_ + divide_up(absolute, least);
  }

  bool overflows(Magnitude largest) const { return !(largest.value() <= accumulator().largest); }

  RowOfSoftmax row_of_softmax(std::int64_t n, Magnitude apart) const {
    const FunctionAccuracy& accuracy = arithmetic_.accuracy("exp");
    const Magnitude all(static_cast<double>(n));
    const Magnitude relative = Magnitude(accuracy.units) * u_;
    const Magnitude a = Magnitude(accuracy.units) * eta_ + Magnitude(accuracy.absolute_units) * u_;
    const Magnitude tau = exp_minus_one(u_ * apart) * (one + relative) + relative;
    const Magnitude of_sum = all * u_;
    const Magnitude sigma = of_sum * (one + tau + all * a) + tau + all * a;
    if (!(sigma.value() < 1.0)) return {Magnitude::infinite(), Magnitude::infinite()};
    const double rest = sub_down(1.0, sigma.value());
    return {divide_up(tau + a + sigma, rest), divide_up(tau + all * a + sigma, rest)};
  }

  /// T-136: what merging means of parts adds, relative to the mean magnitude.
  Magnitude merging() const {
    const Magnitude log2(std::ceil(std::log2(static_cast<double>(std::max<std::int64_t>(n_, 1)))));
    return Magnitude(3.0) * u_ * (one + Magnitude(8.0) * growth(n_ + 4, u_.value())) * log2;
  }

  /// F - 1 of T-185, `squares` the relative error of the mean of the squares.
  Magnitude factor_of_norm(Magnitude squares) const {
    const double epsilon = *request_.epsilon;
    if (overflows(Magnitude(static_cast<double>(8 * n_)) * m_ * m_)) return Magnitude::infinite();
    const Magnitude flushed = divide_up(Magnitude(static_cast<double>(4 * n_)) * eta_, epsilon);
    const Magnitude rho = (one + squares + flushed) * (one + u_) * (one + u_);
    const Magnitude less = subtract_up(rho, 1.0);
    const Magnitude root = off_by_relatively("sqrt", 0.5 * std::min(1.0, sqrt_down(epsilon)));
    const Magnitude of_root = (one + reciprocal_growth(root)) * (one + reciprocal_growth(root));
    const Magnitude of_squares = sqrt_up(one + reciprocal_growth(less));
    const Magnitude of_roundings = one + reciprocal_growth(growth(6, u_.value()));
    return subtract_up(of_squares * of_root * of_roundings, 1.0);
  }

  Magnitude underflow_of_norm() const { return Magnitude(8.0) * (one + m_) * eta_; }

  inline static const Magnitude one = Magnitude(1.0), two = Magnitude(2.0);
  const ToleranceRequest& request_;
  const ArithmeticModel& arithmetic_;
  Magnitude u_, eta_, m_;
  std::int64_t n_;
};

struct WithinRule {
  std::string_view op;
  ErrorWithin (Within::*bound)() const;
};
constexpr WithinRule rules_within[] = {{"softmax", &Within::softmax},     {"attention", &Within::attention},
                                       {"layernorm", &Within::layernorm}, {"rmsnorm", &Within::rmsnorm},
                                       {"gelu", &Within::gelu},           {"silu-and-mul", &Within::silu_and_mul},
                                       {"rotary", &Within::rotary}};

}  // namespace

std::optional<ErrorWithin> error_within(const ToleranceRequest& request, const ArithmeticModel& arithmetic) {
  const bool keeps_steps = !request.stores_inside || request.output == request.accumulator;
  const bool reads_exactly =
      request.input != FormatId::tf32 && holds_all_of(format(request.accumulator), format(request.input));
  if (!keeps_steps || !reads_exactly || arithmetic.tensor_core) return std::nullopt;
  for (const WithinRule& rule : rules_within) {
    if (rule.op != request.op) continue;
    const ErrorWithin found = (Within(request, arithmetic).*rule.bound)();
    const Magnitude largest = found.result + found.error;
    const bool fits = largest.value() <= format(request.accumulator).largest;
    return fits ? std::optional(found) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace driftbound::analysis
