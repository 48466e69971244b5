#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/model/graph.hpp"
#include "support/naive.hpp"
#include "support/tally.hpp"
#include "support/theorems.hpp"

/// Compact soundness checks of the bounds: naive evaluations, exact oracles, hand-made traces. Each takes the
/// rules to use, so that the same check that must pass with the theorems must fail with a fault.
namespace checks {

using namespace driftbound;
using Generator = std::mt19937_64;

inline double uniform(Generator& generator, double low, double high) {
  return low + (high - low) * static_cast<double>(generator() >> 11) * 0x1p-53;
}

inline ValueId add_fixed_input(Graph& graph, const std::string& name, ElementType type, const Shape& shape) {
  std::vector<DeclaredDimension> declared;
  for (const std::int64_t extent : shape) declared.push_back({extent, ""});
  return graph.add_input(name, type, declared);
}

/// A graph of one op whose operands are all inputs, and the trace of one run of it.
struct OneNode {
  Graph graph;
  Trace trace;
};

/// Hand-made traces stand for runs of the library's own evaluator; `foreign` ones for those of others.
inline const Provenance own_provenance{"driftbound test", "cpu", "", "", {}};
inline const Provenance foreign_provenance{"torch 2.4", "cpu", "", "", {}};

inline OneNode one_node(const Op& op, const std::vector<Tensor<double>>& operands, const Tensor<double>& output,
                        const ArithmeticModel& arithmetic) {
  OneNode one;
  std::vector<ValueId> inputs;
  for (std::size_t slot = 0; slot < operands.size(); ++slot) {
    const std::string name = "x" + std::to_string(slot);
    inputs.push_back(add_fixed_input(one.graph, name, ElementType::f64, operands[slot].shape));
    one.trace.inputs.tensors.emplace_back(name, StoredTensor::from(operands[slot]));
  }
  one.graph.outputs.push_back(one.graph.add_node("node", op, inputs));
  one.trace.arithmetic = arithmetic;
  one.trace.provenance = own_provenance;
  one.trace.layers.push_back({"node", StoredTensor::from(output)});
  one.trace.samples = 1;
  return one;
}

inline LayerBounds bounds_of(const OneNode& one, std::vector<BoundRequest> requests = {}) {
  BoundOptions options;
  options.requests = std::move(requests);
  return bound(one.graph, one.trace, options).layers.at(0);
}

inline const BoundResult* find_bound(const std::vector<BoundResult>& list, BoundKind kind) {
  for (const BoundResult& result : list) {
    if (result.kind == kind) return &result;
  }
  return nullptr;
}

/// Every bound of a list, by kind, that claims to hold.
struct Tallies {
  Tally componentwise, partial_sums, running, order_aware, forward, folklore, shadow, any_run, any_run_in_order;
  void add(const LayerBounds& layer, std::size_t i, double computed, const Real& exact) {
    for (const BoundResult& result : layer.local) {
      if (result.guarantee == Guarantee::probabilistic) continue;
      Tally& tally = result.kind == BoundKind::componentwise  ? componentwise
                     : result.kind == BoundKind::partial_sums ? partial_sums
                     : result.kind == BoundKind::running      ? running
                     : result.kind == BoundKind::order_aware  ? order_aware
                                                              : folklore;
      tally.add(computed, exact, result.values.values[i]);
    }
    for (const BoundResult& result : layer.accumulated) {
      const double bound = result.values.values[i];
      if (result.kind == BoundKind::forward) forward.add(computed, exact, bound);
      if (result.kind == BoundKind::shadow) shadow.add(computed, exact, bound);
      if (result.kind == BoundKind::adjoint_any_order) any_run.add(computed, exact, bound);
      if (result.kind == BoundKind::adjoint_order_aware) any_run_in_order.add(computed, exact, bound);
    }
  }
  std::vector<const Tally*> claims() const {
    return {&componentwise, &partial_sums, &running, &order_aware, &forward, &shadow, &any_run, &any_run_in_order};
  }
  std::int64_t violations() const {
    std::int64_t sum = 0;
    for (const Tally* tally : claims()) sum += tally->violations;
    return sum;
  }
  std::string first_violation() const {
    for (const Tally* tally : claims()) {
      if (!tally->first_violation.empty()) return tally->first_violation;
    }
    return "";
  }
  Tallies& operator+=(const Tallies& other) {
    componentwise += other.componentwise;
    partial_sums += other.partial_sums;
    running += other.running;
    order_aware += other.order_aware;
    forward += other.forward;
    shadow += other.shadow;
    any_run += other.any_run;
    any_run_in_order += other.any_run_in_order;
    folklore += other.folklore;
    return *this;
  }
};

/// Kinds of data for dot products, each hard on another term of the bounds.
enum class Data { uniform, positive, wide, sparse, stagnation, cancellation, subnormal, huge, integers, bias, last };

inline double draw(Data data, Generator& generator) {
  switch (data) {
    case Data::positive:
      return uniform(generator, 0.5, 1.0);
    case Data::wide:
      return std::ldexp(uniform(generator, -1.0, 1.0), static_cast<int>(generator() % 60) - 30);
    case Data::sparse:
      return generator() % 2 == 0 ? 0.0 : uniform(generator, -1.0, 1.0);
    case Data::subnormal:
      return std::ldexp(uniform(generator, -1.0, 1.0), -74 - static_cast<int>(generator() % 5));
    case Data::huge:
      return std::ldexp(uniform(generator, -1.0, 1.0), 60);
    case Data::integers:
      return static_cast<double>(static_cast<int>(generator() % 9) - 4);
    default:
      return uniform(generator, -1.0, 1.0);
  }
}

struct ProductSetup {
  std::string arithmetic = "fp32";
  SummationOrder order;
  bool has_bias = false;
  double alpha = 1.0;
  double beta = 1.0;
  bool any_tree = false;                    ///< a random tree instead of `order`
  bool wide_operands = false;               ///< stored in double, narrowed by the product
  std::vector<BoundRequest> requests = {};  ///< as BoundOptions has them
};

/// Operands A [m, k] and B [k, n] of one kind, as the trace stores them.
template <class T>
std::vector<double> operand(Data data, std::size_t count, bool is_wide, Generator& generator) {
  std::vector<double> values(count);
  for (double& value : values) {
    value = draw(data, generator);
    if (!is_wide) value = static_cast<double>(static_cast<T>(value));
  }
  return values;
}

/// Rows (1, v, v, …) against ones with v half a unit in the last place of 1, and rows whose second half is the
/// first one negated. (Data::bias: a bias that cancels the product of the first row.)
template <class T>
void shape_rows(Data data, std::size_t k, std::vector<double>& a, std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t column = i % k;
    if (data == Data::stagnation)
      a[i] = column == 0 ? 1.0 : static_cast<double>(std::numeric_limits<T>::epsilon()) / 2.0;
    if (data == Data::cancellation && column >= k / 2 && column < k - k % 2) a[i] = -a[i - k / 2];
  }
  const std::size_t n = b.size() / k;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const std::size_t row = i / n;
    if (data == Data::stagnation) b[i] = 1.0;
    if (data == Data::cancellation && row >= k / 2 && row < k - k % 2) b[i] = b[i - k / 2 * n];
  }
}

