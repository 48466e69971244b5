#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "support/bound_checks.hpp"
#include "support/few_bits.hpp"
#include "support/theorems.hpp"

/// Rounding errors left to chance, against enumerations of what chance can do.
namespace checks {

/// P(|X_1 + … + X_n| > t) for n fair signs.
inline double sign_tail(int n, double t) {
  double tail = 0.0, log_choose = 0.0;
  for (int heads = 0; heads <= n; ++heads) {
    if (std::abs(2.0 * heads - n) > t) tail += std::exp(log_choose - n * std::log(2.0));
    log_choose += std::log((n - heads) / (heads + 1.0));
  }
  return tail;
}

/// Walks of equal steps, the worst that Azuma's inequality allows: far out more often than it says?
inline std::int64_t check_tails() {
  std::int64_t violations = 0;
  for (const double p : {0.2, 1e-2, 1e-6, 1e-9}) {
    for (const std::int64_t statements : {1, 1000}) {
      const double factor = bounds::tail_factor(p, statements);
      const double frequency = static_cast<double>(statements) * sign_tail(1000, factor * std::sqrt(1000.0));
      violations += frequency <= p ? 0 : 1;
    }
  }
  return violations;
}

/// Ten sets of a hundred elements each, the same within a set and so rounded alike: further off than the weighted
/// squares say?
inline std::int64_t check_weights() {
  constexpr int sets = 10, members = 100;
  constexpr double d = 2.0;
  std::vector<double> values;
  for (int i = 0; i < sets * members; ++i) values.push_back(static_cast<double>(i % sets));
  const std::vector<double> weights(values.size(), -d), amplitudes(values.size(), 1.0);
  const std::vector<std::uint32_t> alike = bounds::correlated_elements(values, amplitudes);
  const Magnitude squares = bounds::weighted_squares(weights, amplitudes, alike);
  std::int64_t violations = 0;
  for (const double p : {0.5, 0.1, 0.01}) {
    const double bound = bounds::with_chance(Magnitude(), squares, bounds::tail_factor(p, 1)).value();
    violations += sign_tail(sets, bound / (d * members)) <= p ? 0 : 1;
  }
  return violations;
}

/// Sums of five bits over random trees: the squares of what their roundings but the last can be, added up.
inline Tally check_squares(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  bounds::Machine machine = bounds::machine_of(cpu_arithmetic("fp32", {}));
  machine.u = FewBitSum::unit_roundoff;
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const bool is_positive = generator() % 2 == 0, has_products = generator() % 2 == 0;
    const std::size_t n = 2 + generator() % 6;
    std::vector<double> sums;
    double exact = 0.0, total = 0.0, squares = 0.0, of_roundings = 0.0;
    const auto lose = [&](double t) {
      const double largest_error = machine.u * std::exp2(std::floor(std::log2(std::abs(t))));
      if (t != 0.0) of_roundings += largest_error * largest_error;
      return FewBitSum::rounded(t);
    };
    for (std::size_t k = 0; k < n; ++k) {
      const double sign = is_positive || generator() % 2 == 0 ? 1.0 : -1.0;
      const double term = sign * static_cast<double>(16 + generator() % 16) *
                          (has_products ? static_cast<double>(16 + generator() % 16) : 1.0);
      exact += term;
      total += std::abs(term);
      squares += term * term;
      sums.push_back(has_products ? lose(term) : term);
    }
    while (sums.size() > 1) {
      const bool is_chain = generator() % 2 == 0;
      const std::size_t i = is_chain ? sums.size() - 1 : generator() % sums.size();
      const double a = sums[i];
      sums.erase(sums.begin() + static_cast<std::ptrdiff_t>(i));
      const std::size_t j = is_chain ? sums.size() - 1 : generator() % sums.size();
      sums[j] = sums.size() == 1 ? a + sums[j] : lose(a + sums[j]);
    }
    bounds::TermSizes terms;
    terms.leaves = static_cast<std::int64_t>(n);
    terms.total = Magnitude(total);
    terms.rounded = has_products ? terms.total : Magnitude();
    terms.sum = Magnitude(exact);
    terms.norm = sqrt_up(Magnitude(squares));
    tally.add(0.0, Real(of_roundings), bounds::partial_sums_squares(terms, machine).value());
  }
  return tally;
}

/// v (W x) with every rounding error as large as it can be and of a random sign.
struct SignRuns {
  std::vector<double> x;           ///< [k]
  std::vector<double> w;           ///< [k, h]
  std::vector<double> v;           ///< [h]
  bool columns_are_alike = false;  ///< the same signs in every column of W

  Graph graph() const {
    const auto k = static_cast<std::int64_t>(x.size()), h = static_cast<std::int64_t>(v.size());
    Graph graph;
    const ValueId input = add_fixed_input(graph, "x", ElementType::f32, {1, k});
    const auto constant = [&](const char* name, const Shape& shape, const std::vector<double>& values) {
      Tensor<float> tensor(shape);
      for (std::size_t i = 0; i < values.size(); ++i) tensor.values[i] = static_cast<float>(values[i]);
      return graph.add_constant(name, StoredTensor::from(tensor));
    };
    const ValueId hidden = graph.add_node("hidden", op::MatMul{}, {input, constant("w", {k, h}, w)});
    graph.outputs = {graph.add_node("y", op::MatMul{}, {hidden, constant("v", {h, 1}, v)})};
    return graph;
  }

  Trace trace(const Graph& of) const {
    Tensor<float> input({1, static_cast<std::int64_t>(x.size())});
    for (std::size_t i = 0; i < x.size(); ++i) input.values[i] = static_cast<float>(x[i]);
    Inputs inputs;
    inputs.tensors = {{"x", StoredTensor::from(input)}};
    return cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(of, inputs);
  }

