#pragma once

#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"

/// The exact scalar of a network at single points, by plain loops over MPFR numbers that share no code with the
/// library. Networks of rectifiers are evaluated with so many bits that MPFR rounds nothing: those values are exact
/// dyadic numbers. The others carry a bound of all their roundings.
namespace mpfr_network {

/// MPFR numbers of one precision.
class Numbers {
public:
  Numbers() = default;
  Numbers(std::size_t size, mpfr_prec_t bits) : values_(size) {
    for (__mpfr_struct& value : values_) mpfr_init2(&value, bits);
  }
  Numbers(std::span<const double> values, mpfr_prec_t bits) : Numbers(values.size(), bits) {
    for (std::size_t i = 0; i < values.size(); ++i) mpfr_set_d(&values_[i], values[i], MPFR_RNDN);
  }
  Numbers(Numbers&& other) noexcept : values_(std::exchange(other.values_, {})) {}
  Numbers& operator=(Numbers&& other) noexcept {
    std::swap(values_, other.values_);
    return *this;
  }
  ~Numbers() {
    for (__mpfr_struct& value : values_) mpfr_clear(&value);
  }
  std::size_t size() const { return values_.size(); }
  mpfr_ptr operator[](std::size_t i) { return &values_[i]; }
  mpfr_srcptr operator[](std::size_t i) const { return &values_[i]; }

private:
  std::vector<__mpfr_struct> values_;
};

/// Features of one sample; |value - exact| <= error for each, and no difference at all where nothing was rounded.
struct Features {
  Features() = default;
  Features(std::size_t size, mpfr_prec_t bits) : values(size, bits), errors(size, 0.0) {}
  std::size_t size() const { return errors.size(); }
  double magnitude(std::size_t i) const { return std::abs(mpfr_get_d(values[i], MPFR_RNDA)); }

  Numbers values;
  std::vector<double> errors;
  bool is_exact = true;
};

/// f(x), known up to `error`; exactly where that is 0.
class Scalar {
public:
  Scalar(Numbers value, double error, mpfr_prec_t bits) : value_(std::move(value)), error_(error), bits_(bits) {}

  bool is_exact() const { return error_ == 0.0; }
  mpfr_prec_t bits() const { return bits_; }
  /// Empty where `error` leaves it open.
  std::optional<int> sign() const {
    if (!is_exact() && !(std::abs(mpfr_get_d(value_[0], MPFR_RNDZ)) > error_)) return {};
    return mpfr_sgn(value_[0]);
  }
  /// Whether |value - f(x)| > bound for certain, or one of them is no number.
  bool is_beyond(double value, double bound) const {
    Numbers distance(1, bits_ + 64);
    mpfr_sub_d(distance[0], value_[0], value, MPFR_RNDZ);
    mpfr_abs(distance[0], distance[0], MPFR_RNDZ);
    return !(mpfr_get_d(distance[0], MPFR_RNDZ) <= (bound + error_) * (1.0 + 0x1p-50));
  }

private:
  Numbers value_;
  double error_;
  mpfr_prec_t bits_;
};

class Program {
public:
  Program(const driftbound::Graph& graph, driftbound::Target target)
      : graph_(graph), target_(std::move(target)), constants_(graph.values.size()) {
    for (driftbound::ValueId id = 0; id < graph.values.size(); ++id)
      if (graph.is_constant(id)) constants_[id] = constant(graph.value(id).constant.to_double().values);
    is_piecewise_linear_ = std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const driftbound::Node& node) {
      return !(std::holds_alternative<driftbound::op::Elu>(node.op) ||
               std::holds_alternative<driftbound::op::Tanh>(node.op) ||
               std::holds_alternative<driftbound::op::Softplus>(node.op) ||
               std::holds_alternative<driftbound::op::Sin>(node.op));
    });
    if (is_piecewise_linear_) bits_ = 256;
  }

  bool is_piecewise_linear() const { return is_piecewise_linear_; }

  /// Of rectifiers: exactly. Else with so many bits that the sign is known, or `most_bits`.
  Scalar at(std::span<const double> point) {
    for (mpfr_prec_t bits = bits_;; bits += step_bits) {
      Scalar scalar = evaluate(point, bits);
      if (is_piecewise_linear_ && scalar.is_exact()) bits_ = bits;
      const bool is_enough = is_piecewise_linear_ ? scalar.is_exact() : scalar.sign().has_value();
      if (is_enough || bits >= most_bits) return scalar;
    }
  }