/// One Gemm of m rows and n columns, evaluated naively in T.
template <class T>
Tallies check_gemm(const ProductSetup& setup, Data data, std::size_t k, Generator& generator) {
  const std::size_t m = 3, n = 4;
  const ArithmeticModel arithmetic = cpu_arithmetic(setup.arithmetic, setup.any_tree ? SummationOrder{} : setup.order);
  std::vector<double> a = operand<T>(data, m * k, setup.wide_operands, generator);
  std::vector<double> b = operand<T>(data, k * n, setup.wide_operands, generator);
  shape_rows<T>(data, k, a, b);
  std::vector<double> c = operand<T>(data == Data::subnormal ? Data::uniform : data, n, setup.wide_operands, generator);
  std::vector<double> computed(m * n);
  std::vector<Real> exact(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      std::vector<T> p, q;
      Real sum;
      for (std::size_t l = 0; l < k; ++l) {
        p.push_back(naive::as_operand(static_cast<T>(a[i * k + l]), arithmetic.input));
        q.push_back(naive::as_operand(static_cast<T>(b[l * n + j]), arithmetic.input));
        sum += Real(a[i * k + l]) * Real(b[l * n + j]);
      }
      if (data == Data::bias && i == 0) c[j] = -static_cast<double>(naive::dot(setup.order, p, q));
      const T addend = static_cast<T>(setup.beta) * static_cast<T>(c[j]);
      T y{};
      if (setup.any_tree) {
        std::vector<T> stored;
        if (setup.has_bias) stored.push_back(addend);
        y = naive::random_tree(p, q, stored, generator);
      } else {
        y = static_cast<T>(setup.alpha) * naive::dot(setup.order, p, q);
        if (setup.has_bias) y = y + addend;
      }
      computed[i * n + j] = static_cast<double>(y);
      exact[i * n + j] = Real(setup.alpha) * sum + (setup.has_bias ? Real(setup.beta) * Real(c[j]) : Real());
    }
  }
  const auto extent = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  std::vector<Tensor<double>> operands{{{extent(m), extent(k)}, a}, {{extent(k), extent(n)}, b}};
  if (setup.has_bias) operands.push_back({{extent(n)}, c});
  const OneNode one = one_node(op::Gemm{setup.alpha, setup.beta, false, false}, operands,
                               {{extent(m), extent(n)}, computed}, arithmetic);
  const LayerBounds layer = bounds_of(one, setup.requests);
  Tallies tallies;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    if (std::isfinite(computed[i])) tallies.add(layer, i, computed[i], exact[i]);
  }
  return tallies;
}

