#pragma once

#include <mpfr.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/model/graph.hpp"

#ifdef DRIFTBOUND_WITH_ARB
#include <arb.h>
#endif

/// Networks evaluated point by point in libraries of many digits, as who trusts no other would: weights converted
/// before, no certificate but what the library itself gives.
namespace driftbound::bench {

constexpr long digits_bits = 113;

/// Loops of multiplications and additions.
class MpfrNumber {
public:
  MpfrNumber(double x = 0.0) {  // NOLINT(google-explicit-constructor): reads like a number
    mpfr_init2(x_, digits_bits);
    mpfr_set_d(x_, x, MPFR_RNDN);
  }
  MpfrNumber(const MpfrNumber& other) : MpfrNumber() { mpfr_set(x_, other.x_, MPFR_RNDN); }
  MpfrNumber& operator=(const MpfrNumber& other) {
    mpfr_set(x_, other.x_, MPFR_RNDN);
    return *this;
  }
  ~MpfrNumber() { mpfr_clear(x_); }

  void set(double x) { mpfr_set_d(x_, x, MPFR_RNDN); }
  double get() const { return mpfr_get_d(x_, MPFR_RNDN); }
  void dot(const MpfrNumber& start, const std::vector<MpfrNumber>& x, const MpfrNumber* weights, MpfrNumber& term) {
    mpfr_set(x_, start.x_, MPFR_RNDN);
    for (std::size_t k = 0; k < x.size(); ++k) {
      mpfr_mul(term.x_, x[k].x_, weights[k].x_, MPFR_RNDN);
      mpfr_add(x_, x_, term.x_, MPFR_RNDN);
    }
  }
  void add(const MpfrNumber& a, const MpfrNumber& b) { mpfr_add(x_, a.x_, b.x_, MPFR_RNDN); }
  void multiply(const MpfrNumber& a, const MpfrNumber& b) { mpfr_mul(x_, a.x_, b.x_, MPFR_RNDN); }
  void rectify(const MpfrNumber& a) { a.is_negative() ? mpfr_set_zero(x_, 1) : set(a); }
  void sin(const MpfrNumber& a) { mpfr_sin(x_, a.x_, MPFR_RNDN); }
  void tanh(const MpfrNumber& a) { mpfr_tanh(x_, a.x_, MPFR_RNDN); }
  void softplus(const MpfrNumber& a) {
    mpfr_exp(x_, a.x_, MPFR_RNDN);
    mpfr_log1p(x_, x_, MPFR_RNDN);
  }
  void elu(const MpfrNumber& a, const MpfrNumber& alpha) {
    if (!a.is_negative()) return set(a);
    mpfr_expm1(x_, a.x_, MPFR_RNDN);
    mpfr_mul(x_, x_, alpha.x_, MPFR_RNDN);
  }

private:
  void set(const MpfrNumber& a) { mpfr_set(x_, a.x_, MPFR_RNDN); }
  bool is_negative() const { return mpfr_sgn(x_) < 0; }
  mpfr_t x_;
};

#ifdef DRIFTBOUND_WITH_ARB
/// Balls, sums of products by arb_dot.
class ArbNumber {
public:
  ArbNumber(double x = 0.0) {  // NOLINT(google-explicit-constructor): reads like a number
    arb_init(x_);
    arb_set_d(x_, x);
  }
  ArbNumber(const ArbNumber& other) : ArbNumber() { arb_set(x_, other.x_); }
  ArbNumber& operator=(const ArbNumber& other) {
    arb_set(x_, other.x_);
    return *this;
  }
  ~ArbNumber() { arb_clear(x_); }