private:
  using Constant = std::pair<Numbers, std::vector<double>>;  ///< with magnitudes
  using Values = std::vector<Features>;
  static constexpr mpfr_prec_t step_bits = 128, most_bits = 8192;
  /// For the roundings of the bounds themselves, which are doubles.
  static constexpr double outward = 1.0 + 0x1p-20;

  static Constant constant(std::vector<double> values) {
    Numbers numbers(values, 53);
    for (double& value : values) value = std::abs(value);
    return {std::move(numbers), std::move(values)};
  }

  Scalar evaluate(std::span<const double> point, mpfr_prec_t bits) const {
    Values values(graph_.values.size());
    Features& input = values[graph_.inputs.front()];
    input = Features(point.size(), bits);
    for (std::size_t i = 0; i < point.size(); ++i) mpfr_set_d(input.values[i], point[i], MPFR_RNDN);
    for (const driftbound::Node& node : graph_.nodes)
      values[node.output] = std::visit([&](const auto& op) { return apply(op, node, values, bits); }, node.op);
    return scalar_of(values, bits);
  }

  Scalar scalar_of(const Values& values, mpfr_prec_t bits) const {
    const auto output = [&](const driftbound::OutputElement& of) -> const Features& {
      return values[graph_.outputs.at(of.output)];
    };
    const auto element = static_cast<std::size_t>(target_.positive.element);
    const Features& positive = output(target_.positive);
    Features scalar(1, bits);
    int inexact = mpfr_set(scalar.values[0], positive.values[element], MPFR_RNDN);
    double error = positive.errors.at(element);
    bool is_exact = positive.is_exact;
    if (target_.negative) {
      const auto other = static_cast<std::size_t>(target_.negative->element);
      const Features& negative = output(*target_.negative);
      inexact = mpfr_sub(scalar.values[0], positive.values[element], negative.values[other], MPFR_RNDN);
      error += negative.errors.at(other) + rounding(bits) * scalar.magnitude(0);
      is_exact = is_exact && negative.is_exact;
    }
    return {std::move(scalar.values), is_exact && inexact == 0 ? 0.0 : error * outward + smallest, bits};
  }

  static double rounding(mpfr_prec_t bits) { return std::ldexp(1.0, 1 - static_cast<int>(std::min<long>(bits, 1000))); }
  static constexpr double smallest = 1e-300;  ///< more than all that doubles lose by underflow

  /// Sums of products from left to right: every rounding is at most u of a partial sum of magnitudes.
  Features product(const driftbound::Node& node, const Features& x, bool is_transposed, mpfr_prec_t bits) const {
    const auto& [weights, magnitudes] = constants_[node.inputs[1]];
    const std::size_t inputs = x.size(), outputs = magnitudes.size() / inputs;
    const Constant* const bias = node.inputs.size() > 2 ? &constants_[node.inputs[2]] : nullptr;
    std::vector<double> x_magnitudes(inputs);
    for (std::size_t k = 0; k < inputs; ++k) x_magnitudes[k] = x.magnitude(k);
    Features y(outputs, bits);
    Numbers term(1, bits);
    const double u = rounding(bits) * static_cast<double>(inputs + 2);
    int inexact = x.is_exact ? 0 : 1;
    for (std::size_t j = 0; j < outputs; ++j) {
      mpfr_set_zero(y.values[j], 1);
      double inherited = 0.0, magnitude = 0.0;
      for (std::size_t k = 0; k < inputs; ++k) {
        const std::size_t at = is_transposed ? j * inputs + k : k * outputs + j;
        inexact |= mpfr_mul(term[0], x.values[k], weights[at], MPFR_RNDN);
        inexact |= mpfr_add(y.values[j], y.values[j], term[0], MPFR_RNDN);
        inherited += magnitudes[at] * x.errors[k];
        magnitude += magnitudes[at] * x_magnitudes[k];
      }
      if (bias != nullptr) {
        const std::size_t at = bias->second.size() == 1 ? 0 : j;
        inexact |= mpfr_add(y.values[j], y.values[j], bias->first[at], MPFR_RNDN);
        magnitude += bias->second.at(at);
      }
      y.errors[j] = (inherited + u * magnitude) * outward + smallest;
    }
    y.is_exact = inexact == 0;
    return y;
  }

  Features apply(const driftbound::op::Gemm& gemm, const driftbound::Node& node, Values& values,
                 mpfr_prec_t bits) const {
    if (gemm.alpha != 1.0 || gemm.beta != 1.0 || gemm.transpose_a) throw std::invalid_argument("mpfr_network: Gemm");
    return product(node, values[node.inputs[0]], gemm.transpose_b, bits);
  }
  Features apply(const driftbound::op::MatMul&, const driftbound::Node& node, Values& values, mpfr_prec_t bits) const {
    return product(node, values[node.inputs[0]], false, bits);
  }

  using Binary = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);
  Features with_constant(Binary f, bool scales, const Features& x, const Constant& constant, mpfr_prec_t bits) const {
    const auto& [numbers, magnitudes] = constant;
    Features y(x.size(), bits);
    int inexact = x.is_exact ? 0 : 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t at = numbers.size() == 1 ? 0 : i;
      inexact |= f(y.values[i], x.values[i], numbers[at], MPFR_RNDN);
      const double inherited = x.errors[i] * (scales ? magnitudes.at(at) : 1.0);
      y.errors[i] = (inherited + rounding(bits) * y.magnitude(i)) * outward + smallest;
    }
    y.is_exact = inexact == 0;
    return y;
  }
  Features sum(const Features& a, const Features& b, mpfr_prec_t bits) const {
    Features y(a.size(), bits);
    int inexact = a.is_exact && b.is_exact ? 0 : 1;
    for (std::size_t i = 0; i < a.size(); ++i) {
      inexact |= mpfr_add(y.values[i], a.values[i], b.values[i], MPFR_RNDN);
      y.errors[i] = (a.errors[i] + b.errors.at(i) + rounding(bits) * y.magnitude(i)) * outward + smallest;
    }
    y.is_exact = inexact == 0;
    return y;
  }
  /// A value and a constant, in either order; b is the constant.
  std::pair<driftbound::ValueId, driftbound::ValueId> constant_last(const driftbound::Node& node) const {
    const driftbound::ValueId a = node.inputs[0], b = node.inputs[1];
    return graph_.is_constant(a) ? std::pair(b, a) : std::pair(a, b);
  }
  Features apply(const driftbound::op::Add&, const driftbound::Node& node, Values& values, mpfr_prec_t bits) const {
    const auto [a, b] = constant_last(node);
    if (!graph_.is_constant(b)) return sum(values[a], values[b], bits);
    return with_constant(mpfr_add, false, values[a], constants_[b], bits);
  }
  Features apply(const driftbound::op::Mul&, const driftbound::Node& node, Values& values, mpfr_prec_t bits) const {
    const auto [a, b] = constant_last(node);
    if (!graph_.is_constant(b)) throw std::invalid_argument("mpfr_network: a product of two values");
    return with_constant(mpfr_mul, true, values[a], constants_[b], bits);
  }

  /// `slope` bounds that of f, which returns whether it rounded; its steps round at most 8 u (1 + |y|).
  template <class F>
  Features function(const Features& x, mpfr_prec_t bits, double slope, const F& f) const {
    Features y(x.size(), bits);
    int inexact = x.is_exact ? 0 : 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      inexact |= f(y.values[i], x.values[i]);
      y.errors[i] = (slope * x.errors[i] + 8.0 * rounding(bits) * (1.0 + y.magnitude(i))) * outward;
    }
    y.is_exact = inexact == 0;
    return y;
  }
  Features apply(const driftbound::op::Relu&, const driftbound::Node& node, Values& values, mpfr_prec_t bits) const {
    return function(values[node.inputs[0]], bits, 1.0, [](mpfr_ptr y, mpfr_srcptr x) {
      return mpfr_sgn(x) < 0 ? mpfr_set_si(y, 0, MPFR_RNDN) : mpfr_set(y, x, MPFR_RNDN);
    });
  }
  Features apply(const driftbound::op::Sin&, const driftbound::Node& node, Values& values, mpfr_prec_t bits) const {
    return function(values[node.inputs[0]], bits, 1.0,
                    [](mpfr_ptr y, mpfr_srcptr x) { return mpfr_sin(y, x, MPFR_RNDN); });
  }
  Features apply(const driftbound::op::Tanh&, const driftbound::Node& node, Values& values, mpfr_prec_t bits) const {
    return function(values[node.inputs[0]], bits, 1.0,
                    [](mpfr_ptr y, mpfr_srcptr x) { return mpfr_tanh(y, x, MPFR_RNDN); });
  }
  Features apply(const driftbound::op::Softplus&, const driftbound::Node& node, Values& values,
                 mpfr_prec_t bits) const {
    return function(values[node.inputs[0]], bits, 1.0, [](mpfr_ptr y, mpfr_srcptr x) {
      const int inexact = mpfr_exp(y, x, MPFR_RNDN);
      return inexact | mpfr_log1p(y, y, MPFR_RNDN);
    });
  }
  Features apply(const driftbound::op::Elu& elu, const driftbound::Node& node, Values& values, mpfr_prec_t bits) const {
    return function(values[node.inputs[0]], bits, std::max(1.0, std::abs(elu.alpha)), [&](mpfr_ptr y, mpfr_srcptr x) {
      if (mpfr_sgn(x) >= 0) return mpfr_set(y, x, MPFR_RNDN);
      const int inexact = mpfr_expm1(y, x, MPFR_RNDN);
      return inexact | mpfr_mul_d(y, y, elu.alpha, MPFR_RNDN);
    });
  }
  Features apply(const driftbound::op::Squeeze&, const driftbound::Node& node, Values& values, mpfr_prec_t bits) const {
    return function(values[node.inputs[0]], bits, 1.0,
                    [](mpfr_ptr y, mpfr_srcptr x) { return mpfr_set(y, x, MPFR_RNDN); });
  }
  template <class Op>
  Features apply(const Op&, const driftbound::Node& node, Values&, mpfr_prec_t) const {
    throw std::invalid_argument("mpfr_network: " + std::string(driftbound::name_of(node.op)));
  }

  const driftbound::Graph& graph_;
  driftbound::Target target_;
  std::vector<Constant> constants_;
  bool is_piecewise_linear_ = false;
  mpfr_prec_t bits_ = 192;
};

}  // namespace mpfr_network