  /// Share of all sign patterns whose result is further than `bound` from the exact one.
  double frequency_above(double bound) const {
    const std::size_t of_column = 2 * x.size() - 1, columns = columns_are_alike ? 1 : v.size();
    const std::size_t roundings = of_column * columns + 2 * v.size() - 1;
    const double exact = run(nullptr, 0);
    std::uint64_t above = 0;
    std::vector<double> signs(roundings);
    for (std::uint64_t pattern = 0; pattern < std::uint64_t{1} << roundings; ++pattern) {
      for (std::size_t i = 0; i < roundings; ++i) signs[i] = (pattern >> i & 1) != 0 ? 1.0 : -1.0;
      if (!(std::abs(run(signs.data(), of_column) - exact) <= bound)) ++above;
    }
    return static_cast<double>(above) * std::exp2(-static_cast<double>(roundings));
  }

private:
  static double off(double t, const double*& sign) {
    if (sign == nullptr || t == 0.0) return t;
    return t + *sign++ * 0x1p-24 * std::exp2(std::floor(std::log2(std::abs(t))));
  }

  static double dot(const std::vector<double>& a, const std::vector<double>& b, const double*& sign) {
    double sum = off(a[0] * b[0], sign);
    for (std::size_t k = 1; k < a.size(); ++k) sum = off(sum + off(a[k] * b[k], sign), sign);
    return sum;
  }

  double run(const double* signs, std::size_t of_column) const {
    std::vector<double> hidden;
    for (std::size_t j = 0; j < v.size(); ++j) {
      std::vector<double> column;
      for (std::size_t k = 0; k < x.size(); ++k) column.push_back(w[k * v.size() + j]);
      const double* of_this = signs == nullptr || columns_are_alike ? signs : signs + j * of_column;
      hidden.push_back(dot(x, column, of_this));
    }
    const double* last = signs == nullptr ? nullptr : signs + of_column * (columns_are_alike ? 1 : v.size());
    return dot(hidden, v, last);
  }
};

/// adjoint/probabilistic of the one output.
inline const BoundResult probabilistic_bound(const SignRuns& runs, double failure_probability) {
  const Graph graph = runs.graph();
  BoundOptions options;
  options.requests = {BoundKind::adjoint_probabilistic};
  options.failure_probability = failure_probability;
  return *find_bound(bound(graph, runs.trace(graph), options).layers.back().accumulated,
                     BoundKind::adjoint_probabilistic);
}

/// Numbers just above powers of two, whose roundings are as large as the theorem takes them for.
inline std::vector<SignRuns> sign_runs(std::uint64_t seed) {
  Generator generator(seed);
  const auto some = [&](std::size_t count, double size) {
    std::vector<double> values;
    for (std::size_t i = 0; i < count; ++i)
      values.push_back(static_cast<double>(static_cast<float>(size * uniform(generator, 1.0, 1.05))));
    return values;
  };
  std::vector<SignRuns> all = {{some(3, 1.0), some(3, 1.0), {16.0}}, {some(3, 1.0), some(6, 1.0), some(2, 4.0)}};
  all.push_back({some(3, 1.0), some(6, 1.0), {1.0, -1.0}});
  SignRuns alike{some(3, 1.0), {}, std::vector<double>(4, 8.0), true};
  for (const double weight : some(3, 1.0)) alike.w.insert(alike.w.end(), 4, weight);
  all.push_back(alike);
  return all;
}

/// Networks that leave their bound more often than it says.
inline std::int64_t check_sign_runs() {
  std::int64_t violations = 0;
  for (const SignRuns& runs : sign_runs(741)) {
    for (const double p : {0.1, 0.01}) {
      const double bound = probabilistic_bound(runs, p).values.values[0];
      violations += runs.frequency_above(bound) <= p ? 0 : 1;
    }
  }
  return violations;
}

/// A function that is always as far off as its table allows, in one direction: nothing that chance takes away.
inline std::int64_t check_function_at_full_size() {
  constexpr double units = 1000.0;
  const std::size_t n = 8;
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1, n});
  const ValueId ones =
      graph.add_constant("ones", StoredTensor::from(Tensor<float>({n, 1}, std::vector<float>(n, 1.0f))));
  const ValueId h = graph.add_node("h", op::Tanh{}, {x});
  graph.outputs = {graph.add_node("y", op::MatMul{}, {h, ones})};
  Trace trace;
  Tensor<float> input({1, n}), hidden({1, n});
  double sum = 0.0, off = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    input.values[i] = 0.25f + 0.125f * static_cast<float>(i);
    hidden.values[i] = static_cast<float>(std::tanh(static_cast<double>(input.values[i])));
    sum += static_cast<double>(hidden.values[i]);
    off += 0.999 * units * 0x1p-24 * std::tanh(static_cast<double>(input.values[i]));
  }
  trace.inputs.tensors = {{"x", StoredTensor::from(input)}};
  trace.arithmetic = cpu_arithmetic("fp32", {});
  for (FunctionAccuracy& entry : trace.arithmetic.functions)
    if (entry.function == "tanh") entry = {"tanh", units, Evidence::measured, "a test", 0.0};
  trace.provenance = foreign_provenance;
  trace.layers = {{"h", StoredTensor::from(hidden)},
                  {"y", StoredTensor::from(Tensor<float>({1, 1}, {static_cast<float>(sum)}))}};
  trace.samples = 1;
  BoundOptions options;
  options.requests = {BoundKind::adjoint_probabilistic};
  options.failure_probability = 0.5;
  const Bounds bounds = bound(graph, trace, options);
  const double largest =
      find_bound(bounds.layers.back().accumulated, BoundKind::adjoint_probabilistic)->values.values[0];
  return off <= largest ? 0 : 1;
}

}  // namespace checks