inline Tallies check_products(const ProductSetup& setup, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (int data = 0; data < static_cast<int>(Data::last); ++data) {
      const std::size_t k = 1 + generator() % 20;
      const bool is_out_of_range =
          setup.arithmetic == "fp16" && (data == static_cast<int>(Data::huge) || data == static_cast<int>(Data::wide));
      if (is_out_of_range) continue;
      tallies += setup.arithmetic == "fp64" ? check_gemm<double>(setup, static_cast<Data>(data), k, generator)
                                            : check_gemm<float>(setup, static_cast<Data>(data), k, generator);
    }
  }
  return tallies;
}

/// The orders that are declared, with their parameters.
inline std::vector<SummationOrder> declared_orders() {
  using Kind = SummationOrder::Kind;
  std::vector<SummationOrder> orders;
  for (const bool fma : {false, true}) {
    orders.push_back({Kind::sequential, 0, fma});
    orders.push_back({Kind::pairwise, 0, fma});
    orders.push_back({Kind::blocked, 3, fma});
    orders.push_back({Kind::blocked, 8, fma});
    orders.push_back({Kind::split_k, 2, fma});
    orders.push_back({Kind::split_k, 5, fma});
  }
  return orders;
}

/// Orders of parts that are dealt out, which no evaluator executes.
inline std::vector<SummationOrder> dealt_orders() {
  std::vector<SummationOrder> orders;
  for (const char* order :
       {"slices:2/neighbours", "slices:2/halves", "balanced:3:1", "balanced:4:2/neighbours", "lanes:2x1",
        "lanes:4x1/halves", "lanes:2x2/neighbours", "lanes:3x1/halves", "lanes:2x1:4", "lanes:8x1:1:front/fours",
        "slices:4/lanes:2x1", "balanced:4:1/neighbours/lanes:2x1:2/halves"})
    for (const char* fma : {"", "+fma"}) orders.push_back(parse_summation_order(std::string(order) + fma));
  return orders;
}

}  // namespace checks