  void set(double x) { arb_set_d(x_, x); }
  double get() const { return arf_get_d(arb_midref(x_), ARF_RND_NEAR); }
  void dot(const ArbNumber& start, const std::vector<ArbNumber>& x, const ArbNumber* weights, ArbNumber&) {
    static_assert(sizeof(ArbNumber) == sizeof(arb_struct), "numbers lie as arb_dot reads them");
    arb_dot(x_, start.x_, 0, x.data()->x_, 1, weights->x_, 1, static_cast<slong>(x.size()), digits_bits);
  }
  void add(const ArbNumber& a, const ArbNumber& b) { arb_add(x_, a.x_, b.x_, digits_bits); }
  void multiply(const ArbNumber& a, const ArbNumber& b) { arb_mul(x_, a.x_, b.x_, digits_bits); }
  void rectify(const ArbNumber& a) { a.is_negative() ? arb_zero(x_) : arb_set(x_, a.x_); }
  void sin(const ArbNumber& a) { arb_sin(x_, a.x_, digits_bits); }
  void tanh(const ArbNumber& a) { arb_tanh(x_, a.x_, digits_bits); }
  void softplus(const ArbNumber& a) {
    arb_exp(x_, a.x_, digits_bits);
    arb_log1p(x_, x_, digits_bits);
  }
  void elu(const ArbNumber& a, const ArbNumber& alpha) {
    if (!a.is_negative()) return arb_set(x_, a.x_);
    arb_expm1(x_, a.x_, digits_bits);
    arb_mul(x_, x_, alpha.x_, digits_bits);
  }

private:
  bool is_negative() const { return arb_is_negative(x_) != 0; }
  arb_t x_;
};
#endif

/// The forward pass of one point.
template <class Number>
class PointForward {
public:
  explicit PointForward(const Graph& graph) : graph_(graph), values_(graph.values.size()) {
    for (ValueId id = 0; id < graph.values.size(); ++id)
      if (graph.is_constant(id)) {
        const std::vector<double> constant = graph.value(id).constant.to_double().values;
        values_[id].assign(constant.begin(), constant.end());
      }
    for (const Node& node : graph.nodes)
      if (const auto* gemm = std::get_if<op::Gemm>(&node.op))
        weights_[node.inputs[1]] = rows_of_outputs(graph.value(node.inputs[1]).constant.to_double(), *gemm);
  }

  /// The first output.
  double operator()(const double* point, std::size_t dimension) {
    values_[graph_.inputs[0]].resize(dimension);
    for (std::size_t c = 0; c < dimension; ++c) values_[graph_.inputs[0]][c].set(point[c]);
    for (const Node& node : graph_.nodes) evaluate(node, values_[node.output]);
    return values_[graph_.outputs[0]][0].get();
  }

private:
  static std::vector<Number> rows_of_outputs(const Tensor<double>& weights, const op::Gemm& gemm) {
    const auto rows = static_cast<std::size_t>(weights.shape[0]), columns = static_cast<std::size_t>(weights.shape[1]);
    if (gemm.transpose_b) return {weights.values.begin(), weights.values.end()};
    std::vector<Number> result;
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t k = 0; k < rows; ++k) result.emplace_back(weights.values[k * columns + j]);
    return result;
  }

  /// The constant where there is one, last.
  std::pair<ValueId, ValueId> operands(const Node& node) const {
    const ValueId a = node.inputs[0], b = node.inputs[1];
    return graph_.is_constant(a) ? std::pair(b, a) : std::pair(a, b);
  }

  void evaluate(const Node& node, std::vector<Number>& y) {
    if (std::holds_alternative<op::Gemm>(node.op)) return product(node, y);
    const bool is_pair = std::holds_alternative<op::Add>(node.op) || std::holds_alternative<op::Mul>(node.op);
    const std::vector<Number>& x = values_[is_pair ? operands(node).first : node.inputs[0]];
    y.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) evaluate(node, is_pair, x[i], i, y[i]);
  }

  void evaluate(const Node& node, bool is_pair, const Number& x, std::size_t i, Number& y) {
    if (is_pair) {
      const std::vector<Number>& other = values_[operands(node).second];
      const Number& b = other[other.size() == 1 ? 0 : i];
      return std::holds_alternative<op::Add>(node.op) ? y.add(x, b) : y.multiply(x, b);
    }
    if (std::holds_alternative<op::Relu>(node.op)) return y.rectify(x);
    if (std::holds_alternative<op::Sin>(node.op)) return y.sin(x);
    if (std::holds_alternative<op::Tanh>(node.op)) return y.tanh(x);
    if (std::holds_alternative<op::Softplus>(node.op)) return y.softplus(x);
    if (const auto* elu = std::get_if<op::Elu>(&node.op)) return y.elu(x, Number(elu->alpha));
    if (std::holds_alternative<op::Squeeze>(node.op)) return void(y = x);
    throw std::invalid_argument("bench: no digits for " + std::string(name_of(node.op)));
  }

  void product(const Node& node, std::vector<Number>& y) {
    const std::vector<Number>& x = values_[node.inputs[0]];
    const std::vector<Number>& weights = weights_.at(node.inputs[1]);
    y.resize(weights.size() / x.size());
    const std::vector<Number>* const bias = node.inputs.size() > 2 ? &values_[node.inputs[2]] : nullptr;
    for (std::size_t j = 0; j < y.size(); ++j)
      y[j].dot(bias != nullptr ? bias->at(bias->size() == 1 ? 0 : j) : zero_, x, &weights[j * x.size()], term_);
  }

  const Graph& graph_;
  std::vector<std::vector<Number>> values_;
  std::map<ValueId, std::vector<Number>> weights_;  ///< rows of outputs
  Number zero_, term_;
};

}  // namespace driftbound::bench
